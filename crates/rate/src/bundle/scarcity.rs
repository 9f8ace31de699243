//! Whether a path needs more members than a bundle has.
//!
//! What keeps a connection below its share of a path may be its own: a receiver's window, or losses
//! that come by chance, after each of which its congestion control takes back a part of its window.
//! It shows by windows that are all in use and do not grow, with no queue on the path but that of
//! others. More members have more windows, and a loss is one of many members'. They take nothing
//! from others: the total stays what trains have shown.
//!
//! Four times as many are asked for at most: each step costs the time that new windows take to open.
//! Where losses keep the windows small, their share `p` tells what a member of CUBIC keeps under way
//! in the mean at a round-trip time `T` (RFC 9438, sections 5.1 and 4.3), and so how many it takes:
//!
//! ```text
//!   w = max(1.054 (T/p)^(3/4), (3/2p)^(1/2)) packets       members = 3/2 · rate · T / w
//! ```
//!
//! More than that would have so few packets each that timeouts find what is lost. Where none came,
//! none is asked for again.

use icdc_units::{ByteCount, Rate, Time};

use super::whole::Whole;

/// Members that are asked for, for each that there is.
const STEP: u64 = 4;
/// The most members.
const MOST: u64 = 64;
/// Round trips in a row in which the windows are what limits.
const SCARCE: u64 = 3;
/// Packets lost meanwhile, or windows that do not grow by one in so many, tell that they stay small.
const LOST: u64 = 2;
const GROWTH: u64 = 8;
/// A queue below this share of the round trip is none.
const QUEUE: u64 = 16;
/// Packets that each member is to have under way: with fewer, what is lost is found by timeouts.
const PACKETS_OF_EACH: u64 = 16;
/// With so many packets of each member, what is lost by chance is found before a timeout.
const ENOUGH: u64 = 24;
/// What windows are to allow, as a multiple of what is to be carried: losses do not come evenly.
const SPARE: f64 = 1.5;
/// Windows that are so many times smaller than losses would let them be have another limit.
const SMALLER: u64 = 2;
/// Round trips in which new members show what they bring.
const TRIAL: u64 = 16;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Scarcity {
    since: Option<Since>,
    counted: Option<Counted>,
    asked: Option<Asked>,
    is_over: bool,
}

/// Since when losses are counted: with the rate known, and all members there.
#[derive(Clone, Copy, Debug)]
struct Counted {
    sent: ByteCount,
    retransmitted: u64,
}

/// Since when the windows have been what limits.
#[derive(Clone, Copy, Debug)]
struct Since {
    at: Time,
    retransmitted: u64,
    windows: Rate,
}

/// More were asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// As many as there were.
    members: u64,
    /// When they are to have shown what they bring.
    until: Time,
}

impl Scarcity {
    /// Whether more were asked for a short time ago.
    pub(super) fn has_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Takes note of a round trip, in which `level` was to be carried; the ceilings held the members
    /// down or not, and a queue is known to be others' or not. How many members there should be,
    /// where these are more than there are.
    pub(super) fn look(&mut self, whole: &Whole, level: Rate, is_held: bool, is_others: bool) -> Option<u64> {
        let Whole { seen, members, .. } = *whole;
        if self.is_over {
            return None;
        }
        if let Some(asked) = self.asked {
            if seen.at >= asked.until {
                (self.asked, self.counted) = (None, None);
                self.is_over = members <= asked.members;
            }
            return None;
        }
        let counted = *self.counted.get_or_insert(Counted { sent: whole.sent, retransmitted: seen.retransmitted });
        let has_queue = !is_others && whole.usual_rtt > seen.least_rtt + seen.least_rtt / QUEUE;
        if is_held || has_queue || seen.idle || !whole.windows_limit() {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(Since {
            at: seen.at,
            retransmitted: seen.retransmitted,
            windows: whole.windows(),
        });
        if seen.at - since.at < seen.least_rtt * SCARCE {
            return None;
        }
        self.since = None;
        let lost = seen.retransmitted.saturating_sub(since.retransmitted);
        if lost < LOST && whole.windows() > since.windows + since.windows / GROWTH {
            return None;
        }
        let packets = |bytes: ByteCount| bytes.as_u64() / seen.packet.as_u64().max(1);
        let stepped = (members * STEP).min(MOST).min(packets(whole.under_way()) / PACKETS_OF_EACH * STEP);
        let share = seen.retransmitted.saturating_sub(counted.retransmitted) as f64
            / packets(whole.sent - counted.sent).max(1) as f64;
        let window = (1.054 * (seen.least_rtt.as_secs_f64() / share).powf(0.75)).max((1.5 / share).sqrt());
        let wanted = if ((packets(seen.window) * SMALLER) as f64) < window * members as f64 {
            stepped
        } else {
            let all = packets(level * seen.least_rtt);
            stepped.min((all as f64 * SPARE / window).ceil() as u64).min(all / ENOUGH)
        };
        if wanted <= members {
            return None;
        }
        self.asked = Some(Asked { members, until: seen.at + seen.least_rtt * TRIAL });
        Some(wanted)
    }
}
