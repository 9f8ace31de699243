//! The daemon's side of a session: starts its process, and stays with it to its end.

use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::bounded;
use icdc_limits::thread::{NoThread, start_scoped};
use icdc_link::{HandedOver, Link, LinkControl};
use icdc_protocol::message::{Job, Refusal, RefusalKind, Request, Transfer};
use icdc_protocol::validate::clip;
use icdc_scitags::{Flows, Marker};
use icdc_session_process::channel::{Channel, Received};
use icdc_session_process::messages::{self, Instruction, Report};
use icdc_session_process::{Done, Ended, Registered, Rights, refuse};
use icdc_stop::{ChildProcess, StopSignal};
use icdc_tcp::clock;
use icdc_transfer::{FurtherLink, Notary};
use icdc_units::{ByteCount, Rate, Span};

use crate::granted::Granted;
use crate::privileged_helper::{self, Provided};
use crate::request::Session;

/// Time limit for a process to end after its last report.
const FAREWELL: Span = Span::from_secs(5);
/// Interval at which the bytes that a session's connections have carried are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of these samples while the rate of a session is limited: by them, its share of the limit
/// follows who is active.
const LIMITED_INTERVAL: Duration = Duration::from_millis(150);
/// Time limit for a session to make durable what it has, once it is asked to end.
const SETTLE: Span = Span::from_secs(60);
/// Time limit for a session to make durable what it has when its client has left and the session
/// was not asked to end: disks and file servers may be slow.
const SETTLE_GONE: Span = Span::from_secs(600);
/// Longest text that is accepted from a process, in bytes: a summary has a few kB.
const MOST_TEXT: usize = 64 << 10;

/// Callbacks of the supervisor of a running session: its progress, the bytes of its connections, the
/// limit of its rate, payload to be reserved, and its receipt.
#[derive(Clone, Copy)]
pub(crate) struct SessionObserver<'a> {
    /// Called with the work that the process reports to have done so far, bounded by what its
    /// connections have carried.
    pub(crate) progress: &'a dyn Fn(Done),
    /// Called twice a second, or more often, with the number of bytes that the connections have
    /// carried, as TCP counts them.
    pub(crate) carried: &'a dyn Fn(u64),
    /// Limit of the session's rate at present; `None` for no limit, zero if nothing may flow.
    pub(crate) limit: &'a dyn Fn() -> Option<Rate>,
    /// Reserves payload that is about to move: returns how much may move from now on, or the limit
    /// that is used up.
    pub(crate) reserve: &'a (dyn Fn(ByteCount) -> Result<ByteCount, String> + Sync),
    /// Signs the session's receipt; `None` if its request asks for none.
    pub(crate) notary: Option<&'a dyn Notary>,
}

/// Starter of the processes of sessions.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    /// Program of a session's process, with its arguments.
    program: Arc<[OsString]>,
    /// Marker that tells networks whose the data connections are; `None` if they are not marked.
    marker: Option<Arc<Marker>>,
}

impl Workers {
    /// Starter of session processes. `program` is the program with its arguments; `marker` marks
    /// the flows of the sessions.
    pub(crate) fn new(program: &[OsString], marker: Option<Arc<Marker>>) -> Self {
        Self { program: program.into(), marker }
    }

    /// Runs a session whose request was authorized, in a process of its own, to its end.
    pub(crate) fn run(&self, session: Session<'_>, observer: SessionObserver<'_>) -> Ended {
        let Session { link, request, granted, sessions, registered, .. } = session;
        let (control, help, mut process) = match self.start(granted) {
            Ok(started) => started,
            Err(error) => {
                tracing::error!("no process for a session: {error}");
                let error = NoThread::why_no_process(&error);
                let reason = format!("the daemon cannot start a process for the session: {error}");
                return refuse(link, Refusal::new(RefusalKind::Internal, reason));
            }
        };
        let mut supervised =
            Supervised { control, help, connections: Connections::default(), flows: self.flows(&request.job) };
        let provided = Provided {
            allowed: &granted.rights.congestion,
            expected: &sessions.measurements,
            reserve: observer.reserve,
            notary: observer.notary,
        };
        let rights = Rights { max_rate: (observer.limit)(), ..granted.rights.clone() };
        let start = SessionStart { request, rights, link };
        let reported = supervised.supervise(start, registered, provided, observer);
        supervised.flows = None;
        let status = process.end();
        let connections = supervised.connections;
        (observer.carried)(connections.bytes());
        reported.unwrap_or_else(|| {
            (observer.progress)(Done { bytes: connections.bytes(), ..Done::default() });
            let how = status.map_or_else(|error| error.to_string(), how);
            tracing::error!("the process of a session ended without a last report: {how}");
            Ended::Cut(format!("the session's process ended: {how}"))
        })
    }

