//! Runs a command on a host through the user's `--ssh` command, honoured exactly as written:
//! `sh -c 'CMD "$@"' sh HOST COMMAND`, so that quotes, options and `NAME=value` in CMD mean what
//! they mean to a shell. COMMAND is one argument, which the far side's shell splits.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use icdc_units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::ConnectError;

/// How much of the far side's standard error is kept for messages.
const KEPT_BYTES: usize = 4096;
const KEPT_LINES: usize = 4;

/// The way to a shell on a host.
#[derive(Clone, Debug)]
pub(crate) struct RemoteShell {
    command: String,
    host: String,
}

impl RemoteShell {
    /// `command` as the user wrote it; `host` is `[USER@]HOST` and never taken for an option.
    pub(crate) fn new(command: &str, host: &str) -> Result<Self, ConnectError> {
        let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
        if name.is_empty() || name.starts_with('-') || host.starts_with('-') || host.contains(char::is_control) {
            return Err(ConnectError::BadHost { host: host.escape_debug().to_string() });
        }
        Ok(Self { command: command.to_owned(), host: host.to_owned() })
    }

    /// `[USER@]HOST`.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The command as the user wrote it.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// Starts `command` on the host. Its standard error goes to ours.
    pub(crate) fn run(&self, command: &str) -> Result<RemoteProcess, ConnectError> {
        tracing::debug!(ssh = self.command, host = self.host, command, "starting");
        let failed = |cause| ConnectError::Start { command: self.command.clone(), cause };
        let mut child = self
            .local(&[&self.host, command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let ended = pidfd(&child);
        let words = LastWords::default();
        let stderr = child.stderr.take().expect("standard error is piped");
        let copier = words.clone();
        std::thread::Builder::new()
            .name("ssh-stderr".into())
            .stack_size(128 << 10)
            .spawn(move || copier.copy(stderr))
            .map_err(failed)?;
        Ok(RemoteProcess { stdin: child.stdin.take(), stdout: child.stdout.take(), child, ended, words })
    }

    /// Whether the program that the command begins with is missing on this side: a shell reports
    /// that with the same exit status as a missing program on the far side.
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

    /// The host's name for connections beside ssh: what OpenSSH's own configuration maps it to
    /// (`ssh -G`), else the host as the user wrote it.
    pub(crate) fn host_name(&self) -> String {
        let written = self.host.rsplit_once('@').map_or(self.host.as_str(), |(_, name)| name);
        self.mapped_name().unwrap_or_else(|| written.to_owned())
    }

    fn mapped_name(&self) -> Option<String> {
        let program = self.program()?;
        if program.rsplit('/').next() != Some("ssh") {
            return None;
        }
        let output = self.local(&["-G", &self.host]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let name = text.lines().find_map(|line| line.strip_prefix("hostname "))?.trim();
        (output.status.success() && !name.is_empty() && !name.starts_with('-')).then(|| name.to_owned())
    }

    fn local(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{} \"$@\"", self.command)).arg("sh").args(arguments);
        command
    }

    /// First word that is not a `NAME=value`, where it is plain enough to tell without a shell.
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

/// Quotes one word for a shell. A leading `~/` keeps its meaning.
pub(crate) fn quote(word: &str) -> String {
    let (home, rest) = word.strip_prefix("~/").map_or(("", word), |rest| ("~/", rest));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&byte);
    if !rest.is_empty() && rest.bytes().all(plain) {
        return format!("{home}{rest}");
    }
    format!("{home}'{}'", rest.replace('\'', "'\\''"))
}

/// A command that runs on the far side.
#[derive(Debug)]
pub(crate) struct RemoteProcess {
    /// Its standard input; dropping it ends the input.
    pub(crate) stdin: Option<ChildStdin>,
    /// Its standard output.
    pub(crate) stdout: Option<ChildStdout>,
    child: Child,
    /// Readable once the child has ended; `None` on kernels before 5.3.
    ended: Option<OwnedFd>,
    words: LastWords,
}

impl RemoteProcess {
    /// Whether the local end of it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits up to `patience` for it to end.
    pub(crate) fn wait(&mut self, patience: Span) -> Option<ExitStatus> {
        if let Some(ended) = &self.ended {
            let timeout = Timespec::try_from(Duration::from_nanos(patience.as_nanos())).ok();
            // An interrupted wait only makes the child look slower than it is.
            let _ = poll(&mut [PollFd::new(ended, PollFlags::IN)], timeout.as_ref());
        }
        self.child.try_wait().ok().flatten()
    }

