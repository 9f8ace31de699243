//! Connections that the far end makes to this host, where its own port cannot be reached.
//!
//! ```text
//! near end             listens on a port of its own
//! ssh     near → far   ConnectBack { secret, addresses, elsewhere, port }
//! TCP     far → near   SHA-256 of the secret; from then on it is a connection to the far end's port:
//!         near → far   ClientHello …
//! ```
//!
//! TLS with both keys pinned runs over it as over any other route. The secret, which differs for
//! each connection, only rejects other connections before any answer. At most
//! `MAX_UNAUTHENTICATED` wait for their secret at once, each for `UNAUTHENTICATED_TIMEOUT`;
//! beyond that the oldest are closed. The port is open from the first use until the run ends.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use icdc_link::{Inlet, MessageWriter, receive};
use icdc_protocol::limits::MAX_ADDRESSES;
use icdc_protocol::message::ConnectBack;
use icdc_protocol::{Message, Ports};
use icdc_stop::{StopDescriptor, StopSignal};
use icdc_tcp::{Family, Patience, clock};
use icdc_tuning::buffers::receive_buffer;
use icdc_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::ConnectError;

/// Time limit for a connection from the far end: its own limit for connecting, and the messages
/// around it.
const TIMEOUT: Span = Span::from_secs(20);
/// Maximum number of accepted connections that have not sent their secret yet.
const MAX_UNAUTHENTICATED: usize = 128;
/// Time limit for a connection to send its secret.
const UNAUTHENTICATED_TIMEOUT: Span = Span::from_secs(10);
/// Pause of accepting connections when file descriptors are exhausted.
const DESCRIPTORS_PAUSE: Span = Span::from_millis(100);
/// Time limit for the lookup of the far side's name.
const NAME_TIMEOUT: Span = Span::from_secs(5);

/// The 32 random bytes of a requested connection, or their SHA-256, which the connection begins
/// with.
type Secret = [u8; 32];

/// Listener for data connections that the far end makes to this host on request, where its own port
/// cannot be reached.
#[derive(Clone)]
pub struct Back(Arc<Inner>);

/// State that the clones of a [`Back`] share.
struct Inner {
    host: String,
    /// Ports of this host to listen on.
    ports: Ports,
    family: Family,
    /// Writer of messages to the far end, by ssh.
    writer: MessageWriter,
    /// Messages from the far end; taken by the first use.
    inlet: Mutex<Option<Box<dyn Inlet>>>,
    listening: Mutex<Option<Listening>>,
    expected: Arc<Expected>,
}

/// The listening socket, and the addresses by which the far end may reach it.
struct Listening {
    addresses: Vec<IpAddr>,
    port: u16,
    over: StopSignal,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.over.request();
    }
}

impl Back {
    /// Listener for the far end on `host`, whose messages go by `writer` and come by `inlet`; it
    /// opens its port at the first use. `ports` are those of this host that may be used.
    pub(super) fn new(host: &str, ports: Ports, family: Family, writer: MessageWriter, inlet: Box<dyn Inlet>) -> Self {
        let (inlet, listening, expected) = (Mutex::new(Some(inlet)), Mutex::default(), Arc::default());
        Self(Arc::new(Inner { host: host.to_owned(), ports, family, writer, inlet, listening, expected }))
    }

    /// Listener for a far end on `host` to which another process forwards the messages of
    /// `writer`. The caller reports its answers to `expected`.
    pub fn passed_on(host: &str, ports: Ports, writer: MessageWriter, expected: &Arc<Expected>) -> Self {
        let (host, expected) = (host.to_owned(), Arc::clone(expected));
        let (family, inlet, listening) = (Family::Any, Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { host, ports, family, writer, inlet, listening, expected }))
    }

    /// Closes the listening port. Callers of [`Self::connect`] must have been stopped before,
    /// because they would open it again.
    pub fn close(&self) {
        lock(&self.0.listening).take();
    }

    /// Asks the far end for one connection and waits for it; may be called any number of times,
    /// from any thread.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(&self, stop: &StopSignal) -> Result<TcpStream, ConnectError> {
        if stop.is_requested() {
            return Err(ConnectError::Interrupted);
        }
        let inner = &*self.0;
        let failed = |reason: String| ConnectError::NotBack { host: inner.host.clone(), reason };
        let (addresses, port) = match inner.listen(stop) {
            Err(_) if stop.is_requested() => return Err(ConnectError::Interrupted),
            listening => listening.map_err(failed)?,
        };
        let arrival = inner.expected.expect().map_err(failed)?;
        let (number, secret) = (arrival.number, arrival.secret);
        // `elsewhere` is false: a far end that this end has started may be on the same host. A
        // process that forwards the request sets it for its own far end.
        let order = ConnectBack { number, secret, addresses, elsewhere: false, port };
        inner.writer.send(Message::ConnectBack(order));
        let _woken = stop.while_waiting({
            let expected = Arc::clone(&inner.expected);
            move || expected.settle(number, Err(String::new()))
        });
        let outcome = arrival.outcome.recv_timeout(TIMEOUT.into());
        match outcome {
            _ if stop.is_requested() => Err(ConnectError::Interrupted),
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(reason)) => Err(failed(reason)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(failed(format!("nothing came to port {port} here within {TIMEOUT}")))
            }
        }
    }
}

