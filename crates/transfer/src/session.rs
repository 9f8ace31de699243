//! One connected and authenticated link: what the other end asks for, whether it may, and running it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use crossbeam_channel::{Receiver as Queue, SendError, Sender as Channel, unbounded};
use icdc_disk::BlockPool;
use icdc_disk::tree::{Tree, TreeError};
use icdc_protocol::message::{Congestion, Job, Message, Refusal, RefusalKind, Request, TransferId};
use icdc_protocol::validate::clip;
use icdc_trust::PublicKey;

use crate::account::Account;
use crate::error::SessionError;
use crate::event::EventSink;
use crate::link::{FurtherLink, Link, LinkControl, LinkError};
use crate::listen::admission::Admission;
use crate::listen::credentials::Credentials;
use crate::stop::StopSignal;
use crate::{clock, drive, measure, path_text, receiver, sender};

/// How long a newer connection waits for the end of the session that it replaces, and a further
/// connection for the session that it belongs to.
const HANDOVER: Duration = Duration::from_secs(10);
/// So many bytes of a path stand in the log.
const LOGGED_PATH: usize = 400;

/// What the other end may do.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    /// Have files sent to it.
    pub(crate) read: bool,
    /// Have files written.
    pub(crate) write: bool,
    /// Have owners and set-id bits given to them.
    pub(crate) owners: bool,
    /// Where its paths are resolved.
    pub(crate) root: Root,
    /// As whom files are opened; `None` for the user of this process.
    pub(crate) acting: Option<Arc<Credentials>>,
    /// A key that was admitted for one transfer may do this and nothing else.
    pub(crate) only: Option<(TransferId, Job)>,
    /// It may admit another key, and have this end drive a transfer.
    pub(crate) may_admit: bool,
    /// For logs.
    pub(crate) label: String,
}

/// Where paths of the other end are resolved.
#[derive(Clone, Debug)]
pub(crate) enum Root {
    /// As in a login of this user: relative paths start at home.
    Unconfined {
        /// The home directory.
        home: PathBuf,
    },
    /// Beneath this directory and nowhere else.
    Confined(PathBuf),
}

impl Root {
    /// Opens the tree.
    pub(crate) fn tree(&self) -> Result<Tree, TreeError> {
        match self {
            Self::Unconfined { home } => Ok(Tree::unconfined(home)?.with_home(home)),
            Self::Confined(root) => Tree::open(root),
        }
    }
}

/// How the work on one connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Done.
    Finished,
    /// Handed to the session that it belongs to.
    Joined,
    /// A user or an operator stopped it.
    Interrupted,
    /// The connection broke; the client may come again.
    Cut(String),
    /// The session could not be served, or the other end misbehaved.
    Refused(String),
    /// No session began on it.
    TurnedAway(String),
}

/// The running sessions of a process, by transfer.
#[derive(Clone, Default)]
pub(crate) struct Sessions {
    shared: Arc<Registry>,
    /// By which sessions let keys in for a transfer from another far end.
    pub(crate) admission: Option<Arc<Admission>>,
}

#[derive(Default)]
struct Registry {
    running: Mutex<HashMap<(TransferId, Part), Running>>,
    changed: Condvar,
}

/// A session's part in its transfer. A copy from a daemon to itself has one of each there, for different keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Connects to another far end on behalf of a client.
    Drive,
    /// Sends or receives over the connection that asked for it.
    Move,
}

struct Running {
    peer: Option<PublicKey>,
    control: LinkControl,
    stop: StopSignal,
    join: Channel<FurtherLink>,
}

/// A session in the registry; leaves it when dropped.
pub(crate) struct Registered<'a> {
    sessions: &'a Sessions,
    entry: (TransferId, Part),
    pub(crate) stop: StopSignal,
    pub(crate) joined: Queue<FurtherLink>,
}

impl Sessions {
    /// No sessions yet, of a process that lets keys in by `admission`.
    pub(crate) fn admitting_by(admission: Arc<Admission>) -> Self {
        Self { admission: Some(admission), ..Self::default() }
    }

    /// Number of running sessions.
    pub(crate) fn count(&self) -> usize {
        self.shared.running.lock().expect("no panic in the registry").len()
    }

