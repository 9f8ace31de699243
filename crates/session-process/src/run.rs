//! Running a session whose request was authorized.

use std::sync::Arc;

use icdc_disk::tree::Tree;
use icdc_link::Link;
use icdc_measure::Completion;
use icdc_protocol::Features;
use icdc_protocol::message::{
    ChangeRequest, Congestion, Diskless, Job, ListRequest, Message, ReceiveOptions, Refusal, RefusalKind, Request,
    SendOptions, Transfer,
};
use icdc_protocol::validate::clip;
use icdc_session::SessionError;
use icdc_transfer::sender::{self, SendingLink};
use icdc_transfer::{Account, EventSink, Notary, Run, receiver, summary};
use icdc_tuning::{SendingManner, Tuned};
use icdc_units::Rate;

use icdc_client::Scratch;

use crate::drive;
use crate::ended::Ended;
use crate::rights::Rights;
use crate::sessions::Registered;
use crate::work::Work;

/// A session that is authorized and registered.
#[derive(Clone, Copy)]
pub struct RunningSession<'a> {
    /// Rights of the session.
    pub rights: &'a Rights,
    /// Entry of the session in the registry.
    pub registered: &'a Registered<'a>,
    /// Counters of the session's work.
    pub work: &'a Work,
    /// Signs a receipt, where the request asks for one.
    pub notary: &'a dyn Notary,
}

/// Runs a session in this process to its end; returns how it ended.
pub fn run_session(link: Link, request: Request, session: RunningSession<'_>) -> Ended {
    let RunningSession { rights, registered, work, .. } = session;
    match request.job {
        Job::Measure(mut order) => {
            let (congestion, refused) = rights.congestion.judge(order.congestion.as_deref());
            if let Some(reason) = refused {
                return refuse(link, Refusal::new(RefusalKind::NotAllowed, reason));
            }
            order.congestion = congestion.map(str::to_owned);
            match icdc_measure::answer(link, &order, registered.measuring(), &registered.stop) {
                Ok(Completion::Complete) => Ended::Finished,
                Ok(Completion::Interrupted) => Ended::Interrupted,
                Err(error) => error.into(),
            }
        }
        Job::List(order) => match list(link, &order, session) {
            Ok(()) => Ended::Finished,
            Err(error) => error.into(),
        },
        Job::Change(order) => match change(link, order, session) {
            Ok(()) => Ended::Finished,
            Err(error) => error.into(),
        },
        Job::Transfer(job) => {
            let is_measurement = job.diskless().is_some();
            match run_transfer(link, (request.features, job), session) {
                Ok(()) => Ended::Finished,
                // The client interrupts a measurement once its time has come, which only it knows.
                Err(SessionError::Interrupted) if is_measurement && !registered.stop.is_requested() => Ended::Finished,
                Err(error) => error.into(),
            }
        }
        _ => drive::drive_in_session(request, link, rights, registered, work),
    }
}

/// Answers a request for a listing over the link, within the rights of the session.
fn list(link: Link, request: &ListRequest, session: RunningSession<'_>) -> Result<(), SessionError> {
    let RunningSession { rights, registered, .. } = session;
    let tree = match rights.root.tree() {
        Ok(tree) => tree,
        Err(error) => {
            let refusal = Refusal::new(error.kind(), error.to_string());
            refuse(link, refusal.clone());
            return Err(SessionError::Refused(refusal));
        }
    };
    if rights.max_rate.is_some_and(Rate::is_zero) {
        let reason = "the key's limit of the rate lets nothing through at this time; try again later".to_owned();
        let refusal = Refusal::new(RefusalKind::Busy, reason);
        refuse(link, refusal.clone());
        return Err(SessionError::Refused(refusal));
    }
    // Without this the names would come more slowly, but they would come.
    let tuned = sender::tune(&link.control, SendingManner::default(), registered.privileges());
    if let Err(error) = &tuned {
        tracing::info!(peer = %link.control.peer(), "{error}");
    }
    if rights.max_rate.is_some() {
        link.control.set_rate(socket_rate(rights.max_rate));
    }
    icdc_listing::answer(link, &tree, request, &registered.stop)
}

/// Makes, removes or renames items as the request says, within the rights of the session.
fn change(link: Link, mut request: ChangeRequest, session: RunningSession<'_>) -> Result<(), SessionError> {
    let RunningSession { rights, registered, .. } = session;
    let tree = rights.root.tree().map_err(|error| Refusal::new(error.kind(), error.to_string()));
    let prepared = tree.and_then(|tree| {
        if let ChangeRequest::Remove { paths, .. } = &mut request {
            let expanded = sender::expanded(&tree, paths);
            *paths = expanded.map_err(|reason| Refusal::new(RefusalKind::NotAllowed, reason))?;
        }
        Ok(tree)
    });
    match prepared {
        Ok(tree) => icdc_changes::answer(link, &tree, &request, &registered.stop),
        Err(refusal) => {
            refuse(link, refusal.clone());
            Err(SessionError::Refused(refusal))
        }
    }
}

/// Sends or receives files within the rights of the session.
fn run_transfer(
    mut link: Link,
    (features, job): (Features, Transfer),
    session: RunningSession<'_>,
) -> Result<(), SessionError> {
    let RunningSession { rights, work, .. } = session;
    // The directory of a transfer without disks goes with the session.
    let (tree, _scratch) = match open_tree(&job, rights) {
        Ok(opened) => opened,
        Err(refusal) => {
            refuse(link, refusal.clone());
            return Err(SessionError::Refused(refusal));
        }
    };
    link.outlet.send(Message::Accepted(Features::OURS).into()).map_err(SessionError::of_link)?;
    if let Some(message) = told_limit(work.account.announce_max_rate(), rights, features) {
        link.outlet.send(message.into()).map_err(SessionError::of_link)?;
    }
    link.outlet.flush().map_err(SessionError::of_link)?;
    match job {
        Transfer::Receive { destination, options } => receive(link, &tree, (&destination, &options, features), session),
        Transfer::Send { sources, options } => send(link, &tree, (&sources, options, features), session),
    }
}

