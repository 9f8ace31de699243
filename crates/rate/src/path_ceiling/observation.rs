//! Input of a path's controller.

use icdc_units::{ByteCount, Span, Time};

/// State of a connection, from `TCP_INFO`.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// Time of the observation.
    pub at: Time,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Least round-trip time.
    pub least_rtt: Span,
    /// Bytes delivered since the connection began.
    pub delivered: ByteCount,
    /// Packets retransmitted since the connection began.
    pub retransmitted: u64,
    /// Size of a packet (the MSS), in bytes.
    pub packet: ByteCount,
    /// Congestion window.
    pub window: ByteCount,
    /// Whether the sender was limited by the application, not by the path.
    pub idle: bool,
}
