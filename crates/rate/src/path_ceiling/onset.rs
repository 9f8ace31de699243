//! The rate that cross traffic which has just begun leaves of a path, from the growth of the queue
//! within a round trip.
//!
//! Packets that were delivered over a time T, while the queue grew by G, had been sent over T − G,
//! at the rate S. Beside other traffic, the queue of a bottleneck of capacity C grows by the part g
//! = G/(T − G) of the time in which they were sent, and C − g C of what is sent is carried. So the
//! free rate is
//!
//! ```text
//! A = S − C G/(T − G)
//! ```
//!
//! whatever the sender has done in the meantime. A host that pauses makes round-trip times longer
//! for a moment. The least round-trip time in a window that is longer than most pauses does not
//! show that; a queue makes each of several such windows longer than the one before.

use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

use super::observation::Observation;

/// Windows in a row, each of which has a longer queue than the one before. Chosen; not varied.
const ONSET_WINDOWS: usize = 4;
/// Length of a window, as a part of the least round-trip time; at least [`SHORTEST_WINDOW`].
/// Chosen: no test fails at 1/24 and 1/6.
const WINDOW_LENGTH: Ratio = Ratio::new(1, 12);
/// Shortest window: most pauses of a host are shorter. Chosen: no test fails at 10 ms and 40 ms.
const SHORTEST_WINDOW: Span = Span::from_millis(20);
/// Least growth of the queue from one window to the next, as a part of a window's length. Chosen:
/// no test fails at 1/16 and 1/4.
const GROWTH_THRESHOLD: Ratio = Ratio::new(1, 8);
/// Excess of the measured sending rate over the ceiling that is tolerated. Chosen: no test fails at
/// 1/8 and 1/2.
const SENT_TOLERANCE: Ratio = Ratio::new(1, 4);
/// Least delivery rate of a window that counts as cross traffic, as a part of the capacity: less
/// means that a host paused; beside others that send as much as the path carries, half of it
/// arrives. Chosen: at 3/4 test `others_who_begin_leave_what_the_queue_tells` fails; at 3/16 no
/// test fails.
const DELIVERY_THRESHOLD: Ratio = Ratio::new(3, 8);
/// Windows over which the growth of the queue is measured. Chosen; not varied.
const GROWTH_WINDOWS: usize = 2;

/// Detector of cross traffic that begins.
#[derive(Debug, Default)]
pub(super) struct Onset {
    /// The window in progress, `None` before the first.
    present: Option<Window>,
    /// The complete windows, the latest first.
    before: [Option<Window>; ONSET_WINDOWS],
}

/// Observations within one window of time.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Time,
    delivered: ByteCount,
    /// Least delay of the queue in the window.
    queue: Span,
}

impl Onset {
    /// Adds an observation and its queue. Returns the free rate on a path of `capacity`; `None`
    /// unless the queue has grown in each of the last windows, the path has not stood still
    /// ([`DELIVERY_THRESHOLD`]), and no more was sent than is `allowed`.
    pub(super) fn note(
        &mut self,
        seen: &Observation,
        queue: Span,
        capacity: Rate,
        allowed: Option<Rate>,
    ) -> Option<Rate> {
        let Observation { at: now, delivered, least_rtt, .. } = *seen;
        let length = (least_rtt * WINDOW_LENGTH).max(SHORTEST_WINDOW);
        let present = self.present.get_or_insert(Window { begin: now, delivered, queue });
        present.queue = present.queue.min(queue);
        if now - present.begin < length {
            return None;
        }
        self.before.rotate_right(1);
        self.before[0] = self.present.replace(Window { begin: now, delivered, queue });
        let grows = |pair: &[Option<Window>]| match pair {
            [Some(after), Some(before)] => after.queue >= before.queue + length * GROWTH_THRESHOLD,
            _ => false,
        };
        if !self.before.windows(2).all(grows) {
            return None;
        }
        let (last, first) = (self.before[0]?, self.before[GROWTH_WINDOWS]?);
        let (time, grown) = (last.begin - first.begin, last.queue - first.queue);
        let left_over = time - grown;
        let delivered = last.delivered - first.delivered;
        if delivered / time < capacity * DELIVERY_THRESHOLD {
            return None;
        }
        let sent = delivered / left_over;
        let free = sent - capacity.scaled(grown.as_nanos(), left_over.as_nanos());
        // Packets that were sent faster than is allowed now belong to an earlier ceiling.
        allowed.is_none_or(|allowed| sent <= allowed + allowed * SENT_TOLERANCE).then_some(free)
    }

    /// Discards all windows: what comes next is not comparable.
    pub(super) fn begin_anew(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Span = Span::from_millis(300);
    const CAPACITY: Rate = Rate::from_bits_per_second(1_000_000_000);

    /// Free rates that are found in a second in which `share` per cent of the capacity are
    /// delivered, while the queue is `queue(ms)` microseconds long.
    fn shown(share: u64, queue: impl Fn(u64) -> u64) -> Vec<Rate> {
        let mut onset = Onset::default();
        let mut note = |ms| {
            let queue = Span::from_micros(queue(ms));
            let seen = Observation {
                at: Time::ORIGIN + Span::from_millis(ms),
                rtt: BASE + queue,
                least_rtt: BASE,
                delivered: CAPACITY.scaled(share, 100) * Span::from_millis(ms),
                retransmitted: 0,
                packet: ByteCount::new(1448),
                window: ByteCount::MAX,
                idle: false,
            };
            onset.note(&seen, queue, CAPACITY, Some(CAPACITY))
        };
        (0..1000).step_by(10).filter_map(&mut note).collect()
    }

    #[test]
    fn others_who_begin_leave_what_the_queue_tells() {
        // Beside 600 of 1000 Mbit/s the queue grows by 3/5 of the time in which packets leave, and
        // by 3/8 of that in which they arrive, of which 5/8 are ours.
        let free = shown(62, |ms| ms * 1000 * 3 / 8);
        assert!(!free.is_empty());
        for free in free {
            let share = free.as_bits_per_second() as f64 / 1e9;
            assert!((0.36..0.44).contains(&share), "{share}");
        }
    }

    #[test]
    fn nothing_else_is_taken_for_others() {
        assert_eq!(shown(98, |_| 0), []);
        assert_eq!(shown(98, |_| 100_000), [], "a queue that stands");
        assert_eq!(shown(10, |ms| ms * 900), [], "a host that pauses");
        assert_eq!(shown(98, |ms| if ms % 100 < 40 { ms % 100 * 1000 } else { 0 }), [], "short pauses");
        assert_eq!(shown(98, |ms| ms * 500), [], "the end of a burst at twice the rate");
    }
}
