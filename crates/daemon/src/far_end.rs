//! The program that ssh starts on the far side: a listening end for one transfer and one key.
//!
//! ```text
//! command line, if it is there: Bootstrap
//! stdin: Bootstrap, sent before anything is seen          stdout: ICDC-VERSIONS 2-2, ICDC-FAR-END 2, Listening
//! then    Serve: listens for the near end's key, and serves it; connects to the near end if that asks
//!                for it (ConnectBack)
//!         Drive: waits for the work order to drive a transfer to another far end, over the same streams
//!         Forward: the streams become a connection to another far end on this host
//! ```
//!
//! It ends when the transfer is over, when the starting end is gone (the end of its input; a
//! running session is interrupted first, so that it makes durable what it has), when nobody
//! connects, or when a cut session is not resumed. Hang-ups and keyboard interrupts mean nothing to
//! it: the starting end decides.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use icdc_client::connect::greeting;
use icdc_client::forward;
use icdc_confine::calls;
use icdc_link::{Inlet, Link, LinkError, Outlet, receive, stdio_link};
use icdc_protocol::message::{Bootstrap, FarTask, Listening, PassedReceipt, Refusal, RefusalKind};
use icdc_protocol::{Features, Message, Ports, Versions};
use icdc_session_process::{AllowedCongestion, Ended, Rights, Root, Sessions, drive_once};
use icdc_stop::StopSignal;
use icdc_tcp::Family;
use icdc_trust::{Access, Identity, PublicKey, server_config};
use icdc_tuning::buffers::receive_buffer;
use icdc_units::Span;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use thiserror::Error;

use crate::connect_back::Connector;
use crate::datagrams::Datagrams;
use crate::granted::{Granted, Scope};
use crate::guard::{Guard, Limits, Service};
use crate::login_receipt::told_key;
use crate::request::{InThisProcess, serve_connection};

/// Time limit for the first connection: longer than the starting end waits for one more login by
/// ssh, for which the user may have to type a password.
const UNUSED: Span = Span::from_secs(330);
/// Time limit for a cut session to be resumed.
const CUT: Span = Span::from_secs(15 * 60);
/// Time limit for the starting end to leave once the transfer is over.
const FAREWELL: Span = Span::from_secs(10);
/// Time limit for an interrupted session to make durable what it has.
const SETTLE: Span = Span::from_secs(10 * 60);

/// Reason for which a far end could not even tell the starting end what is wrong.
#[derive(Debug, Error)]
pub enum FarEndError {
    /// The streams or signals of the process cannot be used.
    #[error("far end: {call}: {cause}")]
    Process {
        /// Name of the system call.
        call: &'static str,
        /// Error of the system call.
        cause: io::Error,
    },
    /// A thread cannot be started.
    #[error("far end: {0}")]
    Thread(String),
    /// The first message is missing or wrong: somebody called the program by hand, or another
    /// release did.
    #[error("far end: expected a starting end on standard input: {0}; this command is for `icdc copy` to call by ssh")]
    Bootstrap(String),
}

/// Runs a far end over standard input and output, until its work is done or the starting end is
/// gone.
///
/// # Errors
/// See [`FarEndError`].
pub fn far_end(told: Option<Bootstrap>) -> Result<(), FarEndError> {
    icdc_tcp::raise_descriptor_limit();
    calls::refuse_for(calls::Process::Loading);
    let process = |call| move |cause: io::Error| FarEndError::Process { call, cause };
    let stop = StopSignal::new();
    stop_on_sigterm(&stop).map_err(|error| FarEndError::Thread(error.to_string()))?;
    let (stdin, mut stdout) = own_streams().map_err(process("dup"))?;
    stdout.write_all(greeting(Versions::OURS).as_bytes()).map_err(process("write"))?;
    // Accounts of services have none, or name one that is not there; a login is then in the root,
    // too.
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.try_exists().unwrap_or(true));
    let home = home.unwrap_or_else(|| PathBuf::from("/"));
    work((stdin, stdout.into()), told, home, &stop)
}

