//! Detector of losses that keep the windows smaller than any number of connections makes up for.
//!
//! The windows of CUBIC follow from the loss probability and the round-trip time ([`mean_window`]). What the most members
//! ([`MOST_MEMBERS`]) carry with such windows may be less than the path has free, as behind a radio link: then a
//! congestion control is needed that does not take each loss for congestion. That rate is often found too low where losses are
//! many: what the most members carry is too little in any case below [`MUCH`], but on a path that has far less. Where so much is lost that nothing of the path could
//! be found, as [`HEAVY`] says, it is needed in any case: at a rate that the windows keep low nobody overflows anything.
//!
//! Losses count while no queue shows: those of a queue that overflows are the bundle's own, or of others like it.

use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

use super::aggregate::Aggregate;
use super::scarcity::{MOST_MEMBERS, QUEUE_THRESHOLD, mean_window};

/// Round trips over which losses are counted, at least and at most. Chosen; not varied.
const ROUNDS: u64 = 4;
const MOST_ROUNDS: u64 = 32;
/// Losses that tell of a probability, at least. Chosen; not varied.
const LEAST_LOSSES: u64 = 12;
/// Part of that rate that the most members have to carry. Chosen; not varied.
const MOST_CARRIED: Ratio = Ratio::new(2, 3);
/// Rate that the most members have to carry, but where the path has less than a quarter of what they do. Chosen; not varied.
const MUCH: Rate = Rate::from_bits_per_second(250_000_000);
/// Loss probability with which the rate that the path has free is not to be found. Chosen; not varied.
const HEAVY: f64 = 0.005;

/// Detector of losses that no number of members bears.
#[derive(Debug, Default)]
pub(super) struct Losses {
    since: Option<Count>,
    /// True once it was told.
    is_told: bool,
}

/// Sums at the time when the counting began.
#[derive(Clone, Copy, Debug)]
struct Count {
    at: Time,
    sent: ByteCount,
    retransmitted: u64,
}

impl Losses {
    /// Whether it has told that no number of members bears the losses.
    pub(super) fn are_told(&self) -> bool {
        self.is_told
    }

    /// Processes a round trip; `level` is the rate that the path is known to have free, `None` while it is not known. True once: when
    /// losses have shown that no number of members carries that.
    pub(super) fn update(&mut self, aggregate: &Aggregate, level: Option<Rate>) -> bool {
        let seen = &aggregate.seen;
        // All members see a queue of the path, and some are held up by a host that is busy.
        let has_queue = seen.rtt > seen.least_rtt + seen.least_rtt * QUEUE_THRESHOLD;
        let Some(level) = level.filter(|_| !has_queue && !self.is_told && !seen.idle) else {
            self.since = None;
            return false;
        };
        let now = Count { at: seen.at, sent: aggregate.sent, retransmitted: seen.retransmitted };
        let since = *self.since.get_or_insert(now);
        let lost = now.retransmitted.saturating_sub(since.retransmitted);
        let span = now.at - since.at;
        if span < seen.least_rtt * ROUNDS || lost < LEAST_LOSSES {
            if span > seen.least_rtt * MOST_ROUNDS {
                self.since = Some(now);
            }
            return false;
        }
        self.since = Some(now);
        let packets = (aggregate.sent - since.sent).as_u64() / seen.packet.as_u64().max(1);
        let loss = lost as f64 / packets.max(1) as f64;
        let most = most(loss, seen.least_rtt, seen.packet);
        let is_little = most < level * MOST_CARRIED || (most < MUCH && most < level * 4);
        self.is_told = loss >= HEAVY || is_little;
        self.is_told
    }
}

/// Rate that the most members carry at a loss probability.
fn most(loss: f64, round_trip: Span, packet: ByteCount) -> Rate {
    let packets = mean_window(loss, round_trip) * MOST_MEMBERS as f64;
    (packet * packets as u64) / round_trip
}
