//! Congestion control of a QUIC connection by an algorithm of [`icdc_cc`]: what Linux's TCP does around an algorithm, done
//! around QUIC's acknowledgements.
//!
//! | the kernel | here |
//! |---|---|
//! | packets of the scoreboard, `packets_out`, `sacked_out`, `lost_out` | bytes that QUIC has in flight, over its packet size |
//! | a retransmission is the same packet | it is another one: nothing is ever sent twice under one number |
//! | `tcp_rate_skb_sent`, `tcp_rate_gen` | [`DeliveryRate`], by the times at which packets left |
//! | round-trip time of the latest packet that was sent once | of the latest packet of an acknowledgement |
//! | Recovery until all is acknowledged that was sent before | until a packet is acknowledged that was sent after it began (RFC 9002, 7.3.2); Loss where QUIC finds persistent congestion |
//! | `sk_pacing_rate`, kept by the socket or the device | kept by [`Pacing`](crate::pacing::Pacing) |
//! | `cong_avoid` outside recovery; in it PRR | the same outside recovery; in it the window is the threshold |
//!
//! quinn asks a controller for a window and paces by that alone. Here window and pacing are kept where packets are asked
//! for: [`Congestion`] gives quinn a window without end while the algorithm's has room, which turns its pacing off, and none
//! when it is full, so that probes still leave.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use icdc_cc::native::{
    AckSample, CongestionState, Connection, DeliveryRate, PACING_NEEDED, RateSample, Stamp, WindowEvent,
};
use icdc_units::{ByteCount, Rate, Span, Time};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

/// Window that quinn does not pace: it knows none beyond 32 bits.
const OPEN: u64 = 1 << 33;
/// Window in which no packet has room.
const CLOSED: u64 = 1;

/// Congestion control of one connection: what the path tells, given to the algorithm, and what the algorithm allows.
pub(crate) struct Flow {
    algorithm: Connection,
    /// Whether the algorithm has begun: with the first round trip, as the kernel begins one after the handshake.
    has_begun: bool,
    rate: DeliveryRate,
    /// Time that is zero for the algorithm.
    epoch: Instant,
    /// Bytes that are sent and neither acknowledged nor found lost.
    in_flight: u64,
    /// Length of a full packet in bytes.
    mtu: u64,
    /// Number of packets sent and found lost so far, counted as full ones.
    sent: u64,
    lost: u64,
    /// Times at which packets left that may still be acknowledged, in order, with what was delivered then.
    stamps: VecDeque<(Instant, Stamp)>,
    /// Smoothed and least round-trip time.
    rtt: Span,
    least_rtt: Span,
    /// The acknowledgement that is being handled.
    ack: Ack,
    /// Packets found lost since the last sample.
    newly_lost: u32,
    state: CongestionState,
    /// Time at which the state began: the acknowledgement of a packet that was sent later ends it.
    entered: Option<Instant>,
    /// Whether packets wait for their time.
    is_held: bool,
    /// Whether a packet may leave whatever the window: quinn sends no acknowledgement by itself while data waits.
    is_forced: bool,
}

/// Packets of one acknowledgement.
#[derive(Clone, Copy, Default)]
struct Ack {
    packets: u32,
    /// Bytes in flight before it.
    before: u64,
    /// Time at which the latest of them was sent; `None` if there is none yet.
    latest: Option<Instant>,
}

/// Snapshot of a connection's congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowState {
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes in flight.
    pub in_flight: ByteCount,
    /// Pacing rate; `None` if the connection does not pace.
    pub pacing_rate: Option<Rate>,
    /// Smoothed round-trip time; zero before the first one.
    pub rtt: Span,
    /// Least round-trip time; zero before the first one.
    pub least_rtt: Span,
    /// Length of a full packet.
    pub packet: ByteCount,
    /// Number of packets delivered.
    pub delivered: u64,
    /// Number of packets found lost.
    pub lost: u64,
}

impl Flow {
    /// Congestion control by `algorithm` of a connection that begins at `epoch`; `mtu`: length of its packets in bytes.
    fn new(algorithm: Connection, epoch: Instant, mtu: u16) -> Self {
        let mut flow = Self {
            algorithm,
            has_begun: false,
            rate: DeliveryRate::default(),
            epoch,
            in_flight: 0,
            mtu: u64::from(mtu),
            sent: 0,
            lost: 0,
            stamps: VecDeque::new(),
            rtt: Span::ZERO,
            least_rtt: Span::ZERO,
            ack: Ack::default(),
            newly_lost: 0,
            state: CongestionState::Open,
            entered: None,
            is_held: false,
            is_forced: false,
        };
        let socket = &mut flow.algorithm.socket;
        socket.sk_pacing_rate = u64::MAX;
        socket.sk_pacing_status = PACING_NEEDED;
        flow
    }

