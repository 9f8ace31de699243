//! Settings of a socket before its handshake.

use std::net::SocketAddr;

use icdc_units::ByteCount;

use crate::Family;
use crate::egress::Egress;

/// Settings of a TCP socket that have to be made before its handshake, for connecting.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketSettings<'a> {
    /// Size of the receive buffer, so that the window scale fits it: for a connection that will
    /// receive across a long fat network. [`ByteCount::ZERO`] leaves the buffer to the kernel.
    pub receive_buffer: ByteCount,
    /// Kernel name of the congestion control; `None` for the system's default. Chosen later, it
    /// would inherit the pacing that BBR, where that is the default, has begun.
    pub congestion: Option<&'a str>,
    /// Device or address by which the connection leaves this host; `None` leaves it to the routing
    /// table.
    pub egress: Option<&'a Egress>,
}

impl SocketSettings<'_> {
    /// Address family of the connections that can be made with these settings.
    pub(crate) fn family(&self) -> Family {
        self.egress.map_or(Family::Any, Egress::family)
    }

    /// Whether `family`, and that of the egress, admit the address.
    #[must_use]
    pub fn admits(&self, family: Family, address: &SocketAddr) -> bool {
        family.admits(address.ip()) && self.family().admits(address.ip())
    }
}
