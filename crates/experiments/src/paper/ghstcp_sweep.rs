//! gHSTCP's parameters: throughput of each choice alone, and of a Reno flow beside it, simulated.
//!
//! The path is that of the experiments with split TCP (Yamanegi et al.): bottleneck 70 Mbit/s,
//! round trips of 18 ms (Tokyo–Osaka), and as far as Okinawa: 43 ms if the paper's 25 ms of added
//! delay are the round trip's, 68 ms if they are each way's; 100 KB drop-tail, runs of 2 minutes.
//! Round trips are blurred as hosts blur them: without that, a test of a few samples finds what no
//! host could.
//! The paper's findings: at the longer round trip Reno falls short, HSTCP is better, gHSTCP better
//! still; and HSTCP takes much of the throughput of a Reno flow beside it, gHSTCP little. The paper
//! gives no numbers for these, so its statements stand beside our numbers.
//!
//! Swept are all combinations of the number of samples in a test, samples per round trip, the
//! critical value and the decrease, and, with the others at their initial values, the window up to
//! which RFC 3649's formula is Reno. What counts is payload after 20 s, when both flows have begun
//! and slow start is over. Beside Reno, the median of five runs that start differently.
//!
//! A set of parameters is marked as *front* at a round trip if no other set reaches more alone
//! without leaving less to Reno.

