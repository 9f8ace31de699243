//! The process that holds an unfinished file, and whether a run is in progress: found by their
//! locks.

use std::fs::File;

use super::directory::Directory;
use super::error::{Result, TreeError};
use super::lock::try_lock;
use super::metadata::Stat;
use super::names::{Name, StagingKind, StagingName};
use crate::user::file_user;

/// Result of trying to lock an unfinished file: another process holds it, or this one does from now
/// on.
#[derive(Debug)]
pub enum Holder {
    /// Another process holds the file.
    Another,
    /// This process holds the file, as long as this value lives.
    Own {
        /// The locked file; `None` for what cannot be locked: a link, a directory, a device.
        locked: Option<(File, Stat)>,
    },
}

impl Holder {
    /// Locks the file `name` without waiting, and holds the lock as long as the result lives;
    /// [`Holder::Another`] if it is locked. Only a regular file can be locked: anything else counts
    /// as own. A lock that was free is no proof that the run of the file has ended.
    ///
    /// # Errors
    /// The holder cannot be determined: the file cannot be opened or locked.
    pub fn lock(directory: &Directory, name: &Name) -> Result<Self> {
        match directory.open_file(name) {
            Ok((file, stat)) => match try_lock(&file) {
                Ok(true) => Ok(Self::Own { locked: Some((file, stat)) }),
                Ok(false) => Ok(Self::Another),
                Err(cause) => Err(TreeError::System { path: directory.path_of(name), call: "flock", cause }),
            },
            Err(TreeError::NotAFile { .. }) => Ok(Self::Own { locked: None }),
            Err(error) => Err(error),
        }
    }
}

/// State of a run whose journal is in a directory, by the lock on that journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunState {
    /// The run was interrupted.
    Ended,
    /// The run is in progress.
    Held,
}

impl RunState {
    /// State of the run that has its journal in this directory; of several, one in progress. `None`
    /// if there is no journal, or the directory cannot be read.
    #[must_use]
    pub fn of(directory: &Directory) -> Option<Self> {
        directory.entries().ok()?.iter().filter_map(|entry| Self::of_journal(directory, entry.name)).max()
    }

    /// State of the run whose journal has this name; `None` if the file is no such journal. Any user
    /// may make a file of that name where others may make files: it counts as an ended run only if
    /// it is this user's, or for root, whose searches are for all users.
    fn of_journal(directory: &Directory, name: &[u8]) -> Option<Self> {
        StagingName::parse(name).filter(|staging| staging.kind == StagingKind::Run)?;
        match Holder::lock(directory, &Name::new(name).ok()?).ok()? {
            Holder::Another => Some(Self::Held),
            Holder::Own { locked: Some((_, stat)) } => {
                (stat.uid == file_user() || file_user() == 0).then_some(Self::Ended)
            }
            Holder::Own { locked: None } => None,
        }
    }
}
