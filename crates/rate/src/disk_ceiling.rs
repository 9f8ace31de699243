//! The receiver's ring between socket and disk holds the sender's rate down before TCP's window
//! closes.
//!
//! ```text
//!  level = blocks that wait for the disk / blocks of the ring
//!  W     = rate at which the disk takes them while any waits
//!
//!  ceiling = W · max(1 + gain · (AIM − level), 1/2),  and at least        while level > LOW, else none
//!            (HALF − level) · ring / (2 · delay, or a second)
//! ```
//!
//! Only whole blocks wait for the disk. One that a connection is still filling does not, however
//! many connections there are, and time in which nothing waits tells nothing of the disk: so W is
//! never what merely arrived, and what it allows cannot fall because little arrives.
//!
//! At AIM the ring neither fills nor empties. A disk that is faster than the path keeps the ring
//! empty and is never heard of. `d level/dt = (ceiling − W) / ring`, so the level tends to AIM with
//! the time constant `ring / (gain · W)`; news of it take `delay` (a round trip and the interval of
//! feedback) to have an effect, and the gain stays low enough that the constant is several delays.
//! The second term is what up to half of the ring takes within two delays (a second at least)
//! though the disk stands still: a pause of the disk holds nobody up for which the ring has room,
//! and a slow disk's ring stands somewhat fuller than AIM. The other half is for what is on its way
//! when the disk stalls. Half of W is always allowed, because many connections may fill their
//! blocks at once.

use std::collections::VecDeque;

use icdc_units::{ByteCount, Rate, Span, Time};

/// Level at which the ring neither fills nor empties.
const AIM: f64 = 0.25;
/// Up to this level the disk is not what limits.
const LOW: f64 = 0.12;
/// What may be filled while the disk stands still.
const HALF: f64 = 0.5;
/// Delays in which that may be filled,
const FILLS_IN: f64 = 2.0;
/// and how many seconds at least: one block more or less shall not change the rate by much.
const FILLS_IN_LEAST: f64 = 1.0;
/// Share of the disk's rate that is allowed however full the ring is.
const LEAST_SHARE: f64 = 0.5;
/// Change of rate per change of level.
const GAIN: f64 = 3.0;
/// The time constant is at least so many delays.
const DELAYS: f64 = 4.0;
/// A disk that stands still shall find something to write when it goes on, and the path stays
/// known.
const LEAST: Rate = Rate::from_bits_per_second(8_000_000);
/// The disk's rate is a mean over so much work: a stall of a second halves it, and the level does
/// the rest.
const MEAN_OVER: Span = Span::from_secs(2);
/// Less work than that tells nothing of the disk's rate,
const SHORTEST: Span = Span::from_millis(250);
/// nor does it if fewer blocks were written in it, unless it is as long as the mean.
const FEWEST: u64 = 8;

/// The receiver's end: what waits for the disk, and how fast the disk takes it.
#[derive(Debug, Default)]
pub struct Backlog {
    blocks: u32,
    /// Since when any waits, if any does.
    since: Time,
    done: Done,
    /// Looks of the last two seconds of work.
    looks: VecDeque<Done>,
}

/// What the disk has done by some time.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    /// For how long any block has waited.
    work: Span,
    written: ByteCount,
    blocks: u64,
}

/// What the receiver finds when it looks at its backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Blocks that wait for the disk.
    pub blocks: u32,
    /// Mean rate at which the disk has taken them over the last two seconds in which any waited;
    /// `None` while it is not known.
    pub rate: Option<Rate>,
}

impl Backlog {
    /// A block is complete and waits.
    pub fn arrived(&mut self, now: Time) {
        if self.blocks == 0 {
            self.since = now;
        }
        self.blocks += 1;
    }

    /// One that waited, with so much in it, is written or not wanted any more.
    pub fn left(&mut self, now: Time, bytes: ByteCount) {
        self.blocks = self.blocks.saturating_sub(1);
        self.done.written += bytes;
        self.done.blocks += 1;
        if self.blocks == 0 {
            self.done.work += now - self.since;
        }
    }

    /// What there is now. Several looks a second are good.
    pub fn look(&mut self, now: Time) -> Load {
        let mut done = self.done;
        if self.blocks > 0 {
            done.work += now - self.since;
        }
        while self.looks.get(1).is_some_and(|look| done.work - look.work >= MEAN_OVER) {
            self.looks.pop_front();
        }
        let before = self.looks.front().copied().unwrap_or_default();
        let (work, blocks) = (done.work - before.work, done.blocks - before.blocks);
        let is_known = work >= MEAN_OVER || work >= SHORTEST && blocks >= FEWEST;
        let rate = is_known.then(|| (done.written - before.written) / work);
        if self.looks.back().is_none_or(|look| look.work < done.work) {
            self.looks.push_back(done);
        }
        Load { blocks: self.blocks, rate }
    }
}

/// What the receiver tells of its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingState {
    /// Blocks that wait for the disk.
    pub waiting: u32,
    /// Blocks of the ring.
    pub blocks: u32,
    /// Bytes of the ring.
    pub size: ByteCount,
    /// Rate at which the disk takes what waits; `None` while it is not known.
    pub drained: Option<Rate>,
}

/// The sender's end: what the ring allows. `delay` is how long it takes until the ring sees what
/// the sender does, and the sender what the ring does. `None` while the disk is not what limits.
#[must_use]
pub fn ceiling(ring: &RingState, delay: Span) -> Option<Rate> {
    if ring.blocks == 0 {
        return None;
    }
    let level = f64::from(ring.waiting) / f64::from(ring.blocks);
    if level <= LOW {
        return None;
    }
    let drained = ring.drained?.as_bits_per_second() as f64;
    let ring_per_delay = 8.0 * ring.size.as_u64() as f64 / delay.as_secs_f64().max(1e-3);
    let gain = GAIN.min(ring_per_delay / (DELAYS * drained.max(1.0)));
    let held = drained * (1.0 + gain * (AIM - level)).max(LEAST_SHARE);
    let fills_in = (FILLS_IN * delay.as_secs_f64()).max(FILLS_IN_LEAST);
    let room = 8.0 * ring.size.as_u64() as f64 * (HALF - level) / fills_in;
    Some(Rate::from_bits_per_second(held.max(room) as u64).max(LEAST))
}

#[cfg(test)]
mod tests;
