//! A receiver whose disk is slower than the path, or stalls for a second now and then.
//!
//! A copy over 1 Gbit/s and 300 ms. In the first case the receiver's disk takes 40 % of the path,
//! in the second it takes all that comes but stalls five times for a second, at times that were
//! drawn once. The kernel holds the receiver's writes back (`throttle.rs`). What must come of it:
//! the rate settles at the disk's within 3 s of the sender hearing of it, TCP never announces a
//! window of zero after that (counted by the receiving host's kernel, `TCPToZeroWindowAdv` of
//! /proc/net/netstat), the ring between socket and disk stays between 10 and 90 % full, and nothing
//! is lost.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use icdc_lab::{Host, Lab, Settings};
use icdc_packet::clock;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::copy::copying::{self, Copied, Copying, SteadyCopy};
use crate::copy::throttle::Throttle;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::scratch::Scratch;
use crate::harness::scenario::Scenario;

/// Scenario `slow-disk` of `icdc lab run`: a copy to a disk that is slower than the path, or
/// stalls.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "slow-disk",
    about: "a receiver's disk that takes 40 % of the path, and one that stalls for a second at random: rate, TCP's window, ring, losses",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(300);
const QUEUE: ByteCount = ByteCount::new(2_500_000);
/// Rate of the slow disk: 40 % of the path's.
const SLOW: Rate = Rate::from_bits_per_second(400_000_000);
/// Times of the disk's stalls, in milliseconds from the start of the command.
const STALLS: [u64; 5] = [6_310, 9_870, 13_240, 18_910, 22_450];
/// Length of a stall of the disk.
const STALL: Span = Span::from_secs(1);
/// Sampling interval of the receiving host's counters.
const SAMPLING_INTERVAL: Span = Span::from_millis(50);
/// Window of the mean rates, in milliseconds.
const WINDOW: usize = 500;
/// Greatest deviation of the mean rates from the disk's, relative to it, at which the rate has
/// settled.
const NEAR: f64 = 1.0 / 7.0;

/// Samples of the receiving host's counter of announced zero windows, with their times.
type Counts = Vec<(Time, u64)>;

/// Measures a copy to a slow disk and one to a disk that stalls; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let mib = |full, quick| ByteCount::from_mib(if bench.quick { quick } else { full });
    let (slow, stalled) = (mib(1400, 500), mib(2900, 1000));
    let scratch = Scratch::on_disk(slow.max(stalled) * 2 + slow)?;
    let throttle = Throttle::new(&scratch.path(""))?;
    let receiver = scratch.script(
        "receiver",
        &format!("echo $$ >'{}' && exec '{}' \"$@\"", throttle.processes().display(), bench.program.display()),
    )?;
    let settings = Settings::symmetric(path(RATE, ROUND_TRIP, QUEUE));
    let mut cases = Vec::new();
    for (name, size, stalls) in [("40 % of the path", slow, &[][..]), ("stalls of a second", stalled, &STALLS[..])] {
        (bench.say)(name);
        let source = scratch.file(&name.replace(' ', "-"), size)?;
        throttle.set(stalls.is_empty().then_some(SLOW))?;
        let copying = Copying {
            settings: settings.clone(),
            scratch: &scratch,
            source: &source,
            rights: Rights::All,
            options: Vec::new(),
            receiver: Some(receiver.clone()),
            limit: Span::from_secs(300),
        };
        let (copied, counts) = copying::run_beside(bench, &copying, |lab| {
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                let counts = scope.spawn(|| count(lab, &over));
                let stall = scope.spawn(|| stall(&throttle, stalls, &over));
                let said = copying::copy(bench, lab, &copying, |_| {});
                over.store(true, Ordering::Relaxed);
                let counts = counts.join().expect("counting does not panic");
                stall.join().expect("stalling does not panic")?;
                Ok((said?, counts?))
            })
        })?;
        cases.push(DiskRun { name, is_slow: stalls.is_empty(), copied, counts });
    }
    throttle.set(None)?;
    Ok(Report {
        tables: cases.iter().map(|case| case.table(&settings)).collect(),
        plots: cases.iter().flat_map(|case| case.plots(&settings)).collect(),
        failures: cases
            .iter()
            .filter_map(|case| Some(format!("{}: {}", case.name, case.copied.spoilt.as_ref()?)))
            .collect(),
        ..Report::default()
    })
}

