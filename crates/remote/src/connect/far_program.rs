//! The program on the far side: how it is called, what it says first, and why it does not.

use std::fmt;
use std::io::{self, Read};
use std::process::ExitStatus;

use icdc_protocol::message::{Bootstrap, FarTask};
use icdc_protocol::{Features, Message, Versions, frame};
use icdc_tcp::Family;
use icdc_units::Span;

use super::error::ConnectError;
use super::foreign_text;
use super::patient::{self, PatientReader};
use super::remote_shell::{LOGGED_IN, RemoteProcess, RemoteShell, quote};
use super::send_self::{Cache, Sent, program_found};
use crate::options::CopyOptions;

/// Begins the line by which a started far end tells itself from other output. The lowest version of the
/// protocol that it speaks follows; before it stands the line of all ([`Versions::line`]).
const MARKER: &str = "ICDC-FAR-END";
/// Output of shell start-up files that is skipped before the marker.
pub(super) const MAX_NOISE: usize = 4 << 20;
/// Longest line that is looked at.
const LONGEST_LINE: usize = 4096;
/// Time from the start of ssh to the far end's first words: a login, perhaps by hand and by way of
/// other hosts.
pub(super) const GREETING_PATIENCE: Span = Span::from_secs(300);
/// Time for an ended ssh to report its exit status.
const EXIT_PATIENCE: Span = Span::from_secs(5);

/// Begins the line that tells where a program was found that is not on the far side's PATH.
const FOUND: &str = "ICDC-FOUND ";
/// Where [`SEARCH`] looks, for messages.
const SEARCHED: &str = " in PATH, ~/.local/bin or /usr/local/bin";
/// Starts the far end where no place is named: ssh gives a command a shorter PATH than a login has.
/// One word without single quotes or `!`, as every login shell passes on unchanged.
const SEARCH: &str = concat!(
    r#"sh -c 'if command -v icdc >/dev/null; then exec icdc far-end; fi; "#,
    r#"for icdc in "${HOME:-}/.local/bin/icdc" /usr/local/bin/icdc; do if test -f "$icdc" && test -x "$icdc"; then "#,
    r#"printf "\n%s\n" "ICDC-FOUND $icdc"; exec "$icdc" far-end; fi; done; exec icdc far-end'"#
);

/// What is called on one host.
#[derive(Clone)]
pub(super) struct FarProgram {
    pub(super) shell: RemoteShell,
    pub(super) program: Program,
}

/// The program that is called on the far side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// It is looked for in the usual places.
    Searched,
    /// A word for the far side's shell.
    Named(String),
    /// It was brought there by this end.
    Sent(Sent),
}

