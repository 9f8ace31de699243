//! Number of connections that a session opens at first, and the most that it may have.

use std::ops::RangeInclusive;

use icdc_protocol::message::{ReceiveOptions, SendOptions};
use icdc_rate::connection_count::{KERNEL_BUFFERS, OVER_DATAGRAMS, SSH_CHANNEL, needed_for};
use icdc_tcp::congestion::finds_the_rate;
use icdc_transfer::sender::SendingLink;
use icdc_transfer::{Event, EventSink, receiver};
use icdc_tuning::Tuned;
use icdc_units::{Rate, Span};

/// Round trips of the handshakes of TCP and TLS, over which a session's later connections are
/// spread.
const HANDSHAKE_ROUND_TRIPS: u64 = 2;

/// Numbers of TCP connections with which a session begins and that it may have at most, the first
/// included.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionCounts {
    /// Connections at the start.
    pub(crate) first: u8,
    /// Maximum number of connections, once the sender finds that the path needs more.
    pub(crate) most: u8,
    /// Time over which the later connections are started: their initial windows together would
    /// overflow a short queue.
    pub(crate) spread: Span,
}

impl ConnectionCounts {
    /// Connection counts for a session: what the user has set, or else what the path of `link`
    /// needs, within `bounds` and the receiver's ring.
    pub(crate) fn of(
        link: &SendingLink,
        send: &SendOptions,
        receive: &ReceiveOptions,
        bounds: RangeInclusive<u8>,
        events: &EventSink,
    ) -> Self {
        let (named, (least, reachable)) = (send.streams, bounds.into_inner());
        let wanted = named.unwrap_or_else(|| needed_by_path(link, send.rate).max(least));
        let first = within_ring(wanted.min(reachable), receive, events);
        // Through ssh no more are added after losses: each costs a login.
        let is_fixed = named.is_some() || link.link.control.socket().is_none();
        let most = if is_fixed { first } else { reachable.min(receiver::most_connections(receive)).max(first) };
        let round_trip = link.link.control.tcp_info().map_or(Span::ZERO, |info| info.min_rtt);
        Self { first, most, spread: round_trip * HANDSHAKE_ROUND_TRIPS }
    }
}

/// Number of connections that the path of `link` needs to reach the rate `limit`, or its full rate
/// without one; 1 if the congestion control finds the path's rate alone.
fn needed_by_path(link: &SendingLink, limit: Option<Rate>) -> u8 {
    let SendingLink { link, tuned, .. } = link;
    if link.control.finds_the_rate() {
        return OVER_DATAGRAMS;
    }
    if tuned.as_ref().is_some_and(|tuned| finds_the_rate(&tuned.congestion())) {
        return 1;
    }
    let channel = link.control.window().map_or(SSH_CHANNEL, |window| SSH_CHANNEL.with(window));
    let known = tuned.as_ref().and_then(Tuned::known_path).map(|known| known.rate);
    let (window, round_trip) = match (link.control.socket(), link.control.tcp_info(), link.control.handshake_time()) {
        (Some(_), Some(info), _) => (KERNEL_BUFFERS, info.min_rtt),
        // A handshake takes one round trip, a little more in practice, and much more where the
        // observed TCP connection ends at a jump host.
        (None, Some(info), Some(handshake)) if handshake < info.min_rtt * 2 => (channel, info.min_rtt),
        (None, _, Some(handshake)) => (channel, handshake),
        _ => return 1,
    };
    needed_for(window, round_trip, known, limit)
}

/// `streams`, limited to the connections that the receiver's ring can serve; notifies the user of
/// the limit.
fn within_ring(streams: u8, options: &ReceiveOptions, events: &EventSink) -> u8 {
    let most = receiver::most_connections(options);
    if streams > most {
        let text = format!(
            "the ring has {most} blocks, one for each connection: {most} of {streams} are made; --ring gives more"
        );
        events(Event::Notice { text });
    }
    streams.min(most)
}
