//! Connections that the far end makes to this host, where its own port cannot be reached.
//!
//! ```text
//! near end             listens on a port of its own
//! ssh     near → far   ConnectBack { secret, addresses, elsewhere, port }
//! TCP     far → near   SHA-256 of the secret; from then on it is a connection to the far end's port:
//!         near → far   ClientHello …
//! ```
//!
//! TLS with both keys pinned goes through it as by any other route. The secret, which differs for
//! each connection, only tells strangers apart before anything is said to them. Of those
//! [`MOST_STRANGERS`] may wait at once, each for [`STRANGER_PATIENCE`]; the first come go when
//! there are more. The port is open from the first use until the run ends.

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

/// How long the far end may take: its own limit for a connection, and what is said before and
/// after.
const PATIENCE: Span = Span::from_secs(20);
/// Connections that have not shown their secret yet.
const MOST_STRANGERS: usize = 128;
/// How long one may take to show it.
const STRANGER_PATIENCE: Span = Span::from_secs(10);
/// How long nobody is accepted once descriptors are lacking.
const STARVED_PAUSE: Span = Span::from_millis(100);
/// How long the far side's name may take.
const NAME_PATIENCE: Span = Span::from_secs(5);

type Secret = [u8; 32];

/// See the module's description.
#[derive(Clone)]
pub struct Back(Arc<Inner>);

struct Inner {
    host: String,
    /// Where to listen.
    ports: Ports,
    family: Family,
    /// To the far end, by ssh.
    writer: MessageWriter,
    /// From there; taken by the first use.
    inlet: Mutex<Option<Box<dyn Inlet>>>,
    listening: Mutex<Option<Listening>>,
    expected: Arc<Expected>,
}

/// Where the far end is to connect.
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
    /// Of the far end on `host` to which `writer` leads, and whose words come by `inlet`. `ports`
    /// are those of this host that may be used.
    pub(super) fn new(host: &str, ports: Ports, family: Family, writer: MessageWriter, inlet: Box<dyn Inlet>) -> Self {
        let (inlet, listening, expected) = (Mutex::new(Some(inlet)), Mutex::default(), Arc::default());
        Self(Arc::new(Inner { host: host.to_owned(), ports, family, writer, inlet, listening, expected }))
    }

    /// Of a far end on `host` to which others pass on what `writer` gets. They tell `expected` what
    /// it answers.
    pub fn passed_on(host: &str, ports: Ports, writer: MessageWriter, expected: &Arc<Expected>) -> Self {
        let (host, expected) = (host.to_owned(), Arc::clone(expected));
        let (family, inlet, listening) = (Family::Any, Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { host, ports, family, writer, inlet, listening, expected }))
    }

    /// Closes the port here: it is not going to be used. Who still wants to open it must have been
    /// asked to stop before.
    pub fn close(&self) {
        lock(&self.0.listening).take();
    }

    /// Has the far end connect, as often as it is called, from any thread.
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
        // Of a far end that this end has started itself, which may be on the same host. Who passes an
        // order on decides for its own one.
        let order = ConnectBack { number, secret, addresses, elsewhere: false, port };
        inner.writer.send(Message::ConnectBack(order));
        let _woken = stop.while_waiting({
            let expected = Arc::clone(&inner.expected);
            move || expected.settle(number, Err(String::new()))
        });
        let outcome = arrival.outcome.recv_timeout(PATIENCE.into());
        match outcome {
            _ if stop.is_requested() => Err(ConnectError::Interrupted),
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(reason)) => Err(failed(reason)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(failed(format!("nothing came to port {port} here within {PATIENCE}")))
            }
        }
    }
}

impl Inner {
    /// Listens, if nobody does yet; answers where.
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
                let heard = std::thread::Builder::new().name("far-end".into());
                heard.spawn(move || hear(inlet, &expected))?;
            }
            Ok((port, over))
        };
        let (port, over) = start().map_err(|error| format!("cannot listen here: {error}"))?;
        let addresses = addresses_towards(&self.host, self.family, stop);
        *listening = Some(Listening { addresses: addresses.clone(), port, over });
        Ok((addresses, port))
    }
}

