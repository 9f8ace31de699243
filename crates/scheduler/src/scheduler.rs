//! The scheduler: which frame leaves next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use icdc_units::{ByteCount, Time};

use super::clock::ByteClock;
use super::queue::{FULL_FRAME, LeafQueue, Waiting};
use super::recent::Recent;
use super::{ClassSettings, Headers, Tree};

/// Bytes on the line by which a ceiling's clock may lag behind the position, two full frames: this
/// much of a ceiling that was not used may be made up for.
const SLACK: u64 = 2 * FULL_FRAME.as_u64();

/// Next step of the caller of [`Scheduler::next`]: to send a frame, to let bytes pass on the line,
/// or to wait for a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<Packet> {
    /// This frame leaves. The position has moved by its length.
    Send {
        /// Number of the frame's class.
        class: usize,
        /// The packet, in the caller's form.
        packet: Packet,
        /// Length of the frame on the wire.
        length: ByteCount,
        /// Whether the frame has to be marked as having met congestion (ECN CE).
        mark: bool,
    },
    /// No frame may leave for this many bytes; [`Scheduler::advance`] reports that they have
    /// passed.
    Gap(ByteCount),
    /// No frame waits.
    Idle,
}

/// Counters of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Number of frames that have left.
    pub packets: u64,
    /// Bytes on the wire of those frames.
    pub bytes: ByteCount,
    /// Frames dropped, at the limit of the queue or by `CoDel`.
    pub dropped: u64,
    /// Packets marked as having met congestion.
    pub marked: u64,
}

/// State of one class: the clocks of its rate and its ceiling, its queue, what it has sent beyond
/// its rate, and its counters.
struct Class<Packet> {
    /// Clock of the class's rate; only leaves with a rate have one.
    clock: Option<ByteClock>,
    ceiling: Option<ByteClock>,
    /// Bytes on the line from one full frame of the clock to the next.
    turn: u64,
    parent: Option<usize>,
    borrows: bool,
    queue: LeafQueue<Packet>,
    /// Whether the class has an entry in one of the heaps.
    is_timed: bool,
    /// Bytes that the class has sent beyond its rate, by which borrowing is shared evenly.
    borrowed: u64,
    counters: ClassCounters,
}

/// A scheduler that paces classes of traffic by counting bytes on the wire; see the [crate's
/// description](crate).
pub struct Scheduler<Packet> {
    tree: Tree,
    classes: Vec<Class<Packet>>,
    position: u64,
    /// Leaves with a rate that have frames waiting, by the position at which they are due. Entries
    /// may be out of date.
    timed: BinaryHeap<Reverse<(u64, usize)>>,
    /// Leaves that are due, by the position at which a full frame after the next would be due.
    /// Entries may be out of date.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// Bytes by which a frame may leave before its position.
    early: u64,
    recent: Recent,
    /// Leaves that may borrow and have something to send.
    borrowers: Vec<usize>,
}

impl<Packet> Scheduler<Packet> {
    /// Makes a scheduler with empty queues for these classes.
    #[must_use]
    pub fn new(tree: Tree) -> Self {
        let line = tree.line;
        let classes = tree.classes.iter().map(|placed| {
            let rate = placed.settings.rate.filter(|_| placed.is_leaf);
            let clock = |rate| ByteClock::new(line, rate, ByteCount::ZERO);
            let clock_of_rate = rate.map(clock);
            Class {
                turn: clock_of_rate.as_ref().map_or(0, |clock: &ByteClock| clock.stretch(FULL_FRAME.as_u64())),
                clock: clock_of_rate,
                ceiling: placed.ceiling().map(clock),
                parent: placed.parent,
                borrows: placed.borrows(),
                queue: LeafQueue::new(placed.settings.queue, placed.settings.rate),
                is_timed: false,
                borrowed: 0,
                counters: ClassCounters::default(),
            }
        });
        let classes = classes.collect();
        Self {
            tree,
            classes,
            position: 0,
            timed: BinaryHeap::new(),
            ready: BinaryHeap::new(),
            early: 0,
            recent: Recent::new(),
            borrowers: Vec::new(),
        }
    }

    /// A scheduler whose frames may leave this many bytes before they are due, where the line would
    /// otherwise have a shorter gap: the clocks are charged as before, so that rates stay equal and
    /// a burst grows by `early · rate / line` at most.
    #[must_use]
    pub fn with_early(self, early: ByteCount) -> Self {
        Self { early: early.as_u64(), ..self }
    }

