//! The loop that gives the lanes their turns and sleeps in between.
//!
//! What arrives has been stamped and waits in its ring, so it need not be looked at before something could
//! be due: at the latest after the path's shortest delay. The loop therefore wakes for deliveries, a few packets
//! at a time, not for arrivals.

use std::sync::atomic::{AtomicBool, Ordering};

use icdc_packet::{PacketError, clock};
use icdc_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::lane::{Lane, Moved};

/// Wakes are at least this far apart: deliveries are late by half of it on average, and a wake costs about a tenth.
const TURN: Span = Span::from_micros(50);
/// Arrivals are looked at this often at least: a host may send many times faster than the path takes.
const LOOK: Span = Span::from_micros(200);
/// How often the page is brought up to date.
const PUBLISH: Span = Span::from_millis(100);
/// How long a path without packets sleeps at most, to notice a stop.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Runs the lanes until `stop`.
pub(super) fn run(lanes: &mut [&mut Lane], shortest_delay: Span, stop: &AtomicBool) -> Result<(), PacketError> {
    let look = (shortest_delay / 4).clamp(TURN, LOOK);
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
            wait(lanes, turn, look, moved == Moved::Some);
        }
    }
    lanes.iter_mut().try_for_each(|lane| lane.publish())
}

fn wait(lanes: &[&mut Lane], turn: Time, look: Span, busy: bool) {
    let due = lanes.iter().filter_map(|lane| lane.next_due()).min();
    if busy || due.is_some() {
        let due = due.unwrap_or(turn + look);
        let wake = due.clamp(turn + TURN, turn + look);
        if wake > clock::now() {
            clock::sleep_until(wake);
        }
        return;
    }
    let mut polled: Vec<PollFd<'_>> = lanes.iter().map(|lane| PollFd::new(lane.ring(), PollFlags::IN)).collect();
    // Whatever ends the wait, the rings are looked at next.
    let _ = poll(&mut polled, Some(&IDLE));
}