    /// Flow marking (SciTags) of this job's data connections; `None` if the daemon marks none, or
    /// the job is no transfer.
    fn flows(&self, job: &Job) -> Option<Flows> {
        let marker = self.marker.as_ref()?;
        match job {
            Job::Transfer(Transfer::Send { .. }) => Some(marker.flows(true)),
            Job::Transfer(Transfer::Receive { .. }) => Some(marker.flows(false)),
            _ => None,
        }
    }

    /// Starts a process that runs as the user of these rights; returns its two channels and the
    /// process.
    fn start(&self, granted: &Granted) -> io::Result<(Arc<Channel>, Channel, Process)> {
        let (control, far_control) = Channel::pair()?;
        let (help, far_help) = Channel::pair()?;
        let (program, arguments) = self.program.split_first().ok_or_else(|| io::Error::other("no program"))?;
        let child = Command::new(program)
            .args(arguments)
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(OwnedFd::from(far_control)))
            .stdout(Stdio::null())
            .spawn()?;
        let process = Process(ChildProcess::new(child));
        control.send(&Instruction::Become(granted.acting.as_deref().cloned()), Some(UnixStream::as_fd(&far_help)))?;
        Ok((Arc::new(control), help, process))
    }
}

/// A session that is to be handed to its process: request, rights and first connection.
struct SessionStart {
    request: Request,
    rights: Rights,
    link: Link,
}

impl SessionStart {
    /// Address to which sockets of the session lead: the privileged helper touches no others.
    /// `None` where the session may connect to any host.
    fn peer(&self) -> Option<IpAddr> {
        // A session that drives connects to another host.
        let drives = matches!(self.request.job, Job::Drive(_) | Job::DriveKey);
        let address = self.link.control.address()?.ip();
        (!drives).then_some(address)
    }
}

/// A session's process, with its channels and connections.
struct Supervised {
    control: Arc<Channel>,
    /// Channel for operations that the process may not do itself.
    help: Channel,
    connections: Connections,
    flows: Option<Flows>,
}

impl Supervised {
    /// Hands the session over, passes its further connections on and carries out the process's
    /// requests, until its last report; `None` if there is none.
    fn supervise(
        &self,
        start: SessionStart,
        registered: Registered<'_>,
        provided: Provided<'_>,
        observer: SessionObserver<'_>,
    ) -> Option<Ended> {
        let (peer, joined) = (start.peer(), registered.joined.clone());
        std::thread::scope(|scope| {
            let help = move || privileged_helper::help(&self.help, &self.control, provided, peer);
            // A further connection may be there before its session has been handed over, and must
            // come after it.
            let (has_begun, begun) = bounded::<()>(1);
            let join = move || {
                if begun.recv().is_ok() {
                    joined.iter().for_each(|further| self.join(further));
                }
            };
            // Before the link is handed over, so that its client can be told.
            let started = start_scoped(scope, "help", help).and_then(|_| start_scoped(scope, "join", join));
            let begun = match started {
                Ok(_) => self.begin(start),
                Err(error) => {
                    tracing::error!("a session was ended because its threads could not be started: {error}");
                    Err(refuse(start.link, Refusal::new(RefusalKind::Internal, format!("the daemon {error}"))))
                }
            };
            let reported = match begun {
                Ok(limit) => {
                    // Its thread waits for just this.
                    let _ = has_begun.send(());
                    self.follow(&registered.stop, limit, observer)
                }
                Err(ended) => Some(ended),
            };
            self.control.close();
            self.help.close();
            drop(registered);
            reported
        })
    }

    /// Gives the process its session with the first connection; returns the limit of its rate as it
    /// begins. The error is the end of a session that the process does not take.
    fn begin(&self, SessionStart { request, rights, link }: SessionStart) -> Result<Option<Rate>, Ended> {
        let limit = rights.max_rate;
        let HandedOver { state, socket, control: connection } =
            link.hand_over().map_err(|error| Ended::Cut(error.to_string()))?;
        self.mark(&connection);
        let session = messages::Session { request, rights, link: state };
        self.control
            .send(&Instruction::Begin(Box::new(session)), Some(socket.as_fd()))
            .map_err(|error| Ended::Cut(format!("the session's process does not take the connection: {error}")))?;
        self.connections.add(connection);
        Ok(limit)
    }

    /// Passes a further connection on to the process.
    fn join(&self, FurtherLink { number, link }: FurtherLink) {
        match link.hand_over() {
            Ok(HandedOver { state, socket, control: connection }) => {
                if self.control.send(&Instruction::Join { number, link: state }, Some(socket.as_fd())).is_err() {
                    connection.shutdown();
                } else {
                    self.mark(&connection);
                    self.connections.add(connection);
                }
            }
            Err(error) => tracing::debug!("a further connection: {error}"),
        }
    }

