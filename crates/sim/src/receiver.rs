//! The receiver: packets held, and the times of acknowledgements (`tcp_data_queue`,
//! `__tcp_ack_snd_check`).
//!
//! ```text
//! in order, nothing missing   the first 16, and while the announced window grows: at once; then every second packet, or
//!                             40 ms after a single one
//!                             with receive offload: once per batch of packets that arrive together
//! something missing           the first three at once, then every 44th, or min(1 ms, rtt/20) after one (compressed SACK)
//! the last gap is filled      at once
//! a duplicate                 at once
//! ```
//!
//! The application reads at once. Selective acknowledgements are modelled by [`Reports`]: an
//! acknowledgement covers everything that had arrived when it left, where a real one has room for
//! three blocks.

use std::collections::VecDeque;

use icdc_units::{ByteCount, Span, Time};

use crate::held::Held;
use crate::simulation::{Acknowledgements, ReceiveWindow};

/// Number of acknowledgements at the start of a connection that are sent without delay
/// (`TCP_MAX_QUICKACKS`).
const QUICK: u32 = 16;
/// Longest delay of the acknowledgement of a single packet (`TCP_ATO_MIN`).
const DELAYED: Span = Span::from_millis(40);
/// Number of acknowledgements of packets behind a gap that are sent without delay
/// (`TCP_FASTRETRANS_THRESH`).
const AT_ONCE: u32 = 3;
/// Maximum number of packets behind a gap that one acknowledgement covers (`tcp_comp_sack_nr`).
const COMPRESSED: u32 = 44;
/// Longest delay of an acknowledgement behind a gap (`tcp_comp_sack_delay_ns`).
const COMPRESSED_DELAY: Span = Span::from_millis(1);
/// First window of a receiver that tunes it: half of `tcp_rmem[1]`.
const FIRST_WINDOW: ByteCount = ByteCount::new(65_536);

/// An acknowledgement in transit: what it tells the sender, in numbers of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    /// Number of the first packet that is missing.
    pub(crate) next: u64,
    /// Number of the first packet that the receiver does not take yet.
    pub(crate) edge: u64,
    /// End of the reports that belong to the acknowledgement, by their number.
    pub(crate) reported: u64,
    /// Whether it answers a packet that had arrived before (D-SACK).
    pub(crate) duplicate: bool,
}

/// Packets that arrived behind a gap, as runs in the order of arrival, until an acknowledgement
/// brings them to the sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    runs: VecDeque<(u64, u64)>,
    taken: u64,
    /// Number of the first run that is not yet part of an acknowledgement that has left.
    sealed: u64,
}

impl Reports {
    /// Number that the next run gets.
    fn end(&self) -> u64 {
        self.taken + self.runs.len() as u64
    }

    /// Adds a packet, to the last run if it follows that.
    fn add(&mut self, number: u64) {
        let open = self.end() > self.sealed;
        match self.runs.back_mut() {
            Some((_, end)) if open && *end == number => *end += 1,
            _ => self.runs.push_back((number, number + 1)),
        }
    }

    /// Assigns all runs so far to an acknowledgement that leaves; returns the number of the next
    /// run.
    fn seal(&mut self) -> u64 {
        self.sealed = self.end();
        self.sealed
    }

    /// Takes the next run (first packet, end) with a number below `until`; `None` if there is none.
    pub(crate) fn take(&mut self, until: u64) -> Option<(u64, u64)> {
        if self.taken >= until {
            return None;
        }
        self.taken += 1;
        self.runs.pop_front()
    }
}

/// Result of a data packet's arrival at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Whether the packet had not arrived before.
    pub(crate) is_new: bool,
    /// Number of packets that the application got by it.
    pub(crate) read: u64,
}

/// The receiver of a flow: packets held, receive window, and times of acknowledgements.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    held: Held,
    window: Window,
    acknowledgements: Acknowledgements,
    /// Number of packets in order since the last acknowledgement.
    pending: u32,
    /// Number of acknowledgements that still are sent at once.
    quick: u32,
    /// Time until which a single packet may wait for its acknowledgement.
    single_until: Time,
    /// Number of packets behind the gap at `gap` that were acknowledged at once.
    behind: u32,
    /// Number of packets behind the gap that are not acknowledged yet.
    compressed: u32,
    /// Number of the missing packet at the gap.
    gap: u64,
    compressed_delay: Span,
    duplicate: bool,
    now_due: bool,
    /// Time at which an acknowledgement leaves at the latest.
    deadline: Time,
    duplicates: u64,
}

