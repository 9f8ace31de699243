//! Directories that are being filled. One is done when the sender has ended it and all its children
//! are done.

use icdc_protocol::limits::MAX_DEPTH;
use icdc_protocol::message::{Entry, EntryId, Parent};
use icdc_protocol::validate::is_component;

use super::item::DirectoryPlace;
use super::publishing::batch::LotNumber;
use crate::weight::entry_weight;
use crate::{ById, SessionError};

/// Estimated memory for each parent directory in a chain, besides its name, in bytes.
const TRAIL_STEP: usize = 64;

/// A directory that is being filled: some of its children are not announced or not done.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) entry: Entry,
    pub(super) path: Vec<u8>,
    pub(super) state: DirectoryState,
    /// Number of the source to which it belongs.
    pub(super) source: u32,
    depth: usize,
    /// Number of children that are not done.
    pending: u32,
    /// Whether the sender has announced all its children.
    ended: bool,
    /// Whether the chain of its parents is still needed when it is done.
    pub(super) remembered: bool,
    /// Lot with which it becomes durable; `None` unless it was made.
    pub(super) lot: Option<LotNumber>,
}

/// State at the destination of a directory that is being filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DirectoryState {
    /// The directory is being made.
    Pending,
    /// The directory exists, made or found.
    Exists(DirectoryPlace),
    /// The directory is not made because this is a dry run.
    DryRun,
    /// The directory does not exist, and nothing new is made: each child is left out.
    LeftOut,
    /// The directory could not be made; each child fails for this reason.
    Failed(String),
}

/// Position of a child at the destination.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChildPosition {
    pub(super) path: Vec<u8>,
    pub(super) depth: usize,
    pub(super) state: DirectoryState,
}

impl Level {
    /// A directory of which no child is announced yet.
    pub(super) fn new(entry: Entry, source: u32, path: Vec<u8>, depth: usize, state: DirectoryState) -> Self {
        Self { entry, path, state, source, depth, pending: 0, ended: false, remembered: false, lot: None }
    }

    /// Estimated memory for the chain of its parents, in bytes.
    pub(super) fn trail_weight(&self) -> usize {
        self.path.len() + TRAIL_STEP * (self.depth + 1)
    }

    /// Bytes of its path and attributes, which count towards the limit on pending entries.
    pub(super) fn weight(&self) -> usize {
        entry_weight(&self.entry, &self.path)
    }
}

/// The directories that are being filled, by entry.
#[derive(Default)]
pub(super) struct Levels {
    open: ById<Level>,
}

impl Levels {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The directory of this entry; `None` if it is not being filled.
    pub(super) fn get_mut(&mut self, id: EntryId) -> Option<&mut Level> {
        self.open.get_mut(&id)
    }

    /// State of the directory `id` at the destination, if it is open.
    pub(super) fn state(&self, id: EntryId) -> Option<&DirectoryState> {
        self.open.get(&id).map(|level| &level.state)
    }

    /// Number of the source that the directory `id` belongs to, if it is open.
    pub(super) fn source(&self, id: EntryId) -> Option<u32> {
        self.open.get(&id).map(|level| level.source)
    }

    /// Whether an open directory other than `own` is this one: several sources may go into it.
    pub(super) fn is_filled(&self, place: DirectoryPlace, own: Option<EntryId>) -> bool {
        let others = self.open.iter().filter(|(id, _)| own != Some(**id));
        others.into_iter().any(|(_, level)| level.state == DirectoryState::Exists(place))
    }

    /// The lot with which the directory `id` becomes durable, if it is open and was made.
    pub(super) fn lot(&self, id: EntryId) -> Option<LotNumber> {
        self.open.get(&id)?.lot
    }

    /// Adds a directory that is being filled, for which its parent waits from now on.
    pub(super) fn open(&mut self, level: Level) {
        self.count_child(&level.entry);
        self.open.insert(level.entry.id, level);
    }

    /// Position of `entry`, which is announced as a child of the directory `parent`.
    pub(super) fn place(&self, entry: &Entry, parent: EntryId) -> Result<ChildPosition, SessionError> {
        let level = self.open.get(&parent).filter(|level| !level.ended);
        let level = level.ok_or_else(|| misplaced(entry, "has no open parent"))?;
        if !is_component(&entry.name) {
            return Err(misplaced(entry, "has a name that no item in a directory can have"));
        }
        let path = match level.path.as_slice() {
            b"" => entry.name.clone(),
            above => [above, &entry.name].join(&b'/'),
        };
        let depth = level.depth + 1;
        if depth > MAX_DEPTH && !matches!(level.state, DirectoryState::Failed(_)) {
            return Err(misplaced(entry, "is nested too deep"));
        }
        Ok(ChildPosition { path, depth, state: level.state.clone() })
    }

    /// Number of the source that `entry` belongs to: its own, or that of its parent directory; 0 if
    /// that directory is not open.
    pub(super) fn source_of(&self, entry: &Entry) -> u32 {
        match entry.parent {
            Parent::Source(number) => number,
            Parent::Directory(id) => self.open.get(&id).map_or(0, |level| level.source),
        }
    }

    /// Counts `entry` as a child for which its parent has to wait.
    pub(super) fn count_child(&mut self, entry: &Entry) {
        if let Some(level) = self.parent_of(entry) {
            level.pending += 1;
        }
    }

