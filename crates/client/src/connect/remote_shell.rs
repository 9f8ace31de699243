//! Runs a command on a host through the user's `--ssh` command, honoured exactly as written:
//! `sh -c 'CMD "$@"' sh HOST COMMAND`, so that quotes, options and `NAME=value` in CMD mean what
//! they mean to a shell. COMMAND is one argument, which the far side's shell splits.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use icdc_link::ForwardingProgram;
use icdc_stop::{ChildProcess, StopSignal, ignore_terminal_signals};
use icdc_tcp::{Family, clock};
use icdc_units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::connect_for_ssh;
use super::error::ConnectError;
use super::machine;
use super::patient::PatientReader;
use super::preamble::LOGGED_IN;
use super::processes::{network, pidfd, send, with_descendants};

/// Number of last lines of the far side's standard error that are kept for error messages.
const KEPT_LINES: usize = 4;
/// Maximum length of a line in bytes; a longer one is shown in parts.
const LONGEST_LINE: usize = 4096;
/// Maximum number of lines of standard error that are shown as they come. Of further ones the
/// number is shown, and the last few as part of an error.
const MOST_LINES: usize = 200;

/// Delay for which a line of standard error is held back: if the command ends within it, the line
/// becomes part of the error and is not shown twice.
const STDERR_DELAY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Function that receives each line of the far side's standard error.
pub(crate) type StderrSink = Arc<dyn Fn(&str) + Send + Sync>;
/// Time limit for a command to exit after the end of its input.
const EXIT_TIMEOUT: Span = Span::from_secs(2);
/// Time limit for a command to exit after the user has asked to stop.
const STOPPED_TIMEOUT: Span = Span::from_millis(300);
/// Time limit for a command to exit after SIGTERM.
const TERM_TIMEOUT: Span = Span::from_millis(500);
/// Number of polls for the TCP connection of ssh, with a pause before each.
const CONNECTION_POLLS: u32 = 40;
/// Pause before each poll for the TCP connection of ssh.
const POLL_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 25_000_000 };
/// Time limit of `ssh -G`.
const CONFIGURATION_TIMEOUT: Span = Span::from_secs(20);

/// Kind of login by which OpenSSH starts a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Login {
    /// Login as the user's configuration says, which may ask for a password.
    AsConfigured,
    /// [`Self::AsConfigured`], with the line [`LOGGED_IN`] when it has succeeded.
    Telling,
    /// Login by a new connection, without a question to the user.
    OfItsOwn,
    /// Login by an existing connection (`ControlMaster`) or a new one, without a question to the
    /// user.
    Shared,
}

/// Options that disable what a user's configuration adds to interactive logins, as scp does: a
/// terminal or forwarded ports would keep the far end from starting, or change its output.
const BARE: [&str; 2] = ["RequestTTY=no", "ClearAllForwardings=yes"];

/// An option with the purpose of [`BARE`] that OpenSSH knows since release 7.6; an older one
/// refuses the whole command line.
const NO_COMMAND: &str = "RemoteCommand=none";

impl Login {
    /// Whether ssh may ask the user something.
    fn may_ask(self) -> bool {
        matches!(self, Self::AsConfigured | Self::Telling)
    }

    /// Adds the options for this kind of login to `command`; `knows_commands` if this ssh knows
    /// [`NO_COMMAND`].
    fn choose(self, command: &mut Command, knows_commands: bool) {
        command.args(["-x", "-a"]);
        let tells = format!("LocalCommand=echo {LOGGED_IN}");
        let timeout = format!("ConnectTimeout={}", connect_for_ssh::TIMEOUT.as_secs());
        let beside = ["BatchMode=yes", "PermitLocalCommand=yes", &tells, "LogLevel=ERROR", &timeout];
        let own: &[&str] = match self {
            Self::AsConfigured => &["PermitLocalCommand=no"],
            Self::Telling => &["PermitLocalCommand=yes", &tells],
            Self::OfItsOwn | Self::Shared => &beside,
        };
        let path = (self == Self::OfItsOwn).then_some("ControlPath=none");
        let no_command = knows_commands.then_some(NO_COMMAND);
        for option in path.iter().chain(&no_command).chain(&BARE).chain(own) {
            command.args(["-o", option]);
        }
        if !self.may_ask() {
            // The ssh that a ProxyJump starts knows nothing of BatchMode: its questions go here.
            command.envs([("SSH_ASKPASS_REQUIRE", "force"), ("SSH_ASKPASS", "/bin/false")]);
        }
    }
}

