//! `icdc lab sim` as typed, and what it means.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueHint};
use icdc_cc::Algorithm;
use icdc_lab::{Acknowledge, Buffers, Mode, USUAL_RECEIVE_BUFFER};
use icdc_sim::{Acknowledgements, Flow, ReceiveWindow, Simulation};
use icdc_units::{ByteCount, Span};

use super::path::{MAX_MEMORY, PathArguments};
use crate::values::{amount, ceiling, seconds, window};

/// Most bytes of payload that a device puts together for the stack (`gso_max_size`, GRO).
const LARGEST_BATCH: u64 = 65_536;
/// Time within which arriving packets are put together: about that of one interrupt's work.
const BATCH_TIME: Span = Span::from_micros(50);

#[derive(Args, Debug)]
#[command(
    about = "Simulate TCP flows over a path, in virtual time",
    long_about = "Simulate TCP flows in virtual time over a path like that of `icdc lab up`: the same loss, queue and delay, senders and \
        receivers that behave like Linux, and the same congestion control algorithms that icdc loads into the kernel. The simulator needs \
        no privileges and no devices, is not limited by what this machine can carry, and gives the same result for the same seed.\n\n\
        FLOW is an algorithm and its settings, separated by commas:\n  \
        start=TIME   when the connection is established and begins to send\n  \
        stop=TIME    when the application has nothing more to send\n  \
        bytes=SIZE   total amount to send\n  \
        rtt=TIME     the flow's own round-trip time, no less than the path's\n  \
        rate=RATE    a ceiling of the rate; the flow is paced at it\n  \
        window=SIZE  a fixed receive window\n  \
        NAME=NUMBER  a parameter of the algorithm",
    after_long_help = "docs/simulator.md describes the model and its simplifications.\n\n\
        Exit codes:\n  \
        0  the simulation is complete\n  \
        1  the output could not be written\n  \
        2  the command line is invalid, or such a path or flow is impossible\n\n\
        Examples:\n  \
        icdc lab sim --rate 1gbit --rtt 300ms --queue 2.5MB --loss 1e-7 --seconds 600\n  \
        icdc lab sim --rate 10gbit --rtt 300ms --queue 25MB --cc reno,rate=9gbit --report sim.html\n  \
        icdc lab sim --rate 100mbit --rtt 40ms --flow reno --flow reno,start=5s,rtt=100ms --json\n"
)]
pub(crate) struct SimArguments {
    #[command(flatten)]
    path: PathArguments,

    /// A single flow that lasts for the whole simulation [default: reno]
    #[arg(long, value_name = "FLOW", conflicts_with = "flow", help_heading = "Flows")]
    cc: Option<FlowArgument>,

    /// A flow; may be given many times
    #[arg(long, value_name = "FLOW", help_heading = "Flows")]
    flow: Vec<FlowArgument>,

    /// End after this time, in seconds or as a time such as 2min
    #[arg(long, value_name = "N", value_parser = seconds, default_value = "60", help_heading = "Flows")]
    seconds: Span,

    /// Print the result as one JSON object
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Write a report with plots
    #[arg(long, value_name = "FILE.html", help_heading = "Output", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
}

/// A simulated flow as typed: an algorithm and settings between commas.
#[derive(Clone)]
struct FlowArgument {
    flow: Flow,
    /// Its own round-trip time.
    round_trip: Option<Span>,
    /// Whether the window is its own.
    window: bool,
}

impl std::fmt::Debug for FlowArgument {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.flow.algorithm.name)
    }
}

impl FromStr for FlowArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let algorithm = algorithm(words.next().unwrap_or_default())?;
        let unset = ReceiveWindow::Tuned { most: ByteCount::ZERO };
        let mut argument = Self { flow: Flow::bulk(algorithm, unset), round_trip: None, window: false };
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is no NAME=VALUE"))?;
            argument.set(name, value).map_err(|reason| format!("{name}: {reason}"))?;
        }
        let parameters: Vec<_> = argument.flow.parameters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        algorithm.values(&parameters).map_err(|error| error.to_string())?;
        Ok(argument)
    }
}

