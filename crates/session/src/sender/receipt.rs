//! The receipt as the sending end writes it: the lines of the items, in the order of announcement, with
//! their paths at the destination.

use icdc_protocol::message::{EntryId, FileDigest};
use icdc_protocol::receipt::line::{Line, Status};

use super::ledger::Item;
use crate::receipt::{Lines, MAX_WAITING};

/// Receipt of a session as the sender writes it: the lines of its items, with their paths at the
/// destination.
#[derive(Debug, Default)]
pub(super) struct Receipt {
    lines: Lines,
    naming: Naming,
}

/// Names of the sources at the destination, by which lines of the receipt get their paths.
#[derive(Debug)]
enum Naming {
    /// The receiver has not begun the receipt: the lines of the directories that are announced wait.
    Unknown(Vec<(EntryId, Line)>),
    /// The only source gets this name; `None` if each source keeps its own.
    Known(Option<Vec<u8>>),
}

impl Default for Naming {
    fn default() -> Self {
        Self::Unknown(Vec::new())
    }
}

impl Receipt {
    /// Records that the receiver has begun the receipt; false if it had before.
    pub(super) fn begin(&mut self, name: Option<Vec<u8>>) -> bool {
        match std::mem::replace(&mut self.naming, Naming::Known(name)) {
            Naming::Unknown(early) => {
                early.into_iter().for_each(|(id, line)| self.add(id, line));
                true
            }
            Naming::Known(_) => false,
        }
    }

    /// Whether the receiver has begun the receipt.
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.naming, Naming::Known(_))
    }

    /// Adds the line of an item that the receiver has.
    pub(super) fn note(&mut self, item: &Item, status: Status, digest: Option<FileDigest>) {
        let path = item.path.get(item.above..).unwrap_or_default();
        self.add(item.entry.id, Line::of(&item.entry, status, digest, path));
    }

    /// Adds a line with its path at the destination, or keeps it until the receiver has told the
    /// name of the source there.
    fn add(&mut self, id: EntryId, mut line: Line) {
        match &mut self.naming {
            Naming::Unknown(early) => return early.push((id, line)),
            Naming::Known(Some(name)) => {
                let first = line.path.iter().position(|byte| *byte == b'/').unwrap_or(line.path.len());
                line.path.splice(..first, name.iter().copied());
            }
            Naming::Known(None) => {}
        }
        self.lines.settle(id, &line);
    }

    /// Takes the lines that are in order, once they are enough; `None` before.
    pub(super) fn take_chunk(&mut self) -> Option<Vec<u8>> {
        self.lines.take_chunk()
    }

    /// Takes the last lines; `None` if an item has not ended.
    pub(super) fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.lines.take_rest()
    }

    /// Whether more may be announced: few lines wait for items announced before.
    pub(super) fn has_room(&self) -> bool {
        self.lines.held() < MAX_WAITING
    }
}