    fn time(&self, now: Instant) -> Time {
        Time::ORIGIN + Span::from(now.saturating_duration_since(self.epoch))
    }

    /// Number of full packets of so many bytes, rounded up.
    fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.mtu)
    }

    /// Brings the fields of the algorithm's socket up to date.
    fn update_socket(&mut self, now: Instant) {
        let at = self.time(now);
        let out = self.packets(self.in_flight) as u32;
        let socket = &mut self.algorithm.socket;
        // A packet that came before the last one left may be processed only now; time does not go back.
        socket.tcp_mstamp = socket.tcp_mstamp.max(at.as_nanos() / 1000);
        socket.mss_cache = self.mtu as u32;
        socket.packets_out = out;
        socket.max_packets_out = socket.max_packets_out.max(out);
        socket.snd_nxt = self.sent as u32;
        socket.snd_una = (self.sent as u32).wrapping_sub(out);
        socket.delivered = self.rate.delivered() as u32;
        socket.srtt_us = (self.rtt.as_micros() * 8).min(u64::from(u32::MAX)) as u32;
        socket.mdev_us = socket.srtt_us / 8;
    }

    /// Number of full packets that the window has room for.
    pub(crate) fn room(&self) -> u64 {
        u64::from(self.algorithm.socket.snd_cwnd).saturating_sub(self.packets(self.in_flight))
    }

    /// Prepares for packets to leave at `now`: the algorithm may change its rate.
    pub(crate) fn prepare(&mut self, now: Instant) {
        self.update_socket(now);
        if self.has_begun && self.algorithm.has_min_tso_segs() {
            self.algorithm.min_tso_segs();
        }
    }

    /// Rate at which packets leave; `None` for one without limit.
    pub(crate) fn pacing_rate(&self) -> Option<Rate> {
        self.algorithm.socket.pacing_rate()
    }

    /// Has only probes leave, or what the window has room for.
    pub(crate) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Has a packet leave whatever the window, to carry an acknowledgement, or not any more.
    pub(crate) fn force(&mut self, is_forced: bool) {
        self.is_forced = is_forced;
    }

    /// Notes that no packet leaves now: each waits for its time, the window is full, or there is no data.
    pub(crate) fn pause(&mut self, waits: bool) {
        let limited = self.room() == 0;
        self.algorithm.socket.is_cwnd_limited = u32::from(limited);
        if !waits && !limited {
            self.rate.limit(self.packets(self.in_flight));
        }
    }

    /// State of the connection.
    pub(crate) fn state(&self) -> FlowState {
        FlowState {
            window: ByteCount::new(u64::from(self.algorithm.socket.snd_cwnd) * self.mtu),
            in_flight: ByteCount::new(self.in_flight),
            pacing_rate: self.pacing_rate(),
            rtt: self.rtt,
            least_rtt: self.least_rtt,
            packet: ByteCount::new(self.mtu),
            delivered: self.rate.delivered(),
            lost: self.lost,
        }
    }

    /// Notes that so many bytes have just left that the other end acknowledges; packets that only acknowledge others do not
    /// count.
    pub(crate) fn sent(&mut self, now: Instant, bytes: u64) {
        if self.has_begun && self.in_flight == 0 {
            self.update_socket(now);
            self.algorithm.event(WindowEvent::TransmitStart);
        }
        let outstanding = self.packets(self.in_flight);
        let stamp = self.rate.stamp(self.time(now), outstanding);
        if self.stamps.back().is_none_or(|(last, _)| *last != now) {
            self.stamps.push_back((now, stamp));
        }
        self.in_flight += bytes;
        self.sent += self.packets(bytes);
        self.algorithm.socket.lsndtime = (self.time(now).as_nanos() / 1_000_000) as u32;
    }

    fn acked(&mut self, now: Instant, sent: Instant, bytes: u64, rtt: &RttEstimator) {
        if self.ack.packets == 0 {
            self.ack.before = self.in_flight;
        }
        let took = Span::from(now.saturating_duration_since(sent));
        // Before the first one quinn has but a guess.
        self.rtt = if self.has_begun { rtt.get().into() } else { took };
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if self.least_rtt == Span::ZERO || took < self.least_rtt {
            self.least_rtt = took;
        }
        self.ack.packets += 1;
        self.ack.latest = self.ack.latest.max(Some(sent));
        if let Ok(index) = self.stamps.binary_search_by_key(&sent, |(at, _)| *at) {
            let stamp = self.stamps[index].1;
            self.rate.deliver(index as u64, self.time(sent), stamp, false);
        }
    }

    /// Handles the end of an acknowledgement's packets, after which so many bytes are in flight.
    fn acknowledged(&mut self, now: Instant, in_flight: u64) {
        self.in_flight = in_flight;
        let Ack { packets, before, latest } = std::mem::take(&mut self.ack);
        let Some(latest) = latest else { return };
        self.forget_until(latest);
        if self.state != CongestionState::Open && self.entered.is_none_or(|entered| latest > entered) {
            self.finish_recovery();
        }
        self.update_socket(now);
        if !std::mem::replace(&mut self.has_begun, true) {
            self.algorithm.init();
        }
        let rtt = Span::from(now.saturating_duration_since(latest));
        let sample = AckSample {
            pkts_acked: packets,
            rtt_us: i32::try_from(rtt.as_micros()).unwrap_or(i32::MAX),
            in_flight: self.rate.since_latest().wrapping_mul(self.mtu as u32),
        };
        self.algorithm.pkts_acked(&sample);
        let sample = self.rate.sample(self.time(now), self.least_rtt);
        if self.algorithm.controls() {
            let sample = RateSample {
                acked_sacked: packets,
                losses: std::mem::take(&mut self.newly_lost) as i32,
                prior_in_flight: self.packets(before) as u32,
                rtt_us: rtt.as_micros() as i64,
                is_app_limited: self.rate.is_limited(),
                ..sample
            };
            self.algorithm.cong_control(&sample);
            return;
        }
        if self.state == CongestionState::Open {
            let acked = self.algorithm.socket.snd_una;
            self.algorithm.cong_avoid(acked, packets);
            self.algorithm.socket.snd_cwnd_stamp = (self.time(now).as_nanos() / 1_000_000) as u32;
        }
        self.algorithm.socket.update_pacing_rate();
    }

    /// Forgets when packets left that can hardly be acknowledged any more: a round trip before this one.
    fn forget_until(&mut self, latest: Instant) {
        let Some(oldest) = latest.checked_sub((self.rtt * 2).into()) else { return };
        while self.stamps.front().is_some_and(|(at, _)| *at < oldest) {
            self.stamps.pop_front();
        }
    }

    /// Handles that packets were found lost, the latest of which left at `sent`, or that marks tell of a queue.
    fn congested(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost: u64) {
        let packets = self.packets(lost);
        self.in_flight = self.in_flight.saturating_sub(lost);
        self.lost += packets;
        self.newly_lost += packets as u32;
        self.update_socket(now);
        if !self.has_begun {
            return;
        }
        if is_persistent {
            self.reduce(now, CongestionState::Loss);
            if !self.algorithm.controls() {
                self.algorithm.socket.snd_cwnd = 2;
            }
        } else if self.state == CongestionState::Open && self.entered.is_none_or(|entered| sent > entered) {
            self.reduce(now, if lost > 0 { CongestionState::Recovery } else { CongestionState::Reducing });
        }
    }

    fn reduce(&mut self, now: Instant, state: CongestionState) {
        self.entered = Some(now);
        let socket = &mut self.algorithm.socket;
        socket.snd_cwnd_cnt = 0;
        socket.prior_cwnd = socket.snd_cwnd;
        self.algorithm.socket.snd_ssthresh = self.algorithm.ssthresh();
        self.algorithm.set_state(state);
        self.state = state;
        if !self.algorithm.controls() {
            self.algorithm.socket.snd_cwnd = self.algorithm.socket.snd_ssthresh.max(2);
            self.algorithm.socket.update_pacing_rate();
        }
    }

    fn finish_recovery(&mut self) {
        self.algorithm.set_state(CongestionState::Open);
        self.state = CongestionState::Open;
        if !self.algorithm.controls() {
            self.algorithm.event(WindowEvent::RecoveryComplete);
        }
    }
}

