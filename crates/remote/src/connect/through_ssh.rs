//! Data through ssh, for hosts of which only its port can be reached.
//!
//! ```text
//! link ─ TLS, keys pinned ─ socket ─ ssh ══ network ══ sshd ─ icdc far-end (forwards) ─ TCP on loopback ─ far end
//! ```
//!
//! A channel of OpenSSH has 2 MiB under way at most, so each connection is an ssh of its own. It
//! logs in without a question. Where that cannot be, it takes what is there already
//! (`ControlMaster`); where that cannot be either, the first one asks the user, and there are no
//! others.
//!
//! A server lets a few logins wait at once (`MaxStartups`, 10 by default) and drops others. No more
//! than that are begun at once, fewer once one was dropped, and those that were dropped are tried
//! again. Once one has failed for good, those that still wait for their turn give up as well.

use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use icdc_link::{Carrier, Forwarded};
use icdc_protocol::Message;
use icdc_protocol::frame::{self, PREFIX_LENGTH, Prefix};
use icdc_protocol::limits::MAX_STREAMS;
use icdc_protocol::message::FarTask;
use icdc_stop::StopSignal;
use icdc_tcp::{Family, clock};
use icdc_transfer::{Event, EventSink};
use icdc_units::Span;

use super::error::ConnectError;
use super::far_program::{FarProgram, GREETING_PATIENCE};
use super::patient::{self, PatientReader};
use super::remote_shell::Login;

/// Logins that wait at once: one less than OpenSSH's servers let by default.
const LOGINS: usize = 9;
/// Attempts at one connection.
const ATTEMPTS: u64 = 8;
/// Logins of one session that may be dropped and tried again.
const DROPS: u32 = 24;
/// Pause before the second attempt; it grows with each.
const PAUSE: Span = Span::from_millis(300);
/// Connections over a login that is shared: a server lets one login have 10 sessions by default
/// (`MaxSessions`), and the far end is one of them.
const MOST_SHARED: u8 = 8;
/// Longest answer of a far end that forwards.
const MAX_ANSWER: usize = 4096;

/// Makes connections through ssh to a far end that is running.
#[derive(Clone)]
pub(super) struct Forwarder {
    far: FarProgram,
    /// Where the far end listens.
    port: u16,
    family: Family,
    logins: Arc<Logins>,
    events: EventSink,
}

impl Forwarder {
    pub(super) fn new(far: FarProgram, port: u16, family: Family, events: &EventSink) -> Self {
        Self { far, port, family, logins: Arc::default(), events: Arc::clone(events) }
    }

    /// The first connection. Asks the user where nothing else helps.
    pub(super) fn first(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        match self.open_in_turn(stop) {
            Err(ConnectError::SshFailed { said, .. }) if self.far.shell.is_openssh() && is_refusal(&said) => {
                if stop.is_requested() {
                    return Err(ConnectError::Interrupted);
                }
                self.logins.state().login = Login::AsConfigured;
                let text = "each login by ssh has to be answered by hand: one connection carries the data. \
                     A key in an agent, or ControlMaster in ~/.ssh/config, lets icdc use several";
                (self.events)(Event::Notice { text: text.to_owned() });
                self.open(Login::AsConfigured, stop)
            }
            other => other,
        }
    }

    /// A further connection, without a question to the user.
    pub(super) fn further(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        self.open_in_turn(stop)
    }

    /// Another session begins: what has failed before is tried again.
    pub(super) fn forget_failures(&self) {
        let mut state = self.logins.state();
        (state.drops, state.gave_up) = (0, None);
    }

    /// The most connections that can be made without a question to the user.
    pub(super) fn most_connections(&self) -> u8 {
        match self.logins.state().login {
            Login::AsConfigured => 1,
            Login::Shared => MOST_SHARED,
            Login::OfItsOwn => MAX_STREAMS,
        }
    }

