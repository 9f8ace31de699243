//! The walk through an extra item and everything in it, for counting and for deleting: by
//! descriptors, the contents of a directory before the directory.
//!
//! A directory is entered only if it is the one that was looked at: not through a link, not across
//! a mount point, and not one that took its name since.

use icdc_disk::tree::{Directory, Listing, Name, TreeError, resembles_staging};
use icdc_protocol::limits::MAX_DEPTH;

use super::super::super::failure::{self, Failure};
use super::super::super::protection::{Item, Protection, Unfinished};

/// Handler of the items of a walk.
pub(super) trait Visitor {
    /// Prepares a directory for being read and emptied.
    ///
    /// # Errors
    /// Errors of changing its mode.
    fn enter(&mut self, directory: &Directory) -> Result<(), TreeError>;

    /// Visits an item, a directory only when everything in it is gone. Returns whether it is gone.
    ///
    /// # Errors
    /// An error ends the walk.
    fn visit(&mut self, above: &Directory, item: &Item) -> Result<bool, Failure>;

    /// Something at this path cannot be visited; it stays.
    ///
    /// # Errors
    /// An error ends the walk.
    fn failed(&mut self, path: &[u8], failure: Failure) -> Result<(), Failure>;

    /// Whether nothing more is to be visited.
    fn is_over(&self) -> bool;
}

/// Visits an item of the directory `above` and everything in it. Returns whether it is gone.
///
/// # Errors
/// Those that the visitor returns.
pub(super) fn walk(
    above: &Directory,
    item: Item,
    protection: &Protection<'_>,
    visitor: &mut impl Visitor,
) -> Result<bool, Failure> {
    let mut levels: Vec<Level> = Vec::new();
    let mut next = Some(item);
    loop {
        let directory = levels.last().map_or(above, |level| &level.directory).clone();
        let is_gone = match next {
            Some(item) => match begin(&directory, item, levels.len(), protection, visitor)? {
                Begun::Visited(is_gone) => is_gone,
                Begun::Entered(level) => {
                    levels.push(*level);
                    true
                }
            },
            None => {
                let Some(level) = levels.pop() else { return Ok(true) };
                let above = levels.last().map_or(above, |level| &level.directory);
                !level.has_kept && visitor.visit(above, &level.item)?
            }
        };
        let Some(level) = levels.last_mut() else { return Ok(is_gone) };
        level.has_kept |= !is_gone;
        if visitor.is_over() {
            return Ok(false);
        }
        next = match level.next(protection) {
            Ok(next) => next,
            Err(failure) => {
                visitor.failed(&level.item.path, failure)?;
                level.has_kept = true;
                level.left = level.listing.len();
                None
            }
        };
    }
}

/// Outcome of beginning with one item of a walk.
enum Begun {
    /// The item was visited, or cannot be; whether it is gone.
    Visited(bool),
    /// The item is a directory, and what is in it comes first.
    Entered(Box<Level>),
}

/// Begins with one item of a walk: visits it, or enters it if it is a directory. What is protected
/// stays.
fn begin(
    above: &Directory,
    item: Item,
    depth: usize,
    protection: &Protection<'_>,
    visitor: &mut impl Visitor,
) -> Result<Begun, Failure> {
    let is_allowed = protection.refuse_source(&item.stat, &above.path_of(&item.name));
    if !item.is_directory() {
        return match is_allowed {
            Ok(()) => visitor.visit(above, &item).map(Begun::Visited),
            Err(failure) => visitor.failed(&item.path, failure).map(|()| Begun::Visited(false)),
        };
    }
    if protection.is_linked(&item.stat) {
        return Ok(Begun::Visited(false));
    }
    let path = item.path.clone();
    match is_allowed.and_then(|()| Level::open(above, item, depth, visitor)) {
        Ok(level) => Ok(Begun::Entered(Box::new(level))),
        Err(failure) => visitor.failed(&path, failure).map(|()| Begun::Visited(false)),
    }
}

/// A directory that is walked, with those of its items that are left.
struct Level {
    item: Item,
    directory: Directory,
    listing: Listing,
    /// Position in the listing of the next item.
    left: usize,
    /// Whether something in it stays, and so the directory does, too.
    has_kept: bool,
}

