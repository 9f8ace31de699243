//! What is known of a lab outside its wire: a directory each, with
//!
//! | file | what |
//! |---|---|
//! | `lab.json` | [`State`], once the lab stands |
//! | `page` | what the wire tells ([`crate::wire::page`]) |
//! | `log` | the wire's last words |
//! | `frames` | frames one by one, where a scenario asks for them (`crate::wire::listing`) |

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::namespaces::{Host, Namespaces};
use crate::settings::Settings;
use crate::wire::Order;

/// File of the page.
pub(crate) const PAGE: &str = "page";
/// File of the wire's words.
pub(crate) const LOG: &str = "log";
/// File of the list of frames.
pub(crate) const FRAMES: &str = "frames";
const STATE: &str = "lab.json";

/// A lab that stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// Its name.
    pub name: String,
    /// What it is like.
    pub settings: Settings,
    /// The process that is its path.
    pub wire: Process,
    /// Whether it lives in a user namespace of its own.
    pub user_namespace: bool,
    /// Path and inode of the namespaces of host a, host b and the wire.
    pub namespaces: [(PathBuf, u64); 3],
    /// Processors that the wire has to itself as far as the lab is concerned.
    pub wire_processors: Vec<usize>,
}

/// A process that cannot be mistaken for a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// When it began, in clock ticks since the machine did.
    pub started: u64,
}

impl Process {
    /// The calling process.
    pub(crate) fn this() -> Self {
        let id = std::process::id();
        Self { id, started: started(id).unwrap_or(0) }
    }

    /// The process of this number, if there is one.
    pub(crate) fn of(id: u32) -> Option<Self> {
        Some(Self { id, started: started(id)? })
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(self) -> bool {
        started(self.id) == Some(self.started)
    }
}

/// Field 22 of /proc/PID/stat (proc(5)); a zombie counts as gone.
fn started(id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may contain anything.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl State {
    pub(crate) fn new(order: &Order, namespaces: &Namespaces, wire_processors: Vec<usize>) -> Result<Self, LabError> {
        let mut places = Vec::new();
        for host in Host::ALL {
            places.push((namespaces.path(host), namespaces.inode(host)?));
        }
        let namespaces = places.try_into().expect("there are three");
        Ok(Self {
            name: order.name.clone(),
            settings: order.settings.clone(),
            wire: Process::this(),
            user_namespace: order.user_namespace,
            namespaces,
            wire_processors,
        })
    }

    pub(crate) fn save(&self, directory: &Path) -> Result<(), LabError> {
        let text = serde_json::to_vec_pretty(self).expect("plain data");
        let (path, aside) = (directory.join(STATE), directory.join("lab.json.new"));
        fs::write(&aside, text)
            .and_then(|()| fs::rename(&aside, &path))
            .map_err(|error| LabError::io(format!("write {}", path.display()), error))
    }

    /// Reads the state of a lab; `None` if it never came to stand.
    pub(crate) fn load(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(directory.join(STATE)).ok()?).ok()
    }
}

/// Tells programs on a host of a lab where labs are noted: inside a user namespace everybody is root.
pub(crate) const DIRECTORY_VARIABLE: &str = "ICDC_LABS";

/// Tells programs on a host of a lab which lab that is.
pub const NAME_VARIABLE: &str = "ICDC_LAB";

/// The directory of all labs of this user.
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

/// Makes the directory of a new lab.
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

/// The directory of a lab that may stand.
pub(crate) fn find(name: &str) -> Result<PathBuf, LabError> {
    check_name(name)?;
    let own = directory()?.join(name);
    if own.is_dir() { Ok(own) } else { Err(LabError::NoLab { name: name.to_owned(), others: names()? }) }
}

/// Names of all labs of this user.
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

/// The wire's last words.
pub(crate) fn last_words(directory: &Path) -> String {
    let log = fs::read_to_string(directory.join(LOG)).unwrap_or_default();
    log.lines().last().unwrap_or("none").to_owned()
}

fn check_name(name: &str) -> Result<(), LabError> {
    let fits = (1..=32).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !name.starts_with('-');
    if fits { Ok(()) } else { Err(LabError::Name(name.to_owned())) }
}
