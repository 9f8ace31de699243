//! Directories that are being filled. One is done when the sender has said that nothing more comes and all its children
//! are done.

use std::collections::HashMap;

use icdc_disk::tree::{Directory, Metadata, Name, TreeError, is_staging};
use icdc_protocol::limits::MAX_DEPTH;
use icdc_protocol::message::{Entry, EntryId, Parent};
use icdc_session::weight::entry_weight;

use super::super::placement::{Placed, Unplaced, misplaced, place_of};
use crate::error::SessionError;

/// A directory that is being filled.
pub(super) struct Level {
    /// `None` in a dry run, and where the directory could not be made.
    pub(super) directory: Option<Directory>,
    /// Device and inode of the directory.
    place: (u64, u64),
    /// Number of the source that it is part of.
    source: u32,
    pub(super) entry: Entry,
    pub(super) path: Vec<u8>,
    depth: usize,
    /// Children that are not done, and whether more may come.
    pending: u32,
    ended: bool,
    pub(super) failed: Option<String>,
}

impl Level {
    /// Bytes of its path and attributes.
    pub(super) fn weight(&self) -> usize {
        entry_weight(&self.entry, &self.path)
    }
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Levels {
    open: HashMap<EntryId, Level>,
}

impl Levels {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a directory, or what stands for one that could not be made, and tells its weight.
    pub(super) fn open(
        &mut self,
        entry: Entry,
        directory: Option<Directory>,
        path: Vec<u8>,
        depth: usize,
        failed: Option<String>,
    ) -> usize {
        let place = directory.as_ref().and_then(|directory| place_of(directory).ok()).unwrap_or_default();
        let source = self.source_of(&entry);
        let level = Level { directory, place, source, entry, path, depth, pending: 0, ended: false, failed };
        let weight = level.weight();
        self.open.insert(level.entry.id, level);
        weight
    }

    /// Where an entry goes that is announced as a child of the directory `parent`.
    pub(super) fn place(&self, entry: &Entry, parent: EntryId) -> Result<Result<Placed, Unplaced>, SessionError> {
        let level = self.open.get(&parent).filter(|level| !level.ended);
        let level = level.ok_or_else(|| misplaced(entry, "has no open parent"))?;
        let name = Name::new(&entry.name).map_err(|error| misplaced(entry, &error.to_string()))?;
        let mut path = level.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        if let Some(reason) = &level.failed {
            return Ok(Err(Unplaced { path, reason: reason.clone() }));
        }
        if level.depth >= MAX_DEPTH {
            return Err(misplaced(entry, "is nested too deep"));
        }
        if is_staging(name.as_bytes()) {
            return Ok(Err(Unplaced { path, reason: "its name is one that icdc keeps for unfinished files".into() }));
        }
        let depth = level.depth + 1;
        Ok(Ok(Placed { directory: level.directory.clone(), place: level.place, name: Some(name), path, depth }))
    }

    /// Number of the source that an entry is part of.
    pub(super) fn source_of(&self, entry: &Entry) -> u32 {
        match entry.parent {
            Parent::Source(number) => number,
            Parent::Directory(id) => self.open.get(&id).map_or(0, |level| level.source),
        }
    }

    /// The parent of `entry` has one child more to wait for.
    pub(super) fn count_child(&mut self, entry: &Entry) {
        if let Some(level) = self.parent_of(entry) {
            level.pending += 1;
        }
    }

    /// `entry` is done; gives the directories that are done with it, the inner ones first.
    pub(super) fn child_done(&mut self, entry: &Entry) -> Vec<Level> {
        let Some(level) = self.parent_of(entry) else { return Vec::new() };
        level.pending -= 1;
        let id = level.entry.id;
        self.done(id)
    }

    /// No more children of the directory `id` come; gives the directories that are done with it, the inner ones first.
    pub(super) fn end(&mut self, id: EntryId) -> Result<Vec<Level>, SessionError> {
        let level = self.open.get_mut(&id);
        level.ok_or_else(|| SessionError::Protocol(format!("directory {id} is not open")))?.ended = true;
        Ok(self.done(id))
    }

    /// Takes out the directory `id`, and those above that waited for it, if it is done.
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

    fn parent_of(&mut self, entry: &Entry) -> Option<&mut Level> {
        match entry.parent {
            Parent::Source(_) => None,
            Parent::Directory(id) => self.open.get_mut(&id),
        }
    }
}

/// Makes a directory or opens the one that is there, so that it can be filled.
pub(super) fn make_directory(directory: &Directory, name: &Name, restore_mode: bool) -> Result<Directory, TreeError> {
    if !restore_mode {
        return directory.make_directory(name, 0o777);
    }
    // Private while it is filled; an existing one may lack the owner's right to write, as one does
    // whose source is read-only and whose filling was interrupted.
    let made = directory.make_directory(name, 0o700)?;
    let mode = made.own_stat()?.mode;
    if mode & 0o700 != 0o700 {
        made.set_own_metadata(&Metadata { mode: Some(mode | 0o700), ..Metadata::default() })?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
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

    fn numbers(done: Vec<Level>) -> Vec<EntryId> {
        done.iter().map(|level| level.entry.id).collect()
    }

    #[test]
    fn a_directory_waits_for_its_children_and_the_one_above_for_it() {
        let mut levels = Levels::default();
        let nested = [entry(0, Parent::Source(3)), entry(1, Parent::Directory(0)), entry(2, Parent::Directory(1))];
        for (depth, entry) in nested.iter().enumerate() {
            levels.count_child(entry);
            levels.open(entry.clone(), None, entry.name.clone(), depth, None);
        }
        assert_eq!(levels.source_of(&entry(9, Parent::Directory(2))), 3);
        let item = entry(4, Parent::Directory(2));
        levels.count_child(&item);
        assert!(levels.end(0).unwrap().is_empty());
        assert!(levels.end(2).unwrap().is_empty(), "its item is not done");
        assert!(levels.place(&entry(5, Parent::Directory(2)), 2).is_err(), "nothing more may come");
        assert_eq!(levels.place(&entry(5, Parent::Directory(1)), 1).unwrap().ok().unwrap().path, b"n1/n5");
        assert_eq!(numbers(levels.child_done(&item)), [2], "1 has not ended");
        assert_eq!(numbers(levels.end(1).unwrap()), [1, 0]);
        assert!(levels.is_empty() && levels.end(1).is_err());
    }

    #[test]
    fn children_of_a_directory_that_failed_fail_by_its_reason() {
        let mut levels = Levels::default();
        levels.open(entry(0, Parent::Source(0)), None, b"top".to_vec(), 0, Some("no room".into()));
        let placed = levels.place(&entry(1, Parent::Directory(0)), 0).unwrap();
        let Unplaced { path, reason } = placed.err().unwrap();
        assert_eq!((path.as_slice(), reason.as_str()), (b"top/n1".as_slice(), "no room"));
    }
}
