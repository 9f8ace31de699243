//! Opens the leg to a next hop.

use std::io;
use std::net::SocketAddr;

use icdc_protocol::relay::peer::Verdict;
use rustix::io::Errno;

use super::inbound::Inbound;
use super::next_hop::{NextHop, Refusal};
use crate::leg::Leg;
use crate::poller::Side;
use crate::socket;
use crate::worker_context::WorkerContext;

/// Begins to connect to a next hop at `address`.
///
/// # Errors
/// [`Refusal`] if the connection attempt failed at once.
pub(super) fn dial(
    hop: &NextHop,
    address: SocketAddr,
    inbound: &Inbound,
    context: &WorkerContext,
) -> Result<Leg, Refusal> {
    if context.relay.is_own(address) {
        return Err(Refusal(Verdict::Loop, "that is this relay itself".to_owned()));
    }
    let is_relay = matches!(hop, NextHop::Relay(_));
    let socket = if is_relay {
        socket::connect_to_relay(address, &inbound.config, &context.relay.congestion)
    } else {
        let source = inbound.config.exit.keep_source.then_some(inbound.client);
        socket::connect_to_destination(address, source)
    };
    let leg = socket.and_then(Leg::new).and_then(|mut leg| {
        leg.between_relays = is_relay;
        context.poller.watch(leg.socket(), inbound.id, Side::Far)?;
        Ok(leg)
    });
    leg.map_err(|error| refusal_of(&error))
}

/// Refusal for the client that corresponds to an error of connecting.
pub(super) fn refusal_of(error: &io::Error) -> Refusal {
    let verdict = match error.kind() {
        io::ErrorKind::ConnectionRefused => Verdict::Refused,
        io::ErrorKind::TimedOut => Verdict::TimedOut,
        // No port or descriptor left.
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => Verdict::Busy,
        _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => Verdict::Busy,
        _ => Verdict::Unreachable,
    };
    Refusal(verdict, error.to_string())
}
