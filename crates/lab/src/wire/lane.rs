//! One direction of the live path: frames from a ring, through the path's decisions, out when they
//! are due.
//!
//! ```text
//!  host ─veth─► ring ── stamp ──► path::Direction ── due ──► delay line ── when due ──► outlet ─veth─► host
//!               (kernel copies,    loss, queue               (slots stay               sendmmsg
//!                stamps)           analytically)              in the ring)
//! ```
//!
//! Decisions follow the kernel's stamps and nothing else: when this process gets to run changes no
//! drop and no due time, as long as the ring has slots. What it does change is how late a frame
//! leaves, and that is recorded for every frame.

use hdrhistogram::Histogram;
use icdc_packet::{Arrival, Offload, Outlet, PacketError, Ring, Slot, Superpacket, clock};
use icdc_path::{DelayLine, Direction, Fate, Frame};
use icdc_scheduler::{Burstiness, is_ecn_capable, mark_congestion};
use icdc_units::{ByteCount, Span, Time};

use super::listing::{Listed, Listing, destination};
use super::page::{Gauge, LanePage};

/// Frames that are taken from the ring, or sent, before the other direction gets its turn.
const TURN: usize = 256;
/// A packet shorter than a slot's length divided by this is copied out of its slot in the ring,
/// because there are only as many slots as full packets can be in flight.
const WASTEFUL: usize = 2;
/// Time after which a packet that cannot be sent is dropped, and counted.
const PATIENCE: Span = Span::from_millis(500);
/// Greatest lateness that is recorded, with two significant digits; greater ones count as this.
const LONGEST_LATENESS: Span = Span::from_secs(60);
/// Window over which the burstiness is measured.
const BURST_WINDOW: Span = Span::from_secs(1);
/// Destination address of a PAUSE frame (IEEE 802.3 annex 31B), by which the wire pacer makes gaps.
const PAUSE_DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// EtherType of a PAUSE frame (MAC control).
const PAUSE_TYPE: [u8; 2] = [0x88, 0x08];

/// Amount of packets that a lane has moved in one turn, by which the loop decides whether to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moved {
    /// No packet was due.
    Nothing,
    /// All packets that were due were moved.
    Some,
    /// The limit of a turn; more may be due.
    Full,
}

impl Moved {
    /// The amount for this number of packets in one turn.
    const fn of(count: usize) -> Self {
        match count {
            0 => Self::Nothing,
            TURN.. => Self::Full,
            _ => Self::Some,
        }
    }
}

/// Time at which a frame arrives at the far end of the path, and whether it carries a congestion
/// mark (ECN).
#[derive(Clone, Copy)]
struct Due {
    at: Time,
    is_marked: bool,
}

/// A packet in flight.
enum Packet {
    /// The packet lies whole in its slot of the ring.
    Whole { slot: Slot, length: u32 },
    /// Copied out of the ring, with the header of its offloads: a packet that would waste a slot,
    /// the rest of a superpacket after losses, or a packet that carries a mark.
    Copied(Box<[u8]>),
}

/// One direction of the live path: its ring, its decisions, its packets in flight, its counters.
pub(super) struct Lane {
    ring: Ring,
    outlet: Outlet,
    path: Direction,
    line: DelayLine<Packet>,
    /// Packets that are due and taken from the delay line, with the times at which they were due.
    leaving: Vec<(Time, Packet)>,
    freed: Vec<Slot>,
    lateness: Histogram<u64>,
    burstiness: Burstiness,
    latest: Time,
    held_bytes: u64,
    page: LanePage,
    listing: Option<Listing>,
}

impl Lane {
    /// A direction without packets in flight: from `ring` through `path` to `outlet`, counted in
    /// `page`. Frames that arrive are added to the `listing`, if there is one.
    pub(super) fn new(ring: Ring, outlet: Outlet, path: Direction, page: LanePage, listing: Option<Listing>) -> Self {
        let lateness =
            Histogram::new_with_max(LONGEST_LATENESS.as_nanos(), 2).expect("two digits up to a minute are possible");
        Self {
            ring,
            outlet,
            path,
            line: DelayLine::default(),
            leaving: Vec::with_capacity(TURN),
            freed: Vec::with_capacity(TURN),
            lateness,
            burstiness: Burstiness::new(BURST_WINDOW),
            latest: Time::ORIGIN,
            held_bytes: 0,
            page,
            listing,
        }
    }

