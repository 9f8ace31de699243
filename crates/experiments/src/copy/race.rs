//! One run of a copying program, from its command to its exit, in a lab of its own.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use icdc_lab::{Host, Lab, LabError, Settings, spoilt_but_for_bursts};
use icdc_packet::clock;
use icdc_units::{ByteCount, Span};

use crate::copy::peers::{CommandPaths, Load, Peer, SshdDirectory};
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::{FAR, on_host};
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::bounded;
use crate::harness::processes::scratch::{Scratch, contents};
use crate::harness::processes::server::Server;
use crate::harness::repetition::attempts::{self, Figures};
use crate::harness::repetition::resolution::Resolution;

/// TCP port of icdc's daemon.
const PORT: u16 = 2633;
/// Time limit for a far end to listen.
const TIMEOUT: Span = Span::from_secs(10);
/// Interval of the attempts to connect.
const STEP: Span = Span::from_millis(50);
/// Way in which icdc's far end is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarEnd {
    /// Started by ssh; the login is part of the time.
    Ssh,
    /// A daemon that is already running.
    Daemon,
}

/// A copying program that is compared with others: icdc in one of its variants, or another one.
pub(crate) enum Contender {
    /// icdc, with its far end, its privileges, and whether it knows the path.
    Icdc(FarEnd, Rights, bool),
    /// Another program.
    Peer(&'static Peer),
}

/// Result of one run of a copying program.
#[derive(Default)]
pub(crate) struct Finish {
    /// Time from the command to its exit.
    pub(crate) took: Span,
    /// Files and bytes at the destination in the end.
    pub(crate) moved: (u64, ByteCount),
    /// Reason why the copy is incomplete; `None` if it is complete.
    pub(crate) failure: Option<String>,
    /// Whether the program exceeded the time limit.
    pub(crate) overran: bool,
    /// Reason why the result must not be used, if so.
    pub(crate) spoilt: Option<String>,
}

impl Figures for Finish {
    fn figures(&self) -> String {
        self.failure.clone().unwrap_or_else(|| self.took.to_string())
    }
}

impl Contender {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Peer(peer) => peer.name.to_owned(),
            Self::Icdc(far_end, rights, known) => {
                let far_end = if *far_end == FarEnd::Ssh { "by ssh" } else { "by daemon" };
                format!("icdc {far_end}, {}{}", rights.name(), if *known { ", known path" } else { "" })
            }
        }
    }
}

/// One run of a copying program, as requested.
pub(crate) struct Turn<'a> {
    pub(crate) contender: &'a Contender,
    pub(crate) load: Load,
    /// The file or tree to copy.
    pub(crate) source: &'a Path,
    /// Time limit of the run.
    pub(crate) limit: Span,
}

/// Setting of all runs of a comparison: the lab's settings, the files, the servers' keys and the
/// destination.
pub(crate) struct RaceSetup<'a> {
    pub(crate) settings: Settings,
    pub(crate) scratch: &'a Scratch,
    pub(crate) paths: CommandPaths,
    /// Destination directory of all programs.
    pub(crate) destination: PathBuf,
}

