//! Reads files that an earlier run has published, to compare them with the digest under which it did so.

use std::collections::VecDeque;

use icdc_protocol::block_map::block_count;
use icdc_protocol::digest;
use icdc_protocol::message::{Digest, EntryId, FileDigest};

use crate::disk::{Contents, Inode};
use crate::environment::Environment;
use crate::source::value_of;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Compare {
    jobs: VecDeque<(EntryId, Option<Inode>, FileDigest)>,
}

impl Compare {
    pub(crate) fn push(&mut self, id: EntryId, inode: Option<Inode>, digest: FileDigest) {
        self.jobs.push_back((id, inode, digest));
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Reads the next file; tells whether it is as it was.
    pub(crate) fn step(&mut self, env: &mut Environment) -> Option<(EntryId, bool)> {
        let (id, inode, wanted) = self.jobs.pop_front()?;
        let can_be_read = !env.random.permille(env.faults.read);
        let same = inode.is_some_and(|inode| digest_like(&wanted, env.disk.contents(inode)) == Some(wanted));
        env.note(format_args!("item {id} was compared: {same}"));
        Some((id, same && can_be_read))
    }
}

fn digest_like(like: &FileDigest, contents: &Contents) -> Option<FileDigest> {
    let size = contents.length;
    match like {
        FileDigest::SparseMap(_) => {
            let blocks = contents.blocks.iter().map(|(index, number)| (*index, value_of(*number)));
            Some(FileDigest::SparseMap(digest::sparse_map(size, blocks)))
        }
        FileDigest::Blake3(_) if contents.length == 0 => {
            Some(FileDigest::Blake3(*blake3::hash(&contents.bytes).as_bytes()))
        }
        FileDigest::Blake3(_) => {
            let number = |index| contents.blocks.get(&index).copied().unwrap_or_default();
            let values: Vec<Digest> = (0..block_count(size)).map(|index| value_of(number(index))).collect();
            digest::root(size, &values).map(FileDigest::Blake3)
        }
    }
}
