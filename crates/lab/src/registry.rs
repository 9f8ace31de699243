//! The labs of this user: a directory each, with
//!
//! | file | what |
//! |---|---|
//! | `lab.json` | [`LabRecord`](crate::LabRecord), once the lab stands |
//! | `namespaces` | names of its network namespaces, where they have names |
//! | `page` | counters and series of the path ([`Page`](crate::Page)) |
//! | `log` | standard error of the wire |
//! | `frames` | frames one by one, where that is asked for ([`listing`](crate::wire::listing)) |

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// Name of the file of the lab's counters (its page) in the lab's directory.
pub(crate) const PAGE: &str = "page";
/// Name of the file in a lab's directory with the wire's standard error.
pub(crate) const LOG: &str = "log";
/// Name of the file in a lab's directory that lists frames one by one, where
/// [`Settings::listed`](crate::Settings::listed) asks for that.
pub const FRAMES: &str = "frames";

/// Name of the variable that gives programs on a host of a lab the directory of labs: in a user
/// namespace every user is root.
pub(crate) const DIRECTORY_VARIABLE: &str = "ICDC_LABS";

/// Name of the variable that gives programs on a host of a lab the lab's name.
pub const NAME_VARIABLE: &str = "ICDC_LAB";

/// Directory that holds the directories of all labs of this user; it may not exist yet.
///
/// # Errors
/// See [`LabError`].
pub(crate) fn directory() -> Result<PathBuf, LabError> {
    if let Some(told) = std::env::var_os(DIRECTORY_VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(told));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/run/icdc/lab"));
    }
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(runtime) = variable("XDG_RUNTIME_DIR").filter(|path| path.is_dir()) {
        return Ok(runtime.join("icdc/lab"));
    }
    match variable("HOME") {
        Some(home) => Ok(home.join(".local/state/icdc/lab")),
        None => Err(LabError::NoPlace),
    }
}

/// Makes the directory of a new lab, which reserves its name: an error if there is one already.
///
/// # Errors
/// See [`LabError`].
pub(crate) fn reserve(name: &str) -> Result<PathBuf, LabError> {
    check_name(name)?;
    let parent = directory()?;
    let failed = |path: &Path, error| LabError::io(format!("make the directory {}", path.display()), error);
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&parent).map_err(|error| failed(&parent, error))?;
    let own = parent.join(name);
    match fs::DirBuilder::new().mode(0o755).create(&own) {
        Ok(()) => Ok(own),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(LabError::Exists(name.to_owned())),
        Err(error) => Err(failed(&own, error)),
    }
}

/// The directory of a lab, which may have ended.
///
/// # Errors
/// See [`LabError`].
pub(crate) fn find(name: &str) -> Result<PathBuf, LabError> {
    check_name(name)?;
    let own = directory()?.join(name);
    if own.is_dir() { Ok(own) } else { Err(LabError::NoLab { name: name.to_owned(), others: names()? }) }
}

/// Names of all labs of this user.
///
/// # Errors
/// See [`LabError`].
pub fn names() -> Result<Vec<String>, LabError> {
    let directory = directory()?;
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LabError::io(format!("read {}", directory.display()), error)),
    };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// Last line of the wire's log in a lab's directory, for error messages; the text `none` if it is
/// empty.
pub(crate) fn last_log_line(directory: &Path) -> String {
    let log = fs::read_to_string(directory.join(LOG)).unwrap_or_default();
    log.lines().last().unwrap_or("none").to_owned()
}

/// Checks that a text can name a lab: 1 to 32 letters, digits and hyphens, the first not a hyphen.
fn check_name(name: &str) -> Result<(), LabError> {
    let fits = (1..=32).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !name.starts_with('-');
    if fits { Ok(()) } else { Err(LabError::Name(name.to_owned())) }
}
