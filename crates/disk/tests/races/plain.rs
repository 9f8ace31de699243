//! The same calls by plain paths, which the exchanges lead out.

use std::fs;
use std::io::Result;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags};

use crate::flipper::while_flipping;
use crate::world::{ABOVE, SIDE, World};

/// One call in the directory; true if it returned something from outside.
pub(crate) type Call = fn(&World, &Path) -> Result<bool>;

/// Calls before one that got outside.
const PATIENCE: u32 = 200_000;
/// Calls between two looks at the outside.
const BETWEEN_LOOKS: u32 = 20;

/// All calls by their names.
pub(crate) const CALLS: [(&str, Call); 14] = [
    ("stat", |world, path| {
        let found = fs::symlink_metadata(path.join("file"))?;
        Ok(world.is_outside(found.dev(), found.ino()))
    }),
    ("open", |_, path| Ok(fs::read(path.join("file"))?.starts_with(b"outside"))),
    ("read a link", |_, path| Ok(fs::read_link(path.join("link"))?.starts_with("outside-target"))),
    ("list", |_, path| Ok(fs::read_dir(path)?.flatten().any(|entry| entry.file_name() == "outside-only"))),
    ("make a file", |_, path| changed(fs::write(path.join("dangling"), "made"))),
    ("make a directory", |_, path| changed(fs::create_dir(path.join("made")))),
    ("make a symbolic link", |_, path| changed(symlink("nowhere", path.join("made")))),
    ("link", |_, path| changed(fs::hard_link(path.join("linked"), path.join("second")))),
    ("rename", |_, path| changed(fs::rename(path.join("victim"), path.join("renamed")))),
    ("unlink", |_, path| changed(fs::remove_file(path.join("victim")))),
    ("rmdir", |_, path| changed(fs::remove_dir(path.join("empty")))),
    ("set times", |_, path| {
        let then = Timespec { tv_sec: 5, tv_nsec: 5 };
        let times = Timestamps { last_access: then, last_modification: then };
        let set = rustix::fs::utimensat(CWD, path.join("file"), &times, AtFlags::SYMLINK_NOFOLLOW);
        changed(set.map_err(Into::into))
    }),
    // An owner that stays the same changes the time of change.
    ("set mode and owner", |_, path| {
        fs::set_permissions(path.join("file"), fs::Permissions::from_mode(0o600))?;
        changed(std::os::unix::fs::lchown(path.join("file"), None, None))
    }),
    ("set xattr", |_, path| {
        changed(rustix::fs::setxattr(path.join("file"), SIDE, b"set", XattrFlags::empty()).map_err(Into::into))
    }),
];

fn changed(outcome: Result<()>) -> Result<bool> {
    outcome.map(|()| false)
}

/// Whether the call got outside, in a bounded number of tries.
pub(crate) fn escapes(world: &World, call: Call) -> bool {
    let before = world.outside();
    while_flipping(world, |_| {
        let path = world.root().join(ABOVE);
        (0..PATIENCE).any(|number| {
            let read = call(world, &path).unwrap_or(false);
            read || (number % BETWEEN_LOOKS == 0 && world.outside() != before)
        })
    })
}
