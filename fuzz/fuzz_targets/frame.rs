//! A frame as it comes from the wire: what is believed keeps to the rules and survives another
//! trip.

#![no_main]

use icdc_protocol::frame::{PREFIX_LENGTH, Prefix, decode_head, encode};
use icdc_protocol::limits::{MAX_HEAD, MAX_PAYLOAD};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_LENGTH>() else {
        return;
    };
    let Ok(prefix) = Prefix::parse(prefix) else {
        return;
    };
    assert!((1..=MAX_HEAD).contains(&prefix.head) && prefix.payload <= MAX_PAYLOAD);
    // The claimed length of the head is not held against the input: the fuzzer has enough to do
    // with the message.
    let Ok(message) = decode_head(rest, prefix.payload) else {
        return;
    };
    let mut frame = Vec::new();
    encode(&message, prefix.payload, &mut frame).expect("what was decoded can be encoded");
    let (again, head) = frame
        .split_first_chunk::<PREFIX_LENGTH>()
        .expect("a frame has a prefix");
    let again = Prefix::parse(again).expect("what was encoded can be decoded");
    assert_eq!((again.head, again.payload), (head.len(), prefix.payload));
    assert_eq!(decode_head(head, again.payload), Ok(message));
});