/// Takes over standard input and output, and returns them. Whatever else prints to standard output
/// goes to standard error.
fn own_streams() -> io::Result<(OwnedFd, std::fs::File)> {
    let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let stdout = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((stdin, stdout.into()))
}

/// Requests `stop` at SIGTERM. SIGHUP (the connection of ssh is gone) and SIGINT (typed at the
/// starting end, where ssh is a wrapper on the same terminal) are ignored: the end of the input
/// says it all.
fn stop_on_sigterm(stop: &StopSignal) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGHUP, SIGINT])?;
    let stop = stop.clone();
    icdc_limits::thread::start("signals", move || {
        for signal in signals.forever() {
            if signal == SIGTERM {
                stop.request();
            }
        }
    })?;
    Ok(())
}

/// Carries out the task of a starting end over the streams from and to it, which it may have told
/// beforehand.
fn work(
    (stdin, stdout): (OwnedFd, OwnedFd),
    told: Option<Bootstrap>,
    home: PathBuf,
    stop: &StopSignal,
) -> Result<(), FarEndError> {
    let process = |call| move |cause: io::Error| FarEndError::Process { call, cause };
    let twins = (stdin.try_clone().map_err(process("dup"))?, stdout.try_clone().map_err(process("dup"))?);
    let mut link = stdio_link(stdin, stdout, "the starting end", None).map_err(process("eventfd"))?;
    let bootstrap = match &told {
        Some(told) => Ok(told.clone()),
        None => receive_bootstrap(link.inlet.as_mut()),
    };
    let bootstrap = bootstrap.and_then(of_known_version)?;
    let identity = Identity::generate();
    let family = match bootstrap.family {
        4 => Family::V4,
        6 => Family::V6,
        _ => Family::Any,
    };
    match bootstrap.task {
        FarTask::Serve { peer, ports } => {
            drop(twins);
            let peer = PublicKey::from_bytes(peer);
            listen_and_serve(link, (&identity, peer, home), (ports, family), stop)
        }
        FarTask::Forward { port } => forward_to(port, family, (link, told), twins, stop),
        FarTask::Drive => {
            drop(twins);
            tell(link.outlet.as_mut(), listening(&identity, 0))?;
            if told.is_some() {
                receive_bootstrap(link.inlet.as_mut())?;
            }
            drive_once(link, &granted(home).rights, &identity, stop)
                .map_err(|cause| FarEndError::Process { call: "clone", cause })
        }
    }
}

/// Receives the first message of the starting end.
fn receive_bootstrap(inlet: &mut dyn Inlet) -> Result<Bootstrap, FarEndError> {
    match receive(inlet) {
        Ok(Message::Bootstrap(bootstrap)) => Ok(bootstrap),
        Ok(other) => Err(FarEndError::Bootstrap(format!("it sent {}", other.kind()))),
        Err(LinkError::Closed) => Err(FarEndError::Bootstrap("there is none".to_owned())),
        Err(error) => Err(FarEndError::Bootstrap(error.to_string())),
    }
}

/// The first message, if the starting end speaks a version of the protocol that this end knows.
fn of_known_version(bootstrap: Bootstrap) -> Result<Bootstrap, FarEndError> {
    let Some(version) = Versions::OURS.common(bootstrap.versions) else {
        // The starting end tells its user the same, and ends.
        let (theirs, ours) = (bootstrap.versions, Versions::OURS);
        return Err(FarEndError::Bootstrap(format!("it speaks another protocol ({theirs}; this is {ours})")));
    };
    tracing::debug!(version, release = bootstrap.version, "started");
    Ok(bootstrap)
}

/// The rights of the user whom ssh has logged in: everything that this user may do.
fn granted(home: PathBuf) -> Granted {
    Granted {
        rights: Rights {
            access: Access::ReadWrite,
            max_rate: None,
            highest_rate: None,
            root: Root::Unconfined { home },
            congestion: AllowedCongestion::Any,
        },
        scope: Scope::StartingEnd,
        owners: true,
        unlimited: true,
        handle: None,
        acting: None,
        label: "the starting end".to_owned(),
    }
}

