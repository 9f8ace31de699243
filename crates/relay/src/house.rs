//! What all threads of a relay share.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_protocol::relay::peer::RelayId;
use icdc_units::Time;

use crate::clients::Clients;
use crate::congestion::LegCongestion;
use crate::known_paths::Paths;
use crate::resolver::Resolver;
use crate::rooms::Pool;

/// Shared by all threads.
pub(crate) struct House {
    pub(crate) id: RelayId,
    pub(crate) started: Time,
    pub(crate) clients: Arc<Clients>,
    pub(crate) resolver: Resolver,
    pub(crate) counters: Counters,
    /// What legs to other relays use, and what they have found.
    pub(crate) congestion: LegCongestion,
    pub(crate) paths: Paths,
    /// For what waits unread at legs between relays.
    pub(crate) rooms: Arc<Pool>,
    /// Where this relay listens now.
    addresses: Mutex<Vec<SocketAddr>>,
}

/// Counts since the start, and two levels.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) not_reached: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) bytes_up: AtomicU64,
    pub(crate) bytes_down: AtomicU64,
    pub(crate) nanos_for_near: AtomicU64,
    pub(crate) nanos_for_far: AtomicU64,
    /// Bytes that wait in the relay, as each thread last saw its own.
    pub(crate) held: Vec<AtomicU64>,
    /// Connections with bytes that wait, likewise.
    pub(crate) holders: Vec<AtomicU64>,
}

impl Counters {
    pub(crate) fn new(threads: usize) -> Self {
        let levels = || std::iter::repeat_with(AtomicU64::default).take(threads).collect();
        Self { held: levels(), holders: levels(), ..Self::default() }
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.iter().map(|level| level.load(Relaxed)).sum()
    }

    pub(crate) fn holders(&self) -> u64 {
        self.holders.iter().map(|level| level.load(Relaxed)).sum()
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl House {
    pub(crate) fn new(id: RelayId, started: Time, resolver: Resolver, threads: usize) -> Self {
        let counters = Counters::new(threads);
        Self {
            id,
            started,
            clients: Arc::default(),
            resolver,
            counters,
            congestion: LegCongestion::default(),
            paths: Paths::default(),
            rooms: Arc::default(),
            addresses: Mutex::default(),
        }
    }

    pub(crate) fn listens_on(&self, addresses: Vec<SocketAddr>) {
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Whether a connection to this address would come back to one of this relay's own listeners.
    pub(crate) fn is_own(&self, address: SocketAddr) -> bool {
        let own = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut here = own.iter().filter(|own| own.port() == address.port());
        here.any(|own| own.ip().to_canonical() == address.ip() || (own.ip().is_unspecified() && is_local(address)))
    }
}

/// Whether an address is one of this host's: packets to it would come from it. None is sent.
fn is_local(address: SocketAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address.ip())
}
