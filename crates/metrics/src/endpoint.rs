//! `GET /metrics` over HTTP: one thread, few connections at a time, each with a deadline.

use std::io::{self, BufRead as _, Cursor, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use thiserror::Error;

use crate::Format;
use crate::clock::Deadline;
use crate::request::{MAX_HEAD, Request};

/// Time limit of a connection, from its beginning to the end of its answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// Maximum number of connections at a time. A further one takes the place of the oldest: a scrape
/// is short, so an old connection is not one.
const MOST_CONNECTIONS: usize = 16;
/// Pause of accepting after it has failed: without file descriptors the next attempt would fail at
/// once.
const PAUSE: Duration = Duration::from_millis(100);

/// Reason why the metrics cannot be served.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// Another program listens at the address.
    #[error("metrics {0}: the port is taken by another program; stop that, or name another address and port")]
    Taken(SocketAddr),
    /// The address is not one of this host's.
    #[error("metrics {0}: this host has no such address; name one that it has, such as 127.0.0.1:{port}", port = .0.port())]
    NoSuchAddress(SocketAddr),
    /// The port needs a privilege that this process lacks.
    #[error("metrics {0}: ports below 1024 need CAP_NET_BIND_SERVICE; name a port from 1024 on")]
    Privileged(SocketAddr),
    /// The kernel refused to listen for another reason, or gave no thread or descriptor.
    #[error("metrics {address}: cannot {what}: {cause}")]
    System {
        /// Address to serve the metrics at.
        address: SocketAddr,
        /// Name of the operation that failed.
        what: &'static str,
        /// Error of the kernel.
        cause: io::Error,
    },
}

/// A listener for HTTP requests for metrics.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    /// Listens at `address`; port 0 means any free one. Requests wait until [`Endpoint::serve`].
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub fn bind(address: SocketAddr) -> Result<Self, EndpointError> {
        let listener = TcpListener::bind(address).map_err(|cause| match cause.kind() {
            ErrorKind::AddrInUse => EndpointError::Taken(address),
            ErrorKind::AddrNotAvailable => EndpointError::NoSuchAddress(address),
            ErrorKind::PermissionDenied if address.port() < 1024 => EndpointError::Privileged(address),
            _ => EndpointError::System { address, what: "listen", cause },
        })?;
        Self::listening(listener, address)
    }

    /// Like [`bind`](Self::bind), but goes on with the listener of a previous process if it is
    /// bound to this address.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub fn inherit(listener: TcpListener, address: SocketAddr) -> Result<Self, EndpointError> {
        let is_wanted = listener
            .local_addr()
            .is_ok_and(|bound| bound.ip() == address.ip() && (address.port() == 0 || bound.port() == address.port()));
        if is_wanted { Self::listening(listener, address) } else { Self::bind(address) }
    }

    /// Makes a bound listener non-blocking, and finds out its port if `address` has port 0.
    fn listening(listener: TcpListener, address: SocketAddr) -> Result<Self, EndpointError> {
        let failed = |what| move |cause| EndpointError::System { address, what, cause };
        listener.set_nonblocking(true).map_err(failed("listen without blocking"))?;
        let address = listener.local_addr().map_err(failed("find the port"))?;
        Ok(Self { listener, address })
    }

    /// Address at which the endpoint listens, with the port that the kernel chose for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests with the text that `metrics` gives, on a thread of its own, until
    /// [`Serving::end`] or the end of the process. Does not wait for that.
    ///
    /// # Errors
    /// No thread can be started, or no descriptor can be had.
    pub fn serve(self, metrics: impl Fn(Format) -> String + Send + 'static) -> Result<Serving, EndpointError> {
        let Self { listener, address } = self;
        let failed = |what| move |cause| EndpointError::System { address, what, cause };
        let end = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| failed("make an eventfd")(errno.into()))?;
        let serving = Arc::new(Shared { listener, end });
        let shared = Arc::clone(&serving);
        let started = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            if let Err(error) = answer_all(&shared, &metrics) {
                tracing::error!(%address, "metrics are not served any more: {error}");
            }
        });
        started.map_err(failed("start a thread"))?;
        Ok(Serving(serving))
    }
}

