//! Settings of a simulation.

use icdc_cc::{Algorithm, ParameterError};
use icdc_path::{Settings, SettingsError};
use icdc_units::{ByteCount, Rate, Span};
use thiserror::Error;

/// Length in bytes of the IPv4 header, TCP header, and time stamps.
const HEADERS: u64 = 20 + 20 + 12;
/// Maximum number of flows of a simulation; the cost of each event grows with their number.
const MAX_FLOWS: usize = 1000;
/// Longest additional delay that a flow's settings may have, as for a path.
const MAX_EXTRA_DELAY: Span = icdc_path::MAX_DELAY;
/// Memory in bytes for a packet in flight: its slot on a scoreboard that doubles, in a delay line
/// that does, and in the queues of losses.
const MEMORY_PER_PACKET: u64 = 200;

/// Settings of a simulation: TCP flows over a path.
#[derive(Clone)]
pub struct Simulation {
    /// Path of the data. Its line is that of the senders' host.
    pub forward: Settings,
    /// Path of the acknowledgements, from the receivers to the senders.
    pub backward: Settings,
    /// The flows; all of them share both directions.
    pub flows: Vec<Flow>,
    /// Simulated time after which everything ends.
    pub duration: Span,
    /// Acknowledgement policy of the receivers.
    pub acknowledgements: Acknowledgements,
    /// Whether the sending device segments what TCP hands down (TSO): paced packets then leave in
    /// aggregates.
    pub segmentation: bool,
}

/// Settings of one simulated TCP connection, which is established at its start.
#[derive(Clone)]
pub struct Flow {
    /// Congestion control algorithm of the sender.
    pub algorithm: &'static Algorithm,
    /// The algorithm's parameters that differ from their initial values.
    pub parameters: Vec<(String, i64)>,
    /// Time at which the flow is established and sends its first packet, from the start of the
    /// simulation; a spare flow ignores it.
    pub start: Span,
    /// Time at which the application ends; `None` if it never does.
    pub stop: Option<Span>,
    /// Number of bytes that the application sends, rounded up to whole packets; `None` without end.
    pub bytes: Option<ByteCount>,
    /// Delay of the flow's packets behind the bottleneck, in addition to the path's.
    pub extra_delay: Span,
    /// Ceiling of the flow's rate, by pacing (`SO_MAX_PACING_RATE`); `None` for no ceiling.
    pub rate: Option<Rate>,
    /// Number of the bundle to which the flow belongs. `icdc` runs once for all of its flows; with
    /// another algorithm the application steers their ceilings together by
    /// [`icdc_rate::controller`]. All are from one sending host. `None` for a flow by itself.
    pub bundle: Option<u8>,
    /// Whether the flow gives way to others; a bundle does if any of its flows does. Without effect on a flow
    /// whose algorithm cannot, and that is in no bundle.
    pub background: bool,
    /// Rate that the application remembers of the path, from which a bundle that it steers begins;
    /// `None` for a path that is not known. The lowest one of all members counts.
    pub known: Option<Rate>,
    /// Whether the flow is opened only when the application finds that its bundle needs more
    /// members; without a bundle, or with `icdc`, it is never opened.
    pub is_spare: bool,
    /// Data of the application by the times at which they come, in ascending order; empty if all are
    /// there from the start on. They are those of all members of the bundle that the application
    /// steers, whose first flow has them: each piece is sent by a member that has sent all that it
    /// had, and no member ends. Without such a bundle they have no effect.
    pub supply: Vec<Piece>,
    /// Receive window of the flow.
    pub window: ReceiveWindow,
    /// Pauses of the flow's hosts.
    pub pauses: Vec<Pause>,
}

/// Data of an application that come at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Time at which they come, from the start of the simulation.
    pub after: Span,
    /// Their length, rounded up to whole packets.
    pub length: ByteCount,
}

/// A pause of one part of a flow, like that of a virtual machine whose host has other work. Events
/// that fall due during it are handled at its end, all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The part that pauses.
    pub of: Pausing,
    /// Begin of the pause, from the start of the simulation.
    pub after: Span,
    /// Length of the pause.
    pub length: Span,
}

/// The parts of a flow that can pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pausing {
    /// The sending host: nothing is sent, and no acknowledgement is handled.
    Sender,
    /// The receiving host: nothing is acknowledged.
    Receiver,
    /// The return path: acknowledgements wait, while the sender continues with what its window
    /// permits.
    Acknowledgements,
}

impl Flow {
    /// Settings of a flow that sends from the start to the end of the simulation, with a receiver
    /// that takes up to `window`.
    #[must_use]
    pub fn bulk(algorithm: &'static Algorithm, window: ReceiveWindow) -> Self {
        Self {
            algorithm,
            parameters: Vec::new(),
            start: Span::ZERO,
            stop: None,
            bytes: None,
            extra_delay: Span::ZERO,
            rate: None,
            bundle: None,
            background: false,
            known: None,
            is_spare: false,
            supply: Vec::new(),
            window,
            pauses: Vec::new(),
        }
    }
}

