//! Figure 9 of the PSPacer paper (Takano et al., 2006): two pairs of hosts, each with a target of
//! 200 Mbit/s, share a router of 500 Mbit/s and 200 ms with a queue of 32 KB; the second begins
//! later.
//!
//! The paper's results: where both senders run PSPacer, the two together hold 400 Mbit/s; with a
//! token bucket at one of them or at both they do not, because bursts fill the short queue, and
//! whose packets it drops is chance. The paper's second pair begins five seconds after the first
//! and both send for about two minutes; ours send for a minute. Congestion control is BIC, as
//! there.
//!
//! Ours: the two senders are two devices of host a, each with addresses, routes and a shaper of its
//! own. They share the line to the path, so a wire pacer on each runs in timer mode: gap frames of
//! two pacers would be charged to one line. On one line with gap frames, one wire pacer has a class
//! for each. Rates are counted as in `fifo.rs`.

use std::process::Command;
use std::thread;

use icdc_lab::{Gauge, Heading, Host, Lab, LabError, Settings, program, spoilt};
use icdc_packet::clock;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::commands;
use crate::harness::hosts::paths::path;
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::measurement::measured::{self, MeasureSummary};
use crate::harness::measurement::rate_control::RateControl;
use crate::harness::measurement::rights::Rights;
use crate::harness::repetition::attempts::{self, Figures};
use crate::harness::repetition::resolution::Resolution;
use crate::harness::scenario::Scenario;
use crate::harness::traffic::shaper::{Shaper, Target, WAITING};
use crate::harness::traffic::wire_pacer::{self, WirePacer};
use crate::pacing::fifo::{CONGESTION, LINE, ROUND_TRIP, ROUTER, RUNS, SETTLED};

/// Scenario `pairs` of `icdc lab run`: two pairs of hosts, each paced in its way, share a router
/// (PSPacer, figure 9).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pairs",
    about: "two pairs of 200 Mbit/s, one after the other, share 500 Mbit/s, 200 ms and a queue of 32 KB, each paced differently (PSPacer, figure 9)",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Size of the router's queue.
const QUEUE: ByteCount = ByteCount::from_kib(32);
/// Rate on the wire to which each sender is paced: 200 Mbit/s of frames of 1518 bytes, each of
/// which takes 1538.
const TARGET: Rate = Rate::from_bits_per_second(202_635_046);
/// Rate to which a policy paces each sender: the payload of [`TARGET`], less a thousandth.
const PAYLOAD: Rate = Rate::from_bits_per_second(190_770_000);

/// The two senders on host a: device, hardware address, IPv4 address, and the address of host b to
/// which each sends.
const SENDERS: [(&str, &str, &str, &str); 2] = [
    ("sender1", "02:26:33:00:01:01", "10.26.33.11", "10.26.33.21"),
    ("sender2", "02:26:33:00:01:02", "10.26.33.12", "10.26.33.22"),
];

/// Seconds for which the first sender sends.
const SECONDS: u64 = 60;
/// Seconds for which the first sender sends in a quick run of the scenario.
const QUICK_SECONDS: u64 = 20;
/// Delay of the second sender after the first; it also ends before the first by this time.
const LATER: Span = Span::from_secs(5);

