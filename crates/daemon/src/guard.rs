//! Accepts the connections of a listening end, and protects it from clients that do not
//! authenticate.
//!
//! ```text
//! accept → silent ──whole hello──► waiting ──turn──► handshake ──► served ──first message──► known
//!            │ deadline, or the limit │                 │ deadline, or another needs its place
//!            ▼                        ▼                 ▼
//!          closed                   closed            closed
//! ```
//!
//! * A connection that is silent or waits costs a descriptor and an entry: no thread, no buffer, no
//!   key exchange. That its address is real, TCP's own handshake has shown; a cookie of TLS
//!   (HelloRetryRequest) would show no more.
//! * A handshake begins when the whole ClientHello has arrived. It runs on a thread with a small
//!   stack at low priority, so that running transfers keep the processor.
//! * One deadline, counted from the accept, covers everything up to the first message.
//! * A data connection of a measurement shows a proof in place of a ClientHello, and goes to the
//!   session that expects it.
//! * [`unauthenticated`] shares the limits between addresses and prefixes.
//!
//! Unauthenticated clients cause log lines at debug level only.

mod origin;
mod unauthenticated;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use icdc_disk::pool::BlockPool;
use icdc_limits::thread::start;
use icdc_link::{Carrier, Inlet, InletState, Link, LinkError, Parcel, secure_server};
use icdc_protocol::Message;
use icdc_protocol::measure::{DATA_MAGIC, DATA_OPENING};
use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_tcp::clock;
use icdc_units::{Span, Time};
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::net::RecvFlags;
use rustix::process::{Resource, getrlimit};

pub(crate) use self::unauthenticated::Limits;

use self::unauthenticated::{Step, Unauthenticated};

/// Stack of a handshake thread, in bytes. Only what it uses is ever backed by memory.
const HANDSHAKE_STACK: usize = 512 << 10;
/// Nice value of a handshake thread: the processor goes to transfers first.
const HANDSHAKE_NICE: i32 = 10;
/// Pause in accepting when the process has no descriptor left.
const EXHAUSTED_PAUSE: Span = Span::from_millis(100);
/// Most connections that are accepted in a row before others are looked after.
const ACCEPTED_AT_ONCE: usize = 256;
/// Most events of epoll that are processed at once.
const EVENTS: usize = 256;
/// Token in epoll of the descriptor that wakes the guard; connections count from zero.
const WAKE: u64 = u64::MAX;
/// Token in epoll of the first listener; further ones count down.
const LISTENER: u64 = u64::MAX - 1;
/// Length of a TLS record's header in bytes (RFC 8446 section 5).
const HEADER: usize = 5;
/// Length of the longest TLS record in bytes, its header included.
const MAX_RECORD: usize = HEADER + (1 << 14);

/// A service for the connections that a guard has accepted.
pub(crate) trait Service: Send + Sync + 'static {
    /// TLS configuration for the next connection; its verifier may refuse a key in the handshake.
    fn tls(&self) -> Arc<rustls::ServerConfig>;

    /// Counts a handshake that has ended; `_is_complete`: both ends know each other's key now.
    fn count_handshake(&self, _is_complete: bool) {}

    /// Counts a connection that was closed because it has not authenticated in time, has made room
    /// for others, or does not speak TLS.
    fn count_unauthenticated(&self) {}

    /// Serves a connection whose handshake is complete to its end, on a thread of its own. Until
    /// its first message has arrived, the guard closes it at its deadline.
    fn serve(&self, link: Link);

    /// Called for a client that has no version of the protocol in common with this end; each end
    /// has told the other its versions.
    fn without_version(&self, peer: &str, error: &LinkError) {
        tracing::debug!(peer, "no session: {error}");
    }

    /// Accepts a data connection of a measurement, which a known client has asked for: its opening
    /// ([`DATA_OPENING`]) has arrived and was not read. A connection with a wrong proof is closed.
    fn take_data(&self, stream: TcpStream);
}

