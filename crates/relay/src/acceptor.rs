//! Accepts connections, rejects those that rules and limits do not admit, and gives each of the
//! others to a worker.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_tcp::{canonical, clock};
use icdc_units::Span;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::config::{Config, Listener};
use crate::context::RelayContext;
use crate::counters::count;
use crate::mailbox::{Accepted, Mailbox, WorkerMessage};

/// Most connections that are accepted from one listener before the others have their turn.
const TURN: usize = 64;
/// Divisor: at most the limit of connections divided by this may have clients that have to show a
/// key or a password and have not yet.
const UNAUTHENTICATED_PART: usize = 4;
/// Pause when descriptors have run out.
const EXHAUSTED_PAUSE: Span = Span::from_millis(100);

/// A listener of the configuration and its open socket.
#[derive(Clone)]
pub(crate) struct OpenListener {
    pub(crate) listener: Arc<Listener>,
    pub(crate) socket: Arc<TcpListener>,
}

impl OpenListener {
    /// Local address: with a configured port of 0, the one that the kernel chose.
    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap_or(self.listener.address)
    }
}

/// Handle of the thread that accepts connections.
pub(crate) struct Acceptor {
    state: Mutex<Accepting>,
    wakeup: OwnedFd,
}

/// Open listeners and their configuration; replaced as a whole on a reload.
#[derive(Clone)]
struct Accepting {
    listeners: Vec<OpenListener>,
    config: Arc<Config>,
}

impl Acceptor {
    /// Starts the thread that accepts connections at the listeners and hands them to the workers.
    ///
    /// # Errors
    /// The kernel refuses a system call.
    pub(crate) fn start(
        listeners: Vec<OpenListener>,
        config: Arc<Config>,
        context: Arc<RelayContext>,
        mailboxes: Vec<Arc<Mailbox>>,
    ) -> io::Result<Arc<Self>> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let acceptor = Arc::new(Self { state: Mutex::new(Accepting { listeners, config }), wakeup });
        let accepting = AcceptLoop { acceptor: Arc::clone(&acceptor), context, mailboxes, next: 0 };
        std::thread::Builder::new().name("relay-accept".to_owned()).spawn(move || accepting.run())?;
        Ok(acceptor)
    }

    /// Accepts from these listeners only, and by this configuration, from now on; listeners that
    /// are not among them are closed.
    pub(crate) fn replace(&self, listeners: Vec<OpenListener>, config: Arc<Config>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Accepting { listeners, config };
        self.wake();
    }

    /// Closes all listeners; no further connection is accepted.
    pub(crate) fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).listeners.clear();
        self.wake();
    }

    fn wake(&self) {
        // It fails only when the counter is full, and then the thread wakes up anyway.
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }

    /// Copy of the present listeners and configuration.
    fn state(&self) -> Accepting {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The listener with this socket, as it is now: a connection that is accepted after a change
    /// keeps to the new configuration. `None` if it has been closed.
    fn current(&self, socket: &Arc<TcpListener>) -> Option<(OpenListener, Arc<Config>)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let open = state.listeners.iter().find(|open| Arc::ptr_eq(&open.socket, socket))?;
        Some((open.clone(), Arc::clone(&state.config)))
    }
}

/// State of the thread that accepts connections and gives them to the workers in turn.
struct AcceptLoop {
    acceptor: Arc<Acceptor>,
    context: Arc<RelayContext>,
    mailboxes: Vec<Arc<Mailbox>>,
    next: usize,
}

impl AcceptLoop {
    fn run(mut self) {
        let mut state = self.acceptor.state();
        let mut is_exhausted = false;
        loop {
            let mut polled = vec![PollFd::new(&self.acceptor.wakeup, PollFlags::IN)];
            if !is_exhausted {
                polled.extend(state.listeners.iter().map(|open| PollFd::new(&*open.socket, PollFlags::IN)));
            }
            let pause = is_exhausted.then(|| clock::timespec(EXHAUSTED_PAUSE));
            if poll(&mut polled, pause.as_ref()).is_err() {
                continue;
            }
            is_exhausted = false;
            let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            drop(polled);
            for (open, _) in state.listeners.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
                is_exhausted |= !self.accept(&open.socket);
            }
            if ready[0] {
                let _ = rustix::io::read(&self.acceptor.wakeup, &mut [0; 8]);
                state = self.acceptor.state();
            }
        }
    }

    /// Accepts up to [`TURN`] connections that wait at a listener; false if descriptors or memory
    /// have run out.
    fn accept(&mut self, listener: &Arc<TcpListener>) -> bool {
        for _ in 0..TURN {
            match accept_with(&**listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    // The listener has just been closed: so is the connection.
                    let Some((open, config)) = self.acceptor.current(listener) else { return true };
                    count(&self.context.counters.accepted);
                    if let Err(why) = self.admit(socket.into(), &open, &config) {
                        count(&self.context.counters.rejected);
                        tracing::info!(listener = open.listener.kind.name(), "rejected: {why}");
                    }
                }
                Err(Errno::AGAIN) => return true,
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    tracing::warn!("cannot accept: {errno}; new connections wait until others end");
                    return false;
                }
                // The client was gone before its connection was accepted.
                Err(_) => {}
            }
        }
        true
    }

    /// Gives a connection to a worker, if the rules admit its client and no limit is reached; the
    /// error is the reason for which it is rejected.
    fn admit(&mut self, socket: TcpStream, open: &OpenListener, config: &Arc<Config>) -> Result<(), String> {
        let client = canonical(socket.peer_addr().map_err(|error| error.to_string())?);
        if !config.rules.admits(&open.listener, client.ip()) {
            return Err(format!("{client}: no rule admits it"));
        }
        let limits = &config.limits;
        let full = || format!("{client}: the limit of {} connections is reached", limits.connections);
        let mut slot = self.context.clients.take_slot(limits.connections).ok_or_else(full)?;
        // A relay is counted as a client until it has shown who it is; then its own clients are.
        if !slot.assign_to(client.ip(), limits.per_client) {
            return Err(format!("{client}: the limit of {} connections of one client is reached", limits.per_client));
        }
        let most = limits.connections.div_ceil(UNAUTHENTICATED_PART);
        if open.listener.kind.requires_authentication() && !slot.mark_unauthenticated(most) {
            return Err(format!("{client}: the limit of {most} clients without a key or password shown is reached"));
        }
        let listener = Arc::clone(&open.listener);
        let accepted = Accepted { socket, client, listener, config: Arc::clone(config), slot };
        self.next = (self.next + 1) % self.mailboxes.len();
        self.mailboxes[self.next].post(WorkerMessage::Accepted(Box::new(accepted)));
        Ok(())
    }
}