    /// Asks every session to make durable what it has and to end.
    pub(crate) fn interrupt_all(&self) {
        let running = self.shared.running.lock().expect("no panic in the registry");
        running.values().for_each(|session| session.stop.request());
    }

    /// Enters a session. A session of the same part in the same transfer is a connection that broke without
    /// this end having noticed: it is ended first, if the same key held it. A request of `stop` ends the session.
    pub(crate) fn enter(
        &self,
        transfer: TransferId,
        part: Part,
        control: &LinkControl,
        stop: &StopSignal,
    ) -> Result<Registered<'_>, Refusal> {
        let entry = (transfer, part);
        let peer = control.peer_key();
        let deadline = clock::now() + HANDOVER.into();
        let mut running = self.shared.running.lock().expect("no panic in the registry");
        while let Some(session) = running.get(&entry) {
            if session.peer != peer {
                return Err(refusal(RefusalKind::NotAllowed, "the transfer belongs to another key"));
            }
            if clock::now() >= deadline {
                return Err(refusal(RefusalKind::Busy, "an earlier connection of this transfer does not end"));
            }
            session.control.shutdown();
            (running, _) = self
                .shared
                .changed
                .wait_timeout(running, Duration::from_millis(100))
                .expect("no panic in the registry");
        }
        let (join, joined) = unbounded();
        let stop = stop.clone();
        running.insert(entry, Running { peer, control: control.clone(), stop: stop.clone(), join });
        self.shared.changed.notify_all();
        Ok(Registered { sessions: self, entry, stop, joined })
    }

    /// Hands a further connection to the session that it belongs to; else gives it back, to be refused.
    fn join(&self, transfer: TransferId, further: FurtherLink) -> Result<(), (Link, Refusal)> {
        let peer = further.link.control.peer_key();
        let deadline = clock::now() + HANDOVER.into();
        let mut running = self.shared.running.lock().expect("no panic in the registry");
        loop {
            match running.get(&(transfer, Part::Move)) {
                Some(session) if session.peer == peer => {
                    let ending = |SendError(FurtherLink { link, .. })| {
                        (link, refusal(RefusalKind::Busy, "the session is ending"))
                    };
                    return session.join.send(further).map_err(ending);
                }
                Some(_) => {
                    return Err((
                        further.link,
                        refusal(RefusalKind::NotAllowed, "the transfer belongs to another key"),
                    ));
                }
                None if clock::now() >= deadline => {
                    return Err((further.link, refusal(RefusalKind::Busy, "no such transfer is running")));
                }
                None => {
                    (running, _) = self
                        .shared
                        .changed
                        .wait_timeout(running, Duration::from_millis(100))
                        .expect("no panic in the registry");
                }
            }
        }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.sessions.shared.running.lock().expect("no panic in the registry").remove(&self.entry);
        self.sessions.shared.changed.notify_all();
    }
}

/// What a session did, for the log.
pub(crate) struct Work {
    pub(crate) account: Account,
    paths: OnceLock<String>,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self { account: Account::new(clock::now()), paths: OnceLock::new() }
    }

    /// Notes the paths that it is about; the first call counts.
    pub(crate) fn concerns(&self, paths: &[Vec<u8>]) {
        let _ = self.paths.set(short(paths));
    }

    /// The paths that it is about, escaped and cut to a length for a log.
    pub(crate) fn paths(&self) -> Option<&str> {
        self.paths.get().map(String::as_str)
    }
}

/// The first path and how many more there are.
fn short(paths: &[Vec<u8>]) -> String {
    let first = paths.first().map_or(&[][..], |path| &path[..path.len().min(LOGGED_PATH)]);
    let cut = if paths.first().is_some_and(|path| path.len() > LOGGED_PATH) { "…" } else { "" };
    let more = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
    format!("{}{cut}{more}", path_text(first))
}

/// How a connection was answered.
pub(crate) struct Answered {
    /// What was asked for; `None` if nothing was.
    pub(crate) job: Option<&'static str>,
    pub(crate) work: Work,
    pub(crate) ended: Ended,
}

