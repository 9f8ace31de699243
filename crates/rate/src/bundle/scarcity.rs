//! Whether a path needs more members than a bundle has.
//!
//! What keeps a connection below its share of a path may be its own: a receiver's window, or losses
//! that come by chance, after each of which its congestion control takes back a part of its window.
//! It shows by windows that are all in use and do not grow, with no queue on the path but that of
//! others. More members have more windows, and a loss is one of many members'. They take nothing
//! from others: the total stays what trains have shown.
//!
//! Four times as many are asked for: each step costs the time that new windows take to open. Where
//! none came, none is asked for again.

use icdc_units::{Rate, Time};

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
/// Round trips in which new members show what they bring.
const TRIAL: u64 = 16;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Scarcity {
    since: Option<Since>,
    asked: Option<Asked>,
    is_over: bool,
}

/// Since when the windows have been what limits.
#[derive(Clone, Copy, Debug)]
struct Since {
    at: Time,
    again: u64,
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
    /// Takes note of a round trip, in which the ceilings held the members down or not, and a queue
    /// is known to be others' or not. How many members there should be, where these are more than
    /// there are.
    pub(super) fn look(&mut self, whole: &Whole, is_held: bool, is_others: bool) -> Option<u64> {
        let Whole { seen, members, .. } = *whole;
        if self.is_over {
            return None;
        }
        if let Some(asked) = self.asked {
            if seen.at < asked.until {
                return None;
            }
            self.asked = None;
            self.is_over = members <= asked.members;
            return None;
        }
        let has_queue = !is_others && whole.usual_rtt > seen.least_rtt + seen.least_rtt / QUEUE;
        if is_held || has_queue || seen.idle || !whole.windows_limit() {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(Since { at: seen.at, again: seen.again, windows: whole.windows() });
        if seen.at - since.at < seen.least_rtt * SCARCE {
            return None;
        }
        let lost = seen.again.saturating_sub(since.again);
        if lost < LOST && whole.windows() > since.windows + since.windows / GROWTH {
            self.since = None;
            return None;
        }
        let packets = whole.under_way().as_u64() / seen.packet.as_u64().max(1);
        let wanted = (members * STEP).min(MOST).min(packets / PACKETS_OF_EACH * STEP);
        self.since = None;
        if wanted <= members {
            return None;
        }
        self.asked = Some(Asked { members, until: seen.at + seen.least_rtt * TRIAL });
        Some(wanted)
    }
}
