//! The daemon: serves clients whose keys are in `authorized_keys`, each within its own root.
//!
//! A client with another key completes the handshake, and then gets one sentence with the line that the
//! daemon's operator would have to add, and nothing else.

mod audit;
pub(crate) mod privileges;
mod session_end;
mod succession;

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_link::{Link, LinkError, receive};
use icdc_metrics::{
    Endpoint, EndpointError, Handshake, RefusedReason, RunningSession, ServeMetrics, Serving, SessionKind,
    SessionResult,
};
use icdc_protocol::message::{Job, Refusal, RefusalKind, Transfer};
use icdc_protocol::{Message, TransferId};
use icdc_scitags::Marker;
use icdc_stop::StopSignal;
use icdc_tcp::{ListenError, clock};
use icdc_trust::{Identity, PublicKey, TrustError, server_config};
use icdc_tuning::buffers::receive_buffer;
use icdc_units::{ByteCount, Span, Time};
use thiserror::Error;

pub use self::audit::{AuditConfig, AuditPlace, WhenFull};
pub use self::session_end::{EndSink, SessionEnd};
pub use self::succession::Inheritance;

use self::audit::{Audit, Line};
use crate::ended::Ended;
use crate::listen::admission::{Admission, Denied, reason_of};
use crate::listen::guard::{Guard, Limits, Service};
use crate::listen::refused::{RefusedByKey, RefusedLines};
use crate::rights::AllowedCongestion;
use crate::session::{self, Answered, Beginning, Entered, Performer};
use crate::sessions::Sessions;
use crate::work::Done;
use crate::worker::{Heard, Workers};

/// Time for sessions to make durable what they have received when the daemon stops.
const SETTLE: Span = Span::from_secs(60);
/// Interval at which the daemon checks its authorized keys for changes: a revoked key's sessions
/// end within a second.
const CHECK: Span = Span::from_millis(150);
/// Interval of the service manager's watchdog notification.
const LIFE_SIGN: Span = Span::from_secs(1);

/// Configuration of a daemon.
#[derive(Debug)]
pub struct ServeConfig {
    /// Address and port to listen on; `[::]` serves IPv4 as well. Unused if there are `listeners`.
    pub listen: SocketAddr,
    /// Listening sockets that a service manager or the previous daemon has opened.
    pub listeners: Listeners,
    /// Confines all clients to this directory, in addition to the root of each key.
    pub root: Option<PathBuf>,
    /// The file of authorized keys.
    pub authorized_keys: PathBuf,
    /// The daemon's own key.
    pub identity: PathBuf,
    /// Congestion control that clients may ask for by name.
    pub congestion: AllowedCongestion,
    /// Where the audit log goes.
    pub audit: Option<AuditConfig>,
    /// Where metrics are served, at `/metrics`.
    pub metrics: Option<SocketAddr>,
    /// What to run for each session, with its arguments: it calls
    /// [`session_process`](crate::session_process()).
    pub session: Vec<OsString>,
    /// What to run as the next daemon, with its arguments: it serves with an [`Inheritance`].
    pub successor: Vec<OsString>,
}

/// Listening sockets of a daemon.
#[derive(Debug, Default)]
pub enum Listeners {
    /// It opens its own.
    #[default]
    Own,
    /// Opened by a service manager.
    Passed(Vec<TcpListener>),
    /// Handed over by the previous daemon.
    Inherited(Inheritance),
}

/// Requests to a running daemon. It clears each one that it has carried out.
#[derive(Clone, Debug, Default)]
pub struct OperatorRequests {
    /// Read identity and authorized keys again, and open the audit log again.
    pub reload: Arc<AtomicBool>,
    /// Accept no more connections, and end with the last session.
    pub drain: Arc<AtomicBool>,
    /// Start the next daemon, hand the listening sockets over, and drain.
    pub succeed: Arc<AtomicBool>,
}

/// Notifications to the service manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It listens.
    Ready,
    /// It is alive, as every second; with the number of sessions.
    Alive(usize),
    /// It reloads its files; [`Ready`](Self::Ready) follows.
    Reloading,
    /// It accepts no more connections.
    Stopping,
    /// The process with this id is the daemon from now on, and the only one that sends notifications.
    Successor(u32),
}

