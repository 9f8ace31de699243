//! Round-trip time and retransmission timeout (RFC 6298 in the manner of Linux's
//! `tcp_rtt_estimator`).
//!
//! ```text
//! srtt   ← srtt + (m − srtt)/8
//! mdev   ← mdev + (|m − srtt| − mdev)/4        by an eighth of that where m falls below srtt by more than mdev
//! rttvar = greatest mdev of the round trip, decaying by a quarter a round trip; at least 200 ms
//! RTO    = (srtt + rttvar) · 2^backoff, at most 120 s
//! ```
//!
//! srtt is stored in eighths of a microsecond, mdev and rttvar (each four times the deviation) in
//! microseconds.

use icdc_units::Span;

/// Least variation in the timeout, in microseconds (`TCP_RTO_MIN`).
const LEAST_VARIATION: i64 = 200_000;
/// Longest retransmission timeout (`TCP_RTO_MAX`).
const LONGEST: Span = Span::from_secs(120);

/// Estimator of the round-trip time and the retransmission timeout.
#[derive(Clone, Debug)]
pub(super) struct RoundTrip {
    srtt: i64,
    mdev: i64,
    mdev_max: i64,
    rttvar: i64,
    /// Number of the packet whose acknowledgement ends the present round trip.
    end: u64,
    backoff: u32,
    least: Span,
}

impl RoundTrip {
    /// The estimator after a handshake that took `first`.
    pub(super) fn new(first: Span) -> Self {
        let micros = (first.as_micros() as i64).max(1);
        let rttvar = (micros * 2).max(LEAST_VARIATION);
        Self { srtt: micros << 3, mdev: micros * 2, mdev_max: rttvar, rttvar, end: 0, backoff: 0, least: first }
    }

    /// Updates smoothed round-trip time, deviation and timeout with the measured one, and ends the
    /// backoff. `una` (first unacknowledged) and `next` (next to be sent) are numbers of packets
    /// after the acknowledgement, by which a round trip is told from the one before.
    pub(super) fn measure(&mut self, measured: Span, una: u64, next: u64) {
        let mut error = measured.as_micros() as i64 - (self.srtt >> 3);
        self.srtt = (self.srtt + error).max(1);
        if error < 0 {
            error = -error - (self.mdev >> 2);
            if error > 0 {
                error >>= 3;
            }
        } else {
            error -= self.mdev >> 2;
        }
        self.mdev += error;
        if self.mdev > self.mdev_max {
            self.mdev_max = self.mdev;
            self.rttvar = self.rttvar.max(self.mdev_max);
        }
        if una > self.end {
            if self.mdev_max < self.rttvar {
                self.rttvar -= (self.rttvar - self.mdev_max) >> 2;
            }
            self.end = next;
            self.mdev_max = LEAST_VARIATION;
        }
        self.backoff = 0;
    }

    /// Records a round-trip time for the smallest one.
    pub(super) fn note(&mut self, measured: Span) {
        self.least = self.least.min(measured);
    }

    /// Smallest round-trip time so far.
    pub(super) fn least(&self) -> Span {
        self.least
    }

    /// Smoothed round-trip time in eighths of a microsecond (`srtt_us`).
    pub(super) fn smoothed_eighths(&self) -> u32 {
        u32::try_from(self.srtt).unwrap_or(u32::MAX)
    }

    /// Mean deviation of the round-trip time in quarters of a microsecond (`mdev_us`).
    pub(super) fn deviation_quarters(&self) -> u32 {
        u32::try_from(self.mdev).unwrap_or(0)
    }

    /// Smoothed round-trip time.
    pub(super) fn smoothed(&self) -> Span {
        Span::from_nanos(self.srtt as u64 * 125)
    }

    /// The retransmission timeout, with backoff.
    pub(super) fn timeout(&self) -> Span {
        let plain = Span::from_micros(((self.srtt >> 3) + self.rttvar) as u64);
        (plain * (1 << self.backoff.min(20))).min(LONGEST)
    }

    /// Records that a timeout has passed: the next one is twice as long.
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_round_trip_gives_it_and_200_ms() {
        let mut rtt = RoundTrip::new(Span::from_millis(100));
        for round in 0..100 {
            rtt.measure(Span::from_millis(100), round * 2 + 1, round * 2 + 2);
        }
        assert_eq!(rtt.smoothed(), Span::from_millis(100));
        assert_eq!(rtt.timeout(), Span::from_millis(300));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(), Span::from_millis(1200));
        (0..100).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(), LONGEST);
        rtt.measure(Span::from_millis(100), 300, 301);
        assert_eq!(rtt.timeout(), Span::from_millis(300));
    }

    #[test]
    fn a_step_shows_in_the_timeout_at_once() {
        let mut rtt = RoundTrip::new(Span::from_millis(10));
        rtt.measure(Span::from_millis(410), 1, 2);
        // srtt 10 + 400/8; mdev 20 + 400 − 5.
        assert_eq!(rtt.smoothed(), Span::from_millis(60));
        assert_eq!(rtt.timeout(), Span::from_millis(60 + 415));
    }
}
