//! Lines of items.
//!
//! ```text
//! STATUS KIND SIZE MTIME DIGEST  PATH
//! stored file 12 1795744800.000000000 af1349b9…3262  run7/a.nc
//! ```
//!
//! Of a regular file, what stands from DIGEST on is a line as `b3sum` writes it; a backslash before
//! DIGEST says that PATH is [escaped](super::escape).

use std::io::Write as _;

use icdc_units::{hexadecimal, of_hexadecimal};

use super::escape::{escaped, unescaped};
use crate::message::{Digest, Entry, EntryKind, FileDigest};

/// Longest line in bytes that is read: a path whose bytes are all escaped, and the other words.
pub const MAX_LINE: usize = 4 * crate::limits::MAX_SHOWN_PATH + 256;
/// Word in place of a digest that there is not.
const NONE: &[u8] = b"-";
/// Word before the digest of a sparse file's data.
const SPARSE: &[u8] = b"map:";

/// Action of the receiving end on an item, as the first word of the item's line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// This run has stored it: it arrived, or was there and was read, with this digest.
    Stored,
    /// An earlier, interrupted run has stored it with this digest; it has not been read since, but has
    /// the size and the time that it had then.
    Earlier,
    /// It was there with equal size and time, or equal target, and was not read.
    Equal,
    /// It was made from a file of equal size and time in a reference directory, and was not read.
    Linked,
    /// It was there under another name, was read, and has this digest.
    Renamed,
    /// The item's name at the destination keeps what it has, of whatever kind, as the user asked.
    Kept,
}

/// Kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A further name of a regular file whose first name has a line of its own.
    HardLink,
    /// A symbolic link; its digest is the BLAKE3 of its target.
    Symlink,
    /// A directory.
    Directory,
    /// A named pipe, a socket or a device node, which has no contents.
    Special,
}

/// Line of a receipt, which tells of one item what the destination has and how it got there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Action of the receiving end on it.
    pub status: Status,
    /// Kind of the item.
    pub kind: Kind,
    /// Length of the file, or of a link's target, in bytes; 0 of anything else.
    pub size: u64,
    /// Modification time at the source: seconds since 1970, and nanoseconds below 1e9.
    pub mtime: (i64, u32),
    /// Digest of the contents; `None` if this run does not know it.
    pub digest: Option<FileDigest>,
    /// Path below the destination's directory; `.` for the directory itself.
    pub path: Vec<u8>,
}

/// The word in a receipt for each status.
const STATUSES: [(Status, &str); 6] = [
    (Status::Stored, "stored"),
    (Status::Earlier, "earlier"),
    (Status::Equal, "equal"),
    (Status::Linked, "linked"),
    (Status::Renamed, "renamed"),
    (Status::Kept, "kept"),
];

/// The word in a receipt for each kind of item.
const KINDS: [(Kind, &str); 5] = [
    (Kind::File, "file"),
    (Kind::HardLink, "hardlink"),
    (Kind::Symlink, "symlink"),
    (Kind::Directory, "directory"),
    (Kind::Special, "special"),
];

impl Status {
    /// First word of a line, for this status.
    #[must_use]
    pub fn word(self) -> &'static str {
        STATUSES.iter().find(|(status, _)| *status == self).map_or("", |(_, word)| word)
    }
}

impl Kind {
    /// Second word of a line, for this kind.
    #[must_use]
    pub fn word(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}

impl Line {
    /// The line of an announced entry, whose contents have this digest as far as it is known.
    #[must_use]
    pub fn of(entry: &Entry, status: Status, digest: Option<FileDigest>, path: &[u8]) -> Self {
        let (kind, size, digest) = match &entry.kind {
            EntryKind::File { size, .. } => (Kind::File, *size, digest),
            EntryKind::HardLink { size, .. } => (Kind::HardLink, *size, None),
            EntryKind::Directory => (Kind::Directory, 0, None),
            EntryKind::Special(_) => (Kind::Special, 0, None),
            EntryKind::Stream => (Kind::File, 0, None),
            EntryKind::Symlink { target } => {
                let known = (status != Status::Kept).then(|| FileDigest::Blake3(*blake3::hash(target).as_bytes()));
                (Kind::Symlink, target.len() as u64, known)
            }
        };
        let path = if path.is_empty() { b".".to_vec() } else { path.to_vec() };
        Self { status, kind, size, mtime: (entry.mtime_seconds, entry.mtime_nanos), digest, path }
    }

    /// Appends the line, with its newline.
    pub fn write(&self, text: &mut Vec<u8>) {
        let Self { status, kind, size, mtime: (seconds, nanos), digest, path } = self;
        let path_text = escaped(path);
        let flag = if path_text == *path { "" } else { "\\" };
        let digest = match digest {
            Some(FileDigest::Blake3(digest)) => hexadecimal(digest),
            Some(FileDigest::SparseMap(digest)) => format!("map:{}", hexadecimal(digest)),
            None => "-".to_owned(),
        };
        // Writing to memory does not fail.
        let _ = write!(text, "{} {} {size} {seconds}.{nanos:09} {flag}{digest}  ", status.word(), kind.word());
        text.extend(path_text);
        text.push(b'\n');
    }

