//! Version of a source file: a digest by which a changed or replaced file is recognized.

use icdc_disk::tree::{Kind, Stat};

use super::executor::Contents;

/// Version of a file, a digest of its attributes: any write, truncation or replacement changes it.
/// Equal on all hosts that share the file system, whose device number differs between them.
pub(super) fn version(stat: &Stat) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("icdc source version 2");
    for part in [stat.ino, stat.size] {
        hasher.update(&part.to_le_bytes());
    }
    for time in [stat.mtime, stat.ctime] {
        hasher.update(&time.seconds.to_le_bytes());
        hasher.update(&time.nanos.to_le_bytes());
    }
    let mut version = [0; 16];
    version.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    version
}

/// Whether the name of the file refers to another file or version now.
pub(super) fn is_another(contents: &Contents) -> bool {
    contents.directory.stat(&contents.name).is_ok_and(|stat| version(&stat) != contents.version)
}

/// Version of a file whose contents were read before it was announced: a digest of attributes and
/// contents, as its attributes alone need not show a change.
pub(super) fn held_version(stat: &Stat, contents: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("icdc contents version 1");
    hasher.update(&version(stat)).update(contents);
    let mut version = [0; 16];
    version.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    version
}

/// Version of an item, as far as it tells changes: a directory counts as changed by its mode and owner, not by what is
/// in it.
pub(in crate::sender) fn version_of(stat: &Stat) -> u64 {
    if stat.kind == Kind::Directory {
        return u64::from(stat.mode) | u64::from(stat.uid) << 16 ^ u64::from(stat.gid) << 32 ^ stat.ino.rotate_left(40);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&version(stat)[..8]);
    u64::from_le_bytes(first)
}
