//! The walk through an item and everything in it, for counting and for removing: by descriptors, the
//! contents of a directory before the directory.
//!
//! A directory is entered only if it is the one that was looked at: not through a link, not across a
//! mount point, and not one that took its name since.

use super::directory::Directory;
use super::error::TreeError;
use super::kind::Kind;
use super::listing::Listing;
use super::metadata::Stat;
use super::names::{Name, printable};

/// Deepest nesting of directories of a walk. Each level keeps a descriptor.
const MAX_DEPTH: usize = 4096;

/// An item of a walk, as it was when it was looked at.
#[derive(Clone, Debug)]
pub struct WalkItem {
    /// Name of the item in its directory.
    pub name: Name,
    /// Description of the item.
    pub stat: Stat,
    /// Path of the item, from wherever the walk has begun.
    pub path: Vec<u8>,
}

impl WalkItem {
    /// Whether the item is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.stat.kind == Kind::Directory
    }

    /// The failure of this item, for this reason, a sentence for the user.
    #[must_use]
    pub fn failed(&self, reason: impl ToString) -> WalkFailure {
        WalkFailure { path: self.path.clone(), reason: reason.to_string() }
    }
}

/// An item that cannot be walked through: it cannot be read, is a mount point, or was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkFailure {
    /// Path of the item, from wherever the walk has begun.
    pub path: Vec<u8>,
    /// The reason, as a sentence for the user.
    pub reason: String,
}

/// Handler of the items of a walk. Errors end it.
pub trait Visitor {
    /// Error that ends the walk.
    type Error: From<WalkFailure>;

    /// Looks at an item of the directory `above` before it is entered or visited; `way` are the
    /// directories of the walk that lead to it.
    ///
    /// # Errors
    /// The item is not to be walked through.
    fn meet(
        &mut self,
        _way: &mut dyn Iterator<Item = &Directory>,
        _above: &Directory,
        _item: &WalkItem,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Prepares a directory for being read and emptied.
    ///
    /// # Errors
    /// Errors of changing its mode.
    fn enter(&mut self, _directory: &Directory) -> Result<(), TreeError> {
        Ok(())
    }

    /// Visits an item of the directory `above`; everything in it has been visited.
    ///
    /// # Errors
    /// Those of whatever is done with the item.
    fn visit(&mut self, above: &Directory, item: &WalkItem) -> Result<(), Self::Error>;
}

/// Visits the item of the directory `top` and everything in it.
///
/// # Errors
/// Those of the visitor, and [`WalkFailure`].
pub fn walk<V: Visitor>(top: &Directory, item: WalkItem, visitor: &mut V) -> Result<(), V::Error> {
    let mut levels: Vec<Level> = Vec::new();
    let mut next = Some(item);
    loop {
        let above = levels.last().map_or(top, |level| &level.directory);
        match next {
            Some(item) => {
                visitor.meet(&mut levels.iter().map(|level| &level.directory), above, &item)?;
                if item.is_directory() {
                    let level = Level::open(above, item, levels.len(), visitor)?;
                    levels.push(level);
                } else {
                    above.refuse_mount(&item.name).map_err(|error| item.failed(error))?;
                    visitor.visit(above, &item)?;
                }
            }
            None => {
                let Some(level) = levels.pop() else { return Ok(()) };
                visitor.visit(levels.last().map_or(top, |level| &level.directory), &level.item)?;
            }
        }
        let Some(level) = levels.last_mut() else { return Ok(()) };
        next = level.next()?;
    }
}

/// A directory that is walked, with those of its items that are left.
struct Level {
    item: WalkItem,
    directory: Directory,
    listing: Listing,
    /// Position in the listing of the next item.
    left: usize,
}

impl Level {
    /// Enters the directory `item` of `above`: fails if it is a mount point, is another directory
    /// than `item` describes, or is nested deeper than [`MAX_DEPTH`].
    fn open(above: &Directory, item: WalkItem, depth: usize, visitor: &mut impl Visitor) -> Result<Self, WalkFailure> {
        let shown = printable(&item.path);
        if depth >= MAX_DEPTH {
            return Err(item.failed(format!("{shown}: is nested too deep; remove a directory below first")));
        }
        let open = || {
            let directory = above.open_directory_on_mount(&item.name)?;
            let stat = directory.own_stat()?;
            Ok((directory, (stat.dev, stat.ino) == (item.stat.dev, item.stat.ino)))
        };
        let (directory, is_same) = open().map_err(|error: TreeError| item.failed(error))?;
        if !is_same {
            let reason = format!("{shown}: was replaced while it was looked at; run the same command again");
            return Err(item.failed(reason));
        }
        let listing = visitor.enter(&directory).and_then(|()| directory.entries());
        let listing = listing.map_err(|error| item.failed(error))?;
        Ok(Self { item, directory, listing, left: 0 })
    }

    /// The next item that is still there.
    fn next(&mut self) -> Result<Option<WalkItem>, WalkFailure> {
        while let Some(entry) = self.listing.get(self.left) {
            self.left += 1;
            let name = Name::new(entry.name).map_err(|error| self.item.failed(error))?;
            match self.directory.stat(&name) {
                Ok(stat) => {
                    let slash: &[u8] = if self.item.path.ends_with(b"/") { b"" } else { b"/" };
                    let path = [&self.item.path, slash, name.as_bytes()].concat();
                    return Ok(Some(WalkItem { name, stat, path }));
                }
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(self.item.failed(error)),
            }
        }
        Ok(None)
    }
}
