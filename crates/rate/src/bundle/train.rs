//! A train: packets that a bundle sends at a higher rate for a moment. When its acknowledgements
//! arrive shows at which rate the path carried it.
//!
//! Data of all members passes the bottleneck in the order in which it was sent. So the bytes
//! delivered, as a function of time, are compared with the bytes sent when the train began and when
//! it ended; between two updates the time is interpolated. A host that pauses brings
//! acknowledgements together, which then arrive too fast. The round-trip time is therefore measured
//! as well: what the path did not carry at once has waited in its queue, whenever its
//! acknowledgements arrive.

use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

use super::aggregate::Aggregate;

/// Length of a train, as a part of the round-trip time. Chosen: no test fails and transfer `stock`
/// does not differ at 1/64 and 1/16.
pub(super) const TRAIN_LENGTH: Ratio = Ratio::new(1, 32);
/// Shortest train: the timers of a busy host are no more exact. Chosen: no test fails and transfer
/// `stock` does not differ at 2 ms and 8 ms.
pub(super) const SHORTEST_TRAIN: Span = Span::from_millis(4);
/// Number of packets that a train is to have. Chosen: no test fails and transfer `stock` does not
/// differ at 24 and 96.
const TRAIN_PACKETS: u64 = 48;
/// Number of packets of each member that a train is to have: the kernel sends aggregates of
/// several, whose times were set before the train began (`tcp_tso_autosize`). Chosen: no test fails
/// and transfer `stock` does not differ at 4 and 16.
const PACKETS_PER_MEMBER: u64 = 8;
/// Least number of packets of a train: shorter ones show nothing. Chosen: no test fails and
/// transfer `stock` does not differ at 6 and 24.
const LEAST_TRAIN_PACKETS: u64 = 12;
/// Longest train, as a part of the round-trip time. Chosen: no test fails and transfer `stock` does
/// not differ at 1/8 and 1/2.
const LONGEST_TRAIN: Ratio = Ratio::new(1, 4);
/// Interval of updates while acknowledgements of a train arrive. Chosen: no test fails and transfer
/// `stock` does not differ at 1 ms and 4 ms.
pub(super) const CLOSE_INTERVAL: Span = Span::from_millis(2);
/// A train that went at less than this part of its rate shows nothing about that rate. Chosen: no
/// test fails and transfer `stock` does not differ at 15/16 and 3/4.
pub(super) const FULL_RATE: Ratio = Ratio::new(7, 8);
/// A train whose acknowledgements came at less than this part of its rate was stretched. Chosen: at
/// 3/4 transfer `stock` takes 2 % longer; at 15/16 no test fails and transfer `stock` does not
/// differ.
const STRETCH_THRESHOLD: Ratio = Ratio::new(7, 8);
/// Packets of each member after which smoothed round-trip times show a train: twice the 8
/// acknowledgements over which the kernel smooths (RFC 6298, section 2.3). Chosen: no test fails
/// and transfer `stock` does not differ at 8 and 32.
const SMOOTHING_PACKETS: u64 = 16;
/// Longest wait for these packets, as a part of the round-trip time. Chosen: no test fails and
/// transfer `stock` does not differ at 1/16 and 1/4.
const LONGEST_SETTLING: Ratio = Ratio::new(1, 8);
/// Packets of each member after which it sends at the higher rate: the kernel applies a pacing rate
/// to the next packet that it sends (`tcp_update_skb_after_send`), and what waits was timed before.
/// Chosen: no test fails and transfer `stock` does not differ at 2 and 8.
const START_PACKETS: u64 = 4;
/// Longest wait for these packets, as a part of the round-trip time. Chosen: no test fails and
/// transfer `stock` does not differ at 1/32 and 1/8.
const LONGEST_START: Ratio = Ratio::new(1, 16);
/// Number of updates before a train's acknowledgements arrive: the least of their round-trip times
/// is the one without the train. Chosen; not varied.
const RTT_SAMPLES_BEFORE: usize = 8;
/// Least time in which a train's acknowledgements count as arriving: closer ones show the hosts,
/// not the path. Chosen: no test fails and transfer `stock` does not differ at 50 us and 200 us.
const SHORTEST_ARRIVAL: Span = Span::from_micros(100);
/// Round trips after its end, beside [`LATE_LENGTHS`], by which all of a train has arrived: with a
/// queue of one round trip it takes two. Chosen: no test fails and transfer `stock` does not differ
/// at 1 and 4.
const LATE_ROUNDS: u64 = 2;
/// Lengths of the train that its arrival may take in addition. Chosen: no test fails and transfer
/// `stock` does not differ at 2 and 8.
const LATE_LENGTHS: u64 = 4;