/// Receive window of a flow, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindow {
    /// The window is constant from the first packet on.
    Fixed(ByteCount),
    /// The window is 64 KiB at first, then tuned by the receiver's kernel from the bytes read in a
    /// round trip.
    Tuned {
        /// Upper limit of the window.
        most: ByteCount,
    },
}

/// Policy by which receivers acknowledge packets that arrive in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgements {
    /// Each packet is acknowledged (`quickack` of a route).
    EveryPacket,
    /// Every second packet is acknowledged: the device hands packets up one by one.
    EverySecond,
    /// One acknowledgement is sent per batch that the device puts together (GRO).
    Batches {
        /// Most packets of a batch.
        packets: u32,
        /// Longest time between the first and the last packet of a batch.
        within: Span,
    },
}

/// Reason for which a simulation cannot be run.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum SimulationError {
    /// The settings of the path are invalid.
    #[error(transparent)]
    Path(#[from] SettingsError),
    /// The parameters of an algorithm are invalid.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// There are no flows, or too many.
    #[error("{0} flows cannot be simulated: give 1 to {MAX_FLOWS}")]
    Flows(usize),
    /// The additional delay of a flow is too long.
    #[error("flow {flow}: an additional delay of {delay} is too long: give {MAX_EXTRA_DELAY} at most")]
    ExtraDelay {
        /// Number of the flow, from 1.
        flow: usize,
        /// The given delay.
        delay: Span,
    },
    /// A flow stops before or when it starts.
    #[error("flow {flow} stops at {stop}, before it starts at {start}")]
    Order {
        /// Number of the flow, from 1.
        flow: usize,
        /// Time at which the flow starts.
        start: Span,
        /// Time at which the flow stops.
        stop: Span,
    },
    /// A flow has no bytes to send, or a rate of zero.
    #[error("flow {flow} has {what}: give more, or leave it out")]
    Nothing {
        /// Number of the flow, from 1.
        flow: usize,
        /// The missing setting.
        what: &'static str,
    },
    /// The duration is below a millisecond.
    #[error("a simulation of no time has no result: give a millisecond or more")]
    Duration,
}

impl Simulation {
    /// Payload of a full packet, in bytes.
    #[must_use]
    pub fn segment(&self) -> ByteCount {
        segment(&self.forward)
    }

    /// Round-trip time of a flow while no packet waits in a queue.
    #[must_use]
    pub fn round_trip(&self, flow: &Flow) -> Span {
        self.forward.delay + self.backward.delay + flow.extra_delay
    }

    /// Approximate upper bound of the memory for packets in flight: what fills the path and its
    /// queue, both ways.
    #[must_use]
    pub fn memory(&self) -> ByteCount {
        let longest = self.flows.iter().map(|flow| self.round_trip(flow)).max().unwrap_or_default();
        let on_wire = self.forward.rate * (longest + self.forward.jitter + self.backward.jitter) + self.forward.queue;
        ByteCount::new(on_wire.as_u64() / self.forward.largest_frame().as_u64() * MEMORY_PER_PACKET)
    }

    /// Checks the settings of path and flows.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<(), SimulationError> {
        self.forward.check()?;
        self.backward.check()?;
        if self.flows.is_empty() || self.flows.len() > MAX_FLOWS {
            return Err(SimulationError::Flows(self.flows.len()));
        }
        if self.duration.as_millis() == 0 {
            return Err(SimulationError::Duration);
        }
        self.flows.iter().enumerate().try_for_each(|(index, flow)| check_flow(index + 1, flow))
    }
}

/// Highest rate of payload that this direction of a path carries.
#[must_use]
pub fn payload_rate(way: &Settings) -> Rate {
    way.rate.scaled(segment(way).as_u64(), way.largest_frame().as_u64())
}

/// Payload of a full packet on this direction of a path.
fn segment(way: &Settings) -> ByteCount {
    way.mtu - ByteCount::new(HEADERS)
}

/// Checks the settings of the flow of this number, from 1.
fn check_flow(number: usize, settings: &Flow) -> Result<(), SimulationError> {
    let flow = number;
    if settings.extra_delay > MAX_EXTRA_DELAY {
        return Err(SimulationError::ExtraDelay { flow, delay: settings.extra_delay });
    }
    if let Some(stop) = settings.stop.filter(|stop| *stop <= settings.start) {
        return Err(SimulationError::Order { flow, start: settings.start, stop });
    }
    if settings.bytes.is_some_and(ByteCount::is_zero) {
        return Err(SimulationError::Nothing { flow, what: "nothing to send" });
    }
    if settings.rate.is_some_and(|rate| rate.as_bytes_per_second() == 0) {
        return Err(SimulationError::Nothing { flow, what: "no rate" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_what_headers_leave() {
        // 1448 of 1538 bytes.
        assert_eq!(payload_rate(&Settings::default()).as_bits_per_second() / 1_000_000, 941);
    }
}
