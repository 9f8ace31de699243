//! The receipt that the receiver signs: its lines are written here, and handed on in their order.

use icdc_protocol::message::{EntryId, FileDigest, ReceiptPart};
use icdc_protocol::receipt::line::Status;

use super::super::action::{Action, ReceiptText};
use super::super::ledger::Item;
use super::super::receipt::Receipt;
use super::Sender;
use crate::error::SessionError;

impl Sender {
    /// Adds the line of an announced item that the receiver has to the receipt, if one is given.
    pub(super) fn note_delivered(&mut self, item: &Item, status: Status, digest: Option<FileDigest>) {
        if let Some(receipt) = &mut self.receipt {
            receipt.note(item, status, digest);
            self.write_lines();
        }
    }

    /// Adds the line of the pending item of this id, which the receiver has, to the receipt, if one
    /// is given; fails if the receiver has not begun that.
    pub(super) fn note_pending_delivered(
        &mut self,
        id: EntryId,
        status: Status,
        digest: Option<FileDigest>,
    ) -> Result<(), SessionError> {
        let (Some(receipt), Some(item)) = (&mut self.receipt, self.ledger.pending(id)) else { return Ok(()) };
        if !receipt.has_begun() {
            return Err(SessionError::Protocol("answers before it has begun the receipt that it is to give".into()));
        }
        receipt.note(item, status, digest);
        self.write_lines();
        Ok(())
    }

    /// Passes lines of the receipt on to the executor, once they are enough.
    fn write_lines(&mut self) {
        let lines = self.receipt.as_mut().and_then(Receipt::take_chunk).map(ReceiptText::Items);
        self.actions.extend(lines.map(Action::Receipt));
    }

    /// Whether lines that wait for others leave room for more items.
    pub(super) fn has_room_for_lines(&self) -> bool {
        self.receipt.as_ref().is_none_or(Receipt::has_room)
    }

    /// Handles a part of the receipt from the receiver: its beginning, its signature, or why there
    /// is none.
    pub(super) fn receipt_told(&mut self, part: ReceiptPart) -> Result<(), SessionError> {
        let Some(receipt) = &mut self.receipt else {
            return Err(SessionError::Protocol("tells of a receipt that it was not asked for".into()));
        };
        let text = match part {
            ReceiptPart::Begun { facts, name } => {
                if !receipt.begin(name) {
                    return Err(SessionError::Protocol("begins a receipt twice".into()));
                }
                ReceiptText::Begun(facts)
            }
            ReceiptPart::Signed { facts, key, signature } if receipt.has_begun() => {
                // Whatever is missing is missing in the text, too, which the signature is then not of.
                let rest = receipt.take_rest().unwrap_or_default();
                self.receipt = None;
                self.actions.push_back(Action::Receipt(ReceiptText::Items(rest)));
                ReceiptText::Signed { facts, key, signature }
            }
            ReceiptPart::Signed { .. } => {
                return Err(SessionError::Protocol("signs a receipt that it has not begun".into()));
            }
            ReceiptPart::Refused(reason) => {
                self.receipt = None;
                ReceiptText::Refused(reason)
            }
        };
        self.actions.push_back(Action::Receipt(text));
        Ok(())
    }
}