/// A train in progress: a short burst above the rate, by which the capacity is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    begin: Time,
    /// Bytes that the bundle had sent when the train began.
    from: ByteCount,
    progress: Progress,
    /// Time of the update before, and bytes delivered by then.
    before: (Time, ByteCount),
    /// Round-trip times of the updates before its acknowledgements came.
    without: [Span; RTT_SAMPLES_BEFORE],
}

/// Progress of a train.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// The ceilings are set, and not all members send at the higher rate yet.
    Beginning { until: Time, length: Span },
    /// All members send at the higher rate, until a time.
    Leaving { until: Time },
    /// The train has been sent, and its acknowledgements arrive.
    Arriving(Flight),
    /// The whole train has arrived; the smoothed round-trip times follow.
    Settling(Arrival),
}

/// A train that has been sent and has not arrived yet.
#[derive(Clone, Copy, Debug)]
struct Flight {
    end: Time,
    /// Bytes that the bundle had sent when the train ended.
    to: ByteCount,
    /// Time at which everything sent before it had been delivered.
    first: Option<Time>,
}

/// Arrival of a complete train.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Time,
    /// Bytes sent when the train ended.
    to: ByteCount,
    /// Time in which the train was sent.
    took: Span,
    /// Rate at which the train was sent.
    went: Rate,
    /// Rate at which the train's acknowledgements arrived.
    came: Rate,
    /// Longest round-trip time since the arrival.
    rtt: Span,
}

/// Result of a train: the rates at which it left and arrived, if they could be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Rate at which the train was sent, and rate at which the path carried it.
    Carried(Rate, Rate),
    /// Nothing was measured: not all of the train arrived, or it was too short.
    Nothing,
}

impl Outcome {
    /// Whether the path carried the train more slowly than it was sent.
    pub(super) fn is_stretched(self) -> bool {
        matches!(self, Self::Carried(went, came) if came < went * STRETCH_THRESHOLD)
    }
}

impl Train {
    /// Begins a train at `rate`.
    pub(super) fn begin(aggregate: &Aggregate, rate: Rate) -> Self {
        let Aggregate { seen: sum, sent, members, carried, .. } = *aggregate;
        let (now, base) = (sum.at, sum.least_rtt);
        let least = Rate::from_bytes_per_second(1);
        let started = sum.packet * (START_PACKETS * members) / carried.max(least);
        let enough = sum.packet * TRAIN_PACKETS.max(PACKETS_PER_MEMBER * members) / rate.max(least);
        let longest = (base * LONGEST_TRAIN).max(SHORTEST_TRAIN);
        let length = (base * TRAIN_LENGTH).max(SHORTEST_TRAIN).max(enough).min(longest);
        let until = now + started.min(base * LONGEST_START);
        let (progress, before) = (Progress::Beginning { until, length }, (now, sum.delivered));
        Self { begin: now, from: sent, progress, before, without: [aggregate.usual_rtt; RTT_SAMPLES_BEFORE] }
    }

