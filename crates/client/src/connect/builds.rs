//! Builds of this release for other machines, for a far side that this program does not run on.
//!
//! A build is identified by a mark within its bytes, because it cannot be run here:
//!
//! ```text
//! ICDC-BUILD VERSION ARCHITECTURE ICDC-BUILD-END
//! ```
//!
//! It is sent only if version and architecture match, and if only root and this user can have
//! written it or replaced a directory of its path: it runs on the far side as the user. The
//! descriptor that was checked is the one that is sent.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use icdc_trust::{TrustError, is_own, open_settings};

/// Processors for which builds are searched, as `uname -m` names them: those of `make dist`.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];
/// The release of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Text of the reason for refusing a build that others may write to.
const OTHERS_MAY_WRITE: &str = "others may have written it: it must be yours or root's, and nobody else's to write";
/// Maximum size of a build that is read, in bytes; it allows for debug information.
const LARGEST: u64 = 1 << 30;
/// Number of bytes of a file that are read at a time to search for the mark.
const CHUNK: u64 = 1 << 20;

macro_rules! mark {
    ($architecture:literal) => {
        concat!("ICDC-BUILD ", env!("CARGO_PKG_VERSION"), " ", $architecture, " ICDC-BUILD-END")
    };
}

/// Mark in the bytes of this program, which identifies its release and processor.
#[cfg(target_arch = "x86_64")]
const MARK: &str = mark!("x86_64");
/// Mark in the bytes of this program, which identifies its release and processor.
#[cfg(target_arch = "aarch64")]
const MARK: &str = mark!("aarch64");
/// Mark in the bytes of this program, which identifies its release and processor.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MARK: &str = mark!("other");

/// Bytes with which a build's mark begins.
const BEGINNING: &[u8] = b"ICDC-BUILD ";
/// Bytes with which a build's mark ends.
const END: &[u8] = b" ICDC-BUILD-END";
/// Maximum length of a mark in bytes.
const LONGEST: usize = 128;

/// A program file of this release for another kind of machine, which `--send-self` may send to a
/// far side.
#[derive(Debug)]
pub(super) struct Build {
    /// System and processor that the build is for, as `uname -sm` prints them.
    pub(super) machine: String,
    pub(super) path: PathBuf,
    /// Open file of the build, which was checked.
    pub(super) file: File,
}

/// Directories of this host that are searched for builds for other machines.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Directory of this program's file.
    beside: Option<PathBuf>,
    /// Directory of the user's data.
    data: Option<PathBuf>,
}

impl Places {
    /// Search directories for this program and user.
    pub(super) fn of_this_program() -> Self {
        // The log line keeps the mark in the program's bytes.
        tracing::debug!("looking for builds like {MARK}");
        let program = std::env::current_exe().ok();
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
        Self { beside: program.and_then(|path| Some(path.parent()?.to_owned())), data }
    }

    /// Paths of possible builds for a processor; the first that exists is used.
    fn files(&self, architecture: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        if let Some(beside) = &self.beside {
            files.push(beside.join(format!("icdc-{architecture}")));
            let prefix = beside.parent();
            let archive = prefix.and_then(Path::parent);
            files.extend(archive.map(|archive| archive.join(format!("icdc-{VERSION}-{architecture}/bin/icdc"))));
            files.extend(prefix.map(|prefix| prefix.join(format!("lib/icdc/{architecture}/icdc"))));
        }
        files.extend(self.data.as_ref().map(|data| data.join(format!("icdc/{architecture}/icdc"))));
        let packaged = PathBuf::from(format!("/usr/lib/icdc/{architecture}/icdc"));
        if !files.contains(&packaged) {
            files.push(packaged);
        }
        files
    }