/// Handle of an endpoint that serves metrics on its thread; dropping it does not end that.
pub struct Serving(Arc<Shared>);

/// Listener and request to end, which the thread of an endpoint shares with its [`Serving`].
struct Shared {
    listener: TcpListener,
    /// Descriptor that becomes readable once the endpoint has to end.
    end: OwnedFd,
}

impl Serving {
    /// Listener of the endpoint, for a process that takes over.
    #[must_use]
    pub fn listener(&self) -> &TcpListener {
        &self.0.listener
    }

    /// Stops accepting connections, and answers those that are open.
    pub fn end(self) {
        // It fails only when the counter is full, and then the thread ends anyway.
        let _ = rustix::io::write(&self.0.end, &1_u64.to_ne_bytes());
    }
}

/// A client's connection until its answer is written, with what was read of the request.
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    /// The answer with the position up to which it is written; `None` until the request is
    /// complete.
    answer: Option<Cursor<Vec<u8>>>,
    deadline: Deadline,
}

/// Answers requests until the endpoint has to end, or waiting fails.
fn answer_all(shared: &Shared, metrics: &impl Fn(Format) -> String) -> io::Result<()> {
    let Shared { listener, end } = shared;
    let mut connections: Vec<Connection> = Vec::new();
    let mut pause: Option<Deadline> = None;
    let mut ends = false;
    while !ends || !connections.is_empty() {
        connections.retain(|connection| !connection.deadline.left().is_zero());
        pause = pause.filter(|pause| !pause.left().is_zero());
        let ready = wait((!ends).then_some(end), (!ends && pause.is_none()).then_some(listener), &connections, pause)?;
        let mut at = ready.connections.into_iter();
        connections.retain_mut(|connection| {
            let is_ready = at.next().unwrap_or(false);
            !is_ready || connection.advance(metrics).is_ok_and(|ended| !ended)
        });
        ends |= ready.end;
        if ready.listener && !ends && !accept(listener, &mut connections) {
            pause = Some(Deadline::after(PAUSE));
        }
    }
    Ok(())
}

/// Descriptors on which [`wait`] found something to do; connections in the order in which they were
/// given.
struct Ready {
    end: bool,
    listener: bool,
    connections: Vec<bool>,
}

/// Waits until a descriptor is ready, or for the earliest deadline of a connection or of `pause`;
/// `None` is not waited for.
fn wait(
    end: Option<&OwnedFd>,
    listener: Option<&TcpListener>,
    connections: &[Connection],
    pause: Option<Deadline>,
) -> io::Result<Ready> {
    let wanted = |connection: &Connection| if connection.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
    let mut waited: Vec<PollFd<'_>> =
        connections.iter().map(|connection| PollFd::new(&connection.stream, wanted(connection))).collect();
    waited.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
    waited.extend(end.map(|end| PollFd::new(end, PollFlags::IN)));
    let deadlines = connections.iter().map(|connection| connection.deadline).chain(pause);
    let timeout = deadlines.map(Deadline::left).min();
    let timeout =
        timeout.map(|left| Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() });
    match poll(&mut waited, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut ready: Vec<bool> = waited.iter().map(|one| !one.revents().is_empty()).collect();
    let end = end.is_some() && ready.pop().unwrap_or(false);
    let listener = listener.is_some() && ready.pop().unwrap_or(false);
    Ok(Ready { end, listener, connections: ready })
}

