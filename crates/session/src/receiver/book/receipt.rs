//! The receipt: a line for each item once the destination has it, and the signature once everything is
//! delivered.
//!
//! ```text
//! item ends ─► AddToReceipt (whole lines, in the order of announcement)
//! all done, nothing failed ─► EndReceipt(Ok)          otherwise ─► EndReceipt(Err)
//! ```

use icdc_protocol::message::{EntryId, FileDigest, SnapshotTime};
use icdc_protocol::receipt::line::{Line, Status};
use icdc_protocol::validate::clip;

use super::Book;
use super::action::Action;
use super::state::{ReceiptStage, Tracked};
use crate::SessionError;
use crate::receipt::MAX_WAITING_AT_RECEIVER;

impl<P> Book<P> {
    /// Adds the line of a tracked item that the destination has to the receipt, if one is made.
    pub(super) fn add_receipt_line(&mut self, id: EntryId, status: Status, digest: Option<FileDigest>) {
        let Some(Tracked { item, .. }) = self.items.get(&id) else { return };
        if let ReceiptStage::Listing { lines, .. } = &mut self.receipt {
            lines.settle(id, &Line::of(&item.entry, status, digest, &item.path));
            self.add_to_receipt();
        }
    }

    /// Adds the line of a directory that the destination has to the receipt, if one is made.
    pub(super) fn add_directory_receipt_line(&mut self, id: EntryId) {
        let ReceiptStage::Listing { lines, .. } = &mut self.receipt else { return };
        if let Some(level) = self.levels.get_mut(id) {
            lines.settle(id, &Line::of(&level.entry, Status::Stored, None, &level.path));
            self.add_to_receipt();
        }
    }

    /// Records that an item has failed at either end: a receipt is one of everything.
    pub(super) fn fail_receipt(&mut self, path: &[u8]) {
        if let ReceiptStage::Listing { .. } = self.receipt {
            self.receipt = ReceiptStage::Failed(path.to_vec());
        }
    }

    /// Records the name of the snapshot that the items are in, for the receipt.
    pub(super) fn note_receipt_snapshot(&mut self, time: SnapshotTime) {
        if let ReceiptStage::Listing { snapshot, .. } = &mut self.receipt {
            *snapshot = Some(time);
        }
    }

    /// Passes lines that are in order on to the executor once they are enough; ends the session if
    /// too many wait for an item that has not ended.
    fn add_to_receipt(&mut self) {
        let ReceiptStage::Listing { lines, .. } = &mut self.receipt else { return };
        if lines.held() > MAX_WAITING_AT_RECEIVER {
            let reason = "more items have ended behind one that has not than may be kept for a receipt";
            self.receipt = ReceiptStage::Nothing;
            return self.ask(Action::Fail(SessionError::Protocol(reason.into())));
        }
        if let Some(lines) = lines.take_chunk() {
            self.ask(Action::AddToReceipt(lines));
        }
    }

    /// Ends the receipt, if one is made, now that everything else is done.
    pub(super) fn end_receipt(&mut self) {
        if !self.phase.is_open() {
            return;
        }
        let outcome = match std::mem::take(&mut self.receipt) {
            ReceiptStage::Nothing => return,
            ReceiptStage::Listing { mut lines, snapshot } => match lines.take_rest() {
                Some(rest) => {
                    self.ask(Action::AddToReceipt(rest));
                    Ok(snapshot)
                }
                None => Err("an item was announced and has not ended".to_owned()),
            },
            ReceiptStage::Failed(path) => Err(format!("{} is not delivered", path.escape_ascii())),
        };
        self.ask(Action::EndReceipt(outcome.map_err(clip)));
    }
}
