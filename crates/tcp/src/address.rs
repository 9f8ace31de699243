//! Socket addresses in their canonical form.

use std::net::SocketAddr;

/// Canonical form of a socket address: IPv4-mapped IPv6 addresses, as sockets of both families
/// have them, become IPv4.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
