//! The sender: Linux's TCP output and acknowledgement processing, by packets.
//!
//! ```text
//!                 all delivered                three SACKs, or RACK             timeout
//!   Disorder ◄──────────────────► Open ───────────────► Recovery      any ───────────► Loss
//!      └──── three SACKs, or RACK ──────────────────────► │  ▲ retransmission lost       │ │
//!                                   ▲                     │  └───────────────────────────┘ │
//!                                   └─── all that was sent before is acknowledged ─────────┘
//! ```
//!
//! | concern | file |
//! |---|---|
//! | what is known of each packet | [`scoreboard`] |
//! | what is lost | [`rack`] |
//! | the window in recovery | [`prr`]; otherwise the algorithm's |
//! | acknowledgements, states | `acknowledgement` |
//! | the timer: retransmission, probe of the tail, reordering | `timer`; what happens when it runs out: `timers` |
//! | round-trip time, timeout | [`rtt`] |
//! | when packets may leave | [`pacing`] |
//! | samples for algorithms that control | [`DeliveryRate`] |
//!
//! The algorithm's socket counts sequence numbers in packets, not in bytes: they wrap after 2³²
//! packets, so that more may be in flight than a real window holds.

mod acknowledgement;
mod pacing;
mod prr;
mod rack;
mod rtt;
mod scoreboard;
mod timer;
mod timers;

use icdc_cc::native::{CongestionState, Connection, DeliveryRate, PACING_NEEDED, WindowEvent};
use icdc_rate::bundle::Member;
use icdc_rate::controller::TcpState;
use icdc_rate::path_ceiling::Observation;
use icdc_units::{ByteCount, Rate, Span, Time};

use pacing::Pacing;
use prr::Reduction;
use rack::Rack;
use rtt::RoundTrip;
use scoreboard::Scoreboard;
use timer::{Probing, Timer};

/// A data packet that leaves the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Number of the packet, counted from 0 over the connection.
    pub(crate) number: u64,
    /// Whether it is a retransmission.
    pub(crate) again: bool,
}

/// Counters of a flow's sender since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Number of packets sent, retransmissions included.
    pub sent: u64,
    /// Number of retransmissions among the packets sent.
    pub retransmitted: u64,
    /// Number of times that fast recovery was entered.
    pub recoveries: u64,
    /// Number of retransmission timeouts.
    pub timeouts: u64,
    /// Number of tail loss probes.
    pub probes: u64,
}

/// Snapshot of a sender at one time: window, packets in flight, round-trip time, pacing, recovery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderState {
    /// Congestion window, in packets.
    pub window: u32,
    /// Slow-start threshold, in packets; `None` before the first loss.
    pub threshold: Option<u32>,
    /// Number of packets in flight.
    pub in_flight: u64,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Pacing rate; `None` if the sender does not pace.
    pub pacing_rate: Option<Rate>,
    /// State of loss recovery.
    pub recovery: CongestionState,
}

/// Settings of a sender besides its congestion control algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Number of packets that the application sends in all.
    pub(crate) packets: u64,
    /// Ceiling of the pacing rate set by the user; `None` for no ceiling.
    pub(crate) rate: Option<Rate>,
    /// Whether the device cuts aggregates into packets (TSO).
    pub(crate) segmentation: bool,
    /// First receive window, in packets.
    pub(crate) window: u64,
    /// Round-trip time that the handshake measured.
    pub(crate) handshake: Span,
}

/// The sending TCP of one flow, with its congestion control.
pub(crate) struct Sender {
    algorithm: Connection,
    board: Scoreboard,
    rack: Rack,
    reduction: Reduction,
    rtt: RoundTrip,
    pacing: Pacing,
    rate: DeliveryRate,
    timer: Timer,
    state: CongestionState,
    /// `snd_nxt` when the state was entered (`high_seq`): its acknowledgement ends the state.
    high: u64,
    packets: u64,
    /// Number of the first packet that the receiver does not take yet.
    edge: u64,
    /// Number of packets found lost in all.
    lost: u64,
    /// Whether RACK waits for packets that may be lost.
    is_checking: bool,
    /// `snd_nxt` when the use of the window was last recorded (`cwnd_usage_seq`).
    usage: u64,
    probing: Probing,
    /// Whether new packets were sent since the last pause.
    busy: bool,
    /// Time at which pacing permits the next packet.
    wake: Time,
    counters: SenderCounters,
}

