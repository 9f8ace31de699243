//! Frames that a connection still owed when it ended: read again and retransmitted over whichever
//! connection is ready.

use icdc_protocol::message::{FileEnd, ItemEnd};

use super::super::action::Action;
use super::super::debts::{Account, Debt};
use super::Sender;
use crate::error::SessionError;

impl Sender {
    /// Handles the receiver's report that `arrived` frames came over a connection that has ended.
    pub(super) fn left(&mut self, connection: u8, arrived: u64) -> Result<(), SessionError> {
        match self.connections.account(connection, arrived) {
            Account::Owed(owed) => {
                self.actions.push_back(Action::ConnectionLost { connection });
                owed.into_iter().for_each(|debt| self.repay(debt));
                Ok(())
            }
            Account::Unused => Ok(()),
            Account::Wrong => Err(SessionError::Protocol(format!(
                "tells of {arrived} frames over connection {connection}, which cannot be"
            ))),
        }
    }

    /// Retransmits a frame that did not arrive, as far as its items are pending.
    pub(super) fn repay(&mut self, debt: Debt) {
        match debt {
            Debt::Block { id, index } => {
                // No block is awaited of a file that could not be read to its end.
                let is_given_up =
                    matches!(self.ledger.end_of(id), Some(ItemEnd::File(FileEnd { outcome: Err(_), .. })));
                if self.ledger.pending(id).is_some() && !is_given_up {
                    self.actions.push_back(Action::ReadAgain { id, index });
                }
            }
            Debt::Pack(mut ids) => {
                ids.retain(|id| self.ledger.pending(*id).is_some());
                if !ids.is_empty() {
                    self.actions.push_back(Action::Pack(ids));
                }
            }
            // It may overtake the file's blocks, which are counted.
            Debt::End(id) => {
                if let Some(end) = self.ledger.end_of(id) {
                    self.queue(end.into());
                }
            }
        }
    }
}
