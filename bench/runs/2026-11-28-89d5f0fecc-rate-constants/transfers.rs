//! Simulated transfers, one line of CSV each: name, time, share of the rate, drops, shares of the bundle and of others.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod support;
use icdc_sim::{Flow, Pause, Pausing, ReceiveWindow};
use icdc_units::{ByteCount, Span};
use std::fmt::Write as _;
use support::bundle_path::{COMING_AND_GOING, LONG, Path, comes_and_goes};

const STOCK: ByteCount = ByteCount::from_mib(3);
const AMPLE: ByteCount = ByteCount::from_mib(24);
const NEAR: Path = Path { rtt: Span::from_millis(50), queue: 6_250_000, ..LONG };

fn cubic(most: ByteCount) -> Flow {
    Flow::bulk(icdc_cc::find("cubic").unwrap(), ReceiveWindow::Tuned { most })
}
fn members(count: usize, most: ByteCount, pauses: &[Pause]) -> Vec<Flow> {
    vec![Flow { bundle: Some(0), pauses: pauses.to_vec(), ..cubic(most) }; count]
}
fn pauses(of: Pausing, length_ms: u64, every_ms: u64) -> Vec<Pause> {
    let at = |number: u64| every_ms * number + 37 + number * number * 7 % 50;
    let pause = |number| Pause { of, after: Span::from_millis(at(number)), length: Span::from_millis(length_ms) };
    (0..30_000 / every_ms).map(pause).collect()
}
fn as_many_as_it_needs(count: usize) -> Vec<Flow> {
    let spare = Flow { is_spare: true, ..members(1, AMPLE, &[])[0].clone() };
    let first = members(count, AMPLE, &[]).into_iter().map(|flow| Flow { start: Span::from_secs(5), ..flow });
    first.chain(vec![spare; 64 - count]).collect()
}

#[test]
fn transfers() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut text = String::new();
    let mut add = |name: &str, path: Path, ours: Vec<Flow>, others: Vec<Flow>, from: usize, to: usize| {
        if !only.is_empty() && !only.contains(name) { return; }
        let seen = path.run(ours, others);
        let (a, b) = seen.between(from, to);
        let _ = writeln!(text, "{name},{:.4},{:.4},{},{a:.4},{b:.4}", seen.slower, seen.steady, seen.dropped);
    };
    add("stock", Path { ..LONG }, members(16, STOCK, &[]), vec![], 4, 17);
    let spare = Flow { is_spare: true, ..members(1, STOCK, &[])[0].clone() };
    add("loss", Path { loss: 1e-4, ..LONG }, [members(15, STOCK, &[]), vec![spare; 49]].concat(), vec![], 4, 20);
    add("pauses", Path { ..LONG }, members(16, STOCK, &pauses(Pausing::Receiver, 30, 1000)), vec![], 4, 17);
    add("cubic", NEAR, as_many_as_it_needs(4), vec![cubic(AMPLE)], 10, 40);
    add("onoff", COMING_AND_GOING, members(15, STOCK, &[]), vec![comes_and_goes(500)], 20, 55);
    if let Ok(file) = std::env::var("GOLDEN") { std::fs::write(file, text).unwrap(); }
}
