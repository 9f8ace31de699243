//! The file of a shard: its items in scan order.
//!
//! ```text
//! header: magic 8, plan 16, number of the list, number of items
//! item:   places left out since the last one, source, bytes of the path that it has in common with the
//!         one before, the rest of the path, state (none: a directory; size, mtime s, mtime ns)
//! ```
//!
//! Encoded by postcard. The place of an item is its number among all items of the plan in scan
//! order: what the results of all shards are put together by.

use icdc_protocol::limits::MAX_SHOWN_PATH;
use icdc_protocol::validate::is_component;
use icdc_transfer::sender::selection::{Selected, SelectedState, Selection};
use serde::{Deserialize, Serialize};

/// Random number that identifies a plan.
pub type PlanId = [u8; 16];

/// First bytes of a list's file, with the version of its format.
const MAGIC: [u8; 8] = *b"icdclst\x01";
/// The items of a shard, or all directories of a plan, with their places: numbers among all items
/// of the plan.
#[derive(Debug, PartialEq, Eq)]
pub struct List {
    /// Places of the items in the plan, ascending.
    pub places: Vec<u64>,
    /// The items, in scan order.
    pub items: Vec<Selected>,
}

/// Reason for which the file of a shard's items is refused: it is damaged, or belongs to another
/// plan or shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The list is damaged, or the file is no list.
    #[error("is damaged, or no list of a shard")]
    Damaged,
    /// The list belongs to another plan or shard.
    #[error("is of another plan or shard")]
    Foreign,
}

/// First record of a list's file.
#[derive(Serialize, Deserialize)]
struct Header {
    magic: [u8; 8],
    plan: PlanId,
    number: u32,
    items: u64,
}

/// Record of an item in a list's file: its path continues that of the item before.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    left_out: u64,
    source: u32,
    common: u32,
    rest: &'a [u8],
    state: Option<(u64, i64, u32)>,
}

/// The encoded list `number` of `plan`: items with their places, both ascending.
#[must_use]
pub fn encode<'a>(plan: PlanId, number: u32, items: impl ExactSizeIterator<Item = (u64, &'a Selected)>) -> Vec<u8> {
    let header = Header { magic: MAGIC, plan, number, items: items.len() as u64 };
    let mut bytes = to_bytes(&header);
    let (mut next, mut before) = (0, &[][..]);
    for (place, item) in items {
        let common = before.iter().zip(&item.path).take_while(|(one, other)| one == other).count();
        let state = match item.state {
            SelectedState::Directory => None,
            SelectedState::Other { size, mtime: (seconds, nanos) } => Some((size, seconds, nanos)),
        };
        let line = Line {
            left_out: place - next,
            source: item.source,
            common: common as u32,
            rest: &item.path[common..],
            state,
        };
        bytes.extend(to_bytes(&line));
        (next, before) = (place + 1, &item.path);
    }
    bytes
}

/// Encodes a record of a list's file by postcard.
fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("there is memory, and nothing else can fail")
}

/// Decodes the list `number` of `plan`.
///
/// # Errors
/// [`ListError`]: a list with anything out of bounds or out of order is refused.
pub fn decode(bytes: &[u8], plan: PlanId, number: u32) -> Result<List, ListError> {
    let (header, mut bytes): (Header, _) = postcard::take_from_bytes(bytes).map_err(|_| ListError::Damaged)?;
    if header.magic != MAGIC {
        return Err(ListError::Damaged);
    }
    if (header.plan, header.number) != (plan, number) {
        return Err(ListError::Foreign);
    }
    let mut list = List { places: Vec::new(), items: Vec::new() };
    let mut next = 0u64;
    let mut path: Vec<u8> = Vec::new();
    for _ in 0..header.items {
        let (line, rest): (Line<'_>, _) = postcard::take_from_bytes(bytes).map_err(|_| ListError::Damaged)?;
        bytes = rest;
        let place = next.checked_add(line.left_out).ok_or(ListError::Damaged)?;
        next = place.checked_add(1).ok_or(ListError::Damaged)?;
        let common = line.common as usize;
        if common > path.len() || common + line.rest.len() > MAX_SHOWN_PATH {
            return Err(ListError::Damaged);
        }
        path.truncate(common);
        path.extend_from_slice(line.rest);
        if !path.is_empty() && !path.split(|byte| *byte == b'/').all(is_component) {
            return Err(ListError::Damaged);
        }
        let state = match line.state {
            None => SelectedState::Directory,
            Some((_, _, nanos)) if nanos >= 1_000_000_000 => return Err(ListError::Damaged),
            Some((size, seconds, nanos)) => SelectedState::Other { size, mtime: (seconds, nanos) },
        };
        list.places.push(place);
        list.items.push(Selected { source: line.source, path: path.clone(), state });
    }
    if bytes.is_empty() { Ok(list) } else { Err(ListError::Damaged) }
}

impl List {
    /// The selection by which a copy takes these items only; `id` distinguishes it from all others.
    ///
    /// # Errors
    /// [`ListError::Damaged`] if they are not in order.
    pub fn selection(self, id: [u8; 32]) -> Result<Selection, ListError> {
        Selection::new(id, self.items).map_err(|_| ListError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use proptest::prelude::*;

    use super::*;

    const PLAN: PlanId = [7; 16];

    fn item(path: &str, size: Option<u64>) -> Selected {
        let state =
            size.map_or(SelectedState::Directory, |size| SelectedState::Other { size, mtime: (-3, 999_999_999) });
        Selected { source: 1, path: path.as_bytes().to_vec(), state }
    }

    fn sample() -> (Vec<u64>, Vec<Selected>) {
        let items =
            [("", None), ("a", None), ("a/long name", Some(0)), ("a/long name.txt", Some(1 << 40)), ("b", Some(3))];
        (vec![0, 1, 5, 6, u64::from(u32::MAX) + 9], items.map(|(path, size)| item(path, size)).to_vec())
    }

    fn encoded() -> Vec<u8> {
        let (places, items) = sample();
        encode(PLAN, 3, places.iter().copied().zip(&items))
    }

    #[test]
    fn what_is_written_is_read() {
        let (places, items) = sample();
        assert_eq!(decode(&encoded(), PLAN, 3), Ok(List { places, items }));
    }

    #[test]
    fn paths_as_long_as_a_scan_takes_are_read() {
        let long = item(&vec!["n".repeat(255); 400].join("/"), Some(1));
        let bytes = encode(PLAN, 0, [(0, &long)].into_iter());
        assert_eq!(decode(&bytes, PLAN, 0), Ok(List { places: vec![0], items: vec![long] }));
    }

    #[test]
    fn lists_of_others_and_damaged_ones_are_refused() {
        let bytes = encoded();
        assert_eq!(decode(&bytes, [8; 16], 3), Err(ListError::Foreign));
        assert_eq!(decode(&bytes, PLAN, 2), Err(ListError::Foreign));
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length], PLAN, 3).is_err(), "cut after {length}");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat(), PLAN, 3), Err(ListError::Damaged));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for path in ["..", "a/../b", "/etc", "a//b", "a/", ".", "a\0b"] {
            let item = item(path, Some(1));
            let bytes = encode(PLAN, 0, [(0, &item)].into_iter());
            assert_eq!(decode(&bytes, PLAN, 0), Err(ListError::Damaged), "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..100, to in any::<u8>()) {
            let _ = decode(&bytes, PLAN, 3);
            let mut bytes = encoded();
            let at = at % bytes.len();
            bytes[at] = to;
            let _ = decode(&bytes, PLAN, 3);
        }
    }
}
