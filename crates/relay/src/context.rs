//! State that all threads of a relay share.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use icdc_protocol::relay::peer::RelayId;
use icdc_units::Time;

use crate::address::is_local;
use crate::clients::Clients;
use crate::congestion::LegCongestion;
use crate::counters::Counters;
use crate::known_paths::PathCache;
use crate::receive_budget::ReceiveBudget;
use crate::resolver::Resolver;

/// State of a relay that the acceptor, the workers and the administrative listeners share.
pub(crate) struct RelayContext {
    pub(crate) id: RelayId,
    pub(crate) started: Time,
    pub(crate) clients: Arc<Clients>,
    pub(crate) resolver: Resolver,
    pub(crate) counters: Counters,
    /// Congestion control of legs to other relays.
    pub(crate) congestion: LegCongestion,
    /// Measurements of the paths to other relays, from their legs.
    pub(crate) paths: PathCache,
    /// Memory for data that waits unread at the legs to other relays.
    pub(crate) receive_budget: Arc<ReceiveBudget>,
    /// Addresses of this relay's listeners.
    addresses: Mutex<Vec<SocketAddr>>,
}

impl RelayContext {
    /// Context of a relay with this number of workers.
    pub(crate) fn new(id: RelayId, started: Time, resolver: Resolver, workers: usize) -> Self {
        Self {
            id,
            started,
            clients: Arc::default(),
            resolver,
            counters: Counters::new(workers),
            congestion: LegCongestion::default(),
            paths: PathCache::default(),
            receive_budget: Arc::default(),
            addresses: Mutex::default(),
        }
    }

    /// Sets the addresses at which the relay listens.
    pub(crate) fn set_addresses(&self, addresses: Vec<SocketAddr>) {
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Whether a connection to this address would come back to one of this relay's own listeners.
    pub(crate) fn is_own(&self, address: SocketAddr) -> bool {
        let own = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut same_port = own.iter().filter(|own| own.port() == address.port());
        same_port.any(|own| own.ip().to_canonical() == address.ip() || (own.ip().is_unspecified() && is_local(address)))
    }
}
