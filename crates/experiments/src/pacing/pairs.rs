//! PSPacer's figure 9: two pairs of hosts, each with a target of 200 Mbit/s, share a router of 500
//! Mbit/s and 200 ms with a queue of 32 KB.
//!
//! What the paper says: where both senders run PSPacer, the two together hold 400 Mbit/s; with a
//! token bucket at one of them or at both they do not, because bursts fill the short queue, and
//! whose packets it drops is chance.
//!
//! Ours: the two senders are two devices of host a, each with addresses, routes and a shaper of its
//! own. They share the line to the path, so the wire pacer runs in timer mode: gap frames of two
//! pacers would be charged to one line. Rates are counted as in `fifo.rs`.

use std::process::Command;
use std::thread;

use icdc_lab::{Gauge, Heading, Host, Lab, LabError, Settings, program, spoilt};
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::arrivals::Arrivals;
use crate::harness::attempts::{self, Figures};
use crate::harness::bench::Bench;
use crate::harness::commands;
use crate::harness::error::ExperimentError;
use crate::harness::measured::{self, MeasureSummary};
use crate::harness::paths::path;
use crate::harness::resolution::Resolution;
use crate::harness::rights::Rights;
use crate::harness::scenario::Scenario;
use crate::harness::shaper::{Shaper, Target};
use crate::harness::spread::Spread;
use crate::harness::temporary_lab::TemporaryLab;
use crate::pacing::fifo::{LINE, QUICK_SECONDS, ROUND_TRIP, ROUTER, RUNS, SECONDS, SETTLED};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pairs",
    about: "two pairs of 200 Mbit/s each share 500 Mbit/s, 200 ms and a queue of 32 KB, each paced differently (PSPacer, figure 9)",
    has_rows: false,
    run,
};

const QUEUE: ByteCount = ByteCount::from_kib(32);
/// 200 Mbit/s of frames of 1518 bytes, each of which takes 1538, and their payload.
const TARGET: Rate = Rate::from_bits_per_second(202_635_046);
const PAYLOAD: Rate = Rate::from_bits_per_second(190_770_000);

/// The senders' devices and addresses, and the address of host b to which each sends.
const SENDERS: [(&str, &str, &str, &str); 2] = [
    ("sender1", "02:26:33:00:01:01", "10.26.33.11", "10.26.33.21"),
    ("sender2", "02:26:33:00:01:02", "10.26.33.12", "10.26.33.22"),
];

const BUCKET: (&str, Shaper) = ("token bucket", Shaper::TokenBucket(TARGET));
const WIRE: (&str, Shaper) = ("wire pacer", Shaper::Timer(TARGET));
const POLICY: (&str, Shaper) = ("policy", Shaper::Policy(PAYLOAD, Some(2)));

/// Both senders' shapers, and what the paper says of such a pair.
const CASES: [([(&str, Shaper); 2], &str); 4] = [
    ([WIRE, WIRE], "400 together"),
    ([BUCKET, BUCKET], "less, unsteady"),
    ([WIRE, BUCKET], "less, unsteady"),
    ([POLICY, POLICY], ""),
];

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
    fn goodput(&self, flow: usize) -> f64 {
        let arrivals = Arrivals::new(&self.flows[flow].series_ms);
        arrivals.mean(SETTLED, arrivals.length()).as_bits_per_second() as f64
    }

    fn again(&self) -> u64 {
        self.flows.iter().map(|flow| flow.retransmitted_segments).sum()
    }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let cases = if bench.quick { &CASES[..2] } else { &CASES[..] };
    let seconds = if bench.quick { QUICK_SECONDS } else { SECONDS };
    let tolerance = Resolution::Means.tolerance(ROUND_TRIP);
    let (mut rows, mut plots, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for (shapers, paper) in cases {
        let name = shapers.map(|(name, _)| name).join(" and ");
        let mut all = Vec::new();
        for run in 1..=runs {
            (bench.say)(&format!("{name}, run {run} of {runs}"));
            let once = || share(bench, shapers.map(|(_, shaper)| shaper), seconds, tolerance);
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
                "Two pairs of 200 Mbit/s each, 500 Mbit/s, 200 ms, queue {QUEUE}: goodput from {SETTLED} on, losses of the whole run; median of {runs} (least to greatest)"
            ),
            header: header.map(str::to_owned).to_vec(),
            rows,
        }],
        plots,
        failures,
        ..Report::default()
    })
}

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
        spread(&|shared| shared.again() as f64).whole(),
    ]
}

