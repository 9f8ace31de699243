//! Limits of a relay, with their defaults.

use icdc_units::{ByteCount, Span};

/// The relay's limits of connections, memory and time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Greatest number of open connections in all.
    pub connections: usize,
    /// Greatest number of open connections of one client address.
    pub per_client: usize,
    /// Bytes buffered in the relay and its sockets; above it, connections with the most read no
    /// more.
    pub memory: ByteCount,
    /// Bytes buffered of one connection: while more has been read and not sent, nothing is read. No
    /// socket buffer is larger.
    pub memory_per_connection: ByteCount,
    /// Time limit for a client to make its request.
    pub greeting: Span,
    /// Time to reach a destination, all routes together.
    pub connect: Span,
    /// Time without data in either direction until a connection is closed.
    pub idle: Span,
    /// Time for open connections to end when the relay stops.
    pub drain: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            per_client: 1024,
            memory: ByteCount::from_mib(4096),
            memory_per_connection: ByteCount::from_mib(256),
            greeting: Span::from_secs(10),
            connect: Span::from_secs(20),
            idle: Span::from_secs(3600),
            drain: Span::from_secs(30),
        }
    }
}
