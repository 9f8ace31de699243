//! Extra items of a mirror: names that a directory of the destination has and the one of the source
//! has not, as far as they are found.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;

use icdc_protocol::limits::MAX_EXTRAS;
use icdc_protocol::message::{Entry, EntryId, FileDigest, MaxDelete, Parent};
use icdc_units::ByteCount;

use super::action::{DirectoryExtras, Extra};
use super::item::{DirectoryPlace, Item};
use super::source_names::SourceNames;
use crate::ById;

/// Names that the source has in a directory whose children are being announced.
#[derive(Debug, Default)]
pub(super) struct Announcing {
    pub(super) names: SourceNames,
    /// Whether the sender has not read the directory, so that nothing in it is extra.
    pub(super) is_unread: bool,
    /// Whether the directory is a source itself.
    pub(super) is_source: bool,
}

/// An item of the destination that has the name of something of another kind.
#[derive(Debug)]
pub(super) struct Obstacle {
    /// Its directory, without any item.
    pub(super) found: DirectoryExtras,
    pub(super) extra: Extra,
    pub(super) replacement: Replacement,
}

/// Item or directory that is to have the name of an obstacle.
#[derive(Debug)]
pub(super) enum Replacement {
    /// It is not complete, or this is a dry run.
    Underway,
    /// A directory, with everything in it, under a staging name.
    Directory { entry: Box<Entry>, path: Vec<u8> },
    /// A file or link under its staging name, `bytes` of which became durable there.
    Item { item: Box<Item>, digest: Option<FileDigest>, bytes: ByteCount },
}

/// Progress of the deletion of a mirror's extra items.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Items are announced and copied.
    #[default]
    Collecting,
    /// The extra items are being counted.
    Counting,
    /// The extra items are being deleted.
    Deleting,
    /// Nothing more is deleted.
    Ended,
}

/// Extra items that were found so far, and what is known to decide on their deletion.
#[derive(Debug, Default)]
pub(super) struct Extras {
    pub(super) open: ById<Announcing>,
    /// Number of names kept of the open directories.
    pub(super) names: usize,
    /// The extra items of each directory that was listed, even if it has none: another source may
    /// go into the same directory, and only what neither has is extra.
    pub(super) found: HashMap<DirectoryPlace, DirectoryExtras>,
    /// Names, by their directory, of the sources that are not contents of a directory, which other sources may
    /// lead to as well.
    pub(super) sources: HashMap<DirectoryPlace, HashSet<Vec<u8>>>,
    /// Directories that several sources go into.
    pub(super) shared: HashSet<DirectoryPlace>,
    /// Obstacles: what has the name of an announced directory or item, and is of another kind.
    pub(super) obstacles: BTreeMap<EntryId, Obstacle>,
    /// Number of items in all listed directories.
    pub(super) listed: u64,
    /// Number of extra items in `found`.
    pub(super) count: usize,
    /// First reason found why nothing may be deleted; `None` if there is none.
    pub(super) refusal: Option<String>,
    pub(super) stage: Stage,
}

impl Extras {
    /// Records an announced entry: a name in its parent, and a directory whose children follow.
    pub(super) fn on_entry(&mut self, id: EntryId, parent: Parent, name: &[u8], is_directory: bool) {
        if let Parent::Directory(above) = parent
            && let Some(above) = self.open.get_mut(&above)
        {
            above.names.insert(name);
            self.names += 1;
        }
        if is_directory {
            let is_source = matches!(parent, Parent::Source(_));
            self.open.insert(id, Announcing { is_source, ..Announcing::default() });
        }
        if self.names > MAX_EXTRAS {
            self.refuse(|| format!("the source has more than {MAX_EXTRAS} names in directories that are open at once"));
        }
    }

    /// Refuses the deletion, so that nothing is deleted; the first reason counts.
    pub(super) fn refuse(&mut self, reason: impl FnOnce() -> String) {
        if self.refusal.is_none() {
            self.refusal = Some(reason());
        }
        self.found.clear();
    }

    /// Whether the contents of other sources than `own` go into this directory.
    pub(super) fn is_of_several(&self, place: DirectoryPlace, own: Option<u32>) -> bool {
        let is_others = self.found.get(&place).is_some_and(|found| Some(found.source) != own);
        is_others || self.shared.contains(&place)
    }

