//! Expiry of the sender's timers, as in Linux: retransmission, probe of the tail (RFC 8985), and
//! reordering.
//!
//! ```text
//! probe           2 · srtt after the last new packet, 200 ms more if it is alone; never later than the timeout
//! retransmission  RTO after progress, or after the head was retransmitted; twice as long each time
//! reordering      when RACK may call a packet lost
//! ```
//!
//! A probe is the next new packet, or the last one again: its acknowledgement lets RACK see what
//! was lost. F-RTO is left out.

use icdc_cc::native::{CongestionState, WindowEvent};
use icdc_units::{Span, Time};

use super::Sender;
use super::prr::Progress;
use super::timer::{Kind, Timer};
use crate::receiver::Acknowledgement;

/// Time by which a tail loss probe is sent later than two round trips: two ticks of a kernel of
/// 1000 Hz (`TCP_TIMEOUT_MIN_US`).
const LEAST_PROBE: Span = Span::from_millis(2);
/// Time by which the tail loss probe of a single packet is sent later, since the receiver may delay
/// its acknowledgement that long (`TCP_RTO_MIN`).
const ACK_DELAY: Span = Span::from_millis(200);

impl Sender {
    /// Time at which [`Sender::poll`] or [`Sender::expire`] is due if nothing arrives.
    pub(crate) fn wake(&self) -> Time {
        self.timer.at.min(self.wake)
    }

    /// Handles the timer if it has expired.
    pub(crate) fn expire(&mut self, now: Time) {
        if now < self.timer.at {
            return;
        }
        match self.timer.kind {
            Kind::Retransmission => self.time_out(now),
            Kind::Probe => self.probe(now),
            Kind::Reordering => self.check_again(now),
        }
    }

    /// Handles a retransmission timeout (`tcp_retransmit_timer`, `tcp_enter_loss`).
    fn time_out(&mut self, now: Time) {
        use CongestionState::{Disorder, Loss, Open};
        self.counters.timeouts += 1;
        let rack = &self.rack;
        self.lost += self.board.give_up(|packet| rack.is_overdue(now, packet));
        self.update_socket(now);
        let calm = matches!(self.state, Open | Disorder);
        if calm || self.board.una() >= self.high || (self.state == Loss && self.timer.retries == 0) {
            let socket = &mut self.algorithm.socket;
            socket.prior_cwnd = socket.snd_cwnd;
            self.algorithm.socket.snd_ssthresh = self.algorithm.ssthresh();
            self.algorithm.event(WindowEvent::Timeout);
        }
        let socket = &mut self.algorithm.socket;
        socket.snd_cwnd = self.board.in_flight() as u32 + 1;
        socket.snd_cwnd_cnt = 0;
        socket.snd_cwnd_stamp = (now.as_nanos() / 1_000_000) as u32;
        self.enter(Loss);
        self.high = self.board.next();
        self.probing.high = None;
        self.timer.retries += 1;
        self.rtt.back_off();
        self.timer.set(Kind::Retransmission, now + self.rtt.timeout());
    }

    /// Chooses the packet to be sent as a tail loss probe, when the timer for it expires
    /// (`tcp_send_loss_probe`).
    fn probe(&mut self, now: Time) {
        let (next, idle) = (self.board.next(), self.probing.high.is_none());
        self.timer = Timer { retries: self.timer.retries, ..Timer::OFF };
        if idle && self.board.outstanding() > 0 {
            let fresh = next < self.packets.min(self.edge);
            let number = if fresh { next } else { next - 1 };
            // The tail is selectively acknowledged: a probe would be useless.
            if self.may_probe(number) {
                self.probing.due = Some(number);
                self.probing.high = Some(next.max(number + 1));
                self.probing.again = !fresh;
                self.counters.probes += 1;
            }
        }
        self.rearm(now);
    }

    /// Ends a probe that an acknowledgement answers (`tcp_process_tlp_ack`).
    pub(super) fn end_probing(&mut self, now: Time, ack: &Acknowledgement) {
        let Some(high) = self.probing.high.filter(|high| ack.next >= *high) else { return };
        if !self.probing.again || ack.duplicate {
            self.probing.high = None;
        } else if ack.next > high {
            // No duplicate was acknowledged until now: the original never arrived.
            self.probing.high = None;
            if self.state == CongestionState::Open {
                self.reduce_at_once(now);
            }
        }
    }

    /// Marks packets that have become lost since the last acknowledgement, when the timer for
    /// reordering expires (`tcp_rack_reo_timeout`).
    fn check_again(&mut self, now: Time) {
        self.timer = Timer { retries: self.timer.retries, ..Timer::OFF };
        let before = self.board.in_flight();
        self.detect(now);
        if self.board.in_flight() != before && self.state != CongestionState::Recovery {
            self.enter_recovery(now);
            if !self.algorithm.controls() {
                self.reduce(Progress { delivered: 1, lost: 0, advanced: false });
            }
        }
        if self.timer.at == Time::MAX {
            self.rearm(now);
        }
    }

    /// Sets the timer after progress: to a probe, or to the timeout (`tcp_set_xmit_timer`).
    pub(super) fn restart_timer(&mut self, now: Time) {
        if !self.schedule_probe(now, true) {
            self.rearm(now);
        }
    }

    /// Sets the timer to the timeout, from now, or, in place of another timer, from when the first
    /// packet was sent (`tcp_rearm_rto`).
    pub(super) fn rearm(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            self.timer = Timer { retries: self.timer.retries, ..Timer::OFF };
            return;
        }
        let timeout = self.rtt.timeout();
        let from_head = self.timer.kind != Kind::Retransmission;
        let at = if from_head { self.head_sent() + timeout } else { now + timeout };
        self.timer.set(Kind::Retransmission, at.max(now + Span::from_nanos(1000)));
    }

    /// Time at which the first unacknowledged packet was last sent.
    fn head_sent(&self) -> Time {
        self.board.packet(self.board.una()).sent
    }

    /// Sets the timer to a tail loss probe (`tcp_schedule_loss_probe`); false, and nothing is set,
    /// if no packet is outstanding or the state is not Open. `advancing`: an acknowledgement made
    /// progress, so that the timeout, which a probe never exceeds, counts from now.
    pub(super) fn schedule_probe(&mut self, now: Time, advancing: bool) -> bool {
        let out = self.board.outstanding();
        if out == 0 || self.state != CongestionState::Open {
            return false;
        }
        let grace = if out == 1 { ACK_DELAY } else { LEAST_PROBE };
        let rto = self.rtt.timeout();
        let timeout = if advancing { now + rto } else { self.head_sent() + rto };
        let mut at = now + self.rtt.smoothed() * 2 + grace;
        if timeout > now {
            at = at.min(timeout);
        }
        self.timer.set(Kind::Probe, at);
        true
    }
}
