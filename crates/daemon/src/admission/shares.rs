//! Shares of the running sessions in the rates that a daemon limits: that of each key, and the sum of
//! all keys. Sans-I/O: bytes and time are passed in.
//!
//! Model. A session s of a key k, both directions counted together:
//!
//! ```text
//! r(s) = the higher of the rate since its last sample and that over WINDOW
//! w(s) = ∞               if r(s) ≥ ¾ of its share: it would take more
//!        3/2 r(s)        otherwise
//! fill(L, w₁ … wₙ)       max-min fair: gᵢ = min(max(wᵢ, L / 16 n), λ) with the largest λ for which
//!                        Σ gᵢ ≤ L; what all leave over, (L - Σ gᵢ) / n, is added to each
//! S(k) = fill(limit of the daemon, min(limit of k, Σ w(s) of k))
//! share(s) = fill(min(S(k), limit of k), w(s))
//! ```
//!
//! So keys that are active have equal shares of the daemon's limit, sessions that are active equal ones
//! of their key's, and what one does not use goes to the others within a sample. Σ share(s) never
//! exceeds a limit. A session that has just begun wants everything; one that has told nothing for WINDOW,
//! or is idle, has the small share by which it can show that it is not.
//!
//! Source: max-min fairness, Bertsekas and Gallager, *Data Networks*, 2nd edition, 6.5.2.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use icdc_protocol::TransferId;
use icdc_trust::PublicKey;
use icdc_units::{ByteCount, Rate, Span, Time};

/// Time over which a rate is averaged. Chosen: some times the longest pause that a copy makes when
/// its receiver handles a block at a slow rate; a session that has stopped gives its share up after it.
const WINDOW: Span = Span::from_secs(2);
/// Shortest time between two samples of a session.
const SAMPLE: Span = Span::from_millis(120);
/// Share of an idle session: this part of an equal one.
const IDLE_SHARE: u64 = 16;

/// A session: its standing key and its transfer.
pub(super) type SessionId = (PublicKey, TransferId);

/// The running sessions that have a share.
#[derive(Default)]
pub(super) struct Shares(BTreeMap<SessionId, Session>);

/// Limits at a time; `None`, or no entry, means no limit.
pub(super) struct LimitsNow {
    /// Limit of the sum of all keys.
    pub(super) all: Option<Rate>,
    /// Limits of single keys.
    pub(super) of_keys: BTreeMap<PublicKey, Rate>,
}

/// A running session: how much it has moved, and its share.
struct Session {
    /// Times and bytes moved until then, of the last [`WINDOW`] and one before it.
    samples: VecDeque<(Time, ByteCount)>,
    /// Time of its last sample, or of its beginning.
    heard: Time,
    wants: Want,
    share: Option<Rate>,
}

/// Rate that a session would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// As much as it gets.
    Everything,
    Rate(Rate),
}

impl Shares {
    /// Records that a session has moved this many bytes in all.
    pub(super) fn note(&mut self, id: &SessionId, moved: ByteCount, now: Time) {
        if let Some(session) = self.0.get_mut(id) {
            session.note(moved, now);
        }
    }

    /// Share of a session; `None` if nothing limits it.
    pub(super) fn share(&self, id: &SessionId) -> Option<Rate> {
        self.0.get(id)?.share
    }

    /// Shares the limits out anew to the sessions that run, of which those `elsewhere` are at another
    /// daemon, which gives them their shares.
    pub(super) fn share_out(
        &mut self,
        running: &BTreeSet<SessionId>,
        elsewhere: &BTreeSet<SessionId>,
        limits: &LimitsNow,
        now: Time,
    ) {
        self.0.retain(|id, _| running.contains(id));
        for id in running {
            self.0.entry(*id).or_insert_with(|| Session::new(now));
        }
        let mut keys: BTreeMap<PublicKey, Vec<(Option<SessionId>, u64)>> = BTreeMap::new();
        for (id, session) in &self.0 {
            keys.entry(id.0).or_default().push((Some(*id), session.wants(now)));
        }
        for id in elsewhere.difference(running) {
            keys.entry(id.0).or_default().push((None, u64::MAX));
        }
        let limit_of = |key: &PublicKey| limits.of_keys.get(key).map(|rate| rate.as_bits_per_second());
        let wants: Vec<u64> = keys
            .iter()
            .map(|(key, sessions)| {
                let all = sessions.iter().fold(0, |all: u64, (_, wants)| all.saturating_add(*wants));
                limit_of(key).map_or(all, |limit| limit.min(all))
            })
            .collect();
        let of_all = limits.all.map(|limit| fill(limit.as_bits_per_second(), &wants));
        for (at, (key, sessions)) in keys.iter().enumerate() {
            let of_all = of_all.as_ref().map(|shares| shares[at]);
            let limit = [of_all, limit_of(key)].into_iter().flatten().min();
            let wants: Vec<u64> = sessions.iter().map(|(_, wants)| *wants).collect();
            let shares = limit.map(|limit| fill(limit, &wants));
            for (at, id) in sessions.iter().enumerate().filter_map(|(at, (id, _))| Some((at, (*id)?))) {
                if let Some(session) = self.0.get_mut(&id) {
                    session.share = shares.as_ref().map(|shares| Rate::from_bits_per_second(shares[at]));
                }
            }
        }
    }
}

