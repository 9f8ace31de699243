//! The loop: frames come from the tap, wait in their classes, and leave when their clocks say so.
//!
//! ```text
//! timer mode: a frame leaves when position(now) has come to where it begins
//! gap mode:   the line is filled up to position(now + lead), with frames and gap frames
//! ```
//!
//! While the process does not get to run, the line is idle for good (but for [`CATCH_UP`] in timer
//! mode): nothing is made up for by a burst. In gap mode a stall shorter than what the line holds
//! changes nothing at all. The thread runs before others where it may.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use icdc_packet::{Neighbours, Outlet, Tap, clock, precedence};
use icdc_scheduler::{Headers, LEAST_GAP, Scheduler, Step, Tree, Waiting, is_of_neighbours, mark_congestion};
use icdc_units::{ByteCount, Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::burstiness::Bursts;
use super::detour::Detour;
use super::frames::{Frame, FrameBuffers, Gaps, Outgoing};
use super::line_clock::LineClock;
use super::{ClassStatus, Control, Line, Mode, Status, WireError};

/// Multiple of the lead beyond which a gap is not filled with gap frames from its beginning but
/// waited for by the timer: an idle line paces as well as a filled one, and is cheaper.
const FILLED: u64 = 2;
/// Bytes by which, in gap mode, a frame may leave before its time, so that no gap frame this short
/// is needed: a quarter of a full frame. At nine tenths of the line this saves three of four gap
/// frames.
const EARLY: ByteCount = ByteCount::new(384);
/// Interval at which the line is filled up in gap mode, if half a lead is not shorter: the longest
/// time until an arriving frame is read.
const REFILL: Span = Span::from_millis(1);
/// Lateness up to which timer mode sends what was due, in a bunch: the timer's own. A longer one is
/// not made up for, since a bunch may not fill a short queue.
const CATCH_UP: Span = Span::from_micros(250);
/// Least interval between two wakes of the pump while frames wait.
const TURN: Span = Span::from_micros(50);
/// Longest sleep of an idle pump, so that it notices a request in time.
const IDLE: Span = Span::from_millis(50);
/// Maximum number of frames that are read, or sent, by one turn of the loop, so that neither holds
/// up the other.
const BATCH: usize = 256;
/// Longest frame of a neighbour (ARP or neighbour discovery) that is read, in bytes.
const ANSWER: usize = 9100;
/// Priority of the pump's thread (nice(2), the highest) if real-time scheduling is not permitted.
const FIRST: i32 = -20;
/// Real-time priority of the pump's thread: below those of a lab's wire (40) and of the kernel's
/// own threads (50), which move packets for everybody.
const PRIORITY: u8 = 30;

/// Loop of the wire pacer: reads the host's frames from the tap, queues them in their classes, and
/// sends them out of the device at their times.
pub(super) struct Pump {
    mode: Mode,
    /// Time by which the line is filled ahead; zero in timer mode.
    lead: Span,
    clock: LineClock,
    scheduler: Scheduler<Frame>,
    tap: Tap,
    neighbours: Neighbours,
    outlet: Outlet,
    gaps: Gaps,
    /// Frames to be handed to the device, in order.
    outgoing: VecDeque<Outgoing>,
    buffers: FrameBuffers,
    /// Frames of the packet that was read last, between two steps.
    taken: Vec<Frame>,
    /// Buffer for an answer of a neighbour.
    answer: Vec<u8>,
    status: Status,
    bursts: Bursts,
}

/// Condition on which the loop waits before its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// There is more to do at once.
    AtOnce,
    /// The next frame is due at this time.
    At(Time),
    /// There is nothing to do until a frame arrives.
    Whenever,
}

impl Pump {
    /// Pump for this line and tree of classes, which reads from `tap`; opens the sockets on the
    /// device.
    pub(super) fn new(line: &Line, tree: Tree, tap: Tap, detour: &Detour) -> Result<Self, WireError> {
        let (lead, early) = match line.mode {
            Mode::Timer => (Span::ZERO, ByteCount::ZERO),
            Mode::Gap => (line.lead, EARLY),
        };
        Ok(Self {
            mode: line.mode,
            lead,
            clock: LineClock::new(line.rate, clock::now()),
            bursts: Bursts::new(tree.parents(), clock::now()),
            scheduler: Scheduler::new(tree).with_early(early),
            tap,
            neighbours: Neighbours::open(&line.device)?,
            outlet: Outlet::open(&line.device)?,
            gaps: Gaps::new(detour.hardware(), detour.mtu()),
            outgoing: VecDeque::new(),
            buffers: FrameBuffers::new(detour.mtu()),
            taken: Vec::new(),
            answer: vec![0; ANSWER],
            status: Status::default(),
        })
    }

