//! Which one of the machines that share a name a session is on.
//!
//! Names of login nodes and data transfer nodes often have the addresses of several machines. The far
//! end, or the session at a daemon, is on the one that the first connection has reached: all others go
//! there, too. Addresses of the other family may be that machine's own, and are tried for the first
//! connection beside ssh.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use icdc_tcp::{Family, Patience, SocketSettings};
use icdc_units::Span;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// Time limit of a connection for ssh: that of the logins that have none of their own.
const CONNECT_TIMEOUT: Span = Span::from_secs(30);
/// Time limit for a name to be resolved once more.
const RESOLVE_TIMEOUT: Span = Span::from_secs(2);

/// The machine that a session is on, behind a name that may be that of several; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Machine(Arc<Mutex<Known>>);

/// What is known of a machine's address; its port does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    #[default]
    Nothing,
    /// ssh has logged in at this address.
    ByLogin(SocketAddr),
    /// A connection of the session has reached it there.
    Reached(SocketAddr),
}

impl Machine {
    /// The machine at which ssh has logged in; `None` if that is not known.
    pub(super) fn of_login(address: Option<SocketAddr>) -> Self {
        Self(Arc::new(Mutex::new(address.map_or(Known::Nothing, Known::ByLogin))))
    }

    /// Forgets the machine: another session begins, wherever the name leads.
    pub(super) fn forget(&self) {
        self.set(Known::Nothing);
    }

    fn set(&self, known: Known) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Connects to a port of the machine, whose name is `host`, or of any with this name if nothing is known of it, which
    /// is the machine from then on.
    ///
    /// # Errors
    /// See [`icdc_tcp::ConnectError`].
    pub(super) fn connect(
        &self,
        (host, port): (&str, u16),
        family: Family,
        patience: Patience<'_>,
        settings: &SocketSettings<'_>,
    ) -> Result<TcpStream, icdc_tcp::ConnectError> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_egress = settings.egress.map_or(Family::Any, icdc_tcp::Egress::family);
        let is_admitted = |address: &SocketAddr| family.admits(address.ip()) && of_egress.admits(address.ip());
        let stream = match known {
            Known::Reached(address) if is_admitted(&address) => {
                icdc_tcp::connect_any(host, vec![with_port(address, port)], patience, settings)?
            }
            Known::ByLogin(address) if is_admitted(&address) => {
                icdc_tcp::connect_near(host, with_port(address, port), family, patience, settings)?
            }
            Known::Nothing | Known::ByLogin(_) | Known::Reached(_) => {
                icdc_tcp::connect_with(host, port, family, patience, settings)?
            }
        };
        if let (Known::Nothing | Known::ByLogin(_), Ok(peer)) = (known, stream.peer_addr()) {
            self.set(Known::Reached(peer));
        }
        Ok(stream)
    }
}

/// The address with another port.
pub(super) fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// Whether the name has another address than this one.
pub(super) fn is_shared(name: &str, address: SocketAddr) -> bool {
    let patience = Patience::from(RESOLVE_TIMEOUT);
    let others = |found: Vec<SocketAddr>| {
        found.iter().any(|other| icdc_tcp::canonical(*other).ip() != icdc_tcp::canonical(address).ip())
    };
    icdc_tcp::resolve(name, address.port(), patience).is_ok_and(others)
}

/// Connects to `address` and passes the socket to ssh over `output`: with `ProxyUseFdpass`, ssh takes it for its own.
///
/// # Errors
/// It cannot connect, or nobody takes the socket.
pub fn connect_for_ssh(address: SocketAddr, output: impl AsFd) -> io::Result<()> {
    let host = address.ip().to_string();
    let patience = Patience::from(CONNECT_TIMEOUT);
    let stream =
        icdc_tcp::connect_any(&host, vec![address], patience, &SocketSettings::default()).map_err(io::Error::other)?;
    let descriptors = [stream.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(output, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn connections_stay_with_the_machine_that_was_reached_first() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let reached_by = |machine: &Machine, name: &str| {
            let patience = Patience::from(CONNECT_TIMEOUT);
            let stream = machine.connect((name, port), Family::V4, patience, &SocketSettings::default()).unwrap();
            stream.peer_addr().unwrap().ip().to_string()
        };
        let machine = Machine::default();
        assert_eq!(reached_by(&machine, "127.0.0.2"), "127.0.0.2");
        assert_eq!(reached_by(&machine.clone(), "127.0.0.3"), "127.0.0.2", "the name leads elsewhere now");
        machine.forget();
        assert_eq!(reached_by(&machine, "127.0.0.3"), "127.0.0.3");
        let machine = Machine::of_login("127.0.0.4:22".parse().ok());
        assert_eq!(reached_by(&machine, "localhost"), "127.0.0.4");
        assert_eq!(reached_by(&machine, "no-such-name.invalid"), "127.0.0.4", "it need not be resolved");
    }

    #[test]
    fn a_name_is_shared_if_it_has_another_address() {
        let address = |text: &str| text.parse().unwrap();
        assert!(!is_shared("127.0.0.1", address("127.0.0.1:22")));
        assert!(!is_shared("127.0.0.1", address("[::ffff:127.0.0.1]:22")));
        assert!(is_shared("127.0.0.2", address("127.0.0.1:22")));
        assert!(!is_shared("no-such-name.invalid", address("127.0.0.1:22")));
    }
}