impl Receiver {
    /// Receiver that has nothing yet; `mss` in bytes.
    pub(crate) fn new(window: ReceiveWindow, acknowledgements: Acknowledgements, mss: u64, round_trip: Span) -> Self {
        Self {
            held: Held::default(),
            window: Window::new(window, mss, round_trip),
            acknowledgements,
            pending: 0,
            quick: QUICK,
            single_until: Time::MAX,
            behind: 0,
            compressed: 0,
            gap: 0,
            compressed_delay: (round_trip / 20).min(COMPRESSED_DELAY),
            duplicate: false,
            now_due: false,
            deadline: Time::MAX,
            duplicates: 0,
        }
    }

    /// Number of the first packet that is missing: the application has all before it.
    pub(crate) fn next(&self) -> u64 {
        self.held.next()
    }

    /// Number of packets that arrived again.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Number of the first packet beyond the receive window.
    pub(crate) fn edge(&self) -> u64 {
        self.held.next() + self.window.announced
    }

    /// Time at which [`Self::acknowledge`] is to be called if nothing arrives before.
    pub(crate) fn deadline(&self) -> Time {
        self.deadline
    }

    /// Handles the arrival of a packet.
    pub(crate) fn arrive(&mut self, now: Time, number: u64, reports: &mut Reports) -> Arrival {
        let had_gap = self.held.has_gap();
        let before = self.held.next();
        if !self.held.insert(number) {
            self.duplicates += 1;
            self.duplicate = true;
            self.now_due = true;
            return Arrival { is_new: false, read: 0 };
        }
        if self.window.widen() {
            self.quick = self.quick.max(1);
        }
        let read = self.held.next() - before;
        if read == 0 {
            reports.add(number);
        } else {
            self.window.read(now, self.held.next());
        }
        if self.held.has_gap() {
            self.hold_back(now);
        } else if had_gap {
            self.now_due = true;
        } else {
            self.collect(now);
        }
        Arrival { is_new: true, read }
    }

    /// Counts a packet that arrived in order, and schedules its acknowledgement.
    fn collect(&mut self, now: Time) {
        self.pending += 1;
        if self.pending == 1 {
            self.single_until = now + DELAYED;
        }
        match self.acknowledgements {
            Acknowledgements::EveryPacket => self.now_due = true,
            Acknowledgements::EverySecond => {
                if self.quick > 0 || self.pending >= 2 {
                    self.now_due = true;
                } else {
                    self.deadline = self.single_until;
                }
            }
            Acknowledgements::Batches { packets, within } => {
                if self.pending >= packets {
                    self.now_due = true;
                } else if self.pending == 1 {
                    self.deadline = now + within;
                }
            }
        }
    }

    /// Counts a packet that arrived while another is missing, and schedules its acknowledgement.
    fn hold_back(&mut self, now: Time) {
        if self.gap != self.held.next() {
            (self.gap, self.behind) = (self.held.next(), 0);
        }
        if self.behind < AT_ONCE {
            self.behind += 1;
            self.now_due = true;
            return;
        }
        self.compressed += 1;
        if self.compressed >= COMPRESSED {
            self.now_due = true;
        } else if self.compressed == 1 {
            self.deadline = now + self.compressed_delay;
        }
    }

    /// Makes the acknowledgement that is due at `now`, after which no packet waits for one; `None`
    /// if none is due yet.
    pub(crate) fn acknowledge(&mut self, now: Time, reports: &mut Reports) -> Option<Acknowledgement> {
        if !self.now_due {
            if now < self.deadline {
                return None;
            }
            // A batch of one packet waits for a second one, as every single packet does.
            if self.pending == 1 && self.quick == 0 && now < self.single_until {
                self.deadline = self.single_until;
                return None;
            }
        }
        self.quick = self.quick.saturating_sub(1);
        self.now_due = false;
        self.deadline = Time::MAX;
        self.pending = 0;
        self.compressed = 0;
        let duplicate = std::mem::take(&mut self.duplicate);
        Some(Acknowledgement { next: self.next(), edge: self.edge(), reported: reports.seal(), duplicate })
    }
}

