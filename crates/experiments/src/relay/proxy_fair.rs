//! Figure 9 of the TCP-proxy paper (Yamanegi, Hama, Hasegawa, Murata et al.): a relayed flow, and
//! beside it a Reno flow that no relay helps, on the same path.
//!
//! The path, the relays and the hosts are those of scenario `proxy`; the relayed flow's hosts have
//! buffers of 64 KiB, the other flow's do not limit. They begin a different time apart in each run,
//! and each is first in every other one. Counted is from 20 s after both have begun. The paper's
//! values are in a picture only: HighSpeed between the relays takes much of the Reno flow's
//! throughput, gHSTCP little; its statements stand beside our numbers.
//!
//! The reference is the Reno flow's rate beside a flow that is relayed by Reno: what is missing
//! from it beside another algorithm was taken by that.

use icdc_report::{Categories, HeatMap, Report, Table, Unit};
use icdc_sim::{jain_index, payload_rate};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::shares;
use crate::harness::figures::spread::Spread;
use crate::harness::measurement::at_once::{self, Repeated};
use crate::harness::scenario::Scenario;
use crate::relay::paper_path::{QUEUE, RATE, ROUND_TRIPS, UNSCALED, between, settings};
use crate::relay::plain_hosts::Plain;
use crate::relay::relayed::{self, BesideFlow, Relayed, Relaying};

/// Scenario `proxy-fair` of `icdc lab run`: rate that a direct Reno flow keeps beside a relayed one
/// (TCP proxy, figure 9).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "proxy-fair",
    about: "what a Reno flow keeps beside one that is relayed with Reno, HighSpeed or gHSTCP, 70 Mbit/s (TCP proxy, figure 9)",
    has_rows: true,
    is_parallel: true,
    run,
};

/// Congestion control between the relays, and the paper's statement on how much it takes of the
/// Reno flow's throughput.
const BETWEEN: [(&str, &str); 3] = [("reno", ""), ("highspeed", "much"), ("ghstcp", "little")];
/// Socket buffers of the direct Reno flow, which do not limit.
const AMPLE: ByteCount = ByteCount::from_mib(4);
const RUNS: u64 = 5;

/// Extent of a run in time.
struct FairnessExtent {
    /// Time from the start of the later flow until counting begins.
    settling: Span,
    /// Length of the time that counts.
    counted: Span,
}

/// Extent of a full run of the scenario.
const WHOLE: FairnessExtent = FairnessExtent { settling: Span::from_secs(20), counted: Span::from_secs(100) };
/// Extent of a quick run of the scenario.
const QUICK: FairnessExtent = FairnessExtent { settling: Span::from_secs(3), counted: Span::from_secs(5) };

/// Row of the table: congestion control of the relayed flow and round trip, with its runs.
struct Neighbours {
    cc: &'static str,
    paper: &'static str,
    round_trip: Span,
    runs: Vec<Relayed>,
}

/// Rates of the relayed and the direct Reno flow in the counted time, in bit/s.
#[derive(Clone, Copy, Debug)]
struct Both {
    relayed: f64,
    reno: f64,
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let extent = if bench.quick { QUICK } else { WHOLE };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let round_trips = if bench.quick { &ROUND_TRIPS[2..] } else { &ROUND_TRIPS[..] };
    let case = |round_trip| BETWEEN.map(|(cc, paper)| Neighbours { cc, paper, round_trip, runs: Vec::new() });
    let cases = round_trips.iter().flat_map(|round_trip| case(*round_trip)).collect();
    let mut cases = bench.wanted(cases, Neighbours::name)?;
    let relay = |bench: &Bench<'_>, case: &Neighbours, run| relayed::run(bench, &case.relaying(&extent, run));
    at_once::repeat(bench, runs, &mut cases, relay)?;
    let all = cases.iter().flat_map(|case| case.runs.iter().map(|run| (case.name(), run)));
    Ok(Report {
        failures: relayed::failures(all),
        tables: vec![table(&cases, &extent, runs)],
        heat_maps: vec![heat_map(&cases, round_trips, &extent)],
        ..Report::default()
    })
}

impl Repeated for Neighbours {
    type Run = Relayed;

    fn name(&self) -> String {
        format!("beside {}, {}", between(Some(self.cc)), self.round_trip)
    }

    fn keep(&mut self, run: Relayed) {
        self.runs.push(run);
    }
}