/// Serves the holder of the key `peer`, listening on one of `ports`.
fn listen_and_serve(
    link: Link,
    (identity, peer, home): (&Identity, PublicKey, PathBuf),
    (ports, family): (Ports, Family),
    stop: &StopSignal,
) -> Result<(), FarEndError> {
    let Link { mut outlet, inlet, .. } = link;
    let (listener, port) = match listen(ports, family) {
        Ok(listening) => listening,
        Err(reason) => {
            let refusal = Refusal { kind: RefusalKind::Internal, reason };
            return tell(outlet.as_mut(), Message::Refused(refusal));
        }
    };
    tell(outlet.as_mut(), listening(identity, port))?;
    OneKeyService::new(identity, peer, granted(home)).serve(listener, (outlet, inlet), family, stop)
}

/// Forwards the streams from and to the starting end to the far end that listens on `port` of this
/// host; refuses if that does not answer.
fn forward_to(
    port: u16,
    family: Family,
    (link, told): (Link, Option<Bootstrap>),
    (stdin, stdout): (OwnedFd, OwnedFd),
    stop: &StopSignal,
) -> Result<(), FarEndError> {
    let Link { mut outlet, inlet, .. } = link;
    let stream = match forward::connect(port, family) {
        Ok(stream) => stream,
        Err(error) => {
            let reason = format!("the far end on this host, port {port}, does not answer: {error}");
            let refusal = Refusal { kind: RefusalKind::Internal, reason };
            return tell(outlet.as_mut(), Message::Refused(refusal));
        }
    };
    // Nothing else comes from the starting end before it has seen this.
    tell(outlet.as_mut(), listening_on([0; 32], port))?;
    drop((outlet, inlet));
    let mut stdin = std::fs::File::from(stdin);
    if let Some(told) = told {
        // What comes behind it is not for this end.
        let mut again = told.frame();
        stdin.read_exact(&mut again).map_err(|error| FarEndError::Bootstrap(error.to_string()))?;
        if again != told.frame() {
            return Err(FarEndError::Bootstrap("it is another one than that on the command line".to_owned()));
        }
    }
    let stdin = OwnedFd::from(stdin);
    forward::run(stdin, stdout, stream, stop).map_err(|cause| FarEndError::Process { call: "forward", cause })
}

/// Sends a message to the starting end.
fn tell(outlet: &mut dyn Outlet, message: Message) -> Result<(), FarEndError> {
    let sent = outlet.send(message.into()).and_then(|()| outlet.flush());
    sent.map_err(|error| FarEndError::Bootstrap(error.to_string()))
}

/// The answer that this end listens on `port` with its own key.
fn listening(identity: &Identity, port: u16) -> Message {
    listening_on(*identity.public().as_bytes(), port)
}

/// The answer that an end with this key listens on `port`.
fn listening_on(key: [u8; 32], port: u16) -> Message {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Message::Listening(Listening { features: Features::OURS, version, key, port })
}

/// Opens a listener on one of `ports`; returns it with its port, or the reason for which there is
/// none.
fn listen(ports: Ports, family: Family) -> Result<(TcpListener, u16), String> {
    let listener =
        icdc_tcp::listen(None, ports.range(), family, receive_buffer()).map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| format!("getsockname: {error}"))?.port();
    Ok((listener, port))
}

/// Events that a listening far end waits for.
enum Happening {
    /// A connection has been accepted.
    Came,
    /// A connection has ended.
    Left(Ended),
    /// The far end is to end, for this reason: the starting end is gone, or somebody asked to stop.
    Over(&'static str),
}

/// Service of a far end: serves the holder of one key.
struct OneKeyService {
    tls: Arc<rustls::ServerConfig>,
    granted: Granted,
    sessions: Sessions,
    tell: Sender<Happening>,
    happenings: Receiver<Happening>,
}

impl Service for OneKeyService {
    fn tls(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.tls)
    }

    fn serve(&self, link: Link) {
        // Nobody listens any more only when the far end is about to end.
        let _ = self.tell.send(Happening::Came);
        link.control.trust();
        let ended = serve_connection(link, &self.granted, &self.sessions, &StopSignal::new(), &InThisProcess).ended;
        tracing::debug!(?ended, "session");
        let _ = self.tell.send(Happening::Left(ended));
    }

