//! What may wait unread at legs between relays, at each of them and at all together.
//!
//! A long path needs a receive buffer for what is on its way, and that can pile up unread at every leg at once. Such buffers are therefore
//! rooms from a pool, half of the configured `memory`; the other half is for what has been read and not yet sent.
//!
//! ```text
//! has not shown its key         LEAST
//! carries data                 START
//! grows                        to AHEAD times what arrives in a round trip
//! shrinks                      as far, by a part per look, while more than half of the pool is taken
//! ```
//!
//! LEAST is everybody's, beside the pool. No room grows beyond half of what nobody has, and larger ones shrink to that, so that something is left for
//! whoever comes next, however many want as much as they can get (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use icdc_units::{ByteCount, Span, Time};

use crate::config::Config;
use crate::socket::may_have_large_buffers;

/// What every leg has: the window of a handshake, 64 KiB, opens by twice as much when it is used, and less would slow the start.
pub(crate) const LEAST: ByteCount = ByteCount::from_kib(256);
/// What a leg begins with where enough is left: 900 Mbit/s at 300 ms.
const START: ByteCount = ByteCount::from_mib(32);
/// A window may be as little as a quarter of its buffer, and in slow start it grows while a look is awaited.
const AHEAD: u64 = 4;
/// One of so many parts is given back by a look.
const PARTS: u64 = 8;
/// Memory for a byte of data: the kernel doubles what is asked for, for its own structures (socket(7)).
const PER_BYTE: u64 = 2;

/// The largest room of a leg; none where the buffers have a fixed size, or the kernel's own tuning reaches further than what this process may ask for.
pub(crate) fn largest(config: &Config) -> Option<ByteCount> {
    let is_tuned = config.leg.buffer.is_none() && may_have_large_buffers();
    is_tuned.then_some(config.limits.memory_per_connection)
}

/// Memory for all rooms of a relay.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    all: AtomicU64,
    taken: AtomicU64,
}

impl Pool {
    /// Has half of `memory` from now on.
    pub(crate) fn resize(&self, memory: ByteCount) {
        self.all.store((memory / 2).as_u64(), Relaxed);
    }

    /// Whether rooms that are not needed must be left to others.
    pub(crate) fn is_scarce(&self) -> bool {
        self.taken.load(Relaxed) > self.all.load(Relaxed) / 2
    }

    /// The most that a room may have now.
    fn share(&self) -> u64 {
        share(self.all.load(Relaxed), self.taken.load(Relaxed))
    }

    /// Takes what is missing from `own` to `wanted`, as far as may be.
    fn take(&self, own: u64, wanted: u64) -> u64 {
        let all = self.all.load(Relaxed);
        let more = |taken| wanted.min(share(all, taken)).saturating_sub(own);
        self.taken.fetch_update(Relaxed, Relaxed, |taken| Some(taken + more(taken))).map_or(0, more)
    }

    fn give_back(&self, taken: u64) {
        self.taken.fetch_sub(taken, Relaxed);
    }
}

fn share(all: u64, taken: u64) -> u64 {
    all.saturating_sub(taken) / 2
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
    /// Memory of what waits to be read.
    pub(crate) occupied: ByteCount,
    pub(crate) round_trip: Span,
}

impl Room {
    pub(crate) fn new(pool: &Arc<Pool>, largest: ByteCount) -> Self {
        let mut room = Self { pool: Arc::clone(pool), taken: 0, looked: None };
        room.grow(START.min(largest));
        room
    }

    /// Bytes of data that it holds.
    pub(crate) fn size(&self) -> ByteCount {
        ByteCount::new(self.taken / PER_BYTE).max(LEAST)
    }

    /// Fits it to what comes; whether its size is another one now.
    pub(crate) fn look(&mut self, now: Time, traffic: Traffic, largest: ByteCount) -> bool {
        let before = self.size();
        let last = self.looked.replace((now, traffic.received));
        let Some((at, received)) = last.filter(|(at, _)| *at < now) else { return false };
        let needed = (traffic.received - received) / (now - at) * traffic.round_trip * AHEAD;
        let fair = ByteCount::new(self.pool.share() / PER_BYTE);
        if needed > before && fair > before {
            self.grow(needed.min(largest));
        } else if self.pool.is_scarce() {
            // What waits there takes its memory, whatever the size of the room.
            self.shrink((before - before / PARTS).max(needed.min(fair)), traffic.occupied);
        }
        self.size() != before
    }

