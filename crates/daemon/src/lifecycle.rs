//! The life of a daemon: opening its files and sockets, accepting connections, reload, handover to
//! the next daemon, drain and end.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use icdc_metrics::{Endpoint, EndpointError, ServeMetrics, Serving};
use icdc_stop::StopSignal;
use icdc_tcp::{ListenError, clock};
use icdc_trust::{Identity, TrustError};
use icdc_tuning::buffers::receive_buffer;
use icdc_units::{ByteCount, Span};
use thiserror::Error;

use crate::admission::Admission;
use crate::audit::{Audit, Line};
use crate::capabilities;
use crate::config::{Listeners, Notice, Observers, OperatorRequests, ServeConfig};
use crate::datagrams::Datagrams;
use crate::guard::{Guard, Limits};
use crate::service::{Daemon, Records};
use crate::succession::{self, Inheritance};

/// Time for sessions to make durable what they have received when the daemon stops.
const SETTLE: Span = Span::from_secs(60);
/// Interval at which the daemon checks its authorized keys for changes: a revoked key's sessions
/// end within a second.
const CHECK: Span = Span::from_millis(150);
/// Interval of the service manager's watchdog notification.
const LIFE_SIGN: Span = Span::from_secs(1);

/// Reason for which a daemon could not start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The daemon's own key cannot be loaded.
    #[error("{0}; make a key for this daemon with `icdc keygen`")]
    Identity(TrustError),
    /// The authorized keys cannot be loaded.
    #[error(
        "{0}{line}",
        line = match .0 {
            TrustError::Unsafe { .. } => "",
            _ => "; a line of it reads `root=/DIR,rights=rw,user=NAME icdc-ed25519 BASE64 comment`, where the key is what `icdc keygen` prints on the client",
        }
    )]
    AuthorizedKeys(TrustError),
    /// The directory of `--root` cannot be used.
    #[error("--root {root}: {cause}")]
    Root {
        /// Path of the directory.
        root: PathBuf,
        /// Error of opening the directory.
        cause: io::Error,
    },
    /// No listener could be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The audit log cannot be opened.
    #[error("the audit log {place} cannot be opened: {cause}; name another file with --audit, or repair this one")]
    Audit {
        /// Destination of the log.
        place: String,
        /// Error of the kernel.
        cause: io::Error,
    },
    /// Metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// A thread or descriptor could not be created.
    #[error("cannot start accepting connections: {0}")]
    Start(io::Error),
}

/// A daemon that listens and does not accept connections yet. It has given up the privileges that
/// it does not need, also for all threads that are started from now on.
pub struct Prepared {
    config: ServeConfig,
    identity: Identity,
    admission: Admission,
    listeners: Vec<TcpListener>,
    inheritance: Option<Inheritance>,
    endpoint: Option<Endpoint>,
}

impl Prepared {
    /// Reads the files of a daemon, opens its sockets, and gives up privileges. Call it before
    /// there are other threads.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn new(mut config: ServeConfig) -> Result<Self, ServeError> {
        icdc_tcp::raise_descriptor_limit();
        let identity = Identity::load(&config.identity).map_err(ServeError::Identity)?;
        let root = match &config.root {
            Some(root) => {
                let real = root.canonicalize();
                Some(real.map_err(|cause| ServeError::Root { root: root.clone(), cause })?)
            }
            None => None,
        };
        let admission = Admission::open(&config.authorized_keys, root, config.congestion.clone())
            .map_err(ServeError::AuthorizedKeys)?;
        admission.set_limit(config.max_rate.clone());
        let (listeners, mut inheritance) = match std::mem::take(&mut config.listeners) {
            Listeners::Own => (vec![icdc_tcp::listen_at(config.listen, receive_buffer())?], None),
            Listeners::Passed(listeners) => {
                listeners.iter().for_each(give_buffer);
                (listeners, None)
            }
            Listeners::Inherited(mut inheritance) => (std::mem::take(&mut inheritance.listeners), Some(inheritance)),
        };
        let inherited = inheritance.as_mut().and_then(|inheritance| inheritance.metrics.take());
        let endpoint = config.metrics.map(|address| match inherited {
            Some(listener) => Endpoint::inherit(listener, address),
            None => Endpoint::bind(address),
        });
        let endpoint = endpoint.transpose()?;
        let keys = admission.standing_keys();
        capabilities::give_up(&keys).map_err(ServeError::Start)?;
        Ok(Self { config, identity, admission, listeners, inheritance, endpoint })
    }

    /// Serves until `stop` is requested, or it was asked to drain and has no more sessions. Then no
    /// connection is accepted any more, and running sessions make durable what they have before
    /// this returns.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(
        self,
        observers: Observers,
        stop: &StopSignal,
        requests: &OperatorRequests,
        notify: &dyn Fn(Notice),
    ) -> Result<(), ServeError> {
        let Self { config, identity, admission, listeners, inheritance, endpoint } = self;
        for listener in &listeners {
            let address = listener.local_addr().map_err(ServeError::Start)?;
            tracing::info!(%address, keys = admission.standing_keys().len(), "listening");
        }
        let metrics = Arc::new(ServeMetrics::new(env!("CARGO_PKG_VERSION")));
        let audit = Audit::open(config.audit.as_ref(), Arc::clone(&metrics)).map_err(|cause| ServeError::Audit {
            place: config.audit.as_ref().map(|audit| audit.place.to_string()).unwrap_or_default(),
            cause,
        })?;
        let serve = |endpoint: Endpoint| {
            tracing::info!(address = %endpoint.address(), "metrics are served at /metrics");
            let served = Arc::clone(&metrics);
            endpoint.serve(move |format| served.text(format))
        };
        let endpoint = endpoint.map(serve).transpose()?;
        let daemon = Arc::new(Daemon::new(&config, identity, admission, Records { audit, metrics }, observers));
        daemon.record(&Line { event: "start", ..Line::default() });

        if let Some(inheritance) = &inheritance {
            inheritance.share(daemon.admission()).map_err(ServeError::Start)?;
        }
        let accepted = listeners.iter().map(TcpListener::try_clone).collect::<Result<_, _>>();
        let accepted = accepted.map_err(ServeError::Start)?;
        let guard = Guard::start(accepted, daemon.clone(), Limits::default()).map_err(ServeError::Start)?;
        let datagrams = Datagrams::beside(&listeners, guard.adoption());
        match inheritance {
            None => notify(Notice::Ready),
            // The service has been ready since the first daemon, and its manager hears of this one
            // by the one before.
            Some(inheritance) => inheritance.accept(),
        }
        let mut running =
            AcceptingDaemon { config: &config, daemon, listeners, guard, datagrams, endpoint, requests, notify };
        running.until_stopped(stop);
        running.end();
        Ok(())
    }
}

