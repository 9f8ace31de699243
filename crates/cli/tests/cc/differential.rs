//! The two builds of each algorithm do the same: what the kernel did on a path with losses, done
//! again natively.

#![cfg(feature = "ebpf")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};

use icdc_cc::Algorithm;
use icdc_cc::native::Replay;
use icdc_tcp::congestion;

use crate::support::algorithms::Kernel;
use crate::support::lab::Lab;

/// Numbers of operations in `c/trace.h`.
const INIT: u32 = 0;
const SSTHRESH: u32 = 1;
const CONG_AVOID: u32 = 2;
const CONG_CONTROL: u32 = 7;

/// Enough for some losses, and less than the ring buffer keeps records of.
const BYTES: usize = 8_000_000;

/// The algorithms as they are, and so that the path's small windows reach what long paths need:
/// logarithms, growth over time, the test for a trend.
const SETTINGS: [(&str, &[(&str, i64)]); 14] = [
    ("bic", &[]),
    ("bic", &[("ack_ratio", 0)]),
    ("htcp", &[]),
    ("htcp", &[("low_speed_ms", 0), ("bandwidth_switch", 0), ("hz", 250)]),
    ("htcp", &[("draft", 1), ("low_speed_ms", 0), ("bandwidth_switch", 0)]),
    ("highspeed", &[]),
    ("highspeed", &[("per_ack", 0), ("low_window", 4)]),
    ("scalable", &[]),
    ("scalable", &[("low_window", 2)]),
    ("ghstcp", &[]),
    ("ghstcp", &[("samples", 8), ("samples_per_rtt", 256), ("critical", 0)]),
    ("ghstcp", &[("per_ack", 0), ("low_window", 4), ("decrease", 0), ("samples", 8), ("critical", 0)]),
    ("icdc", &[]),
    ("icdc", &[("known_rate", 4_000), ("known_rtt", 30_000), ("margin", 100)]),
];

#[test]
fn windows_in_the_kernel_are_those_of_the_native_build() {
    let Some(_kernel) = Kernel::take() else { return };
    let Some(lab) =
        Lab::up(&["--rate", "40mbit", "--rtt", "30ms", "--queue", "100kB", "--loss", "2e-3", "--seed", "7"])
    else {
        return;
    };
    for (name, settings) in SETTINGS {
        compare(&lab, icdc_cc::find(name).unwrap(), settings);
    }
    let compared: BTreeSet<_> = SETTINGS.iter().map(|(name, _)| *name).collect();
    assert!(congestion::ours().all(|algorithm| compared.contains(algorithm.name)));
}

fn compare(lab: &Lab, algorithm: &'static Algorithm, settings: &[(&str, i64)]) {
    let traced = congestion::load_traced(algorithm, settings).unwrap();
    let (mut sender, mut receiver) = lab.tcp();
    icdc_tcp::set_congestion(&sender, traced.kernel_name()).unwrap();
    let reader = std::thread::spawn(move || receiver.read_exact(&mut vec![0; BYTES]));
    sender.write_all(&vec![1; BYTES]).unwrap();
    reader.join().unwrap().unwrap();

    let mut replays = BTreeMap::new();
    let mut operations = BTreeMap::<u32, u32>::new();
    for record in traced.records().unwrap() {
        if record.operation == INIT {
            // The address of a socket that is gone may come again.
            replays.insert(record.socket, Replay::new(algorithm, settings).unwrap());
        }
        let replay = replays.get_mut(&record.socket).expect("init comes first");
        replay.step(&record).unwrap_or_else(|difference| panic!("{} {settings:?}: {difference}", algorithm.name));
        *operations.entry(record.operation).or_default() += 1;
    }
    eprintln!("{} {settings:?}: operations by number: {operations:?}", algorithm.name);
    let count = |operation| operations.get(&operation).copied().unwrap_or_default();
    // One or the other is what changes the window.
    assert!(
        count(CONG_AVOID).max(count(CONG_CONTROL)) > 100 && count(SSTHRESH) > 0,
        "{}: {operations:?}",
        algorithm.name
    );
}
