//! The queue of one class.
//!
//! A paced class is a bottleneck, and its queue must not become bloated. Frames beyond the limit
//! are dropped on arrival (drop-tail). In addition, ECN-capable packets are marked from a given
//! queue length on (RFC 3168, a step as in RFC 8257), or `CoDel` (RFC 8289) watches the time that
//! packets have waited: once all of an `interval` have waited longer than `target`, it marks or
//! drops one, then the next after `interval / √count`.

use std::collections::VecDeque;

use icdc_units::{ByteCount, Rate, Span, Time};

/// Settings of a class's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Bytes on the wire that may wait.
    pub limit: ByteCount,
    /// Queue management below the limit.
    pub discipline: Discipline,
}

/// Queue management below the queue's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// No management: a frame is dropped only when the queue is full.
    DropTail,
    /// ECN-capable packets are marked when this many bytes are queued before them.
    Mark(ByteCount),
    /// `CoDel`, see the module's description. Target and interval are at least the time of two full
    /// frames at the class's rate.
    CoDel {
        /// Time that packets may wait in the long run.
        target: Span,
        /// Time in which a queue may empty by itself: about a round trip.
        interval: Span,
    },
}

impl Default for QueueSettings {
    /// A drop-tail queue of 1 MB.
    fn default() -> Self {
        Self { limit: ByteCount::new(1_000_000), discipline: Discipline::DropTail }
    }
}

/// Length of a full Ethernet frame on the wire, gap and preamble included.
pub(super) const FULL_FRAME: ByteCount = ByteCount::new(1538);

/// A frame to be queued, with the packet that the caller keeps for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting<Packet> {
    /// The packet, in the caller's form.
    pub packet: Packet,
    /// Length of the frame on the wire.
    pub length: ByteCount,
    /// A mark may take the place of a drop.
    pub ecn_capable: bool,
}

/// A frame taken from the queue, to be sent.
pub(super) struct Taken<Packet> {
    pub(super) packet: Packet,
    pub(super) length: ByteCount,
    /// The frame has to be marked.
    pub(super) mark: bool,
}

/// A frame in the queue, with the time of its arrival, and whether it leaves marked as having met
/// congestion.
struct Queued<Packet> {
    waiting: Waiting<Packet>,
    since: Time,
    mark: bool,
}

/// Queue of one leaf class, with its byte limit and its queue management.
pub(super) struct LeafQueue<Packet> {
    settings: QueueSettings,
    packets: VecDeque<Queued<Packet>>,
    bytes: ByteCount,
    codel: CoDel,
    /// Number of packets dropped by `CoDel` since the count was last taken.
    dropped: u64,
}

impl<Packet> LeafQueue<Packet> {
    /// An empty queue of a class with this guaranteed rate, `None` for none.
    pub(super) fn new(settings: QueueSettings, rate: Option<Rate>) -> Self {
        let mut queue =
            Self { settings, packets: VecDeque::new(), bytes: ByteCount::ZERO, codel: CoDel::default(), dropped: 0 };
        queue.change(settings, rate);
        queue
    }