impl Inner {
    /// Listens unless it already does; returns addresses and port.
    fn listen(&self, stop: &StopSignal) -> Result<(Vec<IpAddr>, u16), String> {
        let mut listening = lock(&self.listening);
        if let Some(Listening { addresses, port, .. }) = &*listening {
            return Ok((addresses.clone(), *port));
        }
        // Under the lock: another route may have won, and closed what there was.
        if stop.is_requested() {
            return Err("it is not needed any more".to_owned());
        }
        let listener = icdc_tcp::listen(None, self.ports.range(), self.family, receive_buffer());
        let listener = listener.map_err(|error| error.to_string())?;
        let start = || -> io::Result<(u16, StopSignal)> {
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            let over = StopSignal::new();
            let (expected, ended) = (Arc::clone(&self.expected), over.descriptor()?);
            std::thread::Builder::new().name("back".into()).spawn(move || admit(&listener, &expected, &ended))?;
            if let Some(inlet) = lock(&self.inlet).take() {
                let expected = Arc::clone(&self.expected);
                let receiver = std::thread::Builder::new().name("far-end".into());
                receiver.spawn(move || receive_failures(inlet, &expected))?;
            }
            Ok((port, over))
        };
        let (port, over) = start().map_err(|error| format!("cannot listen here: {error}"))?;
        let addresses = addresses_towards(&self.host, self.family, stop);
        *listening = Some(Listening { addresses: addresses.clone(), port, over });
        Ok((addresses, port))
    }
}

/// Addresses of this host on the routes to `host`. The far end adds the address from which ssh
/// came.
fn addresses_towards(host: &str, family: Family, stop: &StopSignal) -> Vec<IpAddr> {
    let cancel = stop.descriptor().ok();
    let patience =
        Patience { timeout: NAME_TIMEOUT, cancel: cancel.as_ref().map(|cancel: &StopDescriptor| cancel.as_fd()) };
    // A name that only ssh knows has none.
    let theirs = icdc_tcp::resolve(host, 9, patience).unwrap_or_default();
    let mut ours: Vec<IpAddr> = Vec::new();
    for address in theirs.into_iter().filter(|address| family.admits(address.ip())) {
        let Ok(address) = address_towards(address) else { continue };
        if !ours.contains(&address) && ours.len() < MAX_ADDRESSES {
            ours.push(address);
        }
    }
    ours
}

/// Source address of this host on the route to `theirs`. Connecting a UDP socket sends nothing: the
/// kernel only looks up the route.
fn address_towards(theirs: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if theirs.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(theirs)?;
    Ok(socket.local_addr()?.ip())
}

/// Registry of connections that were requested from the far end and have not arrived.
#[derive(Default)]
pub struct Expected {
    state: Mutex<ExpectedState>,
}

/// The connections that are expected, by number, and the number of the last.
#[derive(Default)]
struct ExpectedState {
    next: u32,
    waiting: HashMap<u32, Waiting>,
    /// Whether the far end has ended.
    is_over: bool,
}

/// An expected connection, as the registry has it: how it is recognized, and where it goes.
struct Waiting {
    /// First bytes of the connection: [`opening_of`] the secret.
    shown: Secret,
    tell: Sender<Result<TcpStream, String>>,
}

