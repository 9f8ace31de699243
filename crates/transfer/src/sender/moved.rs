//! Items of a move as they were announced, and their removal at the source.
//!
//! A name is removed only if it still is the item that was announced, in the version that was read.
//! A directory is removed only if it is empty, which the kernel checks as it removes it.

use std::collections::BTreeMap;

use crossbeam_channel::Sender as Channel;
use icdc_disk::has_writers;
use icdc_disk::tree::{Directory, Kind, Name, Stat, TreeError, Whereabouts};
use icdc_protocol::limits::MAX_LINKED;
use icdc_protocol::message::EntryId;
use icdc_session::ById;
use icdc_session::sender::Removed;

/// Reason why an item stays that is not in the announced version any more.
const CHANGED: &str = "was copied, and has changed at the source since; it stays there: copy it again";
/// Reason why an item stays that somebody may still write to.
const OPEN: &str = "was copied, and a program has it open for writing at the source; it stays there: copy it again when that is through";
/// Reason why an item stays that cannot be kept for the end.
pub(super) const TOO_MANY: &str = "was copied, and stays at the source: too many files with several names wait to be removed; run the same command again";

/// Work for the thread that removes moved items at the source.
pub(super) enum RemovalJob {
    /// Removes an item that the receiver has published.
    Item(EntryId),
    /// Removes a directory that the receiver has finished.
    Directory(EntryId, Vec<u8>),
    /// Removes what was kept for the end.
    Rest,
}

/// An announced item that is to be removed at the source. It holds no descriptor of its own.
pub(super) struct ItemToRemove {
    /// Directory of the source that was named.
    pub(super) root: Directory,
    /// Directory of the item.
    pub(super) directory: Whereabouts,
    pub(super) name: Name,
    /// Description of the item as it was announced.
    pub(super) stat: Stat,
    /// Whether the item is in a directory that is moved itself, and whose modification time a later
    /// run is to find.
    pub(super) is_inner: bool,
}

/// An item that is removed at the source after everything else, as its removal changes what others
/// need.
pub(super) struct Last {
    /// Path of the item from the source's parent.
    pub(super) path: Vec<u8>,
    pub(super) leaving: ItemToRemove,
}

/// Items that are to be removed at the source.
#[derive(Default)]
pub(super) struct Removals {
    /// Queue of the thread that removes; `None` when the session is over, or removes nothing.
    jobs: Option<Channel<RemovalJob>>,
    /// Announced directories that are not done.
    pub(super) directories: ById<ItemToRemove>,
    last: Vec<Last>,
}

impl Removals {
    /// Removals that the thread behind `jobs` carries out.
    pub(super) fn by(jobs: Channel<RemovalJob>) -> Self {
        Self { jobs: Some(jobs), ..Self::default() }
    }

    /// Queues a job for the thread that removes; does nothing once the queue is closed.
    pub(super) fn queue(&self, job: RemovalJob) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    /// Ends the queue: nothing more is removed.
    pub(super) fn close(&mut self) {
        self.jobs = None;
    }

    /// Whether nothing more is removed, because the session is over.
    pub(super) fn is_closed(&self) -> bool {
        self.jobs.is_none()
    }

    /// Keeps an item for the end; gives it back if too many are kept.
    pub(super) fn keep(&mut self, last: Last) -> Option<Last> {
        if self.last.len() >= MAX_LINKED {
            return Some(last);
        }
        self.last.push(last);
        None
    }

    /// Whether anything is kept for the end, so that directories may become empty then.
    pub(super) fn keeps_any(&self) -> bool {
        !self.last.is_empty()
    }

    /// Takes the items and directories that were kept for the end.
    pub(super) fn take_last(&mut self) -> Vec<Last> {
        std::mem::take(&mut self.last)
    }
}

impl ItemToRemove {
    /// Removes the item, which is no directory, from its directory, unless it has changed since it
    /// was announced.
    pub(super) fn remove_from(&self, directory: &Directory) -> Removed {
        self.remove_version(directory, &self.stat)
    }

