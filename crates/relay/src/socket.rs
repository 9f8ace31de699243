//! Opens listeners and begins connections, with the options that must be set before the handshake.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use icdc_tcp::{ListenError, OptionError, canonical};
use icdc_units::ByteCount;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use thiserror::Error;

use crate::buffers::receive_before_handshake;
use crate::config::{Config, Listener, ListenerKind};
use crate::congestion::LegCongestion;

/// Unsent bytes that the send buffer of a leg between relays may hold (`TCP_NOTSENT_LOWAT`).
const NOT_SENT: ByteCount = ByteCount::from_mib(4);

/// A listener could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Binding a listener's socket or listening on it failed.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Transparent listeners need a privilege.
    #[error(
        "cannot listen transparently on {address}: {cause}; it needs CAP_NET_ADMIN: run the relay as root, or give it the capability"
    )]
    Transparent {
        /// Address of the listener.
        address: SocketAddr,
        /// Error of the kernel.
        cause: io::Error,
    },
    /// Another option could not be set.
    #[error("cannot listen on {address}: {cause}")]
    Option {
        /// Address of the listener.
        address: SocketAddr,
        /// Error of the option.
        cause: io::Error,
    },
}

/// Opens a listener, with the options that accepted sockets inherit. A socket that was `passed` to
/// this process is used if it has the address.
pub(crate) fn open(
    listener: &Listener,
    config: &Config,
    passed: &mut Vec<TcpListener>,
) -> Result<TcpListener, OpenError> {
    let address = listener.address;
    let failed = |cause| OpenError::Option { address, cause };
    let buffer = if listener.is_between_relays() { receive_before_handshake(config) } else { ByteCount::ZERO };
    let position = passed.iter().position(|socket| socket.local_addr().is_ok_and(|own| own == address));
    let socket = match position.map(|position| passed.swap_remove(position)) {
        Some(socket) => socket,
        None => icdc_tcp::listen_at(address, buffer)?,
    };
    socket.set_nonblocking(true).map_err(failed)?;
    apply(&socket, listener, config)?;
    if matches!(listener.kind, ListenerKind::Transparent) {
        // The option of IPv6 holds for the IPv4 connections of such a socket as well.
        let options = SockRef::from(&socket);
        let set =
            if address.is_ipv6() { options.set_ip_transparent_v6(true) } else { options.set_ip_transparent_v4(true) };
        set.map_err(|cause| OpenError::Transparent { address, cause })?;
    }
    Ok(socket)
}

/// Applies a configuration to connections that are accepted from now on. A buffer of a configured
/// size keeps it until it gets another one.
///
/// # Errors
/// See [`OpenError`].
pub(crate) fn apply(socket: &TcpListener, listener: &Listener, config: &Config) -> Result<(), OpenError> {
    if !listener.is_between_relays() {
        return Ok(());
    }
    let applied = || -> Result<(), OptionError> {
        if let Some(name) = &config.leg.congestion
            && let Err(error) = icdc_tcp::set_congestion(socket, name)
        {
            tracing::warn!("legs from other relays keep the system's congestion control: {error}");
        }
        prepare(socket, config)
    };
    applied().map_err(|error| OpenError::Option { address: listener.address, cause: error.into() })
}

/// Begins to connect to another relay.
///
/// # Errors
/// The kernel refuses a system call.
pub(crate) fn connect_to_relay(
    address: SocketAddr,
    config: &Config,
    congestion: &LegCongestion,
) -> io::Result<TcpStream> {
    let socket = new(address)?;
    if let Some(name) = &config.leg.congestion {
        congestion.set_on(&socket, name);
    }
    prepare(&socket, config)?;
    begin(socket, address)
}

/// Begins to connect to a destination, from the address `source` if it is given.
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

/// New TCP socket of the address's family that does not block.
fn new(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Begins to connect, and does not wait for the connection.
fn begin(socket: Socket, address: SocketAddr) -> io::Result<TcpStream> {
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Options of both ends of a leg between relays.
fn prepare(socket: &impl std::os::fd::AsFd, config: &Config) -> Result<(), OptionError> {
    icdc_tcp::set_buffers(socket, config.leg.buffer.unwrap_or(ByteCount::ZERO), receive_before_handshake(config))?;
    // Also removes what an earlier configuration has set.
    icdc_tcp::set_pacing_rate(socket, config.leg.pacing)?;
    icdc_tcp::set_not_sent_limit(socket, NOT_SENT)
}
