//! Files with several names: the first one is announced as a file, the further ones as links to it.
//! Neither end keeps more than [`MAX_LINKED`] of them in mind.

use std::collections::HashMap;

use icdc_disk::tree::Stat;
use icdc_protocol::digest::first_name;
use icdc_protocol::limits::MAX_LINKED;
use icdc_protocol::message::{Digest, EntryId};

/// How a file with this name is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameOf {
    /// A file with no other name.
    Single,
    /// A file that further names may follow.
    First,
    /// A link to this file, whose first name has this digest.
    Further(EntryId, Digest),
    /// A file of its own, because too many others have several names.
    OneTooMany,
}

/// See the module's description.
pub(super) struct Linked {
    /// First announced name of each file: (device, inode) → id, digest of the name.
    first: HashMap<(u64, u64), (EntryId, Digest)>,
    most: usize,
    is_told: bool,
}

impl Default for Linked {
    fn default() -> Self {
        Self { first: HashMap::new(), most: MAX_LINKED, is_told: false }
    }
}

impl Linked {
    /// How the file is announced that the file system describes so.
    pub(super) fn look(&self, stat: &Stat) -> NameOf {
        if stat.nlink < 2 {
            return NameOf::Single;
        }
        match self.first.get(&(stat.dev, stat.ino)) {
            Some((first, name)) => NameOf::Further(*first, *name),
            None if self.first.len() < self.most => NameOf::First,
            None => NameOf::OneTooMany,
        }
    }

    /// The first name of the file, `path`, has been announced.
    pub(super) fn announced(&mut self, stat: &Stat, id: EntryId, path: &[u8]) {
        self.first.insert((stat.dev, stat.ino), (id, first_name(path)));
    }

    /// What the user is told of a file that is one too many, the first time.
    pub(super) fn reason(&mut self) -> Option<String> {
        let is_told = std::mem::replace(&mut self.is_told, true);
        (!is_told).then(|| {
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

    use super::*;

    #[test]
    fn files_beyond_the_bound_are_copied_once_for_each_name() {
        let directory = tempfile::tempdir().unwrap();
        let stat_of = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::hard_link(&path, directory.path().join(format!("{name}-again"))).unwrap();
            Stat::of(std::fs::File::open(path).unwrap()).unwrap()
        };
        let (a, b, c) = (stat_of("a"), stat_of("b"), stat_of("c"));
        let mut linked = Linked { most: 2, ..Linked::default() };
        for (stat, id) in [(&a, 1), (&b, 2)] {
            assert_eq!(linked.look(stat), NameOf::First);
            linked.announced(stat, id, b"first");
        }
        assert_eq!(
            [&a, &b, &c].map(|stat| linked.look(stat)),
            [NameOf::Further(1, first_name(b"first")), NameOf::Further(2, first_name(b"first")), NameOf::OneTooMany]
        );
        assert!(linked.reason().unwrap().contains("more than 2 files") && linked.reason().is_none());
    }
}
