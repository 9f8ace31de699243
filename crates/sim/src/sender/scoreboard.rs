//! The sender's state of every packet between the first unacknowledged one and the next new one.
//!
//! ```text
//!  una                      judged                        next
//!   ├── S S L R S S L L S S ──┼── . . . S S S . . . . . . ──┤      S  selectively acknowledged
//!                             │                                    L  lost, not retransmitted yet
//!    in_flight = (next − una) − sacked − lost + resent             R  lost and retransmitted
//! ```
//!
//! A ring holds one slot per packet, so every packet is touched a fixed number of times however
//! many are in flight: when sent, selectively acknowledged, judged (see
//! [`Rack`](super::rack::Rack)), retransmitted, acknowledged. First transmissions are judged in the
//! order of their numbers, which is that of their times; retransmissions wait in a queue of their
//! own, in the order of their times. Lost packets wait in two queues: those lost for the first
//! time, whose numbers ascend, and those lost again.

use std::collections::VecDeque;

use icdc_cc::native::Stamp;
use icdc_units::Time;

/// Flag: the packet is selectively acknowledged.
const SACKED: u8 = 1;
/// Flag: the packet was found lost.
const LOST: u8 = 2;
/// Flag: the packet was lost and is retransmitted.
const RESENT: u8 = 4;
/// Flag: the packet was sent more than once, whatever became of it (Karn's rule).
const TWICE: u8 = 8;

/// State of one packet between the first unacknowledged one and the next new one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    /// Time of the last transmission.
    pub(super) sent: Time,
    /// State of the deliveries at the last transmission.
    pub(super) stamp: Stamp,
    flags: u8,
}

impl Packet {
    /// Whether the packet is selectively acknowledged.
    pub(super) fn is_sacked(&self) -> bool {
        self.flags & SACKED != 0
    }

    /// Whether the packet was sent more than once.
    pub(super) fn was_resent(&self) -> bool {
        self.flags & TWICE != 0
    }

    /// Whether the packet is lost and not retransmitted yet.
    fn waits(&self) -> bool {
        self.flags & (LOST | RESENT | SACKED) == LOST
    }
}

/// State of every packet between the first unacknowledged one and the next new one, by number, with
/// counts of those lost, retransmitted and selectively acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    ring: Vec<Packet>,
    una: u64,
    next: u64,
    sacked: u64,
    lost: u64,
    resent: u64,
    judged: u64,
    retransmissions: VecDeque<(u64, Time)>,
    lost_first: VecDeque<u64>,
    lost_again: VecDeque<u64>,
}

impl Scoreboard {
    /// Scoreboard of a connection that has sent nothing.
    pub(super) fn new() -> Self {
        Self {
            ring: vec![Packet::default(); 64],
            una: 0,
            next: 0,
            sacked: 0,
            lost: 0,
            resent: 0,
            judged: 0,
            retransmissions: VecDeque::new(),
            lost_first: VecDeque::new(),
            lost_again: VecDeque::new(),
        }
    }

    /// Number of the first packet that is not cumulatively acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Number of the next packet that has never been sent.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Number of packets sent and not cumulatively acknowledged (`packets_out`).
    pub(super) fn outstanding(&self) -> u64 {
        self.next - self.una
    }

    /// Number of packets selectively acknowledged (`sacked_out`).
    pub(super) fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Number of packets lost, whether retransmitted or not (`lost_out`).
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Number of retransmissions in flight (`retrans_out`).
    pub(super) fn resent(&self) -> u64 {
        self.resent
    }

