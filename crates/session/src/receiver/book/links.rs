//! Files with several names: the first name is made like any other file, the further ones are links
//! to it.
//!
//! A further name may be announced before the first one is published, and waits for it then; or
//! long after, in another directory, when that of the first is finished.

use icdc_protocol::limits::{MAX_LINKED, MAX_LINKED_BYTES};
use icdc_protocol::message::EntryId;

use super::action::FirstName;
use super::item::{DirectoryId, DirectoryPlace, Item};
use crate::ById;

/// State of a file's first name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The file's contents are still to arrive.
    Coming,
    /// The file is published.
    Published,
    /// The file is not made: the destination stays as it is at its name.
    Kept,
    /// The file has failed.
    Failed,
}

/// Outcome of linking a further name to the first.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Linking {
    /// The link waits until the first name is published.
    Waits,
    /// The link can be made now, to this first name.
    To(FirstName),
    /// The link becomes a file of its own: the destination stays as it is at the first name.
    Apart,
    /// The link cannot be made, for this reason.
    Fails(&'static str),
}

/// Files with several names, and the further names that wait for the first one of each.
pub(super) struct Links {
    files: ById<LinkedFile>,
    /// Further names that wait for the first one to be published.
    waiting: ById<Vec<EntryId>>,
    /// Bytes of the names, and of what is kept of their directories.
    weight: usize,
    most: Bounds,
    /// Whether a limit was exceeded, so that some files are not known.
    is_exceeded: bool,
}

/// Limits on the number of files that are kept and on their bytes: a sender may announce any number
/// of files with several names, and never their further names.
struct Bounds {
    files: usize,
    bytes: usize,
}

/// A file with several names: directory, name and state of its first one.
struct LinkedFile {
    directory: DirectoryId,
    place: DirectoryPlace,
    source: u32,
    name: Box<[u8]>,
    progress: Progress,
}

impl Default for Links {
    fn default() -> Self {
        let most = Bounds { files: MAX_LINKED, bytes: MAX_LINKED_BYTES };
        Self { files: ById::default(), waiting: ById::default(), weight: 0, most, is_exceeded: false }
    }
}

impl Links {
    /// Records the state of the first name of a file with several. `directory`: bytes that are kept
    /// of its directory because of it. Returns false if a limit is exceeded; the file is then
    /// unknown.
    pub(super) fn remember(&mut self, item: &Item, progress: Progress, directory: usize) -> bool {
        if let Some(file) = self.files.get_mut(&item.entry.id) {
            file.progress = progress;
            return true;
        }
        let weight = self.weight + item.place.name.len() + directory;
        if self.files.len() >= self.most.files || weight > self.most.bytes {
            self.is_exceeded = true;
            return false;
        }
        self.weight = weight;
        let file = LinkedFile {
            directory: item.directory,
            place: item.place.directory,
            source: item.source,
            name: item.place.name.as_slice().into(),
            progress,
        };
        self.files.insert(item.entry.id, file);
        true
    }

    /// Decides how the item `id`, a further name of the file `to`, is made.
    pub(super) fn link(&mut self, id: EntryId, to: EntryId) -> Linking {
        let Some(file) = self.files.get(&to) else {
            let reason = if self.is_exceeded {
                "is a further name of one of too many files with several; copy parts of the tree one after the other"
            } else {
                "is a further name of a file that is not part of this copy"
            };
            return Linking::Fails(reason);
        };
        match file.progress {
            Progress::Coming => {
                self.waiting.entry(to).or_default().push(id);
                Linking::Waits
            }
            Progress::Published => Linking::To(FirstName {
                directory: file.directory,
                place: file.place,
                source: file.source,
                name: file.name.to_vec(),
            }),
            Progress::Kept => Linking::Apart,
            Progress::Failed => Linking::Fails("the file it is a further name of failed"),
        }
    }

    /// Records the end of the item `id`; returns the further names that have waited for it.
    pub(super) fn settle(&mut self, id: EntryId, progress: Progress) -> Vec<EntryId> {
        let Some(file) = self.files.get_mut(&id) else { return Vec::new() };
        file.progress = progress;
        self.waiting.remove(&id).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::{Entry, EntryKind, Parent};

    use super::super::item::FinalName;
    use super::*;

    fn item(id: EntryId, name: &[u8]) -> Item {
        let entry = Entry {
            id,
            parent: Parent::Directory(0),
            name: name.to_vec(),
            kind: EntryKind::File { size: 1, version: [0; 16], sparse: false, linked: true },
            mode: 0o644,
            mtime_seconds: 0,
            mtime_nanos: 0,
            owner: None,
            xattrs: Vec::new(),
        };
        let directory = DirectoryPlace { device: 1, inode: 1 };
        let place = FinalName { directory, name: name.to_vec() };
        Item { entry, path: name.to_vec(), directory: DirectoryId::Entry(0), place, source: 0 }
    }

    #[test]
    fn files_beyond_the_bounds_are_not_known_and_their_further_names_fail_with_the_remedy() {
        for most in [Bounds { files: 2, bytes: 1000 }, Bounds { files: 1000, bytes: 104 }] {
            let mut links = Links { most, ..Links::default() };
            assert!(links.remember(&item(1, b"a"), Progress::Coming, 100));
            assert!(links.remember(&item(2, b"bb"), Progress::Coming, 0));
            assert!(!links.remember(&item(3, b"cc"), Progress::Coming, 0), "one too many");
            assert!(links.remember(&item(1, b"a"), Progress::Published, 0), "it is known");
            assert!(matches!(links.link(4, 1), Linking::To(first) if first.name == b"a"));
            assert_eq!(links.link(5, 2), Linking::Waits);
            assert_eq!(links.settle(2, Progress::Failed), [5]);
            assert!(matches!(links.link(6, 3), Linking::Fails(reason) if reason.contains("copy parts of the tree")));
        }
    }
}
