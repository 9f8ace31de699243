//! Sockets before they are connected: what has to be set by then.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;

use icdc_tcp::{Family, ListenError, OptionError};
use icdc_units::{ByteCount, Rate};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use thiserror::Error;

use crate::config::{Config, Listener, ListenerKind};
use crate::house::House;
use crate::leg::canonical;
use crate::rooms;

/// What may wait on a leg between relays to be sent for the first time.
const NOT_SENT: ByteCount = ByteCount::from_mib(4);

/// A listener cannot be had.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No socket listens.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Transparency is a privilege.
    #[error(
        "cannot listen transparently on {address}: {cause}; it needs CAP_NET_ADMIN: run the relay as root, or give it the capability"
    )]
    Transparent {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Another option could not be set.
    #[error("cannot listen on {address}: {cause}")]
    Option {
        /// Where.
        address: SocketAddr,
        /// What failed.
        cause: io::Error,
    },
}

/// Listens, with everything in place that accepted sockets inherit; on one of the sockets that were `passed` to this process if it has that address.
pub(crate) fn open(
    listener: &Listener,
    config: &Config,
    passed: &mut Vec<TcpListener>,
) -> Result<TcpListener, OpenError> {
    let address = listener.address;
    let failed = |cause| OpenError::Option { address, cause };
    let buffer = if listener.is_between_relays() { receive_buffer(config) } else { ByteCount::ZERO };
    // Without an address, a host that has no IPv6 falls back to IPv4.
    let host = Some(address.ip()).filter(|ip| *ip != IpAddr::from(Ipv6Addr::UNSPECIFIED));
    let there = passed.iter().position(|socket| socket.local_addr().is_ok_and(|own| own == address));
    let socket = match there.map(|place| passed.swap_remove(place)) {
        Some(socket) => socket,
        None => icdc_tcp::listen(host, (address.port(), address.port()), Family::Any, buffer)?,
    };
    socket.set_nonblocking(true).map_err(failed)?;
    settle(&socket, listener, config)?;
    if matches!(listener.kind, ListenerKind::Transparent) {
        // The option of IPv6 holds for the IPv4 connections of such a socket as well.
        let options = SockRef::from(&socket);
        let set =
            if address.is_ipv6() { options.set_ip_transparent_v6(true) } else { options.set_ip_transparent_v4(true) };
        set.map_err(|cause| OpenError::Transparent { address, cause })?;
    }
    Ok(socket)
}

/// Puts a configuration in force for those who are accepted from now on. A buffer of a fixed size stays until it gets another one.
pub(crate) fn settle(socket: &TcpListener, listener: &Listener, config: &Config) -> Result<(), OpenError> {
    if !listener.is_between_relays() {
        return Ok(());
    }
    let settled = || -> Result<(), OptionError> {
        if let Some(name) = &config.leg.congestion
            && let Err(error) = icdc_tcp::set_congestion(socket, name)
        {
            tracing::warn!("legs from other relays keep the system's congestion control: {error}");
        }
        prepare(socket, config)
    };
    settled().map_err(|error| OpenError::Option { address: listener.address, cause: error.into() })
}

/// Begins to connect to another relay.
pub(crate) fn connect_to_relay(address: SocketAddr, config: &Config, house: &House) -> io::Result<TcpStream> {
    let socket = new(address)?;
    if let Some(name) = &config.leg.congestion {
        house.congestion.take(&socket, name);
    }
    prepare(&socket, config)?;
    begin(socket, address)
}

/// Begins to connect to a destination; `source` is the address that it shall see.
pub(crate) fn connect_to_destination(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<TcpStream> {
    let socket = new(address)?;
    if let Some(source) = source.map(canonical).filter(|source| source.is_ipv4() == address.is_ipv4()) {
        match address.is_ipv4() {
            true => socket.set_ip_transparent_v4(true)?,
            false => socket.set_ip_transparent_v6(true)?,
        }
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::new(source.ip(), 0).into())?;
    }
    begin(socket, address)
}

fn new(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn begin(socket: Socket, address: SocketAddr) -> io::Result<TcpStream> {
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// What both ends of a leg between relays have.
fn prepare(socket: &impl std::os::fd::AsFd, config: &Config) -> Result<(), OptionError> {
    icdc_tcp::set_buffers(socket, config.leg.buffer.unwrap_or(ByteCount::ZERO), receive_buffer(config))?;
    // Also takes away what an earlier configuration has set.
    icdc_tcp::set_pacing_rate(socket, config.leg.pacing.unwrap_or(Rate::MAX))?;
    icdc_tcp::set_not_sent_limit(socket, NOT_SENT)
}

/// It has to be there before the handshake, which agrees on the window's scale; how much of it a leg may fill is settled later.
/// Zero leaves it to the kernel.
fn receive_buffer(config: &Config) -> ByteCount {
    config.leg.buffer.or(rooms::largest(config)).unwrap_or(ByteCount::ZERO)
}

/// Whether buffers may be larger than the system's limits for everybody.
pub(crate) fn may_have_large_buffers() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(icdc_tcp::may_exceed_buffer_limits)
}
