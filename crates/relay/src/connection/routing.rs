//! Starts out for the next hop: by a warm leg, a connection, or a name to resolve first.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use icdc_protocol::relay::peer::Verdict;
use icdc_protocol::relay::{Host, HostName};
use icdc_units::Time;

use super::dial::dial;
use super::inbound::Inbound;
use super::next_hop::{Candidate, NextHop, Refusal};
use super::requesting;
use super::stage::{Connecting, End, Pending, Resolving, Stage, Target, Transition};
use crate::config::{ListenerKind, NextRelay};
use crate::leg::Leg;
use crate::mailbox::QueryId;
use crate::poller::Side;
use crate::resolver::Query;
use crate::worker_context::WorkerContext;

/// Tries the route's next candidate for the next hop; ends the connection if none is left.
pub(super) fn advance(mut pending: Box<Pending>, inbound: &mut Inbound, context: &mut WorkerContext) -> Transition {
    let (candidate, deadline) = match pending.route.next(context.now) {
        Ok(next) => next,
        Err(refusal) => return Transition::End(Stage::Routing(pending), End::Unreachable(refusal)),
    };
    match candidate {
        Candidate::Hop(NextHop::Destination(address)) => {
            connect(pending, NextHop::Destination(address), address, deadline, (inbound, context))
        }
        Candidate::Hop(NextHop::Relay(relay)) => {
            if let Some(leg) = context.warm.take(&relay) {
                return use_warm(pending, relay, leg, inbound, context);
            }
            let port = relay.place.port;
            match relay.place.host.clone() {
                Host::Address(address) => {
                    let address = SocketAddr::new(address, port);
                    connect(pending, NextHop::Relay(relay), address, deadline, (inbound, context))
                }
                Host::Name(name) => resolve(pending, (name, port), Target::Relay(relay), deadline, (inbound, context)),
            }
        }
        Candidate::Lookup { name, port, directly } => {
            resolve(pending, (name, port), Target::Destination { directly }, deadline, (inbound, context))
        }
    }
}

/// Begins to connect to a next hop at an address.
fn connect(
    pending: Box<Pending>,
    hop: NextHop,
    address: SocketAddr,
    deadline: Time,
    (inbound, context): (&Inbound, &WorkerContext),
) -> Transition {
    match dial(&hop, address, inbound, context) {
        Ok(far) => Transition::Wait(Stage::Connecting(Connecting { pending, hop, far, deadline })),
        Err(refusal) => pending.next_candidate(&hop, refusal),
    }
}

/// Sends the request by a leg to the next relay that was kept open for it.
fn use_warm(
    pending: Box<Pending>,
    relay: Arc<NextRelay>,
    far: Leg,
    inbound: &mut Inbound,
    context: &WorkerContext,
) -> Transition {
    match context.poller.rename(far.socket(), inbound.id, Side::Far) {
        Ok(()) => Transition::Next(requesting::begin(*pending, (relay, far), true, inbound, context)),
        Err(error) => {
            let refusal = Refusal(Verdict::Unreachable, error.to_string());
            pending.next_candidate(&NextHop::Relay(relay), refusal)
        }
    }
}

/// Queues the resolution of a name for `target`; tries the next candidate if too many names wait.
fn resolve(
    mut pending: Box<Pending>,
    (name, port): (HostName, u16),
    target: Target,
    deadline: Time,
    (inbound, context): (&Inbound, &WorkerContext),
) -> Transition {
    let query = pending.route.next_query();
    let is_clients_choice =
        matches!(target, Target::Destination { .. }) && !matches!(inbound.listener.kind, ListenerKind::Forward(_));
    let is_queued = context.relay.resolver.resolve(Query {
        name,
        port,
        requester: is_clients_choice.then_some(pending.route.request.client.ip()),
        id: QueryId { connection: inbound.id, number: query },
        answer_to: Arc::clone(&context.mailbox),
        deadline,
    });
    let resolving = Resolving { pending, query, target, deadline };
    if is_queued {
        return Transition::Wait(Stage::Resolving(resolving));
    }
    resolving.failed(Refusal(Verdict::Busy, "too many names are being resolved".to_owned()))
}

/// Handles the answer to a query of a name: adds the destination's addresses as candidates, or
/// connects to the next relay. After an error the next candidate is tried.
pub(super) fn resolved(
    resolving: Resolving,
    found: io::Result<Vec<SocketAddr>>,
    inbound: &Inbound,
    context: &WorkerContext,
) -> Transition {
    let addresses = match found {
        Ok(addresses) => addresses,
        Err(error) => return resolving.failed(Refusal(Verdict::UnknownName, error.to_string())),
    };
    let Some(&first) = addresses.first() else {
        return resolving.failed(Refusal(Verdict::UnknownName, "the name has no address".to_owned()));
    };
    let Resolving { mut pending, target, deadline, .. } = resolving;
    match target {
        Target::Destination { directly } => {
            match pending.route.add_addresses(&addresses, directly, &inbound.policy(context.relay.id)) {
                Ok(()) => Transition::Next(Stage::Routing(pending)),
                Err(refusal) => Transition::End(Stage::Routing(pending), End::Unreachable(refusal)),
            }
        }
        // One address will do: a relay with several listens on all of them.
        Target::Relay(relay) => connect(pending, NextHop::Relay(relay), first, deadline, (inbound, context)),
    }
}
