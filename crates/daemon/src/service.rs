//! The service behind a daemon's guard: admits the key of each connection, serves the connection to
//! its end, and notes its outcome in log, audit log and metrics.

use std::cell::Cell;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_link::{Link, LinkError, receive};
use icdc_metrics::{Handshake, RefusedReason, RunningSession, ServeMetrics, SessionKind};
use icdc_protocol::message::{Job, Refusal, RefusalKind, Transfer};
use icdc_protocol::{Message, TransferId};
use icdc_session_process::{Done, Ended, Sessions, User};
use icdc_tcp::clock;
use icdc_transfer::{KeyNotary, Notary, Parties};
use icdc_trust::{Identity, PublicKey, server_config};
use icdc_units::{ByteCount, Span, Time, hexadecimal};

use crate::admission::refusal_log_limit::{RefusedByKey, RefusedLines};
use crate::admission::revocation::SessionHandle;
use crate::admission::{Admission, Denied, reason_of};
use crate::audit::{Audit, Line};
use crate::authorize::job_name;
use crate::config::{Observers, ServeConfig};
use crate::guard::Service;
use crate::request::{Answered, Beginning, Runner, Session, serve_connection};
use crate::session_end::{EndSink, SessionEnd};
use crate::supervisor::{SessionObserver, Workers};

/// TLS configuration with this identity, which is logged.
fn tls_of(identity: &Identity) -> Arc<rustls::ServerConfig> {
    let public = identity.public();
    tracing::info!("public key of this daemon: {public}");
    tracing::info!("its fingerprint: {}", public.fingerprint());
    server_config(identity, |_| true)
}

/// Audit log and metrics of a daemon.
pub(crate) struct Records {
    pub(crate) audit: Audit,
    pub(crate) metrics: Arc<ServeMetrics>,
}

/// Service that serves clients with authorized keys.
pub(crate) struct Daemon {
    tls: Mutex<Arc<rustls::ServerConfig>>,
    /// Identity of the daemon, which also signs receipts.
    identity: Mutex<Arc<Identity>>,
    admission: Arc<Admission>,
    sessions: Sessions,
    workers: Workers,
    refused: Mutex<RefusedLines>,
    /// Limits on log lines about refused requests of known keys.
    refused_by_key: Mutex<RefusedByKey>,
    audit: Audit,
    metrics: Arc<ServeMetrics>,
    ended: Option<EndSink>,
}

/// An admitted connection of a daemon: has its session run, and records it in log, audit log and
/// metrics.
struct Client<'a> {
    daemon: &'a Daemon,
    key: &'a PublicKey,
    who: &'a str,
    peer: &'a str,
    /// The session that the connection has begun, for the metrics; `None` before it begins and
    /// after it has ended.
    running: Cell<Option<RunningSession>>,
    /// Number of the session's bytes that are counted in the metrics.
    counted: Cell<u64>,
    /// Whether the refusal of this connection is counted already.
    is_refused: Cell<bool>,
}

impl Service for Daemon {
    /// TLS configuration under which every key may complete the handshake: only then can the client
    /// be told that its key is unknown.
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
                link.control.trust();
                let client = Client::new(self, &key, &admitted.granted.label, &peer);
                let answered = serve_connection(link, &admitted.granted, &self.sessions, &admitted.stop, &client);
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
    /// Service of a daemon with these settings, keys and records.
    pub(crate) fn new(
        config: &ServeConfig,
        identity: Identity,
        admission: Admission,
        Records { audit, metrics }: Records,
        Observers { ended, marker }: Observers,
    ) -> Self {
        let admission = Arc::new(admission);
        let sessions = Sessions::default();
        let workers = Workers::new(&config.session, marker);
        let (tls, refused, refused_by_key) = (Mutex::new(tls_of(&identity)), Mutex::default(), Mutex::default());
        let identity = Mutex::new(Arc::new(identity));
        Self { tls, identity, admission, sessions, workers, refused, refused_by_key, audit, metrics, ended }
    }

