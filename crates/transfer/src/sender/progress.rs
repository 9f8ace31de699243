//! Progress events of a sending session, made out of what its threads count.

use icdc_session::sender::Counts;
use icdc_units::{ByteCount, Rate, Span, Time};

use super::connections::Connections;
use super::executor::Executor;
use crate::event::{Event, Sample};

/// Interval of progress events.
const INTERVAL: Span = Span::from_millis(100);
/// Interval of progress events while sources are followed and nothing happens.
const REST_INTERVAL: Span = Span::from_secs(10);

/// Generator of progress events from what the threads count; keeps the state of the last one.
pub(super) struct Progress {
    start: Time,
    last: Time,
    /// Payload bytes, before they were compressed, that had reached the receiver's host at the last event.
    delivered: ByteCount,
    last_totals: (u64, u64, bool),
    /// Counts at the last event.
    counts: Counts,
}

impl Progress {
    /// Generator for a run that began at `start`; by `now`, `delivered` bytes have reached the
    /// receiver's host.
    pub(super) fn new(start: Time, now: Time, delivered: ByteCount) -> Self {
        Self { start, last: now, delivered, last_totals: (0, 0, false), counts: Counts::default() }
    }

    /// Emits a progress event if the interval since the last one is over.
    pub(super) fn report(
        &mut self,
        now: Time,
        executor: &Executor<'_>,
        connections: &Connections<'_>,
        counts: &Counts,
    ) {
        let rests =
            executor.followed.is_some() && self.counts == *counts && self.delivered == connections.delivered_plain();
        if now - self.last >= if rests { REST_INTERVAL } else { INTERVAL } {
            self.report_last(now, executor, connections, counts);
        }
    }

    /// Emits a progress event now, and one of the scan's totals if they have changed.
    pub(super) fn report_last(
        &mut self,
        now: Time,
        executor: &Executor<'_>,
        connections: &Connections<'_>,
        counts: &Counts,
    ) {
        let known = counts.known_totals();
        let totals = (known.files, known.bytes, known.complete);
        if totals != self.last_totals {
            self.last_totals = totals;
            (executor.events)(Event::Scanned { files: totals.0, bytes: totals.1, complete: totals.2 });
        }
        let feedback = *executor.feedback.lock().expect("no panic while feedback is stored");
        let tcp = executor.link.tcp_info();
        let elapsed = now - self.last;
        // What is sent in frames without payload counts against it until it is acknowledged.
        let delivered = connections.delivered_plain().max(self.delivered);
        let rate = if elapsed == Span::ZERO { Rate::ZERO } else { (delivered - self.delivered) / elapsed };
        (self.last, self.counts) = (now, *counts);
        self.delivered = delivered;
        let tcp = tcp.as_ref();
        let (compressed_from, compressed_to) = executor.compressing.sums();
        (executor.events)(Event::Progress(Sample {
            seconds: (now - self.start).as_secs_f64(),
            bytes_done: (feedback.received + (counts.resumed_bytes + counts.unchanged_bytes).as_u64())
                .min(if known.complete { known.bytes } else { u64::MAX }),
            unchanged_bytes: counts.unchanged_bytes.as_u64(),
            resumed_bytes: counts.resumed_bytes.as_u64(),
            skipped_bytes: counts.skipped_bytes.as_u64(),
            bytes_total: known.bytes,
            files_done: counts.files_done + counts.skipped + counts.kept.all() + counts.linked + counts.renamed,
            rate_bps: rate.as_bits_per_second(),
            limited_by: executor.stages.current(),
            ring_used: feedback.ring_used,
            ring_blocks: feedback.ring_blocks,
            rtt_us: tcp.map_or(0, |info| info.rtt.as_micros()),
            cwnd: tcp.map_or(0, |info| info.cwnd.into()),
            retransmitted_segments: connections.retransmitted_segments(),
            pacing_bps: tcp.and_then(|info| info.pacing_rate).map_or(0, Rate::as_bits_per_second),
            silent_ms: tcp.map_or(0, |info| info.silence.as_millis()),
            max_rate_bps: connections.steering.key_ceiling().map_or(0, Rate::as_bits_per_second),
            compressed_from,
            compressed_to,
        }));
    }
}