/// Why a daemon could not start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Its own key cannot be loaded.
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
        /// The directory.
        root: PathBuf,
        /// Its error.
        cause: io::Error,
    },
    /// No listener could be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The audit log cannot be opened.
    #[error("the audit log {place} cannot be opened: {cause}; name another file with --audit, or repair this one")]
    Audit {
        /// Where it goes.
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

/// A daemon that listens and does not accept connections yet. It has given up the privileges that it does not need,
/// also for all threads that are started from now on.
pub struct Prepared {
    config: ServeConfig,
    identity: Identity,
    admission: Admission,
    listeners: Vec<TcpListener>,
    inheritance: Option<Inheritance>,
    endpoint: Option<Endpoint>,
}

/// Receivers of a daemon's reports on its sessions.
#[derive(Default)]
pub struct Observers {
    /// Gets every session that has ended.
    pub ended: Option<EndSink>,
    /// Marks data connections with fireflies.
    pub marker: Option<Arc<Marker>>,
}

impl Prepared {
    /// Reads the files of a daemon, opens its sockets, and gives up privileges. Call it before there are other
    /// threads.
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
        privileges::give_up(&keys).map_err(ServeError::Start)?;
        Ok(Self { config, identity, admission, listeners, inheritance, endpoint })
    }

    /// Serves until `stop` is requested, or it was asked to drain and has no more sessions. Then no connection is
    /// accepted any more, running sessions make durable what they have, and it returns.
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
            let told = Arc::clone(&metrics);
            endpoint.serve(move |format| told.text(format))
        };
        let mut endpoint = endpoint.map(serve).transpose()?;
        let daemon = Arc::new(Daemon::new(&config, &identity, admission, audit, metrics, observers));
        daemon.record(&Line { event: "start", ..Line::default() });

        if let Some(inheritance) = &inheritance {
            inheritance.share(&daemon.admission).map_err(ServeError::Start)?;
        }
        let accepted = listeners.iter().map(TcpListener::try_clone).collect::<Result<_, _>>();
        let accepted = accepted.map_err(ServeError::Start)?;
        let mut guard = Guard::start(accepted, daemon.clone(), Limits::default()).map_err(ServeError::Start)?;
        match inheritance {
            None => notify(Notice::Ready),
            // The service has been ready since the first daemon, and its manager hears of this one by the one before.
            Some(inheritance) => inheritance.accept(),
        }
        let mut told_alive = clock::now();
        while !stop.wait(CHECK) {
            let now = clock::now();
            if requests.reload.swap(false, Ordering::Relaxed) {
                notify(Notice::Reloading);
                daemon.reload(&config, now);
                notify(Notice::Ready);
            }
            daemon.admission.look(now);
            daemon.tell_left_out(now);
            if now >= told_alive + LIFE_SIGN && guard.is_alive() {
                notify(Notice::Alive(daemon.sessions.count()));
                daemon.metrics.set_unauthenticated(guard.unauthenticated());
                daemon.metrics.set_authorized_keys(daemon.admission.standing_keys().len());
                told_alive = now;
            }
            if requests.succeed.swap(false, Ordering::Relaxed) {
                let metrics = endpoint.as_ref().map(Serving::listener);
                match succession::succeed(&config.successor, &listeners, metrics, &daemon.admission) {
                    Ok(process) => {
                        endpoint.take().into_iter().for_each(Serving::end);
                        tracing::info!(
                            process,
                            "the next daemon accepts connections; this one ends with its last session"
                        );
                        notify(Notice::Successor(process));
                        requests.drain.store(true, Ordering::Relaxed);
                    }
                    Err(error) => tracing::error!("the next daemon has not started, and this one continues: {error}"),
                }
            }
            if requests.drain.load(Ordering::Relaxed) {
                guard.close();
                if guard.wait_until_served(Span::ZERO) {
                    break;
                }
            }
        }
        notify(Notice::Stopping);
        tracing::info!(sessions = daemon.sessions.count(), "stopping");
        guard.close();
        daemon.sessions.interrupt_all();
        if !guard.wait_until_served(SETTLE) {
            tracing::warn!("sessions that did not end in time are broken off; they can be resumed");
        }
        daemon.tell_rest();
        daemon.admission.keep_usage();
        daemon.record(&Line { event: "stop", ..Line::default() });
        daemon.audit.close();
        Ok(())
    }
}

/// Connections to a listener that somebody else opened get the receive buffer that those to an own one have.
fn give_buffer(listener: &TcpListener) {
    if let Err(error) = icdc_tcp::set_buffers(listener, ByteCount::ZERO, receive_buffer()) {
        tracing::debug!("the receive buffer stays what it is: {error}");
    }
}

