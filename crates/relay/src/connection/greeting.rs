//! Executes a greeting: reads and replies at the near leg until the client's request is known.

use icdc_protocol::relay::peer::Verdict;
use icdc_tcp::canonical;

use super::client_protocol::{Greeting, Step};
use super::inbound::Inbound;
use super::next_hop::{Request, Route};
use super::stage::{End, Pending, Stage, Transition};
use crate::config::ListenerKind;
use crate::flow::Flow;
use crate::leg::Received;
use crate::worker_context::WorkerContext;

/// Continues the greeting of a client, and plans the route once its request is known.
pub(super) fn advance(mut greeting: Greeting, inbound: &mut Inbound, context: &mut WorkerContext) -> Transition {
    match greet(&mut greeting, inbound, context) {
        Ok(None) => Transition::Wait(Stage::Greeting(greeting)),
        Ok(Some((request, early))) => begin(request, &early, inbound, context),
        Err(end) => Transition::End(Stage::Greeting(greeting), end),
    }
}

/// End of a connection that is closed for this reason, without a reply to the client.
fn rejected(reason: impl std::fmt::Display) -> End {
    End::Rejected { reason: reason.to_string(), reply: None }
}

/// Reads the client's request; returns it, with the bytes behind it, once it is whole.
fn greet(
    greeting: &mut Greeting,
    inbound: &mut Inbound,
    context: &mut WorkerContext,
) -> Result<Option<(Request, Vec<u8>)>, End> {
    loop {
        match greeting.next(inbound.client) {
            Step::Handshake => match inbound.near.handshake() {
                Ok(true) => {
                    // A relay is counted as a client until it has shown who it is; then its own
                    // clients are.
                    inbound.slot.release();
                    inbound.slot.mark_authenticated();
                    greeting.handshake_completed(context.now);
                }
                Ok(false) => return Ok(None),
                Err(error) => return Err(End::Rejected { reason: error.to_string(), reply: Some(Vec::new()) }),
            },
            Step::Read(most) => {
                inbound.near.flush().map_err(rejected)?;
                match inbound.near.read(&mut context.scratch[..most]).map_err(rejected)? {
                    Received::Bytes(count) => greeting.receive(&context.scratch[..count], context.now),
                    Received::WouldBlock => return Ok(None),
                    Received::End => return Err(rejected("the client closed the connection before its request")),
                }
            }
            Step::Reply(reply) => inbound.near.send_first(&reply),
            Step::Authenticated(reply) => {
                inbound.near.send_first(&reply);
                inbound.slot.mark_authenticated();
            }
            Step::OriginalDestination => {
                let destination = inbound.near.local().ok_or_else(|| rejected("the connection is closed already"))?;
                return Ok(Some((Request::new(destination.into(), inbound.client), Vec::new())));
            }
            Step::Request(request, early) => return Ok(Some((request, early))),
            Step::Reject { reason, reply } => return Err(End::Rejected { reason, reply }),
        }
    }
}

/// Plans the route of a request, whose client has sent the bytes `early` behind it. Ends the
/// connection if rules or the limit of connections per client refuse it.
fn begin(request: Request, early: &[u8], inbound: &mut Inbound, context: &WorkerContext) -> Transition {
    let mut up = Flow::new(inbound.began);
    up.begin_with(early);
    let route = Route::new(request, context.now + inbound.config.limits.connect);
    let mut pending = Box::new(Pending { route, up });
    if matches!(inbound.listener.kind, ListenerKind::Peer(_)) {
        inbound.client = canonical(pending.route.request.client);
        if !inbound.slot.assign_to(inbound.client.ip(), inbound.config.limits.per_client) {
            let end = End::unreachable(Verdict::Busy, "the client has too many connections");
            return Transition::End(Stage::Routing(pending), end);
        }
    }
    match pending.route.plan(&inbound.policy(context.relay.id)) {
        Ok(()) => Transition::Next(Stage::Routing(pending)),
        Err(refusal) => Transition::End(Stage::Routing(pending), End::Unreachable(refusal)),
    }
}