/// Shaping of the traffic of the two senders.
#[derive(Clone, Copy)]
enum Senders {
    /// Each sender has a line and a shaper of its own.
    Apart([(&'static str, Shaper); 2]),
    /// One wire pacer with gap frames has a class for each sender.
    OneLine,
}

/// Name and shaper of a sender behind a token bucket.
const BUCKET: (&str, Shaper) = ("token bucket", Shaper::TokenBucket(TARGET));
/// Name and shaper of a sender behind a wire pacer in timer mode.
const WIRE: (&str, Shaper) = ("wire pacer", Shaper::Timer(TARGET));
/// Name and shaper of a sender with a pacing policy.
const POLICY: (&str, Shaper) = ("policy", Shaper::Policy(PAYLOAD, Some(2)));

/// Cases: the shaping of the two senders, and the paper's finding on their rates in Mbit/s.
const CASES: [(Senders, &str); 6] = [
    (Senders::OneLine, "400 together"),
    (Senders::Apart([WIRE, WIRE]), "400 together"),
    (Senders::Apart([BUCKET, BUCKET]), "less, unsteady"),
    (Senders::Apart([WIRE, BUCKET]), "less, unsteady"),
    (Senders::Apart([BUCKET, WIRE]), "less, unsteady"),
    (Senders::Apart([POLICY, POLICY]), ""),
];

impl Senders {
    /// Name of the case, after the shapers of both senders.
    fn name(self) -> String {
        match self {
            Self::Apart(shapers) => shapers.map(|(name, _)| name).join(" and "),
            Self::OneLine => "wire pacer for both, gap frames".to_owned(),
        }
    }
}

/// Result of one run of the two connections.
struct PairRun {
    flows: [MeasureSummary; 2],
    lost: u64,
    spoilt: Option<String>,
}

impl Figures for PairRun {
    fn figures(&self) -> String {
        let [one, other] = [0, 1].map(|flow| self.goodput(flow) / 1e6);
        format!("{one:.1} and {other:.1} Mbit/s, {} lost", self.lost)
    }
}

impl PairRun {
    /// Goodput of a flow (0 or 1) in bit/s while both have settled, each in the time since its own
    /// first byte.
    fn goodput(&self, flow: usize) -> f64 {
        let arrivals = Arrivals::new(&self.flows[flow].series_ms);
        let (from, to) = match flow {
            0 => (LATER + SETTLED, arrivals.length() - LATER),
            _ => (SETTLED, arrivals.length()),
        };
        arrivals.mean(from, to).as_bits_per_second() as f64
    }

    /// Number of segments that both flows retransmitted.
    fn retransmitted(&self) -> u64 {
        self.flows.iter().map(|flow| flow.retransmitted_segments).sum()
    }
}

/// Measures all cases of two paced senders that share the router; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let cases = if bench.quick { &CASES[..2] } else { &CASES[..] };
    let seconds = if bench.quick { QUICK_SECONDS } else { SECONDS };
    let tolerance = Resolution::Means.tolerance(ROUND_TRIP);
    let (mut rows, mut plots, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for &(senders, paper) in cases {
        let name = senders.name();
        let mut all = Vec::new();
        for run in 1..=runs {
            (bench.say)(&format!("{name}, run {run} of {runs}"));
            let once = || share(bench, senders, seconds, tolerance);
            let shared = attempts::unspoilt(bench, tolerance, once, |shared: &PairRun| shared.spoilt.as_deref())?;
            failures.extend(shared.spoilt.iter().map(|why| format!("{name}: {why}")));
            if run == 1 {
                plots.push(plot(&name, &shared));
            }
            all.push(shared);
        }
        rows.push(row(&name, paper, &all));
    }
    let header = [
        "senders",
        "paper, Mbit/s",
        "first, Mbit/s",
        "second, Mbit/s",
        "together",
        "of what 400 Mbit/s carry, %",
        "packets lost in the router",
        "segments retransmitted",
    ];
    Ok(Report {
        tables: vec![Table {
            caption: format!(
                "Two pairs of 200 Mbit/s each, 500 Mbit/s, 200 ms, queue {QUEUE}: goodput from {SETTLED} after the second has begun, losses of the whole run; median of {runs} (least to greatest)"
            ),
            header: header.map(str::to_owned).to_vec(),
            rows,
        }],
        plots,
        failures,
        ..Report::default()
    })
}

/// Row of the table for one case, over the runs.
fn row(name: &str, paper: &str, runs: &[PairRun]) -> Vec<String> {
    let spread = |value: &dyn Fn(&PairRun) -> f64| Spread::of(runs.iter().map(value));
    let together = |shared: &PairRun| shared.goodput(0) + shared.goodput(1);
    vec![
        name.to_owned(),
        paper.to_owned(),
        spread(&|shared| shared.goodput(0)).megabits(),
        spread(&|shared| shared.goodput(1)).megabits(),
        spread(&together).megabits(),
        spread(&|shared| together(shared) / (PAYLOAD * 2).as_bits_per_second() as f64).percent(),
        spread(&|shared| shared.lost as f64).whole(),
        spread(&|shared| shared.retransmitted() as f64).whole(),
    ]
}

/// Plot of the rates of both flows over time.
fn plot(name: &str, shared: &PairRun) -> Plot {
    let window = Span::from_millis(500);
    let line = |(number, flow): (usize, &MeasureSummary)| {
        let begins = LATER * number as u64;
        let rates = Arrivals::new(&flow.series_ms).rates_by(window, begins, Span::MAX);
        Series::new(["first", "second"][number], Stroke::Line, rates)
    };
    Plot::new(name, Unit::BitsPerSecond, shared.flows.iter().enumerate().map(line).collect())
}

/// Runs both connections once, in a lab of their own.
fn share(bench: &Bench<'_>, senders: Senders, seconds: u64, tolerance: Span) -> Result<PairRun, ExperimentError> {
    let settings =
        Settings::symmetric(icdc_path::Settings { line_rate: Some(LINE), ..path(ROUTER, ROUND_TRIP, QUEUE) });
    let lab = TemporaryLab::new(bench, &settings)?;
    let (mut shaping, mut pacer) = (Vec::new(), None);
    match senders {
        Senders::Apart(shapers) => {
            plug(&lab, |device| device)?;
            for ((_, shaper), (device, _, _, to)) in shapers.iter().zip(SENDERS) {
                shaping.push(shaper.start(bench, &lab, Target { device, to })?);
            }
        }
        Senders::OneLine => {
            plug(&lab, |_| LINE_DEVICE)?;
            let class = |(name, _, _, to)| wire_pacer::class(name, TARGET, WAITING, &format!("to = \"{to}\""));
            let classes: String = SENDERS.map(class).concat();
            pacer = Some(WirePacer::start(bench, &lab, LINE_DEVICE, &classes, &["--mode", "gap"])?);
        }
    }
    let run = |number: u64| {
        let (_, _, _, to) = SENDERS[number as usize];
        clock::sleep_until(clock::now() + LATER * number);
        measured::measured_by(&mut measure(bench, &lab, to, seconds - 2 * number * LATER.as_secs()))
    };
    let [first, second] = thread::scope(|scope| {
        [0, 1].map(|number| scope.spawn(move || run(number))).map(|flow| flow.join().expect("measuring does not panic"))
    });
    drop((shaping, pacer));
    let page = lab.page()?;
    let flows = [first?.0, second?.0];
    let unlike = flows.iter().find_map(|flow| RateControl::Named(CONGESTION).unlike(&flow.cc));
    Ok(PairRun {
        lost: page.gauge(Heading::Forward, Gauge::QueueDrops),
        spoilt: unlike.or_else(|| spoilt(&page, &settings, tolerance)),
        flows,
    })
}

/// Host a's own device, at the line to the path.
const LINE_DEVICE: &str = "eth0";

/// Makes the senders' addresses and routes on host a and the addresses of host b to which they
/// send. `by` maps a sender's own device to the one by which it sends; its own is made if that is
/// it.
fn plug(lab: &Lab, by: fn(&'static str) -> &'static str) -> Result<(), LabError> {
    lab.on(Host::A, || {
        SENDERS.iter().try_for_each(|(device, hardware, address, to)| {
            let by = by(device);
            let mut commands = String::new();
            if by == *device {
                commands += &format!(
                    "link add link {LINE_DEVICE} name {device} address {hardware} type macvlan mode bridge\n\
                     link set {device} up\n"
                );
            }
            commands += &format!(
                "address add {address}/32 dev {by}\n\
                 neighbour replace {to} lladdr 02:26:33:00:00:02 dev {by} nud permanent\n\
                 route add {to}/32 dev {by} src {address}\n"
            );
            program::ip(&["-batch", "-"], &commands)
        })
    })?;
    lab.on(Host::B, || {
        SENDERS.iter().try_for_each(|(device, hardware, address, to)| {
            let hardware = if by(device) == *device { hardware } else { "02:26:33:00:00:01" };
            let commands = format!(
                "address add {to}/32 dev eth0\nneighbour replace {address} lladdr {hardware} dev eth0 nud permanent\n"
            );
            program::ip(&["-batch", "-"], &commands)
        })
    })
}

/// Command of an `icdc measure` from host a to an address of host b.
fn measure(bench: &Bench<'_>, lab: &Lab, to: &str, seconds: u64) -> Command {
    let text = bench.program.display().to_string();
    // Whatever address it calls: all are host b's.
    let shell = format!("sh -c 'shift; exec \"{text}\" lab exec --name {} --shell b \"$@\"' ssh", lab.record.name);
    let mut command = commands::on_host(bench, lab, "a", Rights::All);
    command.args([&text, "measure", "--json", "--json-series", "--seconds", &seconds.to_string()]);
    command.args(RateControl::Named(CONGESTION).kernel_name().iter().flat_map(|name| ["--cc", name]));
    command.args(["--ssh", &shell, "--remote-icdc", &text, to]);
    command.env("XDG_STATE_HOME", lab.directory().join(to));
    command
}
