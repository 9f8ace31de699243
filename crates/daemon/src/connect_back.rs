//! A far end that connects to the starting end, because its own port cannot be reached. What comes
//! of it is served like a connection to that port.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use icdc_client::connect::back::opening_of;
use icdc_link::{DEAD_AFTER, LinkError, Outlet};
use icdc_protocol::Message;
use icdc_protocol::limits::MAX_STREAMS;
use icdc_protocol::message::ConnectBack;
use icdc_protocol::validate::clip;
use icdc_tcp::Family;
use icdc_tuning::buffers::socket_settings;
use icdc_units::Span;

use crate::guard::Adoption;

/// Time limit of a connection attempt.
const PATIENCE: Span = Span::from_secs(15);

/// Makes connections to the starting end on its request, and has them served.
#[derive(Clone)]
pub(crate) struct Connector {
    family: Family,
    adoption: Adoption,
    /// Sender of messages to the starting end.
    outlet: Arc<Mutex<Box<dyn Outlet>>>,
    /// Number of connections that are being made.
    pending: Arc<AtomicUsize>,
    /// Signal to send signs of life: the starting end listens for them from its first request on.
    is_heard: Arc<Once>,
}

impl Connector {
    /// Connector that reports to the starting end over `outlet`.
    pub(crate) fn new(family: Family, adoption: Adoption, outlet: Box<dyn Outlet>) -> Self {
        Self {
            family,
            adoption,
            outlet: Arc::new(Mutex::new(outlet)),
            pending: Arc::default(),
            is_heard: Arc::new(Once::new()),
        }
    }

