//! The end of a receipt (`--receipt`).

use icdc_client::{ReceiptFile, WrittenReceipt};
use icdc_transfer::Event;

use super::output::CopyOutput;
use super::summary::counted;

/// Gives the receipt its name, and tells the user who has signed it.
///
/// # Errors
/// The sentence for the user: there is none.
pub(super) fn finish(receipt: &ReceiptFile, copy_output: &CopyOutput) -> Result<(), String> {
    let shown = receipt.path().display();
    let WrittenReceipt { key, items, unverified } = receipt
        .finish()
        .map_err(|reason| format!("there is no receipt {shown}, although the copy has come to its end: {reason}"))?;
    let unread = match unverified {
        0 => String::new(),
        unverified => format!(", {unverified} of them not read by this run"),
    };
    let text = format!("receipt {shown} of {}{unread}, signed by {}", counted(items, "item"), key.ssh_fingerprint());
    copy_output.show(Event::Notice { text });
    Ok(())
}
