//! What may wait unread at legs between relays, at each of them and at all together.
//!
//! A long path needs a receive buffer for what is on its way, and that can pile up unread at every leg at once. Such buffers are therefore
//! rooms from a pool, half of the configured `memory`; the other half is for what has been read and not yet sent.
//!
//! ```text
//! until a leg carries data   LEAST
//! then                       START
//! grows                      to four times what arrives in a round trip, once it is less than twice that
//! shrinks                    to twice that, by an eighth per look, while more than half of the pool is taken
//! ```
//!
//! LEAST is everybody's. Beyond it nobody takes more than a quarter of what is left, so that something is left for whoever comes next
//! (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use icdc_units::{ByteCount, Span, Time};

use crate::config::Config;
use crate::leg::may_have_large_buffers;

/// What every leg has.
pub(crate) const LEAST: ByteCount = ByteCount::from_kib(128);
/// What a leg begins with where enough is left: 900 Mbit/s at 300 ms.
const START: ByteCount = ByteCount::from_mib(32);
/// Memory for a byte of data: the kernel doubles what is asked for, for its own structures (socket(7)).
const PER_BYTE: u64 = 2;
/// One of so many parts of what is left may be taken at a time.
const PARTS: u64 = 4;

/// How large rooms may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Each of them.
    pub(crate) each: ByteCount,
    /// Memory for all of them.
    pub(crate) all: ByteCount,
}

impl Limits {
    /// None where the kernel's own tuning reaches further than what this process may ask for.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let limits = &config.limits;
        let tuned = may_have_large_buffers().then_some(limits.memory_per_connection);
        config.leg.buffer.or(tuned).map(|each| Self { each, all: limits.memory / 2 })
    }
}

/// What all rooms of a relay have taken, in memory.
#[derive(Debug, Default)]
pub(crate) struct Pool(AtomicU64);

impl Pool {
    /// Takes up to `wanted`, as much as may be taken.
    fn take(&self, wanted: u64, all: ByteCount) -> u64 {
        let part = |taken: u64| wanted.min(all.as_u64().saturating_sub(taken) / PARTS);
        let before = self.0.fetch_update(Relaxed, Relaxed, |taken| Some(taken + part(taken)));
        part(before.unwrap_or_else(|taken| taken))
    }

    fn give_back(&self, taken: u64) {
        self.0.fetch_sub(taken, Relaxed);
    }

    /// Whether rooms that are not needed must be left to others.
    pub(crate) fn is_scarce(&self, all: ByteCount) -> bool {
        self.0.load(Relaxed) > all.as_u64() / 2
    }
}

/// A leg's part of the pool; given back when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    pool: Arc<Pool>,
    /// In memory.
    taken: u64,
    looked: Option<(Time, ByteCount)>,
}

/// What a leg shows at a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// Since the leg began.
    pub(crate) received: ByteCount,
    /// Waits to be read.
    pub(crate) unread: ByteCount,
    pub(crate) round_trip: Span,
}

impl Room {
    pub(crate) fn new(pool: &Arc<Pool>, limits: Limits) -> Self {
        let mut room = Self { pool: Arc::clone(pool), taken: 0, looked: None };
        room.grow(START, limits);
        room
    }

    /// Bytes of data that it holds.
    pub(crate) fn size(&self) -> ByteCount {
        ByteCount::new(self.taken / PER_BYTE).max(LEAST)
    }

    /// Fits it to what comes; whether its size is another one now.
    pub(crate) fn look(&mut self, now: Time, traffic: Traffic, limits: Limits) -> bool {
        let before = self.size();
        let last = self.looked.replace((now, traffic.received));
        let Some((at, received)) = last.filter(|(at, _)| *at < now) else { return false };
        let needed = (traffic.received - received) / (now - at) * traffic.round_trip * 2;
        if needed > before {
            self.grow(needed * 2, limits);
        } else if self.pool.is_scarce(limits.all) {
            // What waits there takes its memory, whatever the size of the room.
            self.shrink((before - before / 8).max(needed).max(traffic.unread));
        }
        self.size() != before
    }

    fn grow(&mut self, size: ByteCount, limits: Limits) {
        let wanted = size.min(limits.each).as_u64() * PER_BYTE;
        self.taken += self.pool.take(wanted.saturating_sub(self.taken), limits.all);
    }

    fn shrink(&mut self, size: ByteCount) {
        let enough = if size > LEAST { size.as_u64() * PER_BYTE } else { 0 };
        let too_much = self.taken.saturating_sub(enough);
        self.pool.give_back(too_much);
        self.taken -= too_much;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.pool.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: ByteCount = ByteCount::from_mib(1);
    const LIMITS: Limits = Limits { each: ByteCount::from_mib(256), all: ByteCount::from_mib(2048) };
    const TICK: Span = Span::from_millis(250);

    fn at(look: u64) -> Time {
        Time::ORIGIN + TICK * look
    }

    /// After `look` ticks at `rate` bytes per tick.
    fn flowing(look: u64, rate: ByteCount, round_trip: Span) -> Traffic {
        Traffic { received: rate * look, unread: ByteCount::ZERO, round_trip }
    }

    #[test]
    fn however_many_there_are_the_pool_is_enough() {
        let pool = Arc::default();
        let rooms: Vec<Room> = (0..10_000).map(|_| Room::new(&pool, LIMITS)).collect();
        assert_eq!(rooms[0].size(), START);
        assert_eq!(rooms[9_999].size(), LEAST);
        let taken: u64 = rooms.iter().map(|room| room.taken).sum();
        assert!(taken <= LIMITS.all.as_u64());
        drop(rooms);
        assert_eq!(pool.0.load(Relaxed), 0);
    }

    #[test]
    fn a_room_follows_the_rate_that_its_path_carries() {
        let pool = Arc::default();
        let mut room = Room::new(&pool, LIMITS);
        // 320 Mbit/s need 24 MB twice at 300 ms, more than it begins with.
        let per_tick = MIB * 10;
        room.look(at(1), flowing(1, per_tick, Span::from_millis(300)), LIMITS);
        assert_eq!(room.size(), START);
        assert!(!room.look(at(2), flowing(2, per_tick, Span::from_millis(300)), LIMITS));
        assert!(room.look(at(3), flowing(3, per_tick, Span::from_millis(600)), LIMITS));
        assert!(room.size() >= MIB * 95, "{}", room.size());
        assert!(!room.look(at(4), flowing(4, per_tick, Span::from_millis(600)), LIMITS), "nobody else wants it");
    }

    #[test]
    fn what_is_not_needed_is_left_to_others_when_it_becomes_scarce() {
        let pool = Arc::default();
        let mut idle: Vec<Room> = (0..30).map(|_| Room::new(&pool, LIMITS)).collect();
        let mut busy = Room::new(&pool, LIMITS);
        let began = busy.size();
        let mut piled = Room::new(&pool, LIMITS);
        let unread = piled.size();
        let nothing = |unread| Traffic { received: ByteCount::ZERO, unread, round_trip: TICK };
        for look in 1..200 {
            for room in &mut idle {
                room.look(at(look), nothing(ByteCount::ZERO), LIMITS);
            }
            busy.look(at(look), flowing(look, MIB * 40, TICK), LIMITS);
            piled.look(at(look), nothing(unread), LIMITS);
        }
        assert!(busy.size() >= MIB * 80 && busy.size() > began * 4, "{began} became {}", busy.size());
        assert_eq!(piled.size(), unread, "its memory is not free");
        let left: ByteCount = idle.iter().map(Room::size).sum();
        assert!(left * PER_BYTE <= LIMITS.all / 2, "{left}");
    }
}
