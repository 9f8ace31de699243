//! Files with several names: the first one is announced as a file, the further ones as links to it.
//! Neither end keeps more than [`MAX_LINKED`] of them in mind.
//!
//! A file whose inode another one had when it was announced is a file of its own, as is one that
//! has changed since: its first name may have arrived with other contents.

use std::collections::HashMap;

use icdc_disk::tree::{Directory, Incarnation, Kind, Name, Stat, TreeError};
use icdc_protocol::digest::first_name;
use icdc_protocol::limits::MAX_LINKED;
use icdc_protocol::message::{Digest, EntryId};

/// Role of a name among the names (hard links) of its file, which decides how it is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameOf {
    /// A file with no other name.
    Single,
    /// The first name of a file of which further names may follow.
    First,
    /// A link to the file with this entry id, whose first name has this digest.
    Further(EntryId, Digest),
    /// A file of its own, because too many others have several names.
    OneTooMany,
}

/// Index of the files with several names (hard links) whose first name was announced.
pub(super) struct Linked {
    /// First announced name of each file: its entry id, and the digest of the name.
    first: HashMap<Incarnation, (EntryId, Digest)>,
    most: usize,
    is_reported: bool,
}

impl Default for Linked {
    fn default() -> Self {
        Self { first: HashMap::new(), most: MAX_LINKED, is_reported: false }
    }
}

/// Description of an item, and the identity by which its further names are recognized: read again
/// for a file with several names; `None` for other items, or if names are not copied as `links`.
///
/// # Errors
/// The item cannot be examined.
pub fn names_of(
    directory: &Directory,
    name: &Name,
    stat: &Stat,
    links: bool,
) -> Result<(Stat, Option<Incarnation>), TreeError> {
    let has_several = |stat: &Stat| stat.kind == Kind::File && stat.nlink > 1;
    if !links || !has_several(stat) {
        return Ok((*stat, None));
    }
    let (stat, found) = directory.incarnation(name)?;
    Ok((stat, has_several(&stat).then_some(found)))
}

impl Linked {
    /// Form in which the file is announced: as a file, or as a link to an earlier name.
    pub(super) fn name_of(&self, file: Option<Incarnation>) -> NameOf {
        let Some(file) = file else { return NameOf::Single };
        match self.first.get(&file) {
            Some((first, name)) => NameOf::Further(*first, *name),
            None if self.first.len() < self.most => NameOf::First,
            None => NameOf::OneTooMany,
        }
    }

    /// Registers that the first name of the file, `path`, has been announced.
    pub(super) fn announced(&mut self, file: Incarnation, id: EntryId, path: &[u8]) {
        self.first.insert(file, (id, first_name(path)));
    }

    /// Message about the first file that exceeds the limit of remembered files; `None` for further
    /// ones.
    pub(super) fn reason(&mut self) -> Option<String> {
        let is_reported = std::mem::replace(&mut self.is_reported, true);
        (!is_reported).then(|| {
            let most = self.most;
            format!(
                "more than {most} files have several names: from here on they are copied once for each name; to keep \
                 them as links, copy parts of the tree one after the other"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use icdc_disk::tree::FileTime;

    use super::*;

    /// A file with several names, and its identity.
    fn file(directory: &tempfile::TempDir, name: &str) -> (Stat, Incarnation) {
        let path = directory.path().join(name);
        std::fs::write(&path, "").unwrap();
        std::fs::hard_link(&path, directory.path().join(format!("{name}-again"))).unwrap();
        let tree = icdc_disk::tree::Tree::open(directory.path()).unwrap();
        tree.root().incarnation(&Name::new(name.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn files_beyond_the_bound_are_copied_once_for_each_name() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["a", "b", "c"].map(|name| file(&directory, name).1);
        let mut linked = Linked { most: 2, ..Linked::default() };
        for (file, id) in [(files[0], 1), (files[1], 2)] {
            assert_eq!(linked.name_of(Some(file)), NameOf::First);
            linked.announced(file, id, b"first");
        }
        assert_eq!(
            files.map(|file| linked.name_of(Some(file))),
            [NameOf::Further(1, first_name(b"first")), NameOf::Further(2, first_name(b"first")), NameOf::OneTooMany]
        );
        assert!(linked.reason().unwrap().contains("more than 2 files") && linked.reason().is_none());
    }

    #[test]
    fn a_file_that_has_the_inode_of_another_is_a_file_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let (stat, was) = file(&directory, "a");
        let mut linked = Linked::default();
        linked.announced(was, 1, b"a");
        let time = |seconds| FileTime { seconds, nanos: 0 };
        let born = Some(time(7));
        let others = [
            Incarnation::new(&Stat { size: 9, ..stat }, born),
            Incarnation::new(&Stat { mtime: time(9), ..stat }, born),
            Incarnation::new(&Stat { ctime: time(9), ..stat }, born),
            Incarnation::new(&stat, Some(time(8))),
            Incarnation::new(&Stat { dev: stat.dev + 1, ..stat }, born),
        ];
        linked.announced(Incarnation::new(&stat, born), 2, b"a");
        for other in others {
            assert_eq!(linked.name_of(Some(other)), NameOf::First, "{other:?}");
        }
        assert_eq!(linked.name_of(Some(Incarnation::new(&stat, born))), NameOf::Further(2, first_name(b"a")));
    }
}