impl FlowArgument {
    /// Applies one `NAME=VALUE` of the text to the flow.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        fn time(value: &str) -> Result<Span, String> {
            value.parse().map_err(|error| format!("{error}"))
        }
        let flow = &mut self.flow;
        match name {
            "start" => flow.start = time(value)?,
            "stop" => flow.stop = Some(time(value)?),
            "bytes" => flow.bytes = Some(amount(value)?),
            "rtt" => self.round_trip = Some(time(value)?),
            "rate" => flow.rate = ceiling(value)?.0,
            "window" => {
                flow.window = ReceiveWindow::Fixed(window(value)?);
                self.window = true;
            }
            _ => {
                let number = value.parse().map_err(|_| {
                    format!("{value:?} is no whole number, as parameters of an algorithm are; flows have start, stop, bytes, rtt, rate, window")
                })?;
                flow.parameters.push((name.to_owned(), number));
            }
        }
        Ok(())
    }
}

/// Finds the congestion control algorithm of this name.
fn algorithm(name: &str) -> Result<&'static Algorithm, String> {
    icdc_cc::find(name).ok_or_else(|| {
        let names: Vec<&str> = icdc_cc::all().iter().map(|algorithm| algorithm.name).collect();
        format!("there is no algorithm {name:?}; there are: {}", names.join(", "))
    })
}

impl SimArguments {
    /// The simulation that these options ask for; an error if such a path or flow is impossible.
    pub(crate) fn simulation(&self) -> anyhow::Result<Simulation> {
        let lab = self.path.lab()?;
        let path_round_trip = lab.round_trip();
        let given = match &self.cc {
            Some(flow) => vec![flow.clone()],
            None if self.flow.is_empty() => vec!["reno".parse::<FlowArgument>().map_err(anyhow::Error::msg)?],
            None => self.flow.clone(),
        };
        let mut flows = Vec::new();
        for (index, FlowArgument { mut flow, round_trip, window }) in given.into_iter().enumerate() {
            let round_trip = round_trip.unwrap_or(path_round_trip);
            ensure!(
                round_trip >= path_round_trip,
                "flow {}: its round trip of {round_trip} is shorter than the path's, {path_round_trip}: give a longer one",
                index + 1
            );
            flow.extra_delay = round_trip - path_round_trip;
            if !window {
                // Linux announces half of it: four times what fills the path and its queue is more
                // than slow start overshoots to.
                let fitting = (lab.forward.rate * round_trip + lab.forward.queue) * 8;
                let buffer = match lab.buffers {
                    Buffers::Untouched => USUAL_RECEIVE_BUFFER,
                    Buffers::AtMost(size) => size,
                    Buffers::Fitting => fitting.max(USUAL_RECEIVE_BUFFER),
                };
                flow.window = ReceiveWindow::Tuned { most: buffer / 2 };
            }
            flows.push(flow);
        }
        let segment = lab.forward.mtu.as_u64();
        let acknowledgements = match lab.acknowledgements() {
            Acknowledge::EveryPacket => Acknowledgements::EveryPacket,
            Acknowledge::EverySecond => Acknowledgements::EverySecond,
            Acknowledge::Batch => {
                Acknowledgements::Batches { packets: (LARGEST_BATCH / segment).max(2) as u32, within: BATCH_TIME }
            }
        };
        let simulation = Simulation {
            forward: lab.forward,
            backward: lab.backward,
            flows,
            duration: self.seconds,
            acknowledgements,
            segmentation: lab.mode == Mode::Fast,
        };
        simulation.check().context("this cannot be simulated")?;
        let memory = simulation.memory();
        if memory > MAX_MEMORY {
            bail!(
                "this path needs up to {memory} of memory for what is on its way; {MAX_MEMORY} are the limit: lower --rate, --rtt or --queue"
            );
        }
        Ok(simulation)
    }
}

/// A simulated flow in one line of text: algorithm, parameters, rate limit.
pub(crate) fn describe(flow: &Flow) -> String {
    let mut words = vec![flow.algorithm.name.to_owned()];
    words.extend(flow.parameters.iter().map(|(name, value)| format!("{name}={value}")));
    words.extend(flow.rate.map(|rate| format!("at most {rate}")));
    words.join(", ")
}
