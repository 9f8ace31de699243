//! Keeps the samples of a run and makes the report of them.
//!
//! Memory is bounded: when there are [`MOST`] intervals, neighbours are merged, and from then on
//! twice as many samples go into one interval.

use icdc_report::{Baseline, Plot, Report, Series, Stroke, Unit, reduce};
use icdc_transfer::{Event, Outcome, Sample, Stage, Summary};
use icdc_units::{ByteCount, Rate};

use crate::clock::utc_now;
use crate::copy::summary::{counted, megabits, seconds};

/// Most intervals that are kept.
const MOST: usize = 16_384;
/// Most failures that are kept.
const MOST_FAILURES: usize = 10_000;
/// Size of a block of the ring.
const BLOCK: f64 = icdc_protocol::BLOCK_SIZE as f64;

/// How a run ended.
pub(crate) struct Ending {
    pub(crate) summary: Summary,
    /// Why it could not be completed.
    pub(crate) reason: Option<String>,
}

/// What the report needs of the events.
pub(crate) struct Recorder {
    intervals: Vec<Interval>,
    open: Option<Interval>,
    samples_per_interval: u32,
    ring_blocks: u32,
    facts: Vec<(String, String)>,
    reconnections: u64,
    failures: Vec<String>,
}

/// Samples in a row.
#[derive(Clone, Copy)]
struct Interval {
    samples: u32,
    start: f64,
    end: f64,
    bits: f64,
    retransmitted: u64,
    ring_used: u32,
    rtt_us: u64,
    cwnd: u64,
    pacing_bps: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            intervals: Vec::new(),
            open: None,
            samples_per_interval: 1,
            ring_blocks: 0,
            facts: vec![("Started".into(), utc_now())],
            reconnections: 0,
            failures: Vec::new(),
        }
    }
}

impl Recorder {
    pub(crate) fn add(&mut self, event: &Event) {
        match event {
            Event::Progress(sample) => self.sample(sample),
            Event::Connected { peer, stream: 0, cipher, congestion } => {
                for (name, value) in [("Peer", peer), ("Cipher", cipher), ("Congestion control", congestion)] {
                    let known = self.facts.iter().any(|(known, _)| known == name);
                    if !value.is_empty() && !known {
                        self.facts.push((name.into(), value.clone()));
                    }
                }
            }
            Event::Reconnecting { .. } => self.reconnections += 1,
            Event::Item { path, outcome: Outcome::Failed, reason, .. } if self.failures.len() < MOST_FAILURES => {
                self.failures.push(format!("{path}: {}", reason.as_deref().unwrap_or("failed")));
            }
            _ => {}
        }
    }

    fn sample(&mut self, sample: &Sample) {
        self.ring_blocks = self.ring_blocks.max(sample.ring_blocks);
        let start = self.open.or(self.intervals.last().copied()).map_or(0.0, |before| before.end);
        if sample.seconds <= start {
            return;
        }
        let next = Interval {
            samples: 1,
            start,
            end: sample.seconds,
            bits: sample.rate_bps as f64 * (sample.seconds - start),
            retransmitted: sample.retransmitted_segments,
            ring_used: sample.ring_used,
            rtt_us: sample.rtt_us,
            cwnd: sample.cwnd,
            pacing_bps: sample.pacing_bps,
        };
        let open = self.open.map_or(next, |open| open.joined(next));
        self.open = Some(open);
        if open.samples >= self.samples_per_interval {
            self.intervals.push(open);
            self.open = None;
        }
        if self.intervals.len() >= MOST {
            self.intervals = self.intervals.chunks(2).map(|pair| pair[0].joined(pair[pair.len() - 1])).collect();
            self.samples_per_interval *= 2;
        }
    }

