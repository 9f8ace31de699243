//! What a controller is told.

use icdc_units::{ByteCount, Span, Time};

/// What the kernel tells of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// When.
    pub at: Time,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Least round-trip time.
    pub least_rtt: Span,
    /// Bytes that have reached the other end since the connection began.
    pub delivered: ByteCount,
    /// Packets retransmitted since the connection began.
    pub retransmitted: u64,
    /// Bytes of a packet.
    pub packet: ByteCount,
    /// Congestion window in bytes.
    pub window: ByteCount,
    /// Whether the application, not the path, held it up.
    pub idle: bool,
}