    fn grow(&mut self, size: ByteCount) {
        self.taken += self.pool.take(self.taken, size.as_u64() * PER_BYTE);
    }

    fn shrink(&mut self, size: ByteCount, occupied: ByteCount) {
        let enough = if size > LEAST { size.as_u64() * PER_BYTE } else { 0 };
        let too_much = self.taken.saturating_sub(enough.max(occupied.as_u64()));
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
    const LARGEST: ByteCount = ByteCount::from_mib(256);
    const TICK: Span = Span::from_millis(250);

    fn pool() -> Arc<Pool> {
        let pool = Arc::new(Pool::default());
        pool.resize(ByteCount::from_mib(4096));
        pool
    }

    fn at(look: u64) -> Time {
        Time::ORIGIN + TICK * look
    }

    /// After `look` ticks at `rate` bytes per tick.
    fn flowing(look: u64, rate: ByteCount, round_trip: Span) -> Traffic {
        Traffic { received: rate * look, occupied: ByteCount::ZERO, round_trip }
    }

    #[test]
    fn however_many_there_are_the_pool_is_enough() {
        let pool = pool();
        let rooms: Vec<Room> = (0..10_000).map(|_| Room::new(&pool, LARGEST)).collect();
        assert_eq!(rooms[0].size(), START);
        assert_eq!(rooms[9_999].size(), LEAST);
        let taken: u64 = rooms.iter().map(|room| room.taken).sum();
        assert!(taken <= pool.all.load(Relaxed));
        drop(rooms);
        assert_eq!(pool.taken.load(Relaxed), 0);
    }

    #[test]
    fn those_who_take_all_they_can_leave_something() {
        let pool = pool();
        let mut rooms: Vec<Room> = (0..40).map(|_| Room::new(&pool, LARGEST)).collect();
        for look in 1..20 {
            for room in &mut rooms {
                room.look(at(look), flowing(look, LARGEST, TICK), LARGEST);
            }
        }
        assert!(Room::new(&pool, LARGEST).size() >= MIB * 8);
    }

    #[test]
    fn a_room_follows_the_rate_that_its_path_carries() {
        let pool = pool();
        let mut room = Room::new(&pool, LARGEST);
        let per_tick = MIB * 5;
        // Six, and twenty MiB in a round trip.
        let (short, long) = (Span::from_millis(300), Span::from_millis(1000));
        room.look(at(1), flowing(1, per_tick, short), LARGEST);
        assert!(!room.look(at(2), flowing(2, per_tick, short), LARGEST));
        assert_eq!(room.size(), START);
        assert!(room.look(at(3), flowing(3, per_tick, long), LARGEST));
        assert_eq!(room.size(), MIB * 80);
        assert!(!room.look(at(4), flowing(4, MIB, short), LARGEST), "nobody else wants it");
    }

    #[test]
    fn what_is_not_needed_is_left_to_others_when_it_becomes_scarce() {
        let pool = pool();
        let mut idle: Vec<Room> = (0..40).map(|_| Room::new(&pool, LARGEST)).collect();
        let mut busy = Room::new(&pool, LARGEST);
        let began = busy.size();
        let mut piled = Room::new(&pool, LARGEST);
        let (size, occupied) = (piled.size(), ByteCount::new(piled.taken));
        let nothing = |occupied| Traffic { received: ByteCount::ZERO, occupied, round_trip: TICK };
        for look in 1..200 {
            for room in &mut idle {
                room.look(at(look), nothing(ByteCount::ZERO), LARGEST);
            }
            busy.look(at(look), flowing(look, MIB * 40, TICK), LARGEST);
            piled.look(at(look), nothing(occupied), LARGEST);
        }
        assert!(busy.size() >= MIB * 160 && began < START, "{began} became {}", busy.size());
        assert_eq!(piled.size(), size, "its memory is not free");
        assert!(!pool.is_scarce());
    }

    #[test]
    fn another_configuration_holds_for_those_who_are_there() {
        let pool = pool();
        let mut room = Room::new(&pool, LARGEST);
        pool.resize(MIB * 64);
        let idle = Traffic { received: ByteCount::ZERO, occupied: ByteCount::ZERO, round_trip: TICK };
        for look in 1..20 {
            room.look(at(look), idle, LARGEST);
        }
        assert!(room.size() <= MIB * 8, "{}", room.size());
    }
}
