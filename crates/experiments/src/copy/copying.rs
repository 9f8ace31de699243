//! One `icdc copy` from host a to host b, disk to disk, in a lab of its own. It waits for a calm
//! machine, and is repeated if the machine disturbed it.
//!
//! *Steady* is what the path delivered from five seconds or ten round trips after the first
//! packet, whichever is later, to the last full frame. Of each full frame on the wire (MTU + 38
//! bytes) TCP's payload is MTU − 52, at 1 Gbit/s and MTU 1500 941 Mbit/s; icdc's own headers and
//! TLS take a thousandth of it.
//!
//! Without privileges, both ends run without `CAP_NET_ADMIN`, `CAP_BPF` and `CAP_PERFMON`
//! (`control.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use icdc_lab::recording::Recording;
use icdc_lab::{Gauge, Heading, Lab, Settings, spoilt};
use icdc_packet::clock;
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span, Time};
use serde::Deserialize;

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::{FAR, on_host};
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::bounded;
use crate::harness::processes::scratch::{Scratch, contents};
use crate::harness::repetition::attempts::{self, Figures};
use crate::harness::repetition::resolution::Resolution;

/// Name of the directory in the scratch into which files are copied.
pub(crate) const DESTINATION: &str = "b";
/// Time after which start-up is over, unless ten round trips take longer.
const SETTLING: Span = Span::from_secs(5);
/// Number of round trips after which start-up is over, where that is later than [`SETTLING`].
const SETTLING_ROUND_TRIPS: u64 = 10;

/// An `icdc copy` from host a to host b, as a scenario requests it.
pub(crate) struct Copying<'a> {
    /// Settings of the lab.
    pub(crate) settings: Settings,
    /// Directory in which [`DESTINATION`] is made and removed again.
    pub(crate) scratch: &'a Scratch,
    /// The file or directory to copy.
    pub(crate) source: &'a Path,
    /// Privileges of the programs at both ends.
    pub(crate) rights: Rights,
    /// Options of the command line, before SRC.
    pub(crate) options: Vec<String>,
    /// The icdc that host b runs, if not the one that is measured.
    pub(crate) receiver: Option<PathBuf>,
    /// Time limit of the copy.
    pub(crate) limit: Span,
}

/// Result of an `icdc copy` through a lab, from its output and the lab's counters.
pub(crate) struct Copied {
    /// Time from the start of the command to its exit.
    pub(crate) took: Span,
    /// The summary in the command's output.
    pub(crate) summary: CopySummary,
    /// The command's progress reports, several a second, with the time of each.
    pub(crate) progress: Vec<(Time, CopyProgress)>,
    /// The sender's rate decisions, with the time of each report.
    pub(crate) paces: Vec<(Time, PaceChange)>,
    /// The wire's recording from sender to receiver.
    pub(crate) recording: Recording,
    /// The emulator's lateness, 99.9 % quantile over packets.
    pub(crate) lateness: Span,
    /// Reason why the result is invalid, if it is.
    pub(crate) spoilt: Option<String>,
}

/// The last line of `icdc copy --json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CopySummary {
    pub(crate) bytes: u64,
    pub(crate) congestion: String,
    pub(crate) retransmitted_segments: u64,
    pub(crate) limited_by: BTreeMap<String, f64>,
}

impl Figures for Copied {
    fn figures(&self) -> String {
        let goodput = ByteCount::new(self.summary.bytes) / self.took;
        format!("{} in all, {goodput}, {} segments retransmitted", self.took, self.summary.retransmitted_segments)
    }
}

impl CopySummary {
    /// Stages that limited for at least a tenth of the time.
    pub(crate) fn limits(&self) -> String {
        let mut shares: Vec<_> = self.limited_by.iter().filter(|(_, share)| **share >= 0.1).collect();
        shares.sort_by(|one, other| other.1.total_cmp(one.1));
        let words = shares.iter().map(|(stage, share)| format!("{} {:.0} %", stage.replace('_', " "), *share * 100.0));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// A line of type `progress` in icdc's JSON output: blocks of the receiver's ring in use and in
/// all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CopyProgress {
    pub(crate) ring_used: u32,
    pub(crate) ring_blocks: u32,
}

/// A line of type `pace` in icdc's JSON output: the reason for a change of the sending rate.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PaceChange {
    pub(crate) reason: String,
}

