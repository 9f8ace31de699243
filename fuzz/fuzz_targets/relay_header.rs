//! A header as another relay sends it: what is believed keeps to the bounds and survives another
//! trip.

#![no_main]

use icdc_protocol::relay::peer::{Header, MAX_HEADER, MAX_HOPS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some((header, used))) = Header::decode(bytes) else {
        return;
    };
    assert!(used <= bytes.len().min(MAX_HEADER) && header.hops.len() <= MAX_HOPS);
    let again = header.encode();
    assert_eq!(Header::decode(&again), Ok(Some((header, again.len()))));
});
