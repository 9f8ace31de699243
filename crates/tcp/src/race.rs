//! Several addresses of one host, raced (RFC 8305 "Happy Eyeballs", section 5).
//!
//! Attempts start [`STAGGER`] apart, or at once when an earlier one fails; the first connection
//! wins and the others are dropped. One deadline covers all.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;

use icdc_units::{ByteCount, Span, Time};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock;
use crate::egress::Refused;
use crate::options::set_buffers;
use crate::patience::is_cancelled;
use crate::set_congestion;
use crate::socket_settings::SocketSettings;

/// Time between the starts of two attempts (RFC 8305 section 8: "Connection Attempt Delay", 250
/// ms).
pub(crate) const STAGGER: Span = Span::from_millis(250);

/// Failed attempt to connect to one address: the system call and its error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) address: SocketAddr,
    pub(crate) call: &'static str,
    pub(crate) cause: io::Error,
}

/// Reason why a race of attempts led to no connection.
#[derive(Debug)]
pub(crate) enum NoConnection {
    /// All attempts failed; their failures, in order.
    Failed(Vec<Failure>),
    /// The caller cancelled.
    Cancelled,
}

/// Connects to the first of `addresses` that answers before `deadline` and before `cancel` becomes
/// readable.
///
/// # Errors
/// See [`NoConnection`].
pub(crate) fn race(
    addresses: impl IntoIterator<Item = SocketAddr>,
    deadline: Time,
    cancel: Option<BorrowedFd<'_>>,
    settings: &SocketSettings<'_>,
) -> Result<TcpStream, NoConnection> {
    let mut waiting: VecDeque<SocketAddr> = addresses.into_iter().collect();
    let mut running: Vec<Attempt> = Vec::new();
    let mut failures = Vec::new();
    let mut next_start = clock::now();
    loop {
        let now = clock::now();
        if now >= deadline {
            failures.extend(running.into_iter().map(|attempt| Failure {
                address: attempt.address,
                call: "connect",
                cause: Errno::TIMEDOUT.into(),
            }));
            return Err(NoConnection::Failed(failures));
        }
        if is_cancelled(cancel) {
            return Err(NoConnection::Cancelled);
        }
        if running.is_empty() || now >= next_start {
            match waiting.pop_front() {
                Some(address) => {
                    match Attempt::start(address, settings) {
                        Ok(attempt) => {
                            running.push(attempt);
                            next_start = now + STAGGER;
                        }
                        Err(failure) => failures.push(failure),
                    }
                    continue;
                }
                None if running.is_empty() => return Err(NoConnection::Failed(failures)),
                None => {}
            }
        }
        let until = if waiting.is_empty() { deadline } else { deadline.min(next_start) };
        for index in settled(&running, cancel, until - now).into_iter().rev() {
            match running.swap_remove(index).finish() {
                Ok(stream) => return Ok(stream),
                Err(failure) => {
                    failures.push(failure);
                    next_start = now;
                }
            }
        }
    }
}

/// Waits for a result of one of the attempts; returns the indices of those that have one,
/// ascending: none if the time is over or the caller has cancelled.
fn settled(running: &[Attempt], cancel: Option<BorrowedFd<'_>>, span: Span) -> Vec<usize> {
    let mut polled: Vec<PollFd<'_>> =
        running.iter().map(|attempt| PollFd::new(&attempt.socket, PollFlags::OUT)).collect();
    polled.extend(cancel.as_ref().map(|cancel| PollFd::new(cancel, PollFlags::IN)));
    // A poll that a signal interrupts, or that the kernel cannot serve, has no result: the caller
    // looks at the clock and asks again.
    match poll(&mut polled, Some(&clock::timespec(span))) {
        Ok(_) => (0..running.len()).filter(|&index| !polled[index].revents().is_empty()).collect(),
        Err(_) => Vec::new(),
    }
}

/// An attempt to connect to one address, in progress on a non-blocking socket.
struct Attempt {
    address: SocketAddr,
    socket: Socket,
}

