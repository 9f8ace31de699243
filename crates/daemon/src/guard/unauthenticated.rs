//! Limits for unauthenticated connections (sans-I/O): how many there may be, which of them get a
//! handshake, and which is closed when there are too many. They hold for all together: an address
//! or prefix has no limit of its own, only a share.
//!
//! ```text
//! silent ──whole ClientHello──► waiting ──place, pace──► handshake ──first message──► known (leaves)
//! ```
//!
//! Room and places are shared by origin, level by level: providers' prefixes, then sites' within
//! one, then addresses.
//!
//! * **Room** ([`Limits::connections`]). When it is used up, a connection goes from the prefix that
//!   holds most: a silent one before one that waits, and one that waits before a handshake.
//!   Somebody alone never goes for a crowd.
//! * **Places** ([`Limits::handshakes`]). Who waits gets one in the turn of its prefix: the prefix
//!   with the fewest handshakes first, then the one that was served longest ago. When all are
//!   taken, a prefix gives one up if it has two more than the one that waits; else the longest
//!   handshake does, once it has had [`Limits::undisturbed`].
//! * **Pace** ([`Limits::per_second`]): a handshake costs a key exchange and a signature, whoever
//!   asks for it.
//!
//! So a crowd of N prefixes makes somebody alone wait for at most N + 1 turns, each of 1 /
//! `per_second` or of `undisturbed` / `handshakes`, whichever is longer; and a handshake that has
//! begun has `undisturbed` for its round trip.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use icdc_units::{Span, Time};

use super::origin::{Origin, Prefix};

/// Limits on unauthenticated connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Time limit from the accept to the first message.
    pub(crate) patience: Span,
    /// Most connections that may be on their way to the first message at a time.
    pub(crate) connections: usize,
    /// Most of these connections that may be in or behind the handshake.
    pub(crate) handshakes: usize,
    /// Time for which a handshake keeps its place though others of an equal share wait: a long
    /// round trip, and loss on it.
    pub(crate) undisturbed: Span,
    /// Most handshakes that are begun in a second, on average.
    pub(crate) per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            patience: Span::from_secs(10),
            connections: 4096,
            handshakes: 256,
            undisturbed: Span::from_secs(2),
            per_second: 500,
        }
    }
}

/// Action for the accept loop to carry out: begin a connection's handshake, or close the
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Begin the handshake of the connection with this number.
    Begin(u64),
    /// Close the connection with this number, which is no longer tracked.
    Close(u64),
}

/// The unauthenticated connections and the limits on them.
pub(super) struct Unauthenticated {
    limits: Limits,
    /// The connections by number; all have the same patience, so the first is the first that is
    /// late.
    entries: BTreeMap<u64, Connection>,
    all: Group,
    /// Handshakes in progress by the times at which they began.
    begun: BTreeSet<(Time, u64)>,
    next: u64,
    /// Number of the next turn, in which a connection begins its handshake.
    turn: u64,
    /// Time at which the handshakes begun so far would all have been due at an even pace.
    paced: Time,
}

/// An unauthenticated connection.
struct Connection {
    origin: Origin,
    deadline: Time,
    stage: Stage,
}

/// Stage of an unauthenticated connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The connection's ClientHello has not arrived completely.
    Silent,
    /// The connection waits for a handshake.
    Waiting,
    /// The connection's handshake has begun, or is complete without a first message.
    Handshake { since: Time },
}

