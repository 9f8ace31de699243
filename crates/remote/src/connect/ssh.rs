//! A far end that this end starts by ssh.
//!
//! ```text
//! ssh HOST 'icdc far-end'          near end → Bootstrap { key that may connect, ports }, at once
//!                                  far end → marker line ICDC-FAR-END 2, Listening { its key, port }
//! TCP + TLS 1.3 to HOST:port       both keys pinned; both made for this run only
//! ```
//!
//! The near end does not wait for the marker: that would be a round trip more, and a program that
//! is no far end has no use for its input. ssh vouches for both keys and carries no data. It stays
//! open, with its input held: the far end takes the end of its input for the end of this one.

use std::io::{self, Read, Write};
use std::process::ExitStatus;
use std::sync::Arc;

use icdc_link::{DEAD_AFTER, Inlet, Link, LinkControl, LinkError, MessageWriter, WriterGuard, receive, stdio_link};
use icdc_protocol::message::{Bootstrap, Listening};
use icdc_protocol::{Message, NAME, VERSION, frame};
use icdc_stop::StopSignal;
use icdc_tcp::{Family, clock};
use icdc_transfer::{Event, EventSink};
use icdc_trust::{Identity, PublicKey};
use icdc_tuning::buffers::beginning;
use icdc_units::Span;

use super::Further;
use super::error::ConnectError;
use super::patient::{self, PatientReader};
use super::reach::{connecting, pinned, reach};
use super::remote_shell::{RemoteProcess, RemoteShell, quote};
use super::send_self;
use crate::options::CopyOptions;

/// Begins the line by which a started far end tells itself from other output. The number of the
/// protocol follows.
pub(crate) const MARKER: &str = "ICDC-FAR-END";
/// Output of shell start-up files that is skipped before the marker.
const MAX_NOISE: usize = 64 << 10;
/// Time from the start of ssh to the far end's first words: a login, perhaps by hand and by way of
/// other hosts.
const GREETING_PATIENCE: Span = Span::from_secs(300);
/// Time for an ended ssh to report its exit status.
const EXIT_PATIENCE: Span = Span::from_secs(5);
/// How long ssh may take to notice that its far end has died.
const ENDING: Span = Span::from_secs(3);

/// What is needed to start a far end on one host, any number of times.
pub(crate) struct Starter {
    shell: RemoteShell,
    program: String,
    send_self: bool,
    ports: (u16, u16),
    family: Family,
    events: EventSink,
    host_name: Option<String>,
    stop: StopSignal,
}

/// A far end that was started and has said where it listens.
pub(crate) struct Started {
    /// Writes to its standard input, and keeps the ssh connection from being forgotten on its way.
    pub(crate) writer: MessageWriter,
    /// Reads its standard output.
    pub(crate) inlet: Box<dyn Inlet>,
    /// Ends what reads there.
    pub(crate) control: LinkControl,
    /// Ends its standard input: the far end takes that for the end of this one. Dropped before the
    /// process, which then ends by itself.
    pub(crate) end: WriterGuard,
    /// Its key for this run.
    pub(crate) key: PublicKey,
    /// Where it listens; 0 if it was started without a peer.
    pub(crate) port: u16,
    pub(crate) running: Running,
}

/// The ssh that carries a far end.
pub(crate) struct Running(RemoteProcess);

impl Running {
    /// Whether ssh has ended, and with it the far end.
    pub(crate) fn has_ended(&mut self, patience: Span) -> bool {
        self.0.wait(patience).is_some() || self.0.has_ended()
    }
}

