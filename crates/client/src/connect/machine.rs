//! Which one of the machines that share a name a session is on.
//!
//! Names of login nodes and data transfer nodes often have the addresses of several machines. The far
//! end, or the session at a daemon, is on the one that the first connection has reached: all others go
//! there, too. Addresses of the other family may be that machine's own, and are tried for the first
//! connection beside ssh.

use std::iter;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_tcp::{ConnectError, Family, Patience, SocketSettings};
use icdc_units::Span;

/// Time limit for the name's other addresses beside one that is known.
const RESOLVE_TIMEOUT: Span = Span::from_secs(2);

/// The machine that a session is on, behind a name that may be that of several; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Machine(Arc<Mutex<Known>>);

/// Addresses of a machine, as far as they are known; their ports do not matter.
#[derive(Debug, Default)]
struct Known {
    /// Address at which ssh has logged in.
    of_login: Option<SocketAddr>,
    /// Address at which an earlier session has reached it.
    before: Option<SocketAddr>,
    /// Addresses at which connections of the session have reached it, one of a family.
    reached: Vec<SocketAddr>,
}

/// Where a connection is to go.
enum Aim {
    /// To this address, where the session is.
    Only(SocketAddr),
    /// To this address, or to the name's addresses of the other family.
    Near(SocketAddr),
    /// To any address of the name.
    Anywhere,
}

impl Machine {
    /// The machine at which ssh has logged in; `None` if that is not known.
    pub(super) fn of_login(address: Option<SocketAddr>) -> Self {
        Self(Arc::new(Mutex::new(Known { of_login: address, ..Known::default() })))
    }

    /// Begins another session: it is tried with the machine of the one before, which may have gone.
    pub(super) fn begin_anew(&self) {
        let mut known = self.lock();
        known.before = known.reached.first().copied();
        known.reached.clear();
    }

