//! Rules of receipts.

use super::names::is_component;
use super::rules::{Checked, require, text};
use crate::message::{Missing, PassedReceipt, ReceiptPart, ReceiveOptions};
use crate::receipt::line::MAX_LINE;
use crate::receipt::{MAX_FACTS, MAX_PASSED_LINES, facts};

/// Checks the options of a receiver that is asked for a receipt.
pub(super) fn options(options: &ReceiveOptions) -> Checked {
    if !options.receipt {
        return Ok(());
    }
    require(!options.dry_run && options.diskless.is_none(), "a receipt of what is not copied")?;
    // The sender does not learn which directories are left out.
    require(options.missing == Missing::Make, "a receipt of a copy that makes nothing new")
}

pub(super) fn part(part: &ReceiptPart) -> Checked {
    match part {
        ReceiptPart::Begun { facts, name } => {
            is_text(facts, facts::head)?;
            require(name.as_deref().is_none_or(is_component), "a name that is not one component of a path")
        }
        ReceiptPart::Signed { facts, .. } => is_text(facts, facts::foot),
        ReceiptPart::Refused(reason) => text(reason),
    }
}

/// Checks a message about the receipt of a copy between two far ends; the lines of items are checked
/// where they are written.
pub(super) fn passed(part: &PassedReceipt) -> Checked {
    match part {
        PassedReceipt::KeyWanted | PassedReceipt::Key(_) => Ok(()),
        PassedReceipt::NoKey(reason) | PassedReceipt::Refused(reason) => text(reason),
        PassedReceipt::Begun(facts) => is_text(facts, facts::head),
        PassedReceipt::Items(lines) => {
            require(lines.len() <= MAX_PASSED_LINES.max(MAX_LINE), "too many lines")?;
            require(lines.last() == Some(&b'\n'), "a line without its end")
        }
        PassedReceipt::Signed { facts, .. } => is_text(facts, facts::foot),
    }
}

/// Names and values of facts; `None` where a text is no list of facts.
type Parsed<'a> = Option<Vec<(&'a str, &'a str)>>;

/// Checks that `parse` takes a text of facts, and its length.
fn is_text(text: &[u8], parse: for<'a> fn(&'a [u8]) -> Parsed<'a>) -> Checked {
    require(text.len() <= MAX_FACTS, "a text too long")?;
    require(parse(text).is_some(), "a text that is no list of facts")
}
