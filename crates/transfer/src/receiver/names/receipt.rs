//! The receipt of a session, which its notary signs.

use icdc_protocol::message::{Message, ReceiptPart, Refusal, RefusalKind, SnapshotTime};
use icdc_protocol::validate::clip;
use icdc_session::SessionError;

use super::super::placement::refusal;
use super::FileExecutor;
use crate::receipt::SignedReceipt;

impl FileExecutor<'_> {
    /// Begins the receipt, if one is made, and tells the sender if it asks for one; the second time
    /// does nothing.
    ///
    /// # Errors
    /// There can be none.
    pub(super) fn begin_receipt(&mut self) -> Result<(), SessionError> {
        let (Some(notary), Some(opening), false) = (self.shared.order.notary, &self.opening, self.has_begun_receipt)
        else {
            return Ok(());
        };
        self.has_begun_receipt = true;
        if opening.placement.merges() {
            return Err(refusal(
                "--receipt: of several sources, each must arrive under its own name (a b, not a/ b/), as an item that \
                 replaced one of an earlier source would make that one's line untrue; copy them one after the other"
                    .into(),
            ));
        }
        let facts = notary
            .begin(&opening.placement.path())
            .map_err(|reason| SessionError::Refused(Refusal::new(RefusalKind::Path, clip(reason))))?;
        if self.shared.options.receipt {
            let name = opening.placement.only_name().map(|name| name.as_bytes().to_vec());
            self.shared.reply(Message::Receipt(ReceiptPart::Begun { facts, name }));
        }
        Ok(())
    }

    /// Adds lines of items that are delivered.
    pub(super) fn add_to_receipt(&self, lines: Vec<u8>) {
        if let Some(notary) = self.shared.order.notary {
            notary.add(lines);
        }
    }

    /// Has the receipt signed and sends the sender its end, or the reason why there is none, if the
    /// sender asks for a receipt.
    pub(super) fn end_receipt(&self, outcome: Result<Option<SnapshotTime>, String>) {
        let Some(notary) = self.shared.order.notary else { return };
        let part = match outcome.and_then(|snapshot| notary.sign(snapshot)) {
            Ok(SignedReceipt { facts, key, signature }) => ReceiptPart::Signed { facts, key, signature },
            Err(reason) => {
                notary.refuse(&reason);
                ReceiptPart::Refused(clip(reason))
            }
        };
        if self.shared.options.receipt {
            self.shared.reply(Message::Receipt(part));
        }
    }
}
