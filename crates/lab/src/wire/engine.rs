//! The loop that gives the lanes their turns and sleeps in between.
//!
//! What arrives has been stamped and waits in its ring, so it need not be looked at before
//! something could be due: at the latest after the path's shortest delay. The loop therefore wakes
//! for deliveries, a few packets at a time, not for arrivals.

use std::sync::atomic::{AtomicBool, Ordering};

use icdc_packet::{PacketError, clock};
use icdc_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::lane::{Lane, Moved};
use crate::settings::Mode;

/// How often the loop wakes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Wakes are at least this far apart: deliveries are late by half of it on average, and a wake
    /// costs about 5 µs.
    turn: Span,
    /// Arrivals are looked at this often at least: a host may send many times faster than the path
    /// takes.
    look: Span,
}

impl Pace {
    /// For a path whose shortest delay this is. Packets of fast mode are 64 KiB, and what each of
    /// them costs the receiving processor is mostly the interrupt that announces it: on a long path
    /// they go in bunches.
    pub(super) fn new(mode: Mode, shortest_delay: Span) -> Self {
        let bunch = match mode {
            Mode::Exact => 1,
            Mode::Fast => (shortest_delay.as_millis() / 20).clamp(1, 8),
        };
        let turn = Span::from_micros(50) * bunch;
        Self { turn, look: (shortest_delay / 4).clamp(turn, turn * 4) }
    }
}

/// How often the page is brought up to date.
const PUBLISH: Span = Span::from_millis(100);
/// How long a path without packets sleeps at most, to notice a stop.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Runs the lanes until `stop`.
pub(super) fn run(lanes: &mut [&mut Lane], pace: Pace, stop: &AtomicBool) -> Result<(), PacketError> {
    let mut publish_at = clock::now();
    while !stop.load(Ordering::Relaxed) {
        let turn = clock::now();
        let mut moved = Moved::Nothing;
        for lane in lanes.iter_mut() {
            moved = moved.max(lane.receive());
        }
        for lane in lanes.iter_mut() {
            moved = moved.max(lane.deliver(clock::now())?);
        }
        if turn >= publish_at {
            for lane in lanes.iter_mut() {
                lane.publish()?;
            }
            publish_at = turn + PUBLISH;
        }
        if moved != Moved::Full {
            wait(lanes, turn, pace, moved == Moved::Some);
        }
    }
    lanes.iter_mut().try_for_each(|lane| lane.publish())
}

fn wait(lanes: &[&mut Lane], turn: Time, pace: Pace, busy: bool) {
    let due = lanes.iter().filter_map(|lane| lane.next_due()).min();
    if busy || due.is_some() {
        let due = due.unwrap_or(turn + pace.look);
        let wake = due.clamp(turn + pace.turn, turn + pace.look);
        if wake > clock::now() {
            clock::sleep_until(wake);
        }
        return;
    }
    let mut polled: Vec<PollFd<'_>> = lanes.iter().map(|lane| PollFd::new(lane.ring(), PollFlags::IN)).collect();
    // Whatever ends the wait, the rings are looked at next.
    let _ = poll(&mut polled, Some(&IDLE));
}