impl Sender {
    /// Sender with this algorithm; `mss` in bytes.
    pub(crate) fn new(mut algorithm: Connection, mss: u32, setup: &Setup) -> Self {
        let socket = &mut algorithm.socket;
        socket.mss_cache = mss;
        socket.sk_pacing_rate = u64::MAX;
        if let Some(rate) = setup.rate {
            socket.sk_max_pacing_rate = rate.as_bytes_per_second().max(1);
            socket.sk_pacing_rate = socket.sk_max_pacing_rate;
            socket.sk_pacing_status = PACING_NEEDED;
        }
        Self {
            algorithm,
            board: Scoreboard::new(),
            rack: Rack::default(),
            reduction: Reduction::default(),
            rtt: RoundTrip::new(setup.handshake),
            pacing: Pacing::new(setup.segmentation),
            rate: DeliveryRate::default(),
            timer: Timer::OFF,
            state: CongestionState::Open,
            high: 0,
            packets: setup.packets,
            edge: setup.window,
            lost: 0,
            is_checking: false,
            usage: 0,
            probing: Probing::default(),
            busy: false,
            wake: Time::MAX,
            counters: SenderCounters::default(),
        }
    }

    /// Handles that the connection is established.
    pub(crate) fn start(&mut self, now: Time) {
        self.update_socket(now);
        self.algorithm.init();
    }

    /// Handles that the application sends nothing more.
    pub(crate) fn stop(&mut self) {
        self.packets = self.board.next();
        self.wake = Time::MAX;
    }

