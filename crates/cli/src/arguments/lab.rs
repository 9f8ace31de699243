//! The command line of `icdc lab` as typed, and what it means.

use std::ffi::OsString;
use std::path::PathBuf;

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
    long_about = "Emulate a long fat network on this machine: two hosts, a and b, each a network namespace with the addresses \
        10.26.33.1 and fd26:33::1 (a), 10.26.33.2 and fd26:33::2 (b), and a path between them with a bottleneck, a queue, delay and loss. \
        Whatever program runs on a host meets that path. It needs no kernel module, and root or unprivileged user namespaces.\n\n\
        The path decides by the times at which the kernel saw the packets; how late it delivered them is recorded, and shown by \
        `icdc lab status`.",
    after_long_help = "Exit codes:\n  \
        0  done; of exec, whatever the command gives\n  \
        1  it could not be done; standard error says why\n  \
        2  the command line is not understood, or no path can be like that\n\n\
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
    /// What `up` starts: the path itself
    #[command(hide = true)]
    Wire,
}

#[derive(Args, Debug)]
#[command(
    about = "Make a lab",
    long_about = "Make a lab. Where a value may differ by direction, two separated by a comma are for a to b and for b to a.",
    after_long_help = "Exit codes:\n  \
        0  it stands\n  \
        1  it could not be made; nothing of it is left\n  \
        2  the command line is not understood, or no path can be like that\n\n\
        Examples:\n  \
        icdc lab up --rate 1gbit --rtt 300ms\n  \
        icdc lab up --rate 100mbit,10mbit --delay 20ms,30ms --queue 250kB,50kB --loss 1e-4,0\n  \
        icdc lab up --name jumbo --rate 5gbit --rtt 100ms --mtu 9000\n  \
        icdc lab up --name fast --rate 10gbit --rtt 400ms --mode fast\n"
)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    pub(crate) name: Name,

    #[command(flatten)]
    pub(crate) path: PathArguments,

    /// Let processors sleep while packets are on their way: saves power, but the next packet may
    /// wait until one is awake
    #[arg(long)]
    pub(crate) let_sleep: bool,
}

impl UpArguments {
    /// What to build.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        Ok(Settings { let_sleep: self.let_sleep, ..self.path.settings()? })
    }
}

#[derive(Args, Debug)]
pub(crate) struct Name {
    /// Name of the lab
    #[arg(long, value_name = "NAME", env = NAME_VARIABLE, hide_env_values = true, default_value = DEFAULT_NAME)]
    pub(crate) name: String,
}

#[derive(Args, Debug)]
#[command(
    about = "Take a lab down",
    long_about = "Take a lab down: end everything that runs on its hosts, and remove its namespaces and devices. It works as well \
        where parts of the lab have died.",
    after_long_help = "Examples:\n  icdc lab down\n  icdc lab down --name jumbo\n  icdc lab down --all\n"
)]
pub(crate) struct DownArguments {
    #[command(flatten)]
    pub(crate) name: Name,

    /// All labs of this user
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Show what crossed a lab's path",
    after_long_help = "Examples:\n  icdc lab status\n  icdc lab status --name jumbo --json\n"
)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) name: Name,

    /// As one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    about = "Run a command on a host of a lab",
    long_about = "Run a command on host a or b of a lab: with its devices, addresses and TCP settings, and the files of this machine. The \
        exit code is the command's. A host may also be named by its address, and with --shell the arguments go to a shell as they would by \
        ssh: `icdc lab exec --shell` serves as --ssh of `icdc copy`.",
    after_long_help = "Examples:\n  icdc lab exec a -- ping -c 3 10.26.33.2\n  icdc lab exec --name jumbo b -- bash\n  \
        icdc lab exec a -- icdc copy --ssh 'icdc lab exec --shell' data.bin 10.26.33.2:/tmp/\n"
)]
pub(crate) struct ExecArguments {
    #[command(flatten)]
    pub(crate) name: Name,

    /// Hand the arguments to a shell
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
    about = "Write a report of what crossed a lab's path",
    long_about = "Write a report of what crossed a lab's path in the last minutes, ten at most: throughput in windows of 1 ms and 1000 ms, \
        queue, drops, for both directions, and whether the emulator was on time. FILE ends in .html, .json or .csv; the last has the directions in one table.",
    after_long_help = "Examples:\n  icdc lab report path.html\n  icdc lab report --name jumbo --last 30s path.csv\n  \
        icdc lab report --origin 5012.25s path.html\n"
)]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    pub(crate) name: Name,

    /// Only the last TIME
    #[arg(long, value_name = "TIME", default_value = "10min")]
    pub(crate) last: Span,

    /// Begin the time axis here on the host's monotonic clock, as the report of a copy or a
    /// measurement tells it ("Time axis begins at")
    #[arg(long, value_name = "TIME")]
    pub(crate) origin: Option<Span>,

    /// The file to write
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

fn host(text: &str) -> Result<Host, String> {
    match text {
        "a" | "10.26.33.1" | "fd26:33::1" => Ok(Host::A),
        "b" | "10.26.33.2" | "fd26:33::2" => Ok(Host::B),
        _ => Err("a lab has the hosts a (10.26.33.1, fd26:33::1) and b (10.26.33.2, fd26:33::2)".to_owned()),
    }
}