    /// Estimated number of packets in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.outstanding() + self.resent - self.sacked - self.lost
    }

    /// State of a packet, which must be between `una` and `next`.
    pub(super) fn packet(&self, number: u64) -> &Packet {
        &self.ring[number as usize & (self.ring.len() - 1)]
    }

    /// State of a packet, which must be between `una` and `next`, for changes.
    fn packet_mut(&mut self, number: u64) -> &mut Packet {
        let mask = self.ring.len() - 1;
        &mut self.ring[number as usize & mask]
    }

    /// Adds the next new packet, which is sent now; returns its number.
    pub(super) fn send(&mut self, now: Time, stamp: Stamp) -> u64 {
        if self.outstanding() as usize == self.ring.len() {
            self.grow();
        }
        let number = self.next;
        *self.packet_mut(number) = Packet { sent: now, stamp, flags: 0 };
        self.next += 1;
        number
    }

    /// Doubles the ring, which is full.
    fn grow(&mut self) {
        let mut ring = vec![Packet::default(); self.ring.len() * 2];
        let mask = ring.len() - 1;
        for number in self.una..self.next {
            ring[number as usize & mask] = *self.packet(number);
        }
        self.ring = ring;
    }

    /// Records that a packet is sent again.
    pub(super) fn resend(&mut self, number: u64, now: Time, stamp: Stamp) {
        let packet = self.packet_mut(number);
        let already = packet.flags & RESENT != 0;
        *packet = Packet { sent: now, stamp, flags: packet.flags | RESENT | TWICE };
        self.resent += u64::from(!already);
        self.retransmissions.push_back((number, now));
    }

    /// Marks a packet as selectively acknowledged; returns its state before, or `None` if it was
    /// acknowledged already or never sent.
    pub(super) fn sack(&mut self, number: u64) -> Option<Packet> {
        if !(self.una..self.next).contains(&number) || self.packet(number).is_sacked() {
            return None;
        }
        let before = *self.packet(number);
        self.leave(before.flags);
        self.sacked += 1;
        self.packet_mut(number).flags = SACKED | before.flags & TWICE;
        Some(before)
    }

    /// Removes the first packet, which has been cumulatively acknowledged, and returns its
    /// state before that. There must be an outstanding packet; this is not checked.
    pub(super) fn acknowledge_first(&mut self) -> Packet {
        let before = *self.packet(self.una);
        self.leave(before.flags);
        self.sacked -= u64::from(before.is_sacked());
        self.una += 1;
        before
    }

    /// Subtracts a packet with these flags from the counts of those lost and retransmitted.
    fn leave(&mut self, flags: u8) {
        self.lost -= u64::from(flags & LOST != 0);
        self.resent -= u64::from(flags & RESENT != 0);
    }

    /// Judges transmissions in the order of their times: `lost(number, packet)` returns whether a
    /// packet that has not been delivered is lost; the first one that is not ends the loop. Returns
    /// how many first transmissions and how many retransmissions were lost.
    pub(super) fn judge(&mut self, mut lost: impl FnMut(u64, &Packet) -> bool) -> (u64, u64) {
        let (mut first, mut again) = (0, 0);
        self.judged = self.judged.max(self.una);
        while self.judged < self.next {
            let packet = self.packet(self.judged);
            if packet.flags == 0 {
                if !lost(self.judged, packet) {
                    break;
                }
                self.packet_mut(self.judged).flags = LOST;
                self.lost += 1;
                self.lost_first.push_back(self.judged);
                first += 1;
            }
            self.judged += 1;
        }
        while let Some(&(number, sent)) = self.retransmissions.front() {
            if self.is_on_its_way_again(number, sent) {
                if !lost(number, self.packet(number)) {
                    break;
                }
                let packet = self.packet_mut(number);
                let known = packet.flags & LOST != 0;
                packet.flags = LOST | TWICE;
                self.lost += u64::from(!known);
                self.resent -= 1;
                self.lost_again.push_back(number);
                again += 1;
            }
            self.retransmissions.pop_front();
        }
        (first, again)
    }

    /// Whether the retransmission of a packet at the time `sent` is still in flight.
    fn is_on_its_way_again(&self, number: u64, sent: Time) -> bool {
        let packet = || self.packet(number);
        (self.una..self.next).contains(&number) && packet().flags & RESENT != 0 && packet().sent == sent
    }

    /// Marks losses at a retransmission timeout: of the packets not delivered, those for which
    /// `lost(packet)` is true, and the first one in any case. Returns the number of packets newly
    /// lost.
    pub(super) fn give_up(&mut self, lost: impl Fn(&Packet) -> bool) -> u64 {
        self.lost_first.clear();
        self.lost_again.clear();
        let mut count = 0;
        for number in self.una..self.next {
            let first = number == self.una;
            let packet = self.packet(number);
            let flags = packet.flags;
            if flags & SACKED != 0 {
                continue;
            }
            if !packet.waits() && (first || lost(packet)) {
                count += 1;
                self.lost += u64::from(flags & LOST == 0);
                self.resent -= u64::from(flags & RESENT != 0);
                self.packet_mut(number).flags = LOST | flags & TWICE;
            }
            if self.packet(number).waits() {
                self.lost_first.push_back(number);
            }
        }
        count
    }

    /// Number of the lost packet that is to be retransmitted next; `None` if there is none.
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        for again in [false, true] {
            while let Some(&number) = if again { &self.lost_again } else { &self.lost_first }.front() {
                if number >= self.una && self.packet(number).waits() {
                    break;
                }
                if again { &mut self.lost_again } else { &mut self.lost_first }.pop_front();
            }
        }
        match (self.lost_first.front(), self.lost_again.front()) {
            (Some(first), Some(again)) => Some(*first.min(again)),
            (first, again) => first.or(again).copied(),
        }
    }
}