impl Program {
    /// The program that the user has named, or the default.
    pub(super) fn of(remote_icdc: &str) -> Self {
        if remote_icdc == CopyOptions::REMOTE_ICDC { Self::Searched } else { Self::Named(remote_icdc.to_owned()) }
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

/// Which of several programs was started, as the far side's shell tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// One that is installed at this place.
    Installed(String),
    /// The one in the cache directory that was to be brought.
    InCache(String),
}

impl Found {
    /// The program, to be started once more.
    pub(super) fn program(self, cache: Option<&Cache>) -> Program {
        match (self, cache) {
            (Self::InCache(path), Some(cache)) => Program::Sent(Sent { path, command: cache.start().into() }),
            (Self::InCache(path) | Self::Installed(path), _) => Program::Named(path),
        }
    }
}

/// What a started far end that speaks `versions` prints first. The empty line ends an unfinished one of a
/// shell's start-up files.
pub(crate) fn greeting(versions: Versions) -> String {
    format!("\n{}{MARKER} {}\n", versions.line(), versions.lowest())
}

impl FarProgram {
    /// Command for the far side's shell. `sh` is what starts the program, each time: a restricted shell
    /// (`rbash`) starts none by its path.
    pub(super) fn command_line(&self) -> String {
        match &self.program {
            Program::Searched => SEARCH.to_owned(),
            Program::Named(word) => format!(r#"sh -c 'exec "$1" far-end' sh {}"#, quote(word)),
            Program::Sent(sent) => sent.command.to_string(),
        }
    }

    /// The first message to it, which fits into any pipe.
    pub(super) fn bootstrap(task: FarTask, family: Family) -> Vec<u8> {
        let bootstrap = Bootstrap {
            versions: Versions::OURS,
            features: Features::OURS,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            task,
            family: family_number(family),
        };
        let mut frame = Vec::new();
        frame::encode(&Message::Bootstrap(bootstrap), 0, &mut frame).expect("it is short and well-formed");
        frame
    }

    /// Skips what shell start-up files print, up to the line that tells a far end of this protocol;
    /// calls `logged_in` if ssh tells that it is.
    pub(super) fn await_marker(
        &self,
        output: &mut PatientReader<'_>,
        process: &mut RemoteProcess,
        logged_in: impl FnMut(),
    ) -> Result<Preamble, ConnectError> {
        let mut preamble = Preamble::default();
        let found = find_marker(output, &mut preamble, logged_in);
        // Messages name the program that was started.
        let started = preamble.found.clone().map(|found| Self { program: found.program(None), ..self.clone() });
        let started = started.as_ref().unwrap_or(self);
        match found {
            Ok(theirs) if Versions::OURS.common(theirs).is_some() => Ok(preamble),
            Ok(theirs) => Err(started.other_version(theirs.to_string(), Versions::OURS.remedy(theirs))),
            Err(NoMarker::Failed(error)) if patient::is_stopped(&error) => Err(ConnectError::Interrupted),
            Err(NoMarker::Failed(error)) if error.kind() == io::ErrorKind::TimedOut => Err(started.no_greeting()),
            Err(missing) => Err(started.explain(&missing, &preamble, process)),
        }
    }

    /// Why no marker came: the exit status tells whose fault it is.
    fn explain(&self, missing: &NoMarker, preamble: &Preamble, process: &mut RemoteProcess) -> ConnectError {
        let status = match missing {
            NoMarker::Ended(_) => process.wait(EXIT_PATIENCE),
            NoMarker::Noise | NoMarker::Failed(_) => None,
        };
        let (host, command) = (self.shell.host().to_owned(), self.shell.command().to_owned());
        let said = process.last_words();
        match status.and_then(|status| status.code()) {
            Some(126 | 127) if self.shell.is_missing() => ConnectError::SshMissing { command },
            Some(126 | 127) => {
                let searched = if self.program == Program::Searched { SEARCHED } else { "" };
                ConnectError::NoIcdc { host, program: self.program.to_string(), searched, said }
            }
            // OpenSSH keeps 255 for its own failures.
            Some(255) => ConnectError::SshFailed { host, command, said },
            // What clap answers to a subcommand that it does not know: a release without `far-end`.
            Some(2) if said.contains("far-end") => {
                self.other_version("none that this one knows".to_owned(), "upgrade icdc there")
            }
            _ => {
                // Start-up files, and shells that let nobody in, say why on either output.
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

    fn no_greeting(&self) -> ConnectError {
        ConnectError::NoGreeting {
            host: self.shell.host().to_owned(),
            program: self.program.to_string(),
            command: self.shell.command().to_owned(),
            patience: GREETING_PATIENCE,
        }
    }

    pub(super) fn failed(&self, how: String, said: String) -> ConnectError {
        ConnectError::FarEndFailed {
            host: self.shell.host().to_owned(),
            command: self.shell.command().to_owned(),
            program: self.program.to_string(),
            how,
            said,
        }
    }

    pub(super) fn other_version(&self, theirs: String, remedy: &str) -> ConnectError {
        ConnectError::OtherVersion {
            place: format!("`{}` on {}", self.program, self.shell.host()),
            theirs,
            ours: Versions::OURS.to_string(),
            remedy: format!("{remedy}, or use --send-self"),
        }
    }
}

fn family_number(family: Family) -> u8 {
    match family {
        Family::Any => 0,
        Family::V4 => 4,
        Family::V6 => 6,
    }
}

/// Why the marker line was not found.
#[derive(Debug)]
enum NoMarker {
    /// The output ended after so many bytes.
    Ended(usize),
    /// Too much else came.
    Noise,
    Failed(io::Error),
}

/// What came before the marker line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Preamble {
    /// Bytes that start-up files printed.
    noise: usize,
    /// Beginning of their first line.
    first: String,
    /// Their last one.
    last: String,
    /// Which program was started, if that was left to the far side's shell.
    pub(super) found: Option<Found>,
    /// What the far end has told of its versions, in a line before the marker.
    versions: Option<Versions>,
}

impl Preamble {
    /// What to tell of it.
    pub(super) fn notice(&self, host: &str) -> Option<String> {
        let Self { noise, first, .. } = self;
        let text = || {
            format!(
                "{host}: its shell's start-up files print {noise} bytes for commands, too (\"{first}\"), which are skipped"
            )
        };
        (*noise > 0).then(text)
    }

    fn add(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if let Some(path) = program_found(&text) {
            self.found = Some(Found::InCache(path.to_owned()));
        } else if let Some(path) = text.trim_end().strip_prefix(FOUND) {
            self.found = Some(Found::Installed(path.to_owned()));
        } else if let Some(versions) = Versions::parse_line(line) {
            self.versions = Some(versions);
        } else if !text.trim().is_empty() {
            self.noise += line.len() + 1;
            if self.first.is_empty() {
                self.first = foreign_text::sample(&text);
            }
            self.last = foreign_text::reason(&text);
        }
    }
}

/// Skips what shell start-up files print, up to the marker line; returns the versions. Reads byte by
/// byte: what follows the line belongs to the link.
fn find_marker(
    output: &mut impl Read,
    preamble: &mut Preamble,
    mut logged_in: impl FnMut(),
) -> Result<Versions, NoMarker> {
    let mut line = Vec::new();
    let mut byte = [0];
    for skipped in 0..MAX_NOISE {
        match output.read(&mut byte) {
            Ok(0) => {
                preamble.add(&line);
                return Err(NoMarker::Ended(skipped));
            }
            Ok(_) if byte[0] != b'\n' => {
                if line.len() == LONGEST_LINE {
                    preamble.add(&line);
                    line.clear();
                }
                line.push(byte[0]);
            }
            Ok(_) => {
                if let Some(marked) = marker_version(&line) {
                    // One without the other line speaks this version alone.
                    let told = preamble.versions.filter(|told| told.lowest() == marked.lowest());
                    return Ok(told.unwrap_or(marked));
                }
                if line == LOGGED_IN.as_bytes() {
                    logged_in();
                } else {
                    preamble.add(&line);
                }
                line.clear();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A socket says so where what was written to it was not read.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(NoMarker::Ended(skipped)),
            Err(error) => return Err(NoMarker::Failed(error)),
        }
    }
    Err(NoMarker::Noise)
}

fn marker_version(line: &[u8]) -> Option<Versions> {
    let number = std::str::from_utf8(line).ok()?.strip_prefix(MARKER)?.strip_prefix(' ')?.trim_end().parse().ok()?;
    Versions::new(number, number)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(lowest: u32, highest: u32) -> Versions {
        Versions::new(lowest, highest).unwrap()
    }

    #[test]
    fn the_marker_is_found_behind_noise_and_nothing_more_is_read() {
        let text = b"Welcome!\nno newline here\nICDC-FAR-END 1\nrest".to_vec();
        let mut reader = text.as_slice();
        let mut preamble = Preamble::default();
        let version = find_marker(&mut reader, &mut preamble, || {}).unwrap();
        assert_eq!((version, reader), (versions(1, 1), &b"rest"[..]));
        let notice = preamble.notice("far").unwrap();
        assert!(
            notice.contains("far: ") && notice.contains(" 25 bytes ") && notice.contains("\"Welcome!\""),
            "{notice}"
        );
        let mut preamble = Preamble::default();
        let version = find_marker(&mut b"\nICDC-FAR-END 77\r\n".as_slice(), &mut preamble, || {}).unwrap();
        assert_eq!((version, preamble.notice("far")), (versions(77, 77), None));
    }

    #[test]
    fn a_far_end_tells_its_versions_before_the_marker() {
        for (range, marker) in [(versions(2, 2), "\nICDC-FAR-END 2\n"), (versions(2, 4), "\nICDC-FAR-END 2\n")] {
            let text = greeting(range);
            assert!(text.ends_with(marker), "an end that knows one number reads it: {text}");
            let mut preamble = Preamble::default();
            assert_eq!(find_marker(&mut text.as_bytes(), &mut preamble, || {}).unwrap(), range);
            assert_eq!(preamble.notice("far"), None);
        }
        let contradicting = b"ICDC-VERSIONS 3-9\nICDC-FAR-END 2\n".as_slice();
        let found = find_marker(&mut { contradicting }, &mut Preamble::default(), || {}).unwrap();
        assert_eq!(found, versions(2, 2));
    }

    #[test]
    fn that_ssh_is_logged_in_is_heard_before_the_far_end_speaks() {
        let mut times = 0;
        let text = b"ICDC-LOGGED-IN\n\nICDC-FAR-END 1\n".to_vec();
        let mut preamble = Preamble::default();
        find_marker(&mut text.as_slice(), &mut preamble, || times += 1).unwrap();
        assert_eq!((times, preamble), (1, Preamble::default()));
    }

    #[test]
    fn much_noise_is_borne() {
        let text = [vec![b'x'; 1 << 20], b"\nICDC-FAR-END 1\n".to_vec()].concat();
        assert_eq!(find_marker(&mut text.as_slice(), &mut Preamble::default(), || {}).unwrap(), versions(1, 1));
    }

    #[test]
    fn without_a_marker_it_ends() {
        let find = |mut output: &mut dyn Read| find_marker(&mut output, &mut Preamble::default(), || {});
        assert!(matches!(find(&mut b"ICDC-FAR-END one\n".as_slice()), Err(NoMarker::Ended(17))));
        assert!(matches!(find(&mut io::repeat(b'x')), Err(NoMarker::Noise)));
        assert!(matches!(find(&mut io::repeat(b'\n')), Err(NoMarker::Noise)));
    }
}