fn plot(name: &str, shared: &PairRun) -> Plot {
    let window = Span::from_millis(500);
    let line = |(number, flow): (usize, &MeasureSummary)| {
        let rates = Arrivals::new(&flow.series_ms).rates_by(window, Span::ZERO, Span::MAX);
        Series::new(["first", "second"][number], Stroke::Line, rates)
    };
    Plot::new(name, Unit::BitsPerSecond, shared.flows.iter().enumerate().map(line).collect())
}

/// Both connections at once, in a lab of their own.
fn share(bench: &Bench<'_>, shapers: [Shaper; 2], seconds: u64, tolerance: Span) -> Result<PairRun, ExperimentError> {
    let settings =
        Settings::symmetric(icdc_path::Settings { line_rate: Some(LINE), ..path(ROUTER, ROUND_TRIP, QUEUE) });
    let lab = TemporaryLab::new(bench, &settings)?;
    plug(&lab)?;
    let mut shaping = Vec::new();
    for (shaper, (device, _, _, to)) in shapers.iter().zip(SENDERS) {
        shaping.push(shaper.start(bench, &lab, Target { device, to })?);
    }
    let mut commands = SENDERS.map(|(_, _, _, to)| measure(bench, &lab, to, seconds));
    let [first, second] = thread::scope(|scope| {
        let running = commands.each_mut().map(|command| scope.spawn(move || measured::measured_by(command)));
        running.map(|flow| flow.join().expect("measuring does not panic"))
    });
    drop(shaping);
    let page = lab.page()?;
    Ok(PairRun {
        flows: [first?.0, second?.0],
        lost: page.gauge(Heading::Forward, Gauge::QueueDrops),
        spoilt: spoilt(&page, &settings, tolerance),
    })
}

/// Makes the senders, and the addresses to which they send.
fn plug(lab: &Lab) -> Result<(), LabError> {
    lab.on(Host::A, || {
        SENDERS.iter().try_for_each(|(device, hardware, address, to)| {
            let commands = format!(
                "link add link eth0 name {device} address {hardware} type macvlan mode bridge\n\
                 address add {address}/32 dev {device}\n\
                 link set {device} up\n\
                 neighbour replace {to} lladdr 02:26:33:00:00:02 dev {device} nud permanent\n\
                 route add {to}/32 dev {device} src {address}\n"
            );
            program::ip(&["-batch", "-"], &commands)
        })
    })?;
    lab.on(Host::B, || {
        SENDERS.iter().try_for_each(|(_, hardware, address, to)| {
            let commands = format!(
                "address add {to}/32 dev eth0\nneighbour replace {address} lladdr {hardware} dev eth0 nud permanent\n"
            );
            program::ip(&["-batch", "-"], &commands)
        })
    })
}

/// `icdc measure` from host a to an address of host b.
fn measure(bench: &Bench<'_>, lab: &Lab, to: &str, seconds: u64) -> Command {
    let text = bench.program.display().to_string();
    // Whatever address it calls: all are host b's.
    let shell = format!("sh -c 'shift; exec \"{text}\" lab exec --name {} --shell b \"$@\"' ssh", lab.record.name);
    let mut command = commands::on_host(bench, lab, "a", Rights::All);
    command.args([&text, "measure", "--json", "--json-series", "--seconds", &seconds.to_string(), "--cc", "cubic"]);
    command.args(["--ssh", &shell, "--remote-icdc", &text, to]);
    command.env("XDG_STATE_HOME", lab.directory().join(to));
    command
}
