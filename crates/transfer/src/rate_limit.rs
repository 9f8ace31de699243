//! Limit of a session's rate: what the user allows, what a daemon allows the key in use, what the receiver's disk takes off
//! the ring, and, where the connection's congestion control does not find it, what the path has free.

use std::sync::{Arc, Mutex, MutexGuard};

use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::Feedback;
use icdc_rate::bundle::{Bundle, Member, Number, Owed};
use icdc_rate::disk_ceiling::{self, RingState};
use icdc_rate::path_ceiling::{Decision, State};
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::event::{Event, PaceReason, Stage};
use crate::rate_share::RateShare;

/// Time between two words of the receiver.
const FEEDBACK: Span = Span::from_millis(100);

/// A limit for all connections together, and the stage that it is owed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) rate: Rate,
    pub(crate) stage: Stage,
}

/// See the module's description.
pub(crate) struct RateLimit {
    user: Option<Rate>,
    /// What the user allows several runs together, of which this one has a share.
    share: Option<Arc<RateShare>>,
    moving: Mutex<Moving>,
}

struct Moving {
    /// Limit that the daemon sets to the key in use.
    key: Option<Rate>,
    /// `None` where congestion control finds the rate by itself.
    bundle: Option<Bundle>,
    disk: Option<Rate>,
    limit: Option<Limit>,
}

/// What one look has changed.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The limit is another one.
    pub(crate) limit: bool,
    pub(crate) event: Option<Event>,
}

/// What to do after a look at the connections.
#[derive(Debug)]
pub(crate) struct Steps {
    /// New ceilings of connections.
    pub(crate) ceilings: Vec<(Number, Rate)>,
    pub(crate) state: State,
    pub(crate) event: Option<Event>,
    /// So many connections there should be, where these are more than there are.
    pub(crate) wanted: Option<u64>,
    /// When to look again.
    pub(crate) next: Time,
}

impl RateLimit {
    /// With `bundle`, the rate that the path has free is found here.
    pub(crate) fn new(user: Option<Rate>, share: Option<Arc<RateShare>>, bundle: Option<Bundle>) -> Self {
        let limit = Self { user, share, moving: Mutex::new(Moving { key: None, bundle, disk: None, limit: None }) };
        limit.lock().changes(limit.user());
        limit
    }

    /// What the user allows now.
    pub(crate) fn user(&self) -> Option<Rate> {
        let share = self.share.as_ref().and_then(|share| share.get());
        [self.user, share].into_iter().flatten().min()
    }

    /// Takes note of what the daemon allows the key in use; true if the limit is another one.
    pub(crate) fn allow(&self, key: Option<Rate>) -> bool {
        let mut moving = self.lock();
        moving.key = key;
        moving.changes(self.user())
    }

