//! Replacing an item by what is complete under a staging name beside it, so that what is replaced is
//! known before it goes.

use icdc_disk::tree::{Directory, Kind, Name, Stat};

use super::failure::{self, Failure};

/// Lets what has the name `staging` and the item `name`, which was looked at before, change places, and
/// removes the item; an item that took the name meanwhile gets it back. Returns false, and nothing
/// is done, where the file system cannot exchange names.
///
/// # Errors
/// The item was replaced meanwhile, or cannot be removed: both have their names again.
pub(super) fn exchange(directory: &Directory, staging: &Name, (name, before): (&Name, &Stat)) -> Result<bool, Failure> {
    let of_tree = |error| failure::of_tree(&error);
    if !directory.exchange(staging, name).map_err(of_tree)? {
        return Ok(false);
    }
    let removed = match has_inode(directory, staging, (before.dev, before.ino)) {
        true if before.kind == Kind::Directory => directory.remove_directory(staging).map_err(of_tree),
        true => directory.remove_file(staging).map_err(of_tree),
        false => Err(replaced_meanwhile(directory, name)),
    };
    removed.map(|()| true).inspect_err(|_| {
        let _ = directory.exchange(staging, name);
    })
}

/// The failure of an item whose name something else has taken since it was looked at.
pub(super) fn replaced_meanwhile(directory: &Directory, name: &Name) -> Failure {
    format!("{}: was replaced meanwhile; run the same command again", directory.path_of(name)).into()
}

/// Whether `name` belongs to the item of this device and inode; false if nothing has the name.
pub(super) fn has_inode(directory: &Directory, name: &Name, inode: (u64, u64)) -> bool {
    directory.stat(name).is_ok_and(|stat| (stat.dev, stat.ino) == inode)
}