/// Samples the receiving host's counter of announced zero windows until `over`.
fn count(lab: &Lab, over: &AtomicBool) -> Result<Counts, ExperimentError> {
    lab.enter(Host::B)?;
    let mut counts = Counts::new();
    while !over.load(Ordering::Relaxed) {
        let now = clock::now();
        let text = fs::read_to_string("/proc/thread-self/net/netstat")
            .map_err(|error| ExperimentError::io("read /proc/net/netstat", error))?;
        counts.push((now, counter(&text, "TCPToZeroWindowAdv").unwrap_or(0)));
        clock::sleep_until(now + SAMPLING_INTERVAL);
    }
    Ok(counts)
}

/// A counter of proc(5)'s netstat, whose lines are pairs of names and values; `None` if it is not
/// there.
fn counter(text: &str, name: &str) -> Option<u64> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| pair[0].split(' ').zip(pair[1].split(' ')));
    pairs.filter(|(found, _)| *found == name).find_map(|(_, value)| value.parse().ok())
}

/// Stalls the disk at each of its times, until the copy is over.
fn stall(throttle: &Throttle, stalls: &[u64], over: &AtomicBool) -> Result<(), ExperimentError> {
    let start = clock::now();
    let wait = |until: Time| {
        while !over.load(Ordering::Relaxed) && clock::now() < until {
            clock::sleep_until(until.min(clock::now() + SAMPLING_INTERVAL));
        }
    };
    for &at in stalls {
        let at = start + Span::from_millis(at);
        wait(at);
        if over.load(Ordering::Relaxed) {
            break;
        }
        throttle.stall()?;
        wait(at + STALL);
        throttle.set(None)?;
    }
    Ok(())
}

/// Result of a copy to one of the two disks: the slow one (`is_slow`), or the one that stalls.
struct DiskRun {
    name: &'static str,
    is_slow: bool,
    copied: Copied,
    counts: Counts,
}

impl DiskRun {
    /// Table of the figures of this copy, beside the requirements.
    fn table(&self, settings: &Settings) -> Table {
        let copied = &self.copied;
        let begun = copied.recording.begun;
        let heard = copied.paces.iter().find(|(_, pace)| pace.reason == "ring_fills").map(|&(at, _)| at);
        // With a stalling disk no rate settles: start-up is over after five seconds.
        let settled = if self.is_slow { self.settled(settings) } else { Some(begun + Span::from_secs(5)) };
        let since = |from: Option<Time>, to: Option<Time>| match (from, to) {
            (Some(from), Some(to)) => format!("{:.1}", (to - from).as_secs_f64()),
            _ => "never".to_owned(),
        };
        let announced = |from: Time| {
            let before = self.counts.iter().take_while(|(at, _)| *at <= from).last().map_or(0, |&(_, count)| count);
            self.counts.last().map_or(0, |&(_, count)| count) - before
        };
        let (least, greatest) = self.ring_between(settled.unwrap_or(Time::MAX), settings);
        let steady = SteadyCopy::of(&copied.recording, settings);
        let mark = |value: String| if copied.spoilt.is_some() { format!("{value} (invalid)") } else { value };
        let row = |name: &str, wanted: &str, value: String| vec![name.to_owned(), wanted.to_owned(), mark(value)];
        let mut rows = Vec::new();
        if self.is_slow {
            let taken = format!("{:.0}", self.taken(settings) / 1e6);
            rows.push(row("rate of the disk: second half of what came, Mbit/s", "about 400", taken));
            rows.push(row(
                "rate within a seventh of the disk's for good, s after the first packet",
                "",
                since(Some(begun), settled),
            ));
            rows.push(row(
                "the same, s after the sender heard that the ring fills",
                "at most 3",
                since(heard, settled),
            ));
        }
        rows.extend([
            row("goodput from 5 s on, Mbit/s", "", format!("{:.0}", steady.goodput / 1e6)),
            row("windows of zero announced in all", "", announced(Time::ORIGIN).to_string()),
            row(
                "of these once settled",
                "0",
                settled.map_or_else(|| "never settled".to_owned(), |at| announced(at).to_string()),
            ),
            row(
                "ring least full once settled, %",
                if self.is_slow { "at least 10" } else { "" },
                format!("{least:.0}"),
            ),
            row("ring fullest once settled, %", "at most 90", format!("{greatest:.0}")),
            row("longest silence of the sender from 5 s on, ms", "", self.silence(settings).to_string()),
            row("drops at the queue, start-up", "", steady.early_drops.to_string()),
            row("drops at the queue, steady", "0", steady.drops.to_string()),
            row("segments retransmitted", "", copied.summary.retransmitted_segments.to_string()),
        ]);
        Table {
            caption: format!("1 Gbit/s, 300 ms, the receiver's disk: {}", self.name),
            header: ["", "wanted", "ours"].map(str::to_owned).to_vec(),
            rows,
        }
    }

