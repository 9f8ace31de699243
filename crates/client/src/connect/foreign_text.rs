//! Lines that the far side's shell has printed, as messages show them.

use icdc_disk::tree::printable;

/// Characters that are shown of a line which is skipped.
const SAMPLE: usize = 60;
/// Characters that are shown of a line which may tell why nothing started.
const REASON: usize = 200;

/// The beginning of a line that is skipped.
pub(super) fn sample(line: &str) -> String {
    shown(line, SAMPLE)
}

/// A line that may tell why nothing started.
pub(super) fn reason(line: &str) -> String {
    shown(line, REASON)
}

/// At most `most` characters of a line, printable.
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
