//! Debts of the connections after the first: frames that each was handed and that may not have
//! arrived. Which connection carries a frame is decided by the executor's single queue, in which
//! the first connection with room takes it, not here.
//!
//! Both ends count a connection's data frames. When one has ended, the receiver reports how many
//! arrived over it, and every later frame handed to it is owed: its data is read again and sent
//! over another connection. What is settled is no longer owed, so that the debts are bounded by
//! what is pending.

use std::collections::{BTreeMap, BTreeSet};

use icdc_protocol::message::{Assembled, Compressed, Compressible, EntryId, Message, PackItem};

/// Number of debts below which settled ones are not dropped.
const FEW: usize = 1024;

/// A frame of data that a connection was handed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Debt {
    /// A block of a large file, or parts of it.
    Block { id: EntryId, index: u32 },
    /// Small files.
    Pack(Vec<EntryId>),
    /// The end of a large file.
    End(EntryId),
}

/// The connections after the first, by number, each with the frames it may still owe.
#[derive(Default)]
pub(super) struct Connections(BTreeMap<u8, Connection>);

/// State of a connection after the first.
enum Connection {
    /// The connection is in use.
    Open(Debts),
    /// The connection has ended at this end; the receiver was informed and will report what
    /// arrived.
    Ended(Debts),
    /// The connection has ended, and the receiver has reported what arrived.
    Gone,
}

/// Result of the receiver's report on a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// These frames did not arrive, in the order in which they were handed to the connection.
    Owed(Vec<Debt>),
    /// The connection was never in use here, and will not be.
    Unused,
    /// The report is wrong: more frames than the connection was handed, or a second report.
    Wrong,
}

/// Frames that one connection was handed.
#[derive(Default)]
struct Debts {
    /// Number of frames that the connection was handed.
    handed: u64,
    /// Frames of items that are not settled, each with its number among all frames.
    debts: Vec<(u64, Debt)>,
    /// Number of debts at which those that are settled are dropped.
    limit: usize,
}

impl Connections {
    /// Takes a connection into use; false if there has been one of its number.
    pub(super) fn join(&mut self, number: u8) -> bool {
        if self.0.contains_key(&number) {
            return false;
        }
        self.0.insert(number, Connection::Open(Debts::default()));
        true
    }

    /// Records that a connection is handed a frame of data. If the connection has ended, the frame
    /// is returned as the error.
    pub(super) fn hand(&mut self, number: u8, frame: Debt, is_pending: impl Fn(EntryId) -> bool) -> Result<(), Debt> {
        match self.0.get_mut(&number) {
            Some(Connection::Open(debts)) => {
                debts.push(frame, is_pending);
                Ok(())
            }
            _ => Err(frame),
        }
    }

    /// Records that a connection has ended at this end. Returns the number of frames that it was
    /// handed; `None` if it had ended before or the receiver has already reported its end.
    pub(super) fn end(&mut self, number: u8) -> Option<u64> {
        let connection = self.0.get_mut(&number)?;
        let Connection::Open(debts) = connection else { return None };
        let handed = debts.handed;
        *connection = Connection::Ended(std::mem::take(debts));
        Some(handed)
    }

    /// Handles the receiver's report that a connection has ended and `arrived` frames came over it.
    pub(super) fn account(&mut self, number: u8, arrived: u64) -> Account {
        match self.0.insert(number, Connection::Gone) {
            Some(Connection::Open(debts) | Connection::Ended(debts)) if arrived <= debts.handed => {
                let behind = debts.debts.into_iter().filter(|(number, _)| *number >= arrived);
                // Parts of a block are owed as that block, once.
                let mut blocks = BTreeSet::new();
                let is_new = |debt: &Debt| match debt {
                    Debt::Block { id, index } => blocks.insert((*id, *index)),
                    Debt::Pack(_) | Debt::End(_) => true,
                };
                Account::Owed(behind.map(|(_, debt)| debt).filter(is_new).collect())
            }
            None if arrived == 0 => Account::Unused,
            _ => Account::Wrong,
        }
    }
}

impl Debts {
    /// Adds a frame; drops settled ones when there are many.
    fn push(&mut self, frame: Debt, is_pending: impl Fn(EntryId) -> bool) {
        self.debts.push((self.handed, frame));
        self.handed += 1;
        if self.debts.len() >= self.limit.max(FEW) {
            self.debts.retain_mut(|(_, debt)| debt.keep(&is_pending));
            self.debts.shrink_to(2 * self.debts.len());
            self.limit = 2 * self.debts.len();
        }
    }
}

impl Debt {
    /// The debt for a message; `None` if it is not a data frame.
    pub(super) fn of(message: &Message) -> Option<Self> {
        match message {
            Message::Block(header) | Message::Difference(header) => {
                Some(Self::Block { id: header.id, index: header.index })
            }
            Message::Assembled(Assembled { header, .. }) => Some(Self::Block { id: header.id, index: header.index }),
            // What did not arrive of a block is read with all of it.
            Message::Part(part) => Some(Self::Block { id: part.id, index: part.index }),
            Message::Pack(items) => Some(Self::pack(items)),
            Message::FileEnd(end) => Some(Self::End(end.id)),
            Message::StreamEnd(end) => Some(Self::End(end.id)),
            Message::Compressed(Compressed { of, .. }) => Some(match of {
                Compressible::Block(header) | Compressible::Difference(header) => {
                    Self::Block { id: header.id, index: header.index }
                }
                Compressible::Assembled(Assembled { header, .. }) => Self::Block { id: header.id, index: header.index },
                Compressible::Pack(items) => Self::pack(items),
            }),
            _ => None,
        }
    }

    fn pack(items: &[PackItem]) -> Self {
        Self::Pack(items.iter().map(|item| item.id).collect())
    }

    /// Drops settled items from this debt; returns whether any are left.
    fn keep(&mut self, is_pending: impl Fn(EntryId) -> bool) -> bool {
        match self {
            Self::Block { id, .. } | Self::End(id) => is_pending(*id),
            Self::Pack(ids) => {
                ids.retain(|id| is_pending(*id));
                ids.shrink_to_fit();
                !ids.is_empty()
            }
        }
    }
}

#[cfg(test)]
#[path = "debts/tests.rs"]
mod tests;