    /// Makes the requested connection on a thread of its own; tells the starting end if that fails.
    pub(crate) fn connect(&self, order: ConnectBack) {
        self.is_heard.call_once(|| self.give_signs_of_life());
        let number = order.number;
        if self.pending.fetch_add(1, Ordering::Relaxed) >= usize::from(MAX_STREAMS) {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            return self.fail(number, "too many connections are being made already".to_owned());
        }
        let connector = self.clone();
        let connecting = std::thread::Builder::new().name("connect-back".into()).spawn(move || {
            match reach(&order, connector.family, address_of_ssh()) {
                Ok(stream) => connector.adoption.adopt(stream.into()),
                Err(reason) => connector.fail(number, reason),
            }
            connector.pending.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = connecting {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            self.fail(number, format!("no thread: {error}"));
        }
    }

    /// Sends keepalive messages from now on, so that the starting end does not take this one for
    /// dead.
    fn give_signs_of_life(&self) {
        let connector = self.clone();
        let signs = std::thread::Builder::new().name("signs-of-life".into());
        let giving = signs.spawn(move || {
            while connector.tell(Message::Ping).is_ok() {
                #[expect(clippy::disallowed_methods, reason = "that the starting end is gone shows when it is told")]
                std::thread::sleep((DEAD_AFTER / 4).into());
            }
        });
        if let Err(error) = giving {
            tracing::debug!("no signs of life: {error}");
        }
    }

    /// Tells the starting end that a connection could not be made.
    fn fail(&self, number: u32, reason: String) {
        self.answer(Message::NotConnected { number, reason: clip(reason) });
    }

    /// Answers the starting end; that it is gone shows elsewhere.
    pub(crate) fn answer(&self, message: Message) {
        if let Err(error) = self.tell(message) {
            tracing::debug!("the starting end is gone: {error}");
        }
    }

    /// Sends a message to the starting end at once.
    fn tell(&self, message: Message) -> Result<(), LinkError> {
        let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        outlet.send(message.into()).and_then(|()| outlet.flush())
    }
}

/// Connects to an address of the order, or, if none of them answers, to `of_ssh`, the client's
/// address for ssh.
fn reach(order: &ConnectBack, family: Family, of_ssh: Option<SocketAddr>) -> Result<TcpStream, String> {
    let places = places(order, family, of_ssh);
    if places.is_empty() {
        return Err("no address was named that this host may connect to".to_owned());
    }
    let mut stream = icdc_tcp::connect_any("the starting end", places, PATIENCE, &socket_settings())
        .map_err(|error| error.to_string())?;
    stream.write_all(&opening_of(&order.secret)).map_err(|error| format!("send: {error}"))?;
    Ok(stream)
}

/// Addresses to connect to, as the order names them. A link-local address is tried on the link by
/// which ssh came.
fn places(order: &ConnectBack, family: Family, of_ssh: Option<SocketAddr>) -> Vec<SocketAddr> {
    let scope = match of_ssh {
        Some(SocketAddr::V6(of_ssh)) => of_ssh.scope_id(),
        _ => 0,
    };
    let place = |address: &IpAddr| match address.to_canonical() {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            SocketAddrV6::new(address, order.port, 0, scope).into()
        }
        address => SocketAddr::new(address, order.port),
    };
    let mut places: Vec<SocketAddr> = order.addresses.iter().map(place).collect();
    if let Some(mut of_ssh) = of_ssh {
        of_ssh.set_port(order.port);
        if !places.contains(&of_ssh) {
            places.push(of_ssh);
        }
    }
    places.retain(|place| family.admits(place.ip()) && !(order.elsewhere && is_own(*place)));
    places
}

/// Whether what is sent to this address stays on this host: the kernel lets no other address be
/// bound. Where the administrator has it bind any (`ip_nonlocal_bind`), every address counts as one
/// of this host.
fn is_own(mut place: SocketAddr) -> bool {
    place.set_port(0);
    place.ip().is_loopback() || place.ip().is_unspecified() || UdpSocket::bind(place).is_ok()
}

/// Address from which ssh has come (sshd(8): `SSH_CONNECTION` begins with the client's address);
/// `None` if sshd has not started this process.
fn address_of_ssh() -> Option<SocketAddr> {
    of_ssh_connection(&std::env::var("SSH_CONNECTION").ok()?)
}

/// The client's address in the value of `SSH_CONNECTION`, with its link (`fe80::1%eth0`).
fn of_ssh_connection(words: &str) -> Option<SocketAddr> {
    let word = words.split(' ').next()?;
    let (address, link) = word.split_once('%').map_or((word, None), |(address, link)| (address, Some(link)));
    let address: IpAddr = address.parse().ok()?;
    let alone = SocketAddr::new(address.to_canonical(), 0);
    // The resolver knows the number of a link; of an address it asks nobody.
    let found = link.and_then(|_| (word, 0).to_socket_addrs().ok()?.next());
    Some(found.unwrap_or(alone))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn order(addresses: &[IpAddr], elsewhere: bool, port: u16) -> ConnectBack {
        ConnectBack { number: 1, secret: [7; 32], addresses: addresses.to_vec(), elsewhere, port }
    }

    #[test]
    fn an_end_elsewhere_has_nothing_of_this_host_connected_to() {
        let service = TcpListener::bind((LOCALHOST, 0)).unwrap();
        let port = service.local_addr().unwrap().port();
        service.set_nonblocking(true).unwrap();
        // Named, or the address from which ssh came.
        for (named, of_ssh) in [(&[LOCALHOST][..], None), (&[], Some(SocketAddr::new(LOCALHOST, 0)))] {
            reach(&order(named, true, port), Family::Any, of_ssh).unwrap_err();
            assert_eq!(service.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nothing came");
        }
        reach(&order(&[LOCALHOST], false, port), Family::Any, None).unwrap();
        service.set_nonblocking(false).unwrap();
        let mut said = [0; 32];
        service.accept().unwrap().0.read_exact(&mut said).unwrap();
        assert_eq!(said, opening_of(&[7; 32]), "the starting end itself may be on this host");
    }

    #[test]
    fn an_address_of_this_host_is_known_by_any_of_its_forms() {
        let remote = ["192.0.2.1", "2001:db8::1"].map(|address| address.parse().unwrap());
        let own = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "::ffff:0.0.0.0"];
        let named = [&own.map(|address| address.parse().unwrap())[..], &remote].concat();
        let left = places(&order(&named, true, 9), Family::Any, None);
        assert_eq!(left, remote.map(|address| SocketAddr::new(address, 9)));
    }

    #[test]
    fn the_link_of_ssh_is_that_of_addresses_of_a_link() {
        // The loopback device is the first one everywhere.
        let of_ssh = of_ssh_connection("fe80::1%lo 50000 fe80::2%lo 22").unwrap();
        assert_eq!(of_ssh, SocketAddrV6::new("fe80::1".parse().unwrap(), 0, 0, 1).into());
        let named = ["fe80::1", "fe80::3", "2001:db8::1"].map(|address| address.parse().unwrap());
        let found = places(&order(&named, false, 9), Family::Any, Some(of_ssh));
        let place = |address: &str, scope| SocketAddrV6::new(address.parse().unwrap(), 9, 0, scope).into();
        assert_eq!(found, [place("fe80::1", 1), place("fe80::3", 1), place("2001:db8::1", 0)]);
        assert_eq!(of_ssh_connection("192.0.2.1 5 192.0.2.2 22"), Some("192.0.2.1:0".parse().unwrap()));
        assert_eq!(of_ssh_connection("::ffff:192.0.2.1 5 ::1 22"), Some("192.0.2.1:0".parse().unwrap()));
        for wrong in ["", "UNKNOWN 1", "example.org%lo 1", "fe80::1"] {
            let scope = of_ssh_connection(wrong).map(|place| matches!(place, SocketAddr::V6(v6) if v6.scope_id() > 0));
            assert_ne!(scope, Some(true), "{wrong}");
        }
    }
}
