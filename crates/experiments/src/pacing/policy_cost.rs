//! Cost of a policy: processor time of both ends of a flow, and of connections that are made and
//! closed, on loopback.
//!
//! A policy acts when a connection is established and never again, so a flow should cost what it
//! costs without. Its rate is kept by the kernel's own pacing, which has a cost of its own: a flow
//! whose policy has a rate is therefore compared with one that has set the same rate itself. Each
//! variant runs once per round, in rotating order.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;

use icdc_packet::clock;
use icdc_report::{Report, Table};
use icdc_tcp::set_pacing_rate;
use icdc_units::{Rate, Span};
use rustix::thread::{Pid, gettid};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::processes::processor_time;
use crate::harness::scenario::Scenario;
use crate::harness::traffic::loopback::{ANY_PORT, Over, PIECE, in_turns, read_until, send};
use crate::harness::traffic::shaper::PolicyInForce;

/// Scenario `policy-cost` of `icdc lab run`: processor time of flows and connections with and
/// without a pacing policy.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "policy-cost",
    about: "processor time of flows and connections on loopback, with and without a policy",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Length of each measurement in seconds.
const SECONDS: u64 = 4;
/// Number of rounds, in each of which every variant is measured once.
const RUNS: u64 = 7;
/// Length of the start-up, which does not count.
const WARM_UP: Span = Span::from_millis(500);
/// Pacing rate of the variants with a rate: below loopback's capacity, so that it is reached.
const RATE: Rate = Rate::from_bits_per_second(8_000_000_000);
/// Prefix of unused addresses (RFC 5737), which no traffic of the measurement has.
const ELSEWHERE: &str = "192.0.2.0/24";
/// Address of the traffic, to which a policy applies.
const HERE: &str = "127.0.0.1";

/// Variant: where a connection's rate limit comes from, a policy or the program itself, if it has
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateSource {
    Nobody,
    /// A policy for addresses that the traffic does not have.
    PolicyElsewhere,
    /// A policy without a rate.
    Policy,
    /// The program has set the rate itself.
    Program,
    /// A policy with that rate.
    PolicyWithRate,
}

/// All variants, one row of the table each.
const RATE_SOURCES: [RateSource; 5] = [
    RateSource::Nobody,
    RateSource::PolicyElsewhere,
    RateSource::Policy,
    RateSource::Program,
    RateSource::PolicyWithRate,
];

impl RateSource {
    fn name(self) -> String {
        match self {
            Self::Nobody => "no policy".to_owned(),
            Self::PolicyElsewhere => "a policy for other addresses".to_owned(),
            Self::Policy => "a policy with a largest window".to_owned(),
            Self::Program => format!("no policy, the program sets {RATE}"),
            Self::PolicyWithRate => format!("a policy of {RATE}"),
        }
    }

    /// The variant with which this one is compared.
    fn reference(self) -> Self {
        match self {
            Self::Nobody | Self::PolicyElsewhere | Self::Policy => Self::Nobody,
            Self::Program | Self::PolicyWithRate => Self::Program,
        }
    }

    /// Addresses of the variant's policy, and its option with the value; `None` without a policy.
    fn policy(self) -> Option<(&'static str, [String; 2])> {
        match self {
            Self::Nobody | Self::Program => None,
            Self::PolicyElsewhere => Some((ELSEWHERE, rate())),
            // More segments than are ever in flight on loopback.
            Self::Policy => Some((HERE, ["--max-window".to_owned(), "65535".to_owned()])),
            Self::PolicyWithRate => Some((HERE, rate())),
        }
    }
}

/// Option of a policy that sets [`RATE`].
fn rate() -> [String; 2] {
    ["--rate".to_owned(), format!("{RATE:#}")]
}

/// Result of one round of a variant.
#[derive(Clone, Copy, Debug)]
struct PolicyTurn {
    rate: Rate,
    /// Processor time of both ends for a gigabyte, s.
    gigabyte: f64,
    /// Processor time of one connection, made, accepted and closed, s.
    connection: f64,
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let seconds = Span::from_secs(if bench.quick { 1 } else { SECONDS });
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let turns = in_turns(bench, &RATE_SOURCES, runs, RateSource::name, |source| measure(bench, source, seconds))?;
    Ok(Report { tables: vec![table(&turns, seconds)], ..Report::default() })
}

