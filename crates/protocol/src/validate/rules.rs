//! Rules that several messages share, and their results.

use crate::limits::MAX_TEXT;

/// Nothing, or the rule that is broken.
pub(super) type Checked = Result<(), &'static str>;

/// The rule, unless it holds.
pub(super) fn require(holds: bool, rule: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(rule) }
}

/// A text for people.
pub(super) fn text(text: &str) -> Checked {
    require(text.len() <= MAX_TEXT, "a text too long")
}
