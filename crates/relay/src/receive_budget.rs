//! Memory for data that waits unread in the receive buffers of legs between relays.
//!
//! A long path needs a receive buffer for what it has in flight, and that can pile up unread at
//! every leg at once. Each such leg therefore reserves its buffer from a budget of half of the
//! configured `memory`; the other half is for what has been read and not yet sent.
//!
//! | the leg | its buffer |
//! |---|---|
//! | has not authenticated | `MINIMUM` |
//! | begins to carry data | `INITIAL` |
//! | receives more | `HEADROOM` × the bytes that arrive in a round trip |
//! | receives less | as little, by a `SHRINK_PARTS`-th per update, while more than half of the budget is reserved |
//!
//! `MINIMUM` is not taken from the budget. No reservation grows beyond half of what is free, and
//! larger ones shrink to that, so that something is left for the next leg however many want all
//! they can get (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
//! switches", 1998).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use icdc_units::{ByteCount, Span, Time};

/// Receive buffer of every leg: the window of a handshake, 64 KiB, opens by twice as much when it
/// is used, and less would slow the start.
pub(crate) const MINIMUM: ByteCount = ByteCount::from_kib(256);
/// Receive buffer that a leg gets when it begins to carry data, where enough is free: 900 Mbit/s at
/// 300 ms.
const INITIAL: ByteCount = ByteCount::from_mib(32);
/// Size of a receive buffer, as a multiple of the bytes that arrive in a round trip: a window may
/// be as little as a quarter of its buffer, and in slow start it grows until the next update.
const HEADROOM: u64 = 4;
/// Reciprocal of the part that an update releases.
const SHRINK_PARTS: u64 = 8;
/// Memory for a byte of data: the kernel doubles the requested size, for its own structures
/// (socket(7)).
const MEMORY_PER_BYTE: u64 = 2;

/// Budget for the receive buffers of a relay's legs to other relays, in bytes of kernel
/// memory, of which a buffer takes twice its size: half of the configured `memory`. Each
/// leg reserves a part. Not counted are the minimum of a leg without a reservation, and
/// all other legs.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBudget {
    total: AtomicU64,
    reserved: AtomicU64,
}

impl ReceiveBudget {
    /// Sets the budget to half of `memory`.
    pub(crate) fn resize(&self, memory: ByteCount) {
        self.total.store((memory / 2).as_u64(), Relaxed);
    }

    /// Whether more than half of the budget is reserved: reservations that are not needed must
    /// shrink.
    pub(crate) fn is_scarce(&self) -> bool {
        self.reserved.load(Relaxed) > self.total.load(Relaxed) / 2
    }

    /// Largest reservation at present, in bytes of memory.
    fn fair_share(&self) -> u64 {
        fair_share(self.total.load(Relaxed), self.reserved.load(Relaxed))
    }

    /// Enlarges a reservation of `own` bytes of memory towards `wanted`; returns what was added.
    fn reserve(&self, own: u64, wanted: u64) -> u64 {
        let total = self.total.load(Relaxed);
        let more = |reserved| wanted.min(fair_share(total, reserved)).saturating_sub(own);
        self.reserved.fetch_update(Relaxed, Relaxed, |reserved| Some(reserved + more(reserved))).map_or(0, more)
    }

    /// Gives reserved bytes of memory back.
    fn release(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Relaxed);
    }
}

/// Largest reservation, half of what is free, in bytes of memory.
fn fair_share(total: u64, reserved: u64) -> u64 {
    total.saturating_sub(reserved) / 2
}

/// A leg's part of the budget; released when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<ReceiveBudget>,
    /// Bytes of receive memory that are reserved for the leg.
    reserved: u64,
    last: Option<(Time, ByteCount)>,
}

/// Bytes that a leg has received, memory of those that wait unread, and round-trip time of its
/// path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// Bytes received since the leg was opened.
    pub(crate) received: ByteCount,
    /// Memory of what waits to be read.
    pub(crate) occupied: ByteCount,
    pub(crate) round_trip: Span,
}

impl Reservation {
    /// A share of the budget that grows up to `largest`.
    pub(crate) fn new(budget: &Arc<ReceiveBudget>, largest: ByteCount) -> Self {
        let mut reservation = Self { budget: Arc::clone(budget), reserved: 0, last: None };
        reservation.grow(INITIAL.min(largest));
        reservation
    }

    /// Size of the receive buffer, in bytes of data.
    pub(crate) fn size(&self) -> ByteCount {
        ByteCount::new(self.reserved / MEMORY_PER_BYTE).max(MINIMUM)
    }

    /// Fits the reserved size to what arrives; returns whether it has changed.
    pub(crate) fn update(&mut self, now: Time, traffic: Traffic, largest: ByteCount) -> bool {
        let before = self.size();
        let last = self.last.replace((now, traffic.received));
        let Some((at, received)) = last.filter(|(at, _)| *at < now) else { return false };
        let needed = (traffic.received - received) / (now - at) * traffic.round_trip * HEADROOM;
        let fair = ByteCount::new(self.budget.fair_share() / MEMORY_PER_BYTE);
        if needed > before && fair > before {
            self.grow(needed.min(largest));
        } else if self.budget.is_scarce() {
            // What waits unread takes its memory, whatever the size of the buffer.
            self.shrink((before - before / SHRINK_PARTS).max(needed.min(fair)), traffic.occupied);
        }
        self.size() != before
    }