impl Starter {
    /// `host` is `[USER@]HOST`.
    pub(crate) fn new(
        host: &str,
        options: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, ConnectError> {
        let told = (Arc::clone(events), host.to_owned());
        let heard = move |line: &str| (told.0)(Event::Notice { text: format!("{}: {line}", told.1) });
        Ok(Self {
            shell: RemoteShell::new(&options.ssh, host, Arc::new(heard), stop)?,
            program: options.remote_icdc.clone(),
            send_self: options.send_self,
            ports: options.ports,
            family: options.family,
            events: Arc::clone(events),
            host_name: None,
            stop: stop.clone(),
        })
    }

    /// Name of the host for the data connection.
    pub(crate) fn host_name(&mut self) -> Result<String, ConnectError> {
        if let Some(name) = &self.host_name {
            return Ok(name.clone());
        }
        let name = self.shell.host_name(&self.stop)?;
        Ok(self.host_name.insert(name).clone())
    }

    /// Starts the far end; `peer` is the key that may connect to it, `None` if it shall only drive.
    /// Where there is none that fits, it is sent there first, if the user wants that.
    pub(crate) fn start(&mut self, peer: Option<PublicKey>) -> Result<Started, ConnectError> {
        (self.events)(Event::Connecting { to: format!("{} by ssh", self.shell.host()) });
        match self.start_program(peer) {
            Err(ConnectError::NoIcdc { .. } | ConnectError::OtherVersion { .. }) if self.send_self => {
                // Once is enough: what is sent now stays there, and is not sent for a restart.
                self.send_self = false;
                let text =
                    format!("{}: no icdc there that fits; using this one, from its cache directory", self.shell.host());
                (self.events)(Event::Notice { text });
                self.program = send_self::put(&self.shell, &self.stop)?;
                self.start_program(peer)
            }
            other => other,
        }
    }

    fn start_program(&self, peer: Option<PublicKey>) -> Result<Started, ConnectError> {
        let mut process = self.shell.run(&format!("{} far-end", quote(&self.program)))?;
        let stdout = process.stdout.take().expect("standard output is piped");
        let stdin = process.stdin.take().expect("standard input is piped");
        let sent = (&stdin).write_all(&self.bootstrap(peer));
        let cannot_start = |cause| ConnectError::Start { command: self.shell.command().to_owned(), cause };
        let deadline = clock::now() + GREETING_PATIENCE;
        match find_marker(&mut PatientReader::new(&stdout, &self.stop, deadline).map_err(cannot_start)?) {
            Ok(VERSION) => {}
            Ok(theirs) => return Err(self.other_version(format!("icdc/{theirs}"))),
            Err(NoMarker::Failed(error)) if patient::is_stopped(&error) => return Err(ConnectError::Interrupted),
            Err(NoMarker::Failed(error)) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(self.no_greeting());
            }
            Err(missing) => return Err(self.explain(&missing, &mut process)),
        }
        // One that drives gives signs of life; one that listens has nothing more to say than where.
        let link = stdio_link(stdout, stdin, self.shell.host(), Some(DEAD_AFTER)).map_err(cannot_start)?;
        let Link { outlet, mut inlet, control } = link;
        let greeting = {
            let control = control.clone();
            let _given_up = self.stop.while_waiting(move || control.shutdown());
            receive(inlet.as_mut())
        };
        // A far end that cannot serve says why and ends; its words are worth more than a broken
        // pipe.
        match (greeting, sent) {
            (Err(_), _) if self.stop.is_requested() => Err(ConnectError::Interrupted),
            (Err(LinkError::Silent { .. }), _) => Err(self.no_greeting()),
            (Ok(Message::Listening(Listening { key, port, version })), _) if peer.is_none() || port != 0 => {
                tracing::debug!(host = self.shell.host(), version, port, "far end started");
                process.is_well();
                let (writer, end) = MessageWriter::start(outlet).map_err(cannot_start)?;
                let (key, running) = (PublicKey::from_bytes(key), Running(process));
                Ok(Started { writer, inlet, control, end, key, port, running })
            }
            (Ok(Message::Refused(refusal)), _) => {
                Err(ConnectError::FarEndRefused { host: self.shell.host().to_owned(), reason: refusal.reason })
            }
            (Ok(other), _) => Err(self.failed(format!("unexpected answer {}", other.kind()), &process)),
            (Err(LinkError::Protocol(reason)), _) => Err(self.other_version(reason)),
            (Err(error), Ok(())) => Err(self.failed(error.to_string(), &process)),
            (Err(_), Err(error)) => Err(self.failed(format!("write: {error}"), &process)),
        }
    }

    /// The first message, which fits into any pipe.
    fn bootstrap(&self, peer: Option<PublicKey>) -> Vec<u8> {
        let bootstrap = Bootstrap {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            peer: peer.map(|key| *key.as_bytes()),
            ports: self.ports,
            family: family_number(self.family),
        };
        let mut frame = Vec::new();
        frame::encode(&Message::Bootstrap(bootstrap), 0, &mut frame).expect("it is short and well-formed");
        frame
    }

    /// Why no marker came: the exit status tells whose fault it is.
    fn explain(&self, missing: &NoMarker, process: &mut RemoteProcess) -> ConnectError {
        let status = match missing {
            NoMarker::Ended(_) => process.wait(EXIT_PATIENCE),
            NoMarker::Noise | NoMarker::Failed(_) => None,
        };
        let (host, command) = (self.shell.host().to_owned(), self.shell.command().to_owned());
        let said = process.last_words();
        match status.and_then(|status| status.code()) {
            Some(126 | 127) if self.shell.is_missing() => ConnectError::SshMissing { command },
            Some(126 | 127) => ConnectError::NoIcdc { host, program: self.program.clone(), said },
            // OpenSSH keeps 255 for its own failures.
            Some(255) => ConnectError::SshFailed { host, command, said },
            // What clap answers to a subcommand that it does not know: a release without `far-end`.
            Some(2) if said.contains("far-end") => self.other_version("none that this one knows".to_owned()),
            _ => self.failed(describe(missing, status), process),
        }
    }

    fn no_greeting(&self) -> ConnectError {
        ConnectError::NoGreeting {
            host: self.shell.host().to_owned(),
            program: self.program.clone(),
            command: self.shell.command().to_owned(),
            patience: GREETING_PATIENCE,
        }
    }