impl Attempt {
    /// Makes a socket with these settings and begins to connect it, without waiting.
    fn start(address: SocketAddr, settings: &SocketSettings<'_>) -> Result<Self, Failure> {
        let failed = |call| move |cause| Failure { address, call, cause };
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(failed("socket"))?;
        socket.set_nonblocking(true).map_err(failed("fcntl(O_NONBLOCK)"))?;
        socket.set_tcp_nodelay(true).map_err(failed("setsockopt(TCP_NODELAY)"))?;
        if let Some(egress) = settings.egress {
            egress.apply(&socket).map_err(|Refused { call, cause }| Failure { address, call, cause })?;
        }
        if let Some(name) = settings.congestion {
            // It was there a moment ago; where it has gone, the caller's choice for the connection
            // finds another.
            let _ = set_congestion(&socket, name);
        }
        if !settings.receive_buffer.is_zero() {
            set_buffers(&socket, ByteCount::ZERO, settings.receive_buffer).map_err(|error| Failure {
                address,
                call: error.call,
                cause: error.cause,
            })?;
        }
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => {
                Err(failed("connect")(error))
            }
            _ => Ok(Self { address, socket }),
        }
    }

    /// Result of the attempt, once the socket is writable: the connection, blocking again, or its
    /// failure.
    fn finish(self) -> Result<TcpStream, Failure> {
        let failed = |call| move |cause| Failure { address: self.address, call, cause };
        match self.socket.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return Err(failed("connect")(error)),
        }
        self.socket.set_nonblocking(false).map_err(failed("fcntl(O_NONBLOCK)"))?;
        Ok(self.socket.into())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::fd::AsFd as _;

    use super::*;

    /// A listener whose queue is full and that never accepts: the kernel drops every further SYN.
    fn black_hole() -> (SocketAddr, Vec<Socket>) {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        let listener = socket();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("bind");
        listener.listen(0).expect("listen");
        let address = listener.local_addr().expect("bound");
        let mut held = vec![listener];
        for _ in 0..3 {
            let client = socket();
            client.set_nonblocking(true).expect("nonblocking");
            // The first is queued, the others hang in the handshake.
            let _ = client.connect(&address);
            held.push(client);
        }
        (address.as_socket().expect("IPv4"), held)
    }

    fn refusing() -> SocketAddr {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).expect("a free port")
    }

    #[test]
    fn a_silent_address_does_not_hold_up_the_next() {
        let (silent, _held) = black_hole();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
        let answering = listener.local_addr().expect("bound");
        let start = clock::now();
        let stream =
            race([silent, answering], start + Span::from_secs(20), None, &SocketSettings::default()).expect("connects");
        let took = clock::now() - start;
        assert_eq!(stream.peer_addr().expect("connected"), answering);
        assert!(took >= STAGGER && took < Span::from_secs(10), "{took}");
    }

    #[test]
    fn a_refusing_address_hands_over_at_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listen");
        let refusing: Vec<_> = (0..8).map(|_| refusing()).collect();
        let addresses = refusing.into_iter().chain([listener.local_addr().expect("bound")]);
        let start = clock::now();
        race(addresses, start + Span::from_secs(20), None, &SocketSettings::default()).expect("connects");
        let took = clock::now() - start;
        assert!(took < STAGGER * 8, "eight refusals cost no stagger: {took}");
    }

    #[test]
    fn the_deadline_covers_all_attempts() {
        let (silent, _held) = black_hole();
        let start = clock::now();
        let lost = race([silent, refusing(), silent], start + Span::from_millis(600), None, &SocketSettings::default());
        let Err(NoConnection::Failed(failures)) = lost else { panic!("nobody answers: {lost:?}") };
        let took = clock::now() - start;
        assert!(took >= Span::from_millis(600) && took < Span::from_secs(10), "{took}");
        let kinds: Vec<_> = failures.iter().map(|failure| failure.cause.kind()).collect();
        assert_eq!(kinds, [io::ErrorKind::ConnectionRefused, io::ErrorKind::TimedOut, io::ErrorKind::TimedOut]);
    }

    #[test]
    fn who_gives_up_does_not_wait() {
        let (silent, _held) = black_hole();
        let (cancel, give_up) = rustix::pipe::pipe().expect("pipe");
        let start = clock::now();
        let lost = std::thread::scope(|scope| {
            let racing = scope.spawn(|| {
                race([silent], start + Span::from_secs(60), Some(cancel.as_fd()), &SocketSettings::default())
            });
            // The end of a pipe is readable.
            drop(give_up);
            racing.join().expect("no panic")
        });
        assert!(matches!(lost, Err(NoConnection::Cancelled)), "{lost:?}");
        assert!(clock::now() - start < Span::from_secs(20));
    }
}
