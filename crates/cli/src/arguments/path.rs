//! A path as typed, for `icdc lab up` and `icdc lab sim`, and what it means.

use std::str::FromStr;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use icdc_lab::{Acknowledge, Buffers, LEAST_BUFFER, Mode, Settings};
use icdc_path::codel;
use icdc_path::loss::Model;
use icdc_units::{ByteCount, Rate, Span};

/// Length of a queue that is not given, as time that its bytes take at the bottleneck's rate: 2.5
/// MB at 1 Gbit/s.
const USUAL_QUEUE: Span = Span::from_millis(20);
/// Least length of a queue that is not given, in frames of full size.
const LEAST_FRAMES: u64 = 64;

/// Most memory that a lab or simulation may take for packets on their way; what needs more is taken
/// for a mistake.
pub(super) const MAX_MEMORY: ByteCount = ByteCount::from_mib(16 << 10);

/// Properties of a lab's path.
#[derive(Args, Clone, Debug)]
pub(crate) struct PathArguments {
    /// Rate of the bottleneck on the wire: each frame counts with its length plus 24 bytes
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

    /// Delay of each direction, instead of --rtt
    #[arg(long, allow_hyphen_values = true, value_name = "TIME[,TIME]", conflicts_with = "rtt", help_heading = "Path")]
    delay: Option<Pair<Span>>,

    /// Random additional delay up to this value; packets stay in order
    #[arg(long, allow_hyphen_values = true, value_name = "TIME[,TIME]", default_value = "0ms", help_heading = "Path")]
    jitter: Pair<Span>,

    /// Queue before the bottleneck, in bytes on the wire; a frame that does not fit is dropped
    /// [default: 20ms of the rate]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE[,SIZE]", help_heading = "Path")]
    queue: Option<Pair<ByteCount>>,

    /// Keep the queue short by CoDel (RFC 8289): codel, or codel:TARGET:INTERVAL for other values than
    /// 5ms and 100ms
    #[arg(long, value_name = "AQM[,AQM]", default_value = "none", help_heading = "Path")]
    aqm: Pair<AqmArgument>,

    /// Share of packets lost at random
    #[arg(long, allow_hyphen_values = true, value_name = "RATIO[,RATIO]", default_value = "0", help_heading = "Path")]
    loss: Pair<f64>,

    /// Lose packets in bursts of this mean length
    #[arg(long, value_name = "PACKETS", requires = "loss", help_heading = "Path")]
    burst: Option<f64>,

    /// Lose exactly these packets from a to b, numbered from 1 in order of arrival
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',', conflicts_with_all = ["loss", "burst"], help_heading = "Path")]
    drop_list: Vec<u64>,

    /// Lose exactly these packets from b to a
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',', conflicts_with_all = ["loss", "burst"], help_heading = "Path")]
    drop_list_back: Vec<u64>,

    /// Rate of the lines between the hosts and the path; gap frames of the wire pacer end there
    /// [default: infinite]
    #[arg(long, value_name = "RATE[,RATE]", help_heading = "Path")]
    line_rate: Option<Pair<Rate>>,

    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Path")]
    seed: u64,

    /// Largest IP packet
    #[arg(long, value_name = "BYTES", default_value_t = 1500, help_heading = "Hosts")]
    mtu: u64,

    /// How packets cross the path: one by one, or many segments at once for high rates
    #[arg(long, default_value = "exact", help_heading = "Hosts")]
    mode: ModeArgument,

    /// What one acknowledgement answers, once the receive window has stopped growing [default: second
    /// in exact mode, batch in fast mode]
    #[arg(long, value_name = "WHEN", help_heading = "Hosts")]
    acks: Option<AcksArgument>,

    /// Largest TCP buffers of the hosts [default: 3 × rate × round trip]
    #[arg(long, value_name = "SIZE", help_heading = "Hosts")]
    buffer: Option<ByteCount>,

    /// Keep the system's TCP buffer settings on the hosts
    #[arg(long, conflicts_with = "buffer", help_heading = "Hosts")]
    untuned: bool,
}

/// Value of `--mode`: how packets cross the lab's path.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArgument {
    /// MTU-sized packets, one by one
    Exact,
    /// Superpackets (GSO) carried whole, charged frame by frame
    Fast,
}

/// Value of `--acks`: which packets a receiver acknowledges.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum AcksArgument {
    /// Each packet by itself
    Every,
    /// Every second packet
    Second,
    /// All packets that the device hands up together (GRO)
    Batch,
}

/// Value of `--aqm`: the parameters of CoDel; `None` for a queue without active management.
#[derive(Clone, Copy, Debug)]
struct AqmArgument(Option<codel::Parameters>);

impl FromStr for AqmArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| text.parse().map_err(|error| format!("{error}"));
        match text.split(':').collect::<Vec<_>>()[..] {
            ["none"] => Ok(Self(None)),
            ["codel"] => Ok(Self(Some(codel::Parameters::default()))),
            ["codel", target, interval] => {
                Ok(Self(Some(codel::Parameters { target: time(target)?, interval: time(interval)?, marks: false })))
            }
            _ => Err(format!("{text:?} is no queue management: give none, codel, or codel:TARGET:INTERVAL")),
        }
    }
}

/// A value for each direction of a path, typed as one for both or as two with a comma between.
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
    /// Settings of the lab that these options ask for. An error if such a path is impossible, or
    /// the packets on it need more memory than `MAX_MEMORY`.
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

    /// Settings of the lab that these options ask for, to be emulated or simulated; its memory is
    /// not checked.
    pub(super) fn lab(&self) -> anyhow::Result<Settings> {
        let mtu = ByteCount::new(self.mtu);
        let delay = self.delay.unwrap_or(Pair { forward: self.rtt - self.rtt / 2, backward: self.rtt / 2 });
        let direction = |rate: Rate, delay, jitter, queue: Option<ByteCount>, codel, loss, line_rate, seed| {
            let mut settings =
                icdc_path::Settings { rate, delay, jitter, codel, loss, line_rate, mtu, seed, ..Default::default() };
            let usual = (rate * USUAL_QUEUE).max(settings.largest_frame() * LEAST_FRAMES);
            settings.queue = queue.unwrap_or(usual);
            settings.check().map(|()| settings)
        };
        let forward = direction(
            self.rate.forward,
            delay.forward,
            self.jitter.forward,
            self.queue.map(|queue| queue.forward),
            self.aqm.forward.0,
            self.loss(self.loss.forward, &self.drop_list),
            self.line_rate.map(|rate| rate.forward),
            self.seed,
        )?;
        let backward = direction(
            self.rate.backward,
            delay.backward,
            self.jitter.backward,
            self.queue.map(|queue| queue.backward),
            self.aqm.backward.0,
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
        let acknowledge = self.acks.map(|acks| match acks {
            AcksArgument::Every => Acknowledge::EveryPacket,
            AcksArgument::Second => Acknowledge::EverySecond,
            AcksArgument::Batch => Acknowledge::Batch,
        });
        Ok(Settings { forward, backward, mode, buffers, acknowledge, ..Settings::default() })
    }

    /// Loss model of a direction: the packets that are `listed`, else random loss of this ratio, in
    /// bursts or not.
    fn loss(&self, ratio: f64, listed: &[u64]) -> Model {
        match self.burst {
            _ if !listed.is_empty() => Model::Listed(listed.to_vec()),
            Some(mean_length) => Model::Burst { ratio, mean_length },
            None if ratio == 0.0 => Model::None,
            None => Model::Random(ratio),
        }
    }
}