    fn take_data(&self, stream: TcpStream) {
        self.sessions.measurements.deliver(stream);
    }
}

impl OneKeyService {
    /// Service that admits the holder of the key `peer` only, and shows `identity` in the
    /// handshake.
    fn new(identity: &Identity, peer: PublicKey, granted: Granted) -> Self {
        let (tell, happenings) = unbounded();
        let tls = server_config(identity, move |key| *key == peer);
        Self { tls, granted, sessions: Sessions::default(), tell, happenings }
    }

    /// Serves connections to `listener`, and those that the starting end asks this end to make,
    /// until there is nothing more to do or a stop is requested.
    fn serve(
        self,
        listener: TcpListener,
        (outlet, inlet): (Box<dyn Outlet>, Box<dyn Inlet>),
        family: Family,
        stop: &StopSignal,
    ) -> Result<(), FarEndError> {
        let process = |call| move |cause: io::Error| FarEndError::Process { call, cause };
        let tell = self.tell.clone();
        stop.on_request(move || {
            let _ = tell.send(Happening::Over("asked to stop"));
        });
        let once = Arc::new(self);
        let twin = listener.try_clone().map_err(process("dup"))?;
        let mut guard = Guard::start(vec![listener], once.clone(), Limits::default()).map_err(process("eventfd"))?;
        let mut datagrams = Datagrams::beside(&[twin], guard.adoption());
        // The outlet stays open: its end would tell the starting end that this one is gone.
        let connector = Connector::new(family, guard.adoption(), outlet);
        let (tell, watched) = (once.tell.clone(), connector.clone());
        icdc_limits::thread::start("starting-end", move || watch_starting_end(inlet, &watched, &tell))
            .map_err(|error| FarEndError::Thread(error.to_string()))?;
        let why = once.until_over();
        tracing::debug!("far end ends: {why}");
        datagrams.close();
        guard.close();
        once.sessions.interrupt_all();
        if !guard.wait_until_served(SETTLE) {
            tracing::warn!("gave up waiting for the disk");
        }
        datagrams.finish();
        Ok(())
    }

    /// Blocks until the far end has nothing more to do; returns the reason.
    fn until_over(&self) -> &'static str {
        let mut connections = 0_u32;
        let mut idle = (UNUSED, "nobody connected");
        loop {
            let happening = match connections {
                0 => self.happenings.recv_timeout(Duration::from_nanos(idle.0.as_nanos())),
                _ => self.happenings.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match happening {
                Ok(Happening::Came) => connections += 1,
                Ok(Happening::Left(ended)) => {
                    connections = connections.saturating_sub(1);
                    idle = match ended {
                        Ended::Finished | Ended::Interrupted => (FAREWELL, "the transfer is over"),
                        Ended::Refused(_) => (UNUSED, "refused"),
                        Ended::Cut(_) => (CUT, "the transfer was not resumed"),
                        // It says nothing about the transfer.
                        Ended::Joined | Ended::TurnedAway(_) => idle,
                    };
                }
                Ok(Happening::Over(why)) => return why,
                Err(_) => return idle.1,
            }
        }
    }
}

/// Reads messages of the starting end until standard input ends, carries out its requests to
/// connect, tells it which key signs receipts, and then reports that it is gone.
fn watch_starting_end(mut inlet: Box<dyn Inlet>, connector: &Connector, tell: &Sender<Happening>) {
    loop {
        match receive(inlet.as_mut()) {
            Ok(Message::Ping) => {}
            Ok(Message::ConnectBack(order)) => connector.connect(order),
            Ok(Message::PassedReceipt(PassedReceipt::KeyWanted)) => connector.answer(told_key()),
            Ok(Message::Interrupt) | Err(_) => break,
            Ok(other) => tracing::debug!("the starting end sent {}", other.kind()),
        }
    }
    let _ = tell.send(Happening::Over("the starting end is gone"));
}
