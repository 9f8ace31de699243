//! One copy between two hosts of this machine that a veth pair joins, without a rate limit or
//! delay: the machine itself is the limit. Measured from the command to data on the medium
//! (`syncfs` of the destination is part of every program's time), with processor time and memory.
//!
//! ```text
//!  a 10.26.33.1 ═══ veth ═══ b 10.26.33.2
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use icdc_lab::program;
use icdc_packet::clock;
use icdc_units::{ByteCount, Span};
use rustix::fs::syncfs;

use crate::copy::peers::{CommandPaths, Load, Peer, SshdDirectory};
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::{FAR, NEAR};
use crate::harness::hosts::plain_host::PlainHost;
use crate::harness::processes::bounded;
use crate::harness::processes::processor_time;
use crate::harness::processes::resident;
use crate::harness::processes::scratch::{Scratch, contents};
use crate::harness::processes::server::Server;

/// Name of the directory in the scratch into which programs copy.
const DESTINATION: &str = "b";
/// Time limit of a copy.
const LIMIT: Span = Span::from_secs(1800);
/// Shell command that has one processor handle arriving packets, as with a network card of one
/// queue: otherwise packets of a sender that moves to another processor would be reordered.
const STEER: &str = "mount -t sysfs sysfs /sys && echo 1 >/sys/class/net/eth0/queues/rx-0/rps_cpus";

/// A program that copies, in comparisons between two hosts of this machine.
#[derive(Clone, Copy)]
pub(crate) enum Copier {
    /// icdc, started at host b by a plain remote shell.
    Icdc,
    /// rsync by the same remote shell, in clear.
    Rsync,
    /// Another program, by ssh.
    Peer(&'static Peer),
}

impl Copier {
    /// icdc, and the other programs that are installed.
    pub(crate) fn installed() -> Vec<Self> {
        let peers = ["rsync by ssh", "scp"].into_iter().filter_map(Peer::named);
        let rsync = crate::harness::processes::programs::installed("rsync").map(|_| Self::Rsync);
        [Self::Icdc].into_iter().chain(rsync).chain(peers.map(Self::Peer)).collect()
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Icdc => "icdc".to_owned(),
            Self::Rsync => "rsync in clear".to_owned(),
            Self::Peer(peer) => peer.name.to_owned(),
        }
    }
}

/// Result of a copy between two hosts without a path in between.
pub(crate) struct DirectCopy {
    /// Time from the command to data on the medium.
    pub(crate) took: Span,
    /// Processor time used on both hosts.
    pub(crate) processor: Span,
    /// Largest resident set of a process on host a and on host b.
    pub(crate) resident: [ByteCount; 2],
    /// Reason why the copy is incomplete; `None` if it is complete.
    pub(crate) failure: Option<String>,
}

/// Two hosts of this machine that a veth pair joins, with the files and servers for copies between
/// them.
pub(crate) struct Direct<'a> {
    pub(crate) near: PlainHost,
    far: PlainHost,
    scratch: &'a Scratch,
    /// Destination directory on host b.
    destination: PathBuf,
    paths: CommandPaths,
    /// A program that is called as ssh, and runs its arguments on host b.
    shell: PathBuf,
    sshd: Option<Server>,
    _sshd_directory: SshdDirectory,
}

