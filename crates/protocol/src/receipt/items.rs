//! Counts of the lines of items, and the digest of the tree.
//!
//! ```text
//! tree = BLAKE3(lines without their first word and the space behind it, newlines included)
//! ```
//!
//! Two receipts of the same items have the same tree digest, whatever was there before.

use icdc_units::hexadecimal;

use super::facts::Facts;
use super::line::{Kind, Line, Status};

/// Counts and tree digest of a receipt's lines of items, as they are added one after the other.
#[derive(Clone, Debug, Default)]
pub struct Items {
    counts: Counts,
    tree: blake3::Hasher,
}

/// Counts over a receipt's lines, of which each is an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of lines.
    pub items: u64,
    /// Sum of the sizes of the files that the destination has, in bytes.
    pub bytes: u64,
    /// Number of lines whose contents were neither received nor read.
    pub unverified: u64,
}

impl Items {
    /// Adds whole lines, with their newlines.
    ///
    /// # Errors
    /// The first of them that is no line of an item, as text; those before it are added.
    pub fn add(&mut self, lines: &[u8]) -> Result<(), String> {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let parsed = line.strip_suffix(b"\n").and_then(Line::parse);
            let Some(Line { status, kind, size, .. }) = parsed.as_ref() else {
                return Err(String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned());
            };
            self.counts.items += 1;
            if *kind == Kind::File && *status != Status::Kept {
                self.counts.bytes = self.counts.bytes.saturating_add(*size);
            }
            self.counts.unverified += u64::from(parsed.as_ref().is_some_and(|line| !line.is_verified()));
            let behind = line.iter().position(|byte| *byte == b' ').map_or(0, |space| space + 1);
            self.tree.update(&line[behind..]);
        }
        Ok(())
    }

    /// Counts over the lines added so far: items, bytes of files, items that were not verified.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Adds the counts, and the tree digest of the lines so far, to the facts of a receipt.
    #[must_use]
    pub fn tell(&self, facts: Facts) -> Facts {
        let Counts { items, bytes, unverified } = self.counts;
        let counts = [("items", items), ("bytes", bytes), ("unverified", unverified)];
        let facts = counts.into_iter().fold(facts, |facts, (name, count)| facts.with(name, &count.to_string()));
        facts.with("tree", &hexadecimal(self.tree.finalize().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_digest_are_those_of_the_lines() {
        let lines = b"stored file 12 1.000000000 -  a\nkept file 5 1.000000000 -  b\nequal file 7 1.000000000 -  c\n";
        let mut items = Items::default();
        items.add(lines).unwrap();
        assert_eq!(items.counts(), Counts { items: 3, bytes: 19, unverified: 2 });
        // printf 'file 12 1.000000000 -  a\nfile 5 1.000000000 -  b\nfile 7 1.000000000 -  c\n' | b3sum
        let tree = blake3::hash(b"file 12 1.000000000 -  a\nfile 5 1.000000000 -  b\nfile 7 1.000000000 -  c\n");
        let told = String::from_utf8(items.tell(Facts::of_foot()).into_foot()).unwrap();
        assert_eq!(told, format!("\nitems: 3\nbytes: 19\nunverified: 2\ntree: {tree}\n"));
        let mut later = Items::default();
        later.add(&[b"earlier", &lines[6..]].concat()).unwrap();
        assert_eq!(later.tree.finalize(), tree, "what was there before does not count");
    }

    #[test]
    fn what_is_no_line_is_not_counted() {
        for wrong in [&b"\n"[..], b"items: 1\n", b"stored file 12 1.000000000 -  a", b"stored\n"] {
            assert!(Items::default().add(wrong).is_err());
        }
    }
}
