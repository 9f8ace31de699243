//! The process of a session.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use icdc_limits::thread::start;
use icdc_link::{Link, LinkControl};
use icdc_measure::{Arrived, Expected};
use icdc_protocol::message::{Job, Refusal, RefusalKind};
use icdc_stop::StopSignal;
use icdc_transfer::FurtherLink;
use icdc_units::{Rate, Span};
use thiserror::Error;

use crate::channel::Channel;
use crate::confinement::confine;
use crate::messages::{Instruction, Report, Session};
use crate::privileged_helper::{DaemonHelper, Reserve};
use crate::receipt::DaemonNotary;
use crate::run::{RunningSession, refuse, run_session, socket_rate};
use crate::sessions::{Part, Sessions};
use crate::user::become_user;
use crate::work::{Done, Work};

/// Interval of the reports to the daemon: after a kill of either, the daemon's log lacks at most
/// the last second of work.
const REPORT: Span = Span::from_millis(500);
/// Exit code of a process whose daemon is gone.
const ORPHANED: i32 = 1;

/// Reason for which a session's process could not begin.
#[derive(Debug, Error)]
pub enum SessionProcessError {
    /// No daemon has given it a session.
    #[error("expected a daemon on standard input: {0}; this command is for `icdc serve` to call")]
    NoDaemon(String),
    /// The process may not run as the user that it was told.
    #[error("cannot run as the user of the key: {0}")]
    User(io::Error),
    /// A descriptor or a thread could not be created.
    #[error("{call}: {cause}")]
    System {
        /// Name of the system call.
        call: &'static str,
        /// Error of the system call.
        cause: io::Error,
    },
    /// The connection cannot be taken over.
    #[error(transparent)]
    Link(#[from] icdc_link::LinkError),
}

/// Runs the session that a daemon gives to this process by standard input, to its end. To be called
/// before the process has any other thread.
///
/// # Errors
/// See [`SessionProcessError`].
pub fn session_process() -> Result<(), SessionProcessError> {
    let system = |call| move |cause: io::Error| SessionProcessError::System { call, cause };
    let no_daemon = |error: io::Error| SessionProcessError::NoDaemon(error.to_string());
    let nobody = || SessionProcessError::NoDaemon("it said nothing".to_owned());
    let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(io::Error::from);
    let control = Channel::new(UnixStream::from(stdin.map_err(system("dup"))?)).map_err(no_daemon)?;
    let (order, help) = control.receive().map_err(no_daemon)?.ok_or_else(nobody)?;
    let (Instruction::Become(user), Some(help)) = (order, help) else { return Err(nobody()) };
    // Before anything that a client has sent is here.
    become_user(user.as_ref()).map_err(SessionProcessError::User)?;
    icdc_tcp::raise_descriptor_limit();
    let (order, socket) = control.receive().map_err(no_daemon)?.ok_or_else(nobody)?;
    let (Instruction::Begin(session), Some(socket)) = (order, socket) else { return Err(nobody()) };
    confine(&session.request.job, &session.rights);
    let daemon = Channel::new(UnixStream::from(help)).and_then(DaemonHelper::new).map_err(system("setsockopt"))?;
    serve(Arc::new(control), &daemon, *session, socket)
}

/// Runs the session over its first connection to its end, with one thread that follows the daemon's
/// instructions and one that reports progress; then reports how the session ended.
fn serve(
    control: Arc<Channel>,
    daemon: &Arc<DaemonHelper>,
    Session { request, rights, link }: Session,
    socket: OwnedFd,
) -> Result<(), SessionProcessError> {
    let (stop, work) = (StopSignal::new(), Arc::new(Work::begin()));
    work.account.set_max_rate(rights.max_rate);
    work.account.set_quota(Box::new(Reserve::new(daemon)));
    let announce = Arc::clone(daemon);
    let measurements = Expected::announcing(move |proofs| announce.expect(proofs));
    let sessions = Sessions::of_session_process(measurements, daemon.privileges());
    let notary = DaemonNotary::new(daemon);
    let link = Link::take_over(link, socket)?;
    let connections = Connections::default();
    connections.add(&link.control);
    let registered = sessions.register(request.transfer, Part::of(&request.job), &link.control, &stop);
    let registered = match registered {
        Ok(registered) => registered,
        Err(refusal) => {
            refuse(link, refusal);
            return Ok(());
        }
    };
    let listener = {
        let (control, sessions, connections) = (Arc::clone(&control), sessions.clone(), connections.clone());
        let paces = matches!(request.job, Job::List(_));
        let instructed = Instructed { sessions, connections, transfer: request.transfer, stop: stop.clone(), paces };
        let work = Arc::clone(&work);
        move || follow_instructions(&control, &instructed, &work)
    };
    let over = StopSignal::new();
    let reporter = {
        let (control, work) = (Arc::clone(&control), Arc::clone(&work));
        let (connections, over) = (connections.clone(), over.clone());
        move || report_progress(&control, &work, &connections, &over)
    };
    let ended = match start("daemon", listener).and_then(|_| start("report", reporter)) {
        Ok(reporter) => {
            let session = RunningSession { rights: &rights, registered: &registered, work: &work, notary: &notary };
            let ended = run_session(link, request, session);
            over.request();
            // It does not panic.
            let _ = reporter.join();
            ended
        }
        Err(error) => refuse(link, Refusal::new(RefusalKind::Internal, error.to_string())),
    };
    connections.forget();
    // Nobody hears it only if the daemon is gone.
    let _ = control.send(&Report::Ended(work.done(), ended), None);
    Ok(())
}

/// Carries out the daemon's instructions until the channel ends, and then ends this process: the
/// daemon is gone, or has nothing to do with this session any more.
fn follow_instructions(control: &Channel, instructed: &Instructed, work: &Work) {
    while let Ok(Some((instruction, socket))) = control.receive::<Instruction>() {
        obey(instruction, socket, instructed, work);
    }
    std::process::exit(ORPHANED);
}

/// Reports the work so far, whenever it has changed, until the session is `over`.
fn report_progress(control: &Channel, work: &Work, connections: &Connections, over: &StopSignal) {
    let mut last = work.done();
    while !over.wait(REPORT) {
        let done = work.done();
        let done = Done { bytes: done.bytes.max(connections.bytes()), ..done };
        if done != last && control.send(&Report::Progress(done.clone()), None).is_ok() {
            last = done;
        }
    }
}

/// The connections of the session, kept for counting what they have carried.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<Vec<LinkControl>>>);

impl Connections {
    fn add(&self, control: &LinkControl) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(control.clone());
    }