    /// Runs the loop in the calling thread, at raised priority, until `control` requests the end.
    pub(super) fn run(&mut self, control: &Control) -> Result<(), WireError> {
        // The kernel delays wake-ups by the timer slack, to wake several threads at once: as little
        // as possible. And this thread runs before others, where permitted.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        if precedence::raise_priority(PRIORITY).is_err() {
            let _ = rustix::process::setpriority_process(None, FIRST);
        }
        while !control.is_stopped() {
            if let Some(tree) = control.new_tree() {
                self.change(tree);
            }
            let now = clock::now();
            self.keep_time(now);
            let taken = self.receive(now)?;
            let next = self.send(now)?;
            self.bursts.advance(now);
            if control.is_asked() {
                control.publish(self.status(now));
            }
            if taken < BATCH {
                self.wait(now, next);
            }
        }
        control.publish(self.status(clock::now()));
        Ok(())
    }

    /// Brings the scheduler's position up to the clock after a pause: time in which nothing had to
    /// be sent counts, time that the process lost does not.
    fn keep_time(&mut self, now: Time) {
        let allowed = if self.mode == Mode::Timer { CATCH_UP } else { Span::ZERO };
        let (rested, lost) = self.clock.resume(now, self.scheduler.position(), allowed);
        self.scheduler.advance(rested);
        self.status.late += lost;
    }

    /// Reads the frames that the host has sent into the tap and queues them, and passes answers of
    /// neighbours to the tap; returns the number of frames from the tap.
    fn receive(&mut self, now: Time) -> Result<usize, WireError> {
        for _ in 0..BATCH {
            let Some(length) = self.neighbours.receive(&mut self.answer)? else { break };
            self.tap.write(&self.answer[..length])?;
        }
        let mut count = 0;
        while count < BATCH {
            let read = self.tap.read(&mut self.buffers.free())?;
            let Some(length) = read else { break };
            self.buffers.take(length, &mut self.taken);
            count += self.taken.len();
            self.line_up(now);
        }
        Ok(count)
    }

    /// Queues the frames of the packet that was read last in their class; those of ARP and
    /// neighbour discovery are sent before all classes.
    fn line_up(&mut self, now: Time) {
        let Some(first) = self.taken.first() else { return };
        if is_of_neighbours(first.ethernet()) {
            for frame in self.taken.drain(..) {
                // Without it nothing else goes; it is little, and no class may keep it waiting.
                self.scheduler.advance(frame.wire_length());
                self.outgoing.push_back(Outgoing::Frame(frame));
            }
            return;
        }
        let headers = Headers::of(first.ethernet());
        let class = self.scheduler.class_of(headers.as_ref());
        let ecn_capable = headers.is_some_and(|headers| headers.ecn_capable);
        for packet in self.taken.drain(..) {
            self.scheduler.push(now, class, Waiting { length: packet.wire_length(), ecn_capable, packet });
        }
    }

    /// Takes the frames that are due from the scheduler and hands them to the device; returns when
    /// there is more to do.
    fn send(&mut self, now: Time) -> Result<Next, WireError> {
        let horizon = self.clock.position_at(now + self.lead);
        let next = loop {
            if self.outgoing.len() >= BATCH {
                break Next::AtOnce;
            }
            let position = self.scheduler.position();
            if position > horizon {
                break Next::At(self.clock.time_of(position) - self.lead + REFILL.min(self.lead / 2));
            }
            match self.scheduler.next(now) {
                Step::Send { class, packet: mut frame, length, mark } => {
                    // In gap mode the line brings it then, whenever it is handed over.
                    let at = if self.mode == Mode::Gap { self.clock.time_of(position) } else { now };
                    self.bursts.left(class, at, length);
                    if mark {
                        mark_congestion(frame.ethernet_mut());
                    }
                    self.outgoing.push_back(Outgoing::Frame(frame));
                }
                Step::Gap(gap) => {
                    if let Some(due) = self.gap(gap, horizon) {
                        break Next::At(due);
                    }
                }
                Step::Idle => {
                    self.clock.rest_until(Time::MAX);
                    break Next::Whenever;
                }
            }
        };
        if self.hand_over()? { Ok(next) } else { Ok(Next::At(now + TURN)) }
    }

    /// Advances through a gap between frames of `gap` bytes, filled with gap frames or idle, as far
    /// as `horizon`. `None` if the loop can go on at once; otherwise the time at which to continue.
    fn gap(&mut self, gap: ByteCount, horizon: ByteCount) -> Option<Time> {
        let position = self.scheduler.position();
        let end = position + gap;
        match self.mode {
            Mode::Timer if end <= horizon => {
                self.scheduler.advance(gap);
                None
            }
            Mode::Gap if gap <= self.clock.line() * (self.lead * FILLED) => {
                // A frame that comes meanwhile does not wait for the rest. No rest is so short that
                // the next frame would leave before its time.
                let room = (horizon - position).max(LEAST_GAP);
                let (frames, filled) = self.gaps.fill(if gap <= room + EARLY { gap } else { room });
                let before = self.outgoing.len();
                self.outgoing.extend(frames);
                self.status.gap_frames += (self.outgoing.len() - before) as u64;
                self.scheduler.advance(filled);
                None
            }
            _ => {
                let due = self.clock.time_of(end);
                // To wake late by less than the lead changes nothing.
                self.clock.rest_until(due);
                Some(due - self.lead)
            }
        }
    }

    /// Hands the outgoing frames to the device; false if it has no room for all of them now.
    fn hand_over(&mut self) -> Result<bool, WireError> {
        while !self.outgoing.is_empty() {
            let (outlet, gaps) = (&mut self.outlet, &self.gaps);
            match outlet.send(self.outgoing.iter().map(|outgoing| gaps.bytes(outgoing))) {
                Ok(sent) => {
                    for outgoing in self.outgoing.drain(..sent.packets) {
                        self.buffers.give_back(outgoing);
                    }
                    if sent.refused {
                        self.outgoing.pop_front();
                        self.status.refused += 1;
                    } else if !self.outgoing.is_empty() {
                        return Ok(false);
                    }
                }
                // It may come up again; until then what is sent is lost, as on any device.
                Err(error) if error.cause.raw_os_error() == Some(Errno::NETDOWN.raw_os_error()) => {
                    self.status.refused += self.outgoing.len() as u64;
                    self.outgoing.clear();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Sleeps until the next turn is due; a long wait also ends when a frame arrives.
    fn wait(&self, now: Time, next: Next) {
        let due = match next {
            Next::AtOnce => return,
            Next::At(due) => due,
            Next::Whenever => now + IDLE,
        };
        // What comes in the meantime waits that long at most; looking at each frame would cost more
        // than pacing it.
        let short = (REFILL.min(self.lead / 2) * 2).max(TURN * 2);
        if next != Next::Whenever && due <= now + short {
            return clock::sleep_until(due.max(now + TURN / 4));
        }
        let left = due.min(now + IDLE) - now;
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: (left.as_nanos() % 1_000_000_000) as _ };
        let mut polled = [PollFd::new(&self.tap, PollFlags::IN), PollFd::new(&self.neighbours, PollFlags::IN)];
        // Whatever ends the wait, both are looked at next.
        let _ = poll(&mut polled, Some(&left));
    }

    /// Continues with another tree of classes; the frames that wait are kept.
    fn change(&mut self, tree: Tree) {
        let fresh = Scheduler::new(tree.clone());
        let old = std::mem::replace(&mut self.scheduler, fresh);
        self.bursts = Bursts::new(tree.parents(), clock::now());
        self.scheduler = old.with(clock::now(), tree);
        self.status.reloads += 1;
    }

    /// Status for other threads; begins new bursts.
    fn status(&mut self, now: Time) -> Status {
        self.status.at = now;
        let classes = self.scheduler.classes().zip(self.bursts.take(now));
        self.status.classes = classes
            .map(|((settings, counters, waiting), burst)| ClassStatus {
                name: settings.name.clone(),
                parent: settings.parent.clone(),
                rate: settings.rate,
                ceiling: settings.ceiling,
                counters,
                waiting,
                burst,
            })
            .collect();
        self.status.clone()
    }
}
