//! The program on the far side: its command line, its greeting, and the errors if it does not
//! greet.

use std::fmt;
use std::io;
use std::process::ExitStatus;

use icdc_protocol::message::{Bootstrap, FarTask};
use icdc_protocol::{Features, Versions};
use icdc_tcp::Family;
use icdc_units::Span;

use super::error::ConnectError;
use super::patient::{self, PatientReader};
use super::preamble::{Found, MAX_NOISE, NoMarker, Preamble, find_marker};
use super::remote_shell::{RemoteProcess, RemoteShell, quote};
use super::send_self::{Cache, Sent};
use crate::options::CopyOptions;

/// Time limit from the start of ssh to the far end's greeting. It covers a login, perhaps with a
/// typed password and by way of jump hosts.
pub(super) const GREETING_TIMEOUT: Span = Span::from_secs(300);
/// Time for an ended ssh to report its exit status.
const EXIT_TIMEOUT: Span = Span::from_secs(5);

/// Text for messages: the places that [`SEARCH`] covers.
const SEARCHED: &str = " in PATH, ~/.local/bin or /usr/local/bin";
/// Shell command that starts the far end where the user names no place: ssh gives a command a
/// shorter PATH than a login has. The script is one argument without single quotes or `!`, which
/// every login shell passes on unchanged.
const SEARCH: &str = concat!(
    r#"sh -c 'if command -v icdc >/dev/null; then exec icdc far-end "$@"; fi; "#,
    r#"for icdc in "${HOME:-}/.local/bin/icdc" /usr/local/bin/icdc; do if test -f "$icdc" && test -x "$icdc"; then "#,
    r#"printf "\n%s\n" "ICDC-FOUND $icdc"; exec "$icdc" far-end "$@"; fi; done; exec icdc far-end "$@"' sh"#
);

/// The icdc program on the far side, with the ssh shell that starts it.
#[derive(Clone)]
pub(super) struct FarProgram {
    pub(super) shell: RemoteShell,
    pub(super) program: Program,
}

/// The icdc program that is started on the far side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// The program is searched for in the usual places.
    Searched,
    /// The program that the user has named, as one word for the far side's shell.
    Named(String),
    /// The program that this end has sent there.
    Sent(Sent),
}

impl Program {
    /// Program that the user has named, or the default.
    pub(super) fn of(remote_icdc: &str) -> Self {
        if remote_icdc == CopyOptions::REMOTE_ICDC { Self::Searched } else { Self::Named(remote_icdc.to_owned()) }
    }
}

impl Program {
    /// Program that was found and started, for starting it once more.
    pub(super) fn started(found: Found, cache: Option<&Cache>) -> Self {
        match (found, cache) {
            (Found::InCache(path), Some(cache)) => Self::Sent(Sent { path, command: cache.start().into() }),
            (Found::InCache(path) | Found::Installed(path), _) => Self::Named(path),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Searched => CopyOptions::REMOTE_ICDC,
            Self::Named(word) => word,
            Self::Sent(sent) => &sent.path,
        })
    }
}

