//! Measurements from memory to memory: zeros in clear over plain TCP, counted where they arrive.
//!
//! ```text
//!  near end ═══ control link (TLS, both keys known): order, messages, results ═══ far end
//!     │                                                                           │
//!     └── data: plain TCP, one or more connections, each begun by a secret token ─┘
//!           sender: writes, TCP_INFO each 10 ms        receiver: discards, bytes per millisecond
//! ```
//!
//! | file | what |
//! |---|---|
//! | `near` | the end that asks |
//! | `far` | the end that answers; it listens for the data connections |
//! | `admission` | who may use the data port |
//! | `sending`, `receiving` | the two ends of the data, whichever end they are at |
//! | `arrivals` | bytes per millisecond, from packets at the device or from reads of the socket |
//! | `control` | the control link: what is said, what is heard, until when |
//!
//! The receiver decides when it is over: so long after its first byte, or when everything has arrived. That the data
//! is not encrypted proves nothing to anybody and costs nothing: it is zeros.

mod admission;
mod arrivals;
mod control_link;
mod far;
mod near;
mod receiving;
mod sending;

use std::net::TcpStream;
use std::sync::Arc;

use icdc_protocol::measure::{Order, Received, Sample, Sent};
use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_units::{ByteCount, Rate, Span};

use crate::buffers;
use crate::connect::ConnectError;
use crate::error::SessionError;

pub(crate) use far::answer;
pub use near::measure;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    /// The far end sends, instead of this one.
    pub reverse: bool,
    /// End this long after the first byte has arrived; at most a day.
    pub time: Span,
    /// End after so many bytes.
    pub bytes: Option<ByteCount>,
    /// Number of data connections, from 1.
    pub streams: u8,
    /// Ceiling of the sending rate of all connections together.
    pub rate: Option<Rate>,
    /// Congestion control by its kernel name.
    pub congestion: Option<String>,
    /// Socket buffers of both ends; `None` for the kernel's autotuning.
    pub window: Option<ByteCount>,
}

/// What happens during a measurement.
#[derive(Clone, Debug)]
pub enum MeasureEvent {
    /// Something worth knowing.
    Notice(String),
    /// States of sending connections.
    Samples(Vec<Sample>),
}

/// Takes the events of a measurement.
pub type MeasureSink = Arc<dyn Fn(MeasureEvent) + Send + Sync>;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// What arrived.
    pub received: Received,
    /// Bytes that arrived in each millisecond since the first byte.
    pub arrivals: Vec<u32>,
    /// How the sender fared.
    pub sent: Sent,
    /// The user stopped it before its end.
    pub interrupted: bool,
}

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The request makes no sense here.
    #[error("{0}")]
    Usage(String),
    /// The other end could not be reached, or did not let us in.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The other end refused.
    #[error("{}", .0.reason)]
    Refused(Refusal),
    /// The user asked to stop before anything was measured.
    #[error("interrupted")]
    Interrupted,
    /// The connection to the other end broke.
    #[error("{0}; nothing was measured to the end, run the same command again")]
    Lost(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl MeasureError {
    /// Exit code of the process: 1 failed, 2 usage, 3 could not connect or was not let in, 4 interrupted.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Connect(ConnectError::Interrupted) => 4,
            Self::Connect(_) => 3,
            Self::Refused(refusal) if matches!(refusal.kind, RefusalKind::NotAllowed | RefusalKind::Busy) => 3,
            Self::Interrupted => 4,
            Self::Refused(_) | Self::Lost(_) | Self::Failed(_) => 1,
        }
    }
}

impl From<SessionError> for MeasureError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Refused(refusal) => Self::Refused(refusal),
            SessionError::Interrupted => Self::Interrupted,
            SessionError::Cut(_) => Self::Lost(error.to_string()),
            SessionError::Protocol(_) | SessionError::Local(_) => Self::Failed(error.to_string()),
        }
    }
}

/// The buffers of the data connections in bytes; 0 where none were asked for and the kernel tunes them.
fn granted(order: &Order, sockets: &[TcpStream], which: fn(&icdc_tcp::Buffers) -> ByteCount) -> u64 {
    // All connections ask for the same.
    let socket = sockets.first().filter(|_| order.window.is_some());
    let buffers = socket.and_then(|socket| icdc_tcp::set_buffers(socket, ByteCount::ZERO, ByteCount::ZERO).ok());
    buffers.map_or(0, |buffers| which(&buffers).as_u64())
}

/// Size of the receive buffer to ask for: what was ordered. With nothing ordered it is the kernel's, or, where the rate is
/// found automatically, what never limits.
fn receive_buffer(order: &Order) -> ByteCount {
    match (order.window, &order.congestion) {
        (None, None) => buffers::receive_buffer(),
        (window, _) => window.unwrap_or_default(),
    }
}

/// A system call that failed at this end.
fn local(call: &str, error: impl std::fmt::Display) -> SessionError {
    SessionError::Local(format!("{call}: {error}"))
}
