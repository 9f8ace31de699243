//! The daemon's side of a session: starts its process, and stays with it to its end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use icdc_link::{HandedOver, Link, LinkControl};
use icdc_measure::Expected;
use icdc_protocol::message::{Job, Refusal, RefusalKind, Request};
use icdc_scitags::{Flows, Marker};
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_transfer::FurtherLink;
use icdc_units::Span;

use super::channel::Channel;
use super::lending;
use super::messages::{Order, Report, Session};
use crate::ended::Ended;
use crate::rights::Rights;
use crate::session::refuse;
use crate::sessions::Registered;
use crate::work::Done;

/// How long a process may take to end after its last word.
const FAREWELL: Span = Span::from_secs(5);
/// How often it is looked whether it has.
const LOOK: Span = Span::from_millis(20);

/// Starts the processes of sessions.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    /// What to run, with its arguments.
    program: Arc<[OsString]>,
    /// Tells networks whose the data connections are.
    marker: Option<Arc<Marker>>,
}

impl Workers {
    pub(crate) fn new(program: &[OsString], marker: Option<Arc<Marker>>) -> Self {
        Self { program: program.into(), marker }
    }

    /// Has a process of its own serve a session whose request was allowed, to its end. Data connections of a
    /// measurement come by `expected`; `hear` is told what it has done so far.
    pub(crate) fn perform(
        &self,
        link: Link,
        request: Request,
        rights: &Rights,
        registered: Registered<'_>,
        expected: &Expected,
        hear: &dyn Fn(Done),
    ) -> Ended {
        let (control, lending, child) = match self.start(rights) {
            Ok(started) => started,
            Err(error) => {
                tracing::error!("no process for a session: {error}");
                let reason = format!("the daemon cannot start a process for the session: {error}");
                return refuse(link, Refusal::new(RefusalKind::Internal, reason));
            }
        };
        let mut process = Process(child);
        let HandedOver { state, socket, control: connection } = match link.hand_over() {
            Ok(handed_over) => handed_over,
            Err(error) => return Ended::Cut(error.to_string()),
        };
        let flows = self.flows(&request.job);
        mark(flows.as_ref(), &connection);
        let session = Session { request, rights: rights.clone(), link: state };
        if let Err(error) = control.send(&Order::Begin(Box::new(session)), Some(socket.as_fd())) {
            return Ended::Cut(format!("the session's process does not take it: {error}"));
        }
        drop(socket);
        let stop = {
            let control = Arc::clone(&control);
            // A process that does not take this is not waited for: its end of the channel is closed.
            registered.stop.while_waiting(move || drop(control.send(&Order::Stop, None)))
        };
        let told = std::thread::scope(|scope| {
            let (joined, joining, flows) = (registered.joined.clone(), &control, flows.as_ref());
            scope.spawn(|| lending::lend(&lending, &control, &rights.congestion, expected));
            scope.spawn(move || joined.iter().for_each(|further| join(joining, further, flows)));
            let told = follow(&control, hear);
            control.close();
            lending.close();
            drop(registered);
            told
        });
        drop((stop, flows));
        let status = process.end();
        // Until here a client could not have connected to a session that is ending.
        drop(connection);
        told.unwrap_or_else(|| {
            let how = status.map_or_else(|error| error.to_string(), how);
            tracing::error!("the process of a session ended without a word: {how}");
            Ended::Cut(format!("the session's process ended: {how}"))
        })
    }

    /// For the data connections of this job, if they are marked.
    fn flows(&self, job: &Job) -> Option<Flows> {
        let marker = self.marker.as_ref()?;
        match job {
            Job::Send { .. } => Some(marker.flows(true)),
            Job::Receive { .. } => Some(marker.flows(false)),
            _ => None,
        }
    }

    /// A process that runs as the user of these rights, with its channels.
    fn start(&self, rights: &Rights) -> io::Result<(Arc<Channel>, Channel, Child)> {
        let (control, far_control) = Channel::pair()?;
        let (lending, far_lending) = Channel::pair()?;
        let (program, arguments) = self.program.split_first().ok_or_else(|| io::Error::other("no program"))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::from(OwnedFd::from(far_control)))
            .stdout(Stdio::null())
            .spawn()?;
        control.send(&Order::Become(rights.acting.as_deref().cloned()), Some(UnixStream::as_fd(&far_lending)))?;
        Ok((Arc::new(control), lending, child))
    }
}

/// Reads what the process reports to the end of its channel.
fn follow(control: &Channel, hear: &dyn Fn(Done)) -> Option<Ended> {
    loop {
        match control.receive::<Report>() {
            Ok(Some((Report::So(done), _))) => hear(done),
            Ok(Some((Report::Ended(done, ended), _))) => {
                hear(done);
                return Some(ended);
            }
            Ok(None) => return None,
            Err(error) => {
                tracing::error!("the process of a session: {error}");
                return None;
            }
        }
    }
}

/// Passes a further connection on.
fn join(control: &Channel, FurtherLink { number, link }: FurtherLink, flows: Option<&Flows>) {
    match link.hand_over() {
        Ok(HandedOver { state, socket, control: connection }) => {
            if control.send(&Order::Join { number, link: state }, Some(socket.as_fd())).is_err() {
                connection.shutdown();
            } else {
                mark(flows, &connection);
            }
        }
        Err(error) => tracing::debug!("a further connection: {error}"),
    }
}

/// Tells of a data connection, whose socket then stays open here until its session ends.
fn mark(flows: Option<&Flows>, connection: &LinkControl) {
    if let (Some(flows), Some(socket)) = (flows, connection.socket()) {
        flows.add(socket);
    }
}

/// How a process ended.
fn how(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => status.to_string(),
    }
}

/// A process that is not left behind.
struct Process(Child);

impl Process {
    /// Waits for its end, which its last word has announced.
    fn end(&mut self) -> io::Result<ExitStatus> {
        let (deadline, pause) = (clock::now() + FAREWELL, StopSignal::new());
        while clock::now() < deadline {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            let _ = pause.wait(LOOK);
        }
        // One of another user may be out of reach; it has nothing more to do with the session.
        let _ = self.0.kill();
        self.0.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
