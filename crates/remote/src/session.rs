//! One connected and authenticated link: what the other end asks for, whether it may, and running
//! it.

use std::sync::Arc;

use icdc_disk::BlockPool;
use icdc_disk::tree::Tree;
use icdc_link::{Link, LinkError};
use icdc_measure::Finish;
use icdc_protocol::Features;
use icdc_protocol::message::{
    Congestion, Diskless, Job, Message, ReceiveOptions, Refusal, RefusalKind, Request, Transfer, TransferId,
};
use icdc_protocol::validate::clip;
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_transfer::sender::{self, SendingLink};
use icdc_transfer::{EventSink, FurtherLink, Joining, receiver, summary};
use icdc_tuning::Tuned;

use crate::drive;
use crate::ended::Ended;
use crate::rights::Rights;
use crate::scratch::Scratch;
use crate::sessions::{Part, Registered, Sessions};
use crate::work::Work;
use crate::worker::User;

/// A session that is about to begin.
pub(crate) struct Beginning<'a> {
    /// What was asked for, and for which transfer.
    pub(crate) request: &'a Request,
    /// As whom it is served, if not as the user of this process.
    pub(crate) user: Option<&'a str>,
    /// What it is about, for logs.
    pub(crate) paths: Option<String>,
}

/// How a connection was answered.
pub(crate) struct Answered {
    /// Which transfer it asked for; `None` if nothing was asked for.
    pub(crate) transfer: Option<TransferId>,
    /// What was asked for; `None` if nothing was.
    pub(crate) job: Option<&'static str>,
    pub(crate) work: Work,
    pub(crate) ended: Ended,
}

/// A session that is allowed and registered.
pub(crate) struct Entered<'a> {
    pub(crate) link: Link,
    pub(crate) request: Request,
    pub(crate) rights: &'a Rights,
    pub(crate) sessions: &'a Sessions,
    pub(crate) registered: Registered<'a>,
    pub(crate) work: &'a Work,
}