    /// The tree of classes that the scheduler serves.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Every class, in the order of the tree, with its settings, its counters and its waiting
    /// bytes; those of inner classes are included.
    pub fn classes(&self) -> impl Iterator<Item = (&ClassSettings, ClassCounters, ByteCount)> {
        let mut waiting: Vec<ByteCount> = self.classes.iter().map(|class| class.queue.bytes()).collect();
        // A parent precedes its classes.
        for (index, class) in self.classes.iter().enumerate().rev() {
            if let Some(parent) = class.parent {
                let own = waiting[index];
                waiting[parent] += own;
            }
        }
        let classes = self.tree.classes.iter().zip(&self.classes).zip(waiting);
        classes.map(|((placed, class), waiting)| (&placed.settings, class.counters, waiting))
    }

    /// Applies `change` to the counters of a class and of all classes above it.
    fn note(&mut self, class: usize, change: impl Fn(&mut ClassCounters)) {
        let mut path = Some(class);
        while let Some(class) = path.map(|index| &mut self.classes[index]) {
            change(&mut class.counters);
            path = class.parent;
        }
    }

    /// Bytes that have passed on the line.
    #[must_use]
    pub fn position(&self) -> ByteCount {
        ByteCount::new(self.position)
    }

    /// Moves the position on by bytes that have passed on the line and are not a frame of
    /// [`Step::Send`], which moves it itself: a gap, idle time, or frames that bypass the
    /// classes.
    pub fn advance(&mut self, bytes: ByteCount) {
        self.position += bytes.as_u64();
    }

    /// Index of the class of a frame with these headers; `None` is a frame without IP.
    pub fn class_of(&mut self, headers: Option<&Headers>) -> usize {
        let Self { tree, recent, .. } = self;
        match headers {
            Some(headers) => recent.class_of(headers, || tree.class_of(Some(headers))),
            None => tree.class_of(None),
        }
    }

    /// A frame arrives for the class of that number; false if it was dropped.
    pub fn push(&mut self, now: Time, class: usize, waiting: Waiting<Packet>) -> bool {
        let was_empty = self.classes[class].queue.is_empty();
        if !self.classes[class].queue.push(now, waiting) {
            self.note(class, |counters| counters.dropped += 1);
            return false;
        }
        if was_empty {
            self.begin(class);
        }
        true
    }

    /// The next step at `now`; the time only determines how long frames have waited.
    pub fn next(&mut self, now: Time) -> Step<Packet> {
        loop {
            let due = self.sort_out_due();
            let chosen = self.most_urgent().map(|class| (class, true));
            let (borrower, free) = if chosen.is_none() { self.borrower() } else { (None, None) };
            let Some((class, by_rate)) = chosen.or(borrower.map(|class| (class, false))) else {
                let next = [due, free].into_iter().flatten().min();
                return next.map_or(Step::Idle, |next| Step::Gap(ByteCount::new(next - self.position)));
            };
            // CoDel may have dropped all waiting frames.
            if let Some(step) = self.take(now, class, by_rate) {
                return step;
            }
        }
    }

    /// A scheduler with other classes. Waiting frames stay in the class of their name, or move to
    /// the default class; none is lost, though queues may exceed their new limits for a while. A
    /// class takes over the counters of the class of its name.
    #[must_use]
    pub fn with(mut self, now: Time, tree: Tree) -> Self {
        let mut next = Self::new(tree).with_early(ByteCount::new(self.early));
        next.position = self.position;
        for (index, placed) in self.tree.classes.iter().enumerate() {
            let is_same = |other: &super::class::Placed| other.settings.name == placed.settings.name && other.is_leaf;
            let same = next.tree.classes.iter().position(is_same).filter(|_| placed.is_leaf);
            let class = &mut self.classes[index];
            let namesake = next.tree.classes.iter().position(|other| other.settings.name == placed.settings.name);
            if let Some(namesake) = namesake {
                next.classes[namesake].counters = class.counters;
            }
            let target = same.unwrap_or(next.tree.default);
            let was_empty = next.classes[target].queue.is_empty();
            let settings = next.tree.classes[target].settings.clone();
            let roomy = super::QueueSettings { limit: ByteCount::MAX, ..settings.queue };
            next.classes[target].queue.change(roomy, settings.rate);
            for waiting in class.queue.drain() {
                next.classes[target].queue.push(now, waiting);
            }
            next.classes[target].queue.change(settings.queue, settings.rate);
            if was_empty && !next.classes[target].queue.is_empty() {
                // What was due at some position still is: a change of classes is no chance to
                // burst.
                let due = class.clock.as_ref().map_or(0, ByteClock::due);
                if let Some(clock) = &mut next.classes[target].clock {
                    clock.not_before(due);
                }
                next.begin(target);
            }
        }
        next
    }