impl<'a> Direct<'a> {
    /// Makes the hosts; `scratch` holds what is copied, and where to.
    pub(crate) fn new(scratch: &'a Scratch) -> Result<Self, ExperimentError> {
        let (near, far) = (PlainHost::new(Vec::new())?, PlainHost::new(Vec::new())?);
        let cable = format!("link add name eth0 type veth peer name eth0 netns {}\n", far.path().display());
        near.inside(|| Ok(program::ip(&["-batch", "-"], &cable)?))?;
        for (host, own) in [(&near, NEAR), (&far, FAR)] {
            let commands = format!("address add {own}/24 dev eth0\nlink set eth0 up\nlink set lo up\n");
            host.inside(|| {
                program::ip(&["-batch", "-"], &commands)?;
                Ok(program::run("unshare", "util-linux", &["--mount", "sh", "-c", STEER], "")?)
            })?;
        }
        let destination = scratch.path(DESTINATION);
        let paths = CommandPaths::new(scratch, &destination)?;
        let far_path = far.path();
        let body = format!(
            "while :; do case $1 in -l) shift 2 ;; -*) shift ;; *) break ;; esac; done\nshift\n\
             exec nsenter --net='{}' sh -c \"$*\"",
            far_path.display()
        );
        let shell = scratch.script("remote-shell", &body)?;
        let directory = SshdDirectory::new();
        let sshd = match paths.sshd() {
            Some((arguments, _)) => Some(far.inside(|| {
                let (program, arguments) = arguments.split_first().expect("sshd has a name");
                let mut server = Server::start(Command::new(program).args(arguments), &scratch.path("sshd-log"))?;
                server.await_output("listening")?;
                Ok(server)
            })?),
            None => None,
        };
        Ok(Self { near, far, scratch, destination, paths, shell, sshd, _sshd_directory: directory })
    }

    /// Copies `source` from host a to the emptied directory on host b, from a cold cache.
    pub(crate) fn copy(&self, bench: &Bench<'_>, copier: Copier, source: &Path) -> Result<DirectCopy, ExperimentError> {
        self.scratch.empty(DESTINATION)?;
        self.scratch.settle(source)?;
        drop_caches()?;
        let load = if source.is_dir() { Load::Tree } else { Load::File };
        let mut command = self.command(bench, copier, load, source)?;
        let sshd_before = self.sshd_time();
        let start = clock::now();
        let run = || self.near.inside(|| bounded::run(&mut command, LIMIT, |_| {}));
        let (ended, resident) = resident::largest([&self.near, &self.far], run)?;
        let durable = File::open(&self.destination).and_then(|directory| Ok(syncfs(directory)?));
        durable.map_err(|error| ExperimentError::io(format!("sync {}", self.destination.display()), error))?;
        let took = clock::now() - start;
        let (moved, whole) = (contents(&self.destination), contents(source));
        let failure = if ended.overran {
            Some(format!("was stopped after {LIMIT}"))
        } else if !ended.well {
            Some(ended.errors.lines().last().unwrap_or("no output").to_owned())
        } else if moved != whole {
            Some(format!("moved {} in {} of {} in {}", moved.1, moved.0, whole.1, whole.0))
        } else {
            None
        };
        let processor = ended.processor + (self.sshd_time() - sshd_before);
        self.scratch.remove(DESTINATION);
        Ok(DirectCopy { took, processor, resident, failure })
    }

    /// Command by which `copier` copies `source` from host a to the destination on host b.
    fn command(
        &self,
        bench: &Bench<'_>,
        copier: Copier,
        load: Load,
        source: &Path,
    ) -> Result<Command, ExperimentError> {
        Ok(match copier {
            Copier::Icdc => {
                let mut command = Command::new(bench.program);
                command.arg("copy").arg("--ssh").arg(&self.shell).arg("--remote-icdc").arg(bench.program);
                command.arg(source).arg(self.paths.far()).env("XDG_STATE_HOME", self.scratch.empty("state")?);
                command
            }
            Copier::Rsync => {
                let mut command = Command::new("rsync");
                command.args(["-a", "-e"]).arg(&self.shell).arg(source).arg(self.paths.far());
                command
            }
            Copier::Peer(peer) => {
                let arguments = peer.copy(&self.paths, load, source);
                let mut command = Command::new(&arguments[0]);
                command.args(&arguments[1..]);
                command
            }
        })
    }

    /// Processor time of the ssh server and of its connections that have ended.
    fn sshd_time(&self) -> Span {
        self.sshd.as_ref().map_or(Span::ZERO, |server| processor_time::with_descendants(server.id()))
    }
}

/// Drops the page cache, directories and attributes.
fn drop_caches() -> Result<(), ExperimentError> {
    let file = "/proc/sys/vm/drop_caches";
    fs::write(file, "3").map_err(|error| ExperimentError::io(format!("write {file}"), error))
}
