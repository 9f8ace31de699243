//! Warm legs: connections to other relays that are open before a client needs them, so that it
//! waits for no handshake.

use std::collections::HashMap;
use std::sync::Arc;

use icdc_trust::server_name;
use icdc_units::{Span, Time};

use crate::config::{Config, NextRelay};
use crate::context::RelayContext;
use crate::leg::{Leg, Received};
use crate::poller::{Poller, Readiness, Side};
use crate::socket;

/// Pause after a relay could not be reached.
const PAUSE: Span = Span::from_secs(5);

/// The warm legs of one worker.
#[derive(Default)]
pub(crate) struct WarmLegs {
    legs: HashMap<u64, WarmLeg>,
    not_before: Time,
}

/// A leg to another relay that no client uses yet.
struct WarmLeg {
    leg: Leg,
    relay: Arc<NextRelay>,
    /// Connected, and the TLS handshake is complete.
    is_ready: bool,
}

impl WarmLegs {
    /// Takes a leg to this relay that is ready; `None` if there is none.
    pub(crate) fn take(&mut self, relay: &Arc<NextRelay>) -> Option<Leg> {
        let fits = |warm: &WarmLeg| warm.is_ready && Arc::ptr_eq(&warm.relay, relay);
        let id = self.legs.iter().find(|(_, warm)| fits(warm)).map(|(id, _)| *id)?;
        self.legs.remove(&id).map(|warm| warm.leg)
    }

    /// Handles an event of a warm leg; false if no warm leg has this id.
    pub(crate) fn on_event(&mut self, id: u64, readiness: Readiness, now: Time) -> bool {
        let Some(warm) = self.legs.get_mut(&id) else { return false };
        warm.leg.readable |= readiness.readable;
        warm.leg.writable |= readiness.writable;
        if let Err(why) = warm.advance() {
            tracing::debug!(relay = %warm.relay.place, "a warm connection was closed: {why}");
            if !warm.is_ready {
                warm.relay.forget_address();
                self.not_before = now + PAUSE;
            }
            self.legs.remove(&id);
        }
        true
    }

    /// Closes all connections that are kept ready.
    pub(crate) fn clear(&mut self) {
        self.legs.clear();
    }

    /// Opens the warm legs that a configuration wants and that are missing.
    pub(crate) fn open_missing(&mut self, config: &Config, context: &RelayContext, poller: &mut Poller, now: Time) {
        if now < self.not_before {
            return;
        }
        for relay in config.routes.relays().filter(|relay| relay.warm > 0) {
            let open = self.legs.values().filter(|warm| Arc::ptr_eq(&warm.relay, relay)).count();
            // Each worker has its own.
            let wanted = relay.warm.div_ceil(config.threads);
            for _ in open..wanted {
                if !self.open(relay, config, context, poller) {
                    self.not_before = now + PAUSE;
                    return;
                }
            }
        }
    }

    /// Begins to connect, if the relay's address is known without resolving its name; false if that
    /// has failed.
    fn open(&mut self, relay: &Arc<NextRelay>, config: &Config, context: &RelayContext, poller: &mut Poller) -> bool {
        let Some(address) = relay.address() else { return true };
        let id = poller.new_id();
        let socket = socket::connect_to_relay(address, config, &context.congestion);
        let leg = socket.and_then(Leg::new).and_then(|mut leg| {
            leg.between_relays = true;
            poller.watch(leg.socket(), id, Side::Far)?;
            Ok(leg)
        });
        match leg {
            Ok(leg) => {
                self.legs.insert(id, WarmLeg { leg, relay: Arc::clone(relay), is_ready: false });
                true
            }
            Err(error) => {
                tracing::debug!(%address, "no warm connection: {error}");
                relay.forget_address();
                false
            }
        }
    }
}

impl WarmLeg {
    /// Continues the TLS handshake, and then checks that the leg is still open and silent; the
    /// error is the reason for which it is to be closed.
    fn advance(&mut self) -> Result<(), String> {
        if let Some(error) = self.leg.error() {
            return Err(error.to_string());
        }
        if !self.is_ready && self.leg.writable {
            if self.leg.is_clear()
                && let Some(tls) = &self.relay.tls
            {
                let session = rustls::ClientConnection::new(Arc::clone(tls), server_name());
                self.leg.secure(session.map_err(|error| error.to_string())?.into());
            }
            self.is_ready = self.leg.handshake().map_err(|error| error.to_string())?;
        }
        if self.is_ready {
            // The other relay has nothing to send before the leg is used.
            return match self.leg.read(&mut [0; 1]) {
                Ok(Received::WouldBlock) => Ok(()),
                Ok(Received::End) => Err("the other relay has closed it".to_owned()),
                Ok(Received::Bytes(_)) => Err("the other relay sent unexpected data".to_owned()),
                Err(error) => Err(error.to_string()),
            };
        }
        Ok(())
    }
}