    /// Whether the application has sent all that it has.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.board.next() == self.packets
    }

    /// Adds packets that the application sends after all others.
    pub(crate) fn add(&mut self, packets: u64) {
        self.packets += packets;
    }

    /// Handles that the connection is closed.
    pub(crate) fn close(&mut self) {
        self.algorithm.release();
    }

    /// Whether everything is sent and acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.board.una() == self.packets
    }

    /// Sends the next packet that may leave now, lost ones first, and returns it; `None` if none
    /// may.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Segment> {
        self.wake = Time::MAX;
        if let Some(number) = self.probing.due.take().filter(|number| self.may_probe(*number)) {
            let segment = self.transmit(now, number);
            // After a probe the timeout is waited for, not another probe.
            self.busy = false;
            return Some(segment);
        }
        if self.board.in_flight() < u64::from(self.algorithm.socket.snd_cwnd)
            && let Some(number) = self.next_packet()
        {
            match self.pacing.waits_until(now, &self.algorithm.socket) {
                None => {
                    if self.algorithm.has_min_tso_segs() {
                        self.update_socket(now);
                        self.algorithm.min_tso_segs();
                    }
                    return Some(self.transmit(now, number));
                }
                Some(wake) => self.wake = wake,
            }
        } else if self.board.in_flight() < u64::from(self.algorithm.socket.snd_cwnd) && self.has_sent_all() {
            self.rate.limit(self.board.outstanding());
        }
        self.pause(now);
        None
    }

    /// Whether a probe with this packet would be useful: not if it is acknowledged already.
    fn may_probe(&self, number: u64) -> bool {
        let (una, next) = (self.board.una(), self.board.next());
        let known = (una..next).contains(&number) && !self.board.packet(number).is_sacked();
        known || (number == next && number < self.packets.min(self.edge))
    }

    /// Handles that the line is busy: pacing waits until [`Self::poll`] is called again.
    pub(crate) fn hold(&mut self, now: Time) {
        self.wake = Time::MAX;
        self.pause(now);
    }

    /// Number of the next packet to send, lost ones first; `None` if there is none.
    fn next_packet(&mut self) -> Option<u64> {
        if self.board.lost() > 0
            && let Some(number) = self.board.next_lost()
        {
            return Some(number);
        }
        let next = self.board.next();
        (next < self.packets.min(self.edge)).then_some(next)
    }

    /// Sends a packet, new or again.
    fn transmit(&mut self, now: Time, number: u64) -> Segment {
        if self.board.in_flight() == 0 {
            self.update_socket(now);
            self.algorithm.event(WindowEvent::TransmitStart);
        }
        let outstanding = self.board.outstanding();
        let stamp = self.rate.stamp(now, outstanding);
        let again = number < self.board.next();
        if again {
            self.board.resend(number, now, stamp);
            self.counters.retransmitted += 1;
            if number == self.board.una() {
                self.timer.expect_retransmission(now + self.rtt.timeout());
            }
        } else {
            self.board.send(now, stamp);
            if outstanding == 0 || self.timer.is_probe() {
                self.rearm(now);
            }
            self.busy = true;
        }
        self.counters.sent += 1;
        if self.is_reducing() {
            self.reduction.sent();
        }
        self.pacing.sent(now, &self.algorithm.socket);
        Segment { number, again }
    }

    /// Handles that nothing more leaves now: records whether the window was the reason
    /// (`tcp_cwnd_validate`).
    fn pause(&mut self, now: Time) {
        self.pacing.finish(&self.algorithm.socket);
        let limited = self.board.in_flight() >= u64::from(self.algorithm.socket.snd_cwnd);
        if !(self.busy || limited) {
            return;
        }
        let out = self.board.outstanding() as u32;
        let socket = &mut self.algorithm.socket;
        let more = socket.is_cwnd_limited == 0 && out > socket.max_packets_out;
        if self.board.una() >= self.usage || limited || more {
            socket.is_cwnd_limited = u32::from(limited);
            socket.max_packets_out = out;
            self.usage = self.board.next();
        }
        if self.busy {
            self.busy = false;
            self.algorithm.socket.lsndtime = now.as_nanos().wrapping_div(1_000_000) as u32;
            self.schedule_probe(now, false);
        }
    }

    /// Whether the window is being reduced.
    fn is_reducing(&self) -> bool {
        self.state == CongestionState::Recovery
    }

    /// Brings the fields of the algorithm's socket up to date.
    fn update_socket(&mut self, now: Time) {
        let (board, socket) = (&self.board, &mut self.algorithm.socket);
        socket.tcp_mstamp = now.as_nanos() / 1000;
        socket.packets_out = board.outstanding() as u32;
        socket.sacked_out = board.sacked() as u32;
        socket.lost_out = board.lost() as u32;
        socket.retrans_out = board.resent() as u32;
        socket.snd_una = board.una() as u32;
        socket.snd_nxt = board.next() as u32;
        socket.delivered = self.rate.delivered() as u32;
        socket.srtt_us = self.rtt.smoothed_eighths();
        socket.mdev_us = self.rtt.deviation_quarters();
    }

    /// State of the connection for the rate controller of its application, as `TCP_INFO` would
    /// report it.
    pub(crate) fn observe(&self, now: Time) -> TcpState {
        let packet = ByteCount::new(u64::from(self.algorithm.socket.mss_cache));
        let seen = Observation {
            at: now,
            rtt: self.rtt.smoothed(),
            least_rtt: self.rtt.least(),
            delivered: packet * self.rate.delivered(),
            retransmitted: self.counters.retransmitted,
            packet,
            window: packet * u64::from(self.algorithm.socket.snd_cwnd),
            idle: self.rate.is_limited(),
        };
        let socket = &self.algorithm.socket;
        TcpState {
            round_trip: seen.rtt,
            acknowledged: seen.delivered,
            pacing_rate: pacing::limit(socket.sk_pacing_rate),
            max_pacing_rate: pacing::limit(socket.sk_max_pacing_rate),
            in_flight: self.board.next() > self.rate.delivered(),
            window_limited: Span::ZERO,
            member: Some(Member { seen, sent: packet * self.board.next() }),
        }
    }

    /// Limits the rate from now on, by pacing, like `SO_MAX_PACING_RATE`.
    pub(crate) fn set_ceiling(&mut self, ceiling: Option<Rate>) {
        let socket = &mut self.algorithm.socket;
        socket.sk_max_pacing_rate = ceiling.map_or(u64::MAX, |ceiling| ceiling.as_bytes_per_second().max(1));
        socket.sk_pacing_rate = socket.sk_pacing_rate.min(socket.sk_max_pacing_rate);
        socket.sk_pacing_status = PACING_NEEDED;
    }

    /// Counters of the sender.
    pub(crate) fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// Least round-trip time measured.
    pub(crate) fn least_rtt(&self) -> Span {
        self.rtt.least()
    }

    /// Snapshot of the sender for the observer of the simulation.
    pub(crate) fn state(&self) -> SenderState {
        let socket = &self.algorithm.socket;
        SenderState {
            window: socket.snd_cwnd,
            threshold: (socket.snd_ssthresh < i32::MAX as u32).then_some(socket.snd_ssthresh),
            in_flight: self.board.in_flight(),
            rtt: self.rtt.smoothed(),
            pacing_rate: socket.pacing_rate(),
            recovery: self.state,
        }
    }
}