/// Accept loop of a listening end, on a thread of its own: hands connections whose TLS handshake is
/// complete to a [`Service`], and limits those that do not authenticate. Dropping it stops
/// accepting; connections that are being served go on.
pub(crate) struct Guard {
    shared: Arc<GuardShared>,
    adopted: Sender<Carrier>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Handle that passes connections to a guard that it has not accepted itself, and treats as those that it has: made by this
/// end, or over datagrams.
#[derive(Clone)]
pub(crate) struct Adoption {
    shared: Arc<GuardShared>,
    streams: Sender<Carrier>,
}

impl Adoption {
    /// Passes a connection to the guard.
    pub(crate) fn adopt(&self, stream: Carrier) {
        // A guard that is closed serves nobody.
        let _ = self.streams.send(stream);
        self.shared.wake();
    }
}

/// State shared by the accept loop, the handshakes and the connections that are being served.
struct GuardShared {
    wake: OwnedFd,
    state: Mutex<GuardState>,
    changed: Condvar,
}

/// Connections of a guard, and the state of its accept loop.
struct GuardState {
    closing: bool,
    /// Whether the accept loop has been asked for a sign of life, and has not given one yet.
    asked: bool,
    /// Connections that have not sent their first message.
    unauthenticated: Unauthenticated,
    /// The unauthenticated connections in or after their handshake. The socket is shared with the
    /// thread that reads from it: shutting it down ends the read.
    talking: HashMap<u64, Carrier>,
    /// Number of connections that are being served.
    served: usize,
}

impl GuardState {
    /// Ends a connection that is in or after its handshake.
    fn break_off(&mut self, number: u64) {
        if let Some(stream) = self.talking.remove(&number) {
            // It fails if the peer was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Guard {
    /// Starts to accept from `listeners`.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn start(listeners: Vec<TcpListener>, service: Arc<dyn Service>, limits: Limits) -> io::Result<Self> {
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        let unauthenticated = Unauthenticated::new(within_descriptors(limits));
        let state = GuardState { closing: false, asked: false, unauthenticated, talking: HashMap::new(), served: 0 };
        let shared = Arc::new(GuardShared {
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let (adopted, streams) = unbounded();
        let accepting = AcceptLoop::new(listeners, service, Arc::clone(&shared), streams)?;
        let thread = std::thread::Builder::new().name("guard".into()).spawn(move || accepting.run())?;
        Ok(Self { shared, adopted, thread: Some(thread) })
    }

    /// A handle that passes further connections to this guard.
    pub(crate) fn adoption(&self) -> Adoption {
        Adoption { shared: Arc::clone(&self.shared), streams: self.adopted.clone() }
    }

    /// Number of connections that have not sent their first message.
    pub(crate) fn unauthenticated(&self) -> usize {
        self.shared.state().unauthenticated.count()
    }

    /// Whether the accept loop still runs: it has been asked and has answered since the last call,
    /// or no time was left for an answer.
    pub(crate) fn is_alive(&self) -> bool {
        let mut state = self.shared.state();
        let has_answered = state.closing || !state.asked;
        state.asked = true;
        drop(state);
        self.shared.wake();
        has_answered
    }

    /// Stops accepting, and closes connections that are not being served yet.
    pub(crate) fn close(&mut self) {
        self.shared.state().closing = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A guard that panicked has closed its listeners all the same.
            let _ = thread.join();
        }
    }

    /// Waits until every connection has been served, for at most `timeout`; returns whether all
    /// have.
    pub(crate) fn wait_until_served(&self, timeout: Span) -> bool {
        let timeout = Duration::from_nanos(timeout.as_nanos());
        let busy = |state: &mut GuardState| state.served > 0;
        let result = self.shared.changed.wait_timeout_while(self.shared.state(), timeout, busy);
        !result.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.close();
    }
}

impl GuardShared {
    fn state(&self) -> MutexGuard<'_, GuardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the accept loop.
    fn wake(&self) {
        // It fails only when the counter is full, and then the loop wakes up anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Forgets a connection that has become known, or is gone.
    fn forget(&self, number: u64) {
        {
            let mut state = self.state();
            state.unauthenticated.forget(number);
            state.talking.remove(&number);
        }
        self.wake();
    }
}

/// Limits connections without authentication to a quarter of the descriptors; the rest is for
/// transfers.
fn within_descriptors(limits: Limits) -> Limits {
    let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize / 4);
    Limits { connections: limits.connections.min(most.max(1)), ..limits }
}

/// The thread that accepts connections. It owns those that are silent or wait for a handshake.
struct AcceptLoop {
    listeners: Vec<TcpListener>,
    service: Arc<dyn Service>,
    shared: Arc<GuardShared>,
    epoll: OwnedFd,
    quiet: HashMap<u64, Carrier>,
    links: Sender<(u64, Link)>,
    ready: Receiver<(u64, Link)>,
    /// Connections that the guard has not accepted itself.
    adopted: Receiver<Carrier>,
    /// End of a pause in accepting, after an accept that failed for want of descriptors or memory;
    /// `None` if there is none.
    paused: Option<Time>,
}

impl AcceptLoop {
    fn new(
        listeners: Vec<TcpListener>,
        service: Arc<dyn Service>,
        shared: Arc<GuardShared>,
        adopted: Receiver<Carrier>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &shared.wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        for (token, listener) in listening(&listeners) {
            epoll::add(&epoll, listener, token, epoll::EventFlags::IN)?;
        }
        let (links, ready) = unbounded();
        Ok(Self { listeners, service, shared, epoll, quiet: HashMap::new(), links, ready, adopted, paused: None })
    }

    fn run(mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        while !self.shared.state().closing {
            events.clear();
            // An interrupted wait has no events, and the round does no harm.
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), self.timeout().as_ref());
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        // Nothing to read means that another round has taken it.
                        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
                    }
                    number if self.quiet.contains_key(&number) => self.look_at(number, event.flags),
                    _ => {}
                }
            }
            self.accept();
            while let Ok(stream) = self.adopted.try_recv() {
                if let Some(peer) = stream.address() {
                    self.admit_unauthenticated(stream, peer.ip());
                }
            }
            while let Ok((number, link)) = self.ready.try_recv() {
                self.serve(number, link);
            }
            self.advance();
            self.shared.state().asked = false;
        }
        for stream in self.shared.state().talking.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Time until the next timed action; `None` if there is none.
    fn timeout(&self) -> Option<Timespec> {
        let next = self.shared.state().unauthenticated.next_event();
        let left = next.into_iter().chain(self.paused).min()? - clock::now();
        // Rounded up, so that the time has really come afterwards.
        Timespec::try_from(Duration::from_nanos(left.as_nanos()) + Duration::from_micros(1)).ok()
    }

    /// Accepts the connections that wait at the listeners. If descriptors or memory have run out,
    /// closes an unauthenticated one and pauses.
    fn accept(&mut self) {
        match self.paused {
            Some(until) if clock::now() < until => return,
            Some(_) => self.pause(false),
            None => {}
        }
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTED_AT_ONCE {
                match self.listeners[index].accept() {
                    Ok((stream, peer)) => {
                        tracing::debug!(%peer, "connected");
                        // The handshake and the link expect a blocking socket, whatever the listener is.
                        match stream.set_nonblocking(false) {
                            Ok(()) => self.admit_unauthenticated(stream.into(), peer.ip()),
                            Err(error) => tracing::debug!("accept: {error}"),
                        }
                    }
                    Err(error) => match error.kind() {
                        io::ErrorKind::WouldBlock => break,
                        // The connection was gone before it was accepted; others wait behind it.
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                        _ => {
                            tracing::debug!("accept: {error}");
                            let evicted = self.shared.state().unauthenticated.evict();
                            evicted.into_iter().for_each(|number| self.close(number));
                            self.pause(true);
                            return;
                        }
                    },
                }
            }
        }
    }

    /// Stops accepting for [`EXHAUSTED_PAUSE`], or accepts again.
    fn pause(&mut self, pause: bool) {
        self.paused = pause.then(|| clock::now() + EXHAUSTED_PAUSE);
        let interest = if pause { epoll::EventFlags::empty() } else { epoll::EventFlags::IN };
        for (token, listener) in listening(&self.listeners) {
            if let Err(error) = epoll::modify(&self.epoll, listener, token, interest) {
                tracing::debug!("epoll: {error}");
            }
        }
    }

    /// Adds a connection to the silent ones, which are watched for a whole ClientHello; closes
    /// another one if there are too many.
    fn admit_unauthenticated(&mut self, stream: Carrier, address: IpAddr) {
        let (number, evicted) = self.shared.state().unauthenticated.arrive(address.into(), clock::now());
        let interest = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        match epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(number), interest) {
            Ok(()) => {
                self.quiet.insert(number, stream);
            }
            Err(error) => {
                tracing::debug!("accept: {error}");
                self.shared.state().unauthenticated.forget(number);
            }
        }
        if let Some(evicted) = evicted {
            tracing::debug!("too many unauthenticated connections: closed one of the prefix with the most");
            self.close(evicted);
        }
    }

    /// Handles an event of a silent connection, which has sent something or has closed.
    fn look_at(&mut self, number: u64, flags: epoll::EventFlags) {
        let Some(stream) = self.quiet.get(&number) else { return };
        let gone = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        match hello(stream) {
            // A port scan ends here: it has left, or reset the connection.
            _ if flags.intersects(gone) => self.turn_away(number, "closed before a handshake"),
            Hello::Foreign => {
                self.service.count_unauthenticated();
                self.turn_away(number, "it does not speak TLS");
            }
            Hello::Partial => {}
            Hello::Data => {
                self.shared.state().unauthenticated.forget(number);
                if let Some(stream) = self.quiet.remove(&number) {
                    let _ = epoll::delete(&self.epoll, &stream);
                    // Measurements are of TCP.
                    if let Some(stream) = stream.into_tcp() {
                        self.service.take_data(stream);
                    }
                }
            }
            Hello::Whole => self.shared.state().unauthenticated.spoke(number),
        }
    }

    /// Closes a silent connection, for the reason `why`.
    fn turn_away(&mut self, number: u64, why: &str) {
        tracing::debug!("{why}");
        self.shared.state().unauthenticated.forget(number);
        self.quiet.remove(&number);
    }

    /// Closes a connection that [`Unauthenticated`] has removed.
    fn close(&mut self, number: u64) {
        self.service.count_unauthenticated();
        if self.quiet.remove(&number).is_none() {
            self.shared.state().break_off(number);
        }
    }

    /// Carries out what is due: begins handshakes, and closes late connections.
    fn advance(&mut self) {
        let steps = self.shared.state().unauthenticated.advance(clock::now());
        for step in steps {
            match step {
                Step::Begin(number) => self.begin_handshake(number),
                Step::Close(number) => {
                    tracing::debug!("closed: no request in time, or others were waiting");
                    self.close(number);
                }
            }
        }
    }

    /// Starts the TLS handshake of a connection that waits for it, on a thread of its own.
    fn begin_handshake(&mut self, number: u64) {
        let Some(stream) = self.quiet.remove(&number) else {
            self.shared.state().unauthenticated.forget(number);
            return;
        };
        let twin = stream.clone();
        // From here on the thread waits for it.
        let _ = epoll::delete(&self.epoll, &stream);
        let deadline = {
            let mut state = self.shared.state();
            state.talking.insert(number, twin);
            state.unauthenticated.deadline(number).unwrap_or_else(clock::now)
        };
        let (shared, tls, links) = (Arc::clone(&self.shared), self.service.tls(), self.links.clone());
        let service = Arc::clone(&self.service);
        let handshake = move || {
            let _ = rustix::process::setpriority_process(None, HANDSHAKE_NICE);
            let shaken = secure_server(stream, tls, deadline - clock::now());
            service.count_handshake(shaken.is_ok());
            match shaken {
                Ok(link) => {
                    let _ = links.send((number, link));
                    shared.wake();
                }
                Err(error) => {
                    match &error {
                        LinkError::OtherVersions { peer, .. } => service.without_version(peer, &error),
                        _ => tracing::debug!("no handshake: {error}"),
                    }
                    shared.forget(number);
                }
            }
        };
        let thread = std::thread::Builder::new().name("handshake".into()).stack_size(HANDSHAKE_STACK);
        if let Err(error) = thread.spawn(handshake) {
            tracing::debug!("cannot start a handshake: {error}");
            self.shared.forget(number);
        }
    }

    /// Serves a connection on a thread of its own. That is started from here, because a thread that
    /// a handshake thread starts would inherit the low priority.
    fn serve(&mut self, number: u64, link: Link) {
        {
            let mut state = self.shared.state();
            if !state.unauthenticated.contains(number) {
                return;
            }
            state.served += 1;
        }
        let Link { outlet, inlet, control } = link;
        let known = Known { number, shared: Arc::clone(&self.shared) };
        let link = Link { outlet, inlet: Box::new(FirstMessage { inlet, known: Some(known) }), control };
        let served = Served { shared: Arc::clone(&self.shared) };
        let service = Arc::clone(&self.service);
        // It is handed over once its thread is there, so that its client can be told if there is
        // none.
        let (hand, handed) = bounded::<Link>(1);
        let serve = move || {
            let _served = served;
            if let Ok(link) = handed.recv() {
                service.serve(link);
            }
        };
        match start("session", serve) {
            // It waits for just this.
            Ok(_) => drop(hand.send(link)),
            Err(error) => {
                tracing::warn!("no thread for a connection: {error}");
                turn_away(link, Refusal::new(RefusalKind::Internal, format!("the far end {error}")));
            }
        }
    }
}

