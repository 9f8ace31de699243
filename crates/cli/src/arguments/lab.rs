//! The command line of `icdc lab` as typed, and what it means.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::ensure;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use icdc_lab::scenario::{ALL, Scenario};
use icdc_lab::state::NAME_VARIABLE;
use icdc_lab::{Buffers, DEFAULT_NAME, Host, LEAST_BUFFER, Mode, Settings};
use icdc_path::loss::Model;
use icdc_units::{ByteCount, Rate, Span};

use super::sim::SimArguments;

/// A queue that is not given holds what the bottleneck passes in this time: 2.5 MB at 1 Gbit/s.
const USUAL_QUEUE: Span = Span::from_millis(20);
/// And at least as many frames of full size.
const LEAST_FRAMES: u64 = 64;

#[derive(Args, Debug)]
#[command(
    about = "Emulate a long fat network between two hosts on this machine",
    long_about = "Emulate a long fat network on this machine: two hosts, a and b, each a network namespace with the addresses \
        10.26.33.1 and fd26:33::1 (a), 10.26.33.2 and fd26:33::2 (b), and a path between them with a bottleneck, a queue, delay and loss. \
        Whatever program runs on a host meets that path. It needs no kernel module, and root or unprivileged user namespaces.\n\n\
        The path decides by the times at which the kernel saw the packets; how late it delivered them is recorded, and told by \
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
    /// Name the scenarios that `run` knows
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

    /// Let processors sleep while packets are on their way: saves power, but the next packet may wait until one is awake
    #[arg(long)]
    pub(crate) let_sleep: bool,
}

impl UpArguments {
    /// What to build.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        Ok(Settings { let_sleep: self.let_sleep, ..self.path.settings()? })
    }
}

/// What a lab's path is like.
#[derive(Args, Clone, Debug)]
pub(crate) struct PathArguments {
    /// Rate of the bottleneck, counted on the wire: 24 bytes a frame more than the frame itself
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "RATE[,RATE]",
        default_value = "1gbit",
        help_heading = "Path"
    )]
    rate: Pair<Rate>,

    /// Round-trip time; each direction delays by half of it
    #[arg(long, allow_hyphen_values = true, value_name = "TIME", default_value = "0ms", help_heading = "Path")]
    rtt: Span,

    /// Delay of each direction, in place of --rtt
    #[arg(long, allow_hyphen_values = true, value_name = "TIME[,TIME]", conflicts_with = "rtt", help_heading = "Path")]
    delay: Option<Pair<Span>>,

    /// Random additional delay of up to so much; packets stay in order
    #[arg(long, allow_hyphen_values = true, value_name = "TIME[,TIME]", default_value = "0ms", help_heading = "Path")]
    jitter: Pair<Span>,

    /// Queue before the bottleneck, in bytes on the wire; what does not fit is dropped [default: 20ms of the rate]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE[,SIZE]", help_heading = "Path")]
    queue: Option<Pair<ByteCount>>,

    /// Share of packets that is lost at random
    #[arg(long, allow_hyphen_values = true, value_name = "RATIO[,RATIO]", default_value = "0", help_heading = "Path")]
    loss: Pair<f64>,

    /// Lose packets in bursts of this mean length
    #[arg(long, value_name = "PACKETS", requires = "loss", help_heading = "Path")]
    burst: Option<f64>,

    /// Lose exactly these packets from a to b, numbered from 1 in order of arrival
    #[arg(long, value_name = "N,N…", value_delimiter = ',', conflicts_with_all = ["loss", "burst"], help_heading = "Path")]
    drop_list: Vec<u64>,

    /// The same from b to a
    #[arg(long, value_name = "N,N…", value_delimiter = ',', conflicts_with_all = ["loss", "burst"], help_heading = "Path")]
    drop_list_back: Vec<u64>,

    /// Rate of the lines between the hosts and the path, on which gap frames end [default: infinite]
    #[arg(long, value_name = "RATE[,RATE]", help_heading = "Path")]
    line_rate: Option<Pair<Rate>>,

    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Path")]
    seed: u64,

    /// Largest IP packet
    #[arg(long, value_name = "BYTES", default_value_t = 1500, help_heading = "Hosts")]
    mtu: u64,

    /// How packets cross: one by one, or many segments at once for high rates
    #[arg(long, default_value = "exact", help_heading = "Hosts")]
    mode: ModeArgument,

    /// Largest TCP buffers of the hosts [default: three times what fills the path]
    #[arg(long, value_name = "SIZE", help_heading = "Hosts")]
    buffer: Option<ByteCount>,

    /// Leave the hosts' TCP buffers as they are
    #[arg(long, conflicts_with = "buffer", help_heading = "Hosts")]
    untuned: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArgument {
    /// MTU-sized packets, one by one
    Exact,
    /// Superpackets carried whole, charged frame by frame
    Fast,
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
    about = "Tell what crossed a lab's path",
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
        exit code is the command's. A host may also be named by its address, and with --shell the words go to a shell as they would by \
        ssh: `icdc lab exec --shell` serves as --ssh of `icdc copy`.",
    after_long_help = "Examples:\n  icdc lab exec a -- ping -c 3 10.26.33.2\n  icdc lab exec --name jumbo b -- bash\n  \
        icdc lab exec a -- icdc copy --ssh 'icdc lab exec --shell' data.bin 10.26.33.2:/tmp/\n"
)]
pub(crate) struct ExecArguments {
    #[command(flatten)]
    pub(crate) name: Name,

