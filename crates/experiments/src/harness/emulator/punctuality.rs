//! Lateness of packets, with one TCP connection: at the highest rates, with processors that may
//! sleep, while the wire is stopped again and again, and over a long time.

use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use icdc_lab::{Lab, Mode, Settings};
use icdc_packet::clock;
use icdc_units::{ByteCount, Rate, Span};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::measured::Measured;
use crate::harness::measurement::trial::{self, Trial};

const GIGABIT: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Round-trip time of the paths with a paced sender.
const LONG: Span = Span::from_millis(300);
/// Size of the bottleneck's queue: a tenth of rate × round trip.
const QUEUE: ByteCount = ByteCount::new(3_750_000);
/// 95 % of the bottleneck, counted as payload.
const NEARLY_FULL: Rate = Rate::from_bits_per_second(890_000_000);
/// Time for which the wire is stopped.
const STOPPED: Span = Span::from_millis(50);
/// Time for which the wire runs between two stops.
const RUNNING: Span = Span::from_millis(200);
/// Late deliveries look like a growing queue, which ends CUBIC's slow start: no stop before it is
/// over.
const SLOW_START: Span = Span::from_secs(8);
const RUNS: u64 = 3;

/// Measures how punctual the emulator is; gives the rows of the table.
pub(super) fn rows(bench: &Bench<'_>) -> Result<Vec<Vec<String>>, ExperimentError> {
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let mut rows = Vec::new();
    for speed in speeds().into_iter().take(if bench.quick { 1 } else { usize::MAX }) {
        rows.push(speed.row(bench, runs)?);
    }
    rows.extend(sleeping(bench, runs)?);
    rows.push(stops(bench)?);
    rows.push(long(bench)?);
    Ok(rows)
}

/// A run of one TCP connection that sends as fast as it can.
struct Speed {
    name: &'static str,
    settings: Settings,
    seconds: u64,
    /// Memory that is used for a moment before: a hypervisor may have taken back what lay idle, and
    /// returns it slowly.
    touched: ByteCount,
}

/// The three runs at the highest rates, in exact and in fast mode.
fn speeds() -> [Speed; 3] {
    let short = |megabits: u64, mtu: u64| {
        let rate = Rate::from_bits_per_second(megabits * 1_000_000);
        let direction = path(rate, Span::from_millis(20), rate * Span::from_millis(20));
        Settings::symmetric(icdc_path::Settings { mtu: ByteCount::new(mtu), ..direction })
    };
    let nine = Rate::from_bits_per_second(9_000_000_000);
    let long = Settings::symmetric(path(nine, Span::from_millis(400), ByteCount::new(450_000_000)));
    let touched = ByteCount::from_mib(1 << 10);
    [
        Speed { name: "exact mode, MTU 1500, 2.1 Gbit/s, 20 ms", settings: short(2100, 1500), seconds: 20, touched },
        Speed { name: "exact mode, MTU 9000, 6 Gbit/s, 20 ms", settings: short(6000, 9000), seconds: 20, touched },
        Speed {
            name: "fast mode, 9 Gbit/s, 400 ms",
            settings: Settings { mode: Mode::Fast, ..long },
            seconds: 30,
            touched: touched * 8,
        },
    ]
}

impl Speed {
    /// Measures the runs; gives a row with the peak rate and the lateness of packets.
    fn row(&self, bench: &Bench<'_>, runs: u64) -> Result<Vec<String>, ExperimentError> {
        let mut all = Vec::new();
        for run in 1..=runs {
            (bench.say)(&format!("{}, run {run} of {runs}", self.name));
            black_box(vec![1_u8; self.touched.as_usize()]);
            all.push(once(
                bench,
                &Trial::new(self.settings.clone(), if bench.quick { 5 } else { self.seconds }, "cubic"),
            )?);
        }
        let peak = Spread::of(all.iter().map(|run| run.recording.peak_rate().as_bits_per_second() as f64));
        Ok(vec![
            self.name.to_owned(),
            "full rate, 99.9 % less than 1 ms late".to_owned(),
            format!("{} Mbit/s in the best second; {}", peak.megabits(), lateness(&all)),
        ])
    }
}