    /// The ring of arriving frames, whose descriptor the loop polls.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Time at which the next packet is due; `None` if none is in flight.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.leaving.first().map(|&(due, _)| due).or_else(|| self.line.next_due())
    }

    /// Takes packets that have arrived from the ring, at most [`TURN`], and decides about loss,
    /// queue and arrival time of each.
    pub(super) fn receive(&mut self) -> Moved {
        let Self { ring, path, line, freed, burstiness, latest, held_bytes, page, listing, .. } = self;
        let count = ring.receive(TURN, |ring, arrival| {
            let at = (*latest).max(arrival.at);
            let mut decision = ArrivalDecision { path, line, burstiness, held_bytes, page, listing, at };
            *latest = decision.at;
            if !decision.take(ring, &arrival) {
                freed.push(arrival.slot);
            }
        });
        for slot in freed.drain(..) {
            ring.give_back(slot);
        }
        Moved::of(count)
    }

    /// Sends packets that are due at `now` to the receiving host, at most [`TURN`], and gives their
    /// slots back to the ring.
    pub(super) fn deliver(&mut self, now: Time) -> Result<Moved, PacketError> {
        while self.leaving.len() < TURN {
            let Some(packet) = self.line.pop_due(now) else { break };
            self.leaving.push(packet);
        }
        if self.leaving.is_empty() {
            return Ok(Moved::Nothing);
        }
        let ring = &self.ring;
        let sent = self.outlet.send(self.leaving.iter().map(|(_, packet)| match packet {
            Packet::Whole { slot, length } => ring.frame_with_offload(*slot, *length as usize),
            Packet::Copied(bytes) => bytes,
        }))?;
        let done = clock::now();
        // Packets for which the device has no room now are tried again; a device that takes nothing
        // for long must not stop everything.
        let stuck = sent.packets == 0 && self.leaving.first().is_some_and(|&(due, _)| done - due > PATIENCE);
        let refused = usize::from(sent.refused || stuck);
        if refused > 0 {
            self.page.add(Gauge::SendFailures, 1);
        }
        for (due, packet) in self.leaving.drain(..sent.packets + refused) {
            self.lateness.saturating_record((done - due).as_nanos());
            match packet {
                Packet::Whole { slot, length } => {
                    self.held_bytes -= u64::from(length);
                    self.ring.give_back(slot);
                }
                Packet::Copied(bytes) => self.held_bytes -= bytes.len() as u64,
            }
        }
        Ok(Moved::of(sent.packets))
    }

    /// Writes the lane's counters to the page.
    pub(super) fn publish(&mut self) -> Result<(), PacketError> {
        if let Some(listing) = &mut self.listing {
            listing.publish();
        }
        let counters = self.path.counters();
        let page = &self.page;
        page.set(Gauge::Offered, counters.offered);
        page.set(Gauge::OfferedBytes, counters.offered_bytes.as_u64());
        page.set(Gauge::Delivered, counters.delivered);
        page.set(Gauge::DeliveredBytes, counters.delivered_bytes.as_u64());
        page.set(Gauge::Lost, counters.lost);
        page.set(Gauge::QueueDrops, counters.dropped);
        page.set(Gauge::GapFrames, counters.gaps);
        page.set(Gauge::Overruns, counters.overrun);
        page.set(Gauge::QueueMax, counters.queue_max.as_u64());
        page.set(Gauge::Marked, counters.marked);
        page.set(Gauge::HeldPackets, (self.line.held() + self.leaving.len()) as u64);
        page.set(Gauge::HeldBytes, self.held_bytes);
        page.set(Gauge::RingOverflow, self.ring.overflow()?);
        for (gauge, quantile) in [
            (Gauge::LatenessMedian, 0.5),
            (Gauge::Lateness99, 0.99),
            (Gauge::Lateness999, 0.999),
            (Gauge::LatenessMax, 1.0),
        ] {
            page.set(gauge, self.lateness.value_at_quantile(quantile));
        }
        Ok(())
    }
}

/// Parts of a [`Lane`] that the decision on one arriving packet needs, and its time of arrival.
struct ArrivalDecision<'a> {
    path: &'a mut Direction,
    line: &'a mut DelayLine<Packet>,
    burstiness: &'a mut Burstiness,
    held_bytes: &'a mut u64,
    page: &'a mut LanePage,
    listing: &'a mut Option<Listing>,
    at: Time,
}