/// A daemon that accepts connections.
struct AcceptingDaemon<'a> {
    config: &'a ServeConfig,
    daemon: Arc<Daemon>,
    listeners: Vec<TcpListener>,
    guard: Guard,
    datagrams: Datagrams,
    endpoint: Option<Serving>,
    requests: &'a OperatorRequests,
    notify: &'a dyn Fn(Notice),
}

impl AcceptingDaemon<'_> {
    /// Carries out the operator's requests and checks the authorized keys, until `stop` is
    /// requested or it has drained.
    fn until_stopped(&mut self, stop: &StopSignal) {
        let mut last_notified = clock::now();
        while !stop.wait(CHECK) {
            let now = clock::now();
            if self.requests.reload.swap(false, Ordering::Relaxed) {
                (self.notify)(Notice::Reloading);
                self.daemon.reload(self.config, now);
                (self.notify)(Notice::Ready);
            }
            self.daemon.update(now);
            if now >= last_notified + LIFE_SIGN && self.guard.is_alive() {
                (self.notify)(Notice::Alive(self.daemon.sessions().count()));
                self.daemon.set_gauges(self.guard.unauthenticated());
                self.datagrams.retry();
                last_notified = now;
            }
            if self.requests.succeed.swap(false, Ordering::Relaxed) {
                self.hand_over();
            }
            if self.requests.drain.load(Ordering::Relaxed) {
                self.datagrams.close();
                self.guard.close();
                if self.guard.wait_until_served(Span::ZERO) {
                    break;
                }
            }
        }
    }

    /// Starts the next daemon and gives it the sockets, then drains. If it does not start, this one
    /// continues.
    fn hand_over(&mut self) {
        let metrics = self.endpoint.as_ref().map(Serving::listener);
        match succession::succeed(&self.config.successor, &self.listeners, metrics, self.daemon.admission()) {
            Ok(process) => {
                self.endpoint.take().into_iter().for_each(Serving::end);
                tracing::info!(process, "the next daemon accepts connections; this one ends with its last session");
                (self.notify)(Notice::Successor(process));
                self.requests.drain.store(true, Ordering::Relaxed);
            }
            Err(error) => tracing::error!("the next daemon has not started, and this one continues: {error}"),
        }
    }

    /// Stops accepting, and waits for running sessions to make durable what they have.
    fn end(mut self) {
        (self.notify)(Notice::Stopping);
        tracing::info!(sessions = self.daemon.sessions().count(), "stopping");
        self.datagrams.close();
        self.guard.close();
        self.daemon.sessions().interrupt_all();
        if !self.guard.wait_until_served(SETTLE) {
            tracing::warn!("sessions that did not end in time are broken off; they can be resumed");
        }
        self.datagrams.finish();
        self.daemon.close();
    }
}

/// Sets the receive buffer of a listener that somebody else opened, so that its connections get
/// what those to an own one have.
fn give_buffer(listener: &TcpListener) {
    if let Err(error) = icdc_tcp::set_buffers(listener, ByteCount::ZERO, receive_buffer()) {
        tracing::debug!("the receive buffer stays what it is: {error}");
    }
}