/// What serves the sessions of a process.
pub(crate) trait Performer {
    /// Hears of a session that is allowed before it begins, and may refuse it.
    fn begin(&self, _session: &Beginning<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Serves it to its end.
    fn perform(&self, session: Entered<'_>) -> Ended;
}

/// Sessions are served by the process that listens.
pub(crate) struct Here;

impl Performer for Here {
    fn perform(&self, session: Entered<'_>) -> Ended {
        let Entered { link, request, rights, sessions, registered, work } = session;
        perform(link, request, rights, sessions, &registered, work)
    }
}

/// Serves one connection from its first message to its end, or until `stop` is requested; `performer`
/// has the sessions.
pub(crate) fn answer(
    mut link: Link,
    rights: &Rights,
    sessions: &Sessions,
    stop: &StopSignal,
    performer: &dyn Performer,
) -> Answered {
    let mut answered = Answered { transfer: None, job: None, work: Work::new(), ended: Ended::Finished };
    let request = match first_message(&mut link) {
        Ok(request) => request,
        Err(NoRequest::Cut(reason)) => return Answered { ended: Ended::Cut(reason), ..answered },
        Err(NoRequest::Wrong(reason)) => {
            let refusal = Refusal::new(RefusalKind::Protocol, clip(reason));
            return Answered { ended: refuse(link, refusal), ..answered };
        }
    };
    (answered.transfer, answered.job) = (Some(request.transfer), Some(job_name(&request.job)));
    match &request.job {
        job if diskless(job).is_some() => {}
        Job::Transfer(Transfer::Receive { destination, .. }) => {
            answered.work.concerns(std::slice::from_ref(destination))
        }
        Job::Transfer(Transfer::Send { sources, .. }) => answered.work.concerns(sources),
        _ => {}
    }
    let allowed = if stop.is_requested() {
        Err(Refusal::new(
            RefusalKind::Busy,
            "the key's line in the daemon's authorized keys has just changed or grants no more; try again",
        ))
    } else {
        allow(&request, rights)
            .and_then(|()| rights.place.as_ref().map_or(Ok(()), |place| place.take(request.transfer)))
    };
    let allowed = allowed.and_then(|()| match request.job {
        Job::Join { .. } => Ok(()),
        _ => performer.begin(&Beginning {
            request: &request,
            user: rights.acting.as_deref().map(User::name),
            paths: answered.work.done().paths,
        }),
    });
    let version = link.control.version();
    tracing::debug!(peer = %link.control.peer(), label = %rights.label, ?version, job = job_name(&request.job), "session");
    answered.ended = match allowed {
        Err(refusal) => refuse(link, refusal),
        Ok(()) => carry_out(request, link, rights, sessions, stop, (performer, &answered.work)),
    };
    answered
}

fn carry_out(
    request: Request,
    link: Link,
    rights: &Rights,
    sessions: &Sessions,
    stop: &StopSignal,
    (performer, work): (&dyn Performer, &Work),
) -> Ended {
    match request.job {
        Job::Join { stream } => match sessions.join(request.transfer, FurtherLink { number: stream, link }) {
            Ok(()) => Ended::Joined,
            Err((link, refusal)) => refuse(link, refusal),
        },
        Job::Admit { key, job } => drive::admit(link, sessions.admission.as_deref(), request.transfer, key, *job),
        _ => match sessions.enter(request.transfer, Part::of(&request.job), &link.control, stop) {
            Ok(registered) => performer.perform(Entered { link, request, rights, sessions, registered, work }),
            Err(refusal) => refuse(link, refusal),
        },
    }
}

/// Serves a session that is allowed and registered, in this process.
pub(crate) fn perform(
    link: Link,
    request: Request,
    rights: &Rights,
    sessions: &Sessions,
    registered: &Registered<'_>,
    work: &Work,
) -> Ended {
    match request.job {
        Job::Measure(mut order) => {
            let (congestion, refused) = rights.congestion.judge(order.congestion.as_deref());
            if let Some(reason) = refused {
                return refuse(link, Refusal::new(RefusalKind::NotAllowed, reason));
            }
            order.congestion = congestion.map(str::to_owned);
            match icdc_measure::answer(link, &order, &sessions.measurements, &registered.stop) {
                Ok(Finish::Complete) => Ended::Finished,
                Ok(Finish::Interrupted) => Ended::Interrupted,
                Err(error) => error.into(),
            }
        }
        Job::Transfer(job) => match serve(link, (request.features, job), rights, registered, work) {
            Ok(()) => Ended::Finished,
            Err(error) => error.into(),
        },
        _ => drive::answer(request, link, rights, registered, work),
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
        let is_its_own = match &request.job {
            Job::Join { .. } => true,
            Job::Transfer(job) => is_same_work(job, only),
            Job::Admit { .. } | Job::Drive(_) | Job::DriveKey | Job::Measure(_) => false,
        };
        if request.transfer != *transfer || !is_its_own {
            return Err(Refusal::new(RefusalKind::NotAllowed, "this key was admitted for another transfer"));
        }
    }
    let allowed = match &request.job {
        // Zeros concern no file.
        job if diskless(job).is_some() => true,
        Job::Measure(_) | Job::Drive(_) | Job::DriveKey if !rights.unlimited => {
            let reason = format!(
                "this key may not {}: its rate or bytes are limited, and these limits would not apply",
                job_name(&request.job)
            );
            return Err(Refusal::new(RefusalKind::NotAllowed, reason));
        }
        Job::Join { .. } | Job::Measure(_) => true,
        Job::Transfer(job) => return allow_transfer(job, rights),
        Job::Admit { job, .. } if rights.may_admit => return allow_transfer(job, rights),
        Job::Admit { .. } => false,
        Job::Drive(_) | Job::DriveKey => rights.may_admit && rights.access.reads(),
    };
    if allowed { Ok(()) } else { Err(no_rights(job_name(&request.job))) }
}

fn allow_transfer(job: &Transfer, rights: &Rights) -> Result<(), Refusal> {
    let refused = |reason: &str| Err(Refusal::new(RefusalKind::NotAllowed, reason));
    match job {
        _ if job.diskless().is_some() => Ok(()),
        Transfer::Receive { .. } if !rights.access.writes() => Err(no_rights(transfer_name(job))),
        Transfer::Send { .. } if !rights.access.reads() => Err(no_rights(transfer_name(job))),
        Transfer::Receive { options, .. } if options.preserve.owner && !rights.owners => refused(
            "this key may not set owners; leave owner out of --preserve, or ask for owner=keep in authorized_keys there",
        ),
        Transfer::Receive { options, .. } if options.dry_run && rights.access.drop_box().is_some() => {
            refused("a drop box does not tell what is there; leave --dry-run out")
        }
        Transfer::Receive { .. } | Transfer::Send { .. } => Ok(()),
    }
}

fn no_rights(what: &str) -> Refusal {
    let reason = format!("this key may not {what}; ask for rights= in authorized_keys there");
    Refusal::new(RefusalKind::NotAllowed, reason)
}

/// Whether a job is the admitted one; from the second session on a run resumes, in the place that the first
/// one has found, whatever was asked first.
fn is_same_work(job: &Transfer, admitted: &Transfer) -> bool {
    let mut job = job.clone();
    if let (Transfer::Receive { options, .. }, Transfer::Receive { options: admitted, .. }) = (&mut job, admitted) {
        options.resume = admitted.resume;
        options.place = admitted.place;
    }
    job == *admitted
}

/// What a job is, in a word for logs.
pub(crate) fn job_name(job: &Job) -> &'static str {
    match job {
        job if diskless(job).is_some() => "measure a copy",
        Job::Transfer(transfer) => transfer_name(transfer),
        Job::Join { .. } => "join",
        Job::Admit { .. } => "admit another key",
        Job::Drive(_) | Job::DriveKey => "drive a transfer",
        Job::Measure(_) => "measure",
    }
}

fn transfer_name(transfer: &Transfer) -> &'static str {
    match transfer {
        Transfer::Receive { .. } => "write",
        Transfer::Send { .. } => "read",
    }
}