use icdc_lab::Settings;
use icdc_report::{Baseline, Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::Flow;
use icdc_units::{Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::shares::{self, Shares, ample_window};
use crate::harness::figures::simulated;
use crate::harness::figures::spread::Spread;
use crate::harness::measurement::rate_control;
use crate::harness::scenario::Scenario;
use crate::relay::paper_path::{self, ROUND_TRIPS};

/// Scenario `ghstcp-sweep` of `icdc lab run`: simulated throughput with values of gHSTCP's
/// parameters, alone and beside a Reno flow.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "ghstcp-sweep",
    about: "simulated: gHSTCP's parameters, throughput alone against what a Reno flow keeps beside it (split TCP)",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Algorithms with their initial parameters: name, the paper's statement on the throughput at the
/// longer round trip, and on what a Reno flow beside it loses.
const REFERENCES: [(&str, [&str; 2]); 3] =
    [("reno", ["short", ""]), ("highspeed", ["better", "much"]), ("ghstcp", ["better still", "little"])];

/// Values of the parameter `samples`: round-trip times in one test for a rise.
const SAMPLES: [i64; 4] = [16, 64, 128, 256];
/// Values of the parameter `samples_per_rtt`: samples that are taken in a round trip.
const SAMPLES_PER_RTT: [i64; 3] = [2, 8, 32];
/// Values of the parameter `critical`, Student's t in hundredths: any rise, 5 %, 1 %, 0.1 % for 128
/// samples.
const CRITICAL: [i64; 4] = [0, 166, 236, 316];
/// Values of the parameter for the decrease: HighSpeed's, half, the mode's.
const DECREASE: [i64; 3] = [0, 1, 2];
/// Least jitter that hosts and their timers add to round-trip times.
const JITTER: Span = Span::from_micros(200);
/// Values of the parameter `low_window`: packets up to which the window grows as Reno's.
const LOW_WINDOW: [i64; 4] = [19, 38, 76, 152];

/// Extent of the simulations.
struct SweepExtent {
    duration: Span,
    /// Time before which arrivals do not count.
    from: Span,
    runs: u64,
}

/// Extent of a full run of the scenario.
const WHOLE: SweepExtent = SweepExtent { duration: Span::from_secs(120), from: Span::from_secs(20), runs: 5 };
/// Extent of a quick run of the scenario.
const QUICK: SweepExtent = SweepExtent { duration: Span::from_secs(20), from: Span::from_secs(5), runs: 1 };

/// A case: an algorithm with values of its parameters; those that are not named have their initial
/// values.
#[derive(Clone)]
struct ParameterSet {
    algorithm: &'static str,
    parameters: Vec<(String, i64)>,
}

impl ParameterSet {
    /// gHSTCP with these values.
    fn ghstcp<const N: usize>(parameters: [(&str, i64); N]) -> Self {
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Self { algorithm: "ghstcp", parameters }
    }

    /// A bulk flow of this case, whose receive window does not limit.
    fn flow(&self, settings: &Settings) -> Flow {
        let flow = Flow::bulk(rate_control::algorithm(self.algorithm), ample_window(settings));
        Flow { parameters: self.parameters.clone(), ..flow }
    }

    /// Value of a parameter; `None` if it has its initial value.
    fn parameter(&self, name: &str) -> Option<i64> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Name of the set's series in plots: one of [`GROUPS`].
    fn group(&self) -> &'static str {
        let [initial, formula, fast, half, by_mode, highspeed, reno] = GROUPS;
        match (self.algorithm, self.parameter("decrease")) {
            ("reno", _) => reno,
            ("highspeed", _) => highspeed,
            (_, Some(0)) => fast,
            (_, Some(1)) => half,
            (_, Some(_)) => by_mode,
            (_, None) if self.parameters.is_empty() => initial,
            (_, None) => formula,
        }
    }
}

/// Names of the series in plots, to which the cases belong by the decrease.
const GROUPS: [&str; 7] = [
    "gHSTCP, initial values",
    "gHSTCP, the RFC's formula",
    "gHSTCP, HighSpeed's decrease",
    "gHSTCP, half off",
    "gHSTCP, the mode's decrease",
    "HighSpeed",
    "Reno",
];

/// The sets of parameters that are simulated, the references first.
fn cases(quick: bool) -> Vec<ParameterSet> {
    let reference = |&(algorithm, _)| ParameterSet { algorithm, parameters: Vec::new() };
    let mut cases: Vec<ParameterSet> = REFERENCES.iter().map(reference).collect();
    if quick {
        cases.push(ParameterSet::ghstcp([("samples", 16), ("critical", 0), ("decrease", 0)]));
        return cases;
    }
    for samples in SAMPLES {
        for per_rtt in SAMPLES_PER_RTT {
            for critical in CRITICAL {
                cases.extend(DECREASE.map(|decrease| {
                    ParameterSet::ghstcp([
                        ("samples", samples),
                        ("samples_per_rtt", per_rtt),
                        ("critical", critical),
                        ("decrease", decrease),
                    ])
                }));
            }
        }
    }
    cases.extend(LOW_WINDOW.map(|window| ParameterSet::ghstcp([("per_ack", 0), ("low_window", window)])));
    cases
}

/// Results of a case at one round trip.
#[derive(Clone, Copy, Debug)]
struct Throughputs {
    /// Throughput without another flow, in bit/s.
    alone: f64,
    /// Throughput of a Reno flow beside it, in bit/s.
    left: Spread,
    /// The Reno flow's share of the throughput.
    share: Spread,
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let extent = if bench.quick { QUICK } else { WHOLE };
    let cases = cases(bench.quick);
    let mut found = Vec::new();
    let mut plots = Vec::new();
    for round_trip in ROUND_TRIPS {
        (bench.say)(&format!("round trip {round_trip}"));
        let of_round_trip = measure(bench, &extent, round_trip, &cases)?;
        plots.push(plot(round_trip, &cases, &of_round_trip));
        found.push(of_round_trip);
    }
    let tables = vec![beside_paper(&found), table(&extent, &cases, &found)];
    Ok(Report { tables, plots, ..Report::default() })
}

/// Simulates each case at a round trip, alone and beside a Reno flow; gives the results in order.
fn measure(
    bench: &Bench<'_>,
    extent: &SweepExtent,
    round_trip: Span,
    cases: &[ParameterSet],
) -> Result<Vec<Throughputs>, ExperimentError> {
    let mut settings = paper_path::settings(round_trip);
    settings.forward.jitter = JITTER;
    let reno = Flow::bulk(rate_control::algorithm("reno"), ample_window(&settings));
    let mut simulations = Vec::new();
    for case in cases {
        let simulation =
            |flows| icdc_sim::Simulation { flows, ..simulated::bulk(&settings, reno.algorithm, extent.duration) };
        simulations.push(simulation(vec![case.flow(&settings)]));
        let beside = |run| simulation(shares::pair([case.flow(&settings), reno.clone()], run));
        simulations.extend((0..extent.runs).map(beside));
    }
    let shares = Shares::of_all(bench, &simulations, extent.from)?;
    let bits = |rate: Rate| rate.as_bits_per_second() as f64;
    let found = |runs: &[Shares]| {
        let (alone, beside) = runs.split_first().expect("one alone");
        Throughputs {
            alone: bits(alone.sum()),
            left: Spread::of(beside.iter().map(|shares| bits(shares.rates[1]))),
            share: Spread::of(beside.iter().map(|shares| shares.share(1))),
        }
    };
    Ok(shares.chunks(1 + extent.runs as usize).map(found).collect())
}

/// Whether no other set reaches more alone or leaves more to Reno without being worse in the other.
fn is_front(found: &[Throughputs], one: &Throughputs) -> bool {
    let better = |other: &&Throughputs| {
        let (alone, left) = (other.alone - one.alone, other.share.median - one.share.median);
        alone >= 0.0 && left >= 0.0 && alone + left > 0.0
    };
    !found.iter().any(|other| better(&other))
}

/// The references, beside the paper's statements at the longer round trip.
fn beside_paper(found: &[Vec<Throughputs>]) -> Table {
    let [.., long] = found else { return Table::default() };
    let reno = long[0];
    let row = |((name, [alone, loss]), one): (&(&str, [&str; 2]), &Throughputs)| {
        let lost = 1.0 - one.left.median / reno.left.median;
        vec![
            (*name).to_owned(),
            (*alone).to_owned(),
            format!("{:.1}", one.alone / 1e6),
            (*loss).to_owned(),
            if *name == "reno" { String::new() } else { format!("{:.0}", lost * 100.0) },
        ]
    };
    Table {
        caption: format!("The paper's findings at the longer round trip beside ours at {}", ROUND_TRIPS[2]),
        header: [
            "algorithm",
            "paper: throughput",
            "ours: alone, Mbit/s",
            "paper: taken of a Reno flow's",
            "ours: less than beside another Reno flow, %",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: REFERENCES.iter().zip(long).map(row).collect(),
    }
}

/// Table of all cases (rows) with their results at each round trip, marked where they are on the
/// front.
fn table(extent: &SweepExtent, cases: &[ParameterSet], found: &[Vec<Throughputs>]) -> Table {
    let names = ["samples", "samples_per_rtt", "critical", "decrease", "low_window"];
    let mut header: Vec<String> = ["algorithm"].iter().chain(&names).map(|name| (*name).to_owned()).collect();
    for round_trip in ROUND_TRIPS {
        header.push(format!("{round_trip}: alone, Mbit/s"));
        header.extend(["Reno beside it, Mbit/s", "Reno's share, %", "front"].map(str::to_owned));
    }
    let row = |(index, case): (usize, &ParameterSet)| {
        let mut row = vec![case.algorithm.to_owned()];
        row.extend(names.map(|name| case.parameter(name).map_or_else(String::new, |value| value.to_string())));
        for found in found {
            let one = &found[index];
            // Only for gHSTCP: the references are no choices of its parameters.
            let front = case.algorithm == "ghstcp" && is_front(&of_ghstcp(cases, found), one);
            row.push(format!("{:.1}", one.alone / 1e6));
            row.extend([one.left.megabits(), one.share.percent(), if front { "●" } else { "" }.to_owned()]);
        }
        row
    };
    Table {
        caption: format!(
            "70 Mbit/s, queue 100 KB, beside Reno the median of {} runs (least to greatest); empty: the initial value",
            extent.runs
        ),
        header,
        rows: cases.iter().enumerate().map(row).collect(),
    }
}

/// The results of gHSTCP's cases.
fn of_ghstcp(cases: &[ParameterSet], found: &[Throughputs]) -> Vec<Throughputs> {
    cases.iter().zip(found).filter(|(case, _)| case.algorithm == "ghstcp").map(|(_, found)| *found).collect()
}

/// Plot with a point per set of parameters: throughput alone over the Reno flow's share.
fn plot(round_trip: Span, cases: &[ParameterSet], found: &[Throughputs]) -> Plot {
    let series = GROUPS.map(|name| {
        let inside = cases.iter().zip(found).filter(|(case, _)| case.group() == name);
        let mut points: Vec<_> = inside.map(|(_, found)| (found.share.median, found.alone)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::new(name, Stroke::Points, points)
    });
    let title = format!("Throughput alone over the share of a Reno flow, {round_trip}");
    Plot::new(&title, Unit::BitsPerSecond, series.to_vec())
        .over("Share of a Reno flow beside it", Unit::Share)
        .from_baseline(Baseline::Data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_known_and_in_range() {
        for case in cases(false) {
            let values: Vec<_> = case.parameters.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            assert!(rate_control::algorithm(case.algorithm).values(&values).is_ok(), "{values:?}");
        }
    }

    #[test]
    fn the_front_has_what_nothing_else_beats() {
        let one = |alone, share| {
            let share = Spread::of([share].into_iter());
            Throughputs { alone, left: share, share }
        };
        let found = [one(60e6, 0.3), one(65e6, 0.2), one(60e6, 0.2), one(65e6, 0.2)];
        assert_eq!(found.map(|case| is_front(&found, &case)), [true, true, false, true]);
    }
}