impl Unauthenticated {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            all: Group::default(),
            begun: BTreeSet::new(),
            next: 0,
            turn: 0,
            paced: Time::from_nanos(0),
        }
    }

    /// Number of unauthenticated connections.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Adds a connection; returns its number, and that of the connection that has to be closed for
    /// it, if any.
    pub(super) fn arrive(&mut self, origin: Origin, now: Time) -> (u64, Option<u64>) {
        let number = self.next;
        self.next += 1;
        let entry = Connection { origin, deadline: now + self.limits.patience, stage: Stage::Silent };
        self.all.put(origin.prefixes(), number, entry.stage);
        self.entries.insert(number, entry);
        let full = self.entries.len() > self.limits.connections;
        (number, if full { self.evict() } else { None })
    }

    /// Removes a connection to make room; returns its number.
    pub(super) fn evict(&mut self) -> Option<u64> {
        let number = self.all.most_expendable()?;
        self.forget(number);
        Some(number)
    }

    /// Records that a connection has sent its whole ClientHello and waits for a handshake.
    pub(super) fn spoke(&mut self, number: u64) {
        if self.entries.get(&number).is_some_and(|entry| entry.stage == Stage::Silent) {
            self.move_to(number, Stage::Waiting);
        }
    }

    /// Whether a connection is still unauthenticated.
    pub(super) fn contains(&self, number: u64) -> bool {
        self.entries.contains_key(&number)
    }

    /// Time by which a connection must have sent its first message; `None` if it is not tracked.
    pub(super) fn deadline(&self, number: u64) -> Option<Time> {
        self.entries.get(&number).map(|entry| entry.deadline)
    }

    /// Removes a connection that has become known, or is gone.
    pub(super) fn forget(&mut self, number: u64) {
        if let Some(entry) = self.entries.remove(&number) {
            self.all.take(entry.origin.prefixes(), number, entry.stage);
            if let Stage::Handshake { since } = entry.stage {
                self.begun.remove(&(since, number));
            }
        }
    }

    /// Returns the actions that are due: closing late connections, beginning handshakes.
    pub(super) fn advance(&mut self, now: Time) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((&number, entry)) = self.entries.first_key_value()
            && entry.deadline <= now
        {
            self.forget(number);
            steps.push(Step::Close(number));
        }
        while let Some((number, origin)) = self.next_in_turn()
            && self.is_due(now)
        {
            if self.all.busy.len() >= self.limits.handshakes {
                let Some(victim) = self.place_for(&origin, now) else { break };
                self.forget(victim);
                steps.push(Step::Close(victim));
            }
            self.move_to(number, Stage::Handshake { since: now });
            self.begun.insert((now, number));
            self.turn += 1;
            self.all.note_turn(origin.prefixes(), self.turn);
            self.paced = self.paced.max(now - self.burst()) + self.interval();
            steps.push(Step::Begin(number));
        }
        steps
    }

    /// Time at which [`Unauthenticated::advance`] has something to do, if nothing happens before;
    /// `None` if it has not.
    pub(super) fn next_event(&self) -> Option<Time> {
        let late = self.entries.first_key_value().map(|(_, entry)| entry.deadline);
        let turn = (!self.all.waiting.is_empty()).then(|| match self.begun.first() {
            Some((since, _)) if self.all.busy.len() >= self.limits.handshakes => {
                self.paced.max(*since + self.limits.undisturbed)
            }
            _ => self.paced,
        });
        late.into_iter().chain(turn).min()
    }

    /// Interval between handshakes at an even pace.
    fn interval(&self) -> Span {
        Span::from_nanos(1_000_000_000 / u64::from(self.limits.per_second.max(1)))
    }

    /// Time by which handshakes may run ahead of the even pace: after a pause, as many as there are
    /// places may begin at once.
    fn burst(&self) -> Span {
        self.interval() * self.limits.handshakes as u64
    }

    /// Whether the pace allows a handshake at `now`.
    fn is_due(&self, now: Time) -> bool {
        self.paced <= now
    }

    /// Number and origin of the connection whose turn it is; `None` if none waits.
    fn next_in_turn(&self) -> Option<(u64, Origin)> {
        let number = self.all.next_in_turn()?;
        self.entries.get(&number).map(|entry| (number, entry.origin))
    }

    /// Number of the connection whose handshake gives its place to one from `origin`; `None` if
    /// none has to.
    fn place_for(&self, origin: &Origin, now: Time) -> Option<u64> {
        let longest = || self.begun.first().filter(|(since, _)| *since + self.limits.undisturbed <= now);
        self.all.surplus(origin.prefixes()).or_else(|| longest().map(|(_, number)| *number))
    }

    /// Moves a connection to another stage, also in the groups of its prefixes.
    fn move_to(&mut self, number: u64, stage: Stage) {
        if let Some(entry) = self.entries.get_mut(&number) {
            self.all.take(entry.origin.prefixes(), number, entry.stage);
            entry.stage = stage;
            self.all.put(entry.origin.prefixes(), number, stage);
        }
    }
}

/// The connections of a prefix, by stage and by the prefixes within it.
#[derive(Default)]
struct Group {
    silent: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
    busy: BTreeSet<u64>,
    /// Number of the turn in which a connection of the prefix last began a handshake.
    last_turn: u64,
    inner: BTreeMap<Prefix, Group>,
}

impl Group {
    fn len(&self) -> usize {
        self.silent.len() + self.waiting.len() + self.busy.len()
    }

    /// Connections of the group in this stage, by number.
    fn at(&mut self, stage: Stage) -> &mut BTreeSet<u64> {
        match stage {
            Stage::Silent => &mut self.silent,
            Stage::Waiting => &mut self.waiting,
            Stage::Handshake { .. } => &mut self.busy,
        }
    }