/// Accepts the waiting connections, at most [`MOST_CONNECTIONS`], without blocking; false if that
/// failed and a pause is due.
fn accept(listener: &TcpListener, connections: &mut Vec<Connection>) -> bool {
    // Whoever connects without end lets others have their turn.
    for _ in 0..MOST_CONNECTIONS {
        match listener.accept() {
            Ok((stream, _)) => {
                if stream.set_nonblocking(true).is_err() {
                    continue;
                }
                if connections.len() == MOST_CONNECTIONS {
                    connections.remove(0);
                }
                let deadline = Deadline::after(DEADLINE);
                connections.push(Connection { stream, request: Vec::new(), answer: None, deadline });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(error) => {
                tracing::debug!("metrics: accept: {error}");
                return false;
            }
        }
    }
    true
}

impl Connection {
    /// Reads the request or writes the answer, as far as that goes without waiting; true once all
    /// is done, or if the client closes before its request is complete.
    fn advance(&mut self, metrics: &impl Fn(Format) -> String) -> io::Result<bool> {
        match self.step(metrics) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            result => result,
        }
    }

    /// Like [`advance`](Self::advance), but an error of the kind `WouldBlock` means that it has to
    /// wait.
    fn step(&mut self, metrics: &impl Fn(Format) -> String) -> io::Result<bool> {
        while self.answer.is_none() {
            let mut buffer = [0; 1024];
            let room = buffer.len().min(MAX_HEAD - self.request.len());
            let count = self.stream.read(&mut buffer[..room])?;
            if count == 0 {
                return Ok(true);
            }
            self.request.extend_from_slice(&buffer[..count]);
            self.answer = Request::parse(&self.request).map(|request| Cursor::new(request.answer(metrics)));
        }
        let answer = self.answer.get_or_insert_default();
        while !answer.fill_buf()?.is_empty() {
            let count = self.stream.write(answer.fill_buf()?)?;
            answer.consume(count);
        }
        self.stream.shutdown(Shutdown::Write)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve() -> SocketAddr {
        let endpoint = Endpoint::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = endpoint.address();
        // More than a socket's buffers take at once.
        drop(endpoint.serve(|_| "icdc_x 1\n".repeat(1 << 20)).unwrap());
        address
    }

    fn scrape(address: SocketAddr) -> usize {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.len()
    }

    #[test]
    fn those_who_say_nothing_or_do_not_read_keep_nobody_else_waiting() {
        let address = serve();
        let silent: Vec<_> = (0..3 * MOST_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let deaf: Vec<_> = (0..MOST_CONNECTIONS)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
                stream
            })
            .collect();
        for _ in 0..3 {
            assert_eq!(scrape(address), 9 << 20);
        }
        drop((silent, deaf));
        assert_eq!(scrape(address), 9 << 20);
    }

    #[test]
    fn another_process_goes_on_with_the_listener() {
        let any = ([127, 0, 0, 1], 0).into();
        let first = Endpoint::bind(any).unwrap();
        let address = first.address();
        let first = first.serve(|_| "1\n".to_owned()).unwrap();
        assert_eq!(scrape(address), 2);
        let second = Endpoint::inherit(first.listener().try_clone().unwrap(), address).unwrap();
        assert_eq!(second.address(), address);
        first.end();
        second.serve(|_| "1\n22\n".to_owned()).unwrap();
        assert!((0..100_000).any(|_| scrape(address) == 5), "the second one answers");
        assert_eq!([(); 20].map(|()| scrape(address)), [5; 20], "the first one answers no more");
        let other = Endpoint::bind(any).unwrap().serve(|_| String::new()).unwrap();
        let inherited = Endpoint::inherit(other.listener().try_clone().unwrap(), ([127, 0, 0, 2], 0).into()).unwrap();
        assert_eq!(inherited.address().ip(), std::net::IpAddr::from([127, 0, 0, 2]), "it wants another address");
    }

    #[test]
    fn a_port_that_is_taken_is_told_with_what_to_do() {
        let taken = serve();
        let told = Endpoint::bind(taken).unwrap_err().to_string();
        assert!(told.contains(&taken.to_string()) && told.contains("name another"), "{told}");
        let told = Endpoint::bind(([192, 0, 2, 1], 0).into()).unwrap_err().to_string();
        assert!(told.contains("no such address"), "{told}");
    }
}