/// A line of type `item` in icdc's JSON output: the path of a file or directory, and its outcome.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CopyItem {
    pub(crate) path: String,
    pub(crate) outcome: String,
}

/// A line of `icdc copy --json`, by its type.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CopyLine {
    Progress(CopyProgress),
    Pace(PaceChange),
    Item(CopyItem),
    Summary(CopySummary),
    #[serde(other)]
    Other,
}

/// JSON output of an `icdc copy`, parsed.
pub(crate) struct CopyOutput {
    took: Span,
    summary: CopySummary,
    progress: Vec<(Time, CopyProgress)>,
    paces: Vec<(Time, PaceChange)>,
}

/// Copies; returns the first attempt that the machine did not disturb, or the last one, marked as
/// invalid.
pub(crate) fn run(bench: &Bench<'_>, copying: &Copying<'_>) -> Result<Copied, ExperimentError> {
    Ok(run_beside(bench, copying, |lab| Ok((copy(bench, lab, copying, |_| {})?, ())))?.0)
}

/// Copies like [`run`], while something else is done: `attempt` calls [`copy`].
pub(crate) fn run_beside<T>(
    bench: &Bench<'_>,
    copying: &Copying<'_>,
    attempt: impl Fn(&Lab) -> Result<(CopyOutput, T), ExperimentError>,
) -> Result<(Copied, T), ExperimentError> {
    let tolerance = Resolution::Means.tolerance(copying.settings.round_trip());
    let once = || {
        let lab = TemporaryLab::new(bench, &copying.settings)?;
        let result = attempt(&lab);
        copying.scratch.remove(DESTINATION);
        let (said, beside) = result?;
        Ok((conclude(&lab, said, tolerance)?, beside))
    };
    let settle = || copying.scratch.settle(copying.source);
    attempts::unspoilt_after(bench, tolerance, settle, once, |(copied, _)| copied.spoilt.as_deref())
}

/// Runs the copy once, in an existing lab. `item` is called with each item that the program
/// reports.
pub(crate) fn copy(
    bench: &Bench<'_>,
    lab: &Lab,
    copying: &Copying<'_>,
    mut item: impl FnMut(&CopyItem),
) -> Result<CopyOutput, ExperimentError> {
    let destination = copying.scratch.empty(DESTINATION)?;
    // Nothing is known of the path.
    let state = copying.scratch.empty("state")?;
    let program = bench.program.display().to_string();
    let shell = format!("'{program}' lab exec --name {} --shell", lab.record.name);
    let receiver = copying.receiver.as_deref().unwrap_or(bench.program).display().to_string();
    let mut command = on_host(bench, lab, "a", copying.rights);
    command.args([&program, "copy", "--json", "--ssh", &shell, "--remote-icdc", &receiver]).args(&copying.options);
    command.arg(copying.source).arg(format!("{FAR}:{}/", destination.display())).env("XDG_STATE_HOME", state);
    let (mut summary, mut progress, mut paces) = (None, Vec::new(), Vec::new());
    let ended = bounded::run(&mut command, copying.limit, |line| match serde_json::from_str(line) {
        Ok(CopyLine::Summary(found)) => summary = Some(found),
        Ok(CopyLine::Progress(found)) => progress.push((clock::now(), found)),
        Ok(CopyLine::Pace(found)) => paces.push((clock::now(), found)),
        Ok(CopyLine::Item(found)) => item(&found),
        Ok(CopyLine::Other) | Err(_) => {}
    })?;
    let failed = |output: String| ExperimentError::program("icdc copy", output);
    let summary: CopySummary = match summary {
        Some(summary) if ended.well => summary,
        _ if ended.overran => return Err(failed(format!("it did not end within {}", copying.limit))),
        _ => return Err(failed(ended.errors)),
    };
    // Each name of a hard link carries the same bytes as the source has.
    let (_, sent) = contents(copying.source);
    if summary.bytes != sent.as_u64() {
        return Err(failed(format!("it says that it copied {} of {sent}", ByteCount::new(summary.bytes))));
    }
    Ok(CopyOutput { took: ended.took, summary, progress, paces })
}