impl Session {
    fn new(now: Time) -> Self {
        Self { samples: VecDeque::new(), heard: now, wants: Want::Everything, share: None }
    }

    fn note(&mut self, moved: ByteCount, now: Time) {
        if self.samples.back().is_some_and(|(at, _)| now - *at < SAMPLE) {
            return;
        }
        self.heard = now;
        self.samples.push_back((now, moved));
        while self.samples.get(1).is_some_and(|(at, _)| now - *at >= WINDOW) {
            self.samples.pop_front();
        }
        let since = |sample: Option<&(Time, ByteCount)>| {
            sample.filter(|(at, _)| *at < now).map(|(at, before)| (moved - *before) / (now - *at))
        };
        let last = self.samples.len().checked_sub(2).and_then(|at| self.samples.get(at));
        let Some(rate) = since(self.samples.front()).max(since(last)) else { return };
        let is_at_share = self.share.is_some_and(|share| rate * 4 >= share * 3);
        self.wants = if is_at_share { Want::Everything } else { Want::Rate(rate * 3 / 2) };
    }

    /// Rate that the session would take, in bits per second; [`u64::MAX`] for everything.
    fn wants(&self, now: Time) -> u64 {
        match self.wants {
            _ if now - self.heard > WINDOW => 0,
            Want::Everything => u64::MAX,
            Want::Rate(rate) => rate.as_bits_per_second(),
        }
    }
}

