//! The receipt of a copy between two far ends: the receiving one signs, the driving one passes the text
//! on, and this client, which is neither, checks and writes it.
//!
//! The driving end is not believed about the key that signs: a daemon's is that of its link, and the
//! far end that ssh starts tells its own over that ssh.

use icdc_link::receive;
use icdc_protocol::message::PassedReceipt;
use icdc_protocol::{Features, Message};
use icdc_session::sender::ReceiptText;
use icdc_stop::StopSignal;
use icdc_transfer::ReceiptSink as _;
use icdc_trust::PublicKey;

use super::outcome;
use super::stopping::{shut_down_on, unless_stopped};
use crate::connect::ConnectError;
use crate::connect::ssh::Started;
use crate::error::CopyError;
use crate::options::CopyOptions;
use crate::receipt::ReceiptFile;

/// Fails if a receipt is asked for and the far end `host`, which has these features, cannot pass one
/// on.
pub(super) fn require(options: &CopyOptions, features: Features, host: &str) -> Result<(), CopyError> {
    match features.lacking(Features::PASSED_RECEIPTS) {
        Some(sentence) if options.receipt.is_some() => Err(CopyError::Usage(format!("{host}: {sentence}"))),
        _ => Ok(()),
    }
}

/// Asks the receiving end that ssh has started on `host` for the key that will sign.
pub(super) fn signer(started: &mut Started, host: &str, stop: &StopSignal) -> Result<PublicKey, CopyError> {
    if let Some(sentence) = started.features.lacking(Features::PASSED_RECEIPTS) {
        return Err(CopyError::Usage(format!("{host}: {sentence}")));
    }
    started.writer.send(Message::PassedReceipt(PassedReceipt::KeyWanted));
    let _given_up = shut_down_on(stop, &started.control);
    loop {
        match receive(started.inlet.as_mut()) {
            Ok(Message::PassedReceipt(PassedReceipt::Key(key))) => return Ok(PublicKey::from_bytes(key)),
            Ok(Message::PassedReceipt(PassedReceipt::NoKey(reason))) => {
                return Err(CopyError::Usage(format!("{host}: {reason}")));
            }
            Ok(Message::Ping) => {}
            Ok(other) => return Err(CopyError::Failed(format!("{host} broke the protocol: {}", other.kind()))),
            Err(cause) => {
                let lost = ConnectError::Lost { host: host.to_owned(), cause };
                return Err(unless_stopped(lost.into(), stop));
            }
        }
    }
}

/// Writes a part of the receipt that the driving end has passed on. `from` and `to` are the names of
/// the sending and the receiving far end.
///
/// # Errors
/// A sentence: the driving end broke the protocol.
pub(super) fn write(
    part: PassedReceipt,
    receipt: Option<&ReceiptFile>,
    (from, to): (&str, &str),
) -> Result<(), String> {
    let Some(receipt) = receipt else {
        return Err(format!("{from} broke the protocol: it passes on a receipt that nobody has asked for"));
    };
    receipt.take(match part {
        PassedReceipt::Begun(facts) => ReceiptText::Begun(facts),
        PassedReceipt::Items(lines) => ReceiptText::Items(lines),
        PassedReceipt::Signed { facts, key, signature } => ReceiptText::Signed { facts, key, signature },
        PassedReceipt::Refused(reason) => ReceiptText::Refused(outcome::attributed(&reason, from, to)),
        PassedReceipt::KeyWanted | PassedReceipt::Key(_) | PassedReceipt::NoKey(_) => {
            return Err(format!("{from} broke the protocol: it drives, and tells of a key that signs"));
        }
    });
    Ok(())
}