/// The receive window: fixed, or grown by what the application reads in a round trip
/// (`tcp_rcv_space_adjust`).
///
/// ```text
/// copied > space:  window ← 2 · copied + 16 · mss, and twice the share by which copied exceeds space;  space ← copied
/// ```
///
/// A window that grows is announced gradually, two packets more for each that arrives, and those
/// are acknowledged at once (`tcp_grow_window`).
#[derive(Clone, Debug)]
struct Window {
    size: ByteCount,
    most: ByteCount,
    mss: u64,
    space: u64,
    round_trip: Span,
    since: Time,
    from: u64,
    /// End of the window as announced to the sender, in packets from the first missing one.
    announced: u64,
}

impl Window {
    /// Window of a new connection; `mss` in bytes.
    fn new(window: ReceiveWindow, mss: u64, round_trip: Span) -> Self {
        let (size, most) = match window {
            ReceiveWindow::Fixed(size) => (size, size),
            ReceiveWindow::Tuned { most } => (FIRST_WINDOW.min(most), most),
        };
        let space = size.as_u64().min(10 * mss);
        let mut window = Self { size, most, mss, space, round_trip, since: Time::ORIGIN, from: 0, announced: 0 };
        window.announced = window.packets();
        window
    }

    /// Widens the announced window for a packet that arrived; returns whether more is announced
    /// than before.
    fn widen(&mut self) -> bool {
        let before = self.announced;
        self.announced = self.packets().min(before + 2).max(before);
        self.announced > before
    }

    /// Size of the window in packets, at least one.
    fn packets(&self) -> u64 {
        (self.size.as_u64() / self.mss).max(1)
    }