    /// The last lines of its standard error, on one line; empty if it said nothing.
    pub(crate) fn last_words(&self) -> String {
        self.words.text(Duration::from_millis(300))
    }
}

impl Drop for RemoteProcess {
    /// Ends the input, which ends an orderly command, and does not wait long for another.
    fn drop(&mut self) {
        drop(self.stdin.take());
        drop(self.stdout.take());
        if self.wait(Span::from_secs(2)).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn pidfd(child: &Child) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Passes standard error on to the user and remembers its end.
#[derive(Clone, Debug, Default)]
struct LastWords {
    shared: Arc<(Mutex<Words>, Condvar)>,
}

#[derive(Debug, Default)]
struct Words {
    bytes: Vec<u8>,
    complete: bool,
}

impl LastWords {
    fn copy(&self, mut from: ChildStderr) {
        let (words, complete) = &*self.shared;
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            // A closed standard error must not stop the far side.
            let _ = std::io::stderr().write_all(&buffer[..count]);
            let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
            words.bytes.extend_from_slice(&buffer[..count]);
            let excess = words.bytes.len().saturating_sub(KEPT_BYTES);
            words.bytes.drain(..excess);
        }
        words.lock().unwrap_or_else(PoisonError::into_inner).complete = true;
        complete.notify_all();
    }

    /// Waits a little for the end: a connection that ssh shares with later ones keeps it open.
    fn text(&self, patience: Duration) -> String {
        let (words, complete) = &*self.shared;
        let words = words.lock().unwrap_or_else(PoisonError::into_inner);
        let (words, _) = complete
            .wait_timeout_while(words, patience, |words| !words.complete)
            .unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&words.bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(KEPT_LINES)..];
        last.join(" | ").chars().filter(|character| !character.is_control()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands for ssh: runs the command here.
    const HERE: &str = r#"X=1 sh -c 'shift; eval "$1"' sh"#;

    fn output(process: &mut RemoteProcess) -> String {
        let mut text = String::new();
        process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_command_keeps_its_quotes_and_assignments() {
        let shell = RemoteShell::new(r#"GREETING='a  b' sh -c 'echo "$GREETING|$1|$2"' sh"#, "me@there").unwrap();
        assert_eq!(output(&mut shell.run("icdc far-end").unwrap()), "a  b|me@there|icdc far-end\n");
    }

    #[test]
    fn hosts_that_look_like_options_are_refused() {
        for host in ["-oProxyCommand=x", "me@-oProxyCommand=x", "", "me@", "-x@there", "a\nb"] {
            assert!(RemoteShell::new("ssh", host).is_err(), "{host:?}");
        }
    }

    #[test]
    fn the_end_and_the_last_words_are_noticed() {
        let shell = RemoteShell::new(HERE, "host").unwrap();
        let mut process = shell.run("for i in 1 2 3 4 5 6; do echo line $i >&2; done; exit 7").unwrap();
        let status = process.wait(Span::from_secs(10)).unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(process.last_words(), "line 3 | line 4 | line 5 | line 6");
    }

    #[test]
    fn dropping_ends_a_command_that_waits_for_input() {
        let shell = RemoteShell::new(HERE, "host").unwrap();
        let mut process = shell.run("cat; echo through").unwrap();
        assert!(!process.has_ended());
        drop(process.stdin.take());
        assert_eq!(output(&mut process), "through\n");
    }

    #[test]
    fn the_program_is_found_behind_assignments() {
        let program = |command: &str| RemoteShell::new(command, "h").unwrap().program().map(str::to_owned);
        assert_eq!(program("A=1 B_2= /usr/bin/ssh -p 22"), Some("/usr/bin/ssh".into()));
        assert_eq!(program("'my ssh' -v"), None);
        assert!(RemoteShell::new("A=1 no-such-ssh -v", "h").unwrap().is_missing());
        assert!(!RemoteShell::new("A=1 sh", "h").unwrap().is_missing());
    }

    #[test]
    fn words_survive_the_far_shell() {
        for word in ["/opt/icdc", "/a b/c'd", "$HOME", "a;b", ""] {
            let shell = RemoteShell::new(HERE, "host").unwrap();
            let command = format!("printf %s {}", quote(word));
            assert_eq!(output(&mut shell.run(&command).unwrap()), word);
        }
        assert_eq!(quote("~/bin/icdc"), "~/bin/icdc");
        assert_eq!(quote("~/my bin"), "~/'my bin'");
    }
}
