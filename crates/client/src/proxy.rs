//! A program between this host and a far end that passes connections on: a SOCKS 5 proxy, or a
//! relay.

use std::fmt;

use icdc_protocol::relay::Destination;
pub use icdc_protocol::relay::socks5::Login;
use icdc_transfer::Via as Route;

/// A proxy through which this end connects to a far end: SOCKS 5, or a relay of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Protocol of the proxy.
    pub kind: ProxyKind,
    /// Host and port where the proxy listens.
    pub place: Destination,
}

/// Protocol of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// SOCKS 5 (RFC 1928), with user and password if the proxy requires them.
    Socks5(Option<Login>),
    /// Header of relays (`icdc relay --peer`), without TLS.
    Relay,
}

impl Proxy {
    /// Kind of route that data takes through this proxy: by SOCKS 5, or by a relay.
    pub(crate) fn route(&self) -> Route {
        match self.kind {
            ProxyKind::Socks5(_) => Route::Socks5,
            ProxyKind::Relay => Route::Relay,
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ProxyKind::Socks5(_) => write!(out, "the SOCKS proxy {}", self.place),
            ProxyKind::Relay => write!(out, "the relay {}", self.place),
        }
    }
}