/// Addresses of this host on the routes to `host`. The far end knows one more: that from which ssh
/// came.
fn addresses_towards(host: &str, family: Family, stop: &StopSignal) -> Vec<IpAddr> {
    let cancel = stop.descriptor().ok();
    let patience =
        Patience { timeout: NAME_PATIENCE, cancel: cancel.as_ref().map(|cancel: &StopDescriptor| cancel.as_fd()) };
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

/// Nothing is sent: the kernel only looks at its routes.
fn address_towards(theirs: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if theirs.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(theirs)?;
    Ok(socket.local_addr()?.ip())
}

/// Connections that were asked for and have not come.
#[derive(Default)]
pub struct Expected {
    state: Mutex<ExpectedState>,
}

#[derive(Default)]
struct ExpectedState {
    next: u32,
    waiting: HashMap<u32, Waiting>,
    /// The far end is gone.
    is_over: bool,
}

struct Waiting {
    /// What it will begin with.
    shown: Secret,
    tell: Sender<Result<TcpStream, String>>,
}

/// One of them, for who asked; forgotten when dropped.
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

    /// Whose secret this is.
    fn number_of(&self, said: &Secret) -> Option<u32> {
        // In a time that does not tell where the first difference is.
        let same = |known: &Secret| known.iter().zip(said).fold(0, |sum, (known, said)| sum | (known ^ said)) == 0;
        lock(&self.state).waiting.iter().find(|(_, waiting)| same(&waiting.shown)).map(|(number, _)| *number)
    }

    /// The far end cannot make one of them.
    pub fn fail(&self, number: u32, reason: String) {
        self.settle(number, Err(reason));
    }

    fn settle(&self, number: u32, outcome: Result<TcpStream, String>) {
        if let Some(waiting) = lock(&self.state).waiting.remove(&number) {
            // Who asked may have given up.
            let _ = waiting.tell.send(outcome);
        }
    }

    fn end(&self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        for (_, waiting) in state.waiting.drain() {
            let _ = waiting.tell.send(Err("the far end is gone".to_owned()));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hears what the far end says of connections that it cannot make.
fn hear(mut inlet: Box<dyn Inlet>, expected: &Expected) {
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

/// A connection that has shown a part of its secret.
struct Stranger {
    stream: TcpStream,
    said: Vec<u8>,
    deadline: Time,
}

/// What has become of one.
enum Shown {
    Part,
    All(Secret),
    Nothing,
}

/// Accepts connections until it is over, and hands on those whose secret is expected.
fn admit(listener: &TcpListener, expected: &Expected, over: &StopDescriptor) {
    let mut strangers: Vec<Stranger> = Vec::new();
    let mut starved = false;
    loop {
        let next = strangers.iter().map(|stranger| stranger.deadline).min();
        let next = next.into_iter().chain(starved.then(|| clock::now() + STARVED_PAUSE)).min();
        match wait((!starved).then_some(listener), &strangers, over, next) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return tracing::debug!("poll: {error}"),
        }
        let now = clock::now();
        if strangers.len() == MOST_STRANGERS {
            // All of them were heard; whoever comes next is heard as well before anybody has to go
            // for others.
            strangers.drain(..MOST_STRANGERS / 4);
        }
        starved = false;
        while strangers.len() < MOST_STRANGERS {
            match listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    strangers.push(Stranger { stream, said: Vec::new(), deadline: now + STRANGER_PATIENCE });
                }
                Ok(_) => {}
                Err(error) => {
                    let passing = [io::ErrorKind::WouldBlock, io::ErrorKind::ConnectionAborted];
                    starved = !passing.contains(&error.kind());
                    break;
                }
            }
        }
        for mut stranger in std::mem::take(&mut strangers) {
            match stranger.hear() {
                Shown::All(secret) => match (expected.number_of(&secret), stranger.stream.set_nonblocking(false)) {
                    (Some(number), Ok(())) => expected.settle(number, Ok(stranger.stream)),
                    _ => tracing::debug!("a connection with a wrong secret was closed"),
                },
                Shown::Part if stranger.deadline > now => strangers.push(stranger),
                Shown::Part | Shown::Nothing => tracing::debug!("a connection without a secret was closed"),
            }
        }
    }
}

impl Stranger {
    /// Reads what is there of the secret, and nothing behind it.
    fn hear(&mut self) -> Shown {
        let mut secret = Secret::default();
        loop {
            let missing = secret.len() - self.said.len();
            match self.stream.read(&mut secret[..missing]) {
                Ok(0) => return Shown::Nothing,
                Ok(count) => self.said.extend_from_slice(&secret[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Shown::Part,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Shown::Nothing,
            }
            if let Ok(whole) = Secret::try_from(self.said.as_slice()) {
                return Shown::All(whole);
            }
        }
    }
}

/// Whether something has come or a deadline has passed; false once it is over.
fn wait(
    listener: Option<&TcpListener>,
    strangers: &[Stranger],
    over: &StopDescriptor,
    until: Option<Time>,
) -> io::Result<bool> {
    let listener = listener.map(|listener| PollFd::new(listener, PollFlags::IN));
    let streams = strangers.iter().map(|stranger| PollFd::new(&stranger.stream, PollFlags::IN));
    let mut watched: Vec<_> = [PollFd::new(over, PollFlags::IN)].into_iter().chain(listener).chain(streams).collect();
    let timeout = until.and_then(|until| Timespec::try_from(Duration::from(until - clock::now())).ok());
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) => Ok(watched[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The first 32 bytes of a connection that the far end makes to this host: the SHA-256 of the secret that it was asked
/// with. Whoever asks must not choose what is written to a port that may be another's.
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
        let _silent: Vec<TcpStream> = (0..2 * MOST_STRANGERS).map(|_| connect(&[])).collect();
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