/// One expected connection, for the caller that requested it; dropping it ends the expectation.
struct Arrival<'a> {
    expected: &'a Expected,
    number: u32,
    secret: Secret,
    outcome: Receiver<Result<TcpStream, String>>,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        lock(&self.expected.state).waiting.remove(&self.number);
    }
}

impl Expected {
    /// Registers a connection that is going to be requested, with a new number and secret. An error
    /// if the far end is gone.
    fn expect(&self) -> Result<Arrival<'_>, String> {
        let mut secret = Secret::default();
        getrandom::fill(&mut secret[..]).map_err(|error| format!("no random bytes: {error}"))?;
        let (tell, outcome) = bounded(1);
        let mut state = lock(&self.state);
        if state.is_over {
            return Err("the far end is gone".to_owned());
        }
        state.next = state.next.wrapping_add(1);
        let number = state.next;
        state.waiting.insert(number, Waiting { shown: opening_of(&secret), tell });
        Ok(Arrival { expected: self, number, secret, outcome })
    }

    /// Number of the expected connection that begins with these bytes; `None` if there is none.
    fn number_of(&self, received: &Secret) -> Option<u32> {
        // Compared in constant time.
        let same =
            |known: &Secret| known.iter().zip(received).fold(0, |sum, (known, received)| sum | (known ^ received)) == 0;
        lock(&self.state).waiting.iter().find(|(_, waiting)| same(&waiting.shown)).map(|(number, _)| *number)
    }

    /// Reports that the far end cannot make connection `number`.
    pub fn fail(&self, number: u32, reason: String) {
        self.settle(number, Err(reason));
    }

    /// Hands connection `number`, or the reason why there is none, to the caller that waits for it;
    /// ignored if it is not expected any more.
    fn settle(&self, number: u32, outcome: Result<TcpStream, String>) {
        if let Some(waiting) = lock(&self.state).waiting.remove(&number) {
            // The caller may have given up.
            let _ = waiting.tell.send(outcome);
        }
    }

    /// Fails all expected connections and later requests, because the far end is gone.
    fn end(&self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        for (_, waiting) in state.waiting.drain() {
            let _ = waiting.tell.send(Err("the far end is gone".to_owned()));
        }
    }
}

/// Locks a mutex, also after a panic in another thread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Receives the far end's messages about connections that it cannot make, until its link ends.
fn receive_failures(mut inlet: Box<dyn Inlet>, expected: &Expected) {
    loop {
        match receive(inlet.as_mut()) {
            Ok(Message::NotConnected { number, reason }) => expected.fail(number, reason),
            Ok(Message::Ping) => {}
            Ok(other) => tracing::debug!("the far end sent {}", other.kind()),
            Err(error) => {
                tracing::debug!("the far end: {error}");
                return expected.end();
            }
        }
    }
}

/// An accepted connection that has not sent its whole secret yet.
struct Unauthenticated {
    stream: TcpStream,
    received: Vec<u8>,
    deadline: Time,
}

/// Progress of reading a connection's secret.
enum SecretRead {
    /// Some bytes of the secret are still to come.
    Part,
    /// The secret is complete.
    All(Secret),
    /// The connection ended or failed: no secret will come.
    Nothing,
}

/// Accepting thread: accepts connections until `over` is requested, and hands over those that begin
/// as expected.
fn admit(listener: &TcpListener, expected: &Expected, over: &StopDescriptor) {
    let mut waiting: Vec<Unauthenticated> = Vec::new();
    let mut starved = false;
    loop {
        let next = waiting.iter().map(|connection| connection.deadline).min();
        let next = next.into_iter().chain(starved.then(|| clock::now() + DESCRIPTORS_PAUSE)).min();
        match wait((!starved).then_some(listener), &waiting, over, next) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return tracing::debug!("poll: {error}"),
        }
        let now = clock::now();
        if waiting.len() == MAX_UNAUTHENTICATED {
            // Each was read from at least once, and so will the next ones be before any is closed
            // for others.
            waiting.drain(..MAX_UNAUTHENTICATED / 4);
        }
        starved = false;
        while waiting.len() < MAX_UNAUTHENTICATED {
            match listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    waiting.push(Unauthenticated {
                        stream,
                        received: Vec::new(),
                        deadline: now + UNAUTHENTICATED_TIMEOUT,
                    });
                }
                Ok(_) => {}
                Err(error) => {
                    let passing = [io::ErrorKind::WouldBlock, io::ErrorKind::ConnectionAborted];
                    starved = !passing.contains(&error.kind());
                    break;
                }
            }
        }
        for mut connection in std::mem::take(&mut waiting) {
            match connection.read_secret() {
                SecretRead::All(secret) => {
                    match (expected.number_of(&secret), connection.stream.set_nonblocking(false)) {
                        (Some(number), Ok(())) => expected.settle(number, Ok(connection.stream)),
                        _ => tracing::debug!("a connection with a wrong secret was closed"),
                    }
                }
                SecretRead::Part if connection.deadline > now => waiting.push(connection),
                SecretRead::Part | SecretRead::Nothing => tracing::debug!("a connection without a secret was closed"),
            }
        }
    }
}

