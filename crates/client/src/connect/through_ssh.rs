//! Data through ssh, for hosts of which only the ssh port can be reached.
//!
//! ```text
//! link ─ TLS, keys pinned ─ socket ─ ssh ══ network ══ sshd ─ icdc far-end (forwards)
//!      ─ TCP on loopback ─ far end
//! ```
//!
//! A channel of OpenSSH has a window of 2 MiB, so each connection is an ssh process of its own,
//! which logs in without a question. Where that fails, it uses an existing connection
//! (`ControlMaster`); where that fails as well, one login asks the user, and it carries all data.
//!
//! A login takes nine round trips. Where the login that started the far end was too fast to have
//! been answered by hand, the logins that the path needs are begun before they are requested, as
//! many at once as a server accepts ([`logins`](super::logins)); the session opens over the first
//! that is ready. Otherwise one login must succeed without a question before others begin, except where
//! this route has worked without a question before. Logins that a server drops are tried again.
//!
//! Some begin before it is known that this route is taken: one with the login that starts the far
//! end, and a few as soon as that one has succeeded ([`FEW`]). They end if another route wins. The
//! first one may fail where that login then asks the user, which tells nothing of later ones; it is
//! one, because servers ban who fails several times (fail2ban, OpenSSH's `PerSourcePenalties`).

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use icdc_link::{Carrier, Forwarded, SharedPacer};
use icdc_protocol::Message;
use icdc_protocol::frame::{self, PREFIX_LENGTH, Prefix};
use icdc_protocol::limits::{MAX_STREAMS, MAX_TEXT};
use icdc_protocol::message::FarTask;
use icdc_rate::connection_count::{SSH_CHANNEL, SSH_CHANNEL_BY_JUMP_HOST, Window};
use icdc_stop::StopSignal;
use icdc_tcp::{Family, Privileges, clock};
use icdc_transfer::{Event, EventSink};
use icdc_tuning::buffers;
use icdc_units::Span;

use super::error::ConnectError;
use super::far_program::{FarProgram, GREETING_TIMEOUT};
use super::logins::{Logins, Turn};
use super::patient::{self, PatientReader};
use super::pool::Pool;
use super::remote_shell::Login;

/// Maximum number of attempts at one connection.
const ATTEMPTS: u64 = 8;
/// Pause before the second attempt; it grows with each.
const PAUSE: Span = Span::from_millis(300);
/// Number of logins that are begun where they may turn out to be in vain: the session can open over
/// the first of them, and the others follow.
pub(super) const FEW: u8 = 3;
/// Maximum number of connections over a login that is shared: a server lets one login have 10
/// sessions by default (`MaxSessions`), and the far end is one of them.
const MOST_SHARED: u8 = 8;
/// Maximum length of a far end's answer in bytes: that of a refusal.
const MAX_ANSWER: usize = MAX_TEXT + 64;

/// Plan for the logins of a session that carry data: the number of connections, requested by the
/// user or estimated from the login that started the far end, and whether that login needed no
/// answer by hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedLogins {
    /// Number of connections.
    pub(super) connections: u8,
    /// Whether the first login was too fast to have been answered by hand.
    pub(super) unattended: bool,
}

/// Makes data connections through ssh to the port of a far end, each by a login of its own.
#[derive(Clone)]
pub(super) struct Forwarder {
    opener: Opener,
    pool: Arc<Pool<Result<Carrier, ConnectError>>>,
    planned: PlannedLogins,
    /// Whether logins were begun before the far end has answered, for its first session.
    is_ahead: Arc<AtomicBool>,
}

impl Forwarder {
    /// Forwarder to a far end on the host of `far` that has not answered yet; nothing is begun.
    pub(super) fn new(far: FarProgram, family: Family, events: &EventSink) -> Self {
        let port = Arc::default();
        let opener =
            Opener { far, port, family, logins: Arc::default(), pacer: Arc::default(), events: Arc::clone(events) };
        let planned = PlannedLogins { connections: 1, unattended: false };
        Self { opener, pool: Arc::default(), planned, is_ahead: Arc::default() }
    }

