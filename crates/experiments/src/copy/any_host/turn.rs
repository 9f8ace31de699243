//! One copy of a row, from command to exit, in a lab of its own.
//!
//! Counters of the sending host's kernel give the number of connections, ssh's included, and the
//! retransmissions, also for a copy that fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use icdc_lab::recording::Recording;
use icdc_lab::{Heading, Host, Lab, spoilt_but_for_bursts};
use icdc_packet::clock;
use icdc_units::{ByteCount, Span, Time};
use serde::Deserialize;

use crate::copy::any_host::accounts::{Account, Accounts, End, SshKeys};
use crate::copy::any_host::case::Case;
use crate::copy::any_host::far_side::FarSide;
use crate::copy::copying::{CopySummary, SteadyCopy};
use crate::copy::peers::Load;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::commands::on_host;
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::measurement::rights::Rights;
use crate::harness::processes::bounded::{self, Ended};
use crate::harness::processes::scratch::{Scratch, contents};
use crate::harness::repetition::attempts::{self, Figures};
use crate::harness::repetition::resolution::Resolution;

/// Destination directory in the scratch, for a copy that runs alone.
const DESTINATION: &str = "arrived";
/// Time limit of the copying program.
const LIMIT: Span = Span::from_secs(300);

/// Resources that all copies of the scenario share: files, the homes of both accounts, and keys for
/// ssh.
pub(super) struct Fixture<'a> {
    pub(super) scratch: &'a Scratch,
    pub(super) user: Accounts<'a>,
    pub(super) root: Accounts<'a>,
    pub(super) keys: SshKeys,
}

/// Result of one copy, with the kernel's counters.
pub(super) struct CopyResult {
    /// Time at which the command was started.
    pub(super) begun: Time,
    /// Time from the command to its exit.
    pub(super) took: Span,
    pub(super) exit: Option<i32>,
    /// Reason why the copy is incomplete; `None` if it is complete.
    pub(super) failure: Option<String>,
    /// The wire's recording from a to b.
    pub(super) recording: Recording,
    pub(super) steady: SteadyCopy,
    /// Segments that host a retransmitted, as a share of those that it sent.
    pub(super) retransmitted: f64,
    /// Number of data connections that icdc reported.
    pub(super) data_connections: usize,
    pub(super) peers: BTreeSet<String>,
    /// Number of all connections that host a opened.
    pub(super) opened: u64,
    /// Name of the sender's congestion control.
    pub(super) congestion: String,
    /// Bytes that had arrived at each time, by the program's own progress reports.
    pub(super) progress: Vec<(Time, u64)>,
    /// Reason why the result is invalid, if it is.
    pub(super) spoilt: Option<String>,
}

impl Figures for CopyResult {
    fn figures(&self) -> String {
        let how = self.failure.clone().map_or_else(String::new, |why| format!(", failed: {why}"));
        let drops = self.steady.early_drops + self.steady.drops;
        format!("{}, the queue dropped {drops}, {:.3} % retransmitted{how}", self.took, self.retransmitted * 100.0)
    }
}

/// A line of `icdc copy --json`, by its type.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Connected {
        peer: String,
        stream: u8,
    },
    Failed {
        reason: String,
    },
    Progress {
        bytes_done: u64,
    },
    Summary(CopySummary),
    #[serde(other)]
    Other,
}

/// The reports in icdc's output, parsed.
#[derive(Default)]
struct CopyReports {
    streams: BTreeSet<u8>,
    peers: BTreeSet<String>,
    failed: Option<String>,
    progress: Vec<(Time, u64)>,
    summary: Option<CopySummary>,
}

impl CopyReports {
    /// Takes a line of the program's output.
    fn hear(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Line::Connected { peer, stream }) => {
                self.streams.insert(stream);
                // The port is another one each time.
                self.peers.insert(peer.rsplit_once(':').map_or(peer.as_str(), |(host, _)| host).to_owned());
            }
            Ok(Line::Failed { reason }) => self.failed = Some(reason),
            Ok(Line::Progress { bytes_done }) => self.progress.push((clock::now(), bytes_done)),
            Ok(Line::Summary(summary)) => self.summary = Some(summary),
            Ok(Line::Other) | Err(_) => {}
        }
    }
}

impl<'a> Fixture<'a> {
    /// Makes accounts and keys in the directory `scratch`.
    pub(super) fn new(scratch: &'a Scratch) -> Result<Self, ExperimentError> {
        Ok(Self {
            scratch,
            user: Accounts::new(scratch, Account::User)?,
            root: Accounts::new(scratch, Account::Root)?,
            keys: SshKeys::make(scratch)?,
        })
    }

