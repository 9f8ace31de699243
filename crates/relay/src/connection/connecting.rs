//! Connects to the next hop: TCP, then TLS where the next relay has it.

use std::sync::Arc;

use icdc_protocol::relay::peer::Verdict;
use icdc_trust::server_name;

use super::dial::refusal_of;
use super::inbound::Inbound;
use super::next_hop::{NextHop, Refusal};
use super::stage::{Connecting, Securing, Stage, Transition};
use super::{relaying, requesting};
use crate::worker_context::WorkerContext;

/// Handles an event of the leg to the next hop: once TCP has connected, begins to relay, sends the
/// request, or begins the TLS handshake. After an error the next candidate is tried.
pub(super) fn connect(stage: Connecting, inbound: &mut Inbound, context: &WorkerContext) -> Transition {
    let Connecting { pending, hop, mut far, deadline } = stage;
    // Before TCP has connected, an event may come without a peer.
    if !far.writable {
        return Transition::Wait(Stage::Connecting(Connecting { pending, hop, far, deadline }));
    }
    if let Some(error) = far.error() {
        return pending.next_candidate(&hop, refusal_of(&error));
    }
    let Some(peer) = far.peer() else {
        return Transition::Wait(Stage::Connecting(Connecting { pending, hop, far, deadline }));
    };
    match hop {
        NextHop::Destination(_) => Transition::Next(relaying::begin(*pending, hop, far, inbound, context)),
        NextHop::Relay(relay) => match &relay.tls {
            None => {
                relay.remember_address(peer);
                Transition::Next(requesting::begin(*pending, (relay, far), false, inbound, context))
            }
            Some(tls) => match rustls::ClientConnection::new(Arc::clone(tls), server_name()) {
                Ok(session) => {
                    far.secure(session.into());
                    Transition::Next(Stage::Securing(Securing { pending, relay, far, deadline }))
                }
                Err(error) => {
                    let refusal = Refusal(Verdict::Unreachable, error.to_string());
                    pending.next_candidate(&NextHop::Relay(relay), refusal)
                }
            },
        },
    }
}

/// Continues the TLS handshake with the next relay, and then sends it the request. After an error
/// the next candidate is tried.
pub(super) fn secure(stage: Securing, inbound: &mut Inbound, context: &WorkerContext) -> Transition {
    let Securing { pending, relay, mut far, deadline } = stage;
    match far.handshake() {
        Ok(true) => {
            // The listener at this address has proved to be the relay.
            if let Some(peer) = far.peer() {
                relay.remember_address(peer);
            }
            Transition::Next(requesting::begin(*pending, (relay, far), false, inbound, context))
        }
        Ok(false) => Transition::Wait(Stage::Securing(Securing { pending, relay, far, deadline })),
        Err(error) => {
            let refusal = Refusal(Verdict::Unreachable, error.to_string());
            pending.next_candidate(&NextHop::Relay(relay), refusal)
        }
    }
}