    /// Adds a connection to this group and to those of the narrower prefixes `within` it.
    fn put(&mut self, within: &[Prefix], number: u64, stage: Stage) {
        self.at(stage).insert(number);
        if let [first, rest @ ..] = within {
            self.inner.entry(*first).or_default().put(rest, number, stage);
        }
    }

    /// Removes a connection from this group and from those of the narrower prefixes `within` it.
    fn take(&mut self, within: &[Prefix], number: u64, stage: Stage) {
        self.at(stage).remove(&number);
        if let [first, rest @ ..] = within
            && let Some(inner) = self.inner.get_mut(first)
        {
            inner.take(rest, number, stage);
            if inner.len() == 0 {
                self.inner.remove(first);
            }
        }
    }

    /// Records for this group and those of the prefixes `within` it in which turn one of their
    /// connections last began a handshake.
    fn note_turn(&mut self, within: &[Prefix], turn: u64) {
        self.last_turn = turn;
        if let [first, rest @ ..] = within
            && let Some(inner) = self.inner.get_mut(first)
        {
            inner.note_turn(rest, turn);
        }
    }

    /// Number of the connection to close first, of the prefix that holds most: the oldest silent
    /// one, else the last that waits, else the oldest handshake.
    fn most_expendable(&self) -> Option<u64> {
        let oldest = |group: &Self| group.silent.first().copied().unwrap_or(u64::MAX);
        match self.inner.values().max_by_key(|group| (group.len(), Reverse(oldest(group)))) {
            Some(largest) => largest.most_expendable(),
            None => self.silent.first().or(self.waiting.last()).or(self.busy.first()).copied(),
        }
    }

    /// Number of the connection whose turn it is, of the prefix with the fewest handshakes; `None`
    /// if none waits.
    fn next_in_turn(&self) -> Option<u64> {
        let waiting = self.inner.values().filter(|group| !group.waiting.is_empty());
        match waiting.min_by_key(|group| (group.busy.len(), group.last_turn, group.waiting.first().copied())) {
            Some(first) => first.next_in_turn(),
            None => self.waiting.first().copied(),
        }
    }

    /// Number of the oldest handshake of a prefix that has two more than the prefix beside it in
    /// which a connection waits; `None` if no prefix has.
    fn surplus(&self, within: &[Prefix]) -> Option<u64> {
        let [first, rest @ ..] = within else { return None };
        let own = self.inner.get(first)?;
        let most = self.inner.values().max_by_key(|group| group.busy.len())?;
        match most.busy.len() > own.busy.len() + 1 {
            true => most.oldest_of_the_busiest(),
            false => own.surplus(rest),
        }
    }

