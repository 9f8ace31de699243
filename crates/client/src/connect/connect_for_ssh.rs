//! A connection that this program makes for ssh, which takes the socket for its own (`ProxyUseFdpass`): so
//! a login goes to the address of this program's choice, and all that is configured for the host's name
//! applies to it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use icdc_tcp::{ConnectError, SocketSettings};
use icdc_units::Span;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sockopt};

/// Time limit for a TCP connection of ssh, also of one that ssh makes itself.
pub(super) const TIMEOUT: Span = Span::from_secs(30);

/// Connects to `address` and passes the socket to ssh over `output`, a Unix socket.
///
/// # Errors
/// It cannot connect, or nobody takes the socket.
pub fn connect_for_ssh(address: SocketAddr, output: impl AsFd) -> io::Result<()> {
    let host = address.ip().to_string();
    let connected = icdc_tcp::connect_any(&host, vec![address], TIMEOUT, &SocketSettings::default());
    let stream = connected.map_err(|error| match error {
        // As ssh says it.
        ConnectError::TimedOut { .. } => io::Error::other(format!("connect to {address}: Connection timed out")),
        error => io::Error::other(error),
    })?;
    // ssh does so by default where it connects itself.
    sockopt::set_socket_keepalive(&stream, true)?;
    let descriptors = [stream.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(output, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