    /// Opens one when others do not log in, again if a server drops it.
    fn open_in_turn(&self, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        let mut attempt = 1;
        loop {
            let turn = self.logins.await_turn(stop)?;
            let login = turn.login;
            let opened = self.open(login, stop);
            drop(turn);
            match opened {
                Ok(carrier) => return Ok(carrier),
                Err(_) if stop.is_requested() => return Err(ConnectError::Interrupted),
                Err(ConnectError::SshFailed { said, .. }) if is_refusal(&said) && login == Login::OfItsOwn => {
                    self.logins.state().login = Login::Shared;
                }
                Err(ConnectError::SshFailed { said, .. })
                    if is_drop(&said) && attempt < ATTEMPTS && self.logins.may_be_dropped() =>
                {
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

    fn open(&self, login: Login, stop: &StopSignal) -> Result<Carrier, ConnectError> {
        let shell = &self.far.shell;
        let (socket, mut process) = shell.run_on_socket(login, &self.far.command_line())?;
        let cannot_start = |cause| ConnectError::Start { command: shell.command().to_owned(), cause };
        let task = FarTask::Forward { port: self.port };
        // Whoever does not read it says why, or ends.
        let sent = (&socket).write_all(&FarProgram::bootstrap(task, self.family));
        let deadline = clock::now() + GREETING_PATIENCE;
        let mut output = PatientReader::new(&socket, stop, deadline).map_err(cannot_start)?;
        self.far.await_marker(&mut output, &mut process)?;
        match read_message(&mut output) {
            Ok(Message::Listening(_)) => {}
            Ok(Message::Refused(refusal)) => {
                let host = shell.host().to_owned();
                return Err(ConnectError::FarEndRefused { host, reason: refusal.reason });
            }
            Ok(other) => return Err(self.far.failed(format!("unexpected answer {}", other.kind()), &process)),
            Err(error) if patient::is_stopped(&error) => return Err(ConnectError::Interrupted),
            Err(error) => return Err(self.far.failed(sent.err().unwrap_or(error).to_string(), &process)),
        }
        process.is_well();
        Ok(Forwarded::new(socket, format!("{} by ssh", shell.host()), process).into())
    }
}

/// Reads one message and nothing behind it.
fn read_message(output: &mut PatientReader<'_>) -> io::Result<Message> {
    let wrong = |error: frame::FrameError| io::Error::other(error);
    let mut prefix = [0; PREFIX_LENGTH];
    output.read_exact(&mut prefix)?;
    let Prefix { head, payload } = Prefix::parse(&prefix).map_err(wrong)?;
    if head > MAX_ANSWER || payload > 0 {
        return Err(io::Error::other(format!("an answer of {head} and {payload} bytes")));
    }
    let mut message = vec![0; head];
    output.read_exact(&mut message)?;
    frame::decode_head(&message, payload).map_err(wrong)
}

/// Whether what ssh said is that it was not let in, or that it would have had to ask.
fn is_refusal(said: &str) -> bool {
    ["Permission denied", "Host key verification failed", "Too many authentication failures"]
        .iter()
        .any(|words| said.contains(words))
}

/// Whether the server may have ended a login because too many waited: one that answers nothing at
/// all has not.
fn is_drop(said: &str) -> bool {
    !is_refusal(said) && !said.contains("timed out")
}

/// Whose turn it is to log in.
struct Logins {
    state: Mutex<LoginState>,
    freed: Condvar,
}

struct LoginState {
    /// Those that are under way.
    running: usize,
    /// Those that may be.
    most: usize,
    /// What works.
    login: Login,
    /// Those of this session that were dropped.
    drops: u32,
    /// Why one has failed for good.
    gave_up: Option<String>,
}

impl Default for Logins {
    fn default() -> Self {
        let state = LoginState { running: 0, most: LOGINS, login: Login::OfItsOwn, drops: 0, gave_up: None };
        Self { state: Mutex::new(state), freed: Condvar::new() }
    }
}

/// The right to log in; given back when dropped.
struct Turn<'a> {
    logins: &'a Logins,
    login: Login,
}

impl Logins {
    fn state(&self) -> MutexGuard<'_, LoginState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for others to be through, unless one of them fails for good.
    fn await_turn(self: &Arc<Self>, stop: &StopSignal) -> Result<Turn<'_>, ConnectError> {
        let _woken = stop.while_waiting({
            let logins = Arc::clone(self);
            move || logins.wake()
        });
        let is_full =
            |state: &mut LoginState| state.running >= state.most && state.gave_up.is_none() && !stop.is_requested();
        let waited = self.freed.wait_while(self.state(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if stop.is_requested() {
            return Err(ConnectError::Interrupted);
        }
        if let Some(reason) = state.gave_up.clone() {
            return Err(ConnectError::NoMoreLogins { reason });
        }
        state.running += 1;
        Ok(Turn { logins: self, login: state.login })
    }

    /// The server has dropped one: it lets fewer wait. Whether there may be another attempt.
    fn may_be_dropped(&self) -> bool {
        let mut state = self.state();
        state.most = (state.most / 2).max(1);
        state.drops += 1;
        state.drops <= DROPS
    }

    fn give_up(&self, error: &ConnectError) {
        self.state().gave_up.get_or_insert_with(|| error.to_string());
        self.wake();
    }

    /// Has all that wait look again.
    fn wake(&self) {
        // Whoever has just looked waits before the lock is free.
        drop(self.state());
        self.freed.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.logins.state().running -= 1;
        self.logins.freed.notify_one();
    }
}
