//! Handling of an acknowledgement: `tcp_ack`, `tcp_fastretrans_alert` and the functions that they
//! call.
//!
//! Undoing a reduction is left out: a path that never reorders gives no cause, except a timeout
//! that came too early.

use icdc_cc::native::{AckSample, CongestionState, WindowEvent};
use icdc_units::{Span, Time};

use super::prr::{Progress, Reduction};
use super::rack::RoundTrips;
use super::scoreboard::Packet;
use super::{Sender, timer};
use crate::receiver::{Acknowledgement, Reports};

/// Packets delivered by one acknowledgement: of which kinds, and the times at which they were sent.
#[derive(Default)]
struct Delivered {
    /// Whether packets were cumulatively acknowledged.
    advanced: bool,
    /// Whether packets were selectively acknowledged.
    sacked: bool,
    /// Times of transmission of the first and the last packet, of those sent once, that this
    /// acknowledgement passed cumulatively; `None` if there is none.
    acked: Option<(Time, Time)>,
    /// Times of transmission like `acked`, of packets that it acknowledged selectively.
    sacks: Option<(Time, Time)>,
    /// Time at which the last retransmitted packet among those acknowledged was sent; `None` if
    /// there is none.
    again: Option<Time>,
}

/// Extends a range of times so that it includes `sent`.
fn extend(times: &mut Option<(Time, Time)>, sent: Time) {
    *times = Some(times.map_or((sent, sent), |(first, last)| (first.min(sent), last.max(sent))));
}

impl Sender {
    /// Handles an acknowledgement, with all that the receiver had to report until it left.
    pub(crate) fn acknowledge(&mut self, now: Time, ack: &Acknowledgement, reports: &mut Reports) {
        let before = (self.rate.delivered(), self.lost, self.board.in_flight());
        let una = self.board.una();
        self.edge = self.edge.max(ack.edge);
        let delivered = self.take(now, ack, reports);
        self.measure(now, &delivered, una);
        let newly_delivered = self.rate.delivered() - before.0;
        self.end_probing(now, ack);
        let mut restart = delivered.advanced;
        if let (Some((first, _)), false) = (delivered.sacks, delivered.advanced) {
            // What was sent before the head's last transmission arrives: that one still has all its
            // time.
            restart |= self.board.outstanding() > 0 && self.board.packet(self.board.una()).sent > first;
        }
        self.is_checking = false;
        if delivered.sacked || self.state != CongestionState::Open {
            self.alert(now);
        }
        if restart && !self.is_checking {
            self.restart_timer(now);
        }
        self.update_socket(now);
        let mut sample = self.rate.sample(now, self.rtt.least());
        let newly_lost = self.lost - before.1;
        if self.algorithm.controls() {
            sample.acked_sacked = newly_delivered as u32;
            sample.losses = newly_lost as i32;
            sample.prior_in_flight = before.2 as u32;
            sample.rtt_us = round_trip(now, &delivered).map_or(-1, |rtt| rtt.as_micros() as i64);
            self.algorithm.cong_control(&sample);
            return;
        }
        if self.is_reducing() {
            let progress = Progress { delivered: newly_delivered, lost: newly_lost, advanced: delivered.advanced };
            self.reduce(progress);
        } else if delivered.advanced {
            self.algorithm.cong_avoid(self.board.una() as u32, newly_delivered as u32);
            self.algorithm.socket.snd_cwnd_stamp = (now.as_nanos() / 1_000_000) as u32;
        }
        self.algorithm.socket.update_pacing_rate();
    }

    /// Removes the acknowledged packets from the scoreboard; returns what was delivered.
    fn take(&mut self, now: Time, ack: &Acknowledgement, reports: &mut Reports) -> Delivered {
        let mut delivered = Delivered::default();
        while let Some((first, end)) = reports.take(ack.reported) {
            for number in first.max(self.board.una())..end {
                if let Some(packet) = self.board.sack(number) {
                    self.deliver(now, number, &packet);
                    delivered.sacked = true;
                    if !packet.was_resent() {
                        extend(&mut delivered.sacks, packet.sent);
                    }
                }
            }
        }
        while self.board.una() < ack.next {
            let number = self.board.una();
            let packet = self.board.acknowledge_first();
            delivered.advanced = true;
            if packet.is_sacked() {
                continue;
            }
            self.deliver(now, number, &packet);
            if packet.was_resent() {
                delivered.again = delivered.again.max(Some(packet.sent));
            } else {
                extend(&mut delivered.acked, packet.sent);
            }
        }
        delivered
    }

    /// Counts a delivered packet for loss detection and delivery rate.
    fn deliver(&mut self, now: Time, number: u64, packet: &Packet) {
        self.rack.advance(now, number, packet, self.rtt.least());
        self.rate.deliver(number, packet.sent, packet.stamp, packet.was_resent());
    }

