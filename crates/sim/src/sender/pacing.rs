//! Pacing inside TCP, without the fq queueing discipline (`tcp_update_pacing_rate`,
//! `tcp_pacing_check`).
//!
//! ```text
//! rate = ratio · mss · max(cwnd, out) / srtt       ratio 2 below half of ssthresh, 1.2 above; at most the user's
//! next = start + bytes/rate − min(half of that, time lost before start)
//! ```
//!
//! An aggregate of about a millisecond, at least two packets and at most 64 KiB, leaves at once;
//! then nothing until `next`. Where hosts do not segment in the device, an aggregate is one packet.
//! The first ten packets of a connection are not paced. Bytes are those of the payload. An
//! algorithm with `cong_control` sets the rate itself.

use icdc_cc::native::Socket;
use icdc_units::{ByteCount, Rate, Span, Time};

/// Largest aggregate in bytes (`gso_max_size`).
const LARGEST_AGGREGATE: u64 = 65_536;
/// Number of packets at the start of a connection that are not paced.
const FREE_PACKETS: u64 = 10;

/// State of a sender's pacing: the aggregate of packets that is being sent, and when the next may
/// leave.
#[derive(Clone, Debug)]
pub(super) struct Pacing {
    segmentation: bool,
    next: Time,
    /// Start of the aggregate that is being sent.
    start: Time,
    /// Time between the time at which pacing allowed the aggregate and its start.
    credit: Span,
    /// Number of packets in the aggregate so far.
    packets: u64,
    /// Number of packets in the whole aggregate.
    most: u64,
    sent: u64,
}

impl Pacing {
    /// Pacing of a new connection; `segmentation`: the device cuts aggregates into packets.
    pub(super) fn new(segmentation: bool) -> Self {
        Self { segmentation, next: Time::ORIGIN, start: Time::ORIGIN, credit: Span::ZERO, packets: 0, most: 0, sent: 0 }
    }

    /// Time at which the next packet may leave; `None` if it may at once.
    pub(super) fn waits_until(&self, now: Time, socket: &Socket) -> Option<Time> {
        (self.packets == 0 && now < self.next && socket.pacing_rate().is_some()).then_some(self.next)
    }

    /// Records that a packet leaves.
    pub(super) fn sent(&mut self, now: Time, socket: &Socket) {
        self.sent += 1;
        let Some(rate) = socket.pacing_rate() else { return };
        if self.packets == 0 {
            self.start = now;
            self.credit = now - self.next;
            let aggregate = (rate.as_bytes_per_second() >> 10).min(LARGEST_AGGREGATE) / u64::from(socket.mss_cache);
            self.most = if self.segmentation { aggregate.max(2) } else { 1 };
        }
        self.packets += 1;
        if self.packets == self.most {
            self.finish(socket);
        }
    }

    /// Ends the aggregate, since nothing more leaves now, and schedules the next.
    pub(super) fn finish(&mut self, socket: &Socket) {
        if self.packets == 0 {
            return;
        }
        self.next = self.start;
        if let Some(rate) = socket.pacing_rate().filter(|_| self.sent >= FREE_PACKETS) {
            let length = ByteCount::new(self.packets * u64::from(socket.mss_cache)) / rate;
            self.next += length - (length / 2).min(self.credit);
        }
        self.packets = 0;
    }
}

/// A rate of the socket in bytes per second; `None` for all ones, which mean no limit.
pub(super) fn limit(bytes_per_second: u64) -> Option<Rate> {
    (bytes_per_second < u64::MAX).then(|| Rate::from_bytes_per_second(bytes_per_second))
}
