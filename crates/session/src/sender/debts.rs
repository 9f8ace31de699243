//! Debts of the connections after the first: what each has been handed and the receiver may not
//! have. Which connection a frame goes over is decided by whoever has room first (the executor's
//! one queue), not here.
//!
//! A connection's frames of data are counted by both ends. When one has ended, the receiver tells
//! how many arrived over it, and whatever was handed to it behind these is owed: it is read again
//! and goes over another connection. What is settled is owed no more, so that the debts are bounded
//! by what is pending.

use std::collections::{BTreeMap, BTreeSet};

use icdc_protocol::message::{EntryId, Message};

/// Debts that are kept without looking which of them are settled.
const FEW: usize = 1024;

/// A frame of data that a connection was handed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Debt {
    Block { id: EntryId, index: u32 },
    Pack(Vec<EntryId>),
    End(EntryId),
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Connections(BTreeMap<u8, Connection>);

enum Connection {
    Open(Debts),
    /// It has ended at this end; the receiver has been told and will tell what arrived.
    Ended(Debts),
    /// The receiver has told what arrived.
    Gone,
}

/// What became of a connection by the receiver's account of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// It is gone; these frames did not arrive, in the order in which they were handed to it.
    Owed(Vec<Debt>),
    /// It was never in use here, and will not be.
    Unused,
    /// More frames than it was handed, or a second account.
    Wrong,
}

#[derive(Default)]
struct Debts {
    /// Frames that it was handed.
    handed: u64,
    /// Those of items that are not settled, each with its number among all.
    debts: Vec<(u64, Debt)>,
    /// At so many debts those that are settled are dropped.
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

    /// Notes that a connection is handed a frame of data. The frame is given back if the connection
    /// has ended.
    pub(super) fn hand(&mut self, number: u8, frame: Debt, is_pending: impl Fn(EntryId) -> bool) -> Result<(), Debt> {
        match self.0.get_mut(&number) {
            Some(Connection::Open(debts)) => {
                debts.push(frame, is_pending);
                Ok(())
            }
            _ => Err(frame),
        }
    }

    /// A connection has ended at this end. Gives how many frames it was handed, the first time and
    /// unless the receiver has told of its end.
    pub(super) fn end(&mut self, number: u8) -> Option<u64> {
        let connection = self.0.get_mut(&number)?;
        let Connection::Open(debts) = connection else { return None };
        let handed = debts.handed;
        *connection = Connection::Ended(std::mem::take(debts));
        Some(handed)
    }

    /// The receiver tells that a connection has ended, and that `arrived` frames came over it.
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
    /// Of a frame of data.
    pub(super) fn of(message: &Message) -> Option<Self> {
        match message {
            Message::Block(header) => Some(Self::Block { id: header.id, index: header.index }),
            // What did not arrive of a block is read with all of it.
            Message::Part(part) => Some(Self::Block { id: part.id, index: part.index }),
            Message::Pack(items) => Some(Self::Pack(items.iter().map(|item| item.id).collect())),
            Message::FileEnd(end) => Some(Self::End(end.id)),
            _ => None,
        }
    }

    /// Forgets what is settled; whether anything is left.
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