    /// Whether the train's higher rate is in force.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.progress, Progress::Beginning { .. } | Progress::Leaving { .. })
    }

    /// Time at which the train is to be updated next.
    pub(super) fn next_update(&self, now: Time) -> Time {
        match self.progress {
            Progress::Beginning { until, .. } | Progress::Leaving { until } => until.max(now + Span::from_nanos(1)),
            Progress::Arriving(_) | Progress::Settling(_) => now + CLOSE_INTERVAL,
        }
    }

    /// Processes the sum over the bundle; returns the result once it is known, `None` before.
    pub(super) fn update(&mut self, aggregate: &Aggregate) -> Option<Outcome> {
        let Aggregate { seen: sum, sent, .. } = *aggregate;
        let now = sum.at;
        let before = std::mem::replace(&mut self.before, (now, sum.delivered));
        match self.progress {
            Progress::Beginning { until, length } => {
                if now >= until {
                    (self.begin, self.from) = (now, sent);
                    self.progress = Progress::Leaving { until: now + length };
                }
                None
            }
            Progress::Leaving { until } => {
                if now >= until {
                    self.progress = Progress::Arriving(Flight { end: now, to: sent, first: None });
                }
                None
            }
            Progress::Arriving(Flight { end, to, first }) => {
                let delivery = Delivery { from: before, to: (now, sum.delivered) };
                let first = first.or_else(|| (sum.delivered >= self.from).then(|| delivery.time_of(self.from)));
                let flight = Flight { end, to, first };
                self.progress = Progress::Arriving(flight);
                self.arrive(aggregate, delivery, flight)
            }
            Progress::Settling(arrival) => {
                let rtt = aggregate.usual_rtt.max(arrival.rtt);
                self.progress = Progress::Settling(Arrival { rtt, ..arrival });
                self.settle(aggregate, &Arrival { rtt, ..arrival })
            }
        }
    }

    /// Measures the rate of arrival once all of the train has been delivered. Returns
    /// [`Outcome::Nothing`] if that is late, or if the train was too short; `None` otherwise.
    fn arrive(
        &mut self,
        aggregate: &Aggregate,
        delivery: Delivery,
        Flight { end, to, first }: Flight,
    ) -> Option<Outcome> {
        let sum = aggregate.seen;
        let took = end - self.begin;
        let Some(first) = first.filter(|_| sum.delivered >= to) else {
            if first.is_none() {
                self.without.rotate_right(1);
                self.without[0] = aggregate.usual_rtt;
            }
            let is_late = sum.at >= end + sum.least_rtt * LATE_ROUNDS + took * LATE_LENGTHS;
            return is_late.then_some(Outcome::Nothing);
        };
        let length = to - self.from;
        if length < sum.packet * LEAST_TRAIN_PACKETS {
            return Some(Outcome::Nothing);
        }
        let span = (delivery.time_of(to) - first).max(SHORTEST_ARRIVAL);
        let (went, came) = (length / took, length / span);
        self.progress = Progress::Settling(Arrival { at: sum.at, to, took, went, came, rtt: aggregate.usual_rtt });
        None
    }

    /// Result once the smoothed round-trip times contain the train (`None` before): the lower one
    /// of the rate of arrival and the rate that its time in the queue shows.
    fn settle(&self, aggregate: &Aggregate, arrival: &Arrival) -> Option<Outcome> {
        let Aggregate { seen: sum, members, .. } = *aggregate;
        let Arrival { at, to, took, went, came, rtt } = *arrival;
        let since = sum.at - at;
        let is_smoothed = sum.delivered - to >= sum.packet * (SMOOTHING_PACKETS * members);
        if (since < took || !is_smoothed) && since < sum.least_rtt * LONGEST_SETTLING {
            return None;
        }
        let without = self.without.into_iter().min().unwrap_or_default();
        let waited = rtt - without;
        let by_queue = (went * took) / (took + waited);
        Some(Outcome::Carried(went, came.min(by_queue)))
    }
}

/// Bytes delivered at two successive updates.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    from: (Time, ByteCount),
    to: (Time, ByteCount),
}

impl Delivery {
    /// Time at which this number of `bytes` had been delivered, interpolated.
    fn time_of(self, bytes: ByteCount) -> Time {
        let ((at, had), (now, delivered)) = (self.from, self.to);
        let share = (bytes - had).ratio((delivered - had).max(ByteCount::new(1)));
        at + Span::from_nanos(((now - at).as_nanos() as f64 * share.min(1.0)) as u64)
    }
}