    /// Enters a leaf whose queue is not empty any more among those that are served, by its due
    /// position or as one that may exceed its rate. It gets no credit for the time without frames.
    fn begin(&mut self, index: usize) {
        let position = self.position;
        let borrowers = self.borrowers.iter().map(|other| self.classes[*other].borrowed).min();
        let class = &mut self.classes[index];
        if class.borrows {
            // Nothing is saved up by having been idle.
            class.borrowed = class.borrowed.max(borrowers.unwrap_or(0));
            self.borrowers.push(index);
        }
        if let Some(clock) = &mut class.clock {
            clock.not_before(position);
            if !class.is_timed {
                class.is_timed = true;
                self.timed.push(Reverse((clock.due(), index)));
            }
        }
    }

    /// Moves the leaves that are due now from `timed` to `ready`; returns the position, in bytes,
    /// at which the first of the others is due, `None` if none waits.
    fn sort_out_due(&mut self) -> Option<u64> {
        while let Some((due, index)) = self.first_due() {
            if due > self.position + self.early {
                return Some(due);
            }
            self.timed.pop();
            self.ready.push(Reverse((due.saturating_add(self.classes[index].turn), index)));
        }
        None
    }

    /// Takes from `ready` the leaf whose full frame after the next would be due first; `None` if no
    /// leaf that is due has a frame.
    fn most_urgent(&mut self) -> Option<usize> {
        while let Some(Reverse((_, index))) = self.ready.pop() {
            let class = &mut self.classes[index];
            class.is_timed = false;
            // All that it had may have left beyond its rate.
            if !class.queue.is_empty() {
                return Some(index);
            }
        }
        None
    }

    /// Due position, in bytes, and number of the leaf that is due first, of those in `timed`, whose
    /// entries are brought up to date; `None` if there is none.
    fn first_due(&mut self) -> Option<(u64, usize)> {
        while let Some(Reverse((noted, index))) = self.timed.peek().copied() {
            let class = &mut self.classes[index];
            let due = class.clock.as_ref().map_or(0, ByteClock::due);
            if class.queue.is_empty() {
                class.is_timed = false;
                self.timed.pop();
            } else if noted != due {
                self.timed.pop();
                self.timed.push(Reverse((due, index)));
            } else {
                return Some((due, index));
            }
        }
        None
    }

    /// The leaf that may send beyond its rate now and has sent least so, and the position, in
    /// bytes, from which on ceilings allow it to another one; `None` for none.
    fn borrower(&self) -> (Option<usize>, Option<u64>) {
        let (mut chosen, mut later): (Option<usize>, Option<u64>) = (None, None);
        for &index in &self.borrowers {
            let free = self.free_at(index);
            if free > self.position {
                later = Some(later.map_or(free, |later| later.min(free)));
            } else if chosen.is_none_or(|chosen| self.classes[index].borrowed < self.classes[chosen].borrowed) {
                chosen = Some(index);
            }
        }
        (chosen, later)
    }

    /// Position on the line, in bytes, from which on no ceiling stops a leaf; zero if it has no
    /// ceiling.
    fn free_at(&self, index: usize) -> u64 {
        let ceilings = self.upwards(index).filter_map(|class| self.classes[class].ceiling.as_ref());
        ceilings.map(ByteClock::due).max().unwrap_or(0)
    }

    /// The class of this number and all classes above it, upwards.
    fn upwards(&self, index: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(index), |class| self.classes[*class].parent)
    }

    /// Takes the next frame of a leaf and charges it to the ceilings above, and to the clock of its
    /// rate if `by_rate`, otherwise to what it has sent beyond that. `None` if `CoDel` has dropped
    /// all that waited.
    fn take(&mut self, now: Time, index: usize, by_rate: bool) -> Option<Step<Packet>> {
        let class = &mut self.classes[index];
        let (taken, dropped) = class.queue.pop(now);
        let is_empty = class.queue.is_empty();
        if is_empty {
            self.borrowers.retain(|other| *other != index);
        }
        if dropped > 0 {
            self.note(index, |counters| counters.dropped += dropped);
        }
        let taken = taken?;
        let length = taken.length.as_u64();
        let class = &mut self.classes[index];
        match &mut class.clock {
            Some(clock) if by_rate => {
                clock.charge(length);
                if !is_empty {
                    class.is_timed = true;
                    self.timed.push(Reverse((clock.due(), index)));
                }
            }
            _ => class.borrowed += length,
        }
        let begins = self.position.saturating_sub(SLACK);
        let mut path = Some(index);
        while let Some(above) = path {
            let class = &mut self.classes[above];
            class.counters.packets += 1;
            class.counters.bytes += taken.length;
            class.counters.marked += u64::from(taken.mark);
            if let Some(ceiling) = &mut class.ceiling {
                ceiling.not_before(begins);
                ceiling.charge(length);
            }
            path = class.parent;
        }
        self.position += length;
        Some(Step::Send { class: index, packet: taken.packet, length: taken.length, mark: taken.mark })
    }
}

#[cfg(test)]
mod tests;