    /// Payload bytes that the connections have carried so far, in both directions.
    fn bytes(&self) -> u64 {
        let controls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        controls.iter().map(|control| (control.received() + control.delivered()).as_u64()).sum()
    }

    /// Sets the rate at which each connection sends at most; `None` for no limit.
    fn set_rate(&self, limit: Option<Rate>) {
        let controls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        controls.iter().for_each(|control| control.set_rate(limit));
    }

    /// Forgets the connections: those that nothing else holds are closed in order.
    fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Parts of a session that the daemon's instructions are about.
struct Instructed {
    sessions: Sessions,
    connections: Connections,
    transfer: [u8; 16],
    stop: StopSignal,
    /// Whether the sockets are paced at the limit, and not by the session itself.
    paces: bool,
}

/// Carries out one instruction of the daemon: a further connection, a data connection of a
/// measurement, another limit, or a stop.
fn obey(order: Instruction, socket: Option<OwnedFd>, instructed: &Instructed, work: &Work) {
    let Instructed { sessions, connections, transfer, stop, paces } = instructed;
    match (order, socket) {
        (Instruction::Join { number, link }, Some(socket)) => match Link::take_over(link, socket) {
            Ok(link) => {
                connections.add(&link.control);
                if let Err((link, refusal)) = sessions.join(*transfer, FurtherLink { number, link }) {
                    refuse(link, refusal);
                }
            }
            Err(error) => tracing::debug!("a further connection: {error}"),
        },
        (Instruction::Data(said), Some(socket)) => {
            sessions.measurements.hand_on(Arrived { stream: socket.into(), said });
        }
        (Instruction::Stop, _) => stop.request(),
        (Instruction::Limit(limit), _) => {
            work.account.set_max_rate(limit);
            if *paces {
                connections.set_rate(socket_rate(limit));
            }
        }
        (order, _) => tracing::debug!("an order that means nothing now: {order:?}"),
    }
}