    /// Reads identity, authorized keys and the limit of the rate again; of what cannot be read, the old
    /// one is kept.
    pub(crate) fn reload(&self, config: &ServeConfig, now: Time) {
        let identity = Identity::load(&config.identity).inspect_err(|error| {
            tracing::error!("the identity cannot be read, and the old one is kept: {error}");
        });
        let keys = self.admission.reload(now).inspect_err(|error| {
            tracing::error!("new clients are refused until this is repaired, and running sessions continue: {error}");
        });
        let limit = (config.reread_max_rate)().inspect_err(|error| {
            tracing::error!("the limit of the rate of all sessions stays as it was: {error}");
        });
        self.metrics.reloaded(identity.is_ok() && keys.is_ok() && limit.is_ok());
        if let Ok(limit) = limit {
            self.admission.set_limit(limit);
        }
        if let Ok(identity) = identity {
            *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = tls_of(&identity);
            *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(identity);
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

    /// Number of refusals of this key that were not logged before, if the next one may be logged
    /// now; `None` if it may not.
    fn may_tell(&self, key: &PublicKey) -> Option<u64> {
        self.refused_by_key().next(key, clock::now())
    }

    /// Logs how many refusals have no line, once such a line is allowed.
    fn tell_left_out(&self, now: Time) {
        let unknown = self.refused.lock().unwrap_or_else(PoisonError::into_inner).left_out(now);
        let by_key = self.refused_by_key().left_out(now);
        self.tell_counts(unknown, by_key);
    }

    /// Ends connections whose keys have lost what they were granted, stores the usage of keys, and
    /// logs how many refusals had no line of their own. To be called a few times a second.
    pub(crate) fn update(&self, now: Time) {
        self.admission.update(now);
        self.tell_left_out(now);
    }

    /// Sets the gauges of the metrics: connections that have not authenticated, and standing keys.
    pub(crate) fn set_gauges(&self, unauthenticated: usize) {
        self.metrics.set_unauthenticated(unauthenticated);
        self.metrics.set_authorized_keys(self.admission.standing_keys().len());
    }

    /// Records at the end of the daemon what is left: refusals without a line, bytes that keys have
    /// moved, the end of the audit log.
    pub(crate) fn close(&self) {
        self.tell_rest();
        self.admission.keep_usage();
        self.record(&Line { event: "stop", ..Line::default() });
        self.audit.close();
    }

    fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.identity.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Admission of keys: the authorized keys, the temporary ones, and the connections that they
    /// hold.
    pub(crate) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Sessions that are open.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Logs at the end of the daemon how many refusals have had no line.
    fn tell_rest(&self) {
        let unknown = self.refused.lock().unwrap_or_else(PoisonError::into_inner).rest();
        let by_key = self.refused_by_key().rest();
        self.tell_counts(unknown, by_key);
    }

    /// Logs numbers of refusals without a line: of unknown keys, and of each known key.
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

    /// Writes a line about something that has happened, whether or not the log can be written.
    pub(crate) fn record(&self, line: &Line<'_>) {
        // What has happened cannot be refused any more; the log itself tells what it lacks.
        let _ = self.audit.write(line);
    }
}

impl Runner for Client<'_> {
    /// Records that a session begins; the error is the reason for which it may not.
    fn begin(&self, session: &Beginning<'_>) -> Result<(), Refusal> {
        let Beginning { request, user, paths } = session;
        let line = Line {
            event: "session_start",
            session: Some(hexadecimal(&request.transfer)),
            user: *user,
            job: Some(job_name(&request.job)),
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

    fn admit(&self, by: PublicKey, key: PublicKey, transfer: TransferId, job: Transfer) -> Result<(), Refusal> {
        self.daemon.admission.admit(by, key, transfer, job)
    }

    fn run(&self, session: Session<'_>) -> Ended {
        let (granted, work, job) = (session.granted, session.work, &session.request.job);
        let is_received = matches!(job, Job::Transfer(Transfer::Receive { .. }));
        let is_copy = !matches!(job, Job::Measure(_));
        let progress = |done: Done| {
            let fresh = ByteCount::new(done.bytes.saturating_sub(self.counted.replace(done.bytes)));
            match is_received {
                true => self.daemon.metrics.received(fresh),
                false if is_copy => self.daemon.metrics.sent(fresh),
                false => {}
            }
            work.tell(done);
        };
        let carried = |bytes| {
            if let Some(handle) = &granted.handle {
                handle.note_moved(ByteCount::new(bytes));
            }
        };
        let reserve = |bytes| granted.handle.as_ref().map_or(Ok(ByteCount::MAX), |handle| handle.reserve(bytes));
        let limit = || granted.handle.as_ref().and_then(SessionHandle::limit);
        let notary = self.notary(&session);
        let notary = notary.as_ref().map(|notary| notary as &dyn Notary);
        let observer =
            SessionObserver { progress: &progress, carried: &carried, limit: &limit, reserve: &reserve, notary };
        self.daemon.workers.run(session, observer)
    }
}

/// Kind of the session in the metrics.
fn kind(job: &Job) -> SessionKind {
    match job {
        Job::Transfer(Transfer::Receive { .. }) => SessionKind::Receive,
        Job::Transfer(Transfer::Send { .. }) => SessionKind::Send,
        Job::Measure(_) => SessionKind::Measure,
        Job::List(_) => SessionKind::List,
        Job::Change(_) => SessionKind::Change,
        Job::Admit { .. } => SessionKind::Admit,
        Job::Join { .. } | Job::Drive(_) | Job::DriveKey => SessionKind::Drive,
    }
}

impl<'a> Client<'a> {
    /// An admitted connection whose session has not begun. `who` is the label of its key, `peer`
    /// the address of the client.
    fn new(daemon: &'a Daemon, key: &'a PublicKey, who: &'a str, peer: &'a str) -> Self {
        let (running, counted, is_refused) = Default::default();
        Self { daemon, key, who, peer, running, counted, is_refused }
    }

    /// Notary of the session's receipt, if its request asks for one.
    fn notary(&self, session: &Session<'_>) -> Option<KeyNotary> {
        let Job::Transfer(Transfer::Receive { options, .. }) = &session.request.job else { return None };
        let user = session.granted.acting.as_deref().map_or("the daemon's user", User::name);
        let sender = format!("{} {}, from {}", self.key.ssh_line(), self.who, self.peer);
        let parties = Parties::on_this_host(user, sender);
        let identity = self.daemon.identity();
        options.receipt.then(|| KeyNotary::new(identity, parties, &session.request.transfer, options))
    }

    /// Counts in the metrics how a session with `errors` failed items ended, or that a key was
    /// refused something.
    fn count_end(&self, ended: &Ended, lasted: Span, errors: u64) {
        if let Ended::TurnedAway(refusal) = ended
            && !self.is_refused.get()
        {
            self.daemon.metrics.refused(reason_of(refusal.kind));
        }
        if let Some(running) = self.running.take() {
            running.end(ended.result(errors), lasted);
        }
    }

    /// Records in the logs how a session ended, or that a key was refused something.
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
        let event = match ended {
            // It belongs to a session, which has its own lines.
            Ended::Joined => return,
            Ended::TurnedAway(_) => "refused",
            _ => "session_end",
        };
        let line = Line {
            event,
            session: transfer.as_ref().map(|transfer| hexadecimal(transfer)),
            job: *job,
            path: done.paths.as_deref(),
            result: Some(ended.result(errors).word()),
            former_result: Some(ended.former_result()),
            reason: ended.reason(),
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

    /// Logs one line about the end of a session. Further connections of a session have none.
    fn log_end(&self, answered: &Answered, done: &Done, lasted: Span, errors: u64) {
        let (Self { who, peer, .. }, Answered { job, ended, .. }) = (self, answered);
        let result = ended.result(errors).word();
        let result = ended.reason().map_or_else(|| result.to_owned(), |reason| format!("{result}: {reason}"));
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

    /// The members that every audit line about this connection has.
    fn line(&self) -> Line<'_> {
        let (who, key, from) = (Some(self.who), Some(self.key.fingerprint()), Some(self.peer));
        Line { who, key, from, ..Line::default() }
    }
}

/// Refuses a client after its first message, whatever that is: the connection is then closed with
/// nothing unread, so that the answer arrives.
fn refuse(mut link: Link, refusal: Refusal) -> Result<(), LinkError> {
    match receive(link.inlet.as_mut()) {
        Err(error) if !error.breaks_protocol() => return Err(error),
        Ok(_) | Err(_) => {}
    }
    link.outlet.send(Message::Refused(refusal).into())?;
    link.outlet.flush()
}
