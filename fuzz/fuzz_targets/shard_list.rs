//! The list of a shard as a process of another host has written it: places ascend, paths stay below their
//! source, and what was read is what would be written.

#![no_main]

use icdc_shards::list::{decode, encode};
use libfuzzer_sys::fuzz_target;

const PLAN: [u8; 16] = [7; 16];
const NUMBER: u32 = 3;

fuzz_target!(|input: (u8, &[u8])| {
    let (items, body) = input;
    let _ = decode(body, PLAN, NUMBER);
    // The head of an empty list ends in the number of its items, a byte of seven bits.
    let mut bytes = encode(PLAN, NUMBER, std::iter::empty());
    *bytes.last_mut().expect("a list has a head") = items & 0x7f;
    bytes.extend_from_slice(body);
    let Ok(list) = decode(&bytes, PLAN, NUMBER) else { return };
    assert_eq!(list.places.len(), list.items.len());
    assert!(list.places.is_sorted_by(|one, next| one < next));
    for item in &list.items {
        let is_component = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
        assert!(item.path.is_empty() || item.path.split(|byte| *byte == b'/').all(is_component));
    }
    let again = encode(PLAN, NUMBER, list.places.iter().copied().zip(&list.items));
    assert_eq!(decode(&again, PLAN, NUMBER).as_ref(), Ok(&list));
    let _ = list.selection([1; 32]);
});