impl Unauthenticated {
    /// Reads the bytes of the secret that have arrived, and none behind them; returns the
    /// progress.
    fn read_secret(&mut self) -> SecretRead {
        let mut secret = Secret::default();
        loop {
            let missing = secret.len() - self.received.len();
            match self.stream.read(&mut secret[..missing]) {
                Ok(0) => return SecretRead::Nothing,
                Ok(count) => self.received.extend_from_slice(&secret[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return SecretRead::Part,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return SecretRead::Nothing,
            }
            if let Ok(whole) = Secret::try_from(self.received.as_slice()) {
                return SecretRead::All(whole);
            }
        }
    }
}

/// Waits for input or until the time `until`; false once `over` is requested.
fn wait(
    listener: Option<&TcpListener>,
    waiting: &[Unauthenticated],
    over: &StopDescriptor,
    until: Option<Time>,
) -> io::Result<bool> {
    let listener = listener.map(|listener| PollFd::new(listener, PollFlags::IN));
    let streams = waiting.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN));
    let mut watched: Vec<_> = [PollFd::new(over, PollFlags::IN)].into_iter().chain(listener).chain(streams).collect();
    let timeout = until.and_then(|until| Timespec::try_from(Duration::from(until - clock::now())).ok());
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) => Ok(watched[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The first 32 bytes of a connection that the far end makes to this host: the SHA-256 of the
/// secret in the request. The hash keeps the requester from choosing the bytes that are written to
/// a port that may be another program's.
pub fn opening_of(secret: &[u8; 32]) -> [u8; 32] {
    let mut opening = [0; 32];
    opening.copy_from_slice(digest(&SHA256, secret).as_ref());
    opening
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn only_what_was_asked_for_is_taken_however_many_strangers_come() {
        let listener = icdc_tcp::listen(None, None, Family::V4, icdc_units::ByteCount::ZERO).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port()));
        listener.set_nonblocking(true).unwrap();
        let (expected, over) = (Arc::new(Expected::default()), StopSignal::new());
        let admitting = std::thread::spawn({
            let (expected, over) = (Arc::clone(&expected), over.descriptor().unwrap());
            move || admit(&listener, &expected, &over)
        });
        let arrivals = [expected.expect().unwrap(), expected.expect().unwrap()];
        let connect = |secret: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(secret).unwrap();
            stream
        };
        let _silent: Vec<TcpStream> = (0..2 * MAX_UNAUTHENTICATED).map(|_| connect(&[])).collect();
        let mut wrong = connect(&arrivals[0].secret);
        // What follows the secret stays where it is.
        let _second = connect(&[&opening_of(&arrivals[1].secret)[..], b"hello"].concat());
        let mut again = connect(&opening_of(&arrivals[1].secret));
        let _first = connect(&opening_of(&arrivals[0].secret));
        assert_eq!(wrong.read(&mut [0]).unwrap(), 0);
        arrivals[0].outcome.recv().unwrap().unwrap();
        let mut taken = arrivals[1].outcome.recv().unwrap().unwrap();
        let mut behind = [0; 5];
        taken.read_exact(&mut behind).unwrap();
        assert_eq!(&behind, b"hello");
        assert_eq!(again.read(&mut [0]).unwrap(), 0, "a secret counts once");
        over.request();
        admitting.join().unwrap();
        // A program that another test starts just now holds it until it is executed.
        let is_open = |_: &u32| {
            let _ = StopSignal::new().wait(Span::from_millis(20));
            TcpStream::connect(address).is_ok()
        };
        assert!((0..100).take_while(is_open).count() < 100, "the port is closed");
    }
}
