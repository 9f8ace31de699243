//! Progress events of a receiving session, made out of what its threads count.

use std::time::Duration;

use icdc_protocol::message::Totals;
use icdc_units::{ByteCount, Rate, Span, Time};

use super::shared::{FEEDBACK, Shared};
use crate::event::{Event, Sample, Stage};

/// Generator of the receiver's progress events; keeps the state of the last event, for the rates
/// in the next.
pub(super) struct Progress {
    start: Time,
    last: Time,
    last_bytes: u64,
    last_totals: Totals,
}

impl Progress {
    /// Generator for a run that began at `start`; the first event is due an interval after `now`.
    pub(super) fn new(start: Time, now: Time) -> Self {
        Self { start, last: now, last_bytes: 0, last_totals: Totals::default() }
    }

    /// Time from `now` until the next event is due.
    pub(super) fn due_in(&self, now: Time) -> Duration {
        (self.last + FEEDBACK - now).into()
    }

    /// Emits a progress event if the interval since the last one is over.
    pub(super) fn report(&mut self, now: Time, shared: &Shared<'_>) {
        if now - self.last >= FEEDBACK {
            self.report_now(now, shared);
        }
    }

    /// Emits a progress event now, and one of the scan's totals if they have changed.
    pub(super) fn report_now(&mut self, now: Time, shared: &Shared<'_>) {
        let tally = *shared.tally();
        let totals = tally.totals;
        if totals != self.last_totals {
            self.last_totals = totals;
            (shared.events)(Event::Scanned { files: totals.files, bytes: totals.bytes, complete: totals.complete });
        }
        let feedback = shared.feedback();
        let elapsed = now - self.last;
        let new_bytes = feedback.received.saturating_sub(self.last_bytes);
        let rate = if elapsed == Span::ZERO { Rate::ZERO } else { ByteCount::new(new_bytes) / elapsed };
        self.last = now;
        self.last_bytes = feedback.received;
        let tcp = shared.link.tcp_info();
        let full = feedback.ring_used * 10 >= feedback.ring_blocks * 9;
        let (compressed_from, compressed_to) = shared.expanding.sums();
        (shared.events)(Event::Progress(Sample {
            seconds: (now - self.start).as_secs_f64(),
            bytes_done: (feedback.received + (tally.resumed + tally.unchanged).as_u64()).min(if totals.complete {
                totals.bytes
            } else {
                u64::MAX
            }),
            unchanged_bytes: tally.unchanged.as_u64(),
            resumed_bytes: tally.resumed.as_u64(),
            skipped_bytes: tally.skipped_bytes.as_u64(),
            bytes_total: totals.bytes,
            files_done: tally.files + tally.skipped + tally.kept.all() + tally.linked + tally.renamed,
            rate_bps: rate.as_bits_per_second(),
            limited_by: if full { Stage::DestinationDisk } else { Stage::Network },
            ring_used: feedback.ring_used,
            ring_blocks: feedback.ring_blocks,
            rtt_us: tcp.as_ref().map_or(0, |info| info.rtt.as_micros()),
            silent_ms: tcp.as_ref().map_or(0, |info| info.silence.as_millis()),
            max_rate_bps: shared.max_rate().map_or(0, Rate::as_bits_per_second),
            compressed_from,
            compressed_to,
            ..Sample::default()
        }));
    }
}
