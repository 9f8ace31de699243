//! Table 5 of the PSPacer paper (Takano et al., 2006): one TCP connection over 200 ms through a
//! router of 500 Mbit/s, by the size of the router's queue, unpaced and paced by a token bucket,
//! policies and the wire pacer.
//!
//! The paper's results: with a queue of 16 KB to 1 MB, Iperf reaches 29 to 256 Mbit/s unpaced and
//! 27 to 419 Mbit/s behind a token bucket, and loses hundreds of packets; behind PSPacer it reaches
//! 474 Mbit/s whatever the queue, and loses none.
//!
//! Like the paper we count 500 Mbit/s in Ethernet frames with their check sequence, 1518 bytes for
//! 1500: with preamble and gap the router's line has 506.6 Mbit/s, and TCP's payload of 1448 bytes
//! per packet can reach 477. Host a is attached by 1 Gbit/s. Congestion control is BIC, as there. A
//! policy counts payload and gets a thousandth less than would fit, all others get what fits.

use icdc_lab::Settings;
use icdc_report::{Plot, Report, Table};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::measurement::measured::{self, Measured, failures};
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;
use crate::harness::traffic::cross_traffic::FRAME;
use crate::harness::traffic::shaper::Shaper;

/// Scenario `fifo` of `icdc lab run`: TCP through a router by the size of its queue, unpaced and
/// paced (PSPacer, table 5).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "fifo",
    about: "TCP at 500 Mbit/s and 200 ms by the router's queue: unpaced, token bucket, policy, wire pacer (PSPacer, table 5)",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Number of runs of each queue size and sender.
pub(crate) const RUNS: u64 = 3;
/// Length of a run in seconds.
const SECONDS: u64 = 25;
/// Length of a run in seconds, in a quick run of the scenario.
const QUICK_SECONDS: u64 = 12;
/// Congestion control of the measured flows, that of the paper.
pub(crate) const CONGESTION: &str = "bic";
/// Rate of the line from host a to the router.
pub(crate) const LINE: Rate = Rate::from_bits_per_second(1_000_000_000);
pub(crate) const ROUND_TRIP: Span = Span::from_millis(200);
/// Rate of the router, the bottleneck, on the wire: 500 Mbit/s of frames of 1518 bytes, each of
/// which takes 1538.
pub(crate) const ROUTER: Rate = Rate::from_bits_per_second(506_587_615);
/// Rate of a policy, which counts payload: 500 Mbit/s · 1448 / 1518, less a thousandth.
pub(crate) const PAYLOAD: Rate = Rate::from_bits_per_second(476_460_000);
/// Time since the first byte after which start-up is over: 5 s and ten round trips.
pub(crate) const SETTLED: Span = Span::from_secs(7);
/// Rate in Mbit/s from which a sender counts as full.
const FULL: f64 = 474.0;
/// Queue size in KiB that plots show.
const DRAWN: u64 = 64;

