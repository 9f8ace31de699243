//! Files with the facts of a system: of this one, or of a directory tree that looks like one.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Number of bytes of a file that are read at most; no single value comes near.
const LONGEST: u64 = 1 << 20;

/// The system that is examined, by the root of its files.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
}

/// Result of reading a value of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Text of the value, without white space around it.
    Value(String),
    /// There is no such file: the kernel does not have it, or shows it elsewhere.
    Missing,
    /// The file exists and cannot be read.
    Unreadable(String),
}

impl System {
    /// The running system.
    #[must_use]
    pub fn running() -> Self {
        Self::at(PathBuf::from("/"))
    }

    /// A tree with `/proc`, `/sys`, `/etc` and `/var/lib` below `root`. What only a kernel can be
    /// asked is unknown of it.
    #[must_use]
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Whether it is the running system, so that the kernel may be queried as well.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Path of the file that the system itself calls `path`.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a value from a file of the system.
    #[must_use]
    pub fn read(&self, path: &str) -> Reading {
        let mut bytes = Vec::new();
        match File::open(self.path(path)).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes)) {
            Ok(_) => Reading::Value(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Reading::Missing
            }
            Err(error) => Reading::Unreadable(error.to_string()),
        }
    }

    /// Text of a value; `None` if it is missing or cannot be read.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        match self.read(path) {
            Reading::Value(text) => Some(text),
            Reading::Missing | Reading::Unreadable(_) => None,
        }
    }

    /// Names in a directory, in order; none if it cannot be listed.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let system = System::at(root.path().to_owned());
        fs::create_dir_all(system.path("/proc/sys/net")).unwrap();
        fs::write(system.path("/proc/sys/net/one"), " 7\t8 \n").unwrap();
        assert_eq!(system.read("/proc/sys/net/one"), Reading::Value("7\t8".to_owned()));
        assert_eq!(system.read("/proc/sys/net/two"), Reading::Missing);
        assert_eq!(system.read("/proc/sys/net/one/below"), Reading::Missing);
        assert!(matches!(system.read("/proc/sys/net"), Reading::Unreadable(_)));
        assert_eq!(system.names("/proc/sys/net"), ["one"]);
        assert!(system.names("/nowhere").is_empty());
        assert!(!system.is_running() && System::running().is_running());
    }
}