impl ArrivalDecision<'_> {
    /// Decides on an arrival; returns whether the frame stays in its slot.
    fn take(&mut self, ring: &Ring, arrival: &Arrival) -> bool {
        if arrival.truncated {
            self.page.add(Gauge::Truncated, 1);
            return false;
        }
        let frame = ring.frame(arrival.slot, arrival.length);
        if let Some(superpacket) = Superpacket::parse(frame, arrival.offload) {
            return self.take_superpacket(superpacket, ring, frame, arrival);
        }
        self.offer(frame, arrival.length, is_pause(frame)).is_some_and(|due| self.keep(due, ring, arrival))
    }

    /// Passes every frame of a superpacket through the path by itself; those that survive travel
    /// together, and arrive when the last of them does. They have one header: a mark for one is a
    /// mark for all. Returns whether the superpacket stays in its slot.
    fn take_superpacket(&mut self, superpacket: Superpacket, ring: &Ring, frame: &[u8], arrival: &Arrival) -> bool {
        self.page.add(Gauge::Superpackets, 1);
        let frames = superpacket.frames();
        let (mut run_start, mut run_due) = (0, None::<Due>);
        for index in 0..frames {
            match self.offer(frame, superpacket.frame_length(index), false) {
                Some(due) => {
                    let is_marked = due.is_marked || run_due.is_some_and(|earlier| earlier.is_marked);
                    run_due = Some(Due { is_marked, ..due });
                }
                None => {
                    self.keep_cut(&superpacket, frame, run_start..index, run_due.take());
                    run_start = index + 1;
                }
            }
        }
        match run_due {
            Some(due) if run_start == 0 => self.keep(due, ring, arrival),
            due => {
                self.keep_cut(&superpacket, frame, run_start..frames, due);
                false
            }
        }
    }

    /// Lets a packet wait for its time; returns whether it does so in its slot.
    fn keep(&mut self, due: Due, ring: &Ring, arrival: &Arrival) -> bool {
        if due.is_marked || arrival.length * WASTEFUL < ring.geometry().longest() {
            self.keep_copy(due, ring.frame_with_offload(arrival.slot, arrival.length).into());
            return false;
        }
        *self.held_bytes += arrival.length as u64;
        self.line.push(due.at, Packet::Whole { slot: arrival.slot, length: arrival.length as u32 });
        true
    }

    /// Keeps the frames `run` of a superpacket until they are due, as a packet copied out of the
    /// ring; nothing if `due` is `None`, as for an empty run.
    fn keep_cut(&mut self, superpacket: &Superpacket, frame: &[u8], run: std::ops::Range<usize>, due: Option<Due>) {
        if let Some(due) = due {
            self.keep_copy(due, superpacket.cut(frame, run).into_boxed_slice());
        }
    }

    /// Keeps a copied packet until it is due; `packet` begins with the header of its offloads.
    fn keep_copy(&mut self, due: Due, mut packet: Box<[u8]>) {
        if due.is_marked {
            mark_congestion(&mut packet[Offload::LENGTH..]);
        }
        *self.held_bytes += packet.len() as u64;
        self.line.push(due.at, Packet::Copied(packet));
    }

    /// Passes a frame of `length`, whose headers are those of `packet`, through loss and queue, and
    /// counts it. Returns when it arrives at the far end, with its mark; `None` if it does not. A
    /// PAUSE frame (`gap`) takes its time on the path and is not delivered.
    fn offer(&mut self, packet: &[u8], length: usize, gap: bool) -> Option<Due> {
        let ecn_capable = self.path.marks() && is_ecn_capable(packet);
        let frame = Frame { length: ByteCount::new(length as u64), gap, ecn_capable };
        let wire_length = frame.wire_length();
        let fate = self.path.offer(self.at, frame);
        // Where there is a line, frames are spaced as it delivers them, not as the host hands them
        // over.
        let received = self.at + self.path.line_backlog(self.at);
        if !gap && let Some(window) = self.burstiness.packet(received, wire_length) {
            self.page.burst(&window);
        }
        if let (false, Some(listing)) = (gap || fate == Fate::Overrun, self.listing.as_mut()) {
            listing.note(Listed { at: received, length: wire_length, to: destination(packet) });
        }
        self.page.arrived(self.at, fate, wire_length, self.path.queued(self.at));
        fate.due().map(|at| Due { at, is_marked: matches!(fate, Fate::Marked(_)) })
    }
}

/// Whether an Ethernet frame is a PAUSE frame, a gap of the wire pacer.
fn is_pause(frame: &[u8]) -> bool {
    frame.starts_with(&PAUSE_DESTINATION) && frame[12..].starts_with(&PAUSE_TYPE)
}
