//! Makes the report of what was recorded.

use icdc_report::{Baseline, Judgement, Plot, Report, Series, Stroke, Unit, reduce};
use icdc_transfer::{Stage, Summary};

use crate::command_line::command_line;
use crate::copy::recorder::{Interval, Recording};
use crate::copy::summary::{contents, counted, megabits, seconds, size};
use crate::version;

/// Size of a block of the receiver's ring, in bytes.
const BLOCK: f64 = icdc_protocol::BLOCK_SIZE as f64;

/// Greatest pacing rate that the plot shows, as a multiple of the greatest rate of the payload.
const PACING_SHOWN: f64 = 1.25;

/// End of a copy: its totals, and the reason if it was not completed; for summary, report and
/// hooks.
pub(crate) struct Ending {
    pub(crate) summary: Summary,
    /// Reason why the run could not be completed, or was skipped; `None` for a complete one.
    pub(crate) reason: Option<String>,
}

impl Ending {
    /// A sentence on the run's end.
    fn outcome(&self) -> String {
        let Self { summary, reason } = self;
        let failed = summary.errors > 0;
        match reason {
            Some(reason) if failed => reason.clone(),
            Some(reason) => format!("Nothing was copied: {reason}"),
            None if failed => format!("Done, but {} failed", counted(summary.errors, "item")),
            None if summary.read_back => "Done; every file was read back from the medium and compared".into(),
            None if summary.taken_over_files > 0 => format!(
                "Done; every byte that travelled was checked on arrival; {} of an earlier run not read",
                counted(summary.taken_over_files, "file")
            ),
            None => "Done; every byte was checked on arrival".into(),
        }
    }
}

/// Digests of the run, by name, as far as they are known.
fn digests(summary: &Summary) -> impl Iterator<Item = (String, String)> {
    let digests = [
        ("BLAKE3", &summary.digest),
        ("Digest of data blocks", &summary.sparse_digest),
        ("Tree digest", &summary.tree_digest),
    ];
    digests.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
}

impl Recording {
    /// Makes the report's page about a copy to a destination.
    pub(crate) fn into_report(mut self, ending: &Ending, destination: &str) -> Report {
        let plots = self.plots();
        let Ending { summary, reason } = ending;
        let mut facts = self.facts(summary);
        facts.push(("Destination".into(), destination.to_owned()));
        facts.append(&mut self.facts);
        facts.extend(version::made_by());
        facts.extend(digests(summary));
        Report {
            title: "icdc copy".into(),
            command: command_line(std::env::args_os()),
            outcome: ending.outcome(),
            judgement: match reason {
                _ if summary.errors > 0 => Judgement::Failed,
                Some(_) => Judgement::Limited,
                None => Judgement::Good,
            },
            summary: facts,
            stages: stages(summary.limited_by.iter().map(|(name, share)| (name.as_str(), *share))),
            plots,
            origin: self.begun,
            failures: self.failures,
            ..Report::default()
        }
    }

    /// Facts about the copy for the report, as (name, value).
    fn facts(&self, summary: &Summary) -> Vec<(String, String)> {
        let mut facts = vec![
            ("Goodput".to_owned(), megabits(summary.goodput_bps)),
            ("Data".into(), format!("{} in {}", size(summary.bytes), contents(summary))),
            ("Time".into(), seconds(summary.seconds)),
            ("Sent".into(), size(summary.bytes_sent)),
            ("Segments retransmitted".into(), summary.retransmitted_segments.to_string()),
        ];
        let optional = [
            ("Peak over 1 s", self.peak()),
            ("The far end's limit", some_rate(summary.max_rate_bps)),
            ("Kept from before an interruption", some_bytes(summary.resumed_bytes)),
            ("Found in files at the destination", some_bytes(summary.unchanged_bytes)),
            ("Taken over unread", some_bytes(summary.taken_over_bytes)),
            ("Skipped", (summary.skipped > 0).then(|| counted(summary.skipped, "file"))),
            ("Linked there", (summary.linked > 0).then(|| counted(summary.linked, "file"))),
            ("Renamed there", (summary.renamed > 0).then(|| counted(summary.renamed, "file"))),
            ("Not replaced, newer there", (summary.kept_newer > 0).then(|| counted(summary.kept_newer, "file"))),
            ("Not replaced, exists there", some_items(summary.kept_existing)),
            ("Not made, not there", some_items(summary.not_made)),
            ("Deleted at the destination", (summary.deleted > 0).then(|| counted(summary.deleted, "item"))),
            ("Removed at the source", (summary.removed > 0).then(|| counted(summary.removed, "item"))),
            ("Reconnections", (self.reconnections > 0).then(|| self.reconnections.to_string())),
        ];
        facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        facts
    }