/// Standard input and output that a command is given.
struct Streams {
    stdin: Stdio,
    stdout: Stdio,
    /// Whether the streams carry the transfer's data: the command is then killed without delay
    /// when it is dropped.
    carries_data: bool,
}

/// A host as ssh's configuration reaches it.
#[derive(Clone, Debug)]
pub(crate) struct ConfiguredHost {
    /// Name of the host for connections beside ssh.
    pub(crate) name: String,
    /// Whether ssh reaches it by way of another host or program (`ProxyJump`, `ProxyCommand`).
    pub(crate) is_indirect: bool,
    /// Whether ssh takes a connection to it that another program has made (`ProxyUseFdpass`), and does
    /// with that what it would with its own.
    pub(crate) takes_connections: bool,
}

/// The shell of a host, reached by the user's ssh command, that runs commands.
#[derive(Clone)]
pub(crate) struct RemoteShell {
    command: String,
    host: String,
    /// Values of ssh's `-o` for logins that carry data.
    for_data: Vec<String>,
    /// Address family of the connections that carry data.
    family: Family,
    /// The ssh server for logins that carry data; any with the host's name if it is not set.
    server: Arc<OnceLock<Server>>,
    on_stderr: StderrSink,
    stop: StopSignal,
    /// Cached answer of [`Self::knows_commands`].
    knows_commands: Arc<OnceLock<bool>>,
}

impl RemoteShell {
    /// New shell. `command` is as the user wrote it; `host` is `[USER@]HOST` and never taken for
    /// an option. `on_stderr` receives the lines of standard error that are not part of an error.
    /// Once `stop` is requested the time limits for exits are short.
    pub(crate) fn new(
        command: &str,
        host: &str,
        on_stderr: StderrSink,
        stop: &StopSignal,
    ) -> Result<Self, ConnectError> {
        let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
        if name.is_empty() || name.starts_with('-') || host.starts_with('-') || host.contains(char::is_control) {
            return Err(ConnectError::BadHost { host: host.escape_debug().to_string() });
        }
        let (command, host) = (command.to_owned(), host.to_owned());
        let (family, server, knows_commands) = (Family::Any, Arc::default(), Arc::default());
        Ok(Self { command, host, for_data: Vec::new(), family, server, on_stderr, stop: stop.clone(), knows_commands })
    }

    /// This shell with logins for data restricted to one family of addresses.
    pub(super) fn with_data_over(self, family: Family) -> Self {
        Self { family, ..self }
    }

    /// This shell for another far end, which may be on another machine with the host's name.
    pub(super) fn anew(&self) -> Self {
        Self { server: Arc::default(), ..self.clone() }
    }

    /// Makes the logins that carry data go to the ssh server at this address, that of the far end, if
    /// others share its name.
    pub(super) fn stay_at(&self, name: &str, address: SocketAddr) {
        let _ = self.server.set(Server { name: name.to_owned(), address, is_shared: OnceLock::new() });
    }

    /// Whether the host's name is known to be shared by several ssh servers.
    pub(super) fn is_shared(&self) -> bool {
        self.server.get().and_then(|server| server.is_shared.get()).is_some_and(|is_shared| *is_shared)
    }

    /// This shell, of whose commands nobody is shown the standard error.
    pub(super) fn quiet(&self) -> Self {
        Self { on_stderr: Arc::new(|_: &str| {}), ..self.clone() }
    }