    /// Records that `entry` is done; returns the directories that are done with it, the inner ones
    /// first.
    pub(super) fn child_done(&mut self, entry: &Entry) -> Vec<Level> {
        let Some(level) = self.parent_of(entry) else { return Vec::new() };
        level.pending -= 1;
        let id = level.entry.id;
        self.done(id)
    }

    /// Records that the directory `id` gets no more children; returns the directories that are done
    /// with it, the inner ones first.
    pub(super) fn end(&mut self, id: EntryId) -> Result<Vec<Level>, SessionError> {
        let level = self.open.get_mut(&id).filter(|level| !level.ended);
        level.ok_or_else(|| SessionError::Protocol(format!("directory {id} is not open")))?.ended = true;
        Ok(self.done(id))
    }

    /// Removes the directory `id`, and its ancestors that waited only for it, if it is done;
    /// returns them.
    fn done(&mut self, id: EntryId) -> Vec<Level> {
        let (mut done, mut next) = (Vec::new(), Some(id));
        while let Some(id) = next
            && self.open.get(&id).is_some_and(|level| level.ended && level.pending == 0)
            && let Some(level) = self.open.remove(&id)
        {
            next = self.parent_of(&level.entry).map(|parent| {
                parent.pending -= 1;
                parent.entry.id
            });
            done.push(level);
        }
        done
    }

    /// The directory that an entry was announced in; `None` for a source itself, and if it is not
    /// being filled.
    fn parent_of(&mut self, entry: &Entry) -> Option<&mut Level> {
        match entry.parent {
            Parent::Source(_) => None,
            Parent::Directory(id) => self.open.get_mut(&id),
        }
    }
}

/// The protocol error for an entry that a correct sender does not announce; `what` is wrong with
/// it.
pub(super) fn misplaced(entry: &Entry, what: &str) -> SessionError {
    SessionError::Protocol(format!("entry {}: {what}", entry.id))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use icdc_protocol::message::EntryKind;

    use super::*;

    fn entry(id: EntryId, parent: Parent) -> Entry {
        Entry {
            id,
            parent,
            name: format!("n{id}").into_bytes(),
            kind: EntryKind::Directory,
            mode: 0o755,
            mtime_seconds: 0,
            mtime_nanos: 0,
            owner: None,
            xattrs: Vec::new(),
        }
    }

    fn open(levels: &mut Levels, entry: &Entry, depth: usize) {
        let source = levels.source_of(entry);
        levels.open(Level::new(entry.clone(), source, entry.name.clone(), depth, DirectoryState::DryRun));
    }

    fn numbers(done: Vec<Level>) -> Vec<EntryId> {
        done.iter().map(|level| level.entry.id).collect()
    }

    #[test]
    fn a_directory_waits_for_its_children_and_the_one_above_for_it() {
        let mut levels = Levels::default();
        let nested = [entry(0, Parent::Source(3)), entry(1, Parent::Directory(0)), entry(2, Parent::Directory(1))];
        nested.iter().enumerate().for_each(|(depth, entry)| open(&mut levels, entry, depth));
        assert_eq!(levels.source_of(&entry(9, Parent::Directory(2))), 3);
        let item = entry(4, Parent::Directory(2));
        levels.count_child(&item);
        assert!(levels.end(0).unwrap().is_empty());
        assert!(levels.end(2).unwrap().is_empty(), "its item is not done");
        assert!(levels.place(&entry(5, Parent::Directory(2)), 2).is_err(), "nothing more may come");
        assert!(levels.end(2).is_err(), "it has ended");
        assert_eq!(levels.place(&entry(5, Parent::Directory(1)), 1).unwrap().path, b"n1/n5");
        assert_eq!(numbers(levels.child_done(&item)), [2], "1 has not ended");
        assert_eq!(numbers(levels.end(1).unwrap()), [1, 0]);
        assert!(levels.is_empty() && levels.end(1).is_err());
    }

    #[test]
    fn children_of_a_directory_that_failed_go_nowhere_however_deep() {
        let mut levels = Levels::default();
        let state = DirectoryState::Failed("no room".into());
        levels.open(Level::new(entry(0, Parent::Source(0)), 0, b"top".to_vec(), MAX_DEPTH, state.clone()));
        let child = levels.place(&entry(1, Parent::Directory(0)), 0).unwrap();
        assert_eq!((child.path.as_slice(), child.state), (b"top/n1".as_slice(), state));
    }

    #[test]
    fn nothing_is_nested_deeper_than_the_limit_or_has_a_path_for_a_name() {
        let mut levels = Levels::default();
        open(&mut levels, &entry(0, Parent::Source(0)), MAX_DEPTH);
        open(&mut levels, &entry(1, Parent::Source(0)), MAX_DEPTH - 1);
        let child = |parent, name: &[u8]| Entry { name: name.to_vec(), ..entry(2, Parent::Directory(parent)) };
        assert!(levels.place(&child(0, b"x"), 0).is_err());
        assert!(levels.place(&child(1, b"x"), 1).is_ok());
        assert!(levels.place(&child(1, b".."), 1).is_err() && levels.place(&child(1, b"a/b"), 1).is_err());
    }
}
