//! The names in a directory, and which of them the medium has.

use std::collections::BTreeMap;

use super::Inode;
use crate::random::Random;

type Table = BTreeMap<Vec<u8>, Inode>;

/// A change of a directory.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Set(Vec<u8>, Inode),
    Remove(Vec<u8>),
    /// At once: there is never none of the two names.
    Rename(Vec<u8>, Vec<u8>, Inode),
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    durable: Table,
    live: Table,
    unsynced: Vec<(u64, Change)>,
}

impl Names {
    pub(super) fn get(&self, name: &[u8]) -> Option<Inode> {
        self.live.get(name).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Inode)> {
        self.live.iter().map(|(name, inode)| (name.as_slice(), *inode))
    }

    pub(super) fn change(&mut self, number: u64, change: Change) {
        apply(&mut self.live, &change);
        self.unsynced.push((number, change));
    }

    pub(super) fn is_durable(&self) -> bool {
        self.unsynced.is_empty()
    }

    pub(super) fn sync(&mut self, mark: u64) {
        let durable = &mut self.durable;
        self.unsynced.retain(|(number, change)| {
            if *number <= mark {
                apply(durable, change);
            }
            *number > mark
        });
    }

    /// Of the changes that no flush covered any may be lost.
    pub(super) fn cut_power(&mut self, random: &mut Random) {
        for (_, change) in std::mem::take(&mut self.unsynced) {
            if random.once_in(2) {
                apply(&mut self.durable, &change);
            }
        }
        self.live = self.durable.clone();
    }
}

fn apply(table: &mut Table, change: &Change) {
    match change {
        Change::Set(name, inode) => drop(table.insert(name.clone(), *inode)),
        Change::Remove(name) => drop(table.remove(name)),
        Change::Rename(from, to, inode) => {
            table.remove(from);
            table.insert(to.clone(), *inode);
        }
    }
}