    /// Changes the settings: limit and marking for frames that arrive from now on, `CoDel` also for
    /// those that wait.
    pub(super) fn change(&mut self, settings: QueueSettings, rate: Option<Rate>) {
        self.settings = settings;
        if let Discipline::CoDel { target, interval } = settings.discipline {
            let two_frames = rate.map_or(Span::ZERO, |rate| FULL_FRAME * 2 / rate);
            (self.codel.target, self.codel.interval) = (target.max(two_frames), interval.max(two_frames));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes on the wire of the frames that wait.
    pub(super) fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// Queues a frame; false if there is no room for it. One frame always fits into an empty queue.
    pub(super) fn push(&mut self, now: Time, waiting: Waiting<Packet>) -> bool {
        if !self.is_empty() && self.bytes + waiting.length > self.settings.limit {
            return false;
        }
        let mark = match self.settings.discipline {
            Discipline::Mark(threshold) => waiting.ecn_capable && self.bytes >= threshold,
            _ => false,
        };
        self.bytes += waiting.length;
        self.packets.push_back(Queued { waiting, since: now, mark });
        true
    }

    /// The next frame to leave, and the number of packets that `CoDel` dropped before it; no frame
    /// if none is left.
    pub(super) fn pop(&mut self, now: Time) -> (Option<Taken<Packet>>, u64) {
        let taken = match self.settings.discipline {
            Discipline::CoDel { .. } => self.pop_by_codel(now),
            _ => self.pop_first(),
        };
        let taken = taken.map(|queued| Taken {
            packet: queued.waiting.packet,
            length: queued.waiting.length,
            mark: queued.mark,
        });
        (taken, std::mem::take(&mut self.dropped))
    }

    /// Empties the queue, and gives all frames that waited, in order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Waiting<Packet>> + '_ {
        self.bytes = ByteCount::ZERO;
        self.packets.drain(..).map(|queued| queued.waiting)
    }

    /// Takes the frame that has waited longest, whatever the discipline; `None` if none waits.
    fn pop_first(&mut self) -> Option<Queued<Packet>> {
        let queued = self.packets.pop_front()?;
        self.bytes -= queued.waiting.length;
        Some(queued)
    }

    /// Takes the next frame that `CoDel` lets leave, marked where a frame that is not ECN-capable
    /// would be dropped; counts those that it drops. `None` if none is left.
    fn pop_by_codel(&mut self, now: Time) -> Option<Queued<Packet>> {
        loop {
            let mut queued = self.pop_first()?;
            if !self.codel.is_too_late(now, now - queued.since, self.bytes) {
                return Some(queued);
            }
            if queued.waiting.ecn_capable {
                queued.mark = true;
                return Some(queued);
            }
            self.dropped += 1;
        }
    }
}

/// The state of `CoDel` (RFC 8289, section 5).
#[derive(Clone, Copy, Debug, Default)]
struct CoDel {
    target: Span,
    interval: Span,
    /// Time at which the sojourn times will have exceeded the target for an interval; `None` while
    /// they do not.
    above_until: Option<Time>,
    dropping: bool,
    next: Time,
    count: u64,
    last_count: u64,
}

impl CoDel {
    /// Whether the frame that leaves at `now` after a sojourn time of `sojourn` is to be marked or
    /// dropped; `left`: bytes behind it.
    fn is_too_late(&mut self, now: Time, sojourn: Span, left: ByteCount) -> bool {
        let is_above = self.has_been_above(now, sojourn, left);
        if self.dropping {
            if !is_above {
                self.dropping = false;
            } else if now >= self.next {
                self.count += 1;
                self.next += self.pause();
                return true;
            }
            return false;
        }
        if is_above {
            self.dropping = true;
            let delta = self.count - self.last_count;
            let recently = now - self.next < self.interval * 16;
            self.count = if delta > 1 && recently { delta } else { 1 };
            self.last_count = self.count;
            self.next = now + self.pause();
        }
        is_above
    }

    /// Whether frames have waited longer than the target for all of an interval, at `now`; false if
    /// less than a full frame is `left` behind this one.
    fn has_been_above(&mut self, now: Time, sojourn: Span, left: ByteCount) -> bool {
        if sojourn < self.target || left < FULL_FRAME {
            self.above_until = None;
            return false;
        }
        let until = *self.above_until.get_or_insert(now + self.interval);
        now >= until
    }

