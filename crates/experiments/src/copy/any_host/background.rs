//! Copies beside cross-traffic that is on and off in turns (`beside_others.rs`): a user's on stock
//! hosts and root's on tuned ones.
//!
//! The copy's data is what host b's device received less the cross-traffic, which its kernel counts
//! as it drops it for want of a reader. Both counters are read every [`STEP`].

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use icdc_lab::{Host, Lab, Settings};
use icdc_packet::clock;
use icdc_report::Table;
use icdc_units::{ByteCount, Span, Time};

use crate::copy::any_host::accounts::Account;
use crate::copy::any_host::case::Case;
use crate::copy::any_host::row::{Row, RunContext, size_in};
use crate::copy::any_host::turn::{CopyResult, Fixture, counters, network_file};
use crate::copy::beside_others::{QUEUE, RATE, ROUND_TRIP, ResidualCapacity, others};
use crate::copy::peers::Load;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::repetition::attempts::{self, Figures};
use crate::harness::repetition::resolution::Resolution;

/// Size of the file, whose copy takes about a minute.
pub(super) const SIZE: ByteCount = ByteCount::new(4_000_000_000);
/// Interval at which the counters are sampled.
const STEP: Span = Span::from_millis(10);
/// Length of a full packet in bytes, as the device counts it.
const FRAME: u64 = 1514;
/// TCP payload of a full packet, in bytes.
const PAYLOAD: u64 = 1448;
/// Time before the end of a copy that does not count.
const TAIL: Span = Span::from_secs(1);

/// Case: cross-traffic in per cent of the path's rate, and the account whose copy runs at the same
/// time.
#[derive(Clone, Copy)]
pub(super) struct Background {
    name: &'static str,
    share: u64,
    account: Account,
}

/// Result of a copy beside cross-traffic.
pub(super) struct CopyBeside {
    /// Payload of each millisecond from the first byte on.
    arrivals: Vec<u32>,
    left: ResidualCapacity,
    finish: CopyResult,
}

/// All rows of the table of copies beside cross-traffic.
pub(super) const ALL: [Background; 6] = [
    Background { name: "background of 30 %, user", share: 30, account: Account::User },
    Background { name: "background of 30 %, root", share: 30, account: Account::Root },
    Background { name: "background of 50 %, user", share: 50, account: Account::User },
    Background { name: "background of 50 %, root", share: 50, account: Account::Root },
    Background { name: "background of 60 %, user", share: 60, account: Account::User },
    Background { name: "background of 60 %, root", share: 60, account: Account::Root },
];

/// A sample of host b's counters, from which the copy's data is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Received {
    at: Time,
    /// Bytes of all frames that the device has counted.
    device: u64,
    /// Datagrams that were dropped for want of a reader.
    datagrams: u64,
}

impl Background {
    /// Copies beside the cross-traffic; returns the first attempt that the machine did not disturb,
    /// or the last one, marked as invalid.
    fn run_once(&self, bench: &Bench<'_>, fixture: &Fixture<'_>, source: &Path) -> Result<CopyBeside, ExperimentError> {
        let stock = self.account == Account::User;
        let settings = Settings { stock, ..Settings::symmetric(path(RATE, ROUND_TRIP, QUEUE)) };
        let tolerance = Resolution::Means.tolerance(settings.round_trip());
        attempts::unspoilt_after(
            bench,
            tolerance,
            || fixture.scratch.settle(source),
            || self.attempt(bench, fixture, &settings, source),
            |run| run.finish.spoilt.as_deref().filter(|_| run.finish.failure.is_none()),
        )
    }

    /// Copies once, in a lab of its own, while the cross-traffic is on and off.
    fn attempt(
        &self,
        bench: &Bench<'_>,
        fixture: &Fixture<'_>,
        settings: &Settings,
        source: &Path,
    ) -> Result<CopyBeside, ExperimentError> {
        let case = Case::beside_another(self.account, None);
        fixture.forget_paths(&case)?;
        let lab = TemporaryLab::new(bench, settings)?;
        let over = AtomicBool::new(false);
        let (finish, phases, received) = thread::scope(|scope| {
            let others = scope.spawn(|| others(self.share).send(&lab, &over));
            let received = scope.spawn(|| watch(&lab, &over));
            let finish = fixture.copy(bench, &lab, &case, source);
            over.store(true, Ordering::Relaxed);
            let phases = others.join().expect("the others do not panic")?;
            let received = received.join().expect("watching does not panic")?;
            Ok::<_, ExperimentError>((finish?, phases, received))
        })?;
        let first_byte = finish.recording.data_began(settings.forward.largest_frame());
        let last = finish.begun + (finish.took - TAIL);
        Ok(CopyBeside {
            arrivals: arrivals(&received, first_byte, last),
            left: ResidualCapacity::new(&phases, first_byte),
            finish,
        })
    }

