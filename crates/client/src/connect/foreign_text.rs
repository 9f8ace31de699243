//! Lines that the far side's shell has printed, as messages show them.

use icdc_disk::tree::printable;

/// Maximum number of characters that are shown of a line which is skipped.
const SAMPLE: usize = 60;
/// Maximum number of characters that are shown of a line which may tell why nothing started.
const REASON: usize = 200;

/// Beginning of a line that is skipped, for a message.
pub(super) fn sample(line: &str) -> String {
    shown(line, SAMPLE)
}

/// Text of a line that may tell why nothing started, for a message.
pub(super) fn reason(line: &str) -> String {
    shown(line, REASON)
}

/// First characters of a line, at most `most`, printable.
fn shown(line: &str, most: usize) -> String {
    let line = line.trim();
    match line.char_indices().nth(most) {
        Some((end, _)) => printable(&line.as_bytes()[..end]) + "…",
        None => printable(line.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_printable_and_tells_where_it_was_cut() {
        assert_eq!(sample(" It's \"far\"\\ \n"), "It's \"far\"\\");
        assert_eq!(sample("a\u{1b}[31mb\u{202e}c"), "a\\u{1b}[31mb\\u{202e}c");
        assert_eq!(sample(&"x".repeat(61)), "x".repeat(60) + "…");
        assert_eq!(reason(&"x".repeat(200)), "x".repeat(200));
    }
}
