//! Cross-traffic on a lab's path: datagrams at a constant rate, on and off for equal times.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use icdc_lab::{Host, Lab};
use icdc_packet::clock;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::harness::error::ExperimentError;

/// Payload that fills a frame of MTU 1500.
pub(crate) const PAYLOAD: usize = 1472;
/// Size of such a frame on the wire.
pub(crate) const FRAME: ByteCount = ByteCount::new(1538);
/// Interval of sending; the datagrams of one interval leave at once.
const TICK: Span = Span::from_micros(250);
/// Largest backlog that is caught up after a delay of the thread.
const ARREARS: Span = Span::from_millis(5);

/// Cross-traffic on a lab's path: datagrams from host a to host b at a constant rate, on and off in
/// turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrossTraffic {
    /// Rate on the wire, while the traffic is on.
    pub(crate) rate: Rate,
    /// Time before the first phase of the traffic.
    pub(crate) quiet: Span,
    /// Length of each on and each off phase.
    pub(crate) half_period: Span,
}

/// A phase with or without cross-traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrafficPhase {
    /// Start of the phase, on the monotonic clock.
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// The rate that was actually sent.
    pub(crate) rate: Rate,
}

impl CrossTraffic {
    /// Sends datagrams from host a to host b, on and off in turns, until `over`; blocks until then.
    /// Returns all phases, those without traffic included, with the rate that was sent. The calling
    /// thread stays in host a.
    ///
    /// # Errors
    /// The host cannot be entered, or a socket fails.
    pub(crate) fn send(&self, lab: &Lab, over: &AtomicBool) -> Result<Vec<TrafficPhase>, ExperimentError> {
        let failed = |error| ExperimentError::io("send cross traffic", error);
        // The socket is never read; without it, each datagram would cause an ICMP error.
        let sink = lab.on(Host::B, || UdpSocket::bind(("10.26.33.2", 0)).map_err(failed))?;
        lab.enter(Host::A)?;
        let socket = UdpSocket::bind(("10.26.33.1", 0)).map_err(failed)?;
        socket.connect(sink.local_addr().map_err(failed)?).map_err(failed)?;
        let (mut phases, mut from, mut length, mut is_on) = (Vec::new(), clock::now(), self.quiet, false);
        while !over.load(Ordering::Relaxed) {
            let sent = if is_on { self.phase(&socket, from, length, over) } else { idle(from + length, over) };
            let to = clock::now().min(from + length);
            phases.push(TrafficPhase { from, to, rate: sent.map_err(failed)? / (to - from).max(Span::from_nanos(1)) });
            (from, length, is_on) = (from + length, self.half_period, !is_on);
        }
        Ok(phases)
    }

    /// Sends for one phase, until `over` at most; returns the bytes on the wire.
    fn phase(&self, socket: &UdpSocket, from: Time, length: Span, over: &AtomicBool) -> std::io::Result<ByteCount> {
        let (payload, mut sent, mut given_up) = ([0_u8; PAYLOAD], ByteCount::ZERO, ByteCount::ZERO);
        let mut tick = from;
        while tick < from + length && !over.load(Ordering::Relaxed) {
            let due = self.rate * (clock::now().min(from + length) - from);
            given_up = given_up.max(due - sent - self.rate * ARREARS);
            while sent + given_up + FRAME <= due {
                socket.send(&payload)?;
                sent += FRAME;
            }
            tick = (tick + TICK).max(clock::now());
            clock::sleep_until(tick);
        }
        Ok(sent)
    }
}

/// Waits for the end of a phase without traffic, until `over` at most; returns zero bytes sent.
fn idle(until: Time, over: &AtomicBool) -> std::io::Result<ByteCount> {
    while clock::now() < until && !over.load(Ordering::Relaxed) {
        clock::sleep_until(until.min(clock::now() + Span::from_millis(50)));
    }
    Ok(ByteCount::ZERO)
}