impl Level {
    /// Opens a directory that is to be walked, if it is the one that was looked at and not nested
    /// too deep.
    fn open(above: &Directory, item: Item, depth: usize, visitor: &mut impl Visitor) -> Result<Self, Failure> {
        let shown = above.path_of(&item.name);
        if depth >= MAX_DEPTH {
            return Err(format!("{shown}: is nested too deep; remove it by hand").into());
        }
        let open = || {
            let directory = above.open_directory_on_mount(&item.name)?;
            let stat = directory.own_stat()?;
            Ok((directory, (stat.dev, stat.ino) == (item.stat.dev, item.stat.ino)))
        };
        let (directory, is_same) = open().map_err(|error: TreeError| failure::of_tree(&error))?;
        if !is_same {
            return Err(format!("{shown}: was replaced while it was looked at; run the same command again").into());
        }
        let listing = visitor.enter(&directory).and_then(|()| directory.entries());
        let listing = listing.map_err(|error| failure::of_tree(&error))?;
        Ok(Self { item, directory, listing, left: 0, has_kept: false })
    }

    /// The next item that is still there and to be deleted: neither an unfinished file of another
    /// copy nor excluded by a rule.
    fn next(&mut self, protection: &Protection<'_>) -> Result<Option<Item>, Failure> {
        while let Some(entry) = self.listing.get(self.left) {
            self.left += 1;
            if protection.unfinished == Unfinished::Stays && resembles_staging(entry.name) {
                self.has_kept = true;
                continue;
            }
            let name = Name::new(entry.name).map_err(|error| error.to_string())?;
            match self.directory.stat(&name) {
                Ok(stat) => {
                    let item = Item::of(name, stat, &self.item.path, &self.item.source_path);
                    if !protection.keeps(&item) {
                        return Ok(Some(item));
                    }
                    self.has_kept = true;
                }
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(failure::of_tree(&error)),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use icdc_disk::tree::Tree;
    use icdc_filter::Rules;

    use super::*;

    /// Notes what it visits, and puts a link where the directory `swapped` was once it has seen `first`.
    struct Swapping<'a> {
        root: &'a Path,
        visited: Vec<String>,
        failed: Vec<String>,
    }

    impl Visitor for Swapping<'_> {
        fn enter(&mut self, _directory: &Directory) -> Result<(), TreeError> {
            Ok(())
        }

        fn visit(&mut self, _above: &Directory, item: &Item) -> Result<bool, Failure> {
            let path = String::from_utf8(item.path.clone()).unwrap();
            if path == "old/inner/first" {
                fs::rename(self.root.join("old/inner"), self.root.join("elsewhere")).unwrap();
                symlink("../outside", self.root.join("old/inner")).unwrap();
            }
            self.visited.push(path);
            Ok(true)
        }

        fn failed(&mut self, path: &[u8], _failure: Failure) -> Result<(), Failure> {
            self.failed.push(String::from_utf8(path.to_vec()).unwrap());
            Ok(())
        }

        fn is_over(&self) -> bool {
            false
        }
    }

    fn walk_of(root: &Path, prepare: impl FnOnce()) -> (Vec<String>, Vec<String>) {
        let tree = Tree::open(root).unwrap();
        let directory = tree.resolve(b".").unwrap().open_directory().unwrap();
        let name = Name::new(b"old").unwrap();
        let item = Item::of(name.clone(), directory.stat(&name).unwrap(), b"", b"");
        prepare();
        let rules = Rules::compile(&[]).unwrap();
        let protection = Protection { rules: &rules, sources: None, linked: None, unfinished: Unfinished::Stays };
        let mut visitor = Swapping { root, visited: Vec::new(), failed: Vec::new() };
        walk(&directory, item, &protection, &mut visitor).unwrap();
        (visitor.visited, visitor.failed)
    }

    #[test]
    fn a_directory_that_becomes_a_link_during_the_walk_is_walked_where_it_was() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        fs::create_dir_all(root.join("old/inner")).unwrap();
        fs::create_dir(root.join("outside")).unwrap();
        ["old/inner/first", "old/inner/second", "outside/third"]
            .iter()
            .for_each(|path| fs::write(root.join(path), path).unwrap());
        let (visited, failed) = walk_of(root, || {});
        assert_eq!(visited, ["old/inner/first", "old/inner/second", "old/inner", "old"]);
        assert!(failed.is_empty(), "{failed:?}");
    }

    #[test]
    fn a_directory_that_took_the_name_of_the_one_that_was_looked_at_is_not_entered() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        fs::create_dir(root.join("old")).unwrap();
        fs::create_dir(root.join("new")).unwrap();
        fs::write(root.join("new/precious"), "precious").unwrap();
        let (visited, failed) = walk_of(root, || {
            fs::rename(root.join("old"), root.join("away")).unwrap();
            fs::rename(root.join("new"), root.join("old")).unwrap();
        });
        assert_eq!((visited, failed), (Vec::new(), vec!["old".to_owned()]));
    }
}