/// Max-min fair shares of `limit` for those who want these rates; the sum is at most the limit, and
/// nobody's share is less than the part of an idle one.
fn fill(limit: u64, wants: &[u64]) -> Vec<u64> {
    let count = wants.len().max(1) as u64;
    let least = limit / (IDLE_SHARE * count);
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|at| wants[*at]);
    let (mut shares, mut left) = (vec![0; wants.len()], limit);
    for (done, at) in order.iter().enumerate() {
        let equal = left / (wants.len() - done) as u64;
        shares[*at] = wants[*at].max(least).min(equal);
        left -= shares[*at];
    }
    let more = left / count;
    shares.iter_mut().for_each(|share| *share += more);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1_600_000;

    fn id(key: u8, transfer: u8) -> SessionId {
        (PublicKey::from_bytes([key; 32]), [transfer; 16])
    }

    fn rate(bits: u64) -> Rate {
        Rate::from_bits_per_second(bits)
    }

    /// Sessions that try to move at rates of their own, or as fast as their shares allow.
    struct World {
        shares: Shares,
        tries: BTreeMap<SessionId, u64>,
        moved: BTreeMap<SessionId, u64>,
        elsewhere: BTreeSet<SessionId>,
        limits: LimitsNow,
        now: Time,
    }

    impl World {
        fn new(all: Option<u64>, of_keys: &[(u8, u64)]) -> Self {
            let of_keys = of_keys.iter().map(|(key, limit)| (id(*key, 0).0, rate(*limit))).collect();
            let limits = LimitsNow { all: all.map(rate), of_keys };
            let (tries, moved, elsewhere) = Default::default();
            Self { shares: Shares::default(), tries, moved, elsewhere, limits, now: Time::ORIGIN + Span::from_secs(9) }
        }

        /// Lets five seconds pass, in which the limits hold at every time; returns the shares.
        fn run(&mut self) -> Vec<u64> {
            for _ in 0..25 {
                let running = self.tries.keys().copied().collect();
                self.shares.share_out(&running, &self.elsewhere, &self.limits, self.now);
                self.now += Span::from_millis(200);
                for (id, tries) in &self.tries {
                    let share = self.shares.share(id).map_or(u64::MAX, Rate::as_bits_per_second);
                    let moved = self.moved.entry(*id).or_default();
                    *moved = moved.saturating_add(share.min(*tries) / 8 / 5);
                    self.shares.note(id, ByteCount::new(*moved), self.now);
                }
                self.check();
            }
            self.tries.keys().map(|id| self.shares.share(id).map_or(u64::MAX, Rate::as_bits_per_second)).collect()
        }

        fn check(&self) {
            let sum = |of: &dyn Fn(&SessionId) -> bool| {
                let ids = self.tries.keys().filter(|id| of(id));
                ids.fold(0, |sum: u64, id| sum + self.shares.share(id).map_or(0, Rate::as_bits_per_second))
            };
            assert!(self.limits.all.is_none_or(|all| sum(&|_| true) <= all.as_bits_per_second()));
            for (key, limit) in &self.limits.of_keys {
                assert!(sum(&|id| id.0 == *key) <= limit.as_bits_per_second());
            }
        }
    }

    #[test]
    fn one_session_has_all_and_several_have_equal_parts() {
        let mut world = World::new(None, &[(1, LIMIT)]);
        world.tries.insert(id(1, 1), u64::MAX);
        assert_eq!(world.run(), [LIMIT]);
        world.tries.insert(id(1, 2), u64::MAX);
        assert_eq!(world.run(), [LIMIT / 2; 2]);
        world.tries.insert(id(2, 1), u64::MAX);
        assert_eq!(world.run(), [LIMIT / 2, LIMIT / 2, u64::MAX], "the other key has no limit");
        world.tries.remove(&id(1, 1));
        assert_eq!(world.run(), [LIMIT, u64::MAX]);
    }

    #[test]
    fn what_slow_and_idle_ones_do_not_use_goes_to_the_others() {
        let mut world = World::new(None, &[(1, LIMIT)]);
        world.tries = BTreeMap::from([(id(1, 1), 0), (id(1, 2), LIMIT / 8), (id(1, 3), u64::MAX)]);
        let shares = world.run();
        assert_eq!(shares[0], LIMIT / 48);
        assert!((LIMIT / 8..LIMIT / 4).contains(&shares[1]), "{shares:?}");
        assert!(shares[2] > LIMIT * 3 / 4, "{shares:?}");
        // Whoever is idle no more has its part soon.
        world.tries.insert(id(1, 1), u64::MAX);
        let shares = world.run();
        assert!(shares[0] == shares[2] && shares[0] > LIMIT / 3, "{shares:?}");
    }

    #[test]
    fn keys_share_the_limit_of_all_however_many_sessions_they_have() {
        let mut world = World::new(Some(LIMIT), &[(3, LIMIT / 10)]);
        world.tries = (1..=4).map(|transfer| (id(1, transfer), u64::MAX)).collect();
        world.tries.insert(id(2, 1), u64::MAX);
        assert_eq!(world.run(), [LIMIT / 8, LIMIT / 8, LIMIT / 8, LIMIT / 8, LIMIT / 2]);
        world.tries.insert(id(3, 1), u64::MAX);
        let shares = world.run();
        assert_eq!((shares[4], shares[5]), (LIMIT * 9 / 20, LIMIT / 10), "{shares:?}");
    }

    #[test]
    fn sessions_at_another_daemon_have_their_part() {
        let mut world = World::new(Some(LIMIT), &[]);
        world.tries.insert(id(1, 1), u64::MAX);
        world.elsewhere.extend([id(1, 2), id(1, 3), id(2, 1)]);
        assert_eq!(world.run(), [LIMIT / 6]);
    }

    #[test]
    fn limits_come_and_go_and_may_be_zero() {
        let mut world = World::new(None, &[]);
        world.tries = BTreeMap::from([(id(1, 1), LIMIT), (id(2, 1), LIMIT)]);
        assert_eq!(world.run(), [u64::MAX; 2]);
        for limit in [LIMIT, 0, LIMIT / 2] {
            world.limits.all = Some(rate(limit));
            assert_eq!(world.run(), [limit / 2; 2]);
        }
        world.limits.all = None;
        assert_eq!(world.run(), [u64::MAX; 2]);
    }

    #[test]
    fn a_session_that_is_not_heard_of_is_idle() {
        let mut world = World::new(Some(LIMIT), &[]);
        world.tries.insert(id(1, 1), u64::MAX);
        world.run();
        let silent = BTreeSet::from([id(1, 1), id(2, 1)]);
        for seconds in [0, 3] {
            let now = world.now + Span::from_secs(seconds);
            world.shares.note(&id(1, 1), ByteCount::new(u64::MAX / 2), now);
            world.shares.share_out(&silent, &BTreeSet::new(), &world.limits, now);
        }
        assert_eq!(world.shares.share(&id(2, 1)), Some(rate(LIMIT / 32)));
    }

    #[test]
    fn the_smallest_wants_are_met_first() {
        assert_eq!(fill(1600, &[]), Vec::<u64>::new());
        assert_eq!(fill(1600, &[u64::MAX, 400, 600]), [600, 400, 600]);
        assert_eq!(fill(1600, &[u64::MAX, 400, 100]), [1100, 400, 100]);
        assert_eq!(fill(1600, &[200, 400]), [700, 900]);
        assert_eq!(fill(0, &[u64::MAX, 0]), [0, 0]);
    }
}