impl RaceSetup<'_> {
    /// Makes the identities of icdc's two ends, trusted by each other, also for the far end without
    /// privileges.
    pub(crate) fn make_keys(&self, bench: &Bench<'_>) -> Result<(), ExperimentError> {
        let path = |name: &str| self.scratch.path(name);
        for name in ["client", "daemon"] {
            keygen(bench, &["--identity".as_ref(), path(name).as_os_str()])?;
        }
        let key = |name: &str| {
            let path = path(&format!("{name}.pub"));
            fs::read_to_string(&path).map_err(|error| ExperimentError::io(format!("read {}", path.display()), error))
        };
        let root = self.destination.parent().unwrap_or(&self.destination);
        self.scratch
            .text("authorized-keys", &format!("root=\"{}\",rights=rw,user=root {}", root.display(), key("client")?))?;
        let known = path("known-hosts");
        keygen(
            bench,
            &[
                "--known-hosts".as_ref(),
                known.as_os_str(),
                "--trust".as_ref(),
                format!("{FAR}:{PORT}").as_ref(),
                key("daemon")?.trim().as_ref(),
            ],
        )?;
        let program = bench.program.display();
        let far_end = format!("exec {} '{program}' \"$@\"", Rights::Few.prefix().join(" "));
        self.scratch.script("without-rights", &far_end)?;
        Ok(())
    }

    /// Runs a program once, and again if the machine disturbed it.
    pub(crate) fn run(&self, bench: &Bench<'_>, turn: &Turn<'_>) -> Result<Finish, ExperimentError> {
        let tolerance = Resolution::Means.tolerance(self.settings.round_trip());
        let settle = || {
            fs::create_dir_all(&self.destination)
                .map_err(|error| ExperimentError::io(format!("make {}", self.destination.display()), error))?;
            self.scratch.settle(turn.source)
        };
        let once = || {
            let result = self.attempt(bench, turn, tolerance);
            self.clear(turn.load);
            result
        };
        // A program that has failed is not run again.
        attempts::unspoilt_after(bench, tolerance, settle, once, |finish| {
            finish.spoilt.as_deref().filter(|_| finish.failure.is_none())
        })
    }

    /// Clears the destination for the next run: a file is deleted, many small ones are moved away.
    fn clear(&self, load: Load) {
        if load == Load::File || self.scratch.set_aside(&self.destination).is_err() {
            // Removed with its contents, whichever program made them.
            let _ = fs::remove_dir_all(&self.destination);
        }
    }

    /// Runs a program once, in a lab of its own; the result is marked as invalid if packets were
    /// later than `tolerance`.
    fn attempt(&self, bench: &Bench<'_>, turn: &Turn<'_>, tolerance: Span) -> Result<Finish, ExperimentError> {
        let Turn { contender, load, source, limit } = *turn;
        let _directory = SshdDirectory::new();
        let lab = TemporaryLab::new(bench, &self.settings)?;
        let lab = &lab;
        let _server = match (self.server(bench, lab, contender), contender) {
            (Ok(server), _) => server,
            // It does not run, and the others continue.
            (Err(error), Contender::Peer(_)) => {
                return Ok(Finish { failure: Some(error.to_string()), ..Finish::default() });
            }
            (Err(error), Contender::Icdc(..)) => return Err(error),
        };
        let mut command = match contender {
            Contender::Peer(peer) => {
                let mut command = on_host(bench, lab, "a", Rights::All);
                command.args(peer.copy(&self.paths, load, source));
                command
            }
            Contender::Icdc(far_end, rights, known) => self.icdc(bench, lab, (*far_end, *rights, *known), source)?,
        };
        let ended = bounded::run(&mut command, limit, |_| {})?;
        let (moved, whole) = (contents(&self.destination), contents(source));
        let failure = if ended.overran {
            Some(format!("was stopped after {limit}, having moved {} in {}", moved.1, moved.0))
        } else if !ended.well {
            Some(ended.errors.lines().last().unwrap_or("no output").to_owned())
        } else if moved != whole {
            Some(format!("moved {} in {} of {} in {}", moved.1, moved.0, whole.1, whole.0))
        } else {
            None
        };
        let spoilt = spoilt_but_for_bursts(&lab.page()?, &self.settings, tolerance);
        Ok(Finish { took: ended.took, moved, failure, overran: ended.overran, spoilt })
    }

    /// Command by which icdc copies `source` from host a to the destination on host b.
    fn icdc(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        (far_end, rights, known): (FarEnd, Rights, bool),
        source: &Path,
    ) -> Result<Command, ExperimentError> {
        let state = if known { self.scratch.path("known-paths") } else { self.scratch.empty("no-known-paths")? };
        let mut command = on_host(bench, lab, "a", rights);
        command.arg(bench.program).arg("copy").env("XDG_STATE_HOME", state);
        match far_end {
            FarEnd::Ssh => {
                let script = self.scratch.path("without-rights");
                let far = if rights == Rights::All { bench.program } else { script.as_path() };
                command.args(["--ssh", &self.paths.ssh, "--remote-icdc"]).arg(far).arg(source).arg(self.paths.far());
            }
            FarEnd::Daemon => {
                command.arg("--identity").arg(self.scratch.path("client"));
                command.arg("--known-hosts").arg(self.scratch.path("known-hosts"));
                let name = self.destination.file_name().unwrap_or_default().to_string_lossy();
                command.arg(source).arg(format!("icdc://{FAR}:{PORT}/{name}/"));
            }
        }
        Ok(command)
    }

    /// Starts the server that a program needs at host b (sshd, a daemon), and waits until it
    /// listens.
    fn server(&self, bench: &Bench<'_>, lab: &Lab, contender: &Contender) -> Result<Server, ExperimentError> {
        let (arguments, port, rights) = match contender {
            Contender::Peer(peer) => peer.serve(&self.paths).map(|(arguments, port)| (arguments, port, Rights::All)),
            Contender::Icdc(FarEnd::Ssh, ..) => {
                self.paths.sshd().map(|(arguments, port)| (arguments, port, Rights::All))
            }
            Contender::Icdc(FarEnd::Daemon, rights, _) => {
                let text = |path: &Path| path.display().to_string();
                let arguments = [
                    text(bench.program),
                    "serve".to_owned(),
                    "--listen".to_owned(),
                    format!("{FAR}:{PORT}"),
                    "--identity".to_owned(),
                    text(&self.scratch.path("daemon")),
                    "--authorized-keys".to_owned(),
                    text(&self.scratch.path("authorized-keys")),
                ];
                Some((arguments.into(), PORT, *rights))
            }
        }
        .ok_or(LabError::Missing { program: "sshd", package: "openssh-server" })?;
        let log = self.scratch.path("server-log");
        let server = Server::start(on_host(bench, lab, "b", rights).args(&arguments), &log)?;
        if await_listener(lab, port)? {
            return Ok(server);
        }
        let output = fs::read_to_string(&log).unwrap_or_default();
        Err(ExperimentError::program(format!("the far end of {}", contender.name()), output.trim()))
    }
}

/// Runs `icdc keygen` with these arguments.
fn keygen(bench: &Bench<'_>, arguments: &[&std::ffi::OsStr]) -> Result<(), ExperimentError> {
    let ended = bounded::run(Command::new(bench.program).arg("keygen").args(arguments), TIMEOUT, |_| {})?;
    if ended.well {
        return Ok(());
    }
    Err(ExperimentError::program("icdc keygen", ended.errors))
}

/// Whether a program listens on this port of host b within the time limit.
fn await_listener(lab: &Lab, port: u16) -> Result<bool, ExperimentError> {
    let until = clock::now() + TIMEOUT;
    lab.on(Host::B, || {
        while TcpStream::connect((FAR, port))
            .is_err_and(|error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            if clock::now() > until {
                return Ok(false);
            }
            clock::sleep_until(clock::now() + STEP);
        }
        Ok(true)
    })
}