/// Table with a row for each variant: rate, processor times, and their ratios to those of its
/// reference.
fn table(turns: &[Vec<PolicyTurn>], seconds: Span) -> Table {
    let row = |(source, own): (&RateSource, &Vec<PolicyTurn>)| {
        let place = RATE_SOURCES.iter().position(|other| *other == source.reference()).unwrap_or_default();
        // Round by round, so that the machine's state is the same for all.
        let ratio = |value: fn(&PolicyTurn) -> f64| {
            let pairs = own.iter().zip(&turns[place]);
            Spread::of(pairs.map(|(own, reference)| value(own) / value(reference))).hundredths()
        };
        let spread = |value: &dyn Fn(&PolicyTurn) -> f64| Spread::of(own.iter().map(value));
        vec![
            source.name(),
            spread(&|turn| turn.rate.as_bits_per_second() as f64 / 1e9).tenths(""),
            spread(&|turn| turn.gigabyte).thousandths(),
            ratio(|turn| turn.gigabyte),
            spread(&|turn| turn.connection * 1e6).tenths(""),
            ratio(|turn| turn.connection),
            source.reference().name(),
        ]
    };
    Table {
        caption: format!("Both ends on loopback, {seconds} each, median of the rounds (least to greatest)"),
        header: [
            "",
            "Gbit/s",
            "processor time, s/GB",
            "ratio",
            "processor time of a connection, us",
            "ratio",
            "ratios to",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: RATE_SOURCES.iter().zip(turns).map(row).collect(),
    }
}

/// Measures one flow, then connections that carry nothing, under a source of the rate.
fn measure(bench: &Bench<'_>, source: RateSource, seconds: Span) -> Result<PolicyTurn, ExperimentError> {
    let failed = |error| ExperimentError::io(format!("measure {} on loopback", source.name()), error);
    let _policy = match source.policy() {
        Some((to, [option, value])) => {
            Some(PolicyInForce::put(|| Command::new(bench.program), to, &[option.as_str(), value.as_str()])?)
        }
        None => None,
    };
    let (rate, gigabyte) = flow(source, seconds).map_err(failed)?;
    let connection = connections(source, seconds).map_err(failed)?;
    Ok(PolicyTurn { rate, gigabyte, connection })
}

/// Connects to `listener`, and sets the rate if the variant's program does that.
fn connect(source: RateSource, listener: &TcpListener) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(listener.local_addr()?)?;
    if source == RateSource::Program {
        set_pacing_rate(&stream, Some(RATE)).map_err(io::Error::other)?;
    }
    Ok(stream)
}

/// Measures a flow on loopback: its rate, and the processor time of both ends for a gigabyte, in
/// seconds.
fn flow(source: RateSource, seconds: Span) -> io::Result<(Rate, f64)> {
    let over = AtomicBool::new(false);
    let listener = TcpListener::bind(ANY_PORT)?;
    thread::scope(|scope| {
        let _over = Over(&over);
        let (tell, ids) = mpsc::channel();
        let client = connect(source, &listener)?;
        let (mut stream, _) = listener.accept()?;
        let over = &over;
        scope.spawn(move || send(client, &tell, over));
        let mut buffer = vec![0; PIECE];
        read_until(&mut stream, &mut buffer, clock::now() + WARM_UP)?;
        let threads: Vec<Pid> = ids.try_iter().chain([gettid()]).collect();
        let spent = || threads.iter().map(|thread| processor_time::of_thread(*thread)).sum::<Span>();
        let (begun, before) = (clock::now(), spent());
        let bytes = read_until(&mut stream, &mut buffer, begun + seconds)?;
        let (took, spent) = (clock::now() - begun, spent() - before);
        Ok((bytes / took, spent.as_secs_f64() * 1e9 / bytes.as_u64() as f64))
    })
}

/// Makes and closes connections for this time; returns the processor time of one, in seconds.
fn connections(source: RateSource, seconds: Span) -> io::Result<f64> {
    let listener = TcpListener::bind(ANY_PORT)?;
    let spent = || processor_time::of_thread(gettid());
    let (until, before, mut made) = (clock::now() + seconds, spent(), 0_u32);
    while clock::now() < until {
        let client = connect(source, &listener)?;
        let (server, _) = listener.accept()?;
        // The end that closes first keeps the port for a minute (TIME-WAIT): a reset frees it.
        rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO))?;
        drop((client, server));
        made += 1;
    }
    Ok((spent() - before).as_secs_f64() / f64::from(made))
}
