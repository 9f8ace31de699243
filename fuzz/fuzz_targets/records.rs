//! Streams of TLS records by a script. What a peer sends, honest or not and in any pieces, is
//! opened up to the first record that must not be believed, and the error after it is final; what
//! is sealed, with the key updates that are due, another hand can open and so can the crate.

#![no_main]

#[path = "../../crates/record/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| {
    model::opening::run(script);
    model::sealing::run(script);
});
