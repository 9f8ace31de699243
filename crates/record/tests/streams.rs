//! Whole streams in both directions, in any pieces, honest and not.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod model;

use std::path::Path;

use model::{opening, sealing};
use proptest::collection::vec;
use proptest::prelude::*;

/// A script with its number of steps where both kinds of script have it.
fn script(steps: u8) -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 2), 0..=steps, vec(any::<u8>(), 0..2000)).prop_map(|(mut script, steps, rest)| {
        script.push(steps);
        script.extend(rest);
        script
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn what_a_peer_sends_is_opened_up_to_the_first_lie(script in script(40)) {
        opening::run(&script);
    }

    #[test]
    fn what_is_sealed_can_be_opened_up_to_the_cut(script in script(60)) {
        sealing::run(&script);
    }
}

#[test]
fn every_seed_of_the_fuzz_target_holds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/records");
    let seeds: Vec<_> = std::fs::read_dir(seeds).unwrap().map(|seed| seed.unwrap().path()).collect();
    assert!(!seeds.is_empty());
    for seed in seeds {
        let script = std::fs::read(&seed).unwrap();
        opening::run(&script);
        sealing::run(&script);
    }
}