    /// Lowest and highest fill level of the ring from a time on, in per cent.
    fn ring_between(&self, from: Time, settings: &Settings) -> (f64, f64) {
        // It empties once no more data comes.
        let last = self.copied.recording.begun + Span::from_millis(self.last_frame(settings) as u64);
        let levels = || self.ring().into_iter().filter(|(at, _)| *at >= from && *at <= last).map(|(_, level)| level);
        (levels().fold(f64::NAN, f64::min), levels().fold(f64::NAN, f64::max))
    }

    /// Fill level of the ring over time, in per cent.
    fn ring(&self) -> Vec<(Time, f64)> {
        let level =
            |progress: &copying::CopyProgress| 100.0 * f64::from(progress.ring_used) / f64::from(progress.ring_blocks);
        let known = self.copied.progress.iter().filter(|(_, progress)| progress.ring_blocks > 0);
        known.map(|(at, progress)| (*at, level(progress))).collect()
    }

    /// Rate of the disk at the end, bits per second: the kernel's limit lets somewhat more pass
    /// than was set.
    fn taken(&self, settings: &Settings) -> f64 {
        let end = self.last_frame(settings);
        copying::payload(self.copied.recording.mean_rate_between(end / 2, end), settings)
    }

    /// Time from which the rate stays near the disk's: the end of the last window whose rate
    /// differed. `None` if that was within half a second of the last full frame.
    fn settled(&self, settings: &Settings) -> Option<Time> {
        let recording = &self.copied.recording;
        let end = self.last_frame(settings);
        let starts = (0..end.saturating_sub(WINDOW)).step_by(10);
        let taken = self.taken(settings);
        let far = |&from: &usize| {
            let mean = copying::payload(recording.mean_rate_between(from, from + WINDOW), settings);
            (mean / taken - 1.0).abs() > NEAR
        };
        let last = starts.rev().find(far).unwrap_or(0) + WINDOW;
        (last + WINDOW < end).then(|| recording.begun + Span::from_millis(last as u64))
    }

    /// Time of the last full frame, in milliseconds.
    fn last_frame(&self, settings: &Settings) -> usize {
        let frame = settings.forward.largest_frame();
        self.copied.recording.bins.iter().rposition(|bin| bin.delivered >= frame).map_or(0, |last| last + 1)
    }

    /// Longest pause of the sending host, in milliseconds, from 5 s to the last full frame.
    fn silence(&self, settings: &Settings) -> usize {
        let bins = &self.copied.recording.bins;
        let frame = settings.forward.largest_frame();
        let end = bins.iter().rposition(|bin| bin.offered >= frame).map_or(0, |last| last + 1);
        let steady = bins.get(5000..end).unwrap_or_default();
        steady.split(|bin| !bin.offered.is_zero()).map(<[_]>::len).max().unwrap_or(0)
    }

    /// Plots of throughput, queue, ring and announced zero windows over time.
    fn plots(&self, settings: &Settings) -> Vec<Plot> {
        let mut plots = self.copied.recording.plots(&settings.forward);
        plots.truncate(2);
        let begun = self.copied.recording.begun;
        let points: Vec<_> = self.ring().into_iter().map(|(at, level)| ((at - begun).as_secs_f64(), level)).collect();
        plots.push(Plot::new(
            "Ring, % full",
            Unit::Number,
            vec![Series::new("ring", Stroke::Strong, points).column("ring")],
        ));
        let counts = self.counts.iter().map(|&(at, count)| ((at - begun).as_secs_f64(), count as f64));
        let counts = Series::new("so far", Stroke::Strong, counts.collect::<Vec<_>>()).column("zero_windows");
        plots.push(Plot::new("Windows of zero announced", Unit::Number, vec![counts]));
        for plot in &mut plots {
            plot.title = format!("{}, disk: {}", plot.title, self.name);
        }
        plots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_below_their_names() {
        let text = "TcpExt: A B TCPToZeroWindowAdv\nTcpExt: 1 2 3\nIpExt: C\nIpExt: 4\n";
        assert_eq!(counter(text, "TCPToZeroWindowAdv"), Some(3));
        assert_eq!(counter(text, "C"), Some(4));
        assert_eq!(counter(text, "D"), None);
    }
}
