//! The status of a relay: its listeners, totals and connections.

use std::net::SocketAddr;

use icdc_units::{ByteCount, Rate, Span};
use serde::Serialize;

use crate::leg::Leg;

/// The status of a whole relay.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Id of this relay's process, as in the headers between relays.
    pub id: String,
    /// Seconds since the relay's start.
    pub seconds: f64,
    /// Open listeners.
    pub listeners: Vec<ListenerStatus>,
    /// Sums over all connections since the start.
    pub totals: Totals,
    /// Every connection, those with the most buffered bytes first.
    pub connections: Vec<ConnectionStatus>,
}

/// Listener in the status of a relay: its kind, address, and fixed destination.
#[derive(Clone, Debug, Serialize)]
pub struct ListenerStatus {
    /// The listener's kind: `forward`, `socks5`, `peer` or `transparent`.
    pub kind: &'static str,
    /// The listener's address and port.
    pub address: SocketAddr,
    /// Destination of all of its clients, for `forward`; `None` for the other kinds.
    pub destination: Option<String>,
}

/// Counters since the start, and present levels.
#[derive(Clone, Debug, Serialize)]
pub struct Totals {
    /// Number of connections that are open.
    pub open: usize,
    /// Number of connections accepted since the start.
    pub accepted: u64,
    /// Number of connections that were not admitted, or closed before their request.
    pub rejected: u64,
    /// Number of connections whose destination could not be reached.
    pub unreachable: u64,
    /// Number of connections that both ends closed in order.
    pub finished: u64,
    /// Number of connections that ended by a reset or an error.
    pub aborted: u64,
    /// Number of connections that were closed because no data moved for too long.
    pub timed_out: u64,
    /// Bytes from clients to destinations.
    pub bytes_up: u64,
    /// Bytes from destinations to clients.
    pub bytes_down: u64,
    /// Bytes buffered in the relay and its sockets.
    pub buffered: ByteCount,
    /// Time for which the directions of ended connections have waited for near legs.
    pub waited_for_near: Span,
    /// Time for which the directions of ended connections have waited for far legs.
    pub waited_for_far: Span,
}

/// Status of one connection.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionStatus {
    /// Kind of the listener that accepted it.
    pub listener: &'static str,
    /// Address of the client.
    pub client: SocketAddr,
    /// The destination; `None` before it is known.
    pub destination: Option<String>,
    /// The next hop, `direct` for the destination itself, or the next relay; `None` before it is
    /// known.
    pub via: Option<String>,
    /// Name of the connection's stage: `greeting`, `routing`, `resolving`, `connecting`,
    /// `securing`, `requesting`, `relaying` or `closing`.
    pub stage: &'static str,
    /// Age of the connection, in seconds.
    pub seconds: f64,
    /// Bytes of the connection that are buffered in the relay and its sockets.
    pub buffered: ByteCount,
    /// The connection reads no more until less is buffered.
    pub paused: bool,
    /// Data from the client to the destination.
    pub up: FlowStatus,
    /// Data from the destination to the client.
    pub down: FlowStatus,
    /// Status of the leg between client and relay; `None` if its `TCP_INFO` cannot be read.
    pub near: Option<LegStatus>,
    /// Status of the leg to the destination or the next relay; `None` before connecting to it, or
    /// if its `TCP_INFO` cannot be read.
    pub far: Option<LegStatus>,
}

/// Status of one direction of a connection.
#[derive(Clone, Debug, Serialize)]
pub struct FlowStatus {
    /// Bytes relayed.
    pub bytes: u64,
    /// Mean rate of these bytes.
    pub rate: Rate,
    /// Time for which there was nothing to relay.
    pub waited_for_source: Span,
    /// Time for which the sink took nothing.
    pub waited_for_sink: Span,
    /// The leg that it has waited for longer, `near` or `far`; `None` before anything was relayed.
    pub limited_by: Option<&'static str>,
    /// Whether this direction has ended: everything has been relayed, the end of the source's
    /// stream included.
    pub ended: bool,
}

/// Status of one leg, a relay's TCP connection to a neighbour, at one time: the
/// neighbour's address and key, and the state of the socket, most of it from `TCP_INFO`.
#[derive(Clone, Debug, Serialize)]
pub struct LegStatus {
    /// Address of the leg's other end.
    pub peer: Option<SocketAddr>,
    /// Whether the leg is encrypted by TLS.
    pub tls: bool,
    /// Key of the neighbour; `None` if it has none.
    pub key: Option<String>,
    /// Name of the leg's congestion control.
    pub congestion: String,
    /// Delivery rate as last measured.
    pub rate: Rate,
    /// Ceiling of the pacing rate (`SO_MAX_PACING_RATE`); `None` if there is none.
    pub pacing_rate: Option<Rate>,
    /// Smoothed round-trip time of the leg.
    pub rtt: Span,
    /// Congestion window.
    pub cwnd: ByteCount,
    /// Bytes in the send queue: unsent, or not acknowledged by the neighbour.
    pub queue: ByteCount,
    /// Bytes that wait to be read.
    pub unread: ByteCount,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Main limit of sending: `receive window`, `send buffer`, `congestion window`; `None` while
    /// nothing is sent.
    pub limited_by: Option<&'static str>,
}

impl FlowStatus {
    /// The status of a direction before anything can be relayed.
    pub(crate) fn idle() -> Self {
        Self {
            bytes: 0,
            rate: Rate::ZERO,
            waited_for_source: Span::ZERO,
            waited_for_sink: Span::ZERO,
            limited_by: None,
            ended: false,
        }
    }
}

impl LegStatus {
    /// Status of the leg; `None` if its socket tells nothing.
    pub(crate) fn of(leg: &Leg) -> Option<Self> {
        let socket = leg.socket();
        let info = icdc_tcp::info(socket).ok()?;
        let by_window = info.receive_window_limited;
        let by_buffer = info.send_buffer_limited;
        let by_congestion = Span::from_nanos(
            info.busy.as_nanos().saturating_sub(by_window.as_nanos()).saturating_sub(by_buffer.as_nanos()),
        );
        let longest = by_window.max(by_buffer).max(by_congestion);
        let limited_by = match longest {
            Span::ZERO => None,
            longest if longest == by_congestion => Some("congestion window"),
            longest if longest == by_window => Some("receive window"),
            _ => Some("send buffer"),
        };
        Some(Self {
            peer: leg.peer(),
            tls: !leg.is_clear(),
            key: leg.peer_key().map(|key| key.fingerprint()),
            congestion: icdc_tcp::congestion(socket).unwrap_or_default(),
            rate: info.delivery_rate,
            pacing_rate: info.max_pacing_rate,
            rtt: info.rtt,
            cwnd: info.window(),
            queue: leg.unacknowledged(),
            unread: leg.unread(),
            retransmissions: info.segments_retransmitted,
            limited_by,
        })
    }
}
