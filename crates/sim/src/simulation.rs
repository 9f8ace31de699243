//! What is simulated.

use icdc_cc::{Algorithm, ParameterError};
use icdc_path::{Settings, SettingsError};
use icdc_units::{ByteCount, Rate, Span};
use thiserror::Error;

/// IPv4 header, TCP header, and time stamps.
const HEADERS: u64 = 20 + 20 + 12;
/// Most flows: each event looks at all of them.
const MAX_FLOWS: usize = 1000;
/// Longest additional delay of a flow, as for a path.
const MAX_EXTRA_DELAY: Span = icdc_path::MAX_DELAY;
/// What a packet on its way may take in the simulator: its slot on a scoreboard that doubles, in a
/// delay line that does, and in the queues of losses.
const MEMORY_PER_PACKET: u64 = 200;

/// Flows over a path.
#[derive(Clone)]
pub struct Simulation {
    /// The way of the data. Its line is the senders' host's.
    pub forward: Settings,
    /// The way of the acknowledgements.
    pub backward: Settings,
    /// The flows; all of them share both directions.
    pub flows: Vec<Flow>,
    /// Time after which everything ends.
    pub duration: Span,
    /// When receivers acknowledge.
    pub acknowledgements: Acknowledgements,
    /// Whether the sending device cuts up what TCP hands down (TSO): paced packets then leave in
    /// aggregates.
    pub segmentation: bool,
}

/// One TCP connection, established at its start.
#[derive(Clone)]
pub struct Flow {
    /// Congestion control.
    pub algorithm: &'static Algorithm,
    /// Its parameters that differ from their initial values.
    pub parameters: Vec<(String, i64)>,
    /// When it is established and sends its first packet.
    pub start: Span,
    /// When the application ends; `None`: never.
    pub stop: Option<Span>,
    /// What the application has to send, rounded up to whole packets; `None`: no end of it.
    pub bytes: Option<ByteCount>,
    /// Delay of its packets behind the bottleneck, in addition to the path's.
    pub extra_delay: Span,
    /// Ceiling of its rate (`SO_MAX_PACING_RATE`): paces it.
    pub rate: Option<Rate>,
    /// The bundle that it belongs to. `icdc` runs once for all of its flows; with another algorithm
    /// the application steers their ceilings together by [`icdc_rate::controller`]. All are from one
    /// sending host.
    pub bundle: Option<u8>,
    /// It is opened when the application finds that its bundle needs more members, and not before.
    pub is_spare: bool,
    /// What its receiver takes.
    pub window: ReceiveWindow,
    /// When its hosts do not run.
    pub pauses: Vec<Pause>,
}

/// A time in which one part of a flow stands still, as a virtual machine does whose host has other
/// work. What falls due meanwhile happens at its end, all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// What stands still.
    pub of: Pausing,
    /// When it begins, from the start of the simulation.
    pub after: Span,
    /// How long it lasts.
    pub length: Span,
}

/// What may stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pausing {
    /// The sending host: nothing leaves, and no acknowledgement is looked at.
    Sender,
    /// The receiving host: nothing is acknowledged.
    Receiver,
    /// The way back: acknowledgements wait, while the sender goes on with what it may send.
    Acknowledgements,
}

impl Flow {
    /// A bulk flow from the start to the end, with a receiver that takes up to `window`.
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
            is_spare: false,
            window,
            pauses: Vec::new(),
        }
    }
}

/// How far a sender may run ahead of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindow {
    /// So far from the first packet on.
    Fixed(ByteCount),
    /// 64 KiB at first, then what the receiver's kernel makes of what is read in a round trip.
    Tuned {
        /// And never more than this.
        most: ByteCount,
    },
}

/// When a receiver acknowledges what comes in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgements {
    /// Each packet (`quickack` of a route).
    EveryPacket,
    /// Every second packet: the device hands packets up one by one.
    EverySecond,
    /// Once per batch that the device puts together (GRO).
    Batches {
        /// Most packets of a batch.
        packets: u32,
        /// Longest time between its first and last.
        within: Span,
    },
}

/// Why a simulation cannot be run.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum SimulationError {
    /// The path.
    #[error(transparent)]
    Path(#[from] SettingsError),
    /// An algorithm's parameters.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// None, or too many.
    #[error("{0} flows cannot be simulated: give 1 to {MAX_FLOWS}")]
    Flows(usize),
    /// A flow's own delay.
    #[error("flow {flow}: an additional delay of {delay} is too long: give {MAX_EXTRA_DELAY} at most")]
    ExtraDelay {
        /// Which, from 1.
        flow: usize,
        /// What was asked for.
        delay: Span,
    },
    /// It ends before it begins.
    #[error("flow {flow} stops at {stop}, before it starts at {start}")]
    Order {
        /// Which, from 1.
        flow: usize,
        /// Its start.
        start: Span,
        /// Its stop.
        stop: Span,
    },
    /// Nothing to send, or at no rate.
    #[error("flow {flow} has {what}: give more, or leave it out")]
    Nothing {
        /// Which, from 1.
        flow: usize,
        /// What is missing.
        what: &'static str,
    },
    /// No time at all.
    #[error("a simulation of no time has no result: give a millisecond or more")]
    Duration,
}

impl Simulation {
    /// Payload of a packet.
    #[must_use]
    pub fn segment(&self) -> ByteCount {
        segment(&self.forward)
    }

    /// Time from the sender of a flow to the receiver and back while nothing waits.
    #[must_use]
    pub fn round_trip(&self, flow: &Flow) -> Span {
        self.forward.delay + self.backward.delay + flow.extra_delay
    }

    /// About the most memory that a simulation takes for packets on their way: what fills the path
    /// and its queue, both ways.
    #[must_use]
    pub fn memory(&self) -> ByteCount {
        let longest = self.flows.iter().map(|flow| self.round_trip(flow)).max().unwrap_or_default();
        let on_wire = self.forward.rate * (longest + self.forward.jitter + self.backward.jitter) + self.forward.queue;
        ByteCount::new(on_wire.as_u64() / self.forward.largest_frame().as_u64() * MEMORY_PER_PACKET)
    }

    /// Whether it can be simulated.
    ///
    /// # Errors
    /// What is wrong with it.
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

/// Payload that this way carries at most.
#[must_use]
pub fn payload_rate(way: &Settings) -> Rate {
    way.rate.scaled(segment(way).as_u64(), way.largest_frame().as_u64())
}

fn segment(way: &Settings) -> ByteCount {
    way.mtu - ByteCount::new(HEADERS)
}

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