    pub(crate) fn into_report(mut self, ending: &Ending) -> Report {
        self.intervals.extend(self.open.take());
        let plots = self.plots();
        let Ending { summary, reason } = ending;
        let failed = reason.is_some() || summary.errors > 0;
        let outcome = match reason {
            Some(reason) => reason.clone(),
            None if failed => format!("Done, but {} failed", counted(summary.errors, "item")),
            None if summary.verified => "Done; every file was read back from the medium and compared".into(),
            None => "Done; every byte was checked on arrival".into(),
        };
        let mut facts = vec![
            ("Goodput".to_owned(), megabits(summary.goodput_bps)),
            ("Data".into(), format!("{} in {}", ByteCount::new(summary.bytes), counted(summary.files, "file"))),
            ("Time".into(), seconds(summary.seconds)),
            ("Sent".into(), ByteCount::new(summary.bytes_sent).to_string()),
            ("Segments sent again".into(), summary.retransmitted_segments.to_string()),
        ];
        let optional = [
            ("Peak over 1 s", self.peak()),
            ("From an earlier run", some_bytes(summary.resumed_bytes)),
            ("Skipped", (summary.skipped > 0).then(|| counted(summary.skipped, "file"))),
            ("Reconnections", (self.reconnections > 0).then(|| self.reconnections.to_string())),
        ];
        facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        facts.append(&mut self.facts);
        let digests = [("BLAKE3", &summary.digest), ("Digest of data blocks", &summary.sparse_digest), ("Tree digest", &summary.tree_digest)];
        facts.extend(digests.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))));
        Report {
            title: "icdc copy".into(),
            command: command_line(std::env::args_os()),
            outcome,
            failed,
            summary: facts,
            stages: stages(summary),
            plots,
            failures: self.failures,
        }
    }

    fn plots(&self) -> Vec<Plot> {
        let seen = |value: fn(&Interval) -> u64| self.intervals.iter().any(|interval| value(interval) > 0);
        let fine = self.points(|interval| interval.bits / (interval.end - interval.start));
        let span = self.intervals.iter().map(|interval| interval.end - interval.start).fold(0.0, f64::max);
        let mut rate = vec![
            series(&format!("finest, up to {:.0} ms", span * 1e3), Stroke::Faint, fine.clone()),
            series("1 s mean", Stroke::Strong, reduce::window_means(&fine, 1.0)),
        ];
        // An unlimited socket says so by the greatest number there is.
        let limited = |interval: &Interval| interval.pacing_bps > 0 && interval.pacing_bps < Rate::MAX.as_bits_per_second() / 16;
        let greatest = fine.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let pacing: Vec<_> = self
            .intervals
            .iter()
            .filter(|interval| limited(interval))
            .map(|interval| (interval.end, interval.pacing_bps as f64))
            .collect();
        // Pacing far above what flows would flatten everything else.
        if pacing.iter().any(|(_, rate)| *rate < greatest * 3.0) {
            let pacing = pacing.into_iter().map(|(at, rate)| (at, rate.min(greatest * 3.0))).collect();
            rate.push(series("pacing rate", Stroke::Limit, pacing));
        }
        let mut plots = vec![plot("Rate", Unit::BitsPerSecond, Baseline::Zero, rate)];
        if self.ring_blocks > 0 {
            let size = f64::from(self.ring_blocks) * BLOCK;
            let end = self.intervals.last().map_or(0.0, |interval| interval.end);
            let ring = vec![
                series("in use", Stroke::Area, self.points(|interval| f64::from(interval.ring_used) * BLOCK)),
                series("size", Stroke::Limit, vec![(0.0, size), (end, size)]),
            ];
            plots.push(plot("Ring between network and disk at the receiver", Unit::Bytes, Baseline::Zero, ring));
        }
        if seen(|interval| interval.rtt_us) {
            let rtt = series("smoothed", Stroke::Strong, self.points(|interval| interval.rtt_us as f64 / 1e6));
            plots.push(plot("Round-trip time", Unit::Seconds, Baseline::Data, vec![rtt]));
        }
        if seen(|interval| interval.cwnd) {
            let cwnd = series("sender", Stroke::Strong, self.points(|interval| interval.cwnd as f64));
            plots.push(plot("Congestion window", Unit::Segments, Baseline::Zero, vec![cwnd]));
            let again = series("1 s mean", Stroke::Area, reduce::window_means(&self.retransmissions(), 1.0));
            plots.push(plot("Segments sent again", Unit::SegmentsPerSecond, Baseline::Zero, vec![again]));
        }
        plots
    }

    fn points(&self, value: impl Fn(&Interval) -> f64) -> Vec<(f64, f64)> {
        self.intervals.iter().map(|interval| (interval.end, value(interval))).collect()
    }

    /// Segments per second in each interval. The count starts anew with each connection.
    fn retransmissions(&self) -> Vec<(f64, f64)> {
        let mut before = 0;
        self.points(|_| 0.0)
            .into_iter()
            .zip(&self.intervals)
            .map(|((at, _), interval)| {
                let fresh = interval.retransmitted.checked_sub(before).unwrap_or(interval.retransmitted);
                before = interval.retransmitted;
                (at, fresh as f64 / (interval.end - interval.start))
            })
            .collect()
    }

    /// The best whole second; `None` for runs shorter than that.
    fn peak(&self) -> Option<String> {
        let fine = self.points(|interval| interval.bits / (interval.end - interval.start));
        let (end, _) = *fine.last()?;
        let means = reduce::window_means(&fine, 1.0);
        let best = means.iter().filter(|_| end >= 1.0).map(|(_, rate)| *rate).max_by(f64::total_cmp)?;
        Some(megabits(best as u64))
    }
}