/// Sends a client, whose request has not been read, the reason why it is not served. The request
/// stays unread: this thread does not wait.
fn turn_away(mut link: Link, refusal: Refusal) {
    let told = link.outlet.send(Message::Refused(refusal).into()).and_then(|()| link.outlet.flush());
    if let Err(error) = told {
        tracing::debug!("refusing: {error}");
    }
}

/// The listeners with their tokens in epoll.
fn listening(listeners: &[TcpListener]) -> impl Iterator<Item = (epoll::EventData, &TcpListener)> {
    listeners.iter().enumerate().map(|(index, listener)| (epoll::EventData::new_u64(LISTENER - index as u64), listener))
}

/// Kind of the first bytes of a connection, as far as they have arrived.
enum Hello {
    /// Too little has arrived to tell.
    Partial,
    /// The whole first TLS record, which holds the ClientHello.
    Whole,
    /// The opening of a data connection of a measurement.
    Data,
    /// Something else, which is not served.
    Foreign,
}

/// Classifies the bytes that have arrived, without reading them.
fn hello(stream: impl AsFd) -> Hello {
    let mut header = [0; HEADER];
    match rustix::net::recv(&stream, &mut header[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((count, _)) if count < HEADER => Hello::Partial,
        // A record of the handshake, of any version that begins with 3.
        Ok(_) if header[0] == 22 && header[1] == 3 => {
            let length = HEADER + usize::from(u16::from_be_bytes([header[3], header[4]]));
            let arrived = rustix::io::ioctl_fionread(&stream).unwrap_or(0);
            match arrived >= length as u64 {
                _ if length > MAX_RECORD => Hello::Foreign,
                true => Hello::Whole,
                false => Hello::Partial,
            }
        }
        Ok(_) if header == DATA_MAGIC => match rustix::io::ioctl_fionread(&stream) {
            Ok(arrived) if arrived >= DATA_OPENING as u64 => Hello::Data,
            _ => Hello::Partial,
        },
        Err(rustix::io::Errno::AGAIN) => Hello::Partial,
        Ok(_) | Err(_) => Hello::Foreign,
    }
}

/// Guard object that counts a connection as being served until it is dropped.
struct Served {
    shared: Arc<GuardShared>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shared.state().served -= 1;
        self.shared.changed.notify_all();
    }
}

/// The entry of a connection among those without a first message; dropping it removes the entry.
struct Known {
    number: u64,
    shared: Arc<GuardShared>,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.shared.forget(self.number);
    }
}

/// Inlet that removes its connection's entry when the first message has arrived.
struct FirstMessage {
    inlet: Box<dyn Inlet>,
    known: Option<Known>,
}

impl Inlet for FirstMessage {
    fn receive(&mut self, pool: &BlockPool) -> Result<Parcel, LinkError> {
        let received = self.inlet.receive(pool);
        drop(self.known.take());
        received
    }

    fn hand_over(self: Box<Self>) -> Option<InletState> {
        self.inlet.hand_over()
    }
}

#[cfg(test)]
mod tests;