    /// Hand the words to a shell
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
    about = "Measure a paper's table or figure anew",
    long_about = "Measure a paper's table or figure anew, in labs made for it, and print the paper's value beside ours. What was measured goes \
        to a directory: report.html with plots, report.json, and CSV files. A measurement that the machine spoilt, because it \
        delivered packets too late or lost some itself, is repeated, at most three times, and marked if it stays so.",
    after_long_help = "Exit codes:\n  \
        0  measured\n  \
        1  measured, but some measurements stayed invalid, or it failed\n  \
        2  the command line is not understood\n\n\
        Examples:\n  icdc lab list\n  icdc lab run icdc-pseudo\n  icdc lab run --quick --out /tmp/window window\n"
)]
pub(crate) struct RunArguments {
    /// The scenario; `icdc lab list` names them
    #[arg(value_name = "SCENARIO", value_parser = scenario)]
    pub(crate) scenario: &'static Scenario,

    /// Where to put what was measured [default: lab-SCENARIO]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,

    /// Fewer and shorter measurements
    #[arg(long)]
    pub(crate) quick: bool,

    /// How often each thing is measured, where a scenario repeats its measurements [default: the scenario's own number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) runs: Option<u64>,

    /// How long each live measurement waits at most for a machine whose processors are not taken by others
    #[arg(long, value_name = "TIME", default_value = "1min")]
    pub(crate) patience: Span,
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

    /// Only the last so much
    #[arg(long, value_name = "TIME", default_value = "10min")]
    pub(crate) last: Span,

    /// Begin the time axis here on the host's monotonic clock, as the report of a copy or a measurement tells it ("Time axis begins at")
    #[arg(long, value_name = "TIME")]
    pub(crate) origin: Option<Span>,

    /// Where to
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

fn scenario(text: &str) -> Result<&'static Scenario, String> {
    let names = || ALL.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    Scenario::find(text).ok_or_else(|| format!("there is no such scenario; there are: {}", names()))
}

fn host(text: &str) -> Result<Host, String> {
    match text {
        "a" | "10.26.33.1" | "fd26:33::1" => Ok(Host::A),
        "b" | "10.26.33.2" | "fd26:33::2" => Ok(Host::B),
        _ => Err("a lab has the hosts a (10.26.33.1, fd26:33::1) and b (10.26.33.2, fd26:33::2)".to_owned()),
    }
}

/// A value for each direction.
#[derive(Clone, Copy, Debug)]
struct Pair<T> {
    forward: T,
    backward: T,
}

impl<T: FromStr + Clone> FromStr for Pair<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        let (forward, backward) = text.split_once(',').unwrap_or((text, text));
        Ok(Self { forward: forward.trim().parse()?, backward: backward.trim().parse()? })
    }
}

impl PathArguments {
    /// The lab that is meant, if this machine can hold what is on its way.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let settings = self.lab()?;
        let memory = icdc_lab::wire::memory(&settings);
        ensure!(
            memory <= MAX_MEMORY,
            "a path with {} on its way needs {memory} of memory for its packets; {MAX_MEMORY} are the limit: lower --rate, --rtt or --queue",
            settings.forward.in_flight() + settings.backward.in_flight()
        );
        Ok(settings)
    }

    /// The lab that is meant, were it emulated or simulated.
    pub(super) fn lab(&self) -> anyhow::Result<Settings> {
        let mtu = ByteCount::new(self.mtu);
        let delay = self.delay.unwrap_or(Pair { forward: self.rtt - self.rtt / 2, backward: self.rtt / 2 });
        let direction = |rate: Rate, delay, jitter, queue: Option<ByteCount>, loss, line_rate, seed| {
            let mut settings =
                icdc_path::Settings { rate, delay, jitter, loss, line_rate, mtu, seed, ..Default::default() };
            let usual = (rate * USUAL_QUEUE).max(settings.largest_frame() * LEAST_FRAMES);
            settings.queue = queue.unwrap_or(usual);
            settings.check().map(|()| settings)
        };
        let forward = direction(
            self.rate.forward,
            delay.forward,
            self.jitter.forward,
            self.queue.map(|queue| queue.forward),
            self.loss(self.loss.forward, &self.drop_list),
            self.line_rate.map(|rate| rate.forward),
            self.seed,
        )?;
        let backward = direction(
            self.rate.backward,
            delay.backward,
            self.jitter.backward,
            self.queue.map(|queue| queue.backward),
            self.loss(self.loss.backward, &self.drop_list_back),
            self.line_rate.map(|rate| rate.backward),
            // The two directions have nothing to do with each other.
            self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15),
        )?;
        let mode = match self.mode {
            ModeArgument::Exact => Mode::Exact,
            ModeArgument::Fast => Mode::Fast,
        };
        ensure!(
            self.buffer.is_none_or(|size| size >= LEAST_BUFFER),
            "--buffer {}: the kernel takes {LEAST_BUFFER} at least",
            self.buffer.unwrap_or_default()
        );
        let buffers = match self.buffer {
            _ if self.untuned => Buffers::Untouched,
            Some(size) => Buffers::AtMost(size),
            None => Buffers::Fitting,
        };
        Ok(Settings { forward, backward, mode, buffers, ..Settings::default() })
    }

    fn loss(&self, ratio: f64, listed: &[u64]) -> Model {
        match self.burst {
            _ if !listed.is_empty() => Model::Listed(listed.to_vec()),
            Some(mean_length) => Model::Burst { ratio, mean_length },
            None if ratio == 0.0 => Model::None,
            None => Model::Random(ratio),
        }
    }
}

/// Memory for packets that is not asked for by mistake.
pub(super) const MAX_MEMORY: ByteCount = ByteCount::from_mib(16 << 10);
