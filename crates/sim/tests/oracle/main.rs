//! The simulator beside Linux's own modules: the records of `bench/oracle`, made by a virtual kernel with netem.
//!
//! `ICDC_ORACLE=FILE cargo test --release -p icdc-sim --test oracle -- --nocapture` compares another record.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod comparison;
mod traces;

use std::collections::BTreeMap;
use std::thread;

use comparison::Comparison;
use traces::Trace;

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/oracle/traces.txt");

/// Every trace with what the simulator makes of its path.
fn compared() -> Vec<(Trace, Comparison)> {
    let file = std::env::var("ICDC_ORACLE").unwrap_or_else(|_| RECORD.to_owned());
    let all = traces::parse(&std::fs::read_to_string(file).unwrap());
    let shares = all.chunks(all.len().div_ceil(thread::available_parallelism().map_or(1, usize::from)));
    let compare = |trace: &Trace| {
        let simulated = comparison::run(&trace.path, &trace.algorithm);
        (trace.clone(), comparison::compare(trace, &simulated))
    };
    thread::scope(|scope| {
        let work: Vec<_> =
            shares.map(|share| scope.spawn(move || share.iter().map(compare).collect::<Vec<_>>())).collect();
        work.into_iter().flat_map(|work| work.join().unwrap()).collect()
    })
}

/// Of these ratios: the middle one, and the share that is within `allowed` of 1.
fn spread(mut ratios: Vec<f64>, allowed: f64) -> (f64, f64) {
    ratios.sort_by(f64::total_cmp);
    let close = ratios.iter().filter(|ratio| (**ratio - 1.0).abs() <= allowed).count();
    (ratios[ratios.len() / 2], close as f64 / ratios.len() as f64)
}

#[test]
fn the_simulator_does_what_linux_does() {
    let mut of_algorithms: BTreeMap<String, Vec<Comparison>> = BTreeMap::new();
    println!(
        "path,algorithm,\"Linux, Mbit/s\",\"simulated, Mbit/s\",simulated/Linux,ratios of shares kept,ratios of growth"
    );
    for (trace, comparison) in compared() {
        let told = |ratios: Vec<f64>| ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" ");
        println!(
            "\"{}\",{},{:.1},{:.1},{:.2},{},{}",
            trace.path,
            trace.algorithm,
            trace.goodput / 1e6,
            trace.goodput * comparison.mean / 1e6,
            comparison.mean,
            told(comparison.kept()),
            told(comparison.growth())
        );
        of_algorithms.entry(trace.algorithm).or_default().push(comparison);
    }
    let mut wrong = Vec::new();
    println!(
        "\nalgorithm,means within 10 %,reductions,median ratio of shares kept,share within 3 %,growths,median ratio of growth,share within 10 %"
    );
    for (algorithm, comparisons) in of_algorithms {
        let close = comparisons.iter().filter(|one| (one.mean - 1.0).abs() <= 0.10).count();
        let kept: Vec<f64> = comparisons.iter().flat_map(Comparison::kept).collect();
        let growth: Vec<f64> = comparisons.iter().flat_map(Comparison::growth).collect();
        // One path may differ.
        let mut is_good = close + 1 >= comparisons.len();
        let counts = (kept.len(), growth.len());
        let mut line = format!("{algorithm},{close} of {}", comparisons.len());
        // BBR neither reduces its window on loss nor grows it by rounds.
        if algorithm != "bbr" {
            is_good &= counts.0 > 0 && counts.1 > 0;
            let (kept, growth) = (spread(kept, 0.03), spread(growth, 0.10));
            line += &format!(",{},{:.3},{:.2},{},{:.3},{:.2}", counts.0, kept.0, kept.1, counts.1, growth.0, growth.1);
            is_good &=
                (kept.0 - 1.0).abs() <= 0.03 && (growth.0 - 1.0).abs() <= 0.10 && kept.1 >= 0.7 && growth.1 >= 0.7;
        }
        println!("{line}");
        if !is_good {
            wrong.push(line);
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
