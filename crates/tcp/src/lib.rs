//! Linux TCP for people: connect and listen, socket options with typed quantities, and the
//! kernel's measurements of a connection.
//!
//! | module | purpose |
//! |---|---|
//! | [`connect()`](connect()) | connects to a host name: addresses are raced, one deadline |
//! | [`listen()`](listen()) | listens on a port range, dual stack, receive buffer set before the first SYN |
//! | [`Egress`] | device or source address by which a connection leaves this host |
//! | [`passed_listeners`] | listeners that a service manager has opened |
//! | [`canonical`] | IPv4 addresses as such, whichever family a socket has |
//! | options | pacing rate, buffers, shutdown |
//! | [`info`] | `TCP_INFO` as a typed snapshot |
//! | [`Privileges`] | with which privileges sockets are tuned: this process's, or those of a helper process |
//! | [`mod@congestion`] | the congestion control of a socket; icdc's own, loaded into the kernel as eBPF |
//!
//! Options take anything with a descriptor (`&TcpStream`, `&OwnedFd`). Below are `icdc-units`,
//! `icdc-cc` and `icdc-rate`; above, `icdc-link` builds its links on it. Only `kernel.rs` has
//! unsafe code.
//!
//! ```
//! use icdc_tcp::Family;
//! use icdc_units::{ByteCount, Rate, Span};
//!
//! let listener = icdc_tcp::listen(None, None, Family::V4, ByteCount::ZERO)?;
//! let port = listener.local_addr()?.port();
//! let stream = icdc_tcp::connect("127.0.0.1", port, Family::Any, Span::from_secs(5))?;
//! icdc_tcp::set_pacing_rate(&stream, Some(Rate::from_bits_per_second(900_000_000)))?;
//! println!("round-trip time {}", icdc_tcp::info(&stream)?.rtt);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
pub mod clock;
pub mod congestion;
mod connect;
mod descriptors;
mod egress;
mod info;
mod kernel;
mod listen;
mod options;
mod passed;
mod patience;
mod privileges;
mod race;
mod socket_settings;

pub use address::canonical;
pub use congestion::socket_option::{
    CongestionError, allowed_congestion, available_congestion, congestion, set_congestion,
};
pub use connect::{ConnectError, connect, connect_any, connect_near, connect_with, resolve};
pub use descriptors::raise_descriptor_limit;
pub use egress::{DeviceName, Egress, EgressError, EgressSyntaxError, Egresses};
pub use info::{ConnectionState, TcpInfo, info};
pub use listen::{ListenError, listen, listen_at};
pub use options::{
    Buffers, OptionError, may_exceed_buffer_limits, namespace_cookie, pacing_rate, receive_memory, send_queue,
    set_buffers, set_not_sent_limit, set_pacing_rate, set_receive_room, shutdown,
};
pub use passed::passed_listeners;
pub use patience::Patience;
pub use privileges::{PrivilegedHelper, Privileges};
pub use socket_settings::SocketSettings;

/// IP version that connections or listeners are restricted to (`-4`, `-6`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Family {
    /// Either version: whatever the name and the host have.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    /// Family that both allow; `None` if they exclude each other.
    #[must_use]
    pub fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, family) | (family, Self::Any) => Some(family),
            (family, other) => (family == other).then_some(family),
        }
    }

    /// Whether an address of this kind may be used.
    pub fn admits(self, address: std::net::IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Any => "IP",
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