/// TLS with this identity, which is logged.
fn tls_of(identity: &Identity) -> Arc<rustls::ServerConfig> {
    let public = identity.public();
    tracing::info!("public key of this daemon: {public}");
    tracing::info!("its fingerprint: {}", public.fingerprint());
    server_config(identity, |_| true)
}

/// Serves clients with authorized keys.
struct Daemon {
    tls: Mutex<Arc<rustls::ServerConfig>>,
    admission: Arc<Admission>,
    sessions: Sessions,
    workers: Workers,
    refused: Mutex<RefusedLines>,
    /// Lines about refused requests of keys that are known.
    refused_by_key: Mutex<RefusedByKey>,
    audit: Audit,
    metrics: Arc<ServeMetrics>,
    ended: Option<EndSink>,
}

/// A connection that was let in.
struct Client<'a> {
    daemon: &'a Daemon,
    key: &'a PublicKey,
    who: &'a str,
    peer: &'a str,
    /// The session that it has begun, for the metrics; none once it has ended.
    running: Cell<Option<RunningSession>>,
    /// So many bytes of it stand in the metrics.
    counted: Cell<u64>,
    /// What it was refused is counted already.
    is_refused: Cell<bool>,
}

impl Service for Daemon {
    /// Every key may complete the handshake: only then can the client be told that its key is
    /// unknown.
    fn tls(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.tls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn serve(&self, link: Link) {
        let Some(key) = link.control.peer_key() else {
            return;
        };
        let peer = link.control.peer();
        match self.admission.enter(&key, &link.control) {
            Err(Denied { reason, refusal }) => {
                self.metrics.refused(reason);
                self.tell_refused(Some(&key), &peer, &refusal.reason);
                if let Err(error) = refuse(link, refusal) {
                    tracing::debug!("refusing: {error}");
                }
            }
            Ok(admitted) => {
                let client = Client::new(self, &key, &admitted.rights.label, &peer);
                let answered = session::answer(link, &admitted.rights, &self.sessions, &admitted.stop, &client);
                client.end(&answered);
                admitted.leave(answered.ended);
            }
        }
    }

    fn count_unauthenticated(&self) {
        self.metrics.refused(RefusedReason::Unauthenticated);
    }

    fn without_version(&self, peer: &str, error: &LinkError) {
        self.metrics.refused(RefusedReason::Version);
        self.tell_refused(None, peer, &error.to_string());
    }

    fn take_data(&self, stream: TcpStream) {
        self.sessions.measurements.deliver(stream);
    }

    fn count_handshake(&self, is_complete: bool) {
        self.metrics.handshake(if is_complete { Handshake::Ok } else { Handshake::Failed });
    }
}

impl Daemon {
    fn new(
        config: &ServeConfig,
        identity: &Identity,
        admission: Admission,
        audit: Audit,
        metrics: Arc<ServeMetrics>,
        Observers { ended, marker }: Observers,
    ) -> Self {
        let admission = Arc::new(admission);
        let sessions = Sessions::admitting_by(Arc::clone(&admission));
        let workers = Workers::new(&config.session, marker);
        let (tls, refused, refused_by_key) = (Mutex::new(tls_of(identity)), Mutex::default(), Mutex::default());
        Self { tls, admission, sessions, workers, refused, refused_by_key, audit, metrics, ended }
    }

    /// Reads identity and authorized keys again; if one cannot be read, the old one is kept.
    fn reload(&self, config: &ServeConfig, now: Time) {
        let identity = Identity::load(&config.identity).inspect_err(|error| {
            tracing::error!("the identity cannot be read, and the old one is kept: {error}");
        });
        let keys = self.admission.reload(now).inspect_err(|error| {
            tracing::error!("new clients are refused until this is repaired, and running sessions continue: {error}");
        });
        self.metrics.reloaded(identity.is_ok() && keys.is_ok());
        if let Ok(identity) = identity {
            *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = tls_of(&identity);
        }
        self.audit.reopen();
        self.record(&Line { event: "reload", ..Line::default() });
    }

