//! A root, and a place outside of it with the same names; contents and attributes tell them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;
use tempfile::TempDir;

/// The directories above every item, from the root.
pub(crate) const ABOVE: &str = "a/b/c";
/// Name of the extended attribute that tells which side its file is on.
pub(crate) const SIDE: &str = "user.side";

/// `root/a/b/c/{file, link, victim, sub, empty, …}` and `outside` with the same beside it.
pub(crate) struct World {
    temporary: TempDir,
    outside: BTreeSet<(u64, u64)>,
    has_xattrs: bool,
}

/// All that can be told of an item without changing it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// Device, inode, mode, owner, group, number of names, size.
    numbers: [u64; 7],
    /// Times of modification and change.
    times: [(i64, i64); 2],
    /// Contents, or a link's target.
    contents: Vec<u8>,
    side: Option<Vec<u8>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut world = Self { temporary, outside: BTreeSet::new(), has_xattrs: true };
        for side in ["inside", "outside"] {
            world.has_xattrs &= furnish(&world.side(side), side);
        }
        let numbers = |found: &Described| (found.numbers[0], found.numbers[1]);
        world.outside = world.outside().values().map(numbers).collect();
        world
    }

    /// The root.
    pub(crate) fn root(&self) -> PathBuf {
        self.side("inside")
    }

    /// A path outside by its path from the root.
    pub(crate) fn counterpart(&self, path: &str) -> PathBuf {
        self.side("outside").join(path)
    }

    pub(crate) fn has_xattrs(&self) -> bool {
        self.has_xattrs
    }

    /// Whether the item with this device and inode is outside.
    pub(crate) fn is_outside(&self, dev: u64, ino: u64) -> bool {
        self.outside.contains(&(dev, ino))
    }

    /// Everything outside as it is now.
    pub(crate) fn outside(&self) -> BTreeMap<PathBuf, Described> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.side("outside")];
        while let Some(path) = left.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let contents = if metadata.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            found.insert(path.clone(), described(&path, &metadata, contents));
        }
        found
    }

    fn side(&self, side: &str) -> PathBuf {
        self.temporary.path().join(side)
    }
}

#[track_caller]
pub(crate) fn assert_unchanged(before: &BTreeMap<PathBuf, Described>, after: &BTreeMap<PathBuf, Described>) {
    let names = |of: &BTreeMap<PathBuf, Described>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(before), names(after), "other names are outside");
    for (path, found) in after {
        assert_eq!(&before[path], found, "{} was changed", path.display());
    }
}

/// Makes one side; false if the file system has no extended attributes.
fn furnish(place: &Path, side: &str) -> bool {
    let inner = place.join(ABOVE);
    for directory in ["sub", "empty"] {
        fs::create_dir_all(inner.join(directory)).unwrap();
    }
    for name in ["file", "victim", "linked", "sub/file"] {
        fs::write(inner.join(name), format!("{side} {name}")).unwrap();
        fs::set_permissions(inner.join(name), Permissions::from_mode(0o640)).unwrap();
    }
    for directory in ["", "a", "a/b", ABOVE, "a/b/c/sub"] {
        fs::write(place.join(directory).join(format!("{side}-only")), side).unwrap();
    }
    symlink(format!("{side}-target"), inner.join("link")).unwrap();
    let named = |name: &str| rustix::fs::setxattr(inner.join(name), SIDE, side.as_bytes(), XattrFlags::empty()).is_ok();
    named("file") && named("sub")
}

fn described(path: &Path, metadata: &fs::Metadata, contents: Vec<u8>) -> Described {
    let mut value = vec![0; 64];
    let side = rustix::fs::lgetxattr(path, SIDE, value.as_mut_slice()).ok();
    Described {
        numbers: [
            metadata.dev(),
            metadata.ino(),
            metadata.mode().into(),
            metadata.uid().into(),
            metadata.gid().into(),
            metadata.nlink(),
            metadata.size(),
        ],
        times: [(metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec())],
        contents,
        side: side.map(|length| value[..length].to_vec()),
    }
}