    /// Plots of what was recorded: rate, ring, round-trip time, congestion window, retransmissions.
    fn plots(&self) -> Vec<Plot> {
        let seen = |value: fn(&Interval) -> u64| self.intervals.iter().any(|interval| value(interval) > 0);
        let fine = self.points(|interval| interval.bits / (interval.end - interval.start));
        let span = self.intervals.iter().map(|interval| interval.end - interval.start).fold(0.0, f64::max);
        let mut rate = vec![
            Series::new(&format!("finest, up to {:.0} ms", span * 1e3), Stroke::Faint, fine.clone()),
            Series::new("1 s mean", Stroke::Strong, reduce::window_means(&fine, 1.0)),
        ];
        let greatest = fine.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let pacing: Vec<_> = self
            .intervals
            .iter()
            .filter(|interval| interval.pacing_bps > 0)
            .map(|interval| (interval.end, interval.pacing_bps as f64))
            .collect();
        // Pacing far above what flows would flatten the payload, which is what the plot is of.
        let top = greatest * PACING_SHOWN;
        if pacing.iter().any(|(_, rate)| *rate < top) {
            let is_cut = pacing.iter().any(|(_, rate)| *rate > top);
            let pacing: Vec<_> = pacing.into_iter().map(|(at, rate)| (at, rate.min(top))).collect();
            let name = if is_cut { "pacing rate, cut off at the top" } else { "pacing rate" };
            rate.push(Series::new(name, Stroke::Limit, pacing));
        }
        let mut plots = vec![Plot::new("Rate of the payload", Unit::BitsPerSecond, rate)];
        if self.ring_blocks > 0 {
            let size = f64::from(self.ring_blocks) * BLOCK;
            let end = self.intervals.last().map_or(0.0, |interval| interval.end);
            let ring = vec![
                Series::new("in use", Stroke::Area, self.points(|interval| f64::from(interval.ring_used) * BLOCK)),
                Series::new("size", Stroke::Limit, vec![(0.0, size), (end, size)]),
            ];
            plots.push(Plot::new("Ring between network and disk at the receiver", Unit::Bytes, ring));
        }
        if seen(|interval| interval.rtt_us) {
            let rtt = Series::new("smoothed", Stroke::Strong, self.points(|interval| interval.rtt_us as f64 / 1e6));
            plots.push(Plot::new("Round-trip time", Unit::Seconds, vec![rtt]).from_baseline(Baseline::Data));
        }
        if seen(|interval| interval.cwnd) {
            let cwnd = Series::new("sender", Stroke::Strong, self.points(|interval| interval.cwnd as f64));
            plots.push(Plot::new("Congestion window", Unit::Segments, vec![cwnd]));
            let again = Series::new("1 s mean", Stroke::Area, reduce::window_means(&self.retransmissions(), 1.0));
            plots.push(Plot::new("Segments retransmitted", Unit::SegmentsPerSecond, vec![again]));
        }
        plots
    }

    /// Points of a plot: the end of each interval in seconds of the run, and a value of the
    /// interval.
    fn points(&self, value: impl Fn(&Interval) -> f64) -> Vec<(f64, f64)> {
        self.intervals.iter().map(|interval| (interval.end, value(interval))).collect()
    }

    /// Points of a plot: retransmitted segments per second in each interval. The count starts anew
    /// with each connection.
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

    /// Greatest mean rate over a whole second, as text; `None` for runs shorter than that.
    fn peak(&self) -> Option<String> {
        let fine = self.points(|interval| interval.bits / (interval.end - interval.start));
        let means = reduce::window_means(&fine, 1.0);
        let whole = means.iter().filter(|(at, _)| at.fract() == 0.0);
        let best = whole.map(|(_, rate)| *rate).max_by(f64::total_cmp)?;
        Some(megabits(best as u64))
    }
}

/// Number of items as text; `None` for 0.
fn some_items(items: u64) -> Option<String> {
    (items > 0).then(|| counted(items, "item"))
}