    fn failed(&self, how: String, process: &RemoteProcess) -> ConnectError {
        ConnectError::FarEndFailed {
            host: self.shell.host().to_owned(),
            command: self.shell.command().to_owned(),
            program: self.program.clone(),
            how,
            said: process.last_words(),
        }
    }

    fn other_version(&self, theirs: String) -> ConnectError {
        ConnectError::OtherVersion {
            host: self.shell.host().to_owned(),
            program: self.program.clone(),
            theirs,
            ours: NAME.to_owned(),
        }
    }
}

/// A far end started by ssh, with the data connection's keys.
pub(crate) struct SshFar {
    starter: Starter,
    current: Option<(Started, Arc<Identity>)>,
}

impl SshFar {
    pub(crate) fn open(
        host: &str,
        options: &CopyOptions,
        events: &EventSink,
        stop: &StopSignal,
    ) -> Result<Self, ConnectError> {
        let mut far = Self { starter: Starter::new(host, options, events, stop)?, current: None };
        far.start()?;
        Ok(far)
    }

    /// Connects to the far end; starts it again first if it has ended meanwhile.
    pub(crate) fn link(&mut self) -> Result<Link, ConnectError> {
        // A far end that ended just now may still be ending: a refused port is the sign to look
        // again.
        for is_first in [true, false] {
            if self.current.as_mut().is_none_or(|(started, _)| started.running.has_ended(Span::ZERO)) {
                self.start()?;
            }
            let host = self.starter.host_name()?;
            let (started, identity) = self.current.as_mut().expect("it was started above");
            (self.starter.events)(connecting(&host, started.port));
            let (port, key) = (started.port, started.key);
            match connect(&host, port, key, identity, self.starter.family, &self.starter.stop) {
                Err(ConnectError::DataPort { .. } | ConnectError::Handshake { .. })
                    if is_first && started.running.has_ended(ENDING) => {}
                done => return done,
            }
        }
        unreachable!("the second attempt returns")
    }

    /// Connects to the far end that is running, as often as it is called.
    pub(crate) fn further(&mut self) -> Result<Further<'static>, ConnectError> {
        let host = self.starter.host_name()?;
        let Some((started, identity)) = &self.current else {
            unreachable!("a link to it has been made");
        };
        let (port, key, identity) = (started.port, started.key, Arc::clone(identity));
        let (family, stop) = (self.starter.family, self.starter.stop.clone());
        Ok(Box::new(move || connect(&host, port, key, &identity, family, &stop)))
    }

    fn start(&mut self) -> Result<(), ConnectError> {
        self.current = None;
        let identity = Identity::generate();
        self.current = Some((self.starter.start(Some(identity.public()))?, Arc::new(identity)));
        Ok(())
    }
}

fn connect(
    host: &str,
    port: u16,
    key: PublicKey,
    identity: &Identity,
    family: Family,
    stop: &StopSignal,
) -> Result<Link, ConnectError> {
    let unanswered = |reason| ConnectError::DataPort { host: host.to_owned(), port, reason };
    let stream = reach((host, port), family, &beginning(), stop, unanswered)?;
    pinned(stream, (host, port), identity, key, stop)
}

pub(crate) fn family_number(family: Family) -> u8 {
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

/// Skips what shell start-up files print, up to the marker line; returns its number. Reads byte by
/// byte: what follows the line belongs to the link.
fn find_marker(output: &mut impl Read) -> Result<u32, NoMarker> {
    let mut line = Vec::new();
    let mut byte = [0];
    for skipped in 0..MAX_NOISE {
        match output.read(&mut byte) {
            Ok(0) => return Err(NoMarker::Ended(skipped)),
            Ok(_) if byte[0] != b'\n' => line.push(byte[0]),
            Ok(_) => {
                if let Some(version) = marker_version(&line) {
                    return Ok(version);
                }
                line.clear();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(NoMarker::Failed(error)),
        }
    }
    Err(NoMarker::Noise)
}

fn marker_version(line: &[u8]) -> Option<u32> {
    std::str::from_utf8(line).ok()?.strip_prefix(MARKER)?.strip_prefix(' ')?.trim_end().parse().ok()
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

    #[test]
    fn the_marker_is_found_behind_noise_and_nothing_more_is_read() {
        let text = b"Welcome!\nno newline here\nICDC-FAR-END 1\nrest".to_vec();
        let mut reader = text.as_slice();
        assert_eq!(find_marker(&mut reader).unwrap(), 1);
        assert_eq!(reader, b"rest");
        assert_eq!(find_marker(&mut b"ICDC-FAR-END 77\r\n".as_slice()).unwrap(), 77);
    }

    #[test]
    fn without_a_marker_it_ends() {
        assert!(matches!(find_marker(&mut b"ICDC-FAR-END one\n".as_slice()), Err(NoMarker::Ended(17))));
        assert!(matches!(find_marker(&mut io::repeat(b'x')), Err(NoMarker::Noise)));
        assert!(matches!(find_marker(&mut io::repeat(b'\n')), Err(NoMarker::Noise)));
    }
}
