//! Faults of a file of settings, each with its place and line.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use icdc_disk::tree::printable;

/// Most characters of a line that are shown before and after the place.
const SHOWN: usize = 60;

/// A mistake in a file of settings, with its place, as it is shown to the user.
#[derive(Debug)]
pub(super) struct Fault {
    path: PathBuf,
    /// Line of the fault, from 1.
    line: usize,
    /// Column of the fault in characters, from 1.
    column: usize,
    what: String,
    /// The part of the line that is shown, and the characters in it that are marked.
    shown: String,
    marked: Range<usize>,
}

impl Fault {
    /// Mistake at the bytes `place` of the file's contents `text`; `what` says what is wrong.
    pub(super) fn new(path: &Path, text: &[u8], place: Range<usize>, what: String) -> Self {
        let start = place.start.min(text.len());
        let line_start = text[..start].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let length = text[line_start..].iter().position(|&byte| byte == b'\n');
        let line = String::from_utf8_lossy(&text[line_start..length.map_or(text.len(), |length| line_start + length)]);
        let before = String::from_utf8_lossy(&text[line_start..start]).chars().count();
        let inside = &text[start..place.end.clamp(start, text.len())];
        let inside = inside.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let inside = String::from_utf8_lossy(inside).chars().count().clamp(1, SHOWN);
        // One column each, whatever it is: a tab, or something that steers the terminal.
        let is_plain = |letter: char| printable(letter.encode_utf8(&mut [0; 4]).as_bytes()).starts_with(letter);
        let plain = |letter: char| if is_plain(letter) { letter } else { ' ' };
        let skipped = before.saturating_sub(SHOWN);
        let shown: String = line.trim_end_matches('\r').chars().skip(skipped).take(2 * SHOWN).map(plain).collect();
        Self {
            path: path.to_owned(),
            line: line_of(text, start),
            column: before + 1,
            // It may name a key, and that be written with escapes.
            what: printable(what.as_bytes()),
            shown: shown.trim_end().to_owned(),
            marked: before - skipped..before - skipped + inside,
        }
    }

    /// Line of the fault, from 1, by which the faults of one file are sorted.
    pub(super) fn line(&self) -> usize {
        self.line
    }
}

/// Number of the line, from 1, in which the byte at `offset` stands.
pub(super) fn line_of(text: &[u8], offset: usize) -> usize {
    text[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, what, shown, marked, .. } = self;
        let number = line.to_string();
        writeln!(formatter, "{}:{line}:{column}: {what}", self.path.display())?;
        writeln!(formatter, "  {number} | {shown}")?;
        let (margin, before) = (" ".repeat(number.len()), " ".repeat(marked.start));
        write!(formatter, "  {margin} | {before}{}", "^".repeat(marked.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_shown_below_its_line() {
        let text = "a = 1\r\n\tä = wrong # b\nc";
        let start = text.find("wrong").unwrap();
        let fault = Fault::new(Path::new("/f"), text.as_bytes(), start..start + 5, "no".to_owned());
        assert_eq!(fault.to_string(), "/f:2:6: no\n  2 |  ä = wrong # b\n    |      ^^^^^");
    }

    #[test]
    fn nothing_steers_the_terminal() {
        let fault = Fault::new(Path::new("/f"), "a\u{202e}b".as_bytes(), 0..1, "unknown key a\u{1b}[31m".to_owned());
        assert_eq!(fault.to_string(), "/f:1:1: unknown key a\\u{1b}[31m\n  1 | a b\n    | ^");
    }

    #[test]
    fn any_place_of_any_bytes_can_be_shown() {
        let text = b"\xff\n\n\x00\x1b[31m\n";
        for start in 0..text.len() + 2 {
            for end in 0..text.len() + 2 {
                let shown = Fault::new(Path::new("/f"), text, start..end, String::new()).to_string();
                assert!(!shown.contains('\x1b') && shown.contains('^'), "{start}..{end}: {shown}");
            }
        }
    }
}