/// Kibibytes of the queue, and the paper's Mbit/s and lost packets: unpaced, token bucket, PSPacer.
type QueueOfPaper = (u64, [[&'static str; 2]; 3]);

/// Sizes of the router's queue that are measured, with the paper's results.
const QUEUES: [QueueOfPaper; 5] = [
    (16, [["29.4", "219"], ["26.9", "131"], ["474", "0"]]),
    (64, [["210", "257"], ["191", "402"], ["474", "0"]]),
    (256, [["223", "394"], ["379", "261"], ["473", "0"]]),
    (1024, [["256", "1196"], ["419", "12"], ["474", "0"]]),
    (4096, [["459", "1283"], ["471", "0"], ["474", "0"]]),
];

/// A way of sending, one column of the tables.
struct Sender {
    name: &'static str,
    shaper: Shaper,
    /// Index of the paper's sender that it is compared with; `None` if the paper has none like it.
    paper: Option<usize>,
    /// Whether the row is paced and must fill the path without loss.
    is_paced: bool,
}

/// The ways of sending that are compared.
const SENDERS: [Sender; 5] = [
    Sender { name: "unpaced", shaper: Shaper::Nothing, paper: Some(0), is_paced: false },
    Sender { name: "token bucket", shaper: Shaper::TokenBucket(ROUTER), paper: Some(1), is_paced: false },
    Sender { name: "policy", shaper: Shaper::Policy(PAYLOAD, None), paper: None, is_paced: false },
    Sender {
        name: "policy, bursts of 2 segments",
        shaper: Shaper::Policy(PAYLOAD, Some(2)),
        paper: None,
        is_paced: true,
    },
    Sender { name: "wire pacer", shaper: Shaper::Wire(ROUTER), paper: Some(2), is_paced: true },
];

/// Results at one queue size and sender.
struct QueueCell {
    goodput: Spread,
    whole: Spread,
    lost: Spread,
    again: Spread,
    burst: Spread,
}

impl QueueCell {
    /// Figures over the runs of one queue size and sender.
    fn of(runs: &[Measured]) -> Self {
        let spread = |value: fn(&Measured) -> f64| Spread::of(runs.iter().map(value));
        Self {
            goodput: spread(|measured| {
                let arrivals = Arrivals::new(&measured.summary.series_ms);
                arrivals.mean(SETTLED, arrivals.length()).as_bits_per_second() as f64
            }),
            whole: measured::goodput(runs),
            lost: spread(|measured| measured.queue_drops as f64),
            again: spread(|measured| measured.summary.retransmitted_segments as f64),
            burst: spread(steady_burst),
        }
    }

    /// Whether every run reached [`FULL`] after start-up, and the router dropped nothing.
    fn is_full_without_loss(&self) -> bool {
        self.lost.greatest == 0.0 && self.goodput.least >= FULL * 1e6
    }
}

/// Largest burst of any second after start-up, in full frames.
fn steady_burst(measured: &Measured) -> f64 {
    let recording = &measured.recording;
    let from = recording.data_begins(FRAME) + SETTLED.as_millis() as usize;
    let bursts = recording.bins.iter().skip(from).map(|bin| bin.burst);
    bursts.max().unwrap_or_default().ratio(FRAME)
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let queues = if bench.quick { &QUEUES[..1] } else { &QUEUES[..] };
    let seconds = if bench.quick { QUICK_SECONDS } else { SECONDS };
    let (mut cells, mut plots, mut spoilt) = (Vec::new(), Vec::new(), Vec::new());
    for &(kibibytes, _) in queues {
        let direction =
            icdc_path::Settings { line_rate: Some(LINE), ..path(ROUTER, ROUND_TRIP, ByteCount::from_kib(kibibytes)) };
        let settings = Settings::symmetric(direction);
        let mut row = Vec::new();
        for Sender { name, shaper, .. } in &SENDERS {
            let name = format!("queue of {kibibytes} KiB, {name}");
            let mut all = Vec::new();
            for run in 1..=runs {
                (bench.say)(&format!("{name}, run {run} of {runs}"));
                let trial = Trial { shaper: *shaper, ..Trial::new(settings.clone(), seconds, CONGESTION) };
                all.push(trial::run(bench, &trial)?);
            }
            spoilt.extend(failures(all.iter().map(|measured| (name.clone(), measured))));
            if kibibytes == DRAWN || bench.quick {
                plots.push(plot(&name, &all[0], &settings));
            }
            row.push(QueueCell::of(&all));
        }
        cells.push(row);
    }
    Ok(Report {
        summary: vec![("full without loss".to_owned(), full(queues, &cells))],
        tables: tables(queues, &cells, runs),
        plots,
        failures: spoilt,
        ..Report::default()
    })
}

/// Tables by queue size: goodput and losses beside the paper's values, then figures that the paper
/// does not have.
fn tables(queues: &[QueueOfPaper], cells: &[Vec<QueueCell>], runs: u64) -> Vec<Table> {
    type Value = fn(&QueueCell) -> String;
    let beside_paper = |caption: String, required: &str, paper: usize, value: Value| {
        let mut header = vec!["queue, KiB".to_owned()];
        for sender in &SENDERS {
            let name = if sender.is_paced { "PSPacer" } else { sender.name };
            header.extend(sender.paper.map(|_| format!("paper, {name}")));
            let required = if sender.is_paced { format!(" ({required})") } else { String::new() };
            header.push(format!("{}{required}", sender.name));
        }
        let row = |(&(kibibytes, papers), cells): (&QueueOfPaper, &Vec<QueueCell>)| {
            let mut row = vec![kibibytes.to_string()];
            for (sender, cell) in SENDERS.iter().zip(cells) {
                row.extend(sender.paper.map(|index| papers[index][paper].to_owned()));
                row.push(value(cell));
            }
            row
        };
        Table { caption, header, rows: queues.iter().zip(cells).map(row).collect() }
    };
    let beside = |(caption, value): (&str, Value)| Table {
        caption: caption.to_owned(),
        header: ["queue, KiB"].into_iter().chain(SENDERS.iter().map(|sender| sender.name)).map(str::to_owned).collect(),
        rows: queues
            .iter()
            .zip(cells)
            .map(|((kibibytes, _), cells)| [kibibytes.to_string()].into_iter().chain(cells.iter().map(value)).collect())
            .collect(),
    };
    let goodput = format!(
        "500 Mbit/s, 200 ms: goodput from {SETTLED} on, Mbit/s; here and below the median of {runs} (least to greatest)"
    );
    let besides: [(&str, Value); 3] = [
        ("Goodput of the whole run, Mbit/s, start-up included", |cell| cell.whole.megabits()),
        ("Segments retransmitted", |cell| cell.again.whole()),
        ("Largest burst in a second after start-up, MTU, as the router's port receives it", |cell| {
            cell.burst.tenths("")
        }),
    ];
    let first = [
        beside_paper(goodput, &format!("≥ {FULL:.0}"), 0, |cell| cell.goodput.megabits()),
        beside_paper("Packets lost in the router, start-up included".to_owned(), "0", 1, |cell| cell.lost.whole()),
    ];
    first.into_iter().chain(besides.map(beside)).collect()
}

/// Text that names for each sender the smallest queue from which on it is full without loss.
fn full(queues: &[QueueOfPaper], cells: &[Vec<QueueCell>]) -> String {
    let from = |(number, sender): (usize, &Sender)| {
        let kept = cells.iter().rev().take_while(|row| row[number].is_full_without_loss()).count();
        match kept.checked_sub(1).and_then(|index| queues.iter().rev().nth(index)) {
            Some((kibibytes, _)) => format!("{} from {kibibytes} KiB on", sender.name),
            None => format!("{} with no queue", sender.name),
        }
    };
    SENDERS.iter().enumerate().map(from).collect::<Vec<_>>().join("; ")
}

/// Plot of the throughput of a run.
fn plot(name: &str, measured: &Measured, settings: &Settings) -> Plot {
    let mut plots = measured.recording.plots(&settings.forward);
    let mut plot = plots.swap_remove(0);
    plot.title = name.to_owned();
    plot
}
