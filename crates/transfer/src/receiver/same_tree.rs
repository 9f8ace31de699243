//! Whether two directories have the same in them: the same names, and under each of them the same file,
//! an equal link, or a directory that is the same in turn.

use icdc_disk::tree::{Directory, Kind, Listing, Name, Stat, TreeError};

/// Two directories that are compared with each other, and the position among their names.
struct Level {
    one: Directory,
    other: Directory,
    listing: Listing,
    /// Position in the listing of the next name.
    next: usize,
}

impl Level {
    /// Opens a level; `None` if the directories differ in their attributes or in names.
    fn open(one: Directory, other: Directory) -> Result<Option<Self>, TreeError> {
        let attributes = |stat: Stat| (stat.mode, stat.uid, stat.gid, stat.mtime);
        if attributes(one.own_stat()?) != attributes(other.own_stat()?) {
            return Ok(None);
        }
        let (listing, others) = (one.entries()?, other.entries()?);
        let is_same = listing.iter().map(|entry| entry.name).eq(others.iter().map(|entry| entry.name));
        Ok(is_same.then_some(Self { one, other, listing, next: 0 }))
    }
}

/// Whether both directories have equal attributes and the same in them: the same names and, under
/// each of them, the same file, equal links, or directories that are the same in turn.
///
/// # Errors
/// Something cannot be read.
pub(super) fn same_tree(one: &Directory, other: &Directory) -> Result<bool, TreeError> {
    let Some(level) = Level::open(one.clone(), other.clone())? else { return Ok(false) };
    let mut levels = vec![level];
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.listing.get(level.next) else {
            levels.pop();
            continue;
        };
        level.next += 1;
        let name = Name::new(entry.name)?;
        let (found, there) = (level.one.stat(&name)?, level.other.stat(&name)?);
        match (found.kind, there.kind) {
            (Kind::File, Kind::File) if (found.dev, found.ino) == (there.dev, there.ino) => {}
            (Kind::Symlink, Kind::Symlink)
                if (found.uid, found.gid, found.mtime) == (there.uid, there.gid, there.mtime)
                    && level.one.read_link(&name)? == level.other.read_link(&name)? => {}
            (Kind::Directory, Kind::Directory) => {
                let (one, other) = (level.one.open_directory(&name)?, level.other.open_directory(&name)?);
                match Level::open(one, other)? {
                    Some(level) => levels.push(level),
                    None => return Ok(false),
                }
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use icdc_disk::tree::{FileTime, Metadata, Tree};

    use super::*;

    /// Makes `one` and `other`, the same by links, and changes `other` as told.
    fn is_same(change: impl FnOnce(&Path)) -> bool {
        let temporary = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| temporary.path().join(name));
        for place in [&one, &other] {
            fs::create_dir_all(place.join("inner/deep")).unwrap();
            symlink("target", place.join("inner/link")).unwrap();
        }
        fs::write(one.join("inner/file"), "file").unwrap();
        fs::hard_link(one.join("inner/file"), other.join("inner/file")).unwrap();
        change(&other);
        let tree = Tree::open(temporary.path()).unwrap();
        let open = |path: &str| tree.resolve(path.as_bytes()).unwrap().open_directory().unwrap();
        let then = Some(FileTime { seconds: 5, nanos: 5 });
        let wanted = Metadata { mtime: then, ..Metadata::default() };
        for top in ["one", "other"] {
            let inner = open(&format!("{top}/inner"));
            let _ = inner.set_link_metadata(&Name::new(b"link").unwrap(), &wanted);
            for path in ["/inner/deep", "/inner", ""] {
                if let Ok(located) = tree.resolve(format!("{top}{path}").as_bytes())
                    && let Ok(directory) = located.open_directory()
                {
                    directory.set_own_metadata(&wanted).unwrap();
                }
            }
        }
        same_tree(&open("one"), &open("other")).unwrap()
    }

    #[test]
    fn trees_are_the_same_only_with_the_same_files() {
        assert!(is_same(|_| {}));
        let changes: [fn(&Path); 6] = [
            |other| fs::write(other.join("inner/more"), "").unwrap(),
            |other| fs::remove_dir(other.join("inner/deep")).unwrap(),
            |other| {
                fs::remove_file(other.join("inner/file")).unwrap();
                fs::write(other.join("inner/file"), "file").unwrap();
            },
            |other| {
                fs::remove_file(other.join("inner/link")).unwrap();
                symlink("other", other.join("inner/link")).unwrap();
            },
            |other| fs::set_permissions(other.join("inner"), fs::Permissions::from_mode(0o700)).unwrap(),
            |other| {
                fs::remove_dir(other.join("inner/deep")).unwrap();
                fs::write(other.join("inner/deep"), "").unwrap();
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(!is_same(change), "change {number}");
        }
    }
}
