//! One request to the kernel, and its answers.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use thiserror::Error;

/// Time limit for each answer of the kernel, which answers at once.
const PATIENCE: Duration = Duration::from_secs(2);
/// Receive buffer for one datagram of answers, in bytes: the kernel fills 32 KiB at most.
const DATAGRAM: usize = 64 << 10;

/// A request to the kernel failed.
#[derive(Debug, Error)]
pub enum NetlinkError {
    /// The kernel refused the request, or the socket failed.
    #[error("netlink: {what}: {cause}")]
    System {
        /// Description of the request.
        what: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// An answer of the kernel cannot be parsed.
    #[error("netlink: {what}: the kernel's answer cannot be read: {reason}")]
    Answer {
        /// Description of the request.
        what: String,
        /// Fault of the answer.
        reason: String,
    },
}

impl NetlinkError {
    /// Whether the kernel refused the request for lack of privileges.
    #[must_use]
    pub fn lacks_privilege(&self) -> bool {
        matches!(self, Self::System { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Whether the request failed because the device does not exist or the address has no route.
    #[must_use]
    pub(crate) fn is_absent(&self) -> bool {
        const GONE: [rustix::io::Errno; 3] =
            [rustix::io::Errno::NODEV, rustix::io::Errno::NETUNREACH, rustix::io::Errno::HOSTUNREACH];
        match self {
            Self::System { cause, .. } => {
                rustix::io::Errno::from_io_error(cause).is_some_and(|errno| GONE.contains(&errno))
            }
            Self::Answer { .. } => false,
        }
    }
}

/// Kind of a request to the kernel, which decides its flags and the number of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All objects of a kind, one in each answer (a dump).
    All,
    /// One object, in one answer.
    One,
    /// A change, with these flags besides.
    Change(u16),
}

/// Sends a request to the kernel on a socket of its own and waits for all answers; `what` describes
/// the request in errors.
pub(crate) fn ask(
    what: &str,
    wanted: Wanted,
    message: RouteNetlinkMessage,
) -> Result<Vec<RouteNetlinkMessage>, NetlinkError> {
    let failed = |cause| NetlinkError::System { what: what.to_owned(), cause };
    let socket = send(wanted, message).map_err(|errno| failed(errno.into()))?;
    let mut answers = Vec::new();
    loop {
        let mut buffer = vec![0; DATAGRAM];
        let (_, length) = recv(&socket, &mut buffer[..], RecvFlags::TRUNC).map_err(|errno| failed(errno.into()))?;
        let datagram = buffer.get(..length).ok_or_else(|| unreadable(what, "it is longer than it may be"))?;
        let before = answers.len();
        if take(what, datagram, &mut answers)? || (wanted == Wanted::One && answers.len() > before) {
            return Ok(answers);
        }
        // An empty datagram would end nothing.
        if length == 0 {
            return Err(unreadable(what, "it ends early"));
        }
    }
}

/// Sends a request on a new socket, and returns the socket on which the answers arrive.
fn send(wanted: Wanted, message: RouteNetlinkMessage) -> rustix::io::Result<OwnedFd> {
    // No protocol means NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST
        | match wanted {
            Wanted::All => NLM_F_DUMP,
            Wanted::One => 0,
            Wanted::Change(flags) => NLM_F_ACK | flags,
        };
    let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    sendto(&socket, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

/// Parses one datagram from the kernel and appends its messages to `answers`; true if no more are
/// to come. An error that the kernel reports for the request is returned as one.
fn take(what: &str, mut datagram: &[u8], answers: &mut Vec<RouteNetlinkMessage>) -> Result<bool, NetlinkError> {
    while !datagram.is_empty() {
        let buffer = NetlinkBuffer::new_checked(&datagram).map_err(|error| unreadable(what, &error.to_string()))?;
        let length = buffer.length() as usize;
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&datagram[..length])
            .map_err(|error| unreadable(what, &error.to_string()))?;
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => {
                let Some(_) = error.code else { return Ok(true) };
                return Err(NetlinkError::System { what: what.to_owned(), cause: error.to_io() });
            }
            NetlinkPayload::InnerMessage(message) => answers.push(message),
            NetlinkPayload::Overrun(_) => return Err(unreadable(what, "parts of it were lost")),
            _ => {}
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Error for an answer to the request `what` that cannot be parsed for this reason.
fn unreadable(what: &str, reason: &str) -> NetlinkError {
    NetlinkError::Answer { what: what.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_or_lies_about_its_length_is_an_error_and_nothing_worse() {
        for datagram in [&[0; 64][..], &[0xff; 64], &[1], &[16, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(take("test", datagram, &mut Vec::new()).is_err(), "{datagram:?}");
        }
        let mut message = NetlinkMessage::new(
            NetlinkHeader::default(),
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(Default::default())),
        );
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let mut answers = Vec::new();
        assert!(!take("test", &bytes, &mut answers).unwrap());
        assert_eq!(answers.len(), 1);
        for length in 1..bytes.len() {
            assert!(take("test", &bytes[..length], &mut Vec::new()).is_err(), "{length}");
        }
    }
}