    /// Enlarges a tuned window by what the application has read in the last round trip; `next` is
    /// the first packet that it has not read.
    fn read(&mut self, now: Time, next: u64) {
        if self.size >= self.most || now - self.since < self.round_trip {
            return;
        }
        let copied = (next - self.from) * self.mss;
        (self.since, self.from) = (now, next);
        if copied <= self.space {
            return;
        }
        let plain = 2 * copied + 16 * self.mss;
        let grow = u128::from(plain) * u128::from(copied - self.space) / u128::from(self.space);
        let wanted = u128::from(plain) + 2 * grow;
        self.size = ByteCount::new(u64::try_from(wanted).unwrap_or(u64::MAX)).clamp(self.size, self.most);
        self.space = copied;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Span = Span::from_millis(100);

    struct Host {
        receiver: Receiver,
        reports: Reports,
    }

    impl Host {
        fn new(acknowledgements: Acknowledgements) -> Self {
            let window = ReceiveWindow::Fixed(ByteCount::from_mib(1));
            Self { receiver: Receiver::new(window, acknowledgements, 1448, ROUND_TRIP), reports: Reports::default() }
        }

        /// A packet arrives at this many microseconds; returns what is acknowledged at once.
        fn arrive(&mut self, micros: u64, number: u64) -> Option<u64> {
            self.receiver.arrive(time(micros), number, &mut self.reports);
            self.ask(micros)
        }

        fn ask(&mut self, micros: u64) -> Option<u64> {
            self.receiver.acknowledge(time(micros), &mut self.reports).map(|ack| ack.next)
        }
    }

    fn time(micros: u64) -> Time {
        Time::ORIGIN + Span::from_micros(micros)
    }

    #[test]
    fn every_second_packet_is_acknowledged_after_the_first_sixteen() {
        let mut host = Host::new(Acknowledgements::EverySecond);
        for number in 0..16 {
            assert_eq!(host.arrive(number, number), Some(number + 1));
        }
        let answers: Vec<_> = (16..22).map(|number| host.arrive(number, number)).collect();
        assert_eq!(answers, [None, Some(18), None, Some(20), None, Some(22)]);
        assert_eq!(host.arrive(1000, 22), None);
        assert_eq!(host.receiver.deadline(), time(41_000));
        assert_eq!((host.ask(40_999), host.ask(41_000)), (None, Some(23)));
        assert_eq!(host.receiver.deadline(), Time::MAX);
    }

    #[test]
    fn while_the_window_grows_each_packet_is_acknowledged() {
        let window = ReceiveWindow::Tuned { most: ByteCount::from_mib(1) };
        let mut receiver = Receiver::new(window, Acknowledgements::EverySecond, 1448, ROUND_TRIP);
        let mut reports = Reports::default();
        let mut answers = Vec::new();
        // Three packets a millisecond: after a few round trips the window is all that it may be.
        for number in 0..3000 {
            let at = time(number * 333);
            receiver.arrive(at, number, &mut reports);
            answers.extend(receiver.acknowledge(at, &mut reports).map(|ack| (ack.next, ack.edge - ack.next)));
        }
        let widest = answers.iter().position(|(_, window)| *window == 724).unwrap();
        assert!(answers.windows(2).all(|pair| pair[1].1 <= pair[0].1 + 2 * (pair[1].0 - pair[0].0)));
        let single = |pair: &[(u64, u64)]| pair[1].0 - pair[0].0 == 1;
        assert!(answers[16..widest].windows(2).filter(|pair| single(pair)).count() > 250);
        assert!(!answers[widest + 2..].windows(2).any(single));
    }

    #[test]
    fn behind_a_gap_acknowledgements_are_held_back_and_bring_all_reports() {
        let mut host = Host::new(Acknowledgements::EverySecond);
        host.arrive(0, 0);
        let at_once: Vec<_> = (2..5).map(|number| host.arrive(10, number)).collect();
        assert_eq!(at_once, [Some(1); 3]);
        assert_eq!(host.arrive(20, 5), None);
        assert_eq!(host.arrive(30, 7), None);
        assert_eq!(host.receiver.deadline(), time(1020));
        let ack = host.receiver.acknowledge(time(1020), &mut host.reports).unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| host.reports.take(ack.reported)).collect();
        assert_eq!(taken, [(2, 3), (3, 4), (4, 5), (5, 6), (7, 8)]);
        // The 44th does not wait.
        let answers = (8..52).filter_map(|number| host.arrive(1100, number)).count();
        assert_eq!(answers, 1);
        assert_eq!(host.arrive(1200, 1), Some(6));
        assert_eq!(host.arrive(1300, 6), Some(52));
        assert_eq!(host.receiver.duplicates(), 0);
        assert_eq!(host.arrive(1400, 6), Some(52));
        assert_eq!(host.receiver.duplicates(), 1);
    }

    #[test]
    fn a_batch_is_acknowledged_once_and_a_single_packet_waits() {
        let within = Span::from_micros(50);
        let mut host = Host::new(Acknowledgements::Batches { packets: 4, within });
        for number in 0..16 {
            let at = number * 1000;
            assert_eq!((host.arrive(at, number), host.ask(at + 50)), (None, Some(number + 1)));
        }
        let full: Vec<_> = (16..20).map(|number| host.arrive(20_000 + number, number)).collect();
        assert_eq!(full, [None, None, None, Some(20)]);
        assert_eq!((host.arrive(30_000, 20), host.arrive(30_010, 21)), (None, None));
        assert_eq!((host.ask(30_049), host.ask(30_050)), (None, Some(22)));
        assert_eq!((host.arrive(40_000, 22), host.ask(40_050)), (None, None));
        assert_eq!((host.ask(79_999), host.ask(80_000)), (None, Some(23)));
    }

    #[test]
    fn a_tuned_window_doubles_with_what_is_read() {
        let most = ByteCount::from_mib(64);
        let mut window = Window::new(ReceiveWindow::Tuned { most }, 1448, ROUND_TRIP);
        assert_eq!(window.packets(), 45);
        window.read(time(50_000), 40);
        assert_eq!(window.packets(), 45, "a round trip is not over");
        // 40 packets where 10 were expected: 2·40 + 16, and three times that twice over.
        window.read(time(100_000), 40);
        assert_eq!(window.packets(), 96 * 7);
        window.read(time(200_000), 80);
        assert_eq!(window.packets(), 96 * 7, "no more was read than before");
        (3..20).for_each(|round| window.read(time(100_000 * round), 1 << (round + 5)));
        assert_eq!(window.size, most);
    }
}
