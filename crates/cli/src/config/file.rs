//! Paths and contents of files of settings.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use icdc_trust::{Paths, open_settings};

/// Environment variable that names a file in place of the user's.
const USER: &str = "ICDC_CONFIG";
/// Environment variable that names a file in place of [`SYSTEM_FILE`].
const SYSTEM: &str = "ICDC_SYSTEM_CONFIG";
/// Value of the variable [`USER`] with which neither files nor variables are used.
const NOTHING: &str = "none";
/// Path of the file with settings for all users of a host.
const SYSTEM_FILE: &str = "/etc/icdc/config.toml";
/// Size of the largest file of settings that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Whether configuration files and variables are switched off by the user's variable.
fn are_off(user: Option<&OsStr>) -> bool {
    user.is_some_and(|value| value == NOTHING)
}

/// Makes sure that neither files nor variables of settings are used in this process: executes this
/// program anew with the same command line and [`USER`] set, unless it is set already.
///
/// # Errors
/// The program cannot be started.
#[cfg(feature = "experiments")]
pub(crate) fn switch_off() -> io::Result<()> {
    if are_off(env::var_os(USER).as_deref()) {
        return Ok(());
    }
    let mut again = std::process::Command::new(env::current_exe()?);
    again.args(env::args_os().skip(1)).env(USER, NOTHING);
    Err(std::os::unix::process::CommandExt::exec(&mut again))
}

/// Path where a file of settings may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// A variable names it: it has to be there.
    pub(super) is_named: bool,
}

/// Paths of the files of settings, the user's first; `None` where neither files nor variables are
/// used.
pub(super) fn places() -> Option<Vec<Place>> {
    places_from(env::var_os(USER), env::var_os(SYSTEM), Paths::from_environment().map(|paths| paths.settings))
}

/// The paths by the values of both variables and the usual path of the user's file; an empty
/// variable leaves that file out.
fn places_from(user: Option<OsString>, system: Option<OsString>, usual: Option<PathBuf>) -> Option<Vec<Place>> {
    if are_off(user.as_deref()) {
        return None;
    }
    let place = |named: Option<OsString>, usual: Option<PathBuf>| match named {
        Some(path) => (!path.is_empty()).then(|| Place { path: path.into(), is_named: true }),
        None => usual.map(|path| Place { path, is_named: false }),
    };
    Some([place(user, usual), place(system, Some(SYSTEM_FILE.into()))].into_iter().flatten().collect())
}

impl Place {
    /// Contents of the file of settings; `None` if there is no file at this path.
    ///
    /// # Errors
    /// It is there and cannot be used, or a variable names it and it is not there.
    pub(super) fn read(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let path = &self.path;
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if !self.is_named && is_missing(&error) => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("{}: cannot be used{}", path.display(), self.remedy()));
            }
        };
        ensure!(
            metadata.is_file(),
            "{} is not a file{}; settings must be in a text file",
            path.display(),
            if metadata.is_dir() { " but a directory" } else { "" }
        );
        let file = open_settings(path).with_context(|| format!("settings are not read{}", self.remedy()))?;
        read(file, path).map(Some)
    }

    /// Text for errors: how to run without the file; empty if a variable names it.
    fn remedy(&self) -> &'static str {
        match (self.is_named, self.path == Path::new(SYSTEM_FILE)) {
            (true, _) => "",
            (false, true) => " (to do without the file, set ICDC_SYSTEM_CONFIG to nothing: ICDC_SYSTEM_CONFIG=)",
            (false, false) => " (to do without the file, set ICDC_CONFIG to nothing: ICDC_CONFIG=)",
        }
    }
}

/// Whether the error says that there is no such file.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Contents of an opened file of settings; an error if it is too long.
fn read(file: fs::File, path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).with_context(|| format!("{}: cannot be read", path.display()))?;
    if bytes.len() as u64 > LONGEST {
        bail!("{} is longer than {LONGEST} bytes and is not read; is it a file of settings?", path.display());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_other_files_or_none() {
        let paths = |user: Option<&str>, system: Option<&str>| {
            let places = places_from(user.map(Into::into), system.map(Into::into), Some("/h/config.toml".into()))?;
            let shown = |place: Place| format!("{} {}", place.path.display(), place.is_named);
            Some(places.into_iter().map(shown).collect::<Vec<_>>())
        };
        let list = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(paths(None, None), list(&["/h/config.toml false", "/etc/icdc/config.toml false"]));
        assert_eq!(paths(Some(""), Some("/s")), list(&["/s true"]));
        assert_eq!(paths(Some("/u"), Some("")), list(&["/u true"]));
        assert_eq!(paths(Some("none"), Some("/s")), None);
    }
}