/// Message by which an end with these features is told of the session's limit as it begins; `None` if
/// there is none, or it takes no such message. One that takes no changes is told the highest limit.
fn told_limit(limit: Option<Rate>, rights: &Rights, features: Features) -> Option<Message> {
    match (limit, rights.highest_rate) {
        (Some(limit), _) if features.has(Features::KEY_CEILING) => Some(Message::KeyCeiling(Some(limit))),
        (_, Some(highest)) if features.has(Features::MAX_RATE) => {
            Some(Message::MaxRate { bytes_per_second: highest.as_bytes_per_second().max(1) })
        }
        _ => None,
    }
}

/// Limit as a socket keeps it: the least there is where nothing may flow.
pub(crate) fn socket_rate(limit: Option<Rate>) -> Option<Rate> {
    limit.map(|limit| limit.max(Rate::from_bytes_per_second(1)))
}

/// Receives files over the link into `destination`.
fn receive(
    link: Link,
    tree: &Tree,
    (destination, options, peer): (&[u8], &ReceiveOptions, Features),
    RunningSession { rights, registered, work, notary }: RunningSession<'_>,
) -> Result<(), SessionError> {
    let transfer = registered.transfer;
    let order = receiver::ReceiveRequest {
        transfer,
        tree,
        destination,
        asked: None,
        ends_here: false,
        listed: None,
        options,
        output: None,
        allowed: rights.allowed(),
        peer,
        notary: options.receipt.then_some(notary),
    };
    let account: &Account = &work.account;
    let run = Run { account, events: &silent(), stop: &registered.stop, ceiling: None };
    let received = receiver::run(link, registered.joining(), &order, run)?;
    work.complete(&summary::of_received(&received, account, options));
    Ok(())
}

/// Sends the files of `sources` over the link.
fn send(
    mut link: Link,
    tree: &Tree,
    (sources, mut options, peer): (&[Vec<u8>], SendOptions, Features),
    RunningSession { rights, registered, work, .. }: RunningSession<'_>,
) -> Result<(), SessionError> {
    // A list has its names below one source.
    let sources = match options.listed {
        Some(_) => sources.to_vec(),
        None => match sender::expanded(tree, sources) {
            Ok(sources) => sources,
            Err(reason) => {
                let refusal = Refusal::new(RefusalKind::NotAllowed, reason);
                refuse(link, refusal.clone());
                return Err(SessionError::Refused(refusal));
            }
        },
    };
    let (congestion, refused) = rights.congestion.judge(options.congestion.as_deref());
    options.congestion = congestion.map(str::to_owned);
    let privileges = registered.privileges();
    let tuned = match sender::tune(&link.control, sender::manner(&options), privileges) {
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
    let congestion = Message::Congestion(congestion_in_use(tuned.as_ref(), instead));
    link.outlet.send(congestion.into()).map_err(SessionError::of_link)?;
    let mut link = SendingLink { link, tuned, peer, privileges: privileges.clone() };
    // The tree is known to the other end one round trip later.
    link.await_answer().map_err(SessionError::of_link)?;
    let found = sender::find_sources(tree, &sources, &options, &registered.transfer);
    let account: &Account = &work.account;
    let run = Run { account, events: &silent(), stop: &registered.stop, ceiling: None };
    let sent = sender::run(link, registered.joining(), found, &options, run)?;
    work.complete(&summary::of_sent(&sent, account, &ReceiveOptions::default()));
    Ok(())
}

/// Sink that ignores the events of a session: its client has its own.
fn silent() -> EventSink {
    Arc::new(|_| {})
}

/// Opens the tree in which the paths of a job are resolved; that of a job without disks is a
/// scratch directory, which is returned too.
fn open_tree(job: &Transfer, rights: &Rights) -> Result<(Tree, Option<Scratch>), Refusal> {
    let Some(diskless) = job.diskless() else {
        let tree = rights.root.tree().map_err(|error| Refusal::new(error.kind(), error.to_string()))?;
        return Ok((tree, None));
    };
    let sent = matches!(job, Transfer::Send { .. }).then_some(diskless);
    let scratch = Scratch::new(sent).map_err(|reason| Refusal::new(RefusalKind::Internal, reason))?;
    Ok((scratch.tree().clone(), Some(scratch)))
}

/// Parameters of a job that copies without disks: the length of the data, and whether blocks are
/// digested; `None` for any other job.
pub fn diskless(job: &Job) -> Option<Diskless> {
    match job {
        Job::Transfer(transfer) => transfer.diskless(),
        _ => None,
    }
}

/// The congestion control in use, and why it is not the one that was asked for.
fn congestion_in_use(tuned: Option<&Tuned>, instead: Option<&str>) -> Congestion {
    let name = tuned.map(Tuned::congestion).unwrap_or_default();
    Congestion { name, instead: instead.map_or_else(String::new, |text| clip(text.to_owned())) }
}

/// Sends a refusal and closes the connection in order; returns [`Ended::TurnedAway`].
pub fn refuse(mut link: Link, refusal: Refusal) -> Ended {
    let sent = refusal.clone();
    // Dropping the outlet sends this and ends its direction in order.
    let _ = link.outlet.send(Message::Refused(refusal).into());
    let _ = link.outlet.flush();
    Ended::TurnedAway(sent)
}