/// Serves one connection from its first message to its end, or until `stop` is requested.
pub(crate) fn answer(mut link: Link, rights: &Rights, sessions: &Sessions, stop: &StopSignal) -> Answered {
    let mut answered = Answered { job: None, work: Work::new(), ended: Ended::Finished };
    if let Some(credentials) = &rights.acting
        && let Err(error) = credentials.assume_for_this_thread()
    {
        let refusal = refusal(RefusalKind::Internal, &format!("cannot act as the key's user: {error}"));
        return Answered { ended: refuse(link, refusal), ..answered };
    }
    let request = match first_message(&mut link) {
        Ok(request) => request,
        Err(NoRequest::Cut(reason)) => return Answered { ended: Ended::Cut(reason), ..answered },
        Err(NoRequest::Wrong(reason)) => {
            let refusal = refusal(RefusalKind::Protocol, &clip(reason));
            return Answered { ended: refuse(link, refusal), ..answered };
        }
    };
    answered.job = Some(job_name(&request.job));
    match &request.job {
        Job::Receive { destination, .. } => answered.work.concerns(std::slice::from_ref(destination)),
        Job::Send { sources, .. } => answered.work.concerns(sources),
        _ => {}
    }
    let allowed = if stop.is_requested() {
        Err(refusal(RefusalKind::Busy, "the key's line in the daemon's authorized keys has just changed; try again"))
    } else {
        allow(&request, rights)
    };
    tracing::debug!(peer = %link.control.peer(), label = %rights.label, job = job_name(&request.job), "session");
    answered.ended = match allowed {
        Err(refusal) => refuse(link, refusal),
        Ok(()) => carry_out(request, link, rights, sessions, stop, &answered.work),
    };
    answered
}

fn carry_out(
    request: Request,
    link: Link,
    rights: &Rights,
    sessions: &Sessions,
    stop: &StopSignal,
    work: &Work,
) -> Ended {
    match request.job {
        Job::Join { stream } => match sessions.join(request.transfer, FurtherLink { number: stream, link }) {
            Ok(()) => Ended::Joined,
            Err((link, refusal)) => refuse(link, refusal),
        },
        Job::Admit { .. } | Job::Drive(_) | Job::DriveKey => drive::answer(request, link, rights, sessions, stop, work),
        Job::Measure(order) => match sessions.enter(request.transfer, Part::Move, &link.control, stop) {
            Ok(registered) => measure::answer(link, &order, &registered.stop),
            Err(refusal) => refuse(link, refusal),
        },
        Job::Receive { .. } | Job::Send { .. } => {
            let registered = match sessions.enter(request.transfer, Part::Move, &link.control, stop) {
                Ok(registered) => registered,
                Err(refusal) => return refuse(link, refusal),
            };
            match serve(link, request.job, rights, &registered, &work.account) {
                Ok(()) => Ended::Finished,
                Err(SessionError::Interrupted) => Ended::Interrupted,
                Err(SessionError::Cut(reason)) => Ended::Cut(reason),
                Err(error) => Ended::Refused(error.to_string()),
            }
        }
    }
}

/// Why there is no request.
enum NoRequest {
    Cut(String),
    /// Something else came, or one that keeps to no limits: the other end shall hear of it.
    Wrong(String),
}

fn first_message(link: &mut Link) -> Result<Request, NoRequest> {
    // A request has no payload: a frame with one finds the pool closed.
    let pool = BlockPool::new(0).map_err(|error| NoRequest::Cut(error.to_string()))?;
    pool.close();
    match link.inlet.receive(&pool) {
        Ok(parcel) => match parcel.message {
            Message::Request(request) => Ok(request),
            _ => Err(NoRequest::Wrong("the first message is no request".into())),
        },
        Err(LinkError::Protocol(reason)) => Err(NoRequest::Wrong(reason)),
        Err(error) => Err(NoRequest::Cut(error.to_string())),
    }
}

fn allow(request: &Request, rights: &Rights) -> Result<(), Refusal> {
    if let Some((transfer, only)) = &rights.only {
        let joins = matches!(request.job, Job::Join { .. });
        if request.transfer != *transfer || !(joins || is_same_work(&request.job, only)) {
            return Err(refusal(RefusalKind::NotAllowed, "this key was admitted for another transfer"));
        }
    }
    allow_job(&request.job, rights)
}

