//! Model of one direction of a long path: it loses some packets, queues the others before a
//! bottleneck, drops those that the queue has no room for, and delays the rest.
//!
//! ```text
//! arrival ─► input port ─► loss ─► bottleneck ─► delay ─► delivery
//!            charges and     │        │  drop-tail
//!            drops PAUSE     ▼        ▼  queue, or CoDel's
//!            frames         lost    dropped
//! ```
//!
//! | part | file |
//! |---|---|
//! | line rate of the attached host, gap frames | [`InputPort`] |
//! | random, bursty and listed loss | [`loss`] |
//! | rate and drop-tail queue | [`DropTail`], on [`Transmitter`] |
//! | a queue that is kept short | [`codel`] |
//! | delay, jitter without reordering | [`Delay`] |
//! | all of them in order, with counters | [`Direction`] |
//! | changes in the course of time | [`Change`] |
//! | packets that wait for their time | [`DelayLine`] |
//!
//! Nothing here reads a clock, sends a packet or allocates per packet: the time of arrival goes in,
//! and the time of delivery, or the reason for a loss, comes out. The live emulator passes the
//! kernel's arrival stamps, the simulator its virtual time; the decisions are identical.
//!
//! ```
//! use icdc_path::{Direction, Fate, Frame, Settings};
//! use icdc_units::{ByteCount, Span, Time};
//!
//! let settings = Settings { rate: "1gbit".parse()?, delay: Span::from_millis(150), ..Settings::default() };
//! let mut direction = Direction::new(&settings)?;
//! let frame = Frame::data(ByteCount::new(1514));
//! // (1514 + 24) bytes at 1 Gbit/s take 12.304 µs on the wire.
//! assert_eq!(direction.offer(Time::ORIGIN, frame), Fate::Delivered(Time::from_nanos(150_012_304)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod change;
pub mod codel;
mod delay;
mod delay_line;
mod direction;
mod drop_tail;
mod input_port;
pub mod loss;
mod settings;
mod transmitter;

pub use change::Change;
pub use delay::Delay;
pub use delay_line::DelayLine;
pub use direction::{Counters, Direction, Fate};
pub use drop_tail::DropTail;
pub use input_port::InputPort;
pub use settings::{MAX_DELAY, MAX_RATE, Settings, SettingsError};
pub use transmitter::Transmitter;

use icdc_units::ByteCount;

/// Bytes that a frame occupies on an Ethernet beyond header and payload: preamble and start
/// delimiter 8, frame check sequence 4, gap between frames 12 (IEEE 802.3).
pub const WIRE_OVERHEAD: ByteCount = ByteCount::new(24);

/// An Ethernet frame as the model of a path needs it: its length, and how it may be dropped or
/// marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Length of Ethernet header and payload, in bytes.
    pub length: ByteCount,
    /// A PAUSE frame (IEEE 802.3x): it takes its time on the wire and is dropped at the next port.
    pub gap: bool,
    /// Whether the frame's ends are ECN-capable: a mark may take the place of a drop (RFC 3168).
    pub ecn_capable: bool,
}

impl Frame {
    /// A frame that is to be delivered.
    pub const fn data(length: ByteCount) -> Self {
        Self { length, gap: false, ecn_capable: false }
    }

    /// Makes a gap frame (PAUSE) of this length.
    pub const fn gap(length: ByteCount) -> Self {
        Self { length, gap: true, ecn_capable: false }
    }

    /// Length that the frame takes on the wire, overhead included.
    pub fn wire_length(self) -> ByteCount {
        self.length + WIRE_OVERHEAD
    }
}