    /// Time from one mark or drop to the next: the interval divided by the root of their number.
    fn pause(&self) -> Span {
        let root = (self.count as f64).sqrt();
        Span::from_nanos((self.interval.as_nanos() as f64 / root) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: ByteCount = ByteCount::new(1538);

    fn at(millis: u64) -> Time {
        Time::ORIGIN + Span::from_millis(millis)
    }

    fn queue(discipline: Discipline) -> LeafQueue<u64> {
        LeafQueue::new(QueueSettings { limit: FRAME * 100, discipline }, None)
    }

    fn waiting(packet: u64, ecn_capable: bool) -> Waiting<u64> {
        Waiting { packet, length: FRAME, ecn_capable }
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_order_is_kept() {
        let mut queue = queue(Discipline::DropTail);
        let taken = (0..110).filter(|number| queue.push(at(0), waiting(*number, false))).count();
        assert_eq!((taken, queue.bytes()), (100, FRAME * 100));
        for number in 0..100 {
            assert_eq!(queue.pop(at(1)).0.unwrap().packet, number);
        }
        assert!(queue.is_empty() && queue.pop(at(1)).0.is_none() && queue.bytes().is_zero());
        let mut small = LeafQueue::new(QueueSettings { limit: ByteCount::new(1), ..QueueSettings::default() }, None);
        assert!(small.push(at(0), waiting(0, false)), "a class can always send something");
    }

    #[test]
    fn marks_take_the_place_of_drops_from_a_length_on() {
        let mut queue = queue(Discipline::Mark(FRAME * 10));
        for number in 0..20 {
            assert!(queue.push(at(0), waiting(number, number % 2 == 0)));
        }
        let marked: Vec<u64> =
            std::iter::from_fn(|| queue.pop(at(1)).0).filter(|taken| taken.mark).map(|taken| taken.packet).collect();
        assert_eq!(marked, [10, 12, 14, 16, 18]);
    }

    /// A queue that is never shorter than 40 ms, a frame each millisecond.
    fn standing(ecn_capable: bool) -> (u64, u64) {
        let codel = Discipline::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) };
        let mut queue = queue(codel);
        let (mut dropped, mut marked) = (0, 0);
        for now in 0..2000 {
            while queue.bytes() < FRAME * 40 {
                queue.push(at(now), waiting(now, ecn_capable));
            }
            let (taken, gone) = queue.pop(at(now));
            dropped += gone;
            marked += u64::from(taken.is_some_and(|taken| taken.mark));
        }
        (dropped, marked)
    }

    #[test]
    fn codel_tells_senders_more_and_more_often_while_the_queue_stands() {
        let (dropped, none) = standing(false);
        let (nothing, marked) = standing(true);
        assert_eq!((none, nothing), (0, 0));
        // 100/√1 + 100/√2 + … milliseconds: about 90 in 1.9 s.
        assert!((60..130).contains(&dropped) && (60..130).contains(&marked), "{dropped} {marked}");
    }

    #[test]
    fn codel_leaves_a_queue_that_empties_alone() {
        let codel = Discipline::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) };
        let mut queue = queue(codel);
        for burst in 0..20 {
            for number in 0..30 {
                queue.push(at(burst * 100), waiting(number, false));
            }
            for number in 0..30 {
                let (taken, gone) = queue.pop(at(burst * 100 + number));
                assert!(gone == 0 && taken.is_some(), "burst {burst} packet {number}");
            }
        }
    }

    #[test]
    fn a_slow_class_may_wait_for_its_own_frames() {
        let codel = Discipline::CoDel { target: Span::from_millis(5), interval: Span::from_millis(100) };
        let settings = QueueSettings { limit: FRAME * 10, discipline: codel };
        let mut queue = LeafQueue::new(settings, Some(Rate::from_bits_per_second(8_000)));
        // Two frames each, every 3.076 s: never more than two wait.
        for second in 0..60 {
            queue.push(at(second * 3076), waiting(0, false));
            queue.push(at(second * 3076), waiting(1, false));
            assert_eq!(queue.pop(at(second * 3076 + 1538)).1 + queue.pop(at(second * 3076 + 3076)).1, 0);
        }
    }
}