    /// Cells of the row in the table, over the runs.
    fn cells(&self, runs: &[CopyBeside]) -> Vec<String> {
        let spread = |value: &dyn Fn(&CopyBeside) -> f64| Spread::of(runs.iter().map(value));
        let failed = runs.iter().find_map(|run| run.finish.failure.as_deref());
        let drops = |run: &CopyBeside| (run.finish.steady.early_drops + run.finish.steady.drops) as f64;
        vec![
            self.name.to_owned(),
            if self.account == Account::Root { "≥ 92" } else { "≥ 90" }.to_owned(),
            failed.map_or_else(|| spread(&CopyBeside::share).tenths("none"), |why| format!("failed: {why}")),
            "≤ 8".to_owned(),
            spread(&|run| run.left.followed(Arrivals::new(&run.arrivals), ROUND_TRIP).median).tenths("never"),
            spread(&drops).whole(),
            spread(&|run| run.finish.retransmitted * 100.0).thousandths(),
            runs.iter().filter(|run| run.finish.spoilt.is_some()).count().to_string(),
        ]
    }
}

impl CopyBeside {
    /// Goodput in per cent of the rate that the cross-traffic left.
    fn share(&self) -> f64 {
        self.left.share(Arrivals::new(&self.arrivals), |_| true)
    }
}

impl Figures for CopyBeside {
    fn figures(&self) -> String {
        format!("{:.1} % of what was left, {}", self.share(), self.finish.figures())
    }
}

/// Samples host b's counters until `over`.
fn watch(lab: &Lab, over: &AtomicBool) -> Result<Vec<Received>, ExperimentError> {
    lab.enter(Host::B)?;
    let mut all = Vec::new();
    while !over.load(Ordering::Relaxed) {
        all.push(Received::now()?);
        clock::sleep_until(clock::now() + STEP);
    }
    Ok(all)
}

impl Received {
    /// Counters of the calling thread's host.
    fn now() -> Result<Self, ExperimentError> {
        let (devices, snmp) = (network_file("dev")?, network_file("snmp")?);
        let at = clock::now();
        Ok(Self { at, device: device_bytes(&devices), datagrams: counters(&snmp, "Udp:")("RcvbufErrors") })
    }
}

/// Bytes that a lab's device has received, from proc(5)'s net/dev; zero if it is not there.
fn device_bytes(text: &str) -> u64 {
    let of_device = text.lines().find_map(|line| line.trim_start().strip_prefix("eth0:"));
    of_device.and_then(|words| words.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// TCP payload of each millisecond between two times.
fn arrivals(received: &[Received], from: Time, to: Time) -> Vec<u32> {
    let mut bytes = vec![0; (to - from).as_millis() as usize];
    for two in received.windows(2) {
        let [before, after] = two else { unreachable!("windows of two") };
        let datagrams = (after.datagrams - before.datagrams) * FRAME;
        let payload = (after.device - before.device).saturating_sub(datagrams) * PAYLOAD / FRAME;
        let steps = (after.at - before.at).as_millis().max(1);
        for step in 0..steps {
            let at = before.at + Span::from_millis(step);
            let index = (at - from).as_millis() as usize;
            if at >= from && index < bytes.len() {
                bytes[index] += (payload / steps) as u32;
            }
        }
    }
    bytes
}

impl Row for Background {
    type Run = CopyBeside;

    fn name(&self) -> &'static str {
        self.name
    }

    fn load(&self) -> (Load, ByteCount) {
        (Load::File, SIZE)
    }

    fn run(&self, context: &RunContext<'_>, source: &Path, _round: u64) -> Result<CopyBeside, ExperimentError> {
        self.run_once(context.bench, context.fixture, source)
    }

    fn fault(run: &CopyBeside) -> Option<&str> {
        run.finish.spoilt.as_deref()
    }

    fn table(rows: &[(Self, Vec<CopyBeside>)], quick: bool) -> Table {
        let size = size_in(SIZE, quick);
        let header = [
            "",
            "required",
            "of what is left over, %",
            "required",
            "changes followed after, round trips",
            "dropped at the queue",
            "segments retransmitted, %",
            "invalid runs",
        ];
        Table {
            caption: format!(
                "{size} over 1 Gbit/s, 300 ms, queue 25 MB, others on and off each 5 s: median (least to greatest)"
            ),
            header: header.map(str::to_owned).to_vec(),
            rows: rows.iter().map(|(background, runs)| background.cells(runs)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_device_received_less_the_others_is_the_copys() {
        let from = Time::ORIGIN + Span::from_secs(9);
        let at = |millis| from + Span::from_millis(millis);
        let received = [
            Received { at: from - Span::from_millis(10), device: 0, datagrams: 0 },
            Received { at: at(0), device: 100 * FRAME, datagrams: 0 },
            Received { at: at(10), device: 150 * FRAME, datagrams: 20 },
            Received { at: at(20), device: 170 * FRAME, datagrams: 40 },
        ];
        let bytes = arrivals(&received, from, at(20));
        assert_eq!(bytes.len(), 20);
        assert!(bytes[..10].iter().all(|&bytes| u64::from(bytes) == 3 * PAYLOAD));
        assert!(bytes[10..].iter().all(|&bytes| bytes == 0), "the others' alone");
    }

    #[test]
    fn the_devices_bytes_are_found_by_its_name() {
        let text = "Inter-|   Receive |\n face |bytes packets\n    lo: 7 1 0\n  eth0: 1514 2 0\n";
        assert_eq!(device_bytes(text), 1514);
    }
}