    /// Parses a line without its newline; `None` for any text that [`write`](Self::write) does not
    /// write.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.splitn(5, |byte| *byte == b' ');
        let status = of_word(&STATUSES, words.next()?)?;
        let kind = of_word(&KINDS, words.next()?)?;
        let size = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let (seconds, nanos) = std::str::from_utf8(words.next()?).ok()?.split_once('.')?;
        let mtime = (seconds.parse().ok()?, nanos.parse().ok()?);
        let rest = words.next()?;
        let (flag, rest) = rest.strip_prefix(b"\\").map_or((false, rest), |rest| (true, rest));
        let gap = rest.windows(2).position(|two| two == b"  ")?;
        let digest = match &rest[..gap] {
            NONE => None,
            digits => Some(match digits.strip_prefix(SPARSE) {
                Some(digits) => FileDigest::SparseMap(digest_of(digits)?),
                None => FileDigest::Blake3(digest_of(digits)?),
            }),
        };
        let path_text = &rest[gap + 2..];
        let path = if flag { unescaped(path_text)? } else { path_text.to_vec() };
        let parsed = Self { status, kind, size, mtime, digest, path };
        let mut again = Vec::with_capacity(line.len() + 1);
        parsed.write(&mut again);
        let is_time = mtime.1 < 1_000_000_000;
        (is_time && again.split_last() == Some((&b'\n', line)) && !parsed.path.is_empty()).then_some(parsed)
    }

    /// Whether this run has read the contents, or has received them: the digest is what the
    /// destination has.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        match self.status {
            Status::Stored | Status::Renamed => true,
            Status::Equal => matches!(self.kind, Kind::Symlink | Kind::Directory | Kind::Special),
            Status::Earlier | Status::Linked | Status::Kept => false,
        }
    }
}

/// The value that a word of a line stands for; `None` for an unknown word.
fn of_word<T: Copy>(words: &[(T, &str)], word: &[u8]) -> Option<T> {
    words.iter().find(|(_, known)| known.as_bytes() == word).map(|(value, _)| *value)
}

/// The digest that these 64 hexadecimal digits are; `None` for anything else.
fn digest_of(digits: &[u8]) -> Option<Digest> {
    of_hexadecimal(digits)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(path: &[u8], digest: Option<FileDigest>) -> Line {
        let mtime = (1_795_744_800, 5);
        Line { status: Status::Stored, kind: Kind::File, size: 12, mtime, digest, path: path.to_vec() }
    }

    fn text(line: &Line) -> String {
        let mut text = Vec::new();
        line.write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_file_has_a_line_that_ends_as_that_of_b3sum() {
        let digits = "ab".repeat(32);
        let digest = Some(FileDigest::Blake3([0xab; 32]));
        let before = "stored file 12 1795744800.000000005 ";
        assert_eq!(text(&line(b"run7/a b", digest)), format!("{before}{digits}  run7/a b\n"));
        assert_eq!(text(&line(b"a\nb", digest)), format!("{before}\\{digits}  a\\nb\n"));
        assert_eq!(text(&line(b"x", Some(FileDigest::SparseMap([0xab; 32])))), format!("{before}map:{digits}  x\n"));
        let kept = Line { status: Status::Kept, mtime: (-1, 0), ..line(b"x", None) };
        assert_eq!(text(&kept), "kept file 12 -1.000000000 -  x\n");
    }

    #[test]
    fn no_line_has_another_text() {
        let digits = "ab".repeat(32);
        let good = format!("stored file 12 1.000000005 {digits}  x");
        assert!(Line::parse(good.as_bytes()).is_some());
        for bad in [
            String::new(),
            format!("{good}\n"),
            good.replace("stored", "Stored"),
            good.replace("file", "fifo"),
            good.replace(" 12 ", " 012 "),
            good.replace(" 12 ", " +12 "),
            good.replace(" 12 ", "  12 "),
            good.replace("1.000000005", "1.5"),
            good.replace("1.000000005", "1.1000000000"),
            good.replace(&digits, &digits.to_uppercase()),
            good.replace(&digits, &digits[1..]),
            good.replace(&digits, &format!("+{}", &digits[1..])),
            good.replace(&digits, &format!("\\{digits}")),
            good.replace("  x", " x"),
            good.replace("  x", "  "),
            good.replace("  x", "  \u{1b}"),
        ] {
            assert_eq!(Line::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_line_survives(
            (status, kind) in (0..STATUSES.len(), 0..KINDS.len()),
            (size, seconds, nanos) in (any::<u64>(), any::<i64>(), 0_u32..1_000_000_000),
            digest in prop::option::of((any::<bool>(), any::<[u8; 32]>())),
            path in prop::collection::vec(any::<u8>(), 1..40),
        ) {
            let digest = digest.map(|(is_map, digest)| {
                if is_map { FileDigest::SparseMap(digest) } else { FileDigest::Blake3(digest) }
            });
            let (status, kind) = (STATUSES[status].0, KINDS[kind].0);
            let line = Line { status, kind, size, mtime: (seconds, nanos), digest, path };
            let mut text = Vec::new();
            line.write(&mut text);
            prop_assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
            prop_assert_eq!(Line::parse(&text[..text.len() - 1]), Some(line));
        }

        #[test]
        fn what_is_parsed_is_what_would_be_written(text in "(stored|kept) file [0-9]{1,3} [0-9]\\.[0-9]{9} (\\\\)?-  [a-z\\\\]{0,4}") {
            if let Some(line) = Line::parse(text.as_bytes()) {
                let mut again = Vec::new();
                line.write(&mut again);
                prop_assert_eq!(&again[..again.len() - 1], text.as_bytes());
            }
        }
    }
}
