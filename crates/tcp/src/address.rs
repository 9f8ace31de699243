//! Socket addresses in their canonical form.

use std::net::{IpAddr, SocketAddr};

/// Canonical form of a socket address: IPv4-mapped IPv6 addresses, as sockets of both families
/// have them, become IPv4.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(mapped) => SocketAddr::new(mapped.into(), address.port()),
        // It may have a scope.
        IpAddr::V6(_) => address,
    }
}