    /// Logs a refused client; a limit keeps clients from filling the logs.
    fn tell_refused(&self, key: Option<&PublicKey>, peer: &str, reason: &str) {
        let line = self.refused.lock().unwrap_or_else(PoisonError::into_inner).next(clock::now());
        let Some(left_out) = line else { return };
        if left_out > 0 {
            tracing::info!("{left_out} more clients were refused");
        }
        let key = key.map(PublicKey::fingerprint);
        tracing::info!(peer, key, ?reason, "refused");
        let left_out = Some(left_out).filter(|left_out| *left_out > 0);
        let (from, reason) = (Some(peer), Some(reason));
        self.record(&Line { event: "refused", key, from, reason, left_out, ..Line::default() });
    }

    /// Asks for a line that tells that a request of this key is refused; with it, how many others were not told.
    fn may_tell(&self, key: &PublicKey) -> Option<u64> {
        self.refused_by_key().next(key, clock::now())
    }

    /// Tells how many refusals have no line, once one may.
    fn tell_left_out(&self, now: Time) {
        let unknown = self.refused.lock().unwrap_or_else(PoisonError::into_inner).left_out(now);
        let by_key = self.refused_by_key().left_out(now);
        self.tell_counts(unknown, by_key);
    }

    /// Tells, at the end, how many refusals have had no line.
    fn tell_rest(&self) {
        let unknown = self.refused.lock().unwrap_or_else(PoisonError::into_inner).rest();
        let by_key = self.refused_by_key().rest();
        self.tell_counts(unknown, by_key);
    }

    fn tell_counts(&self, unknown: Option<u64>, by_key: Vec<(PublicKey, u64)>) {
        let by_key = by_key.into_iter().map(|(key, left_out)| (Some(key.fingerprint()), left_out));
        for (key, left_out) in unknown.map(|left_out| (None, left_out)).into_iter().chain(by_key) {
            tracing::info!(key, "{left_out} more were refused");
            let (left_out, reason) = (Some(left_out), Some("more were refused"));
            self.record(&Line { event: "refused", key, reason, left_out, ..Line::default() });
        }
    }

    fn refused_by_key(&self) -> MutexGuard<'_, RefusedByKey> {
        self.refused_by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line of what has happened, whatever that says.
    fn record(&self, line: &Line<'_>) {
        // What has happened cannot be refused any more; the log itself tells what it lacks.
        let _ = self.audit.write(line);
    }
}

impl Performer for Client<'_> {
    /// Notes that a session begins; else why it may not.
    fn begin(&self, session: &Beginning<'_>) -> Result<(), Refusal> {
        let Beginning { request, user, paths } = session;
        let line = Line {
            event: "session_start",
            session: Some(hex(&request.transfer)),
            user: *user,
            job: Some(session::job_name(&request.job)),
            path: paths.as_deref(),
            ..self.line()
        };
        self.daemon.audit.write(&line).map_err(|reason| {
            self.daemon.metrics.refused(RefusedReason::Audit);
            self.is_refused.set(true);
            Refusal::new(RefusalKind::Busy, reason)
        })?;
        self.running.set(Some(self.daemon.metrics.session_begins(kind(&request.job))));
        Ok(())
    }

    fn perform(&self, session: Entered<'_>) -> Ended {
        let Entered { link, request, rights, sessions, registered, work } = session;
        let (is_received, is_copy) =
            (matches!(request.job, Job::Transfer(Transfer::Receive { .. })), !matches!(request.job, Job::Measure(_)));
        let hear = |done: Done| {
            let fresh = ByteCount::new(done.bytes.saturating_sub(self.counted.replace(done.bytes)));
            match is_received {
                true => self.daemon.metrics.received(fresh),
                false if is_copy => self.daemon.metrics.sent(fresh),
                false => {}
            }
            work.tell(done);
        };
        let carried = |bytes| {
            if let Some(place) = &rights.place {
                place.has_moved(ByteCount::new(bytes));
            }
        };
        let reserve = |bytes| rights.place.as_ref().map_or(Ok(ByteCount::MAX), |place| place.reserve(bytes));
        self.daemon.workers.perform(
            link,
            request,
            rights,
            registered,
            &sessions.measurements,
            Heard { hear: &hear, carried: &carried, reserve: &reserve },
        )
    }
}

/// What a session counts as.
fn kind(job: &Job) -> SessionKind {
    match job {
        Job::Transfer(Transfer::Receive { .. }) => SessionKind::Receive,
        Job::Transfer(Transfer::Send { .. }) => SessionKind::Send,
        Job::Measure(_) => SessionKind::Measure,
        Job::Admit { .. } => SessionKind::Admit,
        Job::Join { .. } | Job::Drive(_) | Job::DriveKey => SessionKind::Drive,
    }
}

