//! The door of a listening end: lets connections in whose key is welcome, and is not hurt by others.
//!
//! ```text
//! accept → silent ──first byte──► handshake ──► welcomed ──first message──► known
//!            │ deadline, or the      │ deadline     │ deadline
//!            │ cap and the oldest    │              │
//!            ▼                       ▼              ▼
//!          closed                  closed         closed
//! ```
//!
//! * A silent connection costs a descriptor and an entry: no thread, no buffer.
//! * A handshake runs on a thread with a small stack at low priority, so that running transfers
//!   keep the processor.
//! * One deadline, counted from the accept, covers everything up to the first message.
//! * At most [`Limits::strangers`] connections are on this way. One more evicts the oldest silent one, so
//!   that a crowd that says nothing cannot keep out somebody who speaks at once.
//!
//! Everything that strangers do is logged at debug level only.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use icdc_disk::pool::BlockPool;
use icdc_units::{Span, Time};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::RecvFlags;

use crate::clock;
use crate::link::{Inlet, Link, LinkError, Parcel, secure_server};

/// Stack of a handshake thread. Only what it uses is ever backed by memory.
const HANDSHAKE_STACK: usize = 512 << 10;
/// Priority of a handshake: the processor goes to transfers first.
const HANDSHAKE_NICE: i32 = 10;
/// Pause when the process has no descriptor left for an accept.
const EXHAUSTED_PAUSE: Span = Span::from_millis(100);

/// A silent connection is not closed to make room before it has had so long to speak; others wait at the door.
const GRACE: Span = Span::from_millis(100);

/// What strangers are granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Time from the accept to the first message.
    pub(crate) patience: Span,
    /// Connections that may be on their way to the first message at a time.
    pub(crate) strangers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patience: Span::from_secs(10), strangers: 128 }
    }
}

/// What the guard guards.
pub(crate) trait House: Send + Sync + 'static {
    /// TLS for the next connection; its verifier has the first word about a key.
    fn tls(&self) -> Arc<rustls::ServerConfig>;

    /// Takes a connection whose handshake is through, on a thread of its own, and serves it to its end.
    /// Until its first message has arrived, the guard closes it when its time is over.
    fn welcome(&self, link: Link);
}

