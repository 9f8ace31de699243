//! Routes: the next hops of a destination, by the longest prefix that contains it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_protocol::relay::Destination;
use icdc_units::{ByteCount, Prefix, Rate};

/// Next hop of a connection.
#[derive(Clone, Debug)]
pub enum Hop {
    /// A connection to the destination itself.
    Direct,
    /// A connection to another relay, which leads on.
    Relay(Arc<NextRelay>),
}

/// Another relay as the next hop of routes: the address of its `peer` listener, and how legs to it
/// are opened.
#[derive(Debug)]
pub struct NextRelay {
    /// Address of the next relay's listener.
    pub place: Destination,
    /// TLS settings of the leg; `None` for a leg in clear.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Connections that are kept open for the next clients.
    pub warm: usize,
    /// Address at which the relay was last reached.
    last_address: Mutex<Option<SocketAddr>>,
}

impl NextRelay {
    /// A relay that listens at `place`.
    #[must_use]
    pub fn new(place: Destination, tls: Option<Arc<rustls::ClientConfig>>, warm: usize) -> Self {
        Self { place, tls, warm, last_address: Mutex::default() }
    }

    /// Remembers the address at which the relay was reached, and has authenticated where it has
    /// TLS.
    pub(crate) fn remember_address(&self, address: SocketAddr) {
        *self.last_address.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }

    /// Forgets the last address after a failed connection: the name may have another one by now.
    pub(crate) fn forget_address(&self) {
        *self.last_address.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The next relay's address; `None` if a name has to be resolved for it.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.place.address().or_else(|| *self.last_address.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The next hops for one prefix: when one fails, the next is tried.
#[derive(Clone, Debug)]
pub struct Route {
    /// Destinations that the route is for; `None` for all.
    pub to: Option<Prefix>,
    /// The route's next hops, best first.
    pub via: Vec<Hop>,
}

/// All routes of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Routes(pub Vec<Route>);

impl Routes {
    /// The next hops for an address, by the longest prefix that contains it, or the last one of
    /// several as long; direct where no route contains it.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Vec<Hop> {
        let matching = self.0.iter().filter(|route| route.to.is_none_or(|prefix| prefix.contains(address)));
        // Of several prefixes of one length the last counts, as a later option of a command line
        // does.
        let best = matching.max_by_key(|route| route.to.map_or(-1, |prefix| i16::from(prefix.length())));
        best.map_or_else(|| vec![Hop::Direct], |route| route.via.clone())
    }

    /// The next hops for a name that need not be resolved here, because all destinations have the
    /// same route, which begins with a relay; `None` otherwise.
    #[must_use]
    pub fn for_names(&self) -> Option<Vec<Hop>> {
        match self.0.as_slice() {
            [Route { to: None, via }] if matches!(via.first(), Some(Hop::Relay(_))) => Some(via.clone()),
            _ => None,
        }
    }

    /// Every relay that is a next hop of some route.
    pub fn relays(&self) -> impl Iterator<Item = &Arc<NextRelay>> {
        self.0.iter().flat_map(|route| &route.via).filter_map(|hop| match hop {
            Hop::Relay(relay) => Some(relay),
            Hop::Direct => None,
        })
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => out.write_str("direct"),
            Self::Relay(relay) => relay.place.fmt(out),
        }
    }
}

/// Settings of legs between relays.
#[derive(Clone, Debug, Default)]
pub struct LegSettings {
    /// The kernel's name of the congestion control. `None` in a plan means `auto`; in a running
    /// relay, the system's default, since there are no legs between relays or icdc's algorithm
    /// cannot be used.
    pub congestion: Option<String>,
    /// Ceiling of the rate of each connection; `None` for no ceiling.
    pub pacing: Option<Rate>,
    /// Fixed size of the buffers; `None` for growing ones.
    pub buffer: Option<ByteCount>,
}
