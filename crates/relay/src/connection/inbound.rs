//! The client's side of a connection: what it has in every stage.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use icdc_protocol::relay::peer::{RelayId, Verdict};
use icdc_protocol::relay::socks5;
use icdc_units::Time;

use super::next_hop::Policy;
use crate::buffers;
use crate::clients::Slot;
use crate::config::{Config, Listener, ListenerKind};
use crate::leg::Leg;
use crate::mailbox::Accepted;
use crate::worker_context::WorkerContext;

/// The client, the leg to it, and the configuration that was in force when it came.
pub(super) struct Inbound {
    pub(super) id: u64,
    pub(super) listener: Arc<Listener>,
    pub(super) config: Arc<Config>,
    pub(super) slot: Slot,
    /// The client, as far as this relay knows: a relay that came before may name it.
    pub(super) client: SocketAddr,
    pub(super) near: Leg,
    pub(super) began: Time,
}

impl Inbound {
    /// Takes over an accepted connection; prepares TLS where its listener has it.
    pub(super) fn new(id: u64, accepted: Accepted, now: Time) -> io::Result<Self> {
        let Accepted { socket, client, listener, config, slot } = accepted;
        let mut near = Leg::new(socket)?;
        if let ListenerKind::Peer(tls) = &listener.kind {
            near.between_relays = true;
            if let Some(tls) = tls {
                if buffers::largest_receive(&config).is_some() {
                    near.restrict_receive_buffer();
                }
                let session = rustls::ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
                near.secure(session.into());
            }
        }
        Ok(Self { id, listener, config, slot, client, near, began: now })
    }

    /// Rules and routes that apply to this client.
    pub(super) fn policy(&self, own: RelayId) -> Policy<'_> {
        Policy { own, rules: &self.config.rules, routes: &self.config.routes, listener: &self.listener.kind }
    }

    /// Bytes of the reply to the client's request; `None` where its listener's protocol has none.
    /// `bound` is this relay's address towards the destination.
    pub(super) fn reply(&self, verdict: Verdict, bound: Option<SocketAddr>) -> Option<Vec<u8>> {
        match &self.listener.kind {
            ListenerKind::Socks5(_) => Some(socks5::reply(verdict, bound)),
            ListenerKind::Peer(_) => Some(verdict.encode().to_vec()),
            ListenerKind::Forward(_) | ListenerKind::Transparent => None,
        }
    }

    /// Prepares both legs for data: those between relays reserve receive buffers and start from
    /// known paths.
    pub(super) fn prepare_legs(&mut self, far: &mut Leg, context: &WorkerContext) {
        let largest = buffers::largest_receive(&self.config);
        for leg in [&mut self.near, far].into_iter().filter(|leg| leg.between_relays) {
            leg.reserve_receive_buffer(&context.relay.receive_budget, largest);
            context.relay.paths.resume(leg.socket(), context.now);
        }
    }
}
