//! The data of a connection in both directions, between the client's leg and the far leg.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use icdc_units::{ByteCount, Time};

use crate::buffers;
use crate::config::Config;
use crate::counters::Counters;
use crate::flow::{Flow, FlowError, Progress};
use crate::leg::Leg;
use crate::poller::Side;
use crate::receive_budget::ReceiveBudget;
use crate::worker_context::WorkerContext;

/// The far leg, and the flows between it and the near one.
pub(super) struct Channel {
    pub(super) far: Leg,
    pub(super) up: Flow,
    pub(super) down: Flow,
    paused: Paused,
    /// Bytes moved up and down at the last tick, and the time of the last tick at which they had
    /// changed.
    moved: (u64, u64),
    moved_at: Time,
    buffered: ByteCount,
}

/// Directions that read no more until less is buffered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Paused {
    up: bool,
    down: bool,
}

/// An error of one leg of a connection.
pub(super) struct LegError {
    pub(super) side: Side,
    pub(super) cause: io::Error,
}

/// Result of a channel's periodic check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tick {
    /// There is nothing to do.
    Quiet,
    /// A direction may be read again.
    Resumed,
    /// No data has moved for the configured time.
    Idle,
}

impl Channel {
    /// Channel to the far leg. `up` may hold data that the client has sent already; `began` is when
    /// the connection was accepted.
    pub(super) fn new(far: Leg, up: Flow, began: Time, now: Time) -> Self {
        let down = Flow::new(began);
        let moved = (up.moved, down.moved);
        Self { far, up, down, paused: Paused::default(), moved, moved_at: now, buffered: ByteCount::ZERO }
    }

    /// Moves what can be moved from the client.
    pub(super) fn relay_up(&mut self, near: &mut Leg, context: &mut WorkerContext) -> Result<Progress, LegError> {
        let means = (&mut context.pipes, context.scratch.as_mut_slice());
        let progress = self.up.advance((near, &mut self.far), means, context.now, !self.paused.up);
        progress.map_err(|FlowError { at_source, cause }| LegError {
            side: if at_source { Side::Near } else { Side::Far },
            cause,
        })
    }

    /// Moves what can be moved to the client.
    pub(super) fn relay_down(&mut self, near: &mut Leg, context: &mut WorkerContext) -> Result<Progress, LegError> {
        let means = (&mut context.pipes, context.scratch.as_mut_slice());
        let progress = self.down.advance((&mut self.far, near), means, context.now, !self.paused.down);
        progress.map_err(|FlowError { at_source, cause }| LegError {
            side: if at_source { Side::Far } else { Side::Near },
            cause,
        })
    }

    /// Whether both directions have ended in order.
    pub(super) fn is_finished(&self) -> bool {
        self.up.finished && self.down.finished
    }

    /// Whether a direction reads no more because too much is buffered.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.up || self.paused.down
    }

    /// Adds what has moved since the last call to the relay's counters.
    pub(super) fn count_bytes(&mut self, counters: &Counters) {
        counters.bytes_up.fetch_add(self.up.take_uncounted(), Relaxed);
        counters.bytes_down.fetch_add(self.down.take_uncounted(), Relaxed);
    }

    /// Adds the time for which the flows have waited for either leg, until `now`, to the relay's
    /// counters. Once, at the end.
    pub(super) fn count_waits(&self, now: Time, counters: &Counters) {
        let (up, down) = (self.up.waits(now), self.down.waits(now));
        counters.nanos_for_far.fetch_add((up.sink + down.source).as_nanos(), Relaxed);
        counters.nanos_for_near.fetch_add((up.source + down.sink).as_nanos(), Relaxed);
    }

    /// Measures and returns the bytes of the connection that are buffered in this relay, in its
    /// sockets as well.
    pub(super) fn measure(&mut self, near: &Leg) -> ByteCount {
        self.buffered = self.upward() + self.downward(near) + near.unread() + self.far.unread();
        self.buffered
    }

    /// Bytes buffered for the connection, as last measured.
    pub(super) fn buffered(&self) -> ByteCount {
        self.buffered
    }

    /// Bytes read from the near leg that have not left: they leave whether more is read or not.
    fn upward(&self) -> ByteCount {
        ByteCount::from(self.up.buffered()) + self.far.unacknowledged()
    }

    /// Bytes read from the far leg that have not left.
    fn downward(&self, near: &Leg) -> ByteCount {
        ByteCount::from(self.down.buffered()) + near.unacknowledged()
    }

    /// Updates counters, buffers and limits, a few times a second. A connection that buffers more
    /// than `share` bytes (`None`: only its own limit holds) reads no more until it buffers less.
    pub(super) fn tick(
        &mut self,
        near: &mut Leg,
        config: &Config,
        share: Option<ByteCount>,
        context: &WorkerContext,
    ) -> Tick {
        let moved = (self.up.moved, self.down.moved);
        let has_moved = self.moved != moved;
        if has_moved {
            (self.moved, self.moved_at) = (moved, context.now);
            self.count_bytes(&context.relay.counters);
            for leg in [&mut *near, &mut self.far] {
                leg.grow_send_buffer(config.limits.memory_per_connection, config.leg.buffer.is_some());
                leg.observe_path(&context.relay.paths, context.now);
            }
        } else if context.now - self.moved_at >= config.limits.idle {
            return Tick::Idle;
        }
        let budget: &ReceiveBudget = &context.relay.receive_budget;
        if has_moved || budget.is_scarce() {
            let largest = buffers::largest_receive(config);
            for leg in [&mut *near, &mut self.far] {
                leg.resize_receive_buffer(largest, context.now);
            }
        }
        if has_moved || !self.buffered.is_zero() {
            self.measure(near);
        }
        let most = share.unwrap_or(ByteCount::MAX).min(config.limits.memory_per_connection);
        let before = self.paused;
        self.paused = if self.buffered > most { self.excess(near, most) } else { Paused::default() };
        let resumed = (before.up && !self.paused.up) || (before.down && !self.paused.down);
        if resumed { Tick::Resumed } else { Tick::Quiet }
    }

    /// Directions that are to read no more because over `most` bytes are buffered, and more than
    /// half of that in this direction: its sink is too slow. The other direction continues.
    fn excess(&self, near: &Leg, most: ByteCount) -> Paused {
        let (up, down) = (self.upward(), self.downward(near));
        let is_over = up + down > most;
        Paused { up: is_over && up > most / 2, down: is_over && down > most / 2 }
    }
}
