//! Options, events and result of a measurement.

use std::sync::Arc;

use icdc_protocol::Ports;
use icdc_protocol::measure::{MeasureRequest, Received, Sample, Sent};
use icdc_units::{ByteCount, Rate, Span};

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    /// Whether the far end sends, instead of this one.
    pub reverse: bool,
    /// Duration of the measurement from the arrival of the first byte; at most a day.
    pub time: Span,
    /// Number of bytes after which the measurement ends; `None` for no limit.
    pub bytes: Option<ByteCount>,
    /// Number of data connections, from 1.
    pub streams: u8,
    /// Maximum sending rate of all connections together; `None` for no limit.
    pub rate: Option<Rate>,
    /// Congestion control by its kernel name; `None` for the best available.
    pub congestion: Option<String>,
    /// Size of the socket buffers of both ends; `None` for the kernel's autotuning.
    pub window: Option<ByteCount>,
}

impl MeasureOptions {
    /// Whether the data connections need buffers or a congestion control of their own from the
    /// beginning, for which the far end has to listen on a port of its own.
    #[must_use]
    pub fn needs_own_port(&self) -> bool {
        self.window.is_some() || self.congestion.is_some()
    }

    /// Request to the far end, which also listens on one of `ports`; `None`: it uses the port of
    /// the control link only.
    #[must_use]
    pub fn order(&self, ports: Option<Ports>) -> MeasureRequest {
        MeasureRequest {
            reverse: self.reverse,
            nanos: self.time.as_nanos(),
            bytes: self.bytes,
            streams: self.streams,
            rate: self.rate,
            congestion: self.congestion.clone(),
            window: self.window,
            ports,
        }
    }
}

/// Events of a measurement.
#[derive(Clone, Debug)]
pub enum MeasureEvent {
    /// A message for the user.
    Notice(String),
    /// New samples of the state of sending connections.
    Samples(Vec<Sample>),
}

/// Function that receives the events of a measurement.
pub type MeasureSink = Arc<dyn Fn(MeasureEvent) + Send + Sync>;

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Figures of the receiving end.
    pub received: Received,
    /// Number of bytes that arrived in each millisecond since the first byte.
    pub arrivals: Vec<u32>,
    /// Figures of the sending end.
    pub sent: Sent,
    /// Whether the user stopped the measurement before its end.
    pub interrupted: bool,
}
