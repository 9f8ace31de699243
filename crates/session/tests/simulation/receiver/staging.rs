//! Under which names unfinished things lie, and who may take them.

use crate::disk::{Disk, Holder, Inode};

const PREFIX: &[u8] = b".icdc-";

pub(crate) fn part(name: &[u8]) -> Vec<u8> {
    [PREFIX, name, b".part"].concat()
}

pub(crate) fn blocks(name: &[u8]) -> Vec<u8> {
    [PREFIX, name, b".blocks"].concat()
}

pub(crate) fn run(target: Option<&[u8]>) -> Vec<u8> {
    [PREFIX, target.unwrap_or_default(), b".run"].concat()
}

pub(crate) fn is_staging(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

/// What came of asking for what an earlier session has left under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Nothing,
    Taken(Inode),
    /// Another session holds it.
    Busy,
}

/// Takes the lock of what lies under a staging name.
pub(crate) fn claim(disk: &mut Disk, directory: Inode, name: &[u8], holder: Holder) -> Claim {
    match disk.find(directory, name) {
        None => Claim::Nothing,
        Some(inode) if disk.lock(inode, holder) => Claim::Taken(inode),
        Some(_) => Claim::Busy,
    }
}