    /// Host as the user wrote it, `[USER@]HOST`.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The ssh command as the user wrote it.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// Starts `command` on the host.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn run(&self, command: &str) -> Result<RemoteProcess, ConnectError> {
        self.run_piped(Login::AsConfigured, command)
    }

    /// Starts `command` on the host as [`Self::run`]; before its output comes the line [`LOGGED_IN`], where ssh can tell.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(super) fn run_telling(&self, command: &str) -> Result<RemoteProcess, ConnectError> {
        self.run_piped(Login::Telling, command)
    }

    fn run_piped(&self, login: Login, command: &str) -> Result<RemoteProcess, ConnectError> {
        let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), carries_data: false };
        self.start(login, command, streams)
    }

    /// Starts `command` on the host, with a socket for its standard input and output. It is killed
    /// without delay when it is dropped.
    pub(super) fn run_on_socket(
        &self,
        login: Login,
        command: &str,
    ) -> Result<(UnixStream, RemoteProcess), ConnectError> {
        let failed = |cause| ConnectError::Start { command: self.command.clone(), cause };
        let (near, its) = UnixStream::pair().map_err(failed)?;
        let twin = its.try_clone().map_err(failed)?;
        let (stdin, stdout) = (OwnedFd::from(its).into(), OwnedFd::from(twin).into());
        Ok((near, self.start(login, command, Streams { stdin, stdout, carries_data: true })?))
    }

    /// Starts the user's ssh command, by this kind of login, to run `command` on the host.
    fn start(
        &self,
        login: Login,
        command: &str,
        Streams { stdin, stdout, carries_data }: Streams,
    ) -> Result<RemoteProcess, ConnectError> {
        tracing::debug!(ssh = self.command, host = self.host, command, ?login, "starting");
        let failed = |cause| ConnectError::Start { command: self.command.clone(), cause };
        let mut local = self.local();
        if self.is_openssh() {
            if carries_data {
                self.choose_family(&mut local);
                self.choose_server(&mut local);
            }
            login.choose(&mut local, self.knows_commands());
            if !login.may_ask() {
                for option in &self.for_data {
                    local.args(["-o", option]);
                }
            }
        }
        local.args([self.host.as_str(), command]);
        // An interrupt at the terminal is this end's to finish with; OpenSSH heeds what is ignored.
        ignore_terminal_signals(&mut local);
        let mut child = local.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let words = StderrLines::new(Arc::clone(&self.on_stderr));
        let stderr = child.stderr.take().expect("standard error is piped");
        let copier = words.clone();
        std::thread::Builder::new()
            .name("ssh-stderr".into())
            .stack_size(128 << 10)
            .spawn(move || copier.copy(stderr))
            .map_err(failed)?;
        if self.is_openssh() {
            send_at_once(child.id());
        }
        let stop = self.stop.clone();
        let exit_patience = if carries_data { Span::ZERO } else { EXIT_TIMEOUT };
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let child = ChildProcess::new(child);
        Ok(RemoteProcess { stdin, stdout, child, words, stop, exit_patience })
    }

    /// Whether OpenSSH knows the option [`NO_COMMAND`]: it reads its options before it tells its
    /// release.
    fn knows_commands(&self) -> bool {
        *self.knows_commands.get_or_init(|| {
            let mut release = self.local();
            release.args(["-o", NO_COMMAND, "-V"]);
            release.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            release.status().is_ok_and(|status| status.success())
        })
    }

    /// Has this program connect to the machine of the far end for ssh, where others have the host's
    /// name as well: the keys, tickets and options of that name still apply. Waits until the name has
    /// been resolved.
    fn choose_server(&self, local: &mut Command) {
        let Some(Server { name, address, is_shared }) = self.server.get() else { return };
        if !is_shared.get_or_init(|| machine::is_shared(name, *address)) {
            return;
        }
        let Some(program) = own_program() else {
            tracing::debug!(name, "ssh goes to any machine of this name: this program cannot connect for it");
            return;
        };
        tracing::debug!(name, %address, "several machines have this name");
        let command = format!("{} connect-for-ssh {}", quote(&program), quote(&address.to_string())).replace('%', "%%");
        local.args(["-o", &format!("ProxyCommand={command}"), "-o", "ProxyUseFdpass=yes"]);
        // Others may run no commands.
        local.env("SHELL", "/bin/sh");
    }

    /// Restricts OpenSSH to the address family that the user wants; an existing connection
    /// (`ControlMaster`) may be of the other one and is not used.
    fn choose_family(&self, local: &mut Command) {
        let flag = match self.family {
            Family::Any => return,
            Family::V4 => "-4",
            Family::V6 => "-6",
        };
        local.args([flag, "-o", "ControlPath=none"]);
    }

    /// Whether the program that the command begins with is missing on this host: a shell reports
    /// that with the exit status of a missing program on the far side.
    pub(crate) fn is_missing(&self) -> bool {
        self.program().is_some_and(|program| {
            let found = Command::new("sh")
                .args(["-c", "command -v -- \"$1\"", "sh", program])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            found.is_ok_and(|status| !status.success())
        })
    }

    /// The host as OpenSSH's configuration (`ssh -G`) reaches it, or as the user wrote it where there is none.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn configured_host(&mut self, stop: &StopSignal) -> Result<ConfiguredHost, ConnectError> {
        let configuration = self.configuration(stop);
        if stop.is_requested() {
            return Err(ConnectError::Interrupted);
        }
        let value = |key: &str| {
            let lines = configuration.as_deref().unwrap_or_default().lines();
            let mut values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            values.next().map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
        };
        // The data that ssh carries is already encrypted by TLS, with a key exchange that
        // withstands quantum computers. So the cheapest algorithms that the user's configuration
        // allows come first: AES-GCM halves the processor time, and X25519 shortens logins, of
        // which many begin at once.
        let ciphers = value("ciphers").filter(|_| has_aes()).map(|all| first(&all, |name| name.contains("-gcm@")));
        let exchanges = value("kexalgorithms").map(|all| first(&all, |name| name.starts_with("curve25519-")));
        self.for_data = [("Ciphers", ciphers), ("KexAlgorithms", exchanges)]
            .into_iter()
            .filter_map(|(option, value)| Some(format!("{option}={}", value?)))
            .collect();
        let mapped = value("hostname").filter(|name| !name.starts_with('-'));
        let written = self.host.rsplit_once('@').map_or(self.host.as_str(), |(_, name)| name);
        let is_indirect =
            ["proxyjump", "proxycommand"].into_iter().any(|key| value(key).is_some_and(|way| way != "none"));
        // A name is made canonical only where ssh connects itself.
        let is_canonical = value("canonicalizehostname").is_none_or(|way| ["false", "no"].contains(&way.as_str()));
        let is_bound = ["bindaddress", "bindinterface"].into_iter().any(|key| value(key).is_some());
        let takes_connections = value("proxyusefdpass").is_some() && !is_indirect && is_canonical && !is_bound;
        Ok(ConfiguredHost { name: mapped.unwrap_or_else(|| written.to_owned()), is_indirect, takes_connections })
    }

    /// Output of `ssh -G` for the host; `None` if the command is not OpenSSH or fails.
    fn configuration(&self, stop: &StopSignal) -> Option<String> {
        if !self.is_openssh() {
            return None;
        }
        let mut command = self.local();
        command.args(["-G", &self.host]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let stdout = child.stdout.take().expect("standard output is piped");
        let words = StderrLines::new(Arc::clone(&self.on_stderr));
        let mut process = RemoteProcess {
            stdin: None,
            stdout: None,
            child: ChildProcess::new(child),
            words,
            stop: self.stop.clone(),
            exit_patience: EXIT_TIMEOUT,
        };
        let mut text = String::new();
        let deadline = clock::now() + CONFIGURATION_TIMEOUT;
        PatientReader::new(&stdout, stop, deadline).ok()?.read_to_string(&mut text).ok()?;
        let status = process.wait(EXIT_TIMEOUT)?;
        status.success().then_some(text)
    }

    /// Whether the command is OpenSSH's client, which takes its options.
    pub(super) fn is_openssh(&self) -> bool {
        self.program().is_some_and(|program| program.rsplit('/').next() == Some("ssh"))
    }

    /// Process that runs the user's command; arguments are to follow.
    fn local(&self) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{} \"$@\"", self.command)).arg("sh");
        command
    }

    /// First word of the command that is not a `NAME=value`; `None` if only a shell could
    /// interpret it.
    fn program(&self) -> Option<&str> {
        let is_assignment = |word: &&str| {
            word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            })
        };
        let word = self.command.split_whitespace().find(|word| !is_assignment(word))?;
        let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte));
        plain.then_some(word)
    }
}

