//! Connecting: from a host name to a connected TCP stream.

use std::cmp::Reverse;
use std::io;
use std::iter;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::sync::mpsc;
use std::thread;

use icdc_units::{Span, Time};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use thiserror::Error;

use crate::egress::{BIND, BIND_TO_DEVICE, Egress, EgressError, Refused};
use crate::patience::{Patience, is_cancelled};
use crate::race::{Failure, NoConnection, STAGGER, race};
use crate::socket_settings::SocketSettings;
use crate::{Family, clock};

/// Reason why no connection could be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name has no address, or the resolver failed.
    #[error(
        "cannot resolve {host}: {cause}; check the spelling, /etc/hosts and the name servers (try `getent hosts {host}`)"
    )]
    Resolve {
        /// Name of the host.
        host: String,
        /// Error that getaddrinfo returned.
        cause: io::Error,
    },
    /// The resolver did not answer in time.
    #[error(
        "cannot resolve {host}: no answer within {timeout}; check the name servers, or give the address in place of the name"
    )]
    ResolveTimedOut {
        /// Name of the host.
        host: String,
        /// Time limit of the lookup.
        timeout: Span,
    },
    /// The name has addresses, but none of the requested family.
    #[error("{host} has no {family} address; it has {}: {}", listed(.addresses), remedy(.egress))]
    NoAddress {
        /// Name of the host.
        host: String,
        /// Requested family.
        family: Family,
        /// Addresses of the other family.
        addresses: Vec<IpAddr>,
        /// Requested egress; `None` if none was.
        egress: Option<Egress>,
    },
    /// The host answered that nothing listens on the port (connection refused).
    #[error(
        "{address} ({host}) refused the connection: nothing listens on that port; check that the far side runs and that the port is right"
    )]
    Refused {
        /// Name of the host as given.
        host: String,
        /// Address that answered.
        address: SocketAddr,
    },
    /// No address answered in time.
    #[error("{address} ({host}) did not answer within {timeout}{}; a firewall may drop packets to TCP port {}: open it, or choose another port", Egress::told(.egress.as_ref()), .address.port())]
    TimedOut {
        /// Name of the host as given.
        host: String,
        /// Last address that was tried.
        address: SocketAddr,
        /// Time limit of the connection.
        timeout: Span,
        /// Requested egress; `None` if none was.
        egress: Option<Egress>,
    },
    /// There is no route to the host.
    #[error("{address} ({host}) cannot be reached{}: {cause}; check this host's network, its routes (`{}`) and firewalls", Egress::told(.egress.as_ref()), Egress::route_query(.egress.as_ref(), .address.ip()))]
    Unreachable {
        /// Name of the host as given.
        host: String,
        /// Last address that was tried.
        address: SocketAddr,
        /// Requested egress; `None` if none was.
        egress: Option<Egress>,
        /// Error that the kernel returned.
        cause: io::Error,
    },
    /// The connection cannot leave by the requested egress.
    #[error("cannot connect to {address} ({host}): {cause}")]
    Egress {
        /// Name of the host as given.
        host: String,
        /// Address that was tried.
        address: SocketAddr,
        /// Reason why the egress cannot be used.
        cause: EgressError,
    },
    /// The caller cancelled the attempt.
    #[error("the connection to {host} was given up")]
    Cancelled {
        /// Name of the host as given.
        host: String,
    },
    /// Another system call failed.
    #[error("cannot connect to {address} ({host}): {cause}")]
    Socket {
        /// Name of the host as given.
        host: String,
        /// Address that was tried.
        address: SocketAddr,
        /// Name of the system call.
        call: &'static str,
        /// Error that the kernel returned.
        cause: io::Error,
    },
}

/// Advice on how to use the host's addresses of the other family, for the message of
/// [`ConnectError::NoAddress`].
fn remedy(egress: &Option<Egress>) -> String {
    match egress {
        Some(egress) => format!("leave by another address of this host than {egress}, or by a device, to use them"),
        None => "leave -4 or -6 out to use them".to_owned(),
    }
}

/// The addresses in one line, for a message.
fn listed(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

/// Connects to `port` of `host`, a name or an address without brackets, within `timeout` in all.
///
/// All addresses of the host are tried, a new one every 250 ms while earlier ones are silent, the
/// families in turn; the first that answers is taken. The stream is blocking and has `TCP_NODELAY`.
///
/// # Errors
/// See [`ConnectError`].
pub fn connect(host: &str, port: u16, family: Family, timeout: Span) -> Result<TcpStream, ConnectError> {
    connect_with(host, port, family, timeout, &SocketSettings::default())
}

/// Connects as [`connect`], with settings of the socket before its handshake, and may be cancelled.
///
/// # Errors
/// See [`ConnectError`].
pub fn connect_with<'a>(
    host: &str,
    port: u16,
    family: Family,
    patience: impl Into<Patience<'a>>,
    settings: &SocketSettings<'_>,
) -> Result<TcpStream, ConnectError> {
    let patience = patience.into();
    let timeout = patience.timeout;
    let deadline = clock::now() + timeout;
    let resolved = resolve(host, port, patience)?;
    let of_egress = settings.family();
    let (admitted, others): (Vec<_>, Vec<_>) =
        resolved.into_iter().partition(|address| settings.admits(family, address));
    if admitted.is_empty() {
        let addresses = others.iter().map(SocketAddr::ip).collect();
        let family = family.and(of_egress).unwrap_or(of_egress);
        let egress = settings.egress.filter(|_| of_egress != Family::Any).cloned();
        return Err(ConnectError::NoAddress { host: host.to_owned(), family, addresses, egress });
    }
    race_to(host, admitted, (timeout, deadline), patience.cancel, settings)
}

