//! Connections to other relays that are open before a client needs them: it then waits for no handshake.

use std::collections::HashMap;
use std::sync::Arc;

use icdc_trust::server_name;
use icdc_units::{Span, Time};

use super::Worker;
use crate::config::NextRelay;
use crate::leg::{Arrived, Leg};
use crate::socket;
use crate::tools::Side;

/// How long a relay that could not be reached is left alone.
const PAUSE: Span = Span::from_secs(5);

/// The warm legs of one thread.
#[derive(Default)]
pub(crate) struct WarmLegs {
    legs: HashMap<u64, WarmLeg>,
    not_before: Time,
}

struct WarmLeg {
    leg: Leg,
    relay: Arc<NextRelay>,
    /// Connected, and TLS is through.
    is_ready: bool,
}

impl WarmLegs {
    /// A leg to this relay that is ready.
    pub(crate) fn take(&mut self, relay: &Arc<NextRelay>) -> Option<Leg> {
        let fits = |warm: &WarmLeg| warm.is_ready && Arc::ptr_eq(&warm.relay, relay);
        let id = self.legs.iter().find(|(_, warm)| fits(warm)).map(|(id, _)| *id)?;
        self.legs.remove(&id).map(|warm| warm.leg)
    }

    /// An event about one of them; false if it is about something else.
    pub(crate) fn happened(&mut self, id: u64, readable: bool, writable: bool, now: Time) -> bool {
        let Some(warm) = self.legs.get_mut(&id) else { return false };
        warm.leg.readable |= readable;
        warm.leg.writable |= writable;
        if let Err(why) = warm.go_on() {
            tracing::debug!(relay = %warm.relay.place, "a warm connection is gone: {why}");
            if !warm.is_ready {
                warm.relay.lost();
                self.not_before = now + PAUSE;
            }
            self.legs.remove(&id);
        }
        true
    }

    pub(crate) fn clear(&mut self) {
        self.legs.clear();
    }
}

impl WarmLeg {
    fn go_on(&mut self) -> Result<(), String> {
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
            self.is_ready = self.leg.shake_hands().map_err(|error| error.to_string())?;
        }
        if self.is_ready {
            // Nothing is to come before it is used.
            return match self.leg.read(&mut [0; 1]) {
                Ok(Arrived::Later) => Ok(()),
                Ok(Arrived::End) => Err("the other relay has closed it".to_owned()),
                Ok(Arrived::Bytes(_)) => Err("the other relay speaks unasked".to_owned()),
                Err(error) => Err(error.to_string()),
            };
        }
        Ok(())
    }
}

impl Worker {
    /// Opens what is missing.
    pub(super) fn keep_warm(&mut self) {
        let relays: Vec<Arc<NextRelay>> = self.config.routes.relays().filter(|relay| relay.warm > 0).cloned().collect();
        if self.tools.now < self.tools.warm.not_before {
            return;
        }
        for relay in relays {
            let Some(address) = relay.address() else { continue };
            let there = self.tools.warm.legs.values().filter(|warm| Arc::ptr_eq(&warm.relay, &relay)).count();
            // Each thread has its own.
            let wanted = relay.warm.div_ceil(self.config.threads);
            for _ in there..wanted {
                let id = self.new_id();
                let begun = socket::connect_to_relay(address, &self.config, &self.tools.house);
                let begun = begun.and_then(Leg::new).and_then(|leg| {
                    self.tools.watch(&leg, id, Side::Far)?;
                    Ok(leg)
                });
                match begun {
                    Ok(mut leg) => {
                        leg.between_relays = true;
                        let warm = WarmLeg { leg, relay: Arc::clone(&relay), is_ready: false };
                        self.tools.warm.legs.insert(id, warm);
                    }
                    Err(error) => {
                        tracing::debug!(%address, "no warm connection: {error}");
                        relay.lost();
                        self.tools.warm.not_before = self.tools.now + PAUSE;
                        return;
                    }
                }
            }
        }
    }
}
