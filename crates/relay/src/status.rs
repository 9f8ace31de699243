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
    /// Since the start.
    pub seconds: f64,
    /// Open listeners.
    pub listeners: Vec<ListenerStatus>,
    /// Sums since the start.
    pub totals: Totals,
    /// Every connection, those with the most buffered bytes first.
    pub connections: Vec<ConnectionStatus>,
}

/// A listener.
#[derive(Clone, Debug, Serialize)]
pub struct ListenerStatus {
    /// `forward`, `socks5`, `peer` or `transparent`.
    pub kind: &'static str,
    /// Address and port.
    pub address: SocketAddr,
    /// Destination of all of its clients, for `forward`.
    pub destination: Option<String>,
}

/// Counters since the start, and present levels.
#[derive(Clone, Debug, Serialize)]
pub struct Totals {
    /// Open connections.
    pub open: usize,
    /// Accepted connections.
    pub accepted: u64,
    /// Connections that were not admitted, or closed before their request.
    pub rejected: u64,
    /// Their destination could not be reached.
    pub unreachable: u64,
    /// Closed in order by both ends.
    pub finished: u64,
    /// Ended by a reset or an error.
    pub aborted: u64,
    /// Closed because nothing was received or sent for too long.
    pub timed_out: u64,
    /// Bytes from clients to destinations.
    pub bytes_up: u64,
    /// Bytes from destinations to clients.
    pub bytes_down: u64,
    /// Bytes buffered in the relay and its sockets.
    pub buffered: ByteCount,
    /// Time for which the directions of ended connections have waited for near legs.
    pub waited_for_near: Span,
    /// Time for which they have waited for far legs.
    pub waited_for_far: Span,
}

/// Status of one connection.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionStatus {
    /// Kind of the listener that accepted it.
    pub listener: &'static str,
    /// The client.
    pub client: SocketAddr,
    /// The destination, once it is known.
    pub destination: Option<String>,
    /// The next hop: `direct` for the destination itself, or the next relay.
    pub via: Option<String>,
    /// `greeting`, `routing`, `resolving`, `connecting`, `securing`, `requesting`, `relaying` or
    /// `closing`.
    pub stage: &'static str,
    /// Its age.
    pub seconds: f64,
    /// Bytes of it that are buffered in the relay and its sockets.
    pub buffered: ByteCount,
    /// The connection reads no more until less is buffered.
    pub paused: bool,
    /// From the client.
    pub up: FlowStatus,
    /// To the client.
    pub down: FlowStatus,
    /// The leg to the client.
    pub near: Option<LegStatus>,
    /// The leg to the destination or the next relay.
    pub far: Option<LegStatus>,
}

/// Status of one direction.
#[derive(Clone, Debug, Serialize)]
pub struct FlowStatus {
    /// Bytes relayed.
    pub bytes: u64,
    /// Their mean rate.
    pub rate: Rate,
    /// Time for which there was nothing to relay.
    pub waited_for_source: Span,
    /// Time for which the sink took nothing.
    pub waited_for_sink: Span,
    /// The leg that it has waited for longer, `near` or `far`, once something was relayed.
    pub limited_by: Option<&'static str>,
    /// Its source has ended it.
    pub ended: bool,
}

/// Status of one leg, by its TCP_INFO.
#[derive(Clone, Debug, Serialize)]
pub struct LegStatus {
    /// The neighbour.
    pub peer: Option<SocketAddr>,
    /// Whether it has TLS.
    pub tls: bool,
    /// The neighbour's key, where it has.
    pub key: Option<String>,
    /// Congestion control.
    pub congestion: String,
    /// Delivery rate as last measured.
    pub rate: Rate,
    /// Configured ceiling of the rate, if there is one.
    pub pacing_rate: Rate,
    /// Round-trip time.
    pub rtt: Span,
    /// Congestion window.
    pub cwnd: ByteCount,
    /// Bytes that the neighbour has not acknowledged.
    pub queue: ByteCount,
    /// Bytes that wait to be read.
    pub unread: ByteCount,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Main limit of sending: `receive window`, `send buffer`, `congestion window`; none while
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