/// An ssh server, and the name by which it was found.
struct Server {
    name: String,
    address: SocketAddr,
    /// Whether others share the name; not set while nobody has looked.
    is_shared: OnceLock<bool>,
}

/// Path of this program's file, of characters that mean nothing to any shell or to ssh; `None` if it
/// has others or is not there any more, and of a program that only has this one within it.
fn own_program() -> Option<String> {
    let path = std::env::current_exe().ok().filter(|path| path.is_file())?;
    let is_own = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"icdc"));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+ %".contains(&byte);
    path.into_os_string().into_string().ok().filter(|path| is_own && path.bytes().all(is_plain))
}

/// Whether the processor has instructions for AES, without which ChaCha20 is faster.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// OpenSSH's comma-separated list of algorithms `all`, reordered so that the preferred ones come
/// first.
fn first(all: &str, preferred: impl Fn(&str) -> bool) -> String {
    let (mut first, others): (Vec<&str>, Vec<&str>) = all.split(',').partition(|name| preferred(name));
    first.extend(others);
    first.join(",")
}

/// Disables Nagle's algorithm on ssh's connection, which would cost its login a round trip: ssh
/// itself disables it only after the login.
fn send_at_once(process: u32) {
    let Some(running) = pidfd(process) else { return };
    let disable_nagle = move || {
        let connected = (0..CONNECTION_POLLS).find_map(|_| {
            let ended = poll(&mut [PollFd::new(&running, PollFlags::IN)], Some(&POLL_PAUSE));
            matches!(ended, Ok(0)).then(|| network(process)).flatten()
        });
        if let Some((stream, _)) = connected
            && let Err(error) = stream.set_nodelay(true)
        {
            tracing::debug!("TCP_NODELAY of ssh: {error}");
        }
    };
    // If the thread cannot start, a login only takes longer.
    let _ = std::thread::Builder::new().name("ssh-socket".into()).stack_size(128 << 10).spawn(disable_nagle);
}