    /// Removes the item if it is in this version and no program has it open for writing.
    fn remove_version(&self, directory: &Directory, version: &Stat) -> Removed {
        match directory.stat(&self.name) {
            Ok(found) if found.same_version(version) => match self.is_being_written(directory, version) {
                true => Removed::Failed(OPEN.to_owned()),
                false => removed(self.in_directory(directory, Directory::remove_file)),
            },
            Ok(_) => Removed::Failed(CHANGED.to_owned()),
            Err(error) => removed(Err(error)),
        }
    }

    /// Whether a program has the file open for writing, as far as that can be told: what it writes then
    /// would be lost with the name.
    fn is_being_written(&self, directory: &Directory, version: &Stat) -> bool {
        version.kind == Kind::File
            && directory.open_file(&self.name).is_ok_and(|(file, _)| has_writers(&file) == Some(true))
    }

    /// Removes the item's name from the directory by `remove`; a directory that is moved itself
    /// keeps its modification time.
    fn in_directory(
        &self,
        directory: &Directory,
        remove: fn(&Directory, &Name) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        match self.is_inner {
            true => directory.keeping_time(|| remove(directory, &self.name)),
            false => remove(directory, &self.name),
        }
    }

    /// Removes the directory that this is, if it is empty.
    pub(super) fn remove_directory(&self) -> Removed {
        let place = |stat: &Stat| (stat.dev, stat.ino, stat.kind == Kind::Directory);
        let directory = match self.root.reopen(&self.directory) {
            Ok(directory) => directory,
            Err(error) => return removed(Err(error)),
        };
        match directory.stat(&self.name) {
            Ok(found) if place(&found) == place(&self.stat) => {
                removed(self.in_directory(&directory, Directory::remove_directory))
            }
            Ok(_) => Removed::Stays,
            Err(error) => removed(Err(error)),
        }
    }

    /// Removes the item, of a file some of whose names this has removed before: `known` is the file
    /// as it was announced and as those removals have left it. Returns how the file is left.
    fn remove_name(&self, known: Option<&(Stat, Stat)>) -> (Removed, Option<Stat>) {
        let directory = match self.root.reopen(&self.directory) {
            Ok(directory) => directory,
            Err(error) => return (removed(Err(error)), None),
        };
        let version = match known {
            Some((announced, left)) if announced.same_version(&self.stat) => left,
            _ => &self.stat,
        };
        // The file has another time of change without this name.
        let file = directory.open_reference(&self.name);
        let outcome = self.remove_version(&directory, version);
        let left = match (&outcome, file) {
            (Removed::Gone, Ok(file)) => Stat::of(file).ok(),
            _ => None,
        };
        // Whoever wrote to it meanwhile has changed more than the number of its names.
        (outcome, left.filter(|left| (left.size, left.mtime) == (version.size, version.mtime)))
    }
}

/// Removes the items, each file's names one after the other, then the directories, the deepest
/// first; reports each by path, whether it is a directory, and outcome.
pub(super) fn remove_last(last: Vec<Last>, mut report: impl FnMut(Vec<u8>, bool, Removed)) {
    let is_directory = |last: &Last| last.leaving.stat.kind == Kind::Directory;
    let (mut directories, items): (Vec<Last>, Vec<Last>) = last.into_iter().partition(is_directory);
    let mut files: BTreeMap<(u64, u64), (Stat, Stat)> = BTreeMap::new();
    for Last { path, leaving } in items {
        let Stat { dev, ino, nlink, .. } = leaving.stat;
        let (outcome, left) = leaving.remove_name(files.get(&(dev, ino)));
        if let Some(left) = left.filter(|_| nlink > 1) {
            files.entry((dev, ino)).and_modify(|(_, last)| *last = left).or_insert((leaving.stat, left));
        }
        report(path, false, outcome);
    }
    directories.sort_by_key(|last| std::cmp::Reverse(last.path.iter().filter(|byte| **byte == b'/').count()));
    for Last { path, leaving } in directories {
        report(path, true, leaving.remove_directory());
    }
}

/// Result, for the machine, of removing a name: one that is missing, or a directory that is not
/// empty, stays without a failure.
fn removed(outcome: Result<(), TreeError>) -> Removed {
    match outcome {
        Ok(()) => Removed::Gone,
        Err(error) if error.is_missing() => Removed::Stays,
        Err(TreeError::Exists { .. }) => Removed::Stays,
        Err(error) => Removed::Failed(format!("was copied, and cannot be removed at the source: {error}")),
    }
}
