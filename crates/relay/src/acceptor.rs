//! The door: accepts connections, turns away whom the rules and limits do not admit, and gives each to a thread.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_tcp::clock;
use icdc_units::Span;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::config::{Config, Listener};
use crate::house::{House, count};
use crate::leg::canonical;
use crate::mailbox::{Guest, Letter, Mailbox};

/// Connections that are taken from one listener before the others have their turn.
const TURN: usize = 64;
/// Those who have to show a key or a password, and have not yet, may take this part of all places.
const STRANGERS: usize = 4;
/// Rest when descriptors have run out: those who wait are accepted later.
const EXHAUSTED: Span = Span::from_millis(100);

/// A listener and its socket.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) listener: Arc<Listener>,
    pub(crate) socket: Arc<TcpListener>,
}

/// What is open; changed from outside at any time.
pub(crate) struct Door {
    orders: Mutex<Orders>,
    bell: OwnedFd,
}

#[derive(Clone)]
struct Orders {
    open: Vec<Open>,
    config: Arc<Config>,
}

impl Door {
    /// Opens it, with a thread of its own.
    pub(crate) fn open(
        open: Vec<Open>,
        config: Arc<Config>,
        house: Arc<House>,
        mailboxes: Vec<Arc<Mailbox>>,
    ) -> io::Result<Arc<Self>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let door = Arc::new(Self { orders: Mutex::new(Orders { open, config }), bell });
        let acceptor = Acceptor { door: Arc::clone(&door), house, mailboxes, next: 0 };
        std::thread::Builder::new().name("relay-door".to_owned()).spawn(move || acceptor.run())?;
        Ok(door)
    }

    /// From now on these are open. Others are closed.
    pub(crate) fn change(&self, open: Vec<Open>, config: Arc<Config>) {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = Orders { open, config };
        self.ring();
    }

    /// From now on nothing is open.
    pub(crate) fn close(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).open.clear();
        self.ring();
    }

    fn ring(&self) {
        // It can only fail when it has been rung 2^64 times.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

struct Acceptor {
    door: Arc<Door>,
    house: Arc<House>,
    mailboxes: Vec<Arc<Mailbox>>,
    next: usize,
}

impl Acceptor {
    fn run(mut self) {
        let mut orders = self.orders();
        let mut exhausted = false;
        loop {
            let mut polled = vec![PollFd::new(&self.door.bell, PollFlags::IN)];
            if !exhausted {
                polled.extend(orders.open.iter().map(|open| PollFd::new(&*open.socket, PollFlags::IN)));
            }
            let rest = exhausted.then(|| clock::timespec(EXHAUSTED));
            if poll(&mut polled, rest.as_ref()).is_err() {
                continue;
            }
            exhausted = false;
            let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            drop(polled);
            for (open, _) in orders.open.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
                exhausted |= !self.accept(&open.socket);
            }
            if ready[0] {
                let _ = rustix::io::read(&self.door.bell, &mut [0; 8]);
                orders = self.orders();
            }
        }
    }

    fn orders(&self) -> Orders {
        self.door.orders.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The listener that this is the socket of, as it is now: whoever comes after a change has been announced keeps to that.
    fn order_for(&self, socket: &Arc<TcpListener>) -> Option<(Open, Arc<Config>)> {
        let orders = self.door.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let open = orders.open.iter().find(|open| Arc::ptr_eq(&open.socket, socket))?;
        Some((open.clone(), Arc::clone(&orders.config)))
    }

    /// Accepts who waits; false if there are no descriptors for them.
    fn accept(&mut self, listener: &Arc<TcpListener>) -> bool {
        for _ in 0..TURN {
            match accept_with(&**listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    // It is closed in this moment, and so is who came to it.
                    let Some((open, config)) = self.order_for(listener) else { return true };
                    count(&self.house.counters.accepted);
                    if let Err(why) = self.admit(socket.into(), &open, &config) {
                        count(&self.house.counters.turned_away);
                        tracing::info!(listener = open.listener.kind.word(), "turned away: {why}");
                    }
                }
                Err(Errno::AGAIN) => return true,
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    tracing::warn!("accept: {errno}; connections wait until others end");
                    return false;
                }
                // It went away before it was accepted.
                Err(_) => {}
            }
        }
        true
    }

    fn admit(&mut self, socket: TcpStream, open: &Open, config: &Arc<Config>) -> Result<(), String> {
        let client = canonical(socket.peer_addr().map_err(|error| error.to_string())?);
        if !config.rules.admits(&open.listener, client.ip()) {
            return Err(format!("{client}: no rule lets it in"));
        }
        let full = || format!("{client}: {} connections are the most", config.limits.connections);
        let mut place = self.house.clients.enter(config.limits.connections).ok_or_else(full)?;
        // A relay is a client until it has shown who it is; then its own clients are counted in its place.
        if !place.belongs_to(client.ip(), config.limits.per_client) {
            return Err(format!("{client}: {} connections are the most for one client", config.limits.per_client));
        }
        if open.listener.kind.wants_proof() && !place.is_of_a_stranger(config.limits.connections.div_ceil(STRANGERS)) {
            return Err(format!("{client}: too many have not shown a key or a password yet"));
        }
        let guest = Guest { socket, client, listener: Arc::clone(&open.listener), config: Arc::clone(config), place };
        self.next = (self.next + 1) % self.mailboxes.len();
        self.mailboxes[self.next].post(Letter::Guest(Box::new(guest)));
        Ok(())
    }
}
