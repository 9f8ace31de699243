//! Samples of the delivery rate (draft-cheng-iccrg-delivery-rate-estimation,
//! `net/ipv4/tcp_rate.c`).
//!
//! ```text
//! rate = Δdelivered / max(Δsent, Δacknowledged)
//! ```
//!
//! Both intervals end at the most recently sent packet among those that an acknowledgement
//! delivers. An interval shorter than the least round-trip time cannot be one of a whole window,
//! and gives no sample.

use icdc_units::{Span, Time};

use super::RateSample;

/// State of the deliveries at the transmission of a packet, stored with the packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    /// Number of packets delivered.
    delivered: u32,
    /// Time at which the last of these packets was acknowledged.
    delivered_at: Time,
    /// Send time of the packet that began the interval.
    first_sent: Time,
    /// Whether the application had nothing more to send.
    limited: bool,
}

/// Estimator of a flow's delivery rate, from what each acknowledgement delivers.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRate {
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    /// The most recently sent packet among those of the present acknowledgement: send time, number,
    /// stamp, whether it was retransmitted; `None` if there is none yet.
    latest: Option<(Time, u64, Stamp, bool)>,
    /// Number of packets delivered at which all have left that were sent while the application had
    /// nothing more; 0 for none (`app_limited`).
    limited_until: u64,
    /// The last sample that counts: packets, interval, and whether the application limited it.
    counted: (u32, Span, bool),
}

impl DeliveryRate {
    /// Records that the application has nothing more to send while `outstanding` packets are on the
    /// way (`tcp_rate_check_app_limited`).
    pub fn limit(&mut self, outstanding: u64) {
        self.limited_until = (self.delivered + outstanding).max(1);
    }

    /// Whether the application limited the last sample that counts.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.counted.2
    }

    /// Number of packets delivered in all.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The stamp of a packet that is sent while `outstanding` others are not acknowledged.
    pub fn stamp(&mut self, now: Time, outstanding: u64) -> Stamp {
        if outstanding == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        let limited = self.limited_until > 0;
        Stamp {
            delivered: self.delivered as u32,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            limited,
        }
    }

    /// Records that the present acknowledgement delivers a packet.
    pub fn deliver(&mut self, number: u64, sent: Time, stamp: Stamp, again: bool) {
        self.delivered += 1;
        if self.latest.is_none_or(|(time, latest, ..)| (time, latest) <= (sent, number)) {
            self.latest = Some((sent, number, stamp, again));
        }
    }

    /// Number of packets delivered since the most recently sent packet of this acknowledgement
    /// left; zero if it delivers none.
    #[must_use]
    pub fn since_latest(&self) -> u32 {
        self.latest.map_or(0, |(_, _, stamp, _)| (self.delivered as u32).wrapping_sub(stamp.delivered))
    }

    /// The rate sample of the acknowledgement that was handled; the caller fills in the rest.
    pub fn sample(&mut self, now: Time, least_rtt: Span) -> RateSample {
        let unknown = RateSample { delivered: -1, interval_us: -1, ..RateSample::default() };
        let Some((sent, _, stamp, again)) = self.latest.take() else { return unknown };
        self.delivered_at = now;
        self.first_sent = sent;
        let interval = (sent - stamp.first_sent).max(now - stamp.delivered_at);
        let known = RateSample {
            prior_mstamp: stamp.delivered_at.as_nanos() / 1000,
            prior_delivered: stamp.delivered,
            is_retrans: again,
            ..unknown
        };
        if self.limited_until > 0 && self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        if interval < least_rtt {
            return known;
        }
        let packets = (self.delivered as u32).wrapping_sub(stamp.delivered);
        let (before, took, _) = self.counted;
        let is_more = u64::from(packets) * took.as_nanos() >= u64::from(before) * interval.as_nanos();
        if !stamp.limited || is_more {
            self.counted = (packets, interval, stamp.limited);
        }
        RateSample {
            delivered: (self.delivered as u32).wrapping_sub(stamp.delivered) as i32,
            interval_us: interval.as_micros() as i64,
            ..known
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Span = Span::from_millis(100);

    fn millis(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    #[test]
    fn a_packet_a_millisecond_is_a_thousand_a_second() {
        let mut rate = DeliveryRate::default();
        let mut sent = Vec::new();
        for now in 0..400_u64 {
            if let Some(number) = now.checked_sub(100) {
                let (at, stamp) = sent[number as usize];
                rate.deliver(number, at, stamp, false);
                let sample = rate.sample(millis(now), ROUND_TRIP);
                // From the second window on both ends of the interval are acknowledgements.
                if number >= 200 {
                    assert_eq!((sample.delivered, sample.interval_us), (100, 100_000), "{number}");
                    assert_eq!(u64::from(sample.prior_delivered), number - 99);
                }
            }
            let outstanding = now.min(100);
            sent.push((millis(now), rate.stamp(millis(now), outstanding)));
        }
    }

    #[test]
    fn an_acknowledgement_of_nothing_new_gives_no_sample() {
        let mut rate = DeliveryRate::default();
        let sample = rate.sample(millis(1), ROUND_TRIP);
        assert_eq!((sample.delivered, sample.interval_us, sample.prior_mstamp), (-1, -1, 0));
        let stamp = rate.stamp(millis(1), 0);
        rate.deliver(0, millis(1), stamp, false);
        // Sooner than a round trip can be.
        assert_eq!(rate.sample(millis(50), ROUND_TRIP).interval_us, -1);
    }
}
