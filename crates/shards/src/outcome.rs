//! The result file of a shard: a line of JSON, then a line for each item of its list, in their
//! order: the item's digest in hex, or `-` if it is not present as planned.

use std::fmt::Write as _;

use icdc_protocol::message::Digest;
use serde::{Deserialize, Serialize};

/// Result of copying a shard, as in its result file: written by the host that copied it, read by
/// the join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Host and process that copied it, and the time of the end.
    pub note: Note,
    /// Digests of its items, in the order of its list; `None` for items that are not done.
    pub digests: Vec<Option<Digest>>,
}

/// Host and process that began or copied a shard, and the time; in the plan's directory, for other
/// hosts to see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Digest of the list, in hex; the note holds for no other list.
    pub list: String,
    /// Name of the host that began or copied the shard.
    pub host: String,
    /// Id of the process on that host.
    pub pid: u32,
    /// Time of the begin or the end, in seconds since 1970.
    pub at: u64,
}

impl Outcome {
    /// Number of the shard's items that are present at the destination as planned: those with a
    /// digest.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.digests.iter().filter(|digest| digest.is_some()).count() as u64
    }

    /// Encodes the result as a file's text.
    pub(crate) fn encode(&self) -> String {
        let mut text = serde_json::to_string(&self.note).expect("text and numbers are JSON");
        text.push('\n');
        for digest in &self.digests {
            match digest {
                Some(digest) => text.push_str(&blake3::Hash::from_bytes(*digest).to_hex()),
                None => text.push('-'),
            }
            let _ = text.write_char('\n');
        }
        text
    }

    /// Parses the result of a list of `items` items; `None` if it is malformed.
    pub(crate) fn decode(text: &str, items: u64) -> Option<Self> {
        let mut lines = text.lines();
        let note = serde_json::from_str(lines.next()?).ok()?;
        let digest = |line| match line {
            "-" => Some(None),
            hex => Some(Some(*blake3::Hash::from_hex(hex).ok()?.as_bytes())),
        };
        let digests: Vec<_> = lines.map(digest).collect::<Option<_>>()?;
        (digests.len() as u64 == items).then_some(Self { note, digests })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let note = Note { list: "ab".into(), host: "n\n1".into(), pid: 3, at: 4 };
        let outcome = Outcome { note, digests: vec![Some([1; 32]), None, Some([0xff; 32])] };
        let text = outcome.encode();
        assert_eq!(Outcome::decode(&text, 3), Some(outcome.clone()));
        assert_eq!(outcome.done(), 2);
        assert_eq!(Outcome::decode(&text, 2), None);
        assert_eq!(Outcome::decode(&text[..text.len() - 4], 3), None, "a digest is cut off");
        assert_eq!(Outcome::decode("", 0), None);
        assert_eq!(Outcome::decode("{}\n", 0), None);
    }
}