    /// Refuses the deletion if another source has gone into a directory that is in the way of one.
    pub(super) fn refuse_obstacles_with_contents(&mut self) {
        let is_filled = |obstacle: &&Obstacle| self.found.contains_key(&obstacle.extra.place());
        let Some(Obstacle { found, extra, .. }) = self.obstacles.values().find(is_filled) else { return };
        let shown = [found.path.as_slice(), &extra.name].join(&b'/');
        self.refuse(|| format!("{}: two sources have items of different kinds of this name", shown.escape_ascii()));
    }

    /// Adds what was found in a directory; of one that was listed before, both listings count.
    pub(super) fn add(&mut self, mut found: DirectoryExtras, listed: u64) {
        if self.refusal.is_some() {
            return;
        }
        if let Some(before) = self.found.remove(&found.place) {
            self.count -= before.extras.len();
            self.shared.insert(found.place);
            let has = |extra: &Extra| before.extras.binary_search_by(|known| known.name.cmp(&extra.name));
            found.extras.retain(|extra| has(extra).is_ok_and(|place| before.extras[place] == *extra));
        } else {
            self.listed += listed;
        }
        self.count += found.extras.len();
        self.found.insert(found.place, found);
        if self.count > MAX_EXTRAS {
            self.refuse(|| format!("the destination has more than {MAX_EXTRAS} items that the source has not"));
        }
    }

    /// Takes what no source has, and the obstacles, by directory: the inner ones first, because what
    /// replaces an obstacle may have others in it.
    pub(super) fn take(&mut self) -> Vec<DirectoryExtras> {
        let mut found = mem::take(&mut self.found);
        for (place, names) in &self.sources {
            if let Some(found) = found.get_mut(place) {
                found.extras.retain(|extra| !names.contains(&extra.name));
            }
        }
        for Obstacle { found: directory, extra, .. } in self.obstacles.values() {
            let found = found.entry(directory.place).or_insert_with(|| directory.clone());
            found.extras.push(extra.clone());
        }
        let mut found: Vec<_> = found.into_values().filter(|found| !found.extras.is_empty()).collect();
        found.sort_unstable_by(|one, other| other.path.cmp(&one.path));
        found
    }

    /// Most items that may be deleted; `None` for no limit. `all` items are at the destination.
    pub(super) fn limit(max: Option<MaxDelete>, all: u64) -> Option<u64> {
        max.map(|max| match max {
            MaxDelete::Items(items) => items,
            MaxDelete::Percent(percent) => u64::try_from(u128::from(all) * u128::from(percent) / 100).unwrap_or(all),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    fn found(inode: u64, names: &[&str]) -> DirectoryExtras {
        let extra = |name: &&str| Extra {
            name: name.as_bytes().to_vec(),
            device: 1,
            inode: 7,
            is_directory: false,
            replaced_by: None,
        };
        let place = DirectoryPlace { device: 1, inode };
        DirectoryExtras {
            source: 0,
            place,
            path: b"d".to_vec(),
            source_path: Vec::new(),
            extras: names.iter().map(extra).collect(),
        }
    }

    #[test]
    fn a_directory_of_two_sources_keeps_what_either_has() {
        let mut extras = Extras::default();
        extras.add(found(1, &["a", "b"]), 5);
        extras.add(found(2, &["x"]), 1);
        extras.add(found(1, &["b", "c"]), 6);
        let names = |inode| extras.found[&DirectoryPlace { device: 1, inode }].extras.clone();
        assert_eq!(names(1), found(1, &["b"]).extras, "c came with the first source, a is of the second");
        assert_eq!(names(2).len(), 1);
        assert_eq!((extras.count, extras.listed), (2, 6));
    }

    #[test]
    fn a_limit_in_percent_counts_of_everything_and_rounds_down() {
        assert_eq!(Extras::limit(Some(MaxDelete::Percent(10)), 99), Some(9));
        assert_eq!(Extras::limit(Some(MaxDelete::Percent(100)), u64::MAX), Some(u64::MAX));
        assert_eq!(Extras::limit(Some(MaxDelete::Items(3)), 1), Some(3));
        assert_eq!(Extras::limit(None, 1), None);
    }
}