/// Adds the lab's counters to a copy's output; invalid if packets were later than `tolerance`.
fn conclude(lab: &Lab, said: CopyOutput, tolerance: Span) -> Result<Copied, ExperimentError> {
    let page = lab.page()?;
    let CopyOutput { took, summary, progress, paces } = said;
    Ok(Copied {
        took,
        summary,
        progress,
        paces,
        recording: Recording::of(&page, Heading::Forward, Span::MAX),
        lateness: Span::from_nanos(page.gauge(Heading::Forward, Gauge::Lateness999)),
        spoilt: spoilt(&page, &lab.record.settings, tolerance),
    })
}

/// Rate and losses of a copy after start-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SteadyCopy {
    /// TCP payload that arrived, bits per second.
    pub(crate) goodput: f64,
    /// Standard deviation of the windows of a millisecond, as a share of their mean.
    pub(crate) variation: f64,
    /// Frames that the full queue dropped during start-up.
    pub(crate) early_drops: u64,
    /// Number of frames that the queue dropped after start-up.
    pub(crate) drops: u64,
    /// `drops` as a share of the frames that arrived after start-up.
    pub(crate) drop_ratio: f64,
}

impl SteadyCopy {
    /// Figures of a copy after start-up, from the wire's recording.
    pub(crate) fn of(recording: &Recording, settings: &Settings) -> Self {
        let settling = SETTLING.max(settings.round_trip() * SETTLING_ROUND_TRIPS);
        let from = (settling.as_millis() as usize).min(recording.bins.len());
        let frame = settings.forward.largest_frame();
        let to = recording.bins.iter().rposition(|bin| bin.delivered >= frame).map_or(from, |last| last + 1).max(from);
        let drops = |bins: &[icdc_lab::Bin]| bins.iter().map(|bin| u64::from(bin.queue_drops)).sum::<u64>();
        let late_drops = drops(&recording.bins[from..]);
        let arrived = recording.bins[from..to].iter().map(|bin| bin.delivered).sum::<ByteCount>();
        Self {
            goodput: payload(recording.mean_rate_between(from, to), settings),
            variation: recording.variation(from, to),
            early_drops: drops(&recording.bins[..from]),
            drops: late_drops,
            drop_ratio: late_drops as f64 / arrived.ratio(frame).max(1.0),
        }
    }
}

/// Rate of TCP payload, bits per second, in a rate on the wire.
pub(crate) fn payload(rate: Rate, settings: &Settings) -> f64 {
    let at_rate = icdc_path::Settings { rate, ..settings.forward.clone() };
    payload_rate(&at_rate).as_bits_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::hosts::paths::path;
    use icdc_lab::Bin;

    #[test]
    fn steady_begins_after_start_up_and_ends_with_the_last_full_frame() {
        let settings = Settings::symmetric(path(
            Rate::from_bits_per_second(1_000_000_000),
            Span::from_millis(600),
            ByteCount::from_mib(1),
        ));
        let bin = |delivered, queue_drops| Bin { delivered: ByteCount::new(delivered), queue_drops, ..Bin::default() };
        let mut bins = vec![bin(1_000_000, 2); 6000];
        bins.extend([bin(125_000, 0); 999]);
        bins.push(bin(125_000, 3));
        bins.extend([bin(70, 0); 500]);
        let steady = SteadyCopy::of(&Recording { bins, ..Recording::default() }, &settings);
        assert_eq!((steady.early_drops, steady.drops), (12_000, 3));
        assert!((steady.goodput / 1e6 - 941.48).abs() < 0.01 && steady.variation < 1e-9, "{steady:?}");
        assert!((steady.drop_ratio - 3.0 / (125e6 / 1538.0)).abs() < 1e-9);
        let empty = SteadyCopy::of(&Recording::default(), &settings);
        assert_eq!((empty.goodput, empty.drops), (0.0, 0));
    }
}
