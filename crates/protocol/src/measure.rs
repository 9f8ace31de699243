//! Messages between the two ends of a measurement: the request, and the messages over its control
//! link.
//!
//! ```text
//! near → far        Request(Job::Measure(order)) ──────► Accepted, Ready { port, tokens }
//! near → far        one TCP connection per token, which begins with its proof, a length (2 bytes, big endian), and so many zeros;
//!                   to the port of the control link, where `DATA_MAGIC` comes first, or to a port of its own
//! receiver → sender Go
//! far sender → near Samples*
//! receiver → sender Received
//! far receiver → near Arrivals* (as many bins as Received tells)
//! far sender → near Sent
//! ```
//!
//! The data connections carry zeros in clear text; everything that is relied on travels over the
//! control link. The zeros before `Go` are the run-up of a near sender and do not count: where the
//! rate comes from the kernel's slow start, they save one round trip.

use icdc_units::{ByteCount, Rate};
use serde::{Deserialize, Serialize};

use crate::limits::{
    MAX_ARRIVALS, MAX_BINS, MAX_CONGESTION_NAME, MAX_MEASURE_ERRORS, MAX_MEASURE_NANOS, MAX_SAMPLES, MAX_STREAMS,
    MAX_TEXT, MAX_WINDOW,
};
use crate::ports::Ports;

/// Secret token of one data connection, transmitted over the control link.
pub type Token = [u8; 32];

/// First bytes of a data connection, which prove that its maker has the control link.
pub type Proof = [u8; 32];

/// The proof of knowing the token: its BLAKE3 digest. The token itself is not sent, because the far
/// end, which names it and the port, must not choose the bytes that are written there.
#[must_use]
pub fn proof(token: &Token) -> Proof {
    *blake3::hash(token).as_bytes()
}

/// First bytes of a data connection to the port of the control link; no TLS connection begins so.
pub const DATA_MAGIC: [u8; 5] = *b"icdcm";

/// Length of a data connection's opening in bytes: magic, proof, length of the run-up.
pub const DATA_OPENING: usize = DATA_MAGIC.len() + size_of::<Proof>() + 2;

/// Parameters of a measurement of throughput, which the near end asks of the far end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasureRequest {
    /// Whether the far end sends, instead of the near one.
    pub reverse: bool,
    /// Duration in nanoseconds from the arrival of the first byte, after which the measurement
    /// ends.
    pub nanos: u64,
    /// Number of bytes, over all connections together, after which the measurement ends; `None` for
    /// no limit.
    pub bytes: Option<ByteCount>,
    /// Number of data connections.
    pub streams: u8,
    /// Ceiling of the pacing rates of all connections together; `None` for no ceiling.
    pub rate: Option<Rate>,
    /// Congestion control by its kernel name; `None` for the best that the sending end can have.
    pub congestion: Option<String>,
    /// Size of the sender's send buffers and the receiver's receive buffers; `None` for the
    /// kernel's autotuning.
    pub window: Option<ByteCount>,
    /// Additional ports for the far end to listen on, where a connection has its buffers and its
    /// congestion control from the beginning. `None`: the port of the control link is enough.
    pub ports: Option<Ports>,
}

/// Messages over the control link of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlMessage {
    /// The far end expects the data connections.
    Ready {
        /// The far end's own port for data connections, besides that of the control link; 0 for
        /// none.
        port: u16,
        /// Tokens of the data connections, one for each.
        tokens: Vec<Token>,
    },
    /// The receiver is ready for the data.
    Go,
    /// Kernel statistics of the far sender's connections.
    Samples(Vec<Sample>),
    /// The receiver has stopped counting.
    Received(Received),
    /// Numbers of bytes that arrived in each millisecond, in order, after `Received`.
    Arrivals(Vec<u32>),
    /// The far sender has stopped; nothing follows.
    Sent(Sent),
}

/// TCP statistics of one sending connection at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Number of the connection, from 0.
    pub stream: u8,
    /// Time since the sender began, in nanoseconds.
    pub at_nanos: u64,
    /// Smoothed round-trip time in nanoseconds.
    pub rtt_nanos: u64,
    /// Smallest round-trip time in nanoseconds; 0 before the first.
    pub min_rtt_nanos: u64,
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Pacing rate in bits per second; `u64::MAX` if not paced.
    pub pacing_rate_bps: u64,
    /// Rate at which data was last delivered, in bits per second.
    pub delivery_rate_bps: u64,
    /// Number of segments retransmitted since the start.
    pub retransmitted_segments: u64,
    /// Number of bytes that the receiver has acknowledged.
    pub bytes_acked: u64,
}

impl Sample {
    /// Pacing rate, as [`Self::pacing_rate_bps`] has it; `None` if not paced.
    #[must_use]
    pub fn pacing_rate(&self) -> Option<Rate> {
        (self.pacing_rate_bps < u64::MAX).then_some(Rate::from_bits_per_second(self.pacing_rate_bps))
    }
}

