//! Rules that several messages share, and their results.

use crate::limits::MAX_TEXT;

/// Success, or the rule that is broken.
pub(super) type Checked = Result<(), &'static str>;

/// Success if the rule `holds`, otherwise the rule.
pub(super) fn require(holds: bool, rule: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(rule) }
}

/// Checks the length of a text for people.
pub(super) fn text(text: &str) -> Checked {
    require(text.len() <= MAX_TEXT, "a text too long")
}
