//! A whole relay: start, reload, stop.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use icdc_protocol::relay::peer::RelayId;
use icdc_tcp::congestion::{Hold, choose_in_advance};
use icdc_tcp::{CongestionError, Privileges, clock};
use icdc_units::Span;
use thiserror::Error;

use crate::acceptor::{Acceptor, OpenListener};
use crate::admin::{self, AdminError};
use crate::config::{Config, ListenerKind};
use crate::context::RelayContext;
use crate::mailbox::{Mailbox, WorkerMessage};
use crate::monitor::Monitor;
use crate::resolver::Resolver;
use crate::socket::{self, OpenError};
use crate::worker::Worker;

/// Time limit for workers to stop.
const STOP_TIMEOUT: Span = Span::from_secs(5);
/// Congestion control of legs between relays where none is configured, if it can be loaded.
const DEFAULT_CONGESTION: &str = "icdc";

/// A relay could not start, or not apply a configuration.
#[derive(Debug, Error)]
pub enum RelayError {
    /// A listener could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The congestion control of the configuration is unknown.
    #[error("leg congestion: {0}")]
    Congestion(#[from] CongestionError),
    /// The status socket or the metrics listener could not be opened.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// A thread or descriptor could not be created.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    /// The kind of a listener cannot change while it listens.
    #[error("{address} cannot become {kind} while it listens: restart the relay")]
    OtherKind {
        /// The listener's address.
        address: SocketAddr,
        /// The kind of listener that the new configuration has there.
        kind: &'static str,
    },
}

/// A running relay. Dropping it leaves it running; [`Relay::stop`] ends it.
pub struct Relay {
    context: Arc<RelayContext>,
    mailboxes: Vec<Arc<Mailbox>>,
    acceptor: Arc<Acceptor>,
    monitor: Arc<Monitor>,
}

impl Relay {
    /// Starts listening and relaying.
    ///
    /// # Errors
    /// See [`RelayError`].
    pub fn start(mut config: Config) -> Result<Self, RelayError> {
        icdc_tcp::raise_descriptor_limit();
        let hold = load_congestion(&mut config)?;
        let config = Arc::new(config);
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::from)?;
        let id = RelayId(u64::from_ne_bytes(random));
        let mut passed = icdc_tcp::passed_listeners();
        let listeners = open_listeners(&config, &[], &mut passed)?;
        for address in passed.iter().filter_map(|socket| socket.local_addr().ok()) {
            tracing::warn!(%address, "a socket was passed for which the configuration has no listener");
        }
        let context = Arc::new(RelayContext::new(id, clock::now(), Resolver::start()?, config.threads));
        context.set_addresses(Monitor::addresses(&listeners));
        context.congestion.keep(hold);
        context.receive_budget.resize(config.limits.memory);
        let mut mailboxes = Vec::new();
        for number in 0..config.threads {
            let mailbox = Arc::new(Mailbox::new()?);
            Worker::start(number, Arc::clone(&context), Arc::clone(&mailbox), Arc::clone(&config))?;
            mailboxes.push(mailbox);
        }
        let acceptor =
            Acceptor::start(listeners.clone(), Arc::clone(&config), Arc::clone(&context), mailboxes.clone())?;
        let monitor = Arc::new(Monitor::new(Arc::clone(&context), mailboxes.clone(), listeners));
        if let Some(path) = &config.status {
            admin::serve_status(path, &monitor)?;
        }
        if let Some(address) = config.metrics {
            admin::serve_metrics(address, &monitor)?;
        }
        let relay = Self { context, mailboxes, acceptor, monitor };
        relay.log_listeners();
        Ok(relay)
    }

    /// Applies another configuration: open connections keep theirs, new ones follow it. The
    /// threads, the status socket and the metrics stay as they were.
    ///
    /// # Errors
    /// See [`RelayError`]; then nothing has changed.
    pub fn reload(&self, mut config: Config) -> Result<(), RelayError> {
        let hold = load_congestion(&mut config)?;
        config.threads = self.mailboxes.len();
        let config = Arc::new(config);
        {
            let mut listeners = self.monitor.open_listeners();
            *listeners = open_listeners(&config, &listeners, &mut Vec::new())?;
            for OpenListener { socket, listener } in &*listeners {
                if let Err(error) = socket::apply(socket, listener, &config) {
                    tracing::warn!("{error}; connections that come there are as before");
                }
            }
            self.context.congestion.keep(hold);
            self.context.receive_budget.resize(config.limits.memory);
            self.context.set_addresses(Monitor::addresses(&listeners));
            self.acceptor.replace(listeners.clone(), Arc::clone(&config));
        }
        for mailbox in &self.mailboxes {
            mailbox.post(WorkerMessage::Configured(Arc::clone(&config)));
        }
        self.log_listeners();
        Ok(())
    }

    /// Accepts no more connections, gives those that are open `span` to end, and resets the others.
    /// Returns how many these were.
    pub fn stop(self, span: Span) -> usize {
        self.monitor.open_listeners().clear();
        self.acceptor.close();
        for mailbox in &self.mailboxes {
            mailbox.post(WorkerMessage::Drain);
        }
        let left = self.context.clients.wait_until_empty(span);
        for mailbox in &self.mailboxes {
            mailbox.post(WorkerMessage::Stop);
        }
        self.context.clients.wait_until_empty(STOP_TIMEOUT);
        left
    }

    fn log_listeners(&self) {
        for listener in self.monitor.listeners() {
            let to = listener.destination.unwrap_or_default();
            tracing::info!(address = %listener.address, kind = listener.kind, to, "listening");
        }
        tracing::info!(id = format!("{:016x}", self.context.id.0), "ready");
    }
}

/// Loads the congestion control of the legs between relays, and puts the kernel's name for it into
/// the configuration. The result keeps it loaded; `None` if it needs no loading, or the system's is
/// used.
fn load_congestion(config: &mut Config) -> Result<Option<Hold>, RelayError> {
    let between_relays = config.routes.relays().next().is_some()
        || config.listeners.iter().any(|listener| matches!(listener.kind, ListenerKind::Peer(_)));
    let name = match &config.leg.congestion {
        Some(name) => name.as_str(),
        None if between_relays => DEFAULT_CONGESTION,
        None => return Ok(None),
    };
    let chosen = choose_in_advance(name, &Privileges::own())?;
    match chosen.instead {
        Some(reason) if config.leg.congestion.is_some() => tracing::warn!("{reason}"),
        Some(reason) => {
            tracing::info!("legs between relays use the system's congestion control: {reason}");
            return Ok(None);
        }
        None => {}
    }
    config.leg.congestion = Some(chosen.name);
    Ok(chosen.hold)
}

/// Opens the configured listeners. Sockets that are open already, or were passed to this process,
/// are used again.
fn open_listeners(
    config: &Config,
    open: &[OpenListener],
    passed: &mut Vec<TcpListener>,
) -> Result<Vec<OpenListener>, RelayError> {
    let mut one = |listener: &crate::config::Listener| -> Result<OpenListener, RelayError> {
        let listener = Arc::new(listener.clone());
        let existing = open.iter().find(|open| open.listener.address == listener.address);
        let socket = match existing {
            Some(open) if open.listener.kind.name() == listener.kind.name() => Arc::clone(&open.socket),
            Some(_) => {
                return Err(RelayError::OtherKind { address: listener.address, kind: listener.kind.name() });
            }
            None => Arc::new(socket::open(&listener, config, passed)?),
        };
        Ok(OpenListener { listener, socket })
    };
    config.listeners.iter().map(&mut one).collect()
}