    /// The homes and programs of this account.
    pub(super) fn accounts(&self, account: Account) -> &Accounts<'a> {
        match account {
            Account::User => &self.user,
            Account::Root => &self.root,
        }
    }

    /// Copies `source`; returns the first attempt that the machine did not disturb, or the last
    /// one, marked as invalid.
    pub(super) fn run(
        &self,
        bench: &Bench<'_>,
        case: &Case,
        source: &Path,
        seed: u64,
    ) -> Result<CopyResult, ExperimentError> {
        self.forget_paths(case)?;
        if case.is_known {
            (bench.say)("  getting to know the path");
            self.attempt(bench, case, source, seed)?;
            if !self.accounts(case.account).knows_a_path() {
                (bench.say)("  nothing was learned of the path");
            }
        }
        let tolerance = Resolution::Means.tolerance(case.settings(seed).round_trip());
        attempts::unspoilt_after(
            bench,
            tolerance,
            || self.scratch.settle(source),
            || {
                if !case.is_known {
                    self.forget_paths(case)?;
                }
                self.attempt(bench, case, source, seed)
            },
            // It is not run again.
            |finish| finish.spoilt.as_deref().filter(|_| finish.failure.is_none()),
        )
    }

    /// Copies once, in a lab of its own; `seed` is that of the path's random loss.
    fn attempt(&self, bench: &Bench<'_>, case: &Case, source: &Path, seed: u64) -> Result<CopyResult, ExperimentError> {
        let lab = TemporaryLab::new(bench, &case.settings(seed))?;
        self.copy(bench, &lab, case, source)
    }

    /// Deletes the known paths of the copying account, so that the next copy begins on an unknown
    /// path.
    pub(super) fn forget_paths(&self, case: &Case) -> Result<(), ExperimentError> {
        self.accounts(case.account).empty_home(End::Near)
    }

    /// Copies once, in an existing lab, after emptying the far account's home.
    pub(super) fn copy(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        case: &Case,
        source: &Path,
    ) -> Result<CopyResult, ExperimentError> {
        self.accounts(case.far_account).empty_home(End::Far)?;
        self.copy_between(bench, lab, case, Paths { source, destination: DESTINATION })
    }

    /// Copies like [`copy`](Self::copy), between these paths; may run beside another copy.
    pub(super) fn copy_between(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        case: &Case,
        Paths { source, destination }: Paths<'_>,
    ) -> Result<CopyResult, ExperimentError> {
        let (near, far) = (self.accounts(case.account), self.accounts(case.far_account));
        let (name, destination) = (destination, far.empty(destination)?);
        let far = FarSide::start(bench, lab, case.access, (near, far), (&self.keys, self.scratch))?;
        let mut command = on_host(bench, lab, "a", Rights::All);
        command.arg(near.runner(End::Near)).arg(bench.program).args(["copy", "--json", "--remote-icdc"]);
        command.arg(bench.program);
        if let Some(shell) = &far.shell {
            command.arg("--ssh").arg(shell);
        }
        if let Some(streams) = case.streams {
            command.args(["--streams", &streams.to_string()]);
        }
        if let Some(via) = case.via {
            command.args(["--via", via]);
        }
        if let Some(ring) = case.ring {
            command.args(["--ring", &ring.as_u64().to_string()]);
        }
        if case.pulls {
            command.arg(format!("{}:{}", far.host, source.display())).arg(destination.join(""));
        } else {
            command.arg(source).arg(format!("{}:{}/", far.host, destination.display()));
        }
        let pauses = case.pauses.map(|pauses| pauses.start()).transpose()?;
        let (begun, mut told) = (clock::now(), CopyReports::default());
        let ended = bounded::run(&mut command, LIMIT, |line| told.hear(line))?;
        drop(pauses);
        let failure = failure(&ended, &told, contents(&destination), contents(source));
        let counts = lab.on(Host::A, TcpCounts::read)?;
        let page = lab.page()?;
        let settings = &lab.record.settings;
        let heading = if case.pulls { Heading::Backward } else { Heading::Forward };
        let recording = Recording::of(&page, heading, Span::MAX);
        let tolerance = Resolution::Means.tolerance(settings.round_trip());
        drop(far);
        // Clears the destination for the next copy.
        if case.load == Load::File || self.scratch.set_aside(&destination).is_err() {
            self.scratch.remove(name);
        }
        Ok(CopyResult {
            begun,
            took: ended.took,
            exit: ended.code,
            failure,
            steady: SteadyCopy::of(&recording, settings),
            recording,
            retransmitted: counts.retransmitted as f64 / counts.sent.max(1) as f64,
            data_connections: told.streams.len(),
            peers: told.peers,
            opened: counts.opened,
            progress: told.progress,
            congestion: told.summary.map(|summary| summary.congestion).unwrap_or_default(),
            spoilt: spoilt_but_for_bursts(&page, settings, tolerance),
        })
    }
}