    /// Measures the round-trip time: from the earliest packet that was acknowledged for the
    /// timeout, from the latest for the rest.
    fn measure(&mut self, now: Time, delivered: &Delivered, una_before: u64) {
        let acked = delivered.acked.filter(|_| delivered.again.is_none());
        let mut smoothed = acked.or(delivered.sacks).map(|(first, _)| now - first);
        if let (None, Some(sent)) = (smoothed, delivered.again) {
            // The time stamp identifies the transmission that arrived; the earlier one, if it is
            // sooner than possible.
            smoothed = Some(now - sent).filter(|rtt| *rtt >= self.rtt.least());
        }
        let latest = round_trip(now, delivered);
        if let Some(rtt) = latest {
            self.rtt.note(rtt);
        }
        if let Some(rtt) = smoothed {
            self.rtt.measure(rtt, self.board.una(), self.board.next());
        }
        if delivered.advanced {
            self.timer.retries = 0;
        }
        if delivered.advanced || delivered.sacked {
            self.update_socket(now);
            let sample = AckSample {
                pkts_acked: (self.board.una() - una_before) as u32,
                rtt_us: latest.map_or(-1, |rtt| i32::try_from(rtt.as_micros()).unwrap_or(i32::MAX)),
                in_flight: self.rate.since_latest().wrapping_mul(self.algorithm.socket.mss_cache),
            };
            self.algorithm.pkts_acked(&sample);
        }
    }

    /// Handles the part of an acknowledgement that is about loss (`tcp_fastretrans_alert`).
    fn alert(&mut self, now: Time) {
        use CongestionState::{Loss, Open, Recovery};
        let (board, done) = (&self.board, self.board.una() >= self.high);
        debug_assert!(board.una() <= board.next());
        if self.state == Recovery && done {
            self.finish_recovery();
        }
        match self.state {
            Recovery => {
                self.detect(now);
            }
            Loss => {
                if done {
                    self.enter(Open);
                }
                let again = self.detect(now);
                if self.state == Open || again > 0 {
                    self.open_or_recover(now);
                }
            }
            _ => {
                self.detect(now);
                self.open_or_recover(now);
            }
        }
    }

    /// Enters the state that the scoreboard calls for: Recovery if packets are lost, else Open or
    /// Disorder.
    fn open_or_recover(&mut self, now: Time) {
        if self.board.lost() > 0 {
            self.enter_recovery(now);
            return;
        }
        let calm = self.board.sacked() == 0 && self.board.resent() == 0;
        let state = if calm { CongestionState::Open } else { CongestionState::Disorder };
        if state != self.state {
            self.enter(state);
            self.high = self.board.next();
        }
    }

    /// Marks packets that are lost by now (RACK), and sets the timer for those that may be; returns
    /// the number of retransmissions among the lost ones.
    pub(super) fn detect(&mut self, now: Time) -> u64 {
        let in_recovery = matches!(self.state, CongestionState::Recovery | CongestionState::Loss);
        let round_trips = RoundTrips { least: self.rtt.least(), smoothed: self.rtt.smoothed() };
        let found = self.rack.detect(now, &mut self.board, in_recovery, round_trips);
        self.lost += found.first + found.again;
        self.is_checking = found.check_again.is_some();
        if let Some(at) = found.check_again {
            self.timer.set(timer::Kind::Reordering, at);
        }
        found.again
    }

    /// Enters fast recovery, and begins to reduce the window.
    pub(super) fn enter_recovery(&mut self, now: Time) {
        self.update_socket(now);
        if !self.is_reducing() {
            self.begin_reduction();
        }
        self.enter(CongestionState::Recovery);
        self.counters.recoveries += 1;
    }

    /// Begins a reduction of the congestion window: sets the slow-start threshold that the
    /// algorithm returns. The window itself changes with the acknowledgements that follow.
    pub(super) fn begin_reduction(&mut self) {
        self.high = self.board.next();
        self.probing.high = None;
        let socket = &mut self.algorithm.socket;
        socket.snd_cwnd_cnt = 0;
        socket.prior_cwnd = socket.snd_cwnd;
        self.reduction = Reduction::new(u64::from(socket.snd_cwnd));
        self.algorithm.socket.snd_ssthresh = self.algorithm.ssthresh();
    }

    /// Sets the window after an acknowledgement in recovery, by proportional rate reduction.
    pub(super) fn reduce(&mut self, progress: Progress) {
        let threshold = u64::from(self.algorithm.socket.snd_ssthresh);
        if let Some(window) = self.reduction.window(progress, self.board.in_flight(), threshold) {
            self.algorithm.socket.snd_cwnd = u32::try_from(window).unwrap_or(u32::MAX).max(1);
        }
    }

    /// Ends recovery: the window becomes the threshold.
    fn finish_recovery(&mut self) {
        self.enter(CongestionState::Open);
        if !self.algorithm.controls() {
            self.algorithm.socket.snd_cwnd = self.algorithm.socket.snd_ssthresh.max(1);
            self.algorithm.event(WindowEvent::RecoveryComplete);
        }
    }

    /// Enters a state of loss recovery, and tells the algorithm.
    pub(super) fn enter(&mut self, state: CongestionState) {
        self.algorithm.set_state(state);
        self.state = state;
    }

    /// Reduces the window at once, for a loss that only a tail loss probe has repaired and shown.
    pub(super) fn reduce_at_once(&mut self, now: Time) {
        self.update_socket(now);
        self.begin_reduction();
        self.enter(CongestionState::Reducing);
        self.finish_recovery();
    }
}

/// Round-trip time of the latest packet that was sent once; `None` if the acknowledgement delivered
/// none.
fn round_trip(now: Time, delivered: &Delivered) -> Option<Span> {
    let acked = delivered.acked.filter(|_| delivered.again.is_none());
    let last = acked.map(|(_, last)| last).max(delivered.sacks.map(|(_, last)| last));
    last.map(|sent| now - sent)
}
