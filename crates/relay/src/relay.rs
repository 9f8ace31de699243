//! The whole relay: started, changed while it runs, asked, stopped.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_protocol::relay::peer::RelayId;
use icdc_tcp::CongestionError;
use icdc_tcp::algorithm::{Hold, choose_in_advance};
use icdc_tcp::clock;
use icdc_units::{ByteCount, Span};
use thiserror::Error;

use crate::acceptor::{Door, Open};
use crate::config::{Config, ListenerKind};
use crate::house::House;
use crate::mailbox::{Letter, Mailbox};
use crate::resolver::Resolver;
use crate::socket::{self, OpenError};
use crate::status::{ConnectionStatus, ListenerStatus, Status, Totals};
use crate::tell::{self, TellError};
use crate::worker::Worker;

/// How long a thread has to tell about its connections.
const ANSWER: Span = Span::from_secs(5);
/// The congestion control of legs between relays where none is named, if it can be loaded.
const BEST: &str = "icdc";

/// A relay does not start, or does not take a configuration.
#[derive(Debug, Error)]
pub enum RelayError {
    /// A listener cannot be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The congestion control is unknown.
    #[error("leg congestion: {0}")]
    Congestion(#[from] CongestionError),
    /// Nobody could ask.
    #[error(transparent)]
    Tell(#[from] TellError),
    /// No thread or descriptor.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    /// The kind of a listener cannot change while it listens.
    #[error("{address} cannot become {kind} while it listens: restart the relay")]
    OtherKind {
        /// The listener's address.
        address: SocketAddr,
        /// The new kind.
        kind: &'static str,
    },
}

/// A running relay. Dropping it leaves it running; [`Relay::stop`] ends it.
pub struct Relay {
    shared: Arc<Shared>,
}

/// What those who answer questions need.
pub(crate) struct Shared {
    pub(crate) house: Arc<House>,
    mailboxes: Vec<Arc<Mailbox>>,
    door: Arc<Door>,
    open: Mutex<Vec<Open>>,
}

impl Relay {
    /// Starts listening and moving data.
    ///
    /// # Errors
    /// See [`RelayError`].
    pub fn start(mut config: Config) -> Result<Self, RelayError> {
        icdc_tcp::raise_descriptor_limit();
        let hold = settle_congestion(&mut config)?;
        let config = Arc::new(config);
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(io::Error::from)?;
        let id = RelayId(u64::from_ne_bytes(random));
        let mut passed = icdc_tcp::passed_listeners();
        let open = open_listeners(&config, &[], &mut passed)?;
        for address in passed.iter().filter_map(|socket| socket.local_addr().ok()) {
            tracing::warn!(%address, "a socket was passed for which the configuration has no listener");
        }
        let house = Arc::new(House::new(id, clock::now(), Resolver::start()?, config.threads));
        house.listens_on(addresses(&open));
        house.congestion.keep(hold);
        house.rooms.resize(config.limits.memory);
        let mut mailboxes = Vec::new();
        for number in 0..config.threads {
            let mailbox = Arc::new(Mailbox::new()?);
            Worker::start(number, Arc::clone(&house), Arc::clone(&mailbox), Arc::clone(&config))?;
            mailboxes.push(mailbox);
        }
        let door = Door::open(open.clone(), Arc::clone(&config), Arc::clone(&house), mailboxes.clone())?;
        let shared = Arc::new(Shared { house, mailboxes, door, open: Mutex::new(open) });
        if let Some(path) = &config.status {
            tell::on_unix_socket(path, &shared)?;
        }
        if let Some(address) = config.metrics {
            tell::metrics(address, &shared)?;
        }
        shared.announce();
        Ok(Self { shared })
    }

    /// Takes another configuration: connections go on as they are, new ones keep to it. The threads and where
    /// the status and the metrics are told stay as they were.
    ///
    /// # Errors
    /// See [`RelayError`]; then nothing has changed.
    pub fn reload(&self, mut config: Config) -> Result<(), RelayError> {
        let hold = settle_congestion(&mut config)?;
        config.threads = self.shared.mailboxes.len();
        let config = Arc::new(config);
        {
            let mut open = self.shared.open();
            *open = open_listeners(&config, &open, &mut Vec::new())?;
            for Open { socket, listener } in &*open {
                if let Err(error) = socket::settle(socket, listener, &config) {
                    tracing::warn!("{error}; what comes there is as before");
                }
            }
            self.shared.house.congestion.keep(hold);
            self.shared.house.rooms.resize(config.limits.memory);
            self.shared.house.listens_on(addresses(&open));
            self.shared.door.change(open.clone(), Arc::clone(&config));
        }
        for mailbox in &self.shared.mailboxes {
            mailbox.post(Letter::Configured(Arc::clone(&config)));
        }
        self.shared.announce();
        Ok(())
    }

    /// Lets nobody in any more, gives those who are there `span` to end, and breaks off the others. Tells how many that
    /// were.
    pub fn stop(self, span: Span) -> usize {
        self.shared.open().clear();
        self.shared.door.close();
        for mailbox in &self.shared.mailboxes {
            mailbox.post(Letter::Drain);
        }
        let left = self.shared.house.clients.wait_until_empty(span);
        for mailbox in &self.shared.mailboxes {
            mailbox.post(Letter::End);
        }
        self.shared.house.clients.wait_until_empty(ANSWER);
        left
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self) {
        for listener in self.listeners() {
            let to = listener.destination.unwrap_or_default();
            tracing::info!(address = %listener.address, kind = listener.kind, to, "listening");
        }
        tracing::info!(id = format!("{:016x}", self.house.id.0), "ready");
    }

    fn listeners(&self) -> Vec<ListenerStatus> {
        let tell = |open: &Open| ListenerStatus {
            kind: open.listener.kind.word(),
            address: open.socket.local_addr().unwrap_or(open.listener.address),
            destination: match &open.listener.kind {
                ListenerKind::Forward(destination) => Some(destination.to_string()),
                _ => None,
            },
        };
        self.open().iter().map(tell).collect()
    }

    /// Asks all threads.
    pub(crate) fn status(&self) -> Status {
        let mut connections: Vec<ConnectionStatus> = Vec::new();
        let (asker, answers) = channel();
        for mailbox in &self.mailboxes {
            mailbox.post(Letter::Tell(asker.clone()));
        }
        for _ in &self.mailboxes {
            connections.extend(answers.recv_timeout(ANSWER.into()).unwrap_or_default());
        }
        connections.sort_by_key(|connection| std::cmp::Reverse(connection.held));
        Status {
            id: format!("{:016x}", self.house.id.0),
            seconds: (clock::now() - self.house.started).as_secs_f64(),
            listeners: self.listeners(),
            totals: self.totals(),
            connections,
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        use std::sync::atomic::Ordering::Relaxed;
        let counters = &self.house.counters;
        Totals {
            open: self.house.clients.count(),
            accepted: counters.accepted.load(Relaxed),
            turned_away: counters.turned_away.load(Relaxed),
            not_reached: counters.not_reached.load(Relaxed),
            finished: counters.finished.load(Relaxed),
            broken: counters.broken.load(Relaxed),
            timed_out: counters.timed_out.load(Relaxed),
            bytes_up: counters.bytes_up.load(Relaxed),
            bytes_down: counters.bytes_down.load(Relaxed),
            held: ByteCount::new(counters.held()),
            waited_for_near: Span::from_nanos(counters.nanos_for_near.load(Relaxed)),
            waited_for_far: Span::from_nanos(counters.nanos_for_far.load(Relaxed)),
        }
    }
}

/// Loads the congestion control of the legs between relays, and puts the kernel's name of it in place.
fn settle_congestion(config: &mut Config) -> Result<Option<Hold>, RelayError> {
    let between_relays = config.routes.relays().next().is_some()
        || config.listeners.iter().any(|listener| matches!(listener.kind, ListenerKind::Peer(_)));
    let name = match &config.leg.congestion {
        Some(name) => name.as_str(),
        None if between_relays => BEST,
        None => return Ok(None),
    };
    let chosen = choose_in_advance(name)?;
    match chosen.instead {
        Some(reason) if config.leg.congestion.is_some() => tracing::warn!("{reason}"),
        Some(reason) => {
            tracing::info!("legs between relays use what the system gives: {reason}");
            return Ok(None);
        }
        None => {}
    }
    config.leg.congestion = Some(chosen.name);
    Ok(chosen.hold)
}

/// The configured listeners, with the sockets of those that are open already or were passed to this process.
fn open_listeners(config: &Config, open: &[Open], passed: &mut Vec<TcpListener>) -> Result<Vec<Open>, RelayError> {
    let mut one = |listener: &crate::config::Listener| -> Result<Open, RelayError> {
        let listener = Arc::new(listener.clone());
        let there = open.iter().find(|open| open.listener.address == listener.address);
        let socket = match there {
            Some(there) if there.listener.kind.word() == listener.kind.word() => Arc::clone(&there.socket),
            Some(_) => {
                return Err(RelayError::OtherKind { address: listener.address, kind: listener.kind.word() });
            }
            None => Arc::new(socket::open(&listener, config, passed)?),
        };
        Ok(Open { listener, socket })
    };
    config.listeners.iter().map(&mut one).collect()
}

fn addresses(open: &[Open]) -> Vec<SocketAddr> {
    open.iter().filter_map(|open| open.socket.local_addr().ok()).collect()
}
