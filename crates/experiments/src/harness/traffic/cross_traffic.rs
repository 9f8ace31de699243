//! Traffic of others on a lab's path: datagrams at a constant rate that come for a while and go for
//! as long.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use icdc_lab::{Host, Lab};
use icdc_packet::clock;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::harness::error::ExperimentError;

/// Payload that fills a frame of MTU 1500.
pub(crate) const PAYLOAD: usize = 1472;
/// What such a frame takes on the wire.
pub(crate) const FRAME: ByteCount = ByteCount::new(1538);
/// Time between two looks at what is due: so much leaves at once.
const TICK: Span = Span::from_micros(250);
/// What was not sent for want of a processor is sent later, up to so much of it.
const ARREARS: Span = Span::from_millis(5);

/// When it comes and goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrossTraffic {
    /// On the wire, while it is there.
    pub(crate) rate: Rate,
    /// Before it comes first.
    pub(crate) quiet: Span,
    /// For how long it comes, and for how long it goes.
    pub(crate) half_period: Span,
}

/// A time with or without it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrafficPhase {
    /// Monotonic.
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// What was really sent.
    pub(crate) rate: Rate,
}

impl CrossTraffic {
    /// Sends from host a to host b until `over`; the calling thread is on host a from then on.
    /// Gives what there was.
    pub(crate) fn send(&self, lab: &Lab, over: &AtomicBool) -> Result<Vec<TrafficPhase>, ExperimentError> {
        let failed = |error| ExperimentError::io("send cross traffic", error);
        // Nobody reads what comes there; without it, each datagram would be answered.
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

fn idle(until: Time, over: &AtomicBool) -> std::io::Result<ByteCount> {
    while clock::now() < until && !over.load(Ordering::Relaxed) {
        clock::sleep_until(until.min(clock::now() + Span::from_millis(50)));
    }
    Ok(ByteCount::ZERO)
}