impl Neighbours {
    /// The measurement of this row; `run` determines which flow begins first, and the time between
    /// them.
    fn relaying(&self, extent: &FairnessExtent, run: u64) -> Relaying {
        let [first, second] = shares::starts(run);
        // Both to the same end.
        let end = first.max(second) + extent.settling + extent.counted;
        Relaying {
            legs: vec![settings(self.round_trip)],
            cc: Some(self.cc),
            plain: Plain { congestion: "reno", window_scaling: true },
            buffer: UNSCALED,
            earlier: Span::ZERO,
            delay: first,
            lasts: end - first,
            beside: Some(BesideFlow { buffer: AMPLE, delay: second, lasts: end - second }),
        }
    }

    /// Rates of both flows in each run.
    fn both(&self, extent: &FairnessExtent) -> Vec<Both> {
        self.runs.iter().filter_map(|run| Both::of(run, extent)).collect()
    }
}

impl Both {
    /// Rates of both flows while both count; `None` if the run had only one.
    fn of(run: &Relayed, extent: &FairnessExtent) -> Option<Self> {
        let beside = run.beside.as_ref()?;
        let from = run.carried.first_byte.max(beside.first_byte) + extent.settling;
        let to = run.carried.ended().min(beside.ended());
        let bits = |rate: Rate| rate.as_bits_per_second() as f64;
        Some(Self { relayed: bits(run.carried.mean_between(from, to)), reno: bits(beside.mean_between(from, to)) })
    }

    /// Rate of both flows together, in bit/s.
    fn sum(self) -> f64 {
        self.relayed + self.reno
    }
}

/// Rate of the direct Reno flow over the runs, in Mbit/s.
fn reno(both: &[Both]) -> Spread {
    Spread::of(both.iter().map(|both| both.reno / 1e6))
}

/// Table of the rates of both flows in each row, beside the paper's statements.
fn table(cases: &[Neighbours], extent: &FairnessExtent, runs: u64) -> Table {
    let row = |case: &Neighbours| {
        let both = case.both(extent);
        let equal = cases.iter().find(|other| other.cc == "reno" && other.round_trip == case.round_trip);
        let left = equal.map_or(f64::NAN, |equal| reno(&equal.both(extent)).median);
        let taken = (1.0 - reno(&both).median / left) * 100.0;
        let rates = |both: &Both| [both.relayed, both.reno].map(|bits| Rate::from_bits_per_second(bits as u64));
        let payload = payload_rate(&settings(case.round_trip).forward).as_bits_per_second() as f64;
        vec![
            case.round_trip.to_string(),
            between(Some(case.cc)),
            Spread::of(both.iter().map(|both| both.relayed / 1e6)).tenths("none"),
            reno(&both).tenths("none"),
            Spread::of(both.iter().map(|both| both.reno / both.sum())).percent(),
            case.paper.to_owned(),
            if case.cc == "reno" || taken.is_nan() { String::new() } else { format!("{taken:.0}") },
            Spread::of(both.iter().map(|both| jain_index(&rates(both)))).thousandths(),
            Spread::of(both.iter().map(|both| both.sum() / payload)).percent(),
            case.runs.iter().filter(|run| run.spoilt.is_some()).count().to_string(),
        ]
    };
    let header = [
        "round trip",
        "the other flow",
        "it gets, Mbit/s",
        "the Reno flow keeps, Mbit/s",
        "the Reno flow's share, %",
        "paper: taken of the Reno flow's",
        "ours: less than beside Reno, %",
        "Jain's index",
        "both, % of what payload can reach",
        "invalid runs",
    ];
    Table {
        caption: format!(
            "{RATE}, queue {QUEUE}, {} from {} after both have begun: median of {runs} (least to greatest); required: the Reno flow keeps clearly more beside gHSTCP than beside HighSpeed",
            extent.counted, extent.settling
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: cases.iter().map(row).collect(),
    }
}

/// Map of the direct Reno flow's share of both rates, by the relays' congestion control and round
/// trip.
fn heat_map(cases: &[Neighbours], round_trips: &[Span], extent: &FairnessExtent) -> HeatMap {
    let share = |cc: &str, round_trip: Span| {
        let case = cases.iter().find(|case| case.cc == cc && case.round_trip == round_trip)?;
        let shares = case.both(extent).into_iter().map(|both| both.reno / both.sum());
        Some(Spread::of(shares).median).filter(|share| !share.is_nan())
    };
    let values = BETWEEN.map(|(cc, _)| round_trips.iter().map(|round_trip| share(cc, *round_trip)).collect());
    let rows = Categories::new("between the relays", BETWEEN.map(|(cc, _)| cc));
    let columns = Categories::new("round trip", round_trips.iter().map(Span::to_string));
    HeatMap::new("Share of the direct Reno flow", Unit::Share, rows, columns, values.to_vec()).between(0.0, 0.5)
}
