//! A listening socket on a port of a range.

use std::io;
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;

use icdc_units::ByteCount;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;

use crate::Family;
use crate::options::set_buffers;

/// Reason why no socket could be made to listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// All ports of the range are in use.
    #[error("{} of {address} in use; name {} with --port or --listen, or see who holds them with `ss -ltnp`", ports_are(.low, .high), other_ports(.low, .high))]
    PortsInUse {
        /// Address to listen at.
        address: IpAddr,
        /// First port of the range.
        low: u16,
        /// Last port of the range.
        high: u16,
    },
    /// The range of ports is empty: it ends before it begins.
    #[error("the port range {low}-{high} is empty: write the lower port first")]
    EmptyRange {
        /// First port of the range.
        low: u16,
        /// Last port of the range.
        high: u16,
    },
    /// This user may not listen on a low port, which needs a privilege.
    #[error("may not listen on {address}: {cause}; choose a port from 1024 up, or grant CAP_NET_BIND_SERVICE")]
    NotAllowed {
        /// Address and port to listen at.
        address: SocketAddr,
        /// Error that the kernel returned.
        cause: io::Error,
    },
    /// The address is not one of this host's.
    #[error("cannot listen on {address}: it is not an address of this host (see `ip address`)")]
    NotLocal {
        /// Address and port to listen at.
        address: SocketAddr,
    },
    /// The address is not of the requested family.
    #[error("cannot listen on {address} with {family} only: leave -4 or -6 out, or give an {family} address")]
    OtherFamily {
        /// Address to listen at.
        address: IpAddr,
        /// Requested family.
        family: Family,
    },
    /// Another system call failed.
    #[error("cannot listen on {address}: {cause}")]
    Socket {
        /// Address and port to listen at.
        address: SocketAddr,
        /// Name of the system call.
        call: &'static str,
        /// Error that the kernel returned.
        cause: io::Error,
    },
}

/// Subject of the message about ports in use.
fn ports_are(low: &u16, high: &u16) -> String {
    match (low, high) {
        (0, _) => "all ephemeral ports".to_owned(),
        (low, high) if low == high => format!("port {low}"),
        (low, high) => format!("all ports from {low} to {high}"),
    }
}

/// Advice in the message about ports in use.
fn other_ports(low: &u16, high: &u16) -> &'static str {
    if low == high { "another port" } else { "a wider range" }
}

/// Maximum number of connections that wait to be accepted (the kernel limits it to
/// `net.core.somaxconn`).
const BACKLOG: i32 = 1024;
/// Maximum number of attempts with a port that the kernel picks: between its choice and `listen`
/// another socket may take it.
const EPHEMERAL_TRIES: usize = 16;

/// Listens on the first free port of `ports`; `None` lets the kernel choose the port.
///
/// Without an `address`, or with `::`, and with [`Family::Any`], both families are served: IPv4
/// peers appear as `::ffff:a.b.c.d`. A host without IPv6 serves IPv4 only. A `receive_buffer` other
/// than zero is set before listening, so that it holds for the window scale of every connection;
/// with [`ByteCount::ZERO`] the kernel tunes each by itself. Accepted sockets inherit it.
pub fn listen(
    address: Option<IpAddr>,
    ports: Option<RangeInclusive<u16>>,
    family: Family,
    receive_buffer: ByteCount,
) -> Result<TcpListener, ListenError> {
    if let Some(range) = ports.as_ref().filter(|range| range.is_empty()) {
        return Err(ListenError::EmptyRange { low: *range.start(), high: *range.end() });
    }
    let (host, fallback) = match address {
        Some(address) if !family.admits(address) => {
            return Err(ListenError::OtherFamily { address, family });
        }
        Some(address) => (address, None),
        None if family == Family::V4 => (Ipv4Addr::UNSPECIFIED.into(), None),
        None if family == Family::V6 => (Ipv6Addr::UNSPECIFIED.into(), None),
        None => (Ipv6Addr::UNSPECIFIED.into(), Some(IpAddr::from(Ipv4Addr::UNSPECIFIED))),
    };
    let dual = family == Family::Any && host == IpAddr::from(Ipv6Addr::UNSPECIFIED);
    match (listen_in_range(host, ports.clone(), dual, receive_buffer), fallback) {
        (Err(error), Some(fallback)) if error.is_missing_family() => {
            listen_in_range(fallback, ports, false, receive_buffer)
        }
        (outcome, _) => outcome,
    }
}

/// Listens as [`listen`] on an address that a user has named; port 0 lets the kernel choose. The
/// unspecified address of IPv6 is treated as no address: a host without IPv6 falls back to IPv4.
///
/// # Errors
/// See [`ListenError`].
pub fn listen_at(address: SocketAddr, receive_buffer: ByteCount) -> Result<TcpListener, ListenError> {
    let host = Some(address.ip()).filter(|ip| *ip != IpAddr::from(Ipv6Addr::UNSPECIFIED));
    let port = Some(address.port()).filter(|port| *port != 0).map(|port| port..=port);
    listen(host, port, Family::Any, receive_buffer)
}

/// Listens at one address on the first free port of `ports`, or on one of the kernel's choice;
/// `dual`: an IPv6 socket takes IPv4 as well.
fn listen_in_range(
    host: IpAddr,
    ports: Option<RangeInclusive<u16>>,
    dual: bool,
    receive_buffer: ByteCount,
) -> Result<TcpListener, ListenError> {
    let (low, high) = ports.as_ref().map_or((0, 0), |range| (*range.start(), *range.end()));
    let candidates: Box<dyn Iterator<Item = u16>> = match ports {
        Some(range) => Box::new(range),
        None => Box::new(iter::repeat_n(0, EPHEMERAL_TRIES)),
    };
    for port in candidates {
        match listen_on(SocketAddr::new(host, port), dual, receive_buffer) {
            Err(ListenError::Socket { cause, .. }) if cause.kind() == io::ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
    Err(ListenError::PortsInUse { address: host, low, high })
}

/// Listens at one address and port; `dual`: an IPv6 socket takes IPv4 as well.
fn listen_on(address: SocketAddr, dual: bool, receive_buffer: ByteCount) -> Result<TcpListener, ListenError> {
    let failed = |call| {
        move |cause: io::Error| match cause.kind() {
            io::ErrorKind::PermissionDenied => ListenError::NotAllowed { address, cause },
            io::ErrorKind::AddrNotAvailable => ListenError::NotLocal { address },
            _ => ListenError::Socket { address, call, cause },
        }
    };
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(failed("socket"))?;
    // A port whose old connections are in TIME_WAIT is free for a new listener.
    socket.set_reuse_address(true).map_err(failed("setsockopt(SO_REUSEADDR)"))?;
    if address.is_ipv6() {
        socket.set_only_v6(!dual).map_err(failed("setsockopt(IPV6_V6ONLY)"))?;
    }
    if !receive_buffer.is_zero() {
        set_buffers(&socket, ByteCount::ZERO, receive_buffer).map_err(|error| ListenError::Socket {
            address,
            call: error.call,
            cause: error.cause,
        })?;
    }
    socket.bind(&address.into()).map_err(failed("bind"))?;
    socket.listen(BACKLOG).map_err(failed("listen"))?;
    Ok(socket.into())
}

impl ListenError {
    /// Whether the error means that this host has no IPv6, or has it switched off.
    fn is_missing_family(&self) -> bool {
        match self {
            Self::NotLocal { .. } => true,
            Self::Socket { cause, .. } => cause.raw_os_error() == Some(libc::EAFNOSUPPORT),
            _ => false,
        }
    }
}
