//! What can be asked of a measurement, and what comes of it.

use std::sync::Arc;

use icdc_protocol::Ports;
use icdc_protocol::measure::{Order, Received, Sample, Sent};
use icdc_units::{ByteCount, Rate, Span};

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

impl MeasureOptions {
    /// Whether the data connections need buffers or a congestion control of their own from the
    /// beginning, for which the far end has to listen on a port of its own.
    #[must_use]
    pub fn needs_own_port(&self) -> bool {
        self.window.is_some() || self.congestion.is_some()
    }

    /// What the far end is asked for; it listens on one of `ports` besides.
    #[must_use]
    pub fn order(&self, ports: Option<Ports>) -> Order {
        Order {
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
