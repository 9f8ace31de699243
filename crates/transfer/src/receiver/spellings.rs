//! Names that the destination cannot distinguish, such as `README` and `readme` where case is
//! ignored, or two spellings of `é`: what a run has published under one of them must not be
//! replaced by another, or mistaken for it.
//!
//! Only the file system knows which names are equal. Whether a directory ignores case is tested
//! with a name that it has. Other spellings are noticed by device and inode: the file found under a
//! name is compared with those that this run has published or found in that directory under other
//! names. Only names that may have another spelling are remembered: those in directories that
//! ignore case, and those with characters outside ASCII.

use std::collections::HashMap;
use std::collections::hash_map::{Entry as Slot, RandomState};
use std::hash::BuildHasher;
use std::sync::Arc;

use icdc_disk::tree::{Directory, Kind, Listing, Name, Stat};
use icdc_session::receiver::book::item::DirectoryPlace;

use super::failure::{self, Failure};
use super::placement::place_of;

/// Maximum number of directories for which it is remembered whether they ignore case.
const MAX_DIRECTORIES: usize = 4096;
/// Maximum number of names that are remembered; further ones are not distinguished any more.
const MAX_NAMES: usize = 1 << 20;

/// A published name: its directory, and the name in it.
type Known = (DirectoryPlace, Arc<[u8]>);

/// Index of this run's names that may have another spelling (letter case, Unicode form) at the
/// destination.
#[derive(Default)]
pub(super) struct Spellings {
    /// Whether each directory, by device and inode, ignores case.
    ignore_case: HashMap<DirectoryPlace, bool>,
    /// Directories and names under which this run knows an item, by the item's device and inode.
    items: HashMap<(u64, u64), Vec<Known>>,
    /// Names in directories that ignore case, by the hash of the directory and the name in lower
    /// case. The kernel may have a cached entry for another spelling of such a name.
    without_case: HashMap<u64, Arc<[u8]>>,
    /// The directory that was listed last, as it was then.
    listed: Option<(DirectoryPlace, Listing)>,
    hasher: RandomState,
    names: usize,
}

/// A name, and the directory that it is in.
#[derive(Clone, Copy)]
pub(super) struct Spelling<'a> {
    pub(super) directory: &'a Directory,
    pub(super) place: DirectoryPlace,
    pub(super) name: &'a Name,
}

impl Spelling<'_> {
    fn bytes(&self) -> &[u8] {
        self.name.as_bytes()
    }
}

impl Spellings {
    /// Whether this name may have another spelling; `there` is a name with letters that exists in
    /// its directory.
    pub(super) fn may_differ(&mut self, name: Spelling<'_>, there: &Name) -> bool {
        if !name.bytes().is_ascii() {
            return true;
        }
        if !name.bytes().iter().any(u8::is_ascii_alphabetic) {
            return false;
        }
        if self.ignore_case.len() >= MAX_DIRECTORIES {
            self.ignore_case.clear();
        }
        let variant = self.hasher.hash_one(there.as_bytes());
        match self.ignore_case.entry(name.place) {
            Slot::Occupied(known) => *known.get(),
            Slot::Vacant(unknown) => *unknown.insert(name.directory.ignores_case_of(there, variant)),
        }
    }

    /// Whether the directory is known to ignore case; false if that was not tested.
    fn ignores_case(&self, place: DirectoryPlace) -> bool {
        self.ignore_case.get(&place).copied().unwrap_or(false)
    }

    /// Hash of the directory and of the name in lower case.
    fn hash(&self, name: Spelling<'_>) -> u64 {
        self.hasher.hash_one((name.place, name.bytes().to_ascii_lowercase()))
    }

    /// Checks an examined name: refuses one under which this run finds an item that it knows by
    /// another name. `found` describes what has the name, and whether that is the item already.
    pub(super) fn check(&mut self, name: Spelling<'_>, found: Option<(&Stat, bool)>) -> Result<(), Failure> {
        let Some((found, is_item)) = found else { return self.refuse_other(name, None) };
        if self.may_differ(name, name.name) {
            self.refuse_other(name, Some(found))?;
            if is_item {
                self.note(name, found);
            }
        }
        Ok(())
    }

    /// Notes that this run has published or found what `stat` describes under this name.
    pub(super) fn note(&mut self, name: Spelling<'_>, stat: &Stat) {
        if self.names >= MAX_NAMES || self.names_of(name.place, stat).any(|known| **known == *name.bytes()) {
            return;
        }
        self.names += 1;
        let bytes: Arc<[u8]> = name.bytes().into();
        if self.ignores_case(name.place) {
            self.without_case.insert(self.hash(name), Arc::clone(&bytes));
        }
        self.items.entry((stat.dev, stat.ino)).or_default().push((name.place, bytes));
    }