impl<'a> Client<'a> {
    fn new(daemon: &'a Daemon, key: &'a PublicKey, who: &'a str, peer: &'a str) -> Self {
        let (running, counted, is_refused) = Default::default();
        Self { daemon, key, who, peer, running, counted, is_refused }
    }

    /// Counts how a session ended, or what else a key was refused.
    fn count_end(&self, ended: &Ended, lasted: Span, errors: u64) {
        let result = match ended {
            Ended::TurnedAway(refusal) => {
                if !self.is_refused.get() {
                    self.daemon.metrics.refused(reason_of(refusal.kind));
                }
                SessionResult::Failed
            }
            Ended::Finished | Ended::Joined if errors == 0 => SessionResult::Complete,
            Ended::Finished | Ended::Joined => SessionResult::Incomplete,
            Ended::Interrupted => SessionResult::Interrupted,
            Ended::Cut(_) => SessionResult::Lost,
            Ended::Refused(_) => SessionResult::Failed,
        };
        if let Some(running) = self.running.take() {
            running.end(result, lasted);
        }
    }

    /// Notes how a session ended, or what else a key was refused.
    fn end(&self, answered: &Answered) {
        let Answered { transfer, job, work, ended } = answered;
        let (done, lasted) = (work.done(), clock::now() - work.start());
        let outcome = Line::outcome_of(&done);
        let errors = outcome.get("errors").and_then(serde_json::Value::as_u64).unwrap_or(0);
        self.count_end(ended, lasted, errors);
        let left_out = match ended {
            Ended::TurnedAway(_) => match self.daemon.may_tell(self.key) {
                Some(left_out) => Some(left_out).filter(|left_out| *left_out > 0),
                None => return,
            },
            _ => None,
        };
        self.log_end(answered, &done, lasted, errors);
        let (event, (result, reason)) = match ended {
            // It belongs to a session, which has its own lines.
            Ended::Joined => return,
            Ended::TurnedAway(_) => ("refused", ended.told()),
            _ => ("session_end", ended.told()),
        };
        let line = Line {
            event,
            session: transfer.as_ref().map(hex),
            job: *job,
            path: done.paths.as_deref(),
            result: Some(result),
            reason,
            seconds: Some(lasted.as_secs_f64()),
            bytes: Some(done.bytes),
            outcome,
            left_out,
            ..self.line()
        };
        self.daemon.record(&line);
        // Without a request there was none.
        if let Some(EndSink(tell)) = self.daemon.ended.as_ref().filter(|_| event == "session_end" && job.is_some()) {
            tell(SessionEnd::of(&line));
        }
    }

    /// One line about each session. Further connections of a session have none.
    fn log_end(&self, answered: &Answered, done: &Done, lasted: Span, errors: u64) {
        let (Self { who, peer, .. }, Answered { job, ended, .. }) = (self, answered);
        let result = match ended.told() {
            (result, Some(reason)) => format!("{result}: {reason}"),
            (result, None) => result.to_owned(),
        };
        let job = job.unwrap_or("nothing asked");
        match &done.paths {
            Some(path) => {
                let (bytes, errors) = (done.bytes, (errors > 0).then_some(errors));
                let seconds = format!("{:.3}", lasted.as_secs_f64());
                tracing::info!(?who, peer, path, bytes, seconds, errors, ?result, "{job}");
            }
            None if matches!(ended, Ended::Finished | Ended::Joined) => tracing::debug!(?who, peer, ?result, "{job}"),
            None => tracing::info!(?who, peer, ?result, "{job}"),
        }
    }

    /// What every line about it has.
    fn line(&self) -> Line<'_> {
        let (who, key, from) = (Some(self.who), Some(self.key.fingerprint()), Some(self.peer));
        Line { who, key, from, ..Line::default() }
    }
}

/// A transfer's number as it stands in logs.
fn hex(transfer: &TransferId) -> String {
    transfer.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Answers the first message, whatever it is: the connection is then closed with nothing unread, so
/// that the answer arrives.
fn refuse(mut link: Link, refusal: Refusal) -> Result<(), LinkError> {
    match receive(link.inlet.as_mut()) {
        Ok(_) | Err(LinkError::Protocol(_)) => {}
        Err(error) => return Err(error),
    }
    link.outlet.send(Message::Refused(refusal).into())?;
    link.outlet.flush()
}