/// Results of a measurement at its receiver: bytes, time and arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Number of bytes of data received.
    pub bytes: u64,
    /// Time from the first byte to the end of the measurement, in nanoseconds.
    pub nanos: u64,
    /// Whether the arrivals are those of packets at the device; otherwise they are the times at
    /// which data was read from the sockets.
    pub packets: bool,
    /// Number of milliseconds with arrivals that are reported.
    pub bins: u32,
    /// Size of the receive buffers that the kernel granted, where one was asked for, in bytes.
    pub window: u64,
    /// Errors of the measurement, which make the numbers incomplete.
    pub errors: Vec<String>,
    /// Remarks about the numbers, for the user.
    pub notices: Vec<String>,
}

/// Results of a measurement at its sender: what its TCP connections did, and what limited them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Congestion control in use.
    pub congestion: String,
    /// Maximum segment size: most bytes of data in one segment.
    pub mss: u64,
    /// Size of the send buffers that the kernel granted, where one was asked for, in bytes.
    pub window: u64,
    /// Number of segments retransmitted by all connections.
    pub retransmitted_segments: u64,
    /// Smallest round-trip time of any connection in nanoseconds; 0 if there was none.
    pub min_rtt_nanos: u64,
    /// Time for which the connections were open, summed over them, in nanoseconds.
    pub open_nanos: u64,
    /// The part of `open_nanos` with data to send, in nanoseconds.
    pub busy_nanos: u64,
    /// The part of `busy_nanos` in which the receive window was full, in nanoseconds.
    pub receive_window_nanos: u64,
    /// The part of `busy_nanos` in which the send buffer was too small, in nanoseconds.
    pub send_buffer_nanos: u64,
    /// Errors of the measurement, for the user.
    pub errors: Vec<String>,
    /// Remarks about the numbers, for the user.
    pub notices: Vec<String>,
}

/// Success, or the rule that is broken.
type Checked = Result<(), &'static str>;

/// Checks a request for a measurement.
///
/// # Errors
/// A value is out of its bounds.
pub(crate) fn check_order(order: &MeasureRequest) -> Checked {
    require((1..=MAX_STREAMS).contains(&order.streams), "no connection, or too many")?;
    require((1..=MAX_MEASURE_NANOS).contains(&order.nanos), "a time out of bounds")?;
    let window = order.window.map_or(1, ByteCount::as_u64);
    require((1..=MAX_WINDOW).contains(&window), "a window out of bounds")?;
    require(order.bytes != Some(ByteCount::ZERO), "no bytes")?;
    ceiling(order.rate)?;
    require(order.ports.is_none_or(Ports::is_valid), "a port range that is none")?;
    asked_congestion(order.congestion.as_deref())
}

/// Checks a message over the control link of a measurement.
///
/// # Errors
/// A value is out of its bounds.
pub(crate) fn check_control(message: &ControlMessage) -> Checked {
    match message {
        ControlMessage::Ready { tokens, .. } => {
            require((1..=usize::from(MAX_STREAMS)).contains(&tokens.len()), "no connection, or too many")
        }
        ControlMessage::Go => Ok(()),
        ControlMessage::Samples(samples) => {
            require(samples.len() <= MAX_SAMPLES, "too many samples")?;
            require(samples.iter().all(|sample| sample.stream < MAX_STREAMS), "a connection number out of bounds")
        }
        ControlMessage::Received(received) => {
            require(received.bins as usize <= MAX_BINS, "too many arrivals")?;
            texts(&received.errors)?;
            texts(&received.notices)
        }
        ControlMessage::Arrivals(bins) => require((1..=MAX_ARRIVALS).contains(&bins.len()), "no arrivals, or too many"),
        ControlMessage::Sent(sent) => {
            congestion(&sent.congestion)?;
            texts(&sent.errors)?;
            texts(&sent.notices)
        }
    }
}

/// Checks a ceiling on the rate: with one of zero nothing could be sent.
///
/// # Errors
/// A value is out of its bounds.
pub(crate) fn ceiling(rate: Option<Rate>) -> Checked {
    require(rate != Some(Rate::ZERO), "a rate of nothing")
}

/// Checks the form of a congestion control's name in a request (its length and characters), not
/// whether there is such an algorithm. No name is allowed, an empty one is not.
///
/// # Errors
/// A value is out of its bounds.
pub(crate) fn asked_congestion(name: Option<&str>) -> Checked {
    require(name != Some(""), "a congestion control without a name")?;
    congestion(name.unwrap_or_default())
}

/// Checks that a text can be the kernel's name of a congestion control; empty is allowed.
///
/// # Errors
/// A value is out of its bounds.
pub(crate) fn congestion(name: &str) -> Checked {
    let proper = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    require(
        name.len() <= MAX_CONGESTION_NAME && name.bytes().all(proper),
        "a congestion control by a name that no kernel has",
    )
}

/// Checks number and lengths of texts for the user.
fn texts(texts: &[String]) -> Checked {
    require(texts.len() <= MAX_MEASURE_ERRORS, "too many errors")?;
    require(texts.iter().all(|text| text.len() <= MAX_TEXT), "a text too long")
}

/// Success if the rule holds, otherwise the rule as the error.
fn require(holds: bool, rule: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(rule) }
}