/// A running guard; dropping it closes the door, and leaves what runs inside alone.
pub(crate) struct Guard {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What the door, the handshakes and the guests share.
struct Shared {
    wake: OwnedFd,
    limits: Limits,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closing: bool,
    /// Connections that have spoken and not yet sent their first message, by number.
    talking: BTreeMap<u64, Talking>,
    /// Connections that are being served.
    guests: usize,
}

struct Talking {
    /// Shares the socket with whoever reads from it; shutting it down ends that.
    stream: TcpStream,
    deadline: Time,
}

impl Guard {
    /// Starts to accept from `listeners`.
    pub(crate) fn start(listeners: Vec<TcpListener>, house: Arc<dyn House>, limits: Limits) -> io::Result<Self> {
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        let shared = Arc::new(Shared {
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            limits,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (links, ready) = unbounded();
        let door = Door {
            listeners,
            house,
            shared: Arc::clone(&shared),
            silent: BTreeMap::new(),
            links,
            ready,
            next: 0,
            exhausted: false,
        };
        let thread = std::thread::Builder::new().name("guard".into()).spawn(move || door.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Stops accepting, and sends away whoever has not come in.
    pub(crate) fn close(&mut self) {
        self.shared.state().closing = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A guard that panicked has closed its listeners all the same.
            let _ = thread.join();
        }
    }

    /// Waits until every connection that was welcomed has been served; answers whether that came about.
    pub(crate) fn wait_for_guests(&self, patience: Span) -> bool {
        let timeout = Duration::from_nanos(patience.as_nanos());
        let busy = |state: &mut State| state.guests > 0;
        let result = self.shared.changed.wait_timeout_while(self.shared.state(), timeout, busy);
        !result.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the door.
    fn wake(&self) {
        // It fails only when the counter is full, and then the door wakes anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Forgets a connection that has become known, or is gone.
    fn forget(&self, number: u64) {
        self.state().talking.remove(&number);
        self.wake();
    }
}

/// The accept loop. It owns the silent connections.
struct Door {
    listeners: Vec<TcpListener>,
    house: Arc<dyn House>,
    shared: Arc<Shared>,
    /// By number; the smallest is the oldest.
    silent: BTreeMap<u64, (TcpStream, Time)>,
    links: Sender<(u64, Link)>,
    ready: Receiver<(u64, Link)>,
    next: u64,
    /// Nobody is accepted for a moment: the last accept failed for want of descriptors or memory, or too many newcomers are
    /// here.
    exhausted: bool,
}

impl Door {
    fn run(mut self) {
        while !self.shared.state().closing {
            for number in self.wait() {
                self.begin_handshake(number);
            }
            self.accept();
            while let Ok((number, link)) = self.ready.try_recv() {
                self.welcome(number, link);
            }
            self.close_late();
        }
        for talking in self.shared.state().talking.values() {
            let _ = talking.stream.shutdown(Shutdown::Both);
        }
    }

    /// Sleeps until something happens; answers the silent connections that have sent something, or left.
    fn wait(&self) -> Vec<u64> {
        let mut polled = vec![PollFd::new(&self.shared.wake, PollFlags::IN)];
        polled.extend(self.silent.values().map(|(stream, _)| PollFd::new(stream, PollFlags::IN)));
        if !self.exhausted {
            polled.extend(self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        }
        let _ = poll(&mut polled, self.timeout().as_ref());
        let spoke = polled[1..].iter().zip(self.silent.keys());
        let spoke = spoke.filter(|(polled, _)| !polled.revents().is_empty()).map(|(_, number)| *number).collect();
        let mut counter = [0; 8];
        // Nothing to read means that something else woke us.
        let _ = rustix::io::read(&self.shared.wake, &mut counter);
        spoke
    }

    /// Time to the next deadline.
    fn timeout(&self) -> Option<Timespec> {
        let talking = self.shared.state().talking.values().map(|talking| talking.deadline).min();
        let silent = self.silent.values().map(|(_, deadline)| *deadline).min();
        let deadline = talking.into_iter().chain(silent).min();
        let mut left = deadline.map(|deadline| deadline - clock::now());
        if self.exhausted {
            left = Some(left.map_or(EXHAUSTED_PAUSE, |left| left.min(EXHAUSTED_PAUSE)));
        }
        // Rounded up, so that the deadline has really passed afterwards.
        left.and_then(|left| Timespec::try_from(Duration::from_nanos(left.as_nanos()) + Duration::from_millis(1)).ok())
    }

    fn accept(&mut self) {
        self.exhausted = false;
        for index in 0..self.listeners.len() {
            loop {
                if self.is_full_of_newcomers() {
                    self.exhausted = true;
                    break;
                }
                match self.listeners[index].accept() {
                    Ok((stream, peer)) => {
                        tracing::debug!(%peer, "connected");
                        self.admit_stranger(stream);
                    }
                    Err(error) => match error.kind() {
                        io::ErrorKind::WouldBlock => break,
                        // The connection was gone before it was accepted; others wait behind it.
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                        _ => {
                            tracing::debug!("accept: {error}");
                            self.exhausted = true;
                            self.silent.pop_first();
                            break;
                        }
                    },
                }
            }
        }
    }

    /// Whether the next connection would cost one that has hardly had the time to say anything.
    fn is_full_of_newcomers(&self) -> bool {
        let Some((_, deadline)) = self.silent.values().next() else { return false };
        let talking = self.shared.state().talking.len();
        self.silent.len() + talking >= self.shared.limits.strangers
            && clock::now() + self.shared.limits.patience < *deadline + GRACE
    }

    fn admit_stranger(&mut self, stream: TcpStream) {
        let talking = self.shared.state().talking.len();
        if self.silent.len() + talking >= self.shared.limits.strangers {
            self.evict();
        }
        // The handshake and the link expect a blocking socket, whatever the listener is.
        if stream.set_nonblocking(false).is_ok() {
            self.silent.insert(self.next, (stream, clock::now() + self.shared.limits.patience));
            self.next += 1;
        }
    }

    /// Makes room: the oldest silent connection goes, else the oldest that has not come to its first message.
    fn evict(&mut self) {
        tracing::debug!("too many strangers: closed the oldest");
        if self.silent.pop_first().is_none()
            && let Some((_, talking)) = self.shared.state().talking.pop_first()
        {
            let _ = talking.stream.shutdown(Shutdown::Both);
        }
    }

    fn begin_handshake(&mut self, number: u64) {
        let Some((stream, deadline)) = self.silent.remove(&number) else {
            return;
        };
        // A port scan ends here: it has left, or reset the connection.
        let mut first = [0];
        let said = rustix::net::recv(&stream, &mut first[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        if !matches!(said, Ok((1, _))) {
            tracing::debug!("closed without a word");
            return;
        }
        let Ok(twin) = stream.try_clone() else { return };
        self.shared.state().talking.insert(number, Talking { stream: twin, deadline });
        let (shared, tls, links) = (Arc::clone(&self.shared), self.house.tls(), self.links.clone());
        let handshake = move || {
            let _ = rustix::process::setpriority_process(None, HANDSHAKE_NICE);
            match secure_server(stream, tls, deadline - clock::now()) {
                Ok(link) => {
                    let _ = links.send((number, link));
                    shared.wake();
                }
                Err(error) => {
                    tracing::debug!("no handshake: {error}");
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

    /// Hands a connection over. Its thread is started from here, because one that a handshake thread
    /// starts would inherit the low priority.
    fn welcome(&mut self, number: u64, link: Link) {
        {
            let mut state = self.shared.state();
            if !state.talking.contains_key(&number) {
                return;
            }
            state.guests += 1;
        }
        let Link { outlet, inlet, control } = link;
        let known = Known { number, shared: Arc::clone(&self.shared) };
        let link = Link { outlet, inlet: Box::new(FirstMessage { inlet, known: Some(known) }), control };
        let guest = Guest { shared: Arc::clone(&self.shared) };
        let house = Arc::clone(&self.house);
        let serve = move || {
            let _guest = guest;
            house.welcome(link);
        };
        if let Err(error) = std::thread::Builder::new().name("session".into()).spawn(serve) {
            tracing::warn!("cannot start a thread for a connection: {error}");
        }
    }

    fn close_late(&mut self) {
        let now = clock::now();
        self.silent.retain(|_, (_, deadline)| *deadline > now);
        self.shared.state().talking.retain(|_, talking| {
            let late = talking.deadline <= now;
            if late {
                tracing::debug!("closed: no request in time");
                let _ = talking.stream.shutdown(Shutdown::Both);
            }
            !late
        });
    }
}

/// Counts a connection that is being served.
struct Guest {
    shared: Arc<Shared>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.shared.state().guests -= 1;
        self.shared.changed.notify_all();
    }
}

/// The entry of a welcomed connection among those that still have to speak; dropping it strikes it out.
struct Known {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.shared.forget(self.number);
    }
}

/// Strikes the connection out when its first message has arrived.
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
}

#[cfg(test)]
mod tests;
