//! The two builds of each algorithm do the same: what the kernel did on a path with losses, done again natively.

#![cfg(feature = "ebpf")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};

use icdc_cc::native::Replay;
use icdc_tcp::algorithm;
use support::algorithms::Kernel;
use support::lab::Lab;

/// Numbers of operations in `c/trace.h`.
const INIT: u32 = 0;
const SSTHRESH: u32 = 1;
const CONG_AVOID: u32 = 2;

/// Enough for some losses, and less than the ring buffer keeps records of.
const BYTES: usize = 8_000_000;

#[test]
fn windows_in_the_kernel_are_those_of_the_native_build() {
    let Some(_kernel) = Kernel::take() else { return };
    let Some(lab) =
        Lab::up(&["--rate", "40mbit", "--rtt", "30ms", "--queue", "100kB", "--loss", "2e-3", "--seed", "7"])
    else {
        return;
    };
    for algorithm in algorithm::ours() {
        let traced = algorithm::load_traced(algorithm, &[]).unwrap();
        let (mut sender, mut receiver) = lab.tcp();
        icdc_tcp::set_congestion(&sender, traced.kernel_name()).unwrap();
        let reader = std::thread::spawn(move || receiver.read_exact(&mut vec![0; BYTES]));
        sender.write_all(&vec![1; BYTES]).unwrap();
        reader.join().unwrap().unwrap();

        let mut replays = BTreeMap::new();
        let mut operations = BTreeMap::<u32, u32>::new();
        for record in traced.records().unwrap() {
            let replay = match record.operation {
                // The address of a socket that is gone may come again.
                INIT => replays.entry(record.socket).insert_entry(Replay::new(algorithm, &[]).unwrap()).into_mut(),
                _ => replays.get_mut(&record.socket).expect("init comes first"),
            };
            replay.step(&record).unwrap_or_else(|difference| panic!("{}: {difference}", algorithm.name));
            *operations.entry(record.operation).or_default() += 1;
        }
        eprintln!("{}: operations by number: {operations:?}", algorithm.name);
        let count = |operation| operations.get(&operation).copied().unwrap_or_default();
        assert!(count(CONG_AVOID) > 100 && count(SSTHRESH) > 0, "{}: {operations:?}", algorithm.name);
    }
}