    /// Marks a data connection for fireflies; its socket then stays open here until its session
    /// ends.
    fn mark(&self, connection: &LinkControl) {
        if let (Some(flows), Some(socket)) = (&self.flows, connection.socket()) {
            flows.add(socket);
        }
    }

    /// Receives the process's reports until the last one, which is returned, and passes on changes
    /// of the `limit` of its rate and a request to stop; `None` if the process ends without a last
    /// report, or not in time. No report is believed beyond what the connections can have carried.
    fn follow(&self, stop: &StopSignal, mut limit: Option<Rate>, observer: SessionObserver<'_>) -> Option<Ended> {
        let to_stop = Arc::clone(&self.control);
        // A process that does not take this is not waited for: its end of the channel is closed.
        let asked = move || drop(to_stop.send_at_once(&Instruction::Stop, None));
        let _stopped = stop.while_waiting(asked);
        let mut given_up = None;
        loop {
            let interval = if limit.is_some() { LIMITED_INTERVAL } else { SAMPLE_INTERVAL };
            match self.control.receive_within::<Report>(interval) {
                Ok(Received::Message(Report::Progress(done))) => (observer.progress)(self.bounded(done)),
                Ok(Received::Message(Report::Ended(done, ended))) => {
                    (observer.progress)(self.bounded(done));
                    return Some(possible_end(ended));
                }
                Ok(Received::Nothing) => {}
                Ok(Received::End) => return None,
                Err(error) => {
                    tracing::error!("the channel to the process of a session failed: {error}");
                    return None;
                }
            }
            (observer.carried)(self.connections.bytes());
            let now_limited = (observer.limit)();
            if now_limited != limit && self.control.send(&Instruction::Limit(now_limited), None).is_ok() {
                limit = now_limited;
            }
            // One that is stopped, or hangs in a file system, is left behind.
            let now = clock::now();
            let patience = match stop.is_requested() {
                true => Some(SETTLE),
                false => self.connections.are_gone().then_some(SETTLE_GONE),
            };
            given_up = patience.map(|patience| given_up.unwrap_or(now + patience));
            if given_up.is_some_and(|at| at <= now) {
                tracing::error!("the process of a session does not end");
                return None;
            }
        }
    }

    /// The reported work with no more bytes than the connections have carried, and without texts
    /// that are too long.
    fn bounded(&self, done: Done) -> Done {
        let is_short = |text: &String| text.len() <= MOST_TEXT;
        Done {
            bytes: done.bytes.min(self.connections.bytes()),
            paths: done.paths.filter(is_short),
            summary: done.summary.filter(is_short),
        }
    }
}

/// The end that a session's process reports, with its text cut to a length. Ends that only the
/// daemon can state, joined and turned away, are replaced: the process is not trusted.
fn possible_end(ended: Ended) -> Ended {
    match ended {
        Ended::Cut(reason) => Ended::Cut(clip(reason)),
        Ended::Refused(reason) => Ended::Refused(clip(reason)),
        Ended::TurnedAway(refusal) => Ended::Refused(clip(refusal.reason)),
        Ended::Joined => Ended::Cut("the session's process says that it joined another session".to_owned()),
        ended @ (Ended::Finished | Ended::Interrupted) => ended,
    }
}

/// The connections of a session, as the daemon sees them: they stay open here until the session has
/// ended, so that what they have carried is known whatever becomes of its process.
#[derive(Default)]
struct Connections(Mutex<Vec<LinkControl>>);

impl Connections {
    fn add(&self, control: LinkControl) {
        self.lock().push(control);
    }

    /// Number of bytes that the connections have carried in both directions, as TCP counts them, or what receives datagrams.
    fn bytes(&self) -> u64 {
        self.lock().iter().map(|control| control.carried().as_u64()).sum()
    }

    /// Whether the peer has closed all connections.
    fn are_gone(&self) -> bool {
        self.lock().iter().all(LinkControl::is_hung_up)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LinkControl>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Description of how a process ended: its signal or exit status.
fn how(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => status.to_string(),
    }
}

/// A child process that is killed at the latest when this is dropped.
struct Process(ChildProcess);

impl Process {
    /// Waits for the process's end, which its last report has announced, and kills it if that does
    /// not come in time.
    fn end(&mut self) -> io::Result<ExitStatus> {
        for _ in 0..2 {
            if let Some(status) = self.0.wait_for(FAREWELL)? {
                return Ok(status);
            }
            self.0.kill()?;
        }
        Err(io::Error::other("it does not end, and has nothing more to do with the session"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One of another user may be out of reach.
        if !matches!(self.0.wait_for(Span::ZERO), Ok(Some(_))) && self.0.kill().is_ok() {
            let _ = self.end();
        }
    }
}