    /// Builds for machines other than `here`, at most one for each kind.
    pub(super) fn others(&self, here: &str) -> Vec<Build> {
        let machines = ARCHITECTURES.into_iter().map(|architecture| (architecture, machine(architecture)));
        let found = machines.filter(|(_, machine)| machine != here).filter_map(|(architecture, machine)| {
            let mut files = self.files(architecture).into_iter();
            files.find_map(|path| {
                let file = open_build(&path, architecture).ok()?;
                Some(Build { machine: machine.clone(), path, file })
            })
        });
        found.collect()
    }

    /// Sentence that says why there is no build for `machine`, and names the paths that were
    /// tried.
    pub(super) fn none_for(&self, machine: &str) -> String {
        let architecture = machine.rsplit(' ').next().unwrap_or_default();
        if !ARCHITECTURES.contains(&architecture) || !machine.starts_with("Linux ") {
            return "there is no build of icdc for it".to_owned();
        }
        let describe = |path: &PathBuf| match open_build(path, architecture) {
            Err(NoBuild::Missing) | Ok(_) => path.display().to_string(),
            Err(NoBuild::Wrong(reason)) => format!("{} (not used: {reason})", path.display()),
        };
        let places: Vec<String> = self.files(architecture).iter().map(describe).collect();
        format!("no build of icdc {VERSION} for it was found on this host: looked for {}", places.join(", "))
    }
}

/// Name of a Linux machine with this processor, as `uname -sm` prints it.
fn machine(architecture: &str) -> String {
    format!("Linux {architecture}")
}

/// Reason for not using a file as a build.
#[derive(Debug)]
enum NoBuild {
    /// The file does not exist.
    Missing,
    /// The file cannot be used, for this reason.
    Wrong(String),
}

impl From<io::Error> for NoBuild {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Wrong(error.to_string()),
        }
    }
}

/// Opens a file if it is a build of this release for the processor `architecture`.
fn open_build(path: &Path, architecture: &str) -> Result<File, NoBuild> {
    let wrong = |reason: &str| Err(NoBuild::Wrong(reason.to_owned()));
    // A pipe must not keep this waiting.
    if !path.metadata()?.is_file() {
        return wrong("it is no file");
    }
    let mut file = match open_settings(path) {
        Ok(file) => file,
        Err(TrustError::Io { cause, .. }) => return Err(cause.into()),
        Err(TrustError::Unsafe { path: exposed, what, .. }) if exposed != path => {
            return wrong(&format!("others may have exchanged it: {}: {what}", exposed.display()));
        }
        Err(_) => return wrong(OTHERS_MAY_WRITE),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return wrong("it is no program");
    }
    if !is_own(&metadata) || metadata.mode() & 0o022 != 0 {
        return wrong(OTHERS_MAY_WRITE);
    }
    let marks = marks(&mut file)?;
    file.rewind()?;
    match marks {
        found if found.is_empty() => wrong("it tells no version"),
        // A file with two marks could be either.
        found if found.iter().any(|(version, _)| version != VERSION) => wrong(&format!("it is icdc {}", found[0].0)),
        found if found.iter().any(|(_, built_for)| built_for != architecture) => {
            wrong(&format!("it is for {}", found[0].1))
        }
        _ => Ok(file),
    }
}

/// Version and architecture of each mark in a file.
fn marks(file: &mut File) -> io::Result<Vec<(String, String)>> {
    let (mut found, mut window) = (Vec::new(), Vec::new());
    loop {
        let read = file.by_ref().take(CHUNK).read_to_end(&mut window)?;
        // A mark that begins behind this may continue in the next chunk.
        let end = if read == 0 { window.len() } else { window.len().saturating_sub(LONGEST) };
        let begins = |at: &usize| window[*at] == BEGINNING[0] && window[*at..].starts_with(BEGINNING);
        found.extend((0..end).filter(begins).filter_map(|at| mark_at(&window[at..])));
        if read == 0 {
            return Ok(found);
        }
        window.drain(..end);
    }
}

