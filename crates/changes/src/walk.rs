//! The walk through an item of a request and everything in it; where something may be in use by a
//! running copy, it ends.

use icdc_disk::tree::{Directory, Visitor, WalkFailure, WalkItem, is_staging};

use crate::in_use::InUse;
use crate::place::Place;
use crate::report::Over;

/// Error that ends a walk before everything is visited.
pub(crate) enum Halt {
    /// The change is not to go on.
    Over,
    /// An item cannot be visited.
    Failed(WalkFailure),
}

impl From<Over> for Halt {
    fn from(Over: Over) -> Self {
        Self::Over
    }
}

impl From<WalkFailure> for Halt {
    fn from(failure: WalkFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Function that handles an item (counts or removes it), given its directory; everything in it has
/// been visited.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&Directory, &WalkItem) -> Result<(), Halt>;

/// Visits the item of `place`, which has this path, and everything in it.
///
/// # Errors
/// Those of `visit`. Something cannot be read, is a mount point, may be in use by a running copy, or
/// was replaced.
pub(crate) fn walk(place: Place, path: &[u8], in_use: &InUse<'_>, visit: Visit<'_>) -> Result<(), Halt> {
    let Place { directory, name, stat } = place;
    let item = WalkItem { name, stat, path: path.to_vec() };
    icdc_disk::tree::walk(&directory, item, &mut CheckedVisitor { in_use, visit })
}

/// Visitor that checks each unfinished file for use by a running copy before passing items to
/// `visit`; one that may be in use ends the walk.
struct CheckedVisitor<'a, 'b> {
    in_use: &'a InUse<'a>,
    visit: Visit<'b>,
}

impl Visitor for CheckedVisitor<'_, '_> {
    type Error = Halt;

    fn meet(
        &mut self,
        way: &mut dyn Iterator<Item = &Directory>,
        above: &Directory,
        item: &WalkItem,
    ) -> Result<(), Halt> {
        if is_staging(item.name.as_bytes()) {
            self.in_use.check(way, above, item).map_err(|reason| item.failed(reason))?;
        }
        Ok(())
    }

    fn visit(&mut self, above: &Directory, item: &WalkItem) -> Result<(), Halt> {
        (self.visit)(above, item)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use icdc_disk::tree::Tree;

    use super::*;
    use crate::place;

    /// Walks `old`, once `prepare` has run after it was found; returns what it visits until it ends,
    /// and the path at which it fails. `visiting` runs at each visit.
    fn walked(root: &Path, prepare: impl FnOnce(), visiting: impl Fn(&str)) -> (Vec<String>, Option<String>) {
        let tree = Tree::open(root).unwrap();
        let place = place::find(&tree, b"old", &[], &mut None).unwrap();
        prepare();
        let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
        let mut visited = Vec::new();
        let mut visit = |_: &Directory, item: &WalkItem| {
            visiting(&text(&item.path));
            visited.push(text(&item.path));
            Ok(())
        };
        let failed = match walk(place, b"old", &InUse::new(&tree, b"old", None), &mut visit) {
            Err(Halt::Failed(failure)) => Some(text(&failure.path)),
            Err(Halt::Over) => panic!("nobody ends it"),
            Ok(()) => None,
        };
        (visited, failed)
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
        let swap = |path: &str| {
            if path == "old/inner/first" {
                fs::rename(root.join("old/inner"), root.join("elsewhere")).unwrap();
                symlink("../outside", root.join("old/inner")).unwrap();
            }
        };
        let (visited, failed) = walked(root, || {}, swap);
        assert_eq!(visited, ["old/inner/first", "old/inner/second", "old/inner", "old"]);
        assert_eq!(failed, None);
    }

    #[test]
    fn a_directory_that_took_the_name_of_the_one_that_was_looked_at_is_not_entered() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        fs::create_dir(root.join("old")).unwrap();
        fs::create_dir(root.join("new")).unwrap();
        fs::write(root.join("new/precious"), "precious").unwrap();
        let prepare = || {
            fs::rename(root.join("old"), root.join("away")).unwrap();
            fs::rename(root.join("new"), root.join("old")).unwrap();
        };
        assert_eq!(walked(root, prepare, |_| {}), (Vec::new(), Some("old".to_owned())));
    }

    #[test]
    fn a_link_is_visited_and_not_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        fs::create_dir(root.join("outside")).unwrap();
        fs::write(root.join("outside/precious"), "precious").unwrap();
        fs::create_dir(root.join("old")).unwrap();
        symlink("../outside", root.join("old/link")).unwrap();
        assert_eq!(walked(root, || {}, |_| {}), (vec!["old/link".to_owned(), "old".to_owned()], None));
    }
}
