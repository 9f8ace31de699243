//! Patterns of `--exclude` and paths of the source: compiled or refused with the pattern's name, and
//! matched without a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The module by itself: the crate round it brings everything that sends.
#[allow(dead_code, reason = "a part of another crate")]
#[path = "../../crates/transfer/src/sender/exclude.rs"]
mod exclude;

use exclude::Exclude;

fuzz_target!(|input: (Vec<String>, &[u8])| {
    let (patterns, path) = input;
    match Exclude::new(&patterns) {
        Ok(exclude) => {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let is_left_out = exclude.matches(path, name);
            assert!(!is_left_out || !patterns.is_empty());
        }
        Err(told) => assert!(told.starts_with("--exclude"), "{told}"),
    }
});