    /// Number of the oldest handshake in the prefix that has most of them.
    fn oldest_of_the_busiest(&self) -> Option<u64> {
        match self.inner.values().max_by_key(|group| group.busy.len()) {
            Some(busiest) => busiest.oldest_of_the_busiest(),
            None => self.busy.first().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const START: Time = Time::from_nanos(1_000_000_000_000);

    fn origin(address: &str) -> Origin {
        address.parse::<IpAddr>().unwrap().into()
    }

    /// Load under which a single client of a long path connects.
    struct Scene {
        unauthenticated: Unauthenticated,
        now: Time,
        begun: BTreeMap<u64, Time>,
        closed: BTreeSet<u64>,
    }

    impl Scene {
        fn new(limits: Limits) -> Self {
            Self {
                unauthenticated: Unauthenticated::new(limits),
                now: START,
                begun: BTreeMap::new(),
                closed: BTreeSet::new(),
            }
        }

        fn arrive(&mut self, address: Origin, speaks: bool) -> u64 {
            let (number, evicted) = self.unauthenticated.arrive(address, self.now);
            self.closed.extend(evicted);
            if speaks {
                self.unauthenticated.spoke(number);
            }
            self.advance();
            number
        }

        fn advance(&mut self) {
            for step in self.unauthenticated.advance(self.now) {
                match step {
                    Step::Begin(number) => assert!(self.begun.insert(number, self.now).is_none()),
                    Step::Close(number) => assert!(self.closed.insert(number)),
                }
            }
            assert!(self.unauthenticated.all.busy.len() <= self.unauthenticated.limits.handshakes);
            assert!(self.unauthenticated.entries.len() <= self.unauthenticated.limits.connections);
        }

        fn is_begun(&self, number: u64) -> bool {
            self.begun.contains_key(&number)
        }

        /// Runs a crowd for `span`, 1,500 connections a second from what `crowd` tells for each.
        fn flood(&mut self, span: Span, speak: bool, crowd: &mut impl FnMut() -> Origin) {
            let end = self.now + span;
            while self.now < end {
                self.now += Span::from_micros(667);
                let from = crowd();
                self.arrive(from, speak);
            }
        }
    }

    /// Connects alone again and again under a flood of half handshakes; each time it has a place
    /// soon, and keeps it for a round trip of 600 ms.
    fn a_lone_client_gets_through(crowd: &mut impl FnMut() -> Origin, soon: Span) {
        for speak in [true, false] {
            let mut scene = Scene::new(Limits::default());
            scene.flood(Span::from_secs(20), speak, crowd);
            for _ in 0..5 {
                let client = scene.arrive(origin("203.0.113.9"), true);
                let asked = scene.now;
                while !scene.is_begun(client) && scene.now < asked + soon {
                    scene.flood(Span::from_millis(1), speak, crowd);
                }
                assert!(scene.is_begun(client), "not within {soon}");
                scene.flood(Span::from_millis(600), speak, crowd);
                assert!(!scene.closed.contains(&client));
                scene.unauthenticated.forget(client);
            }
        }
    }

    #[test]
    fn one_address_keeps_nobody_out() {
        a_lone_client_gets_through(&mut || origin("198.51.100.1"), Span::from_millis(5));
    }

    #[test]
    fn many_addresses_of_a_prefix_keep_nobody_out() {
        let mut number = 0_u32;
        let mut four = || {
            number += 1;
            IpAddr::from([198, 51, (number >> 8) as u8, number as u8]).into()
        };
        a_lone_client_gets_through(&mut four, Span::from_millis(5));
        let mut number = 0_u16;
        let mut six = || {
            number = number.wrapping_add(1);
            IpAddr::from([0x2001, 0xdb8, number, number, 0, 0, 0, number]).into()
        };
        a_lone_client_gets_through(&mut six, Span::from_millis(5));
    }

    #[test]
    fn many_prefixes_delay_by_their_number_and_no_more() {
        let mut number = 0_u32;
        let mut crowd = || {
            number = (number + 1) % 500;
            IpAddr::from([20 + (number >> 8) as u8, number as u8, 1, 1]).into()
        };
        // 501 turns of 2 s / 256.
        a_lone_client_gets_through(&mut crowd, Span::from_millis(4_200));
    }

    #[test]
    fn neighbours_within_a_flooding_prefix_are_served_in_turn() {
        let mut scene = Scene::new(Limits::default());
        let mut crowd = || origin("198.51.100.1");
        scene.flood(Span::from_secs(5), true, &mut crowd);
        let neighbour = scene.arrive(origin("198.51.100.2"), true);
        scene.flood(Span::from_millis(5), true, &mut crowd);
        assert!(scene.is_begun(neighbour));
        scene.flood(Span::from_secs(1), true, &mut crowd);
        assert!(!scene.closed.contains(&neighbour));
    }

    #[test]
    fn the_pace_of_handshakes_is_bounded_though_all_leave_at_once() {
        let mut scene = Scene::new(Limits::default());
        for _ in 0..4000 {
            scene.now += Span::from_millis(1);
            scene.arrive(origin("198.51.100.1"), true);
            scene.begun.keys().for_each(|number| scene.unauthenticated.forget(*number));
        }
        let begun = scene.begun.len();
        assert!((2000..=2400).contains(&begun), "{begun} in 4 s");
        // Their queue is not everybody's.
        let client = scene.arrive(origin("203.0.113.9"), true);
        scene.now += Span::from_millis(3);
        scene.advance();
        assert!(scene.is_begun(client));
    }

    #[test]
    fn late_ones_are_closed_whatever_their_stage() {
        let limits = Limits { handshakes: 1, ..Limits::default() };
        let mut scene = Scene::new(limits);
        let numbers = [true, true, false].map(|speaks| scene.arrive(origin("192.0.2.1"), speaks));
        assert!(scene.is_begun(numbers[0]) && !scene.is_begun(numbers[1]));
        assert_eq!(scene.unauthenticated.next_event(), Some(START + limits.undisturbed));
        scene.now = START + limits.undisturbed;
        scene.advance();
        assert!(scene.is_begun(numbers[1]), "the longest handshake gives way");
        assert_eq!(scene.unauthenticated.next_event(), Some(START + limits.patience));
        scene.now = START + limits.patience;
        scene.advance();
        assert_eq!(scene.closed.len(), 3);
        assert_eq!(scene.unauthenticated.next_event(), None);
    }

    #[test]
    fn who_says_nothing_goes_first() {
        let mut scene = Scene::new(Limits { connections: 2, ..Limits::default() });
        let [spoke, silent, newest] = [true, false, true].map(|speaks| scene.arrive(origin("192.0.2.1"), speaks));
        assert!(scene.closed.contains(&silent) && !scene.closed.contains(&spoke) && !scene.closed.contains(&newest));
    }
}