fn serve(
    mut link: Link,
    (features, job): (Features, Transfer),
    rights: &Rights,
    registered: &Registered<'_>,
    work: &Work,
) -> Result<(), SessionError> {
    let account = &work.account;
    let silent: EventSink = Arc::new(|_| {});
    // It goes with the session.
    let (tree, _scratch) = match place(&job, rights) {
        Ok(place) => place,
        Err(refusal) => {
            refuse(link, refusal.clone());
            return Err(SessionError::Refused(refusal));
        }
    };
    link.outlet.send(Message::Accepted(Features::OURS).into())?;
    if let Some(limit) = rights.max_rate {
        account.note_max_rate(limit);
        if features.has(Features::MAX_RATE) {
            let bytes_per_second = limit.as_bytes_per_second().max(1);
            link.outlet.send(Message::MaxRate { bytes_per_second }.into())?;
        }
    }
    link.outlet.flush()?;
    let joining = Joining { joined: &registered.joined, wanted: None };
    match job {
        Transfer::Receive { destination, options } => {
            let transfer = registered.transfer;
            let order = receiver::Order {
                transfer,
                tree: &tree,
                destination: &destination,
                asked: None,
                options: &options,
                allowed: rights.allowed(),
            };
            let received = receiver::run(link, joining, &order, account, &silent, &registered.stop)?;
            work.complete(&summary::of_received(&received, account, &options));
            Ok(())
        }
        Transfer::Send { sources, mut options } => {
            let (congestion, refused) = rights.congestion.judge(options.congestion.as_deref());
            options.congestion = congestion.map(str::to_owned);
            let tuned = match sender::tune(&link.control, options.congestion.as_deref()) {
                Ok(tuned) => tuned,
                Err(error) => {
                    let refusal = Refusal::new(RefusalKind::NotAllowed, error.to_string());
                    refuse(link, refusal.clone());
                    return Err(SessionError::Refused(refusal));
                }
            };
            let instead = refused.as_deref().or_else(|| tuned.as_ref().and_then(Tuned::instead));
            if let Some(text) = instead {
                tracing::info!(peer = %link.control.peer(), "{text}");
            }
            link.outlet.send(Message::Congestion(told_congestion(tuned.as_ref(), instead)).into())?;
            let mut link = SendingLink { link, tuned, peer: features };
            // The tree is known to the other end one round trip later.
            link.await_answer()?;
            let found = sender::find_sources(&tree, &sources, &options);
            let sent = sender::run(link, joining, found, &options, account, &silent, &registered.stop)?;
            work.complete(&summary::of_sent(&sent, account, &ReceiveOptions::default()));
            Ok(())
        }
    }
}

/// Where the paths of a job are resolved; for one without disks in a directory of its own.
fn place(job: &Transfer, rights: &Rights) -> Result<(Tree, Option<Scratch>), Refusal> {
    let Some(diskless) = job.diskless() else {
        let tree = rights.root.tree().map_err(|error| Refusal::new(error.kind(), error.to_string()))?;
        return Ok((tree, None));
    };
    let sent = matches!(job, Transfer::Send { .. }).then_some(diskless);
    let scratch = Scratch::new(sent).map_err(|reason| Refusal::new(RefusalKind::Internal, reason))?;
    Ok((scratch.tree().clone(), Some(scratch)))
}

/// What a job without disks is about.
pub(crate) fn diskless(job: &Job) -> Option<Diskless> {
    match job {
        Job::Transfer(transfer) => transfer.diskless(),
        _ => None,
    }
}

/// What the other end shall know of the congestion control.
fn told_congestion(tuned: Option<&Tuned>, instead: Option<&str>) -> Congestion {
    let name = tuned.map(Tuned::congestion).unwrap_or_default();
    Congestion { name, instead: instead.map_or_else(String::new, |text| clip(text.to_owned())) }
}

pub(crate) fn refuse(mut link: Link, refusal: Refusal) -> Ended {
    let told = refusal.clone();
    // Dropping the outlet sends this and ends its direction in order.
    let _ = link.outlet.send(Message::Refused(refusal).into());
    let _ = link.outlet.flush();
    Ended::TurnedAway(told)
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::Place;

    use super::*;

    #[test]
    fn a_run_that_goes_on_is_the_work_that_was_admitted() {
        let receive = |destination: &[u8], change: fn(&mut ReceiveOptions)| {
            let mut options = ReceiveOptions::default();
            change(&mut options);
            Transfer::Receive { destination: destination.to_vec(), options }
        };
        let admitted = receive(b"in", |_| ());
        assert!(is_same_work(&receive(b"in", |options| options.resume = true), &admitted));
        assert!(is_same_work(&receive(b"in", |options| options.place = Some(Place::Inside)), &admitted));
        assert!(!is_same_work(&receive(b"in/other", |_| ()), &admitted));
        assert!(!is_same_work(&receive(b"in", |options| options.preserve.owner = true), &admitted));
        assert!(!is_same_work(&Transfer::Send { sources: vec![], options: Default::default() }, &admitted));
    }
}
