//! The command line of `icdc lab` as typed, and what it means.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, Subcommand, ValueHint};
use icdc_lab::registry::NAME_VARIABLE;
use icdc_lab::{DEFAULT_NAME, Host, Settings};
use icdc_units::Span;

use super::path::PathArguments;
use super::run::RunArguments;
use super::sim::SimArguments;

#[derive(Args, Debug)]
#[command(
    about = "Emulate a long fat network between two hosts on this machine",
    long_about = "Emulate a long fat network on this machine. There are two hosts, a (10.26.33.1 and fd26:33::1) and b (10.26.33.2 and \
        fd26:33::2), each in a network namespace, and a path between them with a bottleneck, a queue, delay and loss. \
        Any program that runs on a host sends through that path. The lab needs no kernel module. It needs root or unprivileged user \
        namespaces.\n\n\
        Drops and delays depend only on the times at which the kernel received the packets. The lab records how late it delivered them; \
        `icdc lab status` shows it.",
    after_long_help = "Exit codes:\n  \
        0  done; with exec, the exit code is the command's\n  \
        1  the command failed; standard error says why\n  \
        2  the command line is invalid, or such a path is impossible\n\n\
        Examples:\n  \
        icdc lab up --rate 1gbit --rtt 300ms --queue 2.5MB --loss 1e-6\n  \
        icdc lab exec b -- iperf3 -s -D -1; icdc lab exec a -- iperf3 -c 10.26.33.2\n  \
        icdc lab status\n  \
        icdc lab down\n"
)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Up(Box<UpArguments>),
    Down(DownArguments),
    Status(StatusArguments),
    Exec(ExecArguments),
    Run(RunArguments),
    /// List the scenarios that `run` knows
    #[command(after_long_help = "Examples:\n  icdc lab list\n")]
    List,
    Report(ReportArguments),
    Sim(Box<SimArguments>),
    /// The process that `up` starts and that carries the path
    #[command(hide = true)]
    Wire,
}

#[derive(Args, Debug)]
#[command(
    about = "Create a lab",
    long_about = "Create a lab. Options such as --rate <RATE[,RATE]> take one value for both directions, or two separated by a comma: the \
        first for a to b, the second for b to a.",
    after_long_help = "Exit codes:\n  \
        0  the lab exists\n  \
        1  creating it failed; nothing of it is left\n  \
        2  the command line is invalid, or such a path is impossible\n\n\
        Examples:\n  \
        icdc lab up --rate 1gbit --rtt 300ms\n  \
        icdc lab up --rate 100mbit,10mbit --delay 20ms,30ms --queue 250kB,50kB --loss 1e-4,0\n  \
        icdc lab up --name jumbo --rate 5gbit --rtt 100ms --mtu 9000\n  \
        icdc lab up --name fast --rate 10gbit --rtt 400ms --mode fast\n  \
        icdc lab up --rate 100mbit --rtt 40ms --queue 2MB --aqm codel --ecn\n"
)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    pub(crate) name: LabName,

    #[command(flatten)]
    pub(crate) path: PathArguments,

    /// Let CoDel (--aqm) mark packets in place of dropping them, and let the hosts' TCP ask for that
    /// (ECN, RFC 3168)
    #[arg(long, help_heading = "Path")]
    pub(crate) ecn: bool,

    /// Let processors sleep while packets are in flight. This saves power, but a packet may wait
    /// until a processor is awake
    #[arg(long)]
    pub(crate) let_sleep: bool,

    /// Let the hosts' programs run on the emulator's processors too, behind it. Without it, both
    /// hosts of a machine with two processors share one; with it, a packet may be late
    #[arg(long)]
    pub(crate) share_processors: bool,
}

impl UpArguments {
    /// Settings of the lab that these options ask for; an error if such a path is impossible.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let Self { let_sleep, share_processors, ecn, .. } = *self;
        let mut settings = Settings { let_sleep, share_processors, ecn, ..self.path.settings()? };
        let queues = [&mut settings.forward.codel, &mut settings.backward.codel];
        ensure!(
            !ecn || queues.iter().any(|codel| codel.is_some()),
            "--ecn marks what CoDel would drop: add --aqm codel"
        );
        queues.into_iter().flatten().for_each(|codel| codel.marks = ecn);
        Ok(settings)
    }
}

/// Option that names a lab (`--name`).
#[derive(Args, Debug)]
pub(crate) struct LabName {
    /// Name of the lab
    #[arg(long, value_name = "NAME", env = NAME_VARIABLE, hide_env_values = true, default_value = DEFAULT_NAME)]
    pub(crate) name: String,
}

#[derive(Args, Debug)]
#[command(
    about = "Remove a lab",
    long_about = "Remove a lab: end everything that runs on its hosts, and remove its namespaces and devices. This works even \
        if parts of the lab have died.",
    after_long_help = "Examples:\n  icdc lab down\n  icdc lab down --name jumbo\n  icdc lab down --all\n"
)]
pub(crate) struct DownArguments {
    #[command(flatten)]
    pub(crate) name: LabName,

    /// Remove all labs of this user
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Show traffic, drops and lateness of a lab's path",
    after_long_help = "Examples:\n  icdc lab status\n  icdc lab status --name jumbo --json\n"
)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) name: LabName,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Run a command on a host of a lab",
    long_about = "Run a command on host a or b of a lab, with the devices, addresses and TCP settings of that host, and the files of this \
        machine. The exit code is the command's. A host can also be named by its address. With --shell the arguments go to a shell, \
        as with ssh: `icdc copy --ssh 'icdc lab exec --shell'` uses the lab in place of ssh.",
    after_long_help = "Examples:\n  icdc lab exec a -- ping -c 3 10.26.33.2\n  icdc lab exec --name jumbo b -- bash\n  \
        icdc lab exec a -- icdc copy --ssh 'icdc lab exec --shell' data.bin 10.26.33.2:/tmp/\n"
)]
pub(crate) struct ExecArguments {
    #[command(flatten)]
    pub(crate) name: LabName,

    /// Pass the arguments to a shell
    #[arg(long)]
    pub(crate) shell: bool,

    /// Which host: a or b, or one of its addresses
    #[arg(value_name = "HOST", value_parser = host)]
    pub(crate) host: Host,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
#[command(
    about = "Write a report of the traffic on a lab's path",
    long_about = "Write a report of the traffic on a lab's path in the last minutes (at most ten): throughput in windows of 1 ms and 1000 ms, \
        queue and drops for both directions, and whether the emulator was on time. FILE ends in .html, .json or .csv; a .csv file has \
        both directions in one table.",
    after_long_help = "Examples:\n  icdc lab report path.html\n  icdc lab report --name jumbo --last 30s path.csv\n  \
        icdc lab report --origin 5012.25s path.html\n"
)]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    pub(crate) name: LabName,

    /// Report only the last TIME
    #[arg(long, value_name = "TIME", default_value = "10min")]
    pub(crate) last: Span,

    /// Begin the time axis at this time of the host's monotonic clock. The JSON report of a copy or a measurement gives it
    /// (origin_monotonic_seconds)
    #[arg(long, value_name = "TIME")]
    pub(crate) origin: Option<Span>,

    /// The file to write
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

/// Parses a host of a lab: its letter, or one of its addresses.
fn host(text: &str) -> Result<Host, String> {
    match text {
        "a" | "10.26.33.1" | "fd26:33::1" => Ok(Host::A),
        "b" | "10.26.33.2" | "fd26:33::2" => Ok(Host::B),
        _ => Err("a lab has the hosts a (10.26.33.1, fd26:33::1) and b (10.26.33.2, fd26:33::2)".to_owned()),
    }
}