    /// This forwarder to the far end that has answered: the program of `far` has started it, and it listens on `port`. The
    /// logins that were begun go on to it.
    pub(super) fn to(mut self, far: FarProgram, port: u16, planned: PlannedLogins) -> Self {
        self.opener.port.set(port);
        (self.opener.far, self.planned) = (far, planned);
        self
    }

    /// Expects each login to take the time `at_first` at a jump host, and then `behind` at the hosts behind it.
    pub(super) fn by_jump_host(&self, at_first: Span, behind: Span) {
        self.opener.logins.by_jump_host(at_first, behind);
    }

    /// Begins logins before the far end has answered, up to this number in all. They log in and start the program there,
    /// and wait for its port.
    pub(super) fn begin_ahead(&self, connections: u8) {
        self.is_ahead.store(true, Ordering::Relaxed);
        self.begin_up_to(connections);
    }

    /// Begins a login together with the one that starts the far end.
    pub(super) fn begin_with_first(&self) {
        self.is_ahead.store(true, Ordering::Relaxed);
        let opener = self.opener.clone();
        self.pool.begin(move |stop| opener.open_early(stop));
    }

    /// Begins the logins that this route would need, if they are not going to ask the user.
    pub(super) fn prepare(&self) {
        if self.planned.unattended {
            self.begin_up_to(self.to_expect());
        }
    }