/// Source and destination of a copy.
#[derive(Clone, Copy)]
pub(super) struct Paths<'a> {
    pub(super) source: &'a Path,
    /// Name of the directory in the scratch that is copied into.
    pub(super) destination: &'a str,
}

/// Reason why a copy is incomplete, by the program's end and what arrived; `None` if all did.
/// `moved` and `whole`: files and bytes at the destination and of the source.
fn failure(ended: &Ended, told: &CopyReports, moved: (u64, ByteCount), whole: (u64, ByteCount)) -> Option<String> {
    if ended.overran {
        return Some(format!("was stopped after {LIMIT}, having moved {} in {}", moved.1, moved.0));
    }
    if !ended.well {
        let last = || ended.errors.lines().last().unwrap_or("no output").to_owned();
        return Some(told.failed.clone().unwrap_or_else(last));
    }
    (moved != whole).then(|| format!("moved {} in {} of {} in {}", moved.1, moved.0, whole.1, whole.0))
}

/// TCP counters of a host's kernel, since the host was made.
#[derive(Debug, Default, PartialEq)]
struct TcpCounts {
    /// Number of connections that were opened.
    opened: u64,
    /// Number of segments sent, without retransmissions.
    sent: u64,
    retransmitted: u64,
}

impl TcpCounts {
    /// Counters of the calling thread's host.
    fn read() -> Result<Self, ExperimentError> {
        Ok(Self::of(&network_file("snmp")?))
    }

    /// Counters from the text of proc(5)'s net/snmp.
    fn of(text: &str) -> Self {
        let count = counters(text, "Tcp:");
        Self { opened: count("ActiveOpens"), sent: count("OutSegs"), retransmitted: count("RetransSegs") }
    }
}

/// A file of proc(5)'s net, of the calling thread's host.
pub(super) fn network_file(name: &str) -> Result<String, ExperimentError> {
    let path = format!("/proc/thread-self/net/{name}");
    fs::read_to_string(&path).map_err(|error| ExperimentError::io(format!("read {path}"), error))
}

/// A protocol's counters by their names, from proc(5)'s net/snmp: pairs of lines, names and values;
/// 0 if there is none of a name.
pub(super) fn counters<'a>(text: &'a str, protocol: &str) -> impl Fn(&str) -> u64 + use<'a> {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol)).map(str::split_whitespace);
    let (names, values) = (lines.next(), lines.next());
    let pairs: Vec<(&str, &str)> = names.into_iter().flatten().zip(values.into_iter().flatten()).collect();
    move |name| {
        let found = pairs.iter().find(|pair| pair.0 == name);
        found.and_then(|pair| pair.1.parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_tcp_are_found_by_their_names() {
        let text = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
            Tcp: RtoAlgorithm ActiveOpens OutSegs RetransSegs\nTcp: 1 3 1000 7\nUdp: InDatagrams\nUdp: 5\n";
        assert_eq!(TcpCounts::of(text), TcpCounts { opened: 3, sent: 1000, retransmitted: 7 });
        assert_eq!(TcpCounts::of(""), TcpCounts::default());
    }

    #[test]
    fn connections_and_failures_are_heard() {
        let mut told = CopyReports::default();
        for stream in [0, 1, 1] {
            told.hear(&format!(
                "{{\"type\":\"connected\",\"peer\":\"10.26.33.2:{}\",\"stream\":{stream}}}",
                40_000 + stream
            ));
        }
        told.hear("{\"type\":\"failed\",\"reason\":\"no route\",\"exit_code\":3}");
        told.hear("{\"type\":\"progress\",\"bytes_done\":7,\"seconds\":1.5}");
        told.hear("not JSON");
        assert_eq!((told.streams.len(), told.failed.as_deref()), (2, Some("no route")));
        assert_eq!(told.progress.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [7]);
        assert_eq!(told.peers, BTreeSet::from(["10.26.33.2".to_owned()]));
    }
}