impl Interval {
    fn joined(self, later: Self) -> Self {
        let same = self.end == later.end;
        if same {
            return self;
        }
        Self { samples: self.samples + later.samples, start: self.start, bits: self.bits + later.bits, ..later }
    }
}

fn series(name: &str, stroke: Stroke, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), stroke, points }
}

fn plot(title: &str, unit: Unit, baseline: Baseline, series: Vec<Series>) -> Plot {
    Plot { title: title.into(), unit, baseline, series }
}

fn some_bytes(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| ByteCount::new(bytes).to_string())
}

/// Shares in the order of the data's way; names that this release does not know come last.
fn stages(summary: &Summary) -> Vec<(String, f64)> {
    let mut shares: Vec<_> = summary.limited_by.iter().map(|(name, share)| (name.as_str(), *share)).collect();
    let place = |name: &str| Stage::ALL.iter().position(|stage| stage.name() == name).unwrap_or(Stage::ALL.len());
    shares.sort_by_key(|(name, _)| place(name));
    shares.into_iter().map(|(name, share)| (name.replace('_', " "), share)).collect()
}

/// The words of a command, quoted as a shell would want them.
fn command_line(words: impl Iterator<Item = std::ffi::OsString>) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./:@=,+%[]~".contains(letter);
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .map(|word| {
            let quoted = word.is_empty() || !word.chars().all(plain);
            if quoted { format!("'{}'", word.replace('\'', "'\\''")) } else { word }
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(samples: u32) -> Recorder {
        let mut recorder = Recorder::default();
        for number in 1..=samples {
            let rate_bps = if number % 2 == 0 { 2_000_000 } else { 0 };
            let sample = Sample { seconds: f64::from(number) * 0.1, rate_bps, rtt_us: 300_000, cwnd: 10, ring_blocks: 64, ..Sample::default() };
            recorder.add(&Event::Progress(sample));
        }
        recorder
    }

    fn ending() -> Ending {
        Ending { summary: Summary::default(), reason: None }
    }

    #[test]
    fn long_runs_stay_small_and_keep_their_volume() {
        let samples = 100_000;
        let recorder = record(samples);
        assert!(recorder.intervals.len() <= MOST);
        let bits: f64 = recorder.intervals.iter().chain(&recorder.open).map(|interval| interval.bits).sum();
        assert!((bits - f64::from(samples / 2) * 200_000.0).abs() < 1.0, "{bits}");
        let contiguous = recorder.intervals.windows(2).all(|pair| pair[0].end == pair[1].start);
        assert!(contiguous && recorder.intervals[0].start == 0.0);
    }

    #[test]
    fn the_report_shows_what_there_is() {
        let titles = |recorder: Recorder| -> Vec<String> {
            recorder.into_report(&ending()).plots.into_iter().map(|plot| plot.title).collect()
        };
        assert_eq!(titles(Recorder::default()), ["Rate"]);
        assert_eq!(titles(record(30)).len(), 5);
        let report = record(30).into_report(&ending());
        let means = &report.plots[0].series[1];
        assert_eq!(means.name, "1 s mean");
        assert_eq!(means.points.len(), 3);
        assert!((means.points[0].1 - 1e6).abs() < 1.0);
    }

    #[test]
    fn a_count_that_starts_anew_is_not_negative() {
        let mut recorder = Recorder::default();
        for (seconds, retransmitted_segments) in [(1.0, 10), (2.0, 30), (3.0, 5)] {
            recorder.add(&Event::Progress(Sample { seconds, retransmitted_segments, ..Sample::default() }));
        }
        assert_eq!(recorder.retransmissions(), [(1.0, 10.0), (2.0, 20.0), (3.0, 5.0)]);
    }

    #[test]
    fn failures_make_the_outcome() {
        let summary = Summary { errors: 1, ..Summary::default() };
        let report = Recorder::default().into_report(&Ending { summary: summary.clone(), reason: None });
        assert!(report.failed && report.outcome.contains("1 item failed"));
        let report = Recorder::default().into_report(&Ending { summary, reason: Some("cut".into()) });
        assert!(report.failed && report.outcome == "cut");
    }

    #[test]
    fn the_command_can_be_pasted() {
        let words = ["icdc", "--ssh", "ssh -p 22", "it's", ""].map(Into::into);
        assert_eq!(command_line(words.into_iter()), r"icdc --ssh 'ssh -p 22' 'it'\''s' ''");
    }
}
