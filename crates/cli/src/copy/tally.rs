//! Totals of the events of a run, while it runs and when it ends without a summary.

use icdc_metrics::RunResult;
use icdc_transfer::{Event, Noticed, Outcome, Sample, Stage, Summary};
use icdc_units::{ByteCount, Rate, Span};

use crate::copy::page::Ending;
use crate::exit;

/// Totals of a copy from its events so far, for progress, metrics, and the summary of one that ends
/// without its own.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) links: u64,
    pub(crate) skipped: u64,
    pub(crate) kept_newer: u64,
    /// Files that were made from a reference directory at the destination.
    pub(crate) linked: u64,
    /// Files that were made from files of the destination which had other names.
    pub(crate) renamed: u64,
    pub(crate) kept_existing: u64,
    pub(crate) not_made: u64,
    /// Items that were deleted at the destination, or would be by a run without `--dry-run`.
    pub(crate) deleted: u64,
    /// Items that were removed at the source, or would be by a run without `--dry-run`.
    pub(crate) removed: u64,
    pub(crate) failed: u64,
    /// Notices of items that have not failed, by kind.
    pub(crate) notices: Vec<Noticed>,
    pub(crate) resumed: u64,
    /// Items and bytes that a run without `--dry-run` would send.
    pub(crate) would_send: (u64, u64),
    /// Files and bytes that the scan of the sources has found.
    pub(crate) scanned: (u64, u64),
    pub(crate) reconnections: u64,
    /// Seconds by the stage that limited the run.
    pub(crate) limited: [f64; Stage::ALL.len()],
    pub(crate) last: Sample,
    /// Seconds between the close of the last item that became durable and that, where sources are followed.
    pub(crate) lag: Option<f64>,
    pub(crate) ended: Option<Ended>,
}

/// Result and summary of a copy that has ended.
pub(crate) struct Ended {
    pub(crate) result: RunResult,
    pub(crate) summary: Summary,
}

/// Result of a copy in a word, by its exit code and ending.
fn result_of(ending: &Ending, code: u8) -> RunResult {
    match (code, &ending.reason) {
        (exit::USAGE, _) => RunResult::Unusable,
        (exit::NOT_LET_IN, _) => RunResult::Unreachable,
        (exit::INTERRUPTED, _) => RunResult::Interrupted,
        (0, Some(_)) => RunResult::Skipped,
        (_, Some(_)) => RunResult::Failed,
        (0, None) => RunResult::Complete,
        (_, None) => RunResult::Incomplete,
    }
}

impl Tally {
    /// Counts an event.
    pub(crate) fn add(&mut self, event: &Event) {
        match event {
            Event::Item { outcome: Outcome::Failed, .. } => self.failed += 1,
            Event::Deleted { .. } => self.deleted += 1,
            Event::Removed { .. } => self.removed += 1,
            Event::DeletionRefused { .. } | Event::SnapshotFailed { .. } => self.failed += 1,
            Event::Item { outcome: Outcome::Skipped, .. } => self.skipped += 1,
            Event::Item { outcome: Outcome::KeptNewer, .. } => self.kept_newer += 1,
            Event::Item { outcome: Outcome::Linked, .. } => self.linked += 1,
            Event::Item { outcome: Outcome::Renamed, .. } => self.renamed += 1,
            Event::Item { outcome: Outcome::KeptExisting, .. } => self.kept_existing += 1,
            Event::Item { outcome: Outcome::NotMade, .. } => self.not_made += 1,
            // Links have neither digest nor size.
            Event::Item { bytes, digest, .. } => {
                let is_file = digest.is_some() || *bytes > 0;
                self.files += u64::from(is_file);
                self.links += u64::from(!is_file);
                self.bytes = self.bytes.saturating_add(*bytes);
            }
            Event::Noticed(noticed) => match self.notices.iter_mut().find(|known| known.kind == noticed.kind) {
                Some(known) => known.add(noticed),
                None => self.notices.push(noticed.clone()),
            },
            Event::Resumed { bytes } => self.resumed = self.resumed.saturating_add(*bytes),
            Event::WouldSend { bytes, .. } => {
                self.would_send.0 += 1;
                self.would_send.1 = self.would_send.1.saturating_add(*bytes);
            }
            Event::Scanned { files, bytes, .. } => self.scanned = (*files, *bytes),
            Event::Reconnecting { .. } => self.reconnections += 1,
            Event::Followed { lag_s, .. } => self.lag = Some(*lag_s),
            Event::Progress(sample) => {
                self.limited[sample.limited_by as usize] += (sample.seconds - self.last.seconds).max(0.0);
                self.last = sample.clone();
            }
            _ => {}
        }
    }

    /// Notes that the run has ended, and that the process is going to have this exit code; returns
    /// its result.
    pub(crate) fn conclude(&mut self, ending: &Ending, code: u8) -> RunResult {
        self.settle_limited(&ending.summary);
        let result = result_of(ending, code);
        self.ended = Some(Ended { result, summary: ending.summary.clone() });
        result
    }