/// Quotes one word for a shell. A leading `~/` keeps its meaning.
pub(crate) fn quote(word: &str) -> String {
    let (home, rest) = word.strip_prefix("~/").map_or(("", word), |rest| ("~/", rest));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&byte);
    if !rest.is_empty() && rest.bytes().all(plain) {
        return format!("{home}{rest}");
    }
    format!("{home}'{}'", rest.replace('\'', "'\\''"))
}

/// A command that runs on the far side: its local ssh process, with streams and error output.
/// Dropping it ends it.
pub(crate) struct RemoteProcess {
    /// Standard input of the command; dropping it ends the input.
    pub(crate) stdin: Option<ChildStdin>,
    /// Standard output of the command.
    pub(crate) stdout: Option<ChildStdout>,
    child: ChildProcess,
    words: StderrLines,
    stop: StopSignal,
    /// Time limit for the command to exit once it is dropped.
    exit_patience: Span,
}

impl RemoteProcess {
    /// Whether the local process has exited.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.wait_for(Span::ZERO), Ok(None))
    }

    /// Waits up to `patience` for the command to end; returns its exit status, or `None` if it
    /// still runs.
    pub(crate) fn wait(&mut self, patience: Span) -> Option<ExitStatus> {
        self.child.wait_for(patience).ok().flatten()
    }

    /// The last lines of the command's standard error that were not shown yet, on one line; empty
    /// if there are none.
    pub(crate) fn last_stderr(&self) -> String {
        self.words.take(Duration::from_millis(300))
    }

    /// Process id of the local process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// TCP connection of the command's ssh, and the number of chained logins over it. `None` if it
    /// has none of its own (`ControlMaster`), or may not be inspected.
    pub(super) fn network(&self) -> Option<(TcpStream, u64)> {
        network(self.child.id())
    }

    /// Discards the command's standard error from now on: it is going to be killed.
    pub(super) fn give_up(&self) {
        self.words.forget();
    }

    /// Shows the command's standard error without delay from now on: it has started as expected.
    pub(crate) fn pass_on_stderr(&self) {
        self.words.pass_on();
    }
}

impl Drop for RemoteProcess {
    /// Ends the input, on which an orderly command exits; kills any other, with its descendants,
    /// after a short wait.
    fn drop(&mut self) {
        drop(self.stdin.take());
        drop(self.stdout.take());
        let patience = if self.stop.is_requested() { STOPPED_TIMEOUT } else { Span::MAX };
        let patience = patience.min(self.exit_patience);
        if self.wait(patience).is_none() {
            self.kill();
        }
        self.words.pass_on();
    }
}

impl ForwardingProgram for RemoteProcess {
    fn end(&self) {
        send(&with_descendants(self.child.id()), Signal::TERM);
    }
}