/// Measures lateness beside a paced sender with processors that may sleep, and with such that may
/// not, in turns; gives a row for each.
fn sleeping(bench: &Bench<'_>, runs: u64) -> Result<Vec<Vec<String>>, ExperimentError> {
    let choices = [("kept awake", false), ("free to sleep (--let-sleep)", true)];
    let mut all = [Vec::new(), Vec::new()];
    for run in 1..=runs {
        for ((name, let_sleep), measured) in choices.iter().zip(&mut all) {
            (bench.say)(&format!("processors {name}, run {run} of {runs}"));
            let settings = Settings { let_sleep: *let_sleep, ..Settings::symmetric(path(GIGABIT, LONG, QUEUE)) };
            let trial = Trial::new(settings, if bench.quick { 5 } else { 15 }, "cubic");
            let rate = Some(Rate::from_bits_per_second(860_000_000));
            measured.push(once(bench, &Trial { rate, ..trial })?);
        }
    }
    let row = |((name, _), measured): (&(&str, bool), &Vec<Measured>)| {
        vec![format!("1 Gbit/s, 300 ms, a sender of 860 Mbit/s, processors {name}"), String::new(), lateness(measured)]
    };
    Ok(choices.iter().zip(&all).map(row).collect())
}

/// Measures drops while the wire is stopped again and again beside a sender paced at 95 % of the
/// bottleneck; gives a row.
fn stops(bench: &Bench<'_>) -> Result<Vec<String>, ExperimentError> {
    (bench.say)("stopping the wire");
    let seconds = if bench.quick { 10 } else { 25 };
    let (measured, stops) = trial::once_beside(bench, &nearly_full(seconds), stop_and_go)?;
    Ok(vec![
        format!("the wire stopped for {STOPPED}, {stops} times, beside a sender of 95 % of 1 Gbit/s, 300 ms"),
        "no drop".to_owned(),
        crossed(&measured),
    ])
}

/// Stops the wire's process by a signal and lets it continue, in turns after slow start, until
/// `over`; returns the number of stops.
fn stop_and_go(lab: &Lab, over: &AtomicBool) -> Result<u64, ExperimentError> {
    let wire = Pid::from_raw(lab.record.wire.id as i32).expect("a process has a number");
    let signal =
        |signal| kill_process(wire, signal).map_err(|error| ExperimentError::io("signal the wire", error.into()));
    let wait = |length: Span| {
        let until = clock::now() + length;
        while clock::now() < until && !over.load(Ordering::Relaxed) {
            clock::sleep_until(until.min(clock::now() + STOPPED));
        }
    };
    wait(SLOW_START);
    let mut stops = 0;
    while !over.load(Ordering::Relaxed) {
        signal(Signal::STOP)?;
        wait(STOPPED);
        signal(Signal::CONT)?;
        wait(RUNNING);
        stops += 1;
    }
    Ok(stops)
}

/// Measures a sender paced at 95 % of the bottleneck for ten minutes, and the wire's memory in the
/// end; gives a row.
fn long(bench: &Bench<'_>) -> Result<Vec<String>, ExperimentError> {
    let seconds = if bench.quick { 5 } else { 600 };
    (bench.say)(&format!("a run of {seconds} s"));
    let trial = nearly_full(seconds);
    let bound = trial.settings.forward.in_flight() + trial.settings.backward.in_flight();
    let (measured, memory) = trial::once_beside(bench, &trial, |lab, over| {
        while !over.load(Ordering::Relaxed) {
            clock::sleep_until(clock::now() + RUNNING);
        }
        Ok(anonymous_memory(lab.record.wire.id))
    })?;
    Ok(vec![
        format!("a sender of 95 % of 1 Gbit/s for {seconds} s, 300 ms, queue of 0.1 × rate × round trip"),
        format!("no drop; {bound} on its way at most"),
        format!("{}; {memory} of the wire's own memory beside its rings", crossed(&measured)),
    ])
}

/// Anonymous memory of a process (`RssAnon` of proc(5)); zero where it is not known.
fn anonymous_memory(process: u32) -> ByteCount {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    ByteCount::from_kib(line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default())
}

/// Measurement of a sender that is paced at 95 % of the bottleneck.
fn nearly_full(seconds: u64) -> Trial {
    let settings = Settings::symmetric(path(GIGABIT, LONG, QUEUE));
    Trial { rate: Some(NEARLY_FULL), ..Trial::new(settings, seconds, "cubic") }
}

/// Measures once, without waiting for a calm machine or repeating.
fn once(bench: &Bench<'_>, trial: &Trial) -> Result<Measured, ExperimentError> {
    trial::once_beside(bench, trial, |_, _| Ok(())).map(|(measured, ())| measured)
}

/// Text with the goodput, drops, retransmissions and lateness of a measurement.
fn crossed(measured: &Measured) -> String {
    let again = measured.summary.retransmitted_segments;
    format!(
        "{:.0} Mbit/s, {} dropped by the queue, {again} retransmitted; {}",
        measured.summary.goodput_bps / 1e6,
        measured.queue_drops,
        lateness(std::slice::from_ref(measured))
    )
}

/// Text with the 99.9 % quantile of the packets' lateness in each run.
fn lateness(runs: &[Measured]) -> String {
    let late: Vec<String> = runs.iter().map(|run| run.lateness.to_string()).collect();
    format!("99.9 % late by less than {}", late.join(", "))
}