fn allow_job(job: &Job, rights: &Rights) -> Result<(), Refusal> {
    let allowed = match job {
        Job::Receive { options, .. } if rights.write && options.preserve.owner && !rights.owners => {
            let reason = "this key may not set owners; leave owner out of --preserve, or ask for owner=keep in authorized_keys there";
            return Err(refusal(RefusalKind::NotAllowed, reason));
        }
        Job::Receive { .. } => rights.write,
        Job::Send { .. } => rights.read,
        // Zeros concern no file.
        Job::Join { .. } | Job::Measure(_) => true,
        Job::Admit { job, .. } if rights.may_admit && !matches!(**job, Job::Join { .. }) => {
            return allow_job(job, rights);
        }
        Job::Admit { .. } => false,
        Job::Drive(_) | Job::DriveKey => rights.may_admit && rights.read,
    };
    if allowed {
        Ok(())
    } else {
        let what = job_name(job);
        Err(refusal(
            RefusalKind::NotAllowed,
            &format!("this key may not {what}; ask for rights= in authorized_keys there"),
        ))
    }
}

/// Whether a job is the admitted one; from the second session on a run resumes whatever was asked first.
fn is_same_work(job: &Job, admitted: &Job) -> bool {
    let mut job = job.clone();
    if let (Job::Receive { options, .. }, Job::Receive { options: admitted, .. }) = (&mut job, admitted) {
        options.resume = admitted.resume;
    }
    job == *admitted
}

fn job_name(job: &Job) -> &'static str {
    match job {
        Job::Receive { .. } => "write",
        Job::Send { .. } => "read",
        Job::Join { .. } => "join",
        Job::Admit { .. } => "admit another key",
        Job::Drive(_) | Job::DriveKey => "drive a transfer",
        Job::Measure(_) => "measure",
    }
}

fn serve(
    mut link: Link,
    job: Job,
    rights: &Rights,
    registered: &Registered<'_>,
    account: &Account,
) -> Result<(), SessionError> {
    let silent: EventSink = Arc::new(|_| {});
    let tree = match rights.root.tree() {
        Ok(tree) => tree,
        Err(error) => {
            let refusal = refusal(RefusalKind::Path, &error.to_string());
            refuse(link, refusal.clone());
            return Err(SessionError::Refused(refusal));
        }
    };
    link.outlet.send(Message::Accepted.into())?;
    link.outlet.flush()?;
    match job {
        Job::Receive { destination, options } => {
            let transfer = registered.entry.0;
            let order =
                receiver::Order { transfer, tree: &tree, destination: &destination, asked: None, options: &options };
            receiver::run(link, &registered.joined, &order, account, &silent, &registered.stop).map(|_| ())
        }
        Job::Send { sources, options } => {
            match choose_congestion(&link.control, options.congestion.as_deref()) {
                Ok(congestion) => {
                    link.outlet.send(Message::Congestion(congestion).into())?;
                    // The tree is known to the other end one round trip later.
                    link.await_answer()?;
                }
                Err(error) => {
                    let refusal = refusal(RefusalKind::NotAllowed, &error);
                    refuse(link, refusal.clone());
                    return Err(SessionError::Refused(refusal));
                }
            }
            let found = sender::find_sources(&tree, &sources, &options);
            sender::run(link, &registered.joined, found, &options, account, &silent, &registered.stop).map(|_| ())
        }
        _ => Err(SessionError::Protocol("not a transfer".into())),
    }
}

/// Sets what was asked for, or else the best there is, and answers what the other end shall know of it.
fn choose_congestion(control: &LinkControl, name: Option<&str>) -> Result<Congestion, String> {
    let instead = control.set_congestion(name)?;
    if let Some(text) = &instead {
        tracing::info!(peer = %control.peer(), "{text}");
    }
    let instead = instead.map_or_else(String::new, |text| clip(format!("the far end says: {text}")));
    Ok(Congestion { name: control.congestion().unwrap_or_default(), instead })
}

fn refuse(mut link: Link, refusal: Refusal) -> Ended {
    let reason = refusal.reason.clone();
    // Dropping the outlet sends this and ends its direction in order.
    let _ = link.outlet.send(Message::Refused(refusal).into());
    let _ = link.outlet.flush();
    Ended::TurnedAway(reason)
}

fn refusal(kind: RefusalKind, reason: &str) -> Refusal {
    Refusal { kind, reason: reason.to_owned() }
}