    /// Makes the first connection and begins the others. Asks the user only if no login works
    /// without.
    pub(super) fn first(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        let PlannedLogins { unattended, .. } = self.planned;
        self.prepare();
        match self.further(stop) {
            Ok(carrier) => {
                if !unattended {
                    self.begin_up_to(self.to_expect() - 1);
                }
                Ok(carrier)
            }
            Err(ConnectError::SshFailed { said, .. }) if self.opener.far.shell.is_openssh() && is_refusal(&said) => {
                self.pool.end();
                if stop.is_requested() {
                    return Err(ConnectError::Interrupted);
                }
                self.opener.open_attended(stop)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a further connection, without a question to the user.
    pub(super) fn further(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        self.pool.take(self.work(), stop).unwrap_or(Err(ConnectError::Interrupted))
    }

    /// Prepares for a session: ends the logins that were begun for the previous one, and forgets its
    /// failures.
    pub(super) fn begin_anew(&self) {
        if self.is_ahead.swap(false, Ordering::Relaxed) {
            return;
        }
        self.pool.end();
        self.opener.logins.forget_failures();
    }

    /// Ends the logins that were begun, because no further connections are needed.
    pub(super) fn end(&self) {
        self.pool.end();
    }

    /// Maximum number of connections that can be made without a question to the user.
    pub(super) fn most_connections(&self) -> u8 {
        match self.opener.logins.login() {
            Login::AsConfigured | Login::Telling => 1,
            Login::Shared => MOST_SHARED,
            Login::OfItsOwn => MAX_STREAMS,
        }
    }

    /// Number of connections to begin, at least 1.
    fn to_expect(&self) -> u8 {
        self.planned.connections.clamp(1, self.most_connections())
    }

    /// Begins logins until this number of them is running or ready to be taken.
    fn begin_up_to(&self, connections: u8) {
        let begun = u8::try_from(self.pool.count()).unwrap_or(u8::MAX);
        self.begin(connections.saturating_sub(begun));
    }

    /// Begins logins for further connections on threads.
    fn begin(&self, connections: u8) {
        (0..connections).for_each(|_| self.pool.begin(self.work()));
    }

    /// Function for the pool, which opens one connection.
    fn work(&self) -> impl FnOnce(&StopSignal) -> Result<Carrier, ConnectError> + Clone + Send + 'static {
        let opener = self.opener.clone();
        move |stop| opener.open_in_turn(stop)
    }
}

/// TCP port where a far end listens, which is known once it has answered.
#[derive(Default)]
struct FarPort {
    port: Mutex<Option<u16>>,
    known: Condvar,
}

impl FarPort {
    fn set(&self, port: u16) {
        *self.lock() = Some(port);
        self.known.notify_all();
    }

    fn get(&self) -> Option<u16> {
        *self.lock()
    }

    /// Waits until the port is known, or `stop` is requested.
    fn wait(self: &Arc<Self>, stop: &StopSignal) -> Result<u16, ConnectError> {
        let _woken = stop.while_waiting({
            let port = Arc::clone(self);
            move || {
                // The lock is taken once so that a caller between its check and its wait is not missed.
                drop(port.lock());
                port.known.notify_all();
            }
        });
        let is_unknown = |port: &mut Option<u16>| port.is_none() && !stop.is_requested();
        let port = self.known.wait_while(self.lock(), is_unknown).unwrap_or_else(PoisonError::into_inner);
        port.ok_or(ConnectError::Interrupted)
    }

    fn lock(&self) -> MutexGuard<'_, Option<u16>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Outcome of an attempt at a connection.
struct InTurn<'a> {
    /// Turn of a login that has not succeeded; `None` if it has.
    turn: Option<Turn<'a>>,
    login: Login,
    opened: Result<Carrier, ConnectError>,
}

/// Opens data connections through ssh; each call opens one.
#[derive(Clone)]
struct Opener {
    far: FarProgram,
    port: Arc<FarPort>,
    family: Family,
    logins: Arc<Logins>,
    pacer: Arc<SharedPacer>,
    events: EventSink,
}

impl Opener {
    /// Opens one connection for which ssh may prompt, after logins without a prompt were refused;
    /// there will be no others.
    fn open_attended(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        self.logins.set(Login::AsConfigured);
        let text = "each login by ssh has to be answered by hand: one connection carries the data. \
             A key in an agent, or ControlMaster in ~/.ssh/config, lets icdc use several";
        (self.events)(Event::Notice { text: text.to_owned() });
        self.open(Login::AsConfigured, stop, || {})
    }

    /// Opens one connection by a login that begins before the first one has succeeded. If it fails, the
    /// connection is opened as any other once the far end has answered: the user may have unlocked a
    /// key meanwhile.
    fn open_early(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        let far = FarProgram { shell: self.far.shell.quiet(), ..self.far.clone() };
        let InTurn { opened, .. } = Self { far, ..self.clone() }.open_once_in_turn(stop)?;
        match opened {
            Err(error) if !stop.is_requested() => {
                tracing::debug!("a login beside the first one has failed: {error}");
                self.port.wait(stop)?;
                self.open_in_turn(stop)
            }
            opened => opened,
        }
    }

    /// Opens one connection when fewer logins than the limit are running; tries again if the
    /// server drops it.
    fn open_in_turn(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        let mut attempt = 1;
        loop {
            // Whoever waits begins once it is recorded how this one has ended.
            let InTurn { turn, login, opened } = self.open_once_in_turn(stop)?;
            match opened {
                Ok(carrier) => return Ok(carrier),
                Err(_) if stop.is_requested() => return Err(ConnectError::Interrupted),
                Err(ConnectError::SshFailed { said, .. }) if is_refusal(&said) && login == Login::OfItsOwn => {
                    self.logins.set(Login::Shared);
                }
                Err(ConnectError::SshFailed { said, .. })
                    if is_drop(&said) && attempt < ATTEMPTS && self.logins.record_drop() =>
                {
                    drop(turn);
                    if stop.wait(PAUSE * attempt) {
                        return Err(ConnectError::Interrupted);
                    }
                    attempt += 1;
                }
                Err(error) => {
                    self.logins.give_up(&error);
                    return Err(error);
                }
            }
        }
    }

    /// Opens one connection when fewer logins than the limit are running, in one attempt.
    fn open_once_in_turn(&self, stop: &StopSignal) -> Result<InTurn<'_>, ConnectError> {
        let turn = self.logins.await_turn(stop)?;
        let (login, mut turn) = (turn.login, Some(turn));
        // A server's limit counts logins that are not authenticated yet.
        let opened = self.open(login, stop, || drop(turn.take()));
        Ok(InTurn { turn, login, opened })
    }

    /// Logs in by ssh once, starts a forwarding far end there and waits until it forwards to the
    /// port. Calls `logged_in` once ssh reports the login.
    fn open(&self, login: Login, stop: &StopSignal, logged_in: impl FnMut()) -> Result<Carrier, ConnectError> {
        let shell = &self.far.shell;
        let told_to = |port| FarProgram::bootstrap(FarTask::Forward { port }, self.family);
        let known = self.port.get();
        let told = known.map(told_to);
        let (socket, mut process) = shell.run_on_socket(login, &self.far.command_line(told.as_ref()))?;
        let cannot_start = |cause| ConnectError::Start { command: shell.command().to_owned(), cause };
        // A program that does not read it prints why, or ends.
        let send_task = |port| (&socket).write_all(&told_to(port).frame());
        let mut sent = known.map_or(Ok(()), send_task);
        let deadline = clock::now() + GREETING_TIMEOUT;
        let mut output = PatientReader::new(&socket, stop, deadline).map_err(cannot_start)?;
        let greeted = self.far.await_marker(&mut output, &mut process, logged_in);
        if stop.is_requested() {
            process.give_up();
        }
        greeted?;
        if known.is_none() {
            sent = send_task(self.port.wait(stop)?);
        }
        match read_message(&mut output) {
            Ok(Message::Listening(_)) => {}
            Ok(Message::Refused(refusal)) => {
                let host = shell.host().to_owned();
                return Err(ConnectError::FarEndRefused { host, reason: refusal.reason });
            }
            Ok(other) => {
                return Err(self.far.failed(format!("unexpected answer {}", other.kind()), process.last_stderr()));
            }
            Err(error) if patient::is_stopped(&error) => return Err(ConnectError::Interrupted),
            Err(error) => return Err(self.far.failed(sent.err().unwrap_or(error).to_string(), process.last_stderr())),
        }
        process.pass_on_stderr();
        let (network, logins) = process.network().unzip();
        if let Some(network) = &network {
            self.check_family(network)?;
            buffers::prepare_to_send(network, &Privileges::own());
        }
        let forwarded = Forwarded::new(socket, format!("{} by ssh", shell.host()), network, process);
        if !shell.is_openssh() {
            return Ok(forwarded.into());
        }
        Ok(forwarded.with_window(channel(logins.unwrap_or(1)).bytes, &self.pacer).into())
    }
}

impl Opener {
    /// Checks that ssh's connection, to the host or its first jump host, uses the family of
    /// addresses that the user wants.
    fn check_family(&self, network: &TcpStream) -> Result<(), ConnectError> {
        let Ok(peer) = network.peer_addr() else { return Ok(()) };
        if self.family.admits(peer.ip().to_canonical()) {
            return Ok(());
        }
        let host = self.far.shell.host().to_owned();
        Err(ConnectError::OtherFamily { host, address: peer.ip(), family: self.family })
    }
}

/// Window to assume for a channel of OpenSSH through `logins` chained logins. With two or
/// more, there is a jump host in between, and the window is smaller.
pub(super) fn channel(logins: u64) -> Window {
    if logins > 1 { SSH_CHANNEL_BY_JUMP_HOST } else { SSH_CHANNEL }
}

/// Reads one message and no byte behind it; [`io::ErrorKind::InvalidData`] if the bytes are not a
/// message.
pub(super) fn read_message(output: &mut PatientReader<'_>) -> io::Result<Message> {
    let wrong = |error: frame::FrameError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut prefix = [0; PREFIX_LENGTH];
    read_whole(output, &mut prefix)?;
    let Prefix { head, payload } = Prefix::parse(&prefix).map_err(wrong)?;
    if head > MAX_ANSWER || payload > 0 {
        let reason = format!("an answer of {head} and {payload} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut message = vec![0; head];
    read_whole(output, &mut message)?;
    frame::decode_head(&message, payload).map_err(wrong)
}

/// Fills `bytes`; the error for an early end says that the far side's output ended.
fn read_whole(output: &mut PatientReader<'_>, bytes: &mut [u8]) -> io::Result<()> {
    output.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "its output ended"),
        _ => error,
    })
}