    /// Names in the directory `place` under which this run knows the item that `stat` describes.
    fn names_of(&self, place: DirectoryPlace, stat: &Stat) -> impl Iterator<Item = &Arc<[u8]>> + Clone {
        let known = self.items.get(&(stat.dev, stat.ino)).into_iter().flatten();
        known.filter(move |(directory, _)| *directory == place).map(|(_, name)| name)
    }

    /// Refuses a name that refers to an item that this run knows by another name; `found` describes
    /// what has the name.
    pub(super) fn refuse_other(&mut self, name: Spelling<'_>, found: Option<&Stat>) -> Result<(), Failure> {
        let other = match (self.by_case(name), found) {
            (Some(other), _) => other,
            (None, Some(found)) => match self.by_item(name, found) {
                Some(other) if !self.is_further_link(name, found) => other,
                _ => return Ok(()),
            },
            (None, None) => return Ok(()),
        };
        let path = name.directory.path_of(name.name);
        let other = Name::new(&other).map_or_else(|_| path.clone(), |other| name.directory.path_of(&other));
        Err(Failure::Final(format!(
            "{path}: the file system takes this name and that of {other}, which this copy has made or found, for the \
             same; {other} is kept, so rename one of the two at the source, or choose a destination that keeps such \
             names apart"
        )))
    }

    /// Whether an existing item that the source seems not to have is one that this run knows by
    /// another name.
    ///
    /// # Errors
    /// More names were to be remembered than are, and this may be one of them.
    pub(super) fn may_be_another(&mut self, name: Spelling<'_>, found: &Stat) -> Result<bool, Failure> {
        if self.refuse_other(name, Some(found)).is_err() {
            return Ok(true);
        }
        if self.names < MAX_NAMES || !self.may_differ(name, name.name) {
            return Ok(false);
        }
        Err(Failure::Final(format!(
            "{}: the copy has more than {MAX_NAMES} names that may have another spelling at the destination, and this \
             may be one of them; mirror parts of the tree one by one",
            name.directory.path_of(name.name)
        )))
    }

    /// Another spelling of this name, with other case, under which this run knows an item in a
    /// directory that ignores case; `None` if there is none.
    fn by_case(&self, name: Spelling<'_>) -> Option<Arc<[u8]>> {
        let known = self.ignores_case(name.place).then(|| self.without_case.get(&self.hash(name))).flatten()?;
        (**known != *name.bytes()).then(|| Arc::clone(known))
    }

    /// Name under which this run knows the item `found` in this directory; `None` if it does not,
    /// or knows it by this name, too.
    fn by_item(&self, name: Spelling<'_>, found: &Stat) -> Option<Arc<[u8]>> {
        let mut known = self.names_of(name.place, found);
        let other = known.clone().next()?;
        (!known.any(|known| **known == *name.bytes())).then(|| Arc::clone(other))
    }

    /// Whether the item has that name as a further hard link, which another process or an earlier
    /// run may have made.
    fn is_further_link(&mut self, name: Spelling<'_>, found: &Stat) -> bool {
        if found.kind == Kind::Directory || found.nlink < 2 || self.ignores_case(name.place) {
            return false;
        }
        let has = |listing: &Listing| listing.iter().any(|entry| entry.name == name.bytes());
        if self.listed.as_ref().is_some_and(|(place, listing)| *place == name.place && has(listing)) {
            return true;
        }
        self.listed = name.directory.entries().ok().map(|listing| (name.place, listing));
        self.listed.as_ref().is_some_and(|(_, listing)| has(listing))
    }

    /// Notes what was found under this name. It is refused where this run knows it under another name.
    pub(super) fn take_found(&mut self, name: Spelling<'_>, stat: &Stat) -> Result<(), Failure> {
        if self.may_differ(name, name.name) {
            self.refuse_other(name, Some(stat))?;
            self.note(name, stat);
        }
        Ok(())
    }

    /// Notes the directory `name`, which was made or opened for this run. One that existed already
    /// is refused where this run knows it under another name.
    pub(super) fn take_directory(
        &mut self,
        above: &Directory,
        name: &Name,
        (directory, is_new): (&Directory, bool),
    ) -> Result<(), Failure> {
        let place = place_of(above).map_err(|error| failure::of_tree(&error))?;
        let name = Spelling { directory: above, place, name };
        if !self.may_differ(name, name.name) {
            return Ok(());
        }
        let stat = directory.own_stat().map_err(|error| failure::of_tree(&error))?;
        if !is_new {
            self.refuse_other(name, Some(&stat))?;
        }
        self.note(name, &stat);
        Ok(())
    }
}