/// A flow that quinn and the driver of its connection share.
#[derive(Clone)]
pub(crate) struct SharedFlow(Arc<Mutex<Flow>>);

impl SharedFlow {
    /// A flow with this algorithm, whose packets have `mtu` bytes.
    pub(crate) fn new(algorithm: Connection, now: Instant, mtu: u16) -> Self {
        Self(Arc::new(Mutex::new(Flow::new(algorithm, now, mtu))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Flow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ControllerFactory for SharedFlow {
    fn build(self: Arc<Self>, _: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.lock().mtu = u64::from(current_mtu);
        Box::new(Congestion(SharedFlow::clone(&self)))
    }
}

/// The controller that quinn calls.
struct Congestion(SharedFlow);

impl Controller for Congestion {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _: bool, rtt: &RttEstimator) {
        self.0.lock().acked(now, sent, bytes, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        self.0.lock().acknowledged(now, in_flight);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost: u64) {
        self.0.lock().congested(now, sent, is_persistent, lost);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.lock().mtu = u64::from(new_mtu);
    }

    fn window(&self) -> u64 {
        let flow = self.0.lock();
        if flow.is_forced || (flow.room() > 0 && !flow.is_held) { OPEN } else { CLOSED }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self(self.0.clone()))
    }

    fn initial_window(&self) -> u64 {
        OPEN
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
