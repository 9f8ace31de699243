//! A train: for a moment a bundle sends at a higher rate, and when its acknowledgements come tells
//! at which rate the path carried it.
//!
//! Data of all members passes the bottleneck in the order in which it was sent, so what was
//! delivered when is set against what had been sent when the train began and when it ended.
//! Between two looks the time is interpolated. A host that pauses brings acknowledgements together,
//! which come too fast then; so the round-trip time is looked at as well: what the path did not
//! carry at once has waited, whenever its acknowledgements came.

use icdc_units::{ByteCount, Rate, Span, Time};

use super::whole::Whole;

/// A train's share of the round trip: one in so many.
pub(super) const SHARE: u64 = 32;
/// Shortest train: the timers of a host that is busy are not more exact.
pub(super) const SHORTEST: Span = Span::from_millis(4);
/// Packets that a train is to have, in all and of each member: those leave in aggregates, whose times
/// were set before the train began.
const PACKETS: u64 = 48;
const PACKETS_OF_EACH: u64 = 8;
/// Packets without which it tells nothing.
const FEWEST: u64 = 12;
/// The longest share of the round trip that a train takes to have as many: one in so many.
const LONGEST: u64 = 4;
/// Time between two looks while acknowledgements of a train come.
pub(super) const CLOSE: Span = Span::from_millis(2);
/// A train that went at less than this share of the rate that it was to have tells nothing of that.
pub(super) const FULL: (u64, u64) = (7, 8);
/// A train whose acknowledgements came at less than this share of its rate was stretched.
const STRETCHED: (u64, u64) = (7, 8);
/// Packets of each member after which round-trip times, which are smoothed over 8 acknowledgements,
/// tell of a train.
const SMOOTHED: u64 = 16;
/// They are waited for this share of the round trip at most: one in so many.
const LONGEST_WAIT: u64 = 8;
/// Packets of each member after which it goes at the higher rate: the kernel raises a pace with the
/// next acknowledgement, and what waits to leave was timed before.
const HEEDED: u64 = 4;
/// That is waited for this share of the round trip at most: one in so many.
const LONGEST_BEGIN: u64 = 16;
/// Looks before its acknowledgements come, of which the shortest round-trip time is what it was
/// without the train.
const LOOKS_BEFORE: usize = 8;
/// Acknowledgements that come closer than this tell of the hosts, not of the path.
const LEAST_SPAN: Span = Span::from_micros(100);

/// See the module's description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    begin: Time,
    /// All that had been sent when it began.
    from: ByteCount,
    stage: Stage,
    /// The look before: when, and what had been delivered.
    before: (Time, ByteCount),
    /// Round-trip times of the looks before its acknowledgements came.
    without: [Span; LOOKS_BEFORE],
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Not all members have heard of the higher rate.
    Beginning {
        until: Time,
        length: Span,
    },
    Leaving {
        until: Time,
    },
    Arriving {
        end: Time,
        /// All that had been sent when it ended.
        to: ByteCount,
        /// When all that was sent before it had been delivered.
        first: Option<Time>,
    },
    /// All of it has come, at this rate; the smoothed round-trip times follow.
    Settling {
        begin: Time,
        /// All that had been sent when it ended.
        to: ByteCount,
        took: Span,
        went: Rate,
        came: Rate,
        /// The longest round-trip time that was seen.
        rtt: Span,
    },
}

/// What a train has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It went at the first of these rates, and came at the second.
    Carried(Rate, Rate),
    /// Not all of it came, or it was too short to tell.
    Nothing,
}

impl Outcome {
    /// Whether the path did not carry it as fast as it went.
    pub(super) fn is_stretched(self) -> bool {
        matches!(self, Self::Carried(went, came) if came < went.scaled(STRETCHED.0, STRETCHED.1))
    }
}

impl Train {
    /// Begins one at `rate`.
    pub(super) fn begin(whole: &Whole, rate: Rate) -> Self {
        let Whole { seen: sum, sent, members, carried, .. } = *whole;
        let (now, base) = (sum.at, sum.least_rtt);
        let heeded = sum.packet * (HEEDED * members) / carried.max(Rate::from_bytes_per_second(1));
        let enough = sum.packet * PACKETS.max(PACKETS_OF_EACH * members) / rate.max(Rate::from_bytes_per_second(1));
        let length = (base / SHARE).max(SHORTEST).max(enough).min((base / LONGEST).max(SHORTEST));
        let until = now + heeded.min(base / LONGEST_BEGIN);
        let (stage, before) = (Stage::Beginning { until, length }, (now, sum.delivered));
        Self { begin: now, from: sent, stage, before, without: [whole.usual_rtt; LOOKS_BEFORE] }
    }

    /// Whether the higher rate is in force.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Beginning { .. } | Stage::Leaving { .. })
    }

    pub(super) fn next_look(&self, now: Time) -> Time {
        match self.stage {
            Stage::Beginning { until, .. } | Stage::Leaving { until } => until.max(now + Span::from_nanos(1)),
            Stage::Arriving { .. } | Stage::Settling { .. } => now + CLOSE,
        }
    }

    /// Takes note of what was delivered and sent by now.
    pub(super) fn look(&mut self, whole: &Whole) -> Option<Outcome> {
        let Whole { seen: sum, sent, members, .. } = *whole;
        let now = sum.at;
        let (at, had) = std::mem::replace(&mut self.before, (now, sum.delivered));
        match &mut self.stage {
            Stage::Beginning { until, length } => {
                if now >= *until {
                    (self.begin, self.from) = (now, sent);
                    self.stage = Stage::Leaving { until: now + *length };
                }
                None
            }
            Stage::Leaving { until } => {
                if now >= *until {
                    self.stage = Stage::Arriving { end: now, to: sent, first: None };
                }
                None
            }
            Stage::Arriving { end, to, first } => {
                let when = |bytes: ByteCount| {
                    let share = (bytes - had).ratio((sum.delivered - had).max(ByteCount::new(1)));
                    at + Span::from_nanos(((now - at).as_nanos() as f64 * share.min(1.0)) as u64)
                };
                if first.is_none() && sum.delivered >= self.from {
                    *first = Some(when(self.from));
                }
                if first.is_none() {
                    self.without.rotate_right(1);
                    self.without[0] = whole.usual_rtt;
                }
                match *first {
                    Some(first) if sum.delivered >= *to => {
                        let length = *to - self.from;
                        if length < sum.packet * FEWEST {
                            return Some(Outcome::Nothing);
                        }
                        let (took, span) = (*end - self.begin, (when(*to) - first).max(LEAST_SPAN));
                        let (went, came) = (length / took, length / span);
                        self.stage = Stage::Settling { begin: now, to: *to, took, went, came, rtt: whole.usual_rtt };
                        None
                    }
                    _ => {
                        let is_late = now >= *end + sum.least_rtt * 2 + (*end - self.begin) * 4;
                        is_late.then_some(Outcome::Nothing)
                    }
                }
            }
            Stage::Settling { begin, to, took, went, came, rtt } => {
                *rtt = whole.usual_rtt.max(*rtt);
                let since = now - *begin;
                let is_smoothed = sum.delivered - *to >= sum.packet * (SMOOTHED * members);
                if (since < *took || !is_smoothed) && since < sum.least_rtt / LONGEST_WAIT {
                    return None;
                }
                let without = self.without.into_iter().min().unwrap_or_default();
                let waited = *rtt - without;
                let by_queue = (*went * *took) / (*took + waited);
                Some(Outcome::Carried(*went, (*came).min(by_queue)))
            }
        }
    }
}