/// Number of bytes as text; `None` for 0.
fn some_bytes(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| size(bytes))
}

/// Rate as text; `None` for 0.
fn some_rate(bits_per_second: u64) -> Option<String> {
    (bits_per_second > 0).then(|| megabits(bits_per_second))
}

/// Shares of the time (0 to 1) for which each stage limited a copy, in the order in which data
/// passes the stages; names that this release does not know come last.
pub(crate) fn stages<'a>(shares: impl Iterator<Item = (&'a str, f64)>) -> Vec<(String, f64)> {
    let mut all: Vec<_> = Stage::ALL.iter().map(|stage| (stage.name().to_owned(), 0.0)).collect();
    for (name, share) in shares {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some(stage) => stage.1 = share,
            None => all.push((name.to_owned(), share)),
        }
    }
    all.into_iter().map(|(name, share)| (name.replace('_', " "), share)).collect()
}

#[cfg(test)]
mod tests {
    use icdc_report::Values;
    use icdc_transfer::{Event, Sample};

    use super::*;
    use crate::copy::recorder::Recorder;
    use crate::copy::recorder::tests::record;

    fn ending() -> Ending {
        Ending { summary: Summary::default(), reason: None }
    }

    #[test]
    fn the_report_shows_what_there_is() {
        let titles = |recorder: Recorder| -> Vec<String> {
            recorder.finish().into_report(&ending(), "there").plots.into_iter().map(|plot| plot.title).collect()
        };
        assert_eq!(titles(Recorder::default()), ["Rate of the payload"]);
        assert_eq!(titles(record(30)).len(), 5);
        let report = record(30).finish().into_report(&ending(), "there");
        let means = &report.plots[0].series[1];
        assert_eq!(means.name, "1 s mean");
        let Values::Points(points) = &means.values else {
            panic!("{means:?}");
        };
        assert_eq!(points.len(), 3);
        assert!((points[0].1 - 1e6).abs() < 1.0);
    }

    #[test]
    fn pacing_does_not_squash_the_payload() {
        let mut recorder = Recorder::default();
        for (seconds, pacing_bps) in [(1.0, 1_100_000), (2.0, 90_000_000), (3.0, 1_100_000)] {
            recorder.add(&Event::Progress(Sample { seconds, rate_bps: 1_000_000, pacing_bps, ..Sample::default() }));
        }
        let report = recorder.finish().into_report(&ending(), "there");
        let pacing = report.plots[0].series.iter().find(|series| series.name.starts_with("pacing")).unwrap();
        let Values::Points(points) = &pacing.values else { panic!("{pacing:?}") };
        assert!(points.iter().all(|(_, rate)| *rate <= 1.3e6) && pacing.name.contains("cut off"), "{pacing:?}");
    }

    #[test]
    fn a_report_names_destination_host_and_version() {
        let report = Recorder::default().finish().into_report(&ending(), "there");
        let value = |name: &str| report.summary.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        assert_eq!(value("Destination").as_deref(), Some("there"));
        assert!(!value("Report made on").unwrap().is_empty());
        assert!(value("icdc").unwrap().starts_with(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn a_count_that_starts_anew_is_not_negative() {
        let mut recorder = Recorder::default();
        for (seconds, retransmitted_segments) in [(1.0, 10), (2.0, 30), (3.0, 5)] {
            recorder.add(&Event::Progress(Sample { seconds, retransmitted_segments, ..Sample::default() }));
        }
        assert_eq!(recorder.finish().retransmissions(), [(1.0, 10.0), (2.0, 20.0), (3.0, 5.0)]);
    }

    #[test]
    fn failures_make_the_outcome() {
        let summary = Summary { errors: 1, ..Summary::default() };
        let report =
            Recorder::default().finish().into_report(&Ending { summary: summary.clone(), reason: None }, "there");
        assert!(report.judgement == Judgement::Failed && report.outcome.contains("1 item failed"));
        let report = Recorder::default().finish().into_report(&Ending { summary, reason: Some("cut".into()) }, "there");
        assert!(report.judgement == Judgement::Failed && report.outcome == "cut");
        let skipped = Ending { summary: Summary::default(), reason: Some("another icdc writes it".into()) };
        let report = Recorder::default().finish().into_report(&skipped, "there");
        assert!(
            report.judgement == Judgement::Limited && report.outcome == "Nothing was copied: another icdc writes it"
        );
    }
}