/// Version and architecture of the mark with which `bytes` begin; `None` if they begin with none.
fn mark_at(bytes: &[u8]) -> Option<(String, String)> {
    let bytes = &bytes[BEGINNING.len()..bytes.len().min(LONGEST)];
    let end = bytes.windows(END.len()).position(|bytes| bytes == END)?;
    let (version, architecture) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte))
    };
    (plain(version) && plain(architecture)).then(|| (version.to_owned(), architecture.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(directory: &tempfile::TempDir, contents: &[u8]) -> PathBuf {
        let path = directory.path().join("build");
        std::fs::write(&path, contents).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn why_not(path: &Path) -> String {
        match open_build(path, "aarch64") {
            Err(NoBuild::Wrong(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_build_is_known_by_its_mark_wherever_that_lies() {
        let directory = tempfile::tempdir().unwrap();
        let mark = mark!("aarch64").as_bytes();
        let chunk = CHUNK as usize;
        for before in [0, 1, 100, chunk - 200, chunk - 130, chunk - 50, chunk - 1, chunk, 2 * chunk - 7] {
            let contents =
                [&vec![b'I'; before], b"ICDC-BUILD  and ICDC-BUILD without an end ".as_slice(), mark].concat();
            open_build(&file(&directory, &contents), "aarch64").unwrap_or_else(|why| panic!("{before}: {why:?}"));
        }
        assert!(MARK.ends_with(&format!("{} ICDC-BUILD-END", std::env::consts::ARCH)), "{MARK}");
    }

    #[test]
    fn what_is_no_build_of_this_release_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let mark = mark!("aarch64");
        let is_missing = |path: &Path| matches!(open_build(path, "aarch64"), Err(NoBuild::Missing));
        assert!(is_missing(&directory.path().join("none")));
        assert!(is_missing(&file(&directory, b"").join("within")));
        assert!(why_not(directory.path()).contains("no file"));
        assert!(why_not(&file(&directory, b"#!/bin/sh\n")).contains("no version"));
        assert!(why_not(&file(&directory, mark.replace(VERSION, "9.9.9").as_bytes())).contains("it is icdc 9.9.9"));
        let other = mark.replace("aarch64", "x86_64");
        assert!(why_not(&file(&directory, other.as_bytes())).contains("it is for x86_64"));
        assert!(why_not(&file(&directory, format!("{mark}{other}").as_bytes())).contains("it is for"));
        let path = file(&directory, mark.as_bytes());
        for mode in [0o775, 0o757] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(why_not(&path).contains("others may have written it"));
        }
    }

    #[test]
    fn a_build_that_others_could_have_exchanged_is_not_sent() {
        let directory = tempfile::tempdir().unwrap();
        let open = directory.path().join("open");
        let inner = open.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::rename(file(&directory, mark!("aarch64").as_bytes()), inner.join("build")).unwrap();
        let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(directory.path(), 0o755);
        for others_may_write in [0o777, 0o775] {
            mode(&open, others_may_write);
            let reason = why_not(&inner.join("build"));
            assert!(reason.contains("exchanged it") && reason.contains(open.to_str().unwrap()), "{reason}");
        }
        mode(directory.path(), 0o700);
        open_build(&inner.join("build"), "aarch64").expect("nobody else gets to it");
    }

    #[test]
    fn places_are_named_where_there_is_no_build() {
        let beside = Some(PathBuf::from("/opt/icdc-1/bin"));
        let places = Places { beside, data: Some("/home/me/.local/share".into()) };
        let told = places.none_for("Linux aarch64");
        for place in [
            "/opt/icdc-1/bin/icdc-aarch64",
            &format!("/opt/icdc-{VERSION}-aarch64/bin/icdc"),
            "/opt/icdc-1/lib/icdc/aarch64/icdc",
            "/home/me/.local/share/icdc/aarch64/icdc",
            "/usr/lib/icdc/aarch64/icdc",
        ] {
            assert!(told.contains(place), "{place}: {told}");
        }
        assert!(places.none_for("Linux vax").contains("no build"));
        assert!(places.none_for("FreeBSD aarch64").contains("no build"));
    }
}
