//! One authenticated connection, from its first message to its end: `read_request`, [`authorize`],
//! register among the running sessions, and dispatch to whoever runs the session.

use icdc_disk::BlockPool;
use icdc_link::Link;
use icdc_protocol::TransferId;
use icdc_protocol::message::{Job, Message, Refusal, RefusalKind, Request, Transfer};
use icdc_protocol::validate::clip;
use icdc_session_process::{
    Ended, Part, Registered, RunningSession, Sessions, User, Work, conclude, diskless, refuse, run_session,
};
use icdc_stop::StopSignal;
use icdc_transfer::FurtherLink;
use icdc_trust::PublicKey;

use crate::authorize::{authorize, job_name};
use crate::granted::Granted;
use crate::login_receipt::login_notary;

/// A session that is authorized and about to begin.
pub(crate) struct Beginning<'a> {
    /// Request of the other end.
    pub(crate) request: &'a Request,
    /// Name of the user whose process serves the session; `None` for the user of this process.
    pub(crate) user: Option<&'a str>,
    /// Paths of the request, for logs.
    pub(crate) paths: Option<String>,
}

/// Outcome of a connection.
pub(crate) struct Answered {
    /// Transfer id of the request; `None` without a request.
    pub(crate) transfer: Option<TransferId>,
    /// Name of the requested job; `None` without a request.
    pub(crate) job: Option<&'static str>,
    pub(crate) work: Work,
    pub(crate) ended: Ended,
}

/// A session that is authorized and registered.
pub(crate) struct Session<'a> {
    pub(crate) link: Link,
    pub(crate) request: Request,
    pub(crate) granted: &'a Granted,
    pub(crate) sessions: &'a Sessions,
    pub(crate) registered: Registered<'a>,
    pub(crate) work: &'a Work,
}

/// Runs the sessions of a listening end.
pub(crate) trait Runner {
    /// Called for an authorized session before it begins; an error refuses it.
    fn begin(&self, _session: &Beginning<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Admits `key` for another far end's part in a transfer, as the holder of the key `by` asks.
    fn admit(&self, _by: PublicKey, _key: PublicKey, _transfer: TransferId, _job: Transfer) -> Result<(), Refusal> {
        Err(Refusal::new(RefusalKind::NotAllowed, "this end admits no other key"))
    }

    /// Runs a session to its end, and returns how it ended.
    fn run(&self, session: Session<'_>) -> Ended;
}

/// Runner of sessions in the process that listens.
pub(crate) struct InThisProcess;

impl Runner for InThisProcess {
    fn run(&self, session: Session<'_>) -> Ended {
        let Session { link, request, granted, registered, work, .. } = session;
        let notary = login_notary(&request, &granted.rights.root);
        let session =
            RunningSession { rights: &granted.rights, registered: &registered, work, notary: notary.as_ref() };
        run_session(link, request, session)
    }
}

/// Serves a connection from its first message to its end, or until `stop` is requested.
pub(crate) fn serve_connection(
    mut link: Link,
    granted: &Granted,
    sessions: &Sessions,
    stop: &StopSignal,
    runner: &dyn Runner,
) -> Answered {
    let mut answered = Answered { transfer: None, job: None, work: Work::begin(), ended: Ended::Finished };
    let request = match read_request(&mut link) {
        Ok(request) => request,
        Err(NoRequest::Cut(reason)) => return Answered { ended: Ended::Cut(reason), ..answered },
        Err(NoRequest::Wrong(reason)) => {
            let refusal = Refusal::new(RefusalKind::Protocol, clip(reason));
            return Answered { ended: refuse(link, refusal), ..answered };
        }
    };
    (answered.transfer, answered.job) = (Some(request.transfer), Some(job_name(&request.job)));
    note_paths(&request.job, &answered.work);
    let allowed = if stop.is_requested() {
        Err(Refusal::new(
            RefusalKind::Busy,
            "the key's line in the daemon's authorized keys has just changed or grants no more; try again",
        ))
    } else {
        authorize(&request, granted)
            .and_then(|()| granted.handle.as_ref().map_or(Ok(()), |handle| handle.take(request.transfer)))
    };
    let allowed = allowed.and_then(|()| match request.job {
        Job::Join { .. } => Ok(()),
        _ => runner.begin(&Beginning {
            request: &request,
            user: granted.acting.as_deref().map(User::name),
            paths: answered.work.done().paths,
        }),
    });
    let (version, job) = (link.control.version(), job_name(&request.job));
    tracing::debug!(peer = %link.control.peer(), label = %granted.label, ?version, job, "session");
    answered.ended = match allowed {
        Err(refusal) => refuse(link, refusal),
        Ok(()) => dispatch(request, link, &ServedConnection { granted, sessions, stop, runner, work: &answered.work }),
    };
    answered
}

/// Records the paths of a job for logs.
fn note_paths(job: &Job, work: &Work) {
    match job {
        job if diskless(job).is_some() => {}
        Job::Transfer(Transfer::Receive { destination, .. }) => work.concerns(std::slice::from_ref(destination)),
        Job::Transfer(Transfer::Send { sources, .. }) => work.concerns(sources),
        Job::Change(request) => work.concerns(&request.paths()),
        Job::List(request) => work.concerns(std::slice::from_ref(&request.path)),
        _ => {}
    }
}

/// Context in which an authorized connection is served.
struct ServedConnection<'a> {
    granted: &'a Granted,
    sessions: &'a Sessions,
    stop: &'a StopSignal,
    runner: &'a dyn Runner,
    work: &'a Work,
}

/// Hands an authorized request to the session that it joins, or registers a new session and has it
/// run.
fn dispatch(request: Request, link: Link, served: &ServedConnection<'_>) -> Ended {
    let ServedConnection { granted, sessions, stop, runner, work } = *served;
    match request.job {
        Job::Join { stream } => match sessions.join(request.transfer, FurtherLink { number: stream, link }) {
            Ok(()) => Ended::Joined,
            Err((link, refusal)) => refuse(link, refusal),
        },
        Job::Admit { key, job } => {
            let admitted = match link.control.peer_key() {
                Some(by) => runner.admit(by, PublicKey::from_bytes(key), request.transfer, *job),
                None => Err(Refusal::new(RefusalKind::NotAllowed, "this end admits no other key")),
            };
            conclude(link, admitted)
        }
        _ => match sessions.register(request.transfer, Part::of(&request.job), &link.control, stop) {
            Ok(registered) => runner.run(Session { link, request, granted, sessions, registered, work }),
            Err(refusal) => refuse(link, refusal),
        },
    }
}

/// Reason for which there is no request.
enum NoRequest {
    /// The connection was lost.
    Cut(String),
    /// Another message came, or a request beyond the limits: the other end is told so.
    Wrong(String),
}

/// Receives the request, which has no payload, as the first message.
fn read_request(link: &mut Link) -> Result<Request, NoRequest> {
    // A request has no payload: a frame with one finds the pool closed.
    let pool = BlockPool::new(0).map_err(|error| NoRequest::Cut(error.to_string()))?;
    pool.close();
    match link.inlet.receive(&pool) {
        Ok(parcel) => match parcel.message {
            Message::Request(request) => Ok(request),
            _ => Err(NoRequest::Wrong("the first message is no request".into())),
        },
        Err(error) if error.breaks_protocol() => Err(NoRequest::Wrong(error.to_string())),
        Err(error) => Err(NoRequest::Cut(error.to_string())),
    }
}