    /// Shares out the time that no sample has told of, so that the stages come as near to their
    /// shares of the summary as they can without giving back any time.
    fn settle_limited(&mut self, summary: &Summary) {
        let target = |stage: Stage| summary.limited_by.get(stage.name()).copied().unwrap_or(0.0) * summary.seconds;
        let lacking = Stage::ALL.map(|stage| (target(stage) - self.limited[stage as usize]).max(0.0));
        let (lacks, left) = (lacking.iter().sum::<f64>(), summary.seconds - self.limited.iter().sum::<f64>());
        if lacks > 0.0 && left > 0.0 {
            let scale = (left / lacks).min(1.0);
            self.limited.iter_mut().zip(lacking).for_each(|(limited, lacking)| *limited += lacking * scale);
        }
    }

    /// A summary by the events so far, for a copy that has not given its own; counts one error at
    /// least.
    pub(crate) fn summary(&self) -> Summary {
        let others = self.resumed.saturating_add(self.last.unchanged_bytes);
        let sent = ByteCount::new(self.last.bytes_done.saturating_sub(others));
        let nanos = (self.last.seconds.max(0.0) * 1e9) as u64;
        let goodput = if nanos == 0 { Rate::ZERO } else { sent / Span::from_nanos(nanos) };
        Summary {
            files: self.files,
            bytes: self.bytes,
            links: self.links,
            bytes_sent: sent.as_u64(),
            seconds: self.last.seconds,
            goodput_bps: goodput.as_bits_per_second(),
            retransmitted_segments: self.last.retransmitted_segments,
            max_rate_bps: self.last.max_rate_bps,
            compressed_from: self.last.compressed_from,
            compressed_to: self.last.compressed_to,
            // What ended the run is an error too.
            errors: self.failed.max(1),
            skipped: self.skipped,
            kept_newer: self.kept_newer,
            linked: self.linked,
            renamed: self.renamed,
            kept_existing: self.kept_existing,
            not_made: self.not_made,
            deleted: self.deleted,
            removed: self.removed,
            notices: self.notices.clone(),
            resumed_bytes: self.resumed,
            unchanged_bytes: self.last.unchanged_bytes,
            ..Summary::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_breaks_off_still_adds_up() {
        let mut tally = Tally::default();
        let item = |digest: Option<&str>, outcome, bytes| Event::Item {
            path: "a".into(),
            bytes,
            digest: digest.map(Into::into),
            outcome,
            reason: None,
        };
        tally.add(&Event::Resumed { bytes: 1000 });
        tally.add(&item(Some("00"), Outcome::Published, 500));
        tally.add(&item(None, Outcome::Published, 0));
        tally.add(&item(None, Outcome::Skipped, 7));
        tally.add(&Event::Progress(Sample {
            seconds: 2.0,
            bytes_done: 2300,
            unchanged_bytes: 300,
            ..Sample::default()
        }));
        let summary = tally.summary();
        assert_eq!((summary.files, summary.links, summary.bytes), (1, 1, 500));
        assert_eq!((summary.skipped, summary.errors), (1, 1));
        assert_eq!((summary.bytes_sent, summary.goodput_bps, summary.resumed_bytes), (1000, 4000, 1000));
        assert_eq!(summary.unchanged_bytes, 300);
        assert!(!summary.verified);
    }

    #[test]
    fn the_time_of_the_stages_only_grows_and_is_not_more_than_the_run_took() {
        let mut tally = Tally::default();
        for (seconds, limited_by) in [(1.0, Stage::Network), (4.0, Stage::SourceDisk), (3.0, Stage::Hash)] {
            tally.add(&Event::Progress(Sample { seconds, limited_by, ..Sample::default() }));
        }
        let before = tally.limited;
        let limited_by = [("network", 0.6), ("finish", 0.4)].map(|(name, share)| (name.to_owned(), share)).into();
        let summary = Summary { seconds: 6.0, limited_by, ..Summary::default() };
        tally.conclude(&Ending { summary, reason: None }, 0);
        assert!(tally.limited.iter().zip(before).all(|(after, before)| *after >= before));
        assert!((tally.limited.iter().sum::<f64>() - 6.0).abs() < 1e-9, "{:?}", tally.limited);
        assert!(tally.limited[Stage::Finish as usize] > 0.9);
    }

    #[test]
    fn results_are_told_by_exit_code_and_reason() {
        let result = |code, reason: Option<&str>| {
            result_of(&Ending { summary: Summary::default(), reason: reason.map(Into::into) }, code)
        };
        assert_eq!([result(0, None), result(1, None)], [RunResult::Complete, RunResult::Incomplete]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|code| result(code, Some("why"))),
            [
                RunResult::Skipped,
                RunResult::Failed,
                RunResult::Unusable,
                RunResult::Unreachable,
                RunResult::Interrupted
            ]
        );
    }
}