/// Whether ssh's error output says that authentication failed, or that it would have had to ask the
/// user.
fn is_refusal(said: &str) -> bool {
    ["Permission denied", "Host key verification failed", "Too many authentication failures"]
        .iter()
        .any(|words| said.contains(words))
}

/// Whether the server may have dropped a login because too many were pending; a timeout is no such
/// drop.
fn is_drop(said: &str) -> bool {
    !is_refusal(said) && !said.contains("timed out")
}

#[cfg(test)]
mod tests {
    use super::super::far_program::Program;
    use super::super::remote_shell::RemoteShell;
    use super::*;

    /// Logs in by a program that says nothing and runs until its input ends.
    fn forwarder(planned: PlannedLogins) -> Forwarder {
        let stop = StopSignal::new();
        let shell = RemoteShell::new("cat; :", "host", Arc::new(|_: &str| {}), &stop).unwrap();
        let far = FarProgram { shell, program: Program::Searched };
        Forwarder::new(far.clone(), Family::Any, &(Arc::new(|_| {}) as EventSink)).to(far, 1, planned)
    }

    #[test]
    fn logins_ahead_serve_the_first_session_and_no_other() {
        let planned = PlannedLogins { connections: 4, unattended: true };
        let forwarder = forwarder(planned);
        forwarder.begin_ahead(1);
        forwarder.begin_ahead(3);
        forwarder.begin_anew();
        assert_eq!(forwarder.pool.count(), 3);
        forwarder.prepare();
        assert_eq!(forwarder.pool.count(), 4);
        forwarder.begin_anew();
        assert_eq!(forwarder.pool.count(), 0);
    }

