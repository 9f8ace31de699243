//! Number of members that a path needs, where the windows of those that there are limit the rate.
//!
//! A connection may be kept below its share of a path by a receiver's window, or by random losses,
//! after each of which its congestion control reduces its window. Both show by windows that are
//! full and do not grow, with no queue on the path but that of others. More members have more
//! windows, and each loss hits one of more members. They take nothing from other traffic: the total
//! stays what trains have shown.
//!
//! One step asks for at most four times as many members, because new windows take time to open.
//! Where losses keep the windows small, the loss probability `p` and the round-trip time `T` give
//! the mean window of CUBIC (RFC 9438, sections 5.1 and 4.3), and with it the number of members:
//!
//! ```text
//!   w = max(1.054 (T/p)^(3/4), (3/2p)^(1/2)) packets       members = 3/2 · rate · T / w
//! ```
//!
//! More members than that would have so few packets each that losses are detected by timeouts. If a
//! request brings no new member, none is made again.

use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

use super::aggregate::Aggregate;

/// Members that are asked for at once, for each that there is. Chosen: no test fails at 2 and 8.
const MEMBER_FACTOR: u64 = 4;
/// Most members; at a loss of 1e-4 on 1 Gbit/s and 300 ms, 60 carry over 90 % of the path
/// (`losses_that_few_members_cannot_bear_bring_more` in `crates/sim/tests/bundle.rs`). Chosen: no
/// test fails at 32 and 128.
pub(super) const MOST_MEMBERS: u64 = 64;
/// Round trips in a row in which the windows limit the rate, after which more members are asked
/// for. Chosen: no test fails at 2 and 6.
const LIMITED_ROUNDS: u64 = 3;
/// Packets lost in these round trips that show that the windows stay small although they grow.
/// Chosen: no test fails at 1 and 4.
const LEAST_LOSSES: u64 = 2;
/// Growth of the windows in these round trips that makes more members unnecessary. Chosen: no test
/// fails at 1/16 and 1/4.
const GROWTH_THRESHOLD: Ratio = Ratio::new(1, 8);
/// Least delay that counts as a queue, as a part of the round-trip time. Chosen: no test fails at
/// 1/32 and 1/8.
pub(super) const QUEUE_THRESHOLD: Ratio = Ratio::new(1, 16);
/// Packets in flight that each member is to have: with fewer, losses are found by timeouts. Chosen:
/// no test fails at 8 and 32.
const PACKETS_PER_MEMBER: u64 = 16;
/// Packets in flight that each member is to have where losses keep the windows small: enough for
/// fast recovery (`a_path_that_holds_few_packets_gets_no_more_members_than_share_them_well` in
/// `crates/sim/tests/bundle.rs`). Chosen: no test fails at 12 and 48.
const PACKETS_PER_LOSSY_MEMBER: u64 = 24;
/// Sum of the windows, as a multiple of what the path holds: losses do not come evenly. Chosen: no
/// test fails at 0.75 and 3.
const WINDOW_EXCESS: f64 = 1.5;
/// Windows that are smaller by this factor than losses would leave them are limited by something
/// else. Chosen: no test fails at 1 and 4.
const SMALL_WINDOW_FACTOR: u64 = 2;
/// Round trips in which new members show what they carry. Chosen: no test fails at 8 and 32.
const TRIAL_ROUNDS: u64 = 16;

/// Detector of congestion windows that limit the bundle's rate below what the path has, and of
/// which more members would be the remedy.
#[derive(Debug, Default)]
pub(super) struct Scarcity {
    limited: Option<Limited>,
    counted: Option<LossCount>,
    request: Option<Request>,
    /// The last request brought no new member.
    is_over: bool,
}

/// Counters when the counting of losses began: with the capacity known and all members there.
#[derive(Clone, Copy, Debug)]
struct LossCount {
    sent: ByteCount,
    retransmitted: u64,
}

/// State when the windows began to limit the rate.
#[derive(Clone, Copy, Debug)]
struct Limited {
    at: Time,
    retransmitted: u64,
    windows: Rate,
}

/// A request for more members, and the time for which it stands.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Number of members at that time.
    members: u64,
    /// Time by which new members show what they carry.
    until: Time,
}

impl Scarcity {
    /// Whether more members were requested a short time ago.
    pub(super) fn has_asked(&self) -> bool {
        self.request.is_some()
    }

    /// Processes a round trip in which `level` was the total ceiling; `is_held` if that limited the
    /// members, `is_others` if a queue is known to be that of others. Returns the number of members
    /// that there should be, if that is more than there are; `None` for [`TRIAL_ROUNDS`] after each
    /// request, and always after one that brought no new member.
    pub(super) fn update(&mut self, aggregate: &Aggregate, level: Rate, is_held: bool, is_others: bool) -> Option<u64> {
        let Aggregate { seen, members, .. } = *aggregate;
        if self.is_over {
            return None;
        }
        if let Some(request) = self.request {
            if seen.at >= request.until {
                (self.request, self.counted) = (None, None);
                self.is_over = members <= request.members;
            }
            return None;
        }
        let count = LossCount { sent: aggregate.sent, retransmitted: seen.retransmitted };
        let counted = *self.counted.get_or_insert(count);
        let has_queue = !is_others && aggregate.usual_rtt > seen.least_rtt + seen.least_rtt * QUEUE_THRESHOLD;
        if is_held || has_queue || seen.idle || !aggregate.windows_limit() {
            self.limited = None;
            return None;
        }
        let windows = aggregate.windows();
        let now = Limited { at: seen.at, retransmitted: seen.retransmitted, windows };
        let limited = *self.limited.get_or_insert(now);
        if seen.at - limited.at < seen.least_rtt * LIMITED_ROUNDS {
            return None;
        }
        self.limited = None;
        let lost = seen.retransmitted.saturating_sub(limited.retransmitted);
        if lost < LEAST_LOSSES && windows > limited.windows + limited.windows * GROWTH_THRESHOLD {
            return None;
        }
        let wanted = Self::wanted(aggregate, counted, level);
        if wanted <= members {
            return None;
        }
        self.request = Some(Request { members, until: seen.at + seen.least_rtt * TRIAL_ROUNDS });
        Some(wanted)
    }

    /// Number of members that fill the path, by the loss probability since `counted`.
    fn wanted(aggregate: &Aggregate, counted: LossCount, level: Rate) -> u64 {
        let Aggregate { seen, members, .. } = *aggregate;
        let packets = |bytes: ByteCount| bytes.as_u64() / seen.packet.as_u64().max(1);
        let most = packets(aggregate.in_flight()) / PACKETS_PER_MEMBER * MEMBER_FACTOR;
        let stepped = (members * MEMBER_FACTOR).min(MOST_MEMBERS).min(most);
        let loss = seen.retransmitted.saturating_sub(counted.retransmitted) as f64
            / packets(aggregate.sent - counted.sent).max(1) as f64;
        let window = mean_window(loss, seen.least_rtt);
        if ((packets(seen.window) * SMALL_WINDOW_FACTOR) as f64) < window * members as f64 {
            return stepped;
        }
        let all = packets(level * seen.least_rtt);
        stepped.min((all as f64 * WINDOW_EXCESS / window).ceil() as u64).min(all / PACKETS_PER_LOSSY_MEMBER)
    }
}

/// Mean congestion window of CUBIC in packets, at a loss probability: see the module's description.
pub(super) fn mean_window(loss: f64, round_trip: Span) -> f64 {
    (1.054 * (round_trip.as_secs_f64() / loss).powf(0.75)).max((1.5 / loss).sqrt())
}