/// Connects as [`connect_with`] to the machine that has the address `near`, behind a name that several
/// may share: to that address, or to the name's addresses of the other family, which may be the same
/// machine's. They are left out where they cannot be had soon.
///
/// # Errors
/// See [`ConnectError`].
pub fn connect_near<'a>(
    host: &str,
    near: SocketAddr,
    family: Family,
    patience: impl Into<Patience<'a>>,
    settings: &SocketSettings<'_>,
) -> Result<TcpStream, ConnectError> {
    let patience = patience.into();
    let deadline = clock::now() + patience.timeout;
    let soon = Patience { timeout: patience.timeout.min(STAGGER), ..patience };
    let resolved = resolve(host, near.port(), soon).unwrap_or_default().into_iter();
    let others = resolved.filter(|other| other.is_ipv6() != near.is_ipv6() && settings.admits(family, other));
    let addresses = iter::once(near).chain(others).collect();
    race_to(host, addresses, (patience.timeout, deadline), patience.cancel, settings)
}

/// Connects as [`connect_with`], but to these addresses without resolving; `host` is the name in
/// errors.
///
/// # Errors
/// See [`ConnectError`].
pub fn connect_any<'a>(
    host: &str,
    addresses: Vec<SocketAddr>,
    patience: impl Into<Patience<'a>>,
    settings: &SocketSettings<'_>,
) -> Result<TcpStream, ConnectError> {
    let patience = patience.into();
    if addresses.is_empty() {
        let cause = io::Error::new(io::ErrorKind::NotFound, "no address of it is known");
        return Err(ConnectError::Resolve { host: host.to_owned(), cause });
    }
    race_to(host, addresses, (patience.timeout, clock::now() + patience.timeout), patience.cancel, settings)
}

/// Connects to the first of `addresses` (at least one) that answers; of several failures it returns
/// the most telling. `timeout` is for the message, `deadline` what counts.
fn race_to(
    host: &str,
    addresses: Vec<SocketAddr>,
    (timeout, deadline): (Span, Time),
    cancel: Option<BorrowedFd<'_>>,
    settings: &SocketSettings<'_>,
) -> Result<TcpStream, ConnectError> {
    let last = addresses[addresses.len() - 1];
    race(families_in_turn(addresses), deadline, cancel, settings).map_err(|lost| match lost {
        NoConnection::Failed(failures) => most_telling(host, last, timeout, settings.egress, failures),
        NoConnection::Cancelled => ConnectError::Cancelled { host: host.to_owned() },
    })
}

/// Resolves `host`, a name or an address, to addresses with this port, by the resolver of the
/// system, within the time limit. Its call cannot be interrupted, so a thread makes it, which
/// outlives a timeout.
pub fn resolve(host: &str, port: u16, patience: Patience<'_>) -> Result<Vec<SocketAddr>, ConnectError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let failed = |cause| ConnectError::Resolve { host: host.to_owned(), cause };
    let (sender, receiver) = mpsc::sync_channel(1);
    let answered = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let signal = answered.try_clone().map_err(failed)?;
    let name = host.to_owned();
    let ask = move || {
        let answer = (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        // After the deadline the receiver is gone.
        let _ = sender.send(answer);
        let _ = rustix::io::write(&signal, &1_u64.to_ne_bytes());
    };
    thread::Builder::new().name("resolve".to_owned()).spawn(ask).map_err(failed)?;
    let deadline = clock::now() + patience.timeout;
    loop {
        match receiver.try_recv() {
            Ok(Ok(addresses)) if addresses.is_empty() => {
                return Err(failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
            }
            Ok(answer) => return answer.map_err(failed),
            Err(_) if is_cancelled(patience.cancel) => return Err(ConnectError::Cancelled { host: host.to_owned() }),
            Err(_) if clock::now() >= deadline => {
                return Err(ConnectError::ResolveTimedOut { host: host.to_owned(), timeout: patience.timeout });
            }
            Err(_) => {
                let mut polled = vec![PollFd::new(&answered, PollFlags::IN)];
                polled.extend(patience.cancel.as_ref().map(|cancel| PollFd::new(cancel, PollFlags::IN)));
                // Whatever ended the wait, the next round looks.
                let _ = poll(&mut polled, Some(&clock::timespec(deadline - clock::now())));
            }
        }
    }
}

/// Sorts addresses so that the families alternate, beginning with the one that the resolver
/// prefers, in the resolver's order within each (RFC 8305 section 4).
fn families_in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let preferred = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == preferred);
    let mut first = first.into_iter();
    let mut second = second.into_iter();
    let mut order = Vec::new();
    loop {
        let before = order.len();
        order.extend(first.next());
        order.extend(second.next());
        if order.len() == before {
            return order;
        }
    }
}

