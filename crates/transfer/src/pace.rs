//! How fast a session may send: what the user allows, what the receiver's disk takes off the ring, and, where the
//! connection's congestion control does not find it, what the path has free.

use std::sync::Mutex;

use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::Feedback;
use icdc_rate::disk_ceiling::{self, RingState};
use icdc_rate::path_ceiling::{Decision, State, Steering};
use icdc_tcp::TcpInfo;
use icdc_tuning::observation;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::event::{Event, PaceReason, Stage};

/// Time between two words of the receiver.
const FEEDBACK: Span = Span::from_millis(100);

/// A limit for all connections together, and the stage that it is owed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) rate: Rate,
    pub(crate) stage: Stage,
}

pub(crate) struct Pace {
    user: Option<Rate>,
    moving: Mutex<Moving>,
}

struct Moving {
    /// `None` where congestion control finds the rate by itself.
    steering: Option<Steering>,
    path: Option<Rate>,
    disk: Option<Rate>,
    limit: Option<Limit>,
}

/// What one look has changed.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The limit is another one.
    pub(crate) limit: bool,
    /// Of what finds the rate that the path has free, if that is done here.
    pub(crate) state: Option<State>,
    pub(crate) events: Vec<Event>,
}

impl Pace {
    /// With `steering`, the rate that the path has free is found here.
    pub(crate) fn new(user: Option<Rate>, steering: Option<Steering>) -> Self {
        let path = steering.as_ref().map(Steering::ceiling).filter(|ceiling| *ceiling < Rate::MAX);
        let mut moving = Moving { steering, path, disk: None, limit: None };
        moving.limit = moving.least(user);
        Self { user, moving: Mutex::new(moving) }
    }

    /// What limits now; `None` if nothing but the path does.
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.moving.lock().expect("no panic while a limit is noted").limit
    }

    /// What the path has free, where that is found here and known.
    pub(crate) fn free(&self) -> Option<Rate> {
        let moving = self.moving.lock().expect("no panic while a limit is noted");
        moving.path.filter(|_| moving.steering.as_ref().is_some_and(|steering| steering.state() != State::Climb))
    }

    /// Takes note of what the receiver said last, and of what the kernel says of the first of `connections`.
    pub(crate) fn look(&self, now: Time, feedback: &Feedback, tcp: Option<&TcpInfo>, connections: u64) -> Change {
        let mut moving = self.moving.lock().expect("no panic while a limit is noted");
        let mut change = Change::default();
        let round_trip = tcp.map_or(Span::ZERO, |info| info.rtt);
        let disk = disk_ceiling(feedback, round_trip);
        if disk.is_some() != moving.disk.is_some() {
            let reason = if disk.is_some() { PaceReason::RingFills } else { PaceReason::RingEmptied };
            change.events.push(Event::Pace { ceiling_bps: disk.map_or(0, Rate::as_bits_per_second), reason });
        }
        moving.disk = disk;
        let steering = moving.steering.as_mut().zip(tcp.and_then(|info| observation(now, info)));
        if let Some(decision) = steering.and_then(|(steering, observation)| steering.observe(&observation)) {
            moving.path = Some(decision.ceiling * connections);
            change.events.push(event(&decision));
        }
        change.state = moving.steering.as_ref().map(Steering::state);
        let least = moving.least(self.user);
        change.limit = moving.limit != least;
        moving.limit = least;
        change
    }
}

impl Moving {
    /// The lowest of all limits.
    fn least(&self, user: Option<Rate>) -> Option<Limit> {
        let limits = [(user, Stage::RateCeiling), (self.disk, Stage::DestinationDisk), (self.path, Stage::Network)];
        let limits = limits.into_iter().filter_map(|(rate, stage)| Some(Limit { rate: rate?, stage }));
        limits.min_by_key(|limit| limit.rate)
    }
}

fn disk_ceiling(feedback: &Feedback, round_trip: Span) -> Option<Rate> {
    let state = RingState {
        waiting: feedback.ring_used,
        blocks: feedback.ring_blocks,
        size: ByteCount::new(u64::from(feedback.ring_blocks) * BLOCK_SIZE as u64),
        drained: feedback.write_rate.map(Rate::from_bytes_per_second),
    };
    disk_ceiling::ceiling(&state, round_trip + FEEDBACK)
}

fn event(decision: &Decision) -> Event {
    tracing::debug!(state = ?decision.state, reason = ?decision.reason, ceiling = %decision.ceiling, "pace");
    let ceiling_bps = if decision.ceiling == Rate::MAX { 0 } else { decision.ceiling.as_bits_per_second() };
    Event::Pace { ceiling_bps, reason: decision.reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(ring_used: u32) -> Feedback {
        Feedback { ring_used, ring_blocks: 64, write_rate: Some(50_000_000), ..Feedback::default() }
    }

    fn look(pace: &Pace, ring_used: u32) -> Change {
        pace.look(Time::ORIGIN, &feedback(ring_used), None, 1)
    }

    #[test]
    fn the_lower_of_disk_and_user_counts_and_is_named() {
        let user = Rate::from_bits_per_second(300_000_000);
        let pace = Pace::new(Some(user), None);
        assert_eq!(pace.limit(), Some(Limit { rate: user, stage: Stage::RateCeiling }));
        assert!(!look(&pace, 2).limit);
        assert!(!look(&pace, 16).limit, "the disk allows more than the user");
        assert!(look(&pace, 48).limit);
        assert!(pace.limit().is_some_and(|limit| limit.stage == Stage::DestinationDisk && limit.rate < user));
        assert!(look(&pace, 2).limit);
        assert_eq!(pace.limit().map(|limit| limit.stage), Some(Stage::RateCeiling));
    }

    #[test]
    fn a_ring_that_fills_and_empties_is_an_event_each_and_an_empty_one_sets_no_limit() {
        let pace = Pace::new(None, None);
        assert_eq!(pace.limit(), None);
        assert!(look(&pace, 2).events.is_empty());
        let reason = |change: Change| {
            change.events.into_iter().find_map(|event| match event {
                Event::Pace { reason, .. } => Some(reason),
                _ => None,
            })
        };
        assert_eq!(reason(look(&pace, 20)), Some(PaceReason::RingFills));
        assert_eq!(reason(look(&pace, 21)), None);
        assert_eq!(reason(look(&pace, 0)), Some(PaceReason::RingEmptied));
        assert_eq!(pace.limit(), None);
    }
}
