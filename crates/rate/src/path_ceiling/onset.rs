//! What others who have just begun to send leave of a path, from how its queue grows within a round
//! trip.
//!
//! Packets that were delivered over a time T, while the queue grew by G, had left over T − G, at the
//! rate S. Beside others a queue before a bottleneck of capacity C grows by the part g = G/(T − G) of
//! the time in which they left, and C − g C of what is sent is carried; so that free for us is
//!
//! ```text
//! A = S − C G/(T − G)
//! ```
//!
//! whatever has been done about it meanwhile. A host that pauses makes round-trip times longer for a
//! moment, which the least in a time that is longer than most pauses does not show; a queue makes
//! each of several such times longer than the one before.

use icdc_units::{ByteCount, Rate, Span, Time};

use super::observation::Observation;

/// Times of which each has a longer queue than the one before.
const WINDOWS: usize = 4;
/// Length of one: one in so many of the round trip.
const LENGTH: u64 = 12;
/// The shortest one: most of a host's pauses are shorter.
const SHORTEST: Span = Span::from_millis(20);
/// From one to the next the queue grows by at least one in so many of a window's length.
const GROWTH: u64 = 8;
/// So much more may seem to have been sent: one in so many.
const MORE: u64 = 4;
/// Of a host that pauses less than this share of the capacity arrives meanwhile; beside others that
/// send as much as the path carries, half of it.
const FLOWING: (u64, u64) = (3, 8);
/// The last ones tell how fast it grows.
const TELLING: usize = 2;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Onset {
    /// The present window, and those before, the last one first.
    present: Option<Window>,
    before: [Option<Window>; WINDOWS],
}

#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Time,
    delivered: ByteCount,
    /// The least queue in it.
    queue: Span,
}

impl Onset {
    /// Takes note of an observation and its queue; what is free on a path of `capacity`, if the queue
    /// has grown in each of the last windows and no more was sent than is `allowed`.
    pub(super) fn note(&mut self, seen: &Observation, queue: Span, capacity: Rate, allowed: Rate) -> Option<Rate> {
        let Observation { at: now, delivered, least_rtt, .. } = *seen;
        let length = (least_rtt / LENGTH).max(SHORTEST);
        let present = self.present.get_or_insert(Window { begin: now, delivered, queue });
        present.queue = present.queue.min(queue);
        if now - present.begin < length {
            return None;
        }
        self.before.rotate_right(1);
        self.before[0] = self.present.replace(Window { begin: now, delivered, queue });
        let grows = |two: &[Option<Window>]| matches!(two, [Some(after), Some(before)] if after.queue >= before.queue + length / GROWTH);
        if !self.before.windows(2).all(grows) {
            return None;
        }
        let (last, first) = (self.before[0]?, self.before[TELLING]?);
        let (time, grown) = (last.begin - first.begin, last.queue - first.queue);
        let left_over = time - grown;
        let delivered = last.delivered - first.delivered;
        if delivered / time < capacity.scaled(FLOWING.0, FLOWING.1) {
            return None;
        }
        let sent = delivered / left_over;
        let free = sent - capacity.scaled(grown.as_nanos(), left_over.as_nanos());
        // What was sent faster than it may be now is the end of something else.
        (sent <= allowed + allowed / MORE).then_some(free)
    }

    /// What comes next has nothing to do with what was.
    pub(super) fn begin_anew(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Span = Span::from_millis(300);
    const CAPACITY: Rate = Rate::from_bits_per_second(1_000_000_000);

    /// What is told of a second in which so much is delivered of what the path carries, while the
    /// queue is `queue` long so many milliseconds after it began.
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
            onset.note(&seen, queue, CAPACITY, CAPACITY)
        };
        (0..1000).step_by(10).filter_map(&mut note).collect()
    }

    #[test]
    fn others_who_begin_leave_what_the_queue_tells() {
        // Beside 600 of 1000 Mbit/s the queue grows by 3/5 of the time in which packets leave, and by 3/8 of
        // that in which they arrive, of which 5/8 are ours.
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
