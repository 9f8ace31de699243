//! What a relay tells about itself.

use std::net::SocketAddr;

use icdc_units::{ByteCount, Rate, Span};
use serde::Serialize;

use crate::leg::Leg;

/// A whole relay at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// This process's number among relays, as it stands in headers.
    pub id: String,
    /// Since its start.
    pub seconds: f64,
    /// Where it listens.
    pub listeners: Vec<ListenerStatus>,
    /// Sums since the start.
    pub totals: Totals,
    /// Every connection, those who hold most first.
    pub connections: Vec<ConnectionStatus>,
}

/// A listener.
#[derive(Clone, Debug, Serialize)]
pub struct ListenerStatus {
    /// Its kind.
    pub kind: &'static str,
    /// Address and port.
    pub address: SocketAddr,
    /// Where all of its clients go, if they have no choice.
    pub destination: Option<String>,
}

/// Counts since the start, and levels.
#[derive(Clone, Debug, Serialize)]
pub struct Totals {
    /// Connections now.
    pub open: usize,
    /// Accepted connections.
    pub accepted: u64,
    /// Of these: not let in, or gone before they said where to go.
    pub turned_away: u64,
    /// Their destination could not be had.
    pub not_reached: u64,
    /// Ended in order.
    pub finished: u64,
    /// Ended by a reset or an error.
    pub broken: u64,
    /// Ended for want of life.
    pub timed_out: u64,
    /// Bytes from clients to destinations.
    pub bytes_up: u64,
    /// Bytes from destinations to clients.
    pub bytes_down: u64,
    /// Bytes that wait in the relay, sockets included.
    pub held: ByteCount,
    /// Time that ended connections' directions have waited for near legs.
    pub waited_for_near: Span,
    /// The same for far legs.
    pub waited_for_far: Span,
}

/// One connection.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionStatus {
    /// Kind of the listener that it came to.
    pub listener: &'static str,
    /// Who opened it.
    pub client: SocketAddr,
    /// Where it leads, once that is known.
    pub destination: Option<String>,
    /// The way there: `direct`, or the next relay.
    pub via: Option<String>,
    /// Where in its life it is.
    pub stage: &'static str,
    /// Its age.
    pub seconds: f64,
    /// Bytes of it that wait in the relay.
    pub held: ByteCount,
    /// It reads no more until less of it waits.
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

/// One direction.
#[derive(Clone, Debug, Serialize)]
pub struct FlowStatus {
    /// Bytes that have left.
    pub bytes: u64,
    /// Their mean rate.
    pub rate: Rate,
    /// Time in which there was nothing to pass on.
    pub waited_for_source: Span,
    /// Time in which it could not be passed on.
    pub waited_for_sink: Span,
    /// The leg that it has waited for more, once something has moved.
    pub limited_by: Option<&'static str>,
    /// Nothing more comes.
    pub ended: bool,
}

/// One leg, as its TCP socket tells.
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
    /// Rate at which the neighbour last acknowledged.
    pub rate: Rate,
    /// Ceiling, where there is one.
    pub pacing_rate: Rate,
    /// Round-trip time.
    pub rtt: Span,
    /// Congestion window.
    pub cwnd: ByteCount,
    /// Bytes that the neighbour has not acknowledged.
    pub queue: ByteCount,
    /// Bytes that wait to be read.
    pub unread: ByteCount,
    /// Segments sent again.
    pub retransmissions: u64,
    /// What holds the sending up most: `receive window`, `send buffer`, `congestion window`; none while it does not send.
    pub limited_by: Option<&'static str>,
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
            queue: leg.queue(),
            unread: leg.unread(),
            retransmissions: info.segments_retransmitted,
            limited_by,
        })
    }
}