    #[test]
    fn a_port_is_waited_for_until_it_is_known_or_nobody_needs_it() {
        let (port, stop) = (Arc::new(FarPort::default()), StopSignal::new());
        std::thread::scope(|scope| {
            let waiters = [&stop, &StopSignal::new()].map(Clone::clone);
            let waiting = waiters.map(|stop| {
                let port = Arc::clone(&port);
                scope.spawn(move || port.wait(&stop).ok())
            });
            stop.request();
            let [stopped, other] = waiting;
            assert_eq!(stopped.join().unwrap(), None);
            port.set(7);
            assert_eq!(other.join().unwrap(), Some(7));
        });
        assert_eq!(port.get(), Some(7));
    }

    #[test]
    fn what_is_prepared_is_not_begun_again() {
        let forwarder = forwarder(PlannedLogins { connections: 4, unattended: true });
        forwarder.prepare();
        assert_eq!(forwarder.pool.count(), 4);
        let stop = StopSignal::new();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| forwarder.first(&stop));
            assert_eq!(forwarder.pool.count(), 4);
            stop.request();
            assert!(matches!(first.join().unwrap(), Err(ConnectError::Interrupted)));
        });
        forwarder.end();
        assert_eq!(forwarder.pool.count(), 0);
        forwarder.prepare();
        assert_eq!(forwarder.pool.count(), 4, "another session begins");
    }

    #[test]
    fn nothing_that_the_user_may_have_to_answer_is_prepared() {
        let forwarder = forwarder(PlannedLogins { connections: 4, unattended: false });
        forwarder.prepare();
        assert_eq!(forwarder.pool.count(), 0);
    }

    #[test]
    fn an_answer_that_comes_byte_by_byte_is_not_waited_for_longer_than_another() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let stop = StopSignal::new();
        let deadline = clock::now() + Span::from_millis(200);
        let answer = std::thread::scope(|scope| {
            let mut output = PatientReader::new(&reader, &stop, deadline).unwrap();
            let over = StopSignal::new();
            let is_over = over.clone();
            scope.spawn(move || {
                // The longest answer, of which a byte comes in good time before each deadline.
                let prefix = u32::try_from(MAX_ANSWER).unwrap();
                let mut bytes = [&prefix.to_le_bytes()[..], &[0; MAX_ANSWER]].concat().into_iter();
                while !is_over.wait(Span::from_millis(20)) {
                    let Some(byte) = bytes.next() else { break };
                    rustix::io::write(&writer, &[byte]).unwrap();
                }
            });
            let answer = read_message(&mut output);
            over.request();
            answer
        });
        assert_eq!(answer.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
