//! One turn of a program that copies, from its command to its exit, in a lab of its own.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use icdc_packet::clock;
use icdc_units::{ByteCount, Span};

use super::calm::Figures;
use super::control::Rights;
use super::copying::{FAR, on_host};
use super::peers::{Load, Peer, Place};
use super::scratch::{Scratch, contents};
use super::server::Server;
use super::trial::{Figure, Temporary};
use super::{Bench, bounded, calm};
use crate::faults::spoilt_but_for_bursts;
use crate::namespaces::Host;
use crate::settings::Settings;
use crate::{Lab, LabError};

/// Port of icdc's daemon.
const PORT: u16 = 2633;
/// A far end listens after so long, or never.
const PATIENCE: Span = Span::from_secs(10);
/// How often it is tried.
const STEP: Span = Span::from_millis(50);
/// Where sshd insists to have a directory.
const SSHD_DIRECTORY: &str = "/run/sshd";

/// How icdc's far end is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Login included.
    Ssh,
    /// The daemon runs already.
    Daemon,
}

/// A program.
pub(super) enum Contender {
    /// Ours, and whether it knows the path.
    Icdc(Way, Rights, bool),
    /// Another.
    Peer(&'static Peer),
}

/// How it went.
#[derive(Default)]
pub(super) struct Finish {
    /// From command to exit.
    pub(super) took: Span,
    /// Files and bytes that were there in the end.
    pub(super) moved: (u64, ByteCount),
    /// Why not all is there, if so.
    pub(super) failure: Option<String>,
    /// It took longer than agreed.
    pub(super) overran: bool,
    /// Why it must not be used, if so.
    pub(super) spoilt: Option<String>,
}

impl Figures for Finish {
    fn figures(&self) -> String {
        self.failure.clone().unwrap_or_else(|| self.took.to_string())
    }
}

impl Contender {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Peer(peer) => peer.name.to_owned(),
            Self::Icdc(way, rights, known) => {
                let way = if *way == Way::Ssh { "by ssh" } else { "by daemon" };
                format!("icdc {way}, {}{}", rights.name(), if *known { ", known path" } else { "" })
            }
        }
    }
}

/// Where the programs run.
pub(super) struct Track<'a> {
    pub(super) settings: Settings,
    pub(super) scratch: &'a Scratch,
    pub(super) place: Place,
    /// Into which everybody copies.
    pub(super) destination: PathBuf,
}

/// The directory that sshd wants, removed again if it was not there.
struct SshdDirectory(bool);

impl SshdDirectory {
    fn new() -> Self {
        Self(fs::create_dir(SSHD_DIRECTORY).is_ok())
    }
}

impl Drop for SshdDirectory {
    fn drop(&mut self) {
        if self.0 {
            // Another sshd may use it by now.
            let _ = fs::remove_dir(SSHD_DIRECTORY);
        }
    }
}