impl RemoteProcess {
    /// Kills the command and its descendants: the shell that runs it may have forked ssh instead of
    /// executing it.
    fn kill(&mut self) {
        let processes = with_descendants(self.child.id());
        send(&processes, Signal::TERM);
        let _ = self.wait(TERM_TIMEOUT);
        send(&processes, Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reader of the lines of standard error, which shows the last ones with a delay: they may belong
/// to an error.
#[derive(Clone)]
struct StderrLines {
    on_stderr: StderrSink,
    shared: Arc<(Mutex<StderrState>, Condvar)>,
}

/// Lines of standard error that were read and not shown, and how further ones are handled.
#[derive(Default)]
struct StderrState {
    kept: VecDeque<String>,
    /// Whether lines are shown without delay.
    passing: bool,
    /// Whether lines are discarded.
    forgotten: bool,
    shown: usize,
    /// Number of lines beyond [`MOST_LINES`], which are only counted.
    left_out: u64,
    complete: bool,
}

impl StderrLines {
    /// Reader of a command's standard error that shows lines by `on_stderr`.
    fn new(on_stderr: StderrSink) -> Self {
        Self { on_stderr, shared: Arc::default() }
    }

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, StderrState> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Thread that reads the command's standard error to its end, and shows its lines.
    fn copy(&self, mut from: ChildStderr) {
        let mut buffer = [0; 1024];
        let mut line = Vec::new();
        loop {
            let waiting = !line.is_empty() || !self.state().kept.is_empty();
            let timeout = waiting.then_some(&STDERR_DELAY);
            if matches!(poll(&mut [PollFd::new(&from, PollFlags::IN)], timeout), Ok(0)) {
                self.add(&mut line);
                self.tell(0);
                continue;
            }
            let Ok(count @ 1..) = from.read(&mut buffer) else { break };
            for byte in &buffer[..count] {
                line.push(*byte);
                if *byte == b'\n' || line.len() == LONGEST_LINE {
                    self.add(&mut line);
                }
            }
        }
        self.add(&mut line);
        self.tell_left_out();
        self.state().complete = true;
        self.shared.1.notify_all();
    }

    /// Appends a line that was read, empties `line`, and shows older ones than the last few.
    fn add(&self, line: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line).trim().to_owned();
        line.clear();
        if !text.is_empty() && !self.state().forgotten {
            self.state().kept.push_back(text);
            self.tell(KEPT_LINES);
        }
    }

    /// Shows how many lines beyond [`MOST_LINES`] were left out.
    fn tell_left_out(&self) {
        let mut state = self.state();
        let left_out = std::mem::take(&mut state.left_out);
        if left_out > 0 && !state.forgotten {
            drop(state);
            (self.on_stderr)(&format!("({left_out} more lines of standard error are not shown)"));
        }
    }

    /// Shows all but the last `keep` lines, and at most [`MOST_LINES`] in all.
    fn tell(&self, keep: usize) {
        loop {
            let line = {
                let mut state = self.state();
                let keep = if state.passing { 0 } else { keep };
                if state.kept.len() <= keep {
                    return;
                }
                let line = state.kept.pop_front();
                state.shown += 1;
                match state.shown > MOST_LINES {
                    true => {
                        state.left_out += 1;
                        None
                    }
                    false => line,
                }
            };
            if let Some(line) = line {
                (self.on_stderr)(&line);
            }
        }
    }

    /// Discards all lines from now on.
    fn forget(&self) {
        let mut state = self.state();
        (state.forgotten, state.kept) = (true, VecDeque::new());
    }

    /// Shows lines without delay from now on.
    fn pass_on(&self) {
        self.state().passing = true;
        self.tell(0);
    }

    /// Takes the lines that were not shown, as one line, after a short wait for the end of
    /// standard error, which a connection that ssh shares keeps open.
    fn take(&self, patience: Duration) -> String {
        let (mut state, _) = self
            .shared
            .1
            .wait_timeout_while(self.state(), patience, |state| !state.complete)
            .unwrap_or_else(PoisonError::into_inner);
        let last: Vec<String> = state.kept.drain(..).collect();
        last.join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands for ssh: runs the command here.
    const HERE: &str = r#"X=1 sh -c 'shift; eval "$1"' sh"#;

    fn shell(command: &str, host: &str) -> Result<RemoteShell, ConnectError> {
        RemoteShell::new(command, host, Arc::new(|_| {}), &StopSignal::new())
    }

    fn output(process: &mut RemoteProcess) -> String {
        let mut text = String::new();
        process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_command_keeps_its_quotes_and_assignments() {
        let shell = shell(r#"GREETING='a  b' sh -c 'echo "$GREETING|$1|$2"' sh"#, "me@there").unwrap();
        assert_eq!(output(&mut shell.run("icdc far-end").unwrap()), "a  b|me@there|icdc far-end\n");
    }

    #[test]
    fn hosts_that_look_like_options_are_refused() {
        for host in ["-oProxyCommand=x", "me@-oProxyCommand=x", "", "me@", "-x@there", "a\nb"] {
            assert!(shell("ssh", host).is_err(), "{host:?}");
        }
    }

    #[test]
    fn the_end_and_the_last_words_are_noticed() {
        let shell = shell(HERE, "host").unwrap();
        let mut process = shell.run("for i in 1 2 3 4 5 6; do echo line $i >&2; done; exit 7").unwrap();
        let status = process.wait(Span::from_secs(10)).unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(process.last_stderr(), "line 3 | line 4 | line 5 | line 6");
    }

    #[test]
    fn what_is_said_is_told_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let on_stderr: StderrSink = Arc::new(move |line: &str| heard.lock().unwrap().push(line.to_owned()));
        let shell = RemoteShell::new(HERE, "host", on_stderr, &StopSignal::new()).unwrap();
        let mut process = shell.run("for i in 1 2 3 4 5 6; do echo line $i >&2; done").unwrap();
        process.wait(Span::from_secs(10)).unwrap();
        assert_eq!(process.last_stderr(), "line 3 | line 4 | line 5 | line 6");
        drop(process);
        assert_eq!(*told.lock().unwrap(), ["line 1", "line 2"]);
        let mut process = shell.run("echo one >&2; read line; echo two >&2").unwrap();
        process.pass_on_stderr();
        drop(process.stdin.take());
        process.wait(Span::from_secs(10)).unwrap();
        assert_eq!(process.last_stderr(), "");
        assert_eq!(told.lock().unwrap()[2..], ["one", "two"]);
    }

    #[test]
    fn dropping_ends_a_command_that_waits_for_input() {
        let shell = shell(HERE, "host").unwrap();
        let mut process = shell.run("cat; echo through").unwrap();
        assert!(!process.has_ended());
        drop(process.stdin.take());
        assert_eq!(output(&mut process), "through\n");
    }

    #[test]
    fn who_has_asked_to_stop_waits_less_for_a_command_that_does_not_end() {
        let stop = StopSignal::new();
        let shell = RemoteShell::new(HERE, "host", Arc::new(|_| {}), &stop).unwrap();
        let dropping = || {
            let process = shell.run("sleep 60").unwrap();
            let begun = clock::now();
            drop(process);
            clock::now() - begun
        };
        let before = dropping();
        stop.request();
        let after = dropping();
        assert!(after * 2 < before, "{before} and {after}");
    }

    #[test]
    fn the_program_is_found_behind_assignments() {
        let program = |command: &str| shell(command, "h").unwrap().program().map(str::to_owned);
        assert_eq!(program("A=1 B_2= /usr/bin/ssh -p 22"), Some("/usr/bin/ssh".into()));
        assert_eq!(program("'my ssh' -v"), None);
        assert!(shell("A=1 no-such-ssh -v", "h").unwrap().is_missing());
        assert!(!shell("A=1 sh", "h").unwrap().is_missing());
    }

    #[test]
    fn of_the_algorithms_that_are_allowed_the_preferred_ones_come_first() {
        let all = "chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com";
        let sorted = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr";
        let is_gcm = |name: &str| name.contains("-gcm@");
        assert_eq!(first(all, is_gcm), sorted);
        assert_eq!(first("aes256-ctr", is_gcm), "aes256-ctr");
    }

    #[test]
    fn words_survive_the_far_shell() {
        for word in ["/opt/icdc", "/a b/c'd", "$HOME", "a;b", ""] {
            let shell = shell(HERE, "host").unwrap();
            let command = format!("printf %s {}", quote(word));
            assert_eq!(output(&mut shell.run(&command).unwrap()), word);
        }
        assert_eq!(quote("~/bin/icdc"), "~/bin/icdc");
        assert_eq!(quote("~/my bin"), "~/'my bin'");
    }
}