    /// What limits now; `None` if nothing but the path does.
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.lock().limit
    }

    /// What the path has free, where that is found here and known.
    pub(crate) fn free(&self) -> Option<Rate> {
        self.lock().bundle.as_ref().and_then(Bundle::capacity)
    }

    /// Whether the rate that the path has free is found here.
    pub(crate) fn is_bundled(&self) -> bool {
        self.lock().bundle.is_some()
    }

    /// Whether a connection should take a frame of this length while so much is left to be sent.
    pub(crate) fn takes(&self, number: Number, frame: ByteCount, unsent: ByteCount) -> bool {
        self.lock().bundle.as_ref().is_none_or(|bundle| bundle.takes(number, frame, unsent))
    }

    /// The connection that holds up the end, where each owes so much.
    pub(crate) fn holding_up(&self, owed: &[Owed]) -> Option<Number> {
        let block = ByteCount::new(BLOCK_SIZE as u64);
        self.lock().bundle.as_ref()?.holding_up(owed, block)
    }

    /// Takes note of what the receiver said last.
    pub(crate) fn look(&self, feedback: &Feedback, round_trip: Span) -> Change {
        let mut moving = self.lock();
        let disk = disk_ceiling(feedback, round_trip);
        let event = (disk.is_some() != moving.disk.is_some()).then(|| {
            let reason = if disk.is_some() { PaceReason::RingFills } else { PaceReason::RingEmptied };
            Event::Pace { ceiling_bps: disk.map_or(0, Rate::as_bits_per_second), reason }
        });
        moving.disk = disk;
        Change { limit: moving.changes(self.user()), event }
    }

    /// Takes note of what the kernel says of all connections; `None` where congestion control finds
    /// the rate.
    pub(crate) fn steer(&self, now: Time, members: &[(Number, Member)]) -> Option<Steps> {
        let mut moving = self.lock();
        let most = [self.user(), moving.key, moving.disk].into_iter().flatten().min().unwrap_or(Rate::MAX);
        let bundle = moving.bundle.as_mut()?;
        let plan = bundle.look(now, members, most);
        let (state, next) = (bundle.state(), bundle.next_look());
        moving.changes(self.user());
        Some(Steps {
            ceilings: plan.ceilings,
            state,
            event: plan.decision.as_ref().map(event),
            wanted: plan.wanted,
            next,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Moving> {
        self.moving.lock().expect("no panic while a limit is noted")
    }
}

impl Moving {
    /// Brings the limit up to date; whether it is another one.
    fn changes(&mut self, user: Option<Rate>) -> bool {
        let least = self.least(user);
        std::mem::replace(&mut self.limit, least) != least
    }

    /// The lowest of all limits.
    fn least(&self, user: Option<Rate>) -> Option<Limit> {
        let path = self.bundle.as_ref().map(Bundle::level).filter(|level| *level < Rate::MAX);
        // Of equal ones the first counts: a user cannot lift that of the key.
        let user = [(self.key, Stage::MaxRate), (user, Stage::RateCeiling)];
        let moving = [(self.disk, Stage::DestinationDisk), (path, Stage::Network)];
        let limits = user.into_iter().chain(moving).filter_map(|(rate, stage)| Some(Limit { rate: rate?, stage }));
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

    fn look(limit: &RateLimit, ring_used: u32) -> Change {
        limit.look(&feedback(ring_used), Span::ZERO)
    }

    #[test]
    fn the_lower_of_disk_and_user_counts_and_is_named() {
        let user = Rate::from_bits_per_second(300_000_000);
        let limit = RateLimit::new(Some(user), None, None);
        assert_eq!(limit.limit(), Some(Limit { rate: user, stage: Stage::RateCeiling }));
        assert!(!look(&limit, 2).limit);
        assert!(!look(&limit, 16).limit, "the disk allows more than the user");
        assert!(look(&limit, 48).limit);
        assert!(limit.limit().is_some_and(|limit| limit.stage == Stage::DestinationDisk && limit.rate < user));
        assert!(look(&limit, 2).limit);
        assert_eq!(limit.limit().map(|limit| limit.stage), Some(Stage::RateCeiling));
    }

    #[test]
    fn a_share_counts_as_the_users_limit_and_follows_what_it_is_set_to() {
        let (user, half) = (Rate::from_bits_per_second(200_000_000), Rate::from_bits_per_second(100_000_000));
        let share = Arc::new(RateShare::new(half));
        let limit = RateLimit::new(Some(user), Some(Arc::clone(&share)), None);
        assert_eq!(limit.limit(), Some(Limit { rate: half, stage: Stage::RateCeiling }));
        share.set(Rate::MAX);
        assert!(look(&limit, 2).limit);
        assert_eq!(limit.limit(), Some(Limit { rate: user, stage: Stage::RateCeiling }));
        share.set(half);
        assert!(look(&limit, 2).limit);
        assert_eq!(limit.limit().map(|limit| limit.rate), Some(half));
    }

    #[test]
    fn the_limit_of_a_key_is_named_unless_the_user_allows_less() {
        let (user, key) = (Rate::from_bits_per_second(200_000_000), Rate::from_bits_per_second(100_000_000));
        let limit = RateLimit::new(Some(user), None, None);
        assert!(limit.allow(Some(key)));
        assert_eq!(limit.limit(), Some(Limit { rate: key, stage: Stage::MaxRate }));
        assert!(!limit.allow(Some(key)) && limit.allow(Some(user)));
        assert_eq!(limit.limit(), Some(Limit { rate: user, stage: Stage::MaxRate }));
        assert!(limit.allow(Some(Rate::MAX)));
        assert_eq!(limit.limit(), Some(Limit { rate: user, stage: Stage::RateCeiling }));
    }

    #[test]
    fn a_ring_that_fills_and_empties_is_an_event_each_and_an_empty_one_sets_no_limit() {
        let limit = RateLimit::new(None, None, None);
        assert_eq!(limit.limit(), None);
        assert!(look(&limit, 2).event.is_none());
        let reason = |change: Change| match change.event {
            Some(Event::Pace { reason, .. }) => Some(reason),
            _ => None,
        };
        assert_eq!(reason(look(&limit, 20)), Some(PaceReason::RingFills));
        assert_eq!(reason(look(&limit, 21)), None);
        assert_eq!(reason(look(&limit, 0)), Some(PaceReason::RingEmptied));
        assert_eq!(limit.limit(), None);
    }
}
