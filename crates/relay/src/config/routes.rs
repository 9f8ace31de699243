//! Which way a destination is reached: the longest prefix that contains it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_control::Prefix;
use icdc_protocol::relay::Destination;
use icdc_units::{ByteCount, Rate};

/// Where a connection goes next.
#[derive(Clone, Debug)]
pub enum Hop {
    /// To the destination itself.
    Direct,
    /// To another relay.
    Relay(Arc<NextRelay>),
}

/// Another relay's `peer` listener.
#[derive(Debug)]
pub struct NextRelay {
    /// Where it listens.
    pub place: Destination,
    /// TLS, where the leg has it.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Connections that are kept open for the next clients.
    pub warm: usize,
    /// Where it was last reached, if its place is a name.
    known: Mutex<Option<SocketAddr>>,
}

impl NextRelay {
    /// A relay that listens at `place`.
    #[must_use]
    pub fn new(place: Destination, tls: Option<Arc<rustls::ClientConfig>>, warm: usize) -> Self {
        Self { place, tls, warm, known: Mutex::default() }
    }

    /// It has been reached there, and has proved who it is where it must.
    pub(crate) fn found_at(&self, address: SocketAddr) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }

    /// It was not reached where it was last: its name may lead elsewhere by now.
    pub(crate) fn lost(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Its address, as far as it is known without resolving a name.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.place.address().or_else(|| *self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The ways to one prefix: the next is tried where one cannot be had.
#[derive(Clone, Debug)]
pub struct Route {
    /// The destinations; `None` for all.
    pub to: Option<Prefix>,
    /// The ways, best first.
    pub via: Vec<Hop>,
}

/// All routes.
#[derive(Clone, Debug, Default)]
pub struct Routes(pub Vec<Route>);

impl Routes {
    /// The ways to an address; directly where no route has it.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Vec<Hop> {
        let fits = self.0.iter().filter(|route| route.to.is_none_or(|prefix| prefix.contains(address)));
        // Of several of one length the last counts, as a later option of a command line does.
        let best = fits.max_by_key(|route| route.to.map_or(-1, |prefix| i16::from(prefix.length())));
        best.map_or_else(|| vec![Hop::Direct], |route| route.via.clone())
    }

    /// The ways for a name that need not be resolved here: all destinations have the same, and it begins with a relay.
    #[must_use]
    pub fn for_names(&self) -> Option<Vec<Hop>> {
        match self.0.as_slice() {
            [Route { to: None, via }] if matches!(via.first(), Some(Hop::Relay(_))) => Some(via.clone()),
            _ => None,
        }
    }

    /// Every relay that a route names.
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

/// How the legs between relays are.
#[derive(Clone, Debug, Default)]
pub struct LegSettings {
    /// Kernel's name of the congestion control; `None` leaves it to the system.
    pub congestion: Option<String>,
    /// Ceiling of each connection's rate.
    pub pacing: Option<Rate>,
    /// Buffers of a fixed size in place of growing ones.
    pub buffer: Option<ByteCount>,
}