    /// Enlarges the reservation towards a buffer of `size` bytes of data, as far as the budget
    /// allows.
    fn grow(&mut self, size: ByteCount) {
        self.reserved += self.budget.reserve(self.reserved, size.as_u64() * MEMORY_PER_BYTE);
    }

    /// Reduces the reservation to a buffer of `size` bytes of data, but not below the memory of
    /// what waits unread.
    fn shrink(&mut self, size: ByteCount, occupied: ByteCount) {
        let enough = if size > MINIMUM { size.as_u64() * MEMORY_PER_BYTE } else { 0 };
        let excess = self.reserved.saturating_sub(enough.max(occupied.as_u64()));
        self.budget.release(excess);
        self.reserved -= excess;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.reserved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: ByteCount = ByteCount::from_mib(1);
    const LARGEST: ByteCount = ByteCount::from_mib(256);
    const TICK: Span = Span::from_millis(250);

    fn budget() -> Arc<ReceiveBudget> {
        let budget = Arc::new(ReceiveBudget::default());
        budget.resize(ByteCount::from_mib(4096));
        budget
    }

    fn at(update: u64) -> Time {
        Time::ORIGIN + TICK * update
    }

    /// After `update` ticks at `rate` bytes per tick.
    fn flowing(update: u64, rate: ByteCount, round_trip: Span) -> Traffic {
        Traffic { received: rate * update, occupied: ByteCount::ZERO, round_trip }
    }

    #[test]
    fn however_many_legs_there_are_the_budget_is_kept() {
        let budget = budget();
        let legs: Vec<Reservation> = (0..10_000).map(|_| Reservation::new(&budget, LARGEST)).collect();
        assert_eq!(legs[0].size(), INITIAL);
        assert_eq!(legs[9_999].size(), MINIMUM);
        let reserved: u64 = legs.iter().map(|leg| leg.reserved).sum();
        assert!(reserved <= budget.total.load(Relaxed));
        drop(legs);
        assert_eq!(budget.reserved.load(Relaxed), 0);
    }

    #[test]
    fn legs_that_want_all_leave_something() {
        let budget = budget();
        let mut legs: Vec<Reservation> = (0..40).map(|_| Reservation::new(&budget, LARGEST)).collect();
        for update in 1..20 {
            for leg in &mut legs {
                leg.update(at(update), flowing(update, LARGEST, TICK), LARGEST);
            }
        }
        assert!(Reservation::new(&budget, LARGEST).size() >= MIB * 8);
    }

    #[test]
    fn a_reservation_follows_the_rate_that_its_path_carries() {
        let budget = budget();
        let mut leg = Reservation::new(&budget, LARGEST);
        let per_tick = MIB * 5;
        // Six, and twenty MiB in a round trip.
        let (short, long) = (Span::from_millis(300), Span::from_millis(1000));
        leg.update(at(1), flowing(1, per_tick, short), LARGEST);
        assert!(!leg.update(at(2), flowing(2, per_tick, short), LARGEST));
        assert_eq!(leg.size(), INITIAL);
        assert!(leg.update(at(3), flowing(3, per_tick, long), LARGEST));
        assert_eq!(leg.size(), MIB * 80);
        assert!(!leg.update(at(4), flowing(4, MIB, short), LARGEST), "memory is not scarce");
    }

    #[test]
    fn what_is_not_needed_is_released_when_memory_becomes_scarce() {
        let budget = budget();
        let mut idle: Vec<Reservation> = (0..40).map(|_| Reservation::new(&budget, LARGEST)).collect();
        let mut busy = Reservation::new(&budget, LARGEST);
        let began = busy.size();
        let mut piled = Reservation::new(&budget, LARGEST);
        let (size, occupied) = (piled.size(), ByteCount::new(piled.reserved));
        let nothing = |occupied| Traffic { received: ByteCount::ZERO, occupied, round_trip: TICK };
        for update in 1..200 {
            for leg in &mut idle {
                leg.update(at(update), nothing(ByteCount::ZERO), LARGEST);
            }
            busy.update(at(update), flowing(update, MIB * 40, TICK), LARGEST);
            piled.update(at(update), nothing(occupied), LARGEST);
        }
        assert!(busy.size() >= MIB * 160 && began < INITIAL, "{began} became {}", busy.size());
        assert_eq!(piled.size(), size, "its memory is not free");
        assert!(!budget.is_scarce());
    }

    #[test]
    fn a_smaller_budget_holds_for_existing_legs() {
        let budget = budget();
        let mut leg = Reservation::new(&budget, LARGEST);
        budget.resize(MIB * 64);
        let idle = Traffic { received: ByteCount::ZERO, occupied: ByteCount::ZERO, round_trip: TICK };
        for update in 1..20 {
            leg.update(at(update), idle, LARGEST);
        }
        assert!(leg.size() <= MIB * 8, "{}", leg.size());
    }
}
