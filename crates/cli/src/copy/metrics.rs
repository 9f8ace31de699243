//! The metrics of a run, by their names.

use icdc_metrics::{Reading, RunResult};
use icdc_transfer::Stage;

use crate::copy::tally::Tally;

/// Name of the metric that outlives its run: the exporter takes its value over from what an earlier
/// run has written.
pub(crate) const LAST_SUCCESS: &str = "icdc_copy_last_success_timestamp_seconds";

/// Metrics of a copy for `--metrics` and `--metrics-push`, while it runs and at its end.
pub(crate) fn reading(tally: &Tally) -> Reading {
    let mut reading = Reading::new();
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    reading.gauge("icdc_copy_build_info", "Release of icdc", [(version, 1_u64.into())]);
    counted(&mut reading, tally);
    present(&mut reading, tally);
    reading
}

/// Adds a copy's counters (files by outcome, bytes) to the metrics.
fn counted(reading: &mut Reading, tally: &Tally) {
    let seen = tally.summary();
    let told = tally.ended.as_ref().map_or(&seen, |ended| &ended.summary);
    // A summary may know less than the events before it, and counters never go back.
    let files = [
        ("copied", told.files.max(seen.files)),
        ("skipped", told.skipped.max(seen.skipped)),
        ("linked", told.linked.max(seen.linked)),
        ("renamed", told.renamed.max(seen.renamed)),
        ("kept_newer", told.kept_newer.max(seen.kept_newer)),
        ("kept_existing", told.kept_existing.max(seen.kept_existing)),
    ];
    let files = files.map(|(outcome, count)| ([("outcome", outcome)], count.into()));
    reading.counter("icdc_copy_files", "Files that are complete at the destination", files);
    let deleted = told.deleted.max(seen.deleted);
    let help = "Items that the source has not and that were deleted at the destination";
    reading.counter("icdc_copy_deleted", help, [((), deleted.into())]);
    let removed = told.removed.max(seen.removed);
    let help = "Items that were moved, and removed at the source";
    reading.counter("icdc_copy_removed", help, [((), removed.into())]);
    let errors = if tally.ended.is_some() { told.errors.max(tally.failed) } else { tally.failed };
    reading.counter("icdc_copy_errors", "Items that failed, and what ended the run", [((), errors.into())]);
    let sent = told.bytes_sent.max(seen.bytes_sent);
    reading.counter("icdc_copy_sent_bytes", "Payload that has travelled", [((), sent.into())]);
    let resumed = told.resumed_bytes.max(seen.resumed_bytes);
    let help = "Payload of an earlier run that need not travel again";
    reading.counter("icdc_copy_resumed_bytes", help, [((), resumed.into())]);
    let unchanged = told.unchanged_bytes.max(seen.unchanged_bytes);
    let help = "Payload that files at the destination have, and that need not travel";
    reading.counter("icdc_copy_unchanged_bytes", help, [((), unchanged.into())]);
    let segments = told.retransmitted_segments.max(seen.retransmitted_segments);
    reading.counter("icdc_copy_retransmitted_segments", "TCP segments retransmitted", [((), segments.into())]);
    let help = "Times that the connection was lost and made anew";
    reading.counter("icdc_copy_reconnections", help, [((), tally.reconnections.into())]);
    let stages = Stage::ALL.map(|stage| ([("stage", stage.name())], tally.limited[stage as usize].into()));
    reading.counter("icdc_copy_limited_seconds", "Time by the stage that the others waited for", stages);
    reading.gauge("icdc_copy_duration_seconds", "Time since the start of the run", [((), told.seconds.into())]);
    let goodput = bytes_per_second(told.goodput_bps);
    reading.gauge("icdc_copy_goodput_bytes_per_second", "Payload over the time of the run", [((), goodput.into())]);
}

/// Adds a copy's gauges (rate, ring level, lag, result) to the metrics.
fn present(reading: &mut Reading, tally: &Tally) {
    let (sample, (files, bytes)) = (&tally.last, tally.scanned);
    reading.gauge("icdc_copy_source_files", "Files that the scan has found", [((), files.into())]);
    reading.gauge("icdc_copy_source_bytes", "Size of the files that the scan has found", [((), bytes.into())]);
    let is_running = tally.ended.is_none();
    let rate = if is_running { bytes_per_second(sample.rate_bps) } else { 0.0 };
    let help = "Payload that reaches the receiving host now";
    reading.gauge("icdc_copy_rate_bytes_per_second", help, [((), rate.into())]);
    let has_ring = is_running && sample.ring_blocks > 0;
    let level = if has_ring { f64::from(sample.ring_used) / f64::from(sample.ring_blocks) } else { 0.0 };
    let help = "Share of the receiver's ring that waits for its disk";
    reading.gauge("icdc_copy_ring_level_ratio", help, [((), level.into())]);
    let round_trip = (sample.rtt_us > 0).then(|| ((), (sample.rtt_us as f64 / 1e6).into()));
    reading.gauge("icdc_copy_round_trip_time_seconds", "Smoothed round-trip time, if known", round_trip);
    let help = "Time between the close of the file that became durable last and that, if sources are followed";
    reading.gauge("icdc_copy_lag_seconds", help, [((), tally.lag.unwrap_or(0.0).into())]);
    let result = tally.ended.as_ref().map(|ended| ended.result);
    let all = std::iter::once(None).chain(RunResult::OF_COPIES.map(Some));
    let results = all.map(|of| ([("result", of.map_or("running", RunResult::word))], u64::from(of == result).into()));
    reading.gauge("icdc_copy_result", "How the run stands: 1 for one of the results", results);
}

fn bytes_per_second(bits_per_second: u64) -> f64 {
    bits_per_second as f64 / 8.0
}