impl Track<'_> {
    /// Identities of icdc's two ends, known to each other, and the far end without rights.
    pub(super) fn make_keys(&self, bench: &Bench<'_>) -> Result<(), LabError> {
        let path = |name: &str| self.scratch.path(name);
        for name in ["client", "daemon"] {
            keygen(bench, &["--identity".as_ref(), path(name).as_os_str()])?;
        }
        let key = |name: &str| {
            let path = path(&format!("{name}.pub"));
            fs::read_to_string(&path).map_err(|error| LabError::io(format!("read {}", path.display()), error))
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
        let far_end = format!("exec {} '{program}' \"$@\"", Rights::Few.words().join(" "));
        self.scratch.script("without-rights", &far_end)?;
        Ok(())
    }

    /// A turn, again while the machine spoils it.
    pub(super) fn run(
        &self,
        bench: &Bench<'_>,
        contender: &Contender,
        load: Load,
        source: &Path,
        limit: Span,
    ) -> Result<Finish, LabError> {
        let tolerance = Figure::Means.tolerance(self.settings.round_trip());
        let settle = || {
            fs::create_dir_all(&self.destination)
                .map_err(|error| LabError::io(format!("make {}", self.destination.display()), error))?;
            self.scratch.settle(source)
        };
        let once = || {
            let result = self.attempt(bench, contender, load, source, limit, tolerance);
            self.clear(load);
            result
        };
        // Who failed has no further turn.
        calm::unspoilt_after(bench, tolerance, settle, once, |finish| {
            finish.spoilt.as_deref().filter(|_| finish.failure.is_none())
        })
    }

    /// What has arrived is not to be in the way of the next turn. A file goes. Many small ones stay aside to the end: ext4
    /// looks long for places to put new ones while many have just been deleted.
    fn clear(&self, load: Load) {
        static ASIDE: AtomicU32 = AtomicU32::new(0);
        let number = ASIDE.fetch_add(1, Ordering::Relaxed);
        let aside = self.scratch.path(&format!("aside-{number}"));
        if load == Load::File || fs::rename(&self.destination, &aside).is_err() {
            // By anybody's hand, and with all that is below.
            let _ = fs::remove_dir_all(&self.destination);
        }
    }

    fn attempt(
        &self,
        bench: &Bench<'_>,
        contender: &Contender,
        load: Load,
        source: &Path,
        limit: Span,
        tolerance: Span,
    ) -> Result<Finish, LabError> {
        let _directory = SshdDirectory::new();
        let lab = Temporary::new(bench, &self.settings)?;
        let lab = &lab.0;
        let _server = match (self.server(bench, lab, contender), contender) {
            (Ok(server), _) => server,
            // It has no turn, and the others go on.
            (Err(error), Contender::Peer(_)) => {
                return Ok(Finish { failure: Some(error.to_string()), ..Finish::default() });
            }
            (Err(error), Contender::Icdc(..)) => return Err(error),
        };
        let mut command = match contender {
            Contender::Peer(peer) => {
                let mut command = on_host(bench, lab, "a", Rights::All);
                command.args(peer.copy(&self.place, load, source));
                command
            }
            Contender::Icdc(way, rights, known) => self.icdc(bench, lab, (*way, *rights, *known), source)?,
        };
        let ended = bounded::run(&mut command, limit, |_| {})?;
        let (moved, whole) = (contents(&self.destination), contents(source));
        let failure = if ended.overran {
            Some(format!("was stopped after {limit}, having moved {} in {}", moved.1, moved.0))
        } else if !ended.well {
            Some(ended.words.lines().last().unwrap_or("said nothing").to_owned())
        } else if moved != whole {
            Some(format!("moved {} in {} of {} in {}", moved.1, moved.0, whole.1, whole.0))
        } else {
            None
        };
        let spoilt = spoilt_but_for_bursts(&lab.page()?, &self.settings, tolerance);
        Ok(Finish { took: ended.took, moved, failure, overran: ended.overran, spoilt })
    }

    fn icdc(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        (way, rights, known): (Way, Rights, bool),
        source: &Path,
    ) -> Result<Command, LabError> {
        let state = if known { self.scratch.path("known-paths") } else { self.scratch.empty("no-known-paths")? };
        let mut command = on_host(bench, lab, "a", rights);
        command.arg(bench.program).arg("copy").env("XDG_STATE_HOME", state);
        match way {
            Way::Ssh => {
                let script = self.scratch.path("without-rights");
                let far = if rights == Rights::All { bench.program } else { script.as_path() };
                command.args(["--ssh", &self.place.ssh, "--remote-icdc"]).arg(far).arg(source).arg(self.place.far());
            }
            Way::Daemon => {
                command.arg("--identity").arg(self.scratch.path("client"));
                command.arg("--known-hosts").arg(self.scratch.path("known-hosts"));
                let name = self.destination.file_name().unwrap_or_default().to_string_lossy();
                command.arg(source).arg(format!("icdc://{FAR}:{PORT}/{name}/"));
            }
        }
        Ok(command)
    }

    /// Starts what a program needs at the far end.
    fn server(&self, bench: &Bench<'_>, lab: &Lab, contender: &Contender) -> Result<Server, LabError> {
        let (words, port, rights) = match contender {
            Contender::Peer(peer) => peer.serve(&self.place).map(|(words, port)| (words, port, Rights::All)),
            Contender::Icdc(Way::Ssh, ..) => self.place.sshd().map(|(words, port)| (words, port, Rights::All)),
            Contender::Icdc(Way::Daemon, rights, _) => {
                let text = |path: &Path| path.display().to_string();
                let words = [
                    text(bench.program),
                    "serve".to_owned(),
                    "--listen".to_owned(),
                    format!("{FAR}:{PORT}"),
                    "--identity".to_owned(),
                    text(&self.scratch.path("daemon")),
                    "--authorized-keys".to_owned(),
                    text(&self.scratch.path("authorized-keys")),
                ];
                Some((words.into(), PORT, *rights))
            }
        }
        .ok_or(LabError::Missing { program: "sshd", package: "openssh-server" })?;
        let log = self.scratch.path("server-log");
        let server = Server::start(on_host(bench, lab, "b", rights).args(&words), &log)?;
        if await_listener(lab, port)? {
            return Ok(server);
        }
        let words = fs::read_to_string(&log).unwrap_or_default().trim().to_owned();
        Err(LabError::Program { program: format!("the far end of {}", contender.name()), words })
    }
}

fn keygen(bench: &Bench<'_>, words: &[&std::ffi::OsStr]) -> Result<(), LabError> {
    let ended = bounded::run(Command::new(bench.program).arg("keygen").args(words), PATIENCE, |_| {})?;
    if ended.well {
        return Ok(());
    }
    Err(LabError::Program { program: "icdc keygen".to_owned(), words: ended.words })
}

/// Whether somebody listens on this port of host b before patience ends.
fn await_listener(lab: &Lab, port: u16) -> Result<bool, LabError> {
    let until = clock::now() + PATIENCE;
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