/// Selects the most informative error of several addresses that failed: an answer says more than
/// silence, and silence more than a missing route (often just IPv6 on an IPv4 network).
fn most_telling(
    host: &str,
    last: SocketAddr,
    timeout: Span,
    egress: Option<&Egress>,
    failures: Vec<Failure>,
) -> ConnectError {
    let (host, named) = (host.to_owned(), egress.cloned());
    let weight = |failure: &Failure| match failure.cause.kind() {
        io::ErrorKind::ConnectionRefused => 3,
        io::ErrorKind::TimedOut => 2,
        _ if unreachable(&failure.cause) => 0,
        _ => 1,
    };
    // `min_by_key` keeps the first of equals: the address that the resolver prefers.
    match failures.into_iter().min_by_key(|failure| Reverse(weight(failure))) {
        // The deadline passed before the first attempt.
        None => ConnectError::TimedOut { host, address: last, timeout, egress: named },
        Some(Failure { address, call, cause }) => match (cause.kind(), egress) {
            (_, Some(egress)) if matches!(call, BIND | BIND_TO_DEVICE) => {
                ConnectError::Egress { host, address, cause: egress.refused(Refused { call, cause }) }
            }
            (io::ErrorKind::ConnectionRefused, _) => ConnectError::Refused { host, address },
            (io::ErrorKind::TimedOut, _) => ConnectError::TimedOut { host, address, timeout, egress: named },
            _ if unreachable(&cause) => ConnectError::Unreachable { host, address, egress: named, cause },
            _ => ConnectError::Socket { host, address, call, cause },
        },
    }
}

/// Whether the error means that the address cannot be reached: no route, no such family or address
/// on this host, or a firewall that refuses.
fn unreachable(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ENETDOWN, libc::EAFNOSUPPORT, libc::EACCES, libc::EPERM]
        .into_iter()
        .any(|unreachable| errno == Some(unreachable))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(address: &str, errno: i32) -> Failure {
        Failure {
            address: address.parse().expect(address),
            call: "connect",
            cause: io::Error::from_raw_os_error(errno),
        }
    }

    fn reported(failures: Vec<Failure>) -> ConnectError {
        most_telling("far", "192.0.2.9:1".parse().expect("address"), Span::from_secs(5), None, failures)
    }

    #[test]
    fn the_most_telling_failure_is_told() {
        let (six, four) = ("[2001:db8::1]:2633", "192.0.2.1:2633");
        let error = reported(vec![failure(six, libc::ENETUNREACH), failure(four, libc::ETIMEDOUT)]);
        assert!(matches!(&error, ConnectError::TimedOut { address, .. } if address.is_ipv4()), "{error}");
        let error = reported(vec![failure(six, libc::ETIMEDOUT), failure(four, libc::ECONNREFUSED)]);
        assert!(matches!(&error, ConnectError::Refused { address, .. } if address.is_ipv4()), "{error}");
        let error = reported(vec![failure(six, libc::EHOSTUNREACH), failure(four, libc::ENETUNREACH)]);
        assert!(matches!(&error, ConnectError::Unreachable { address, .. } if address.is_ipv6()), "{error}");
        let error = reported(vec![failure(six, libc::ENETUNREACH), failure(four, libc::EMFILE)]);
        assert!(matches!(&error, ConnectError::Socket { call: "connect", .. }), "{error}");
        assert!(matches!(reported(vec![]), ConnectError::TimedOut { .. }));
    }

    #[test]
    fn messages_say_what_where_and_what_to_do() {
        let error = reported(vec![failure("[2001:db8::1]:2633", libc::ETIMEDOUT)]);
        assert_eq!(
            error.to_string(),
            "[2001:db8::1]:2633 (far) did not answer within 5s; a firewall may drop packets to TCP port 2633: open it, or choose another port"
        );
    }

    #[test]
    fn families_take_turns() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().expect(text)).collect::<Vec<SocketAddr>>();
        let mixed = parse(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "1.1.1.2:1"]);
        let expected = parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"]);
        assert_eq!(families_in_turn(mixed), expected);
        let four = parse(&["1.1.1.1:1", "1.1.1.2:1"]);
        assert_eq!(families_in_turn(four.clone()), four);
    }
}
