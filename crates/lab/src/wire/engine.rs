//! The loop that runs the lanes in turn and sleeps in between.
//!
//! A packet that arrives is stamped and waits in its ring, so that it need not be read before it
//! could be due: at the latest after the path's shortest delay. The loop therefore wakes for
//! deliveries, a few packets at a time, not for arrivals.

use std::sync::atomic::{AtomicBool, Ordering};

use icdc_packet::{PacketError, clock};
use icdc_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::lane::{Lane, Moved};
use crate::settings::Mode;

/// Intervals at which the loop that moves packets wakes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Wakes are at least this far apart: deliveries are late by half of it on average, and a wake
    /// costs about 5 µs.
    turn: Span,
    /// Longest interval between readings of the rings: a host may send many times faster than the
    /// path carries.
    longest: Span,
}

impl Pace {
    /// Intervals for a path with this shortest delay. Packets of fast mode are 64 KiB, and most of
    /// their cost for the receiving processor is the interrupt that announces each: on a long path
    /// they are delivered in groups.
    pub(super) fn new(mode: Mode, shortest_delay: Span) -> Self {
        let bunch = match mode {
            Mode::Exact => 1,
            Mode::Fast => (shortest_delay.as_millis() / 20).clamp(1, 8),
        };
        let turn = Span::from_micros(50) * bunch;
        Self { turn, longest: (shortest_delay / 4).clamp(turn, turn * 4) }
    }
}

/// Interval at which the lanes' counters in shared memory (`Page`) are updated.
const PUBLISH: Span = Span::from_millis(100);
/// Longest sleep without packets, after which a stop is noticed.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Moves the packets of all lanes until `stop` is set.
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

/// Sleeps until the next packet is due, within the limits of `pace`. If no packet was moved in this
/// turn (`busy`) and none is in flight, until one arrives, or for [`IDLE`].
fn wait(lanes: &[&mut Lane], turn: Time, pace: Pace, busy: bool) {
    let due = lanes.iter().filter_map(|lane| lane.next_due()).min();
    if busy || due.is_some() {
        let due = due.unwrap_or(turn + pace.longest);
        let wake = due.clamp(turn + pace.turn, turn + pace.longest);
        if wake > clock::now() {
            clock::sleep_until(wake);
        }
        return;
    }
    let mut polled: Vec<PollFd<'_>> = lanes.iter().map(|lane| PollFd::new(lane.ring(), PollFlags::IN)).collect();
    // Whatever ends the wait, the rings are read next.
    let _ = poll(&mut polled, Some(&IDLE));
}