impl FarProgram {
    /// Command line for the far side's shell, with what the far end is told, if that is known. The
    /// program is started by `sh`, because a restricted shell (`rbash`) starts none by its path.
    pub(super) fn command_line(&self, told: Option<&Bootstrap>) -> String {
        let told = told.map_or_else(String::new, |told| format!(" {}", told.word()));
        match &self.program {
            Program::Searched => format!("{SEARCH}{told}"),
            Program::Named(word) => {
                format!(r#"sh -c 'icdc=$1; shift; exec "$icdc" far-end "$@"' sh {}{told}"#, quote(word))
            }
            // It is checked again first, and reads its input.
            Program::Sent(sent) => sent.command.to_string(),
        }
    }

    /// First message to the far end, which tells it its task.
    pub(super) fn bootstrap(task: FarTask, family: Family) -> Bootstrap {
        Bootstrap {
            versions: Versions::OURS,
            features: Features::OURS,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            task,
            family: family_number(family),
        }
    }

    /// Skips the output of shell start-up files up to the marker line of a far end; calls
    /// `logged_in` when ssh reports that the login has succeeded.
    pub(super) fn await_marker(
        &self,
        output: &mut PatientReader<'_>,
        process: &mut RemoteProcess,
        logged_in: impl FnMut(),
    ) -> Result<Preamble, ConnectError> {
        let mut preamble = Preamble::default();
        let found = find_marker(output, &mut preamble, logged_in);
        // Messages name the program that was started.
        let started =
            preamble.found.clone().map(|found| Self { program: Program::started(found, None), ..self.clone() });
        let started = started.as_ref().unwrap_or(self);
        match found {
            Ok(theirs) if Versions::OURS.common(theirs).is_some() => Ok(preamble),
            Ok(theirs) => Err(started.other_version(theirs.to_string(), Versions::OURS.remedy(theirs))),
            Err(NoMarker::Failed(error)) if patient::is_stopped(&error) => Err(ConnectError::Interrupted),
            Err(NoMarker::Failed(error)) if error.kind() == io::ErrorKind::TimedOut => Err(started.no_greeting()),
            Err(missing) => Err(started.explain(&missing, &preamble, process)),
        }
    }

    /// Error for a missing marker line, classified by the exit status of ssh.
    fn explain(&self, missing: &NoMarker, preamble: &Preamble, process: &mut RemoteProcess) -> ConnectError {
        let status = match missing {
            NoMarker::Ended(_) => process.wait(EXIT_TIMEOUT),
            NoMarker::Noise | NoMarker::Failed(_) => None,
        };
        let (host, command) = (self.shell.host().to_owned(), self.shell.command().to_owned());
        let said = process.last_stderr();
        match status.and_then(|status| status.code()) {
            Some(126 | 127) if self.shell.is_missing() => ConnectError::SshMissing { command },
            Some(126 | 127) => {
                let searched = if self.program == Program::Searched { SEARCHED } else { "" };
                ConnectError::NoIcdc { host, program: self.program.to_string(), searched, said }
            }
            // OpenSSH keeps 255 for its own failures.
            Some(255) => ConnectError::SshFailed { host, command, said },
            // clap's exit status for an unknown subcommand: a release without `far-end`.
            Some(2) if said.contains("far-end") => {
                self.other_version("none that this one knows".to_owned(), "upgrade icdc there")
            }
            _ => {
                // Start-up files and shells that refuse logins print the reason on either output.
                let said = [said, preamble.last.clone()].into_iter().filter(|words| !words.is_empty());
                let said = said.collect::<Vec<_>>().join("; ");
                match status {
                    Some(how) if !how.success() => {
                        ConnectError::EndedAtOnce { host, command, program: self.program.to_string(), how, said }
                    }
                    _ => self.failed(describe(missing, status), said),
                }
            }
        }
    }

    /// Error for a far side that has not greeted within [`GREETING_TIMEOUT`].
    fn no_greeting(&self) -> ConnectError {
        ConnectError::NoGreeting {
            host: self.shell.host().to_owned(),
            program: self.program.to_string(),
            command: self.shell.command().to_owned(),
            patience: GREETING_TIMEOUT,
        }
    }

    /// Error for a far end that did not start as expected: `how` is the cause, `said` its error
    /// output.
    pub(super) fn failed(&self, how: String, said: String) -> ConnectError {
        ConnectError::FarEndFailed {
            host: self.shell.host().to_owned(),
            command: self.shell.command().to_owned(),
            program: self.program.to_string(),
            how,
            said,
        }
    }

    /// Error for a far end whose protocol versions, `theirs`, do not include one of this end's.
    pub(super) fn other_version(&self, theirs: String, remedy: &str) -> ConnectError {
        ConnectError::OtherVersion {
            place: format!("`{}` on {}", self.program, self.shell.host()),
            theirs,
            ours: Versions::OURS.to_string(),
            remedy: format!("{remedy}, or use --send-self"),
        }
    }
}

/// Address family as a far end's first message encodes it; 0 for any.
fn family_number(family: Family) -> u8 {
    match family {
        Family::Any => 0,
        Family::V4 => 4,
        Family::V6 => 6,
    }
}

/// Text for messages: why the marker line is missing, by ssh's exit status if it is known.
fn describe(missing: &NoMarker, status: Option<ExitStatus>) -> String {
    match (missing, status) {
        (NoMarker::Ended(_), Some(status)) => status.to_string(),
        (NoMarker::Ended(count), None) => format!("its output ended after {count} bytes"),
        (NoMarker::Noise, _) => {
            format!("{MAX_NOISE} bytes of other output; silence the shell's start-up files there")
        }
        (NoMarker::Failed(error), _) => format!("read: {error}"),
    }
}