    /// Forgets where a connection has led whose peer was not who it should be.
    pub(super) fn forget(&self) {
        let mut known = self.lock();
        (known.before, known.reached) = (None, Vec::new());
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects to a port of the machine, whose name is `host`, or of any with this name if nothing is
    /// known of it; the one that is reached is the machine from then on.
    ///
    /// # Errors
    /// See [`icdc_tcp::ConnectError`].
    pub(super) fn connect(
        &self,
        (host, port): (&str, u16),
        family: Family,
        patience: Patience<'_>,
        settings: &SocketSettings<'_>,
    ) -> Result<TcpStream, ConnectError> {
        let connected = match self.aim(|address| settings.admits(family, address)) {
            Aim::Only(address) => icdc_tcp::connect_any(host, vec![with_port(address, port)], patience, settings),
            Aim::Near(address) => icdc_tcp::connect_near(host, with_port(address, port), family, patience, settings),
            Aim::Anywhere => icdc_tcp::connect_with(host, port, family, patience, settings),
        };
        match connected.as_ref().map(TcpStream::peer_addr) {
            // One whose peer is gone again tells nothing.
            Ok(Err(_)) => {}
            Ok(Ok(peer)) => self.note_reached(Some(peer)),
            Err(_) => self.note_reached(None),
        }
        connected
    }

    /// Addresses at which a port of the machine may be reached over datagrams, in the order in which they are tried.
    ///
    /// # Errors
    /// See [`icdc_tcp::ConnectError`].
    pub(super) fn addresses(
        &self,
        (host, port): (&str, u16),
        family: Family,
        patience: Patience<'_>,
    ) -> Result<Vec<SocketAddr>, ConnectError> {
        let is_admitted = |address: &SocketAddr| SocketSettings::default().admits(family, address);
        match self.aim(is_admitted) {
            Aim::Only(address) => Ok(vec![with_port(address, port)]),
            Aim::Near(address) => {
                // Those of the other family may be the machine's own.
                let others = icdc_tcp::resolve(host, port, patience).unwrap_or_default().into_iter();
                let others = others.filter(|other| is_admitted(other) && other.is_ipv6() != address.is_ipv6());
                Ok(iter::once(with_port(address, port)).chain(others).collect())
            }
            Aim::Anywhere => {
                let found = icdc_tcp::resolve(host, port, patience)?;
                let (admitted, others): (Vec<SocketAddr>, Vec<SocketAddr>) = found.into_iter().partition(is_admitted);
                if admitted.is_empty() {
                    let addresses = others.iter().map(SocketAddr::ip).collect();
                    return Err(ConnectError::NoAddress { host: host.to_owned(), family, addresses, egress: None });
                }
                Ok(admitted)
            }
        }
    }

    /// Notes at which address the machine was reached; `None`: it was not, and may have gone.
    pub(super) fn note_reached(&self, address: Option<SocketAddr>) {
        let mut known = self.lock();
        match address {
            Some(address) if known.reached.iter().all(|other| other.is_ipv6() != address.is_ipv6()) => {
                known.reached.push(address);
            }
            Some(_) => {}
            None => known.before = None,
        }
    }

    /// Where a connection is to go whose addresses must be such that `is_admitted`.
    fn aim(&self, is_admitted: impl Fn(&SocketAddr) -> bool) -> Aim {
        let known = self.lock();
        let near = || known.of_login.or(known.before).filter(&is_admitted);
        known
            .reached
            .iter()
            .copied()
            .find(&is_admitted)
            .map(Aim::Only)
            .or_else(|| near().map(Aim::Near))
            .unwrap_or(Aim::Anywhere)
    }
}

/// The address with another port.
fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// True if the name has another address of the same family than this one, or may have one.
pub(super) fn is_shared(name: &str, address: SocketAddr) -> bool {
    let is_other = |other: &SocketAddr| {
        let other = icdc_tcp::canonical(*other);
        other.is_ipv6() == address.is_ipv6() && other.ip() != address.ip()
    };
    icdc_tcp::resolve(name, address.port(), Patience::from(RESOLVE_TIMEOUT))
        .map_or_else(|error| matches!(error, ConnectError::ResolveTimedOut { .. }), |found| found.iter().any(is_other))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Address to which a connection to this name leads.
    fn reached_by(machine: &Machine, name: &str, port: u16) -> String {
        let patience = Patience::from(RESOLVE_TIMEOUT);
        let stream = machine.connect((name, port), Family::V4, patience, &SocketSettings::default()).unwrap();
        stream.peer_addr().unwrap().ip().to_string()
    }

    #[test]
    fn connections_stay_with_the_machine_that_was_reached_first() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let machine = Machine::default();
        assert_eq!(reached_by(&machine, "127.0.0.2", port), "127.0.0.2");
        assert_eq!(reached_by(&machine.clone(), "127.0.0.3", port), "127.0.0.2", "the name leads elsewhere now");
        machine.begin_anew();
        assert_eq!(reached_by(&machine, "127.0.0.3", port), "127.0.0.2", "it is still there");
        machine.forget();
        assert_eq!(reached_by(&machine, "127.0.0.3", port), "127.0.0.3");
        let machine = Machine::of_login("127.0.0.4:22".parse().ok());
        assert_eq!(reached_by(&machine, "127.0.0.5", port), "127.0.0.4");
        machine.forget();
        assert_eq!(reached_by(&machine, "127.0.0.5", port), "127.0.0.4", "ssh is there");
    }

    #[test]
    fn another_session_goes_elsewhere_if_the_machine_has_gone() {
        let first = TcpListener::bind("127.0.0.2:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let machine = Machine::default();
        reached_by(&machine, "127.0.0.2", port);
        drop(first);
        let _second = TcpListener::bind(("127.0.0.3", port)).unwrap();
        machine.begin_anew();
        let patience = Patience::from(RESOLVE_TIMEOUT);
        assert!(machine.connect(("127.0.0.3", port), Family::V4, patience, &SocketSettings::default()).is_err());
        assert_eq!(reached_by(&machine, "127.0.0.3", port), "127.0.0.3");
    }

    #[test]
    fn a_name_is_shared_if_it_has_another_address_of_the_family() {
        let address = |text: &str| text.parse().unwrap();
        assert!(!is_shared("127.0.0.1", address("127.0.0.1:22")));
        assert!(!is_shared("::ffff:127.0.0.1", address("127.0.0.1:22")));
        assert!(!is_shared("::1", address("127.0.0.1:22")), "it may be the same machine's");
        assert!(is_shared("127.0.0.2", address("127.0.0.1:22")));
    }
}
