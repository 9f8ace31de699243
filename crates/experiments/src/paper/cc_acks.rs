//! Effect of the receiver's acknowledgements on each algorithm, on the path of Table 1 (Yamamoto):
//! ten minutes at 1 Gbit/s and 300 ms, simulated, with an acknowledgement for every packet up to
//! one for eight.
//!
//! HighSpeed TCP and BIC, as Linux has them, grow by acknowledgements: HighSpeed adds its increment
//! for each, whatever it answers; BIC divides its by an estimate of how many packets one answers.
//! Scalable TCP, H-TCP, CUBIC and Reno grow by packets. So it is the receiver that decides which of
//! them is faster. The paper does not tell how many packets its receiver, a host of 2008, answered
//! at a time; a busy one answers several.

use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::Simulation;
use icdc_units::Span;

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::cells::ratio;
use crate::harness::figures::simulated::{self, answering, bulk};
use crate::harness::figures::spread::Spread;
use crate::harness::measurement::rate_control::algorithm;
use crate::harness::scenario::Scenario;
use crate::paper::cc_table::{ALGORITHMS, LOSSES, SECONDS, settings};

/// Scenario `cc-acks` of `icdc lab run`: simulated throughput of the algorithms, by the number of
/// packets that an acknowledgement answers.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "cc-acks",
    about: "simulated: the algorithms of table 1 by how many packets the receiver's acknowledgements answer (algorithm bench)",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Numbers of packets that the receiver answers with one acknowledgement, a column each.
const ANSWERED: [u32; 6] = [1, 2, 3, 4, 6, 8];
/// Number of seeds of the random loss, a simulation for each.
const SEEDS: u64 = 5;

/// Row of the table: an algorithm, a loss ratio, and the paper's Mbit/s for them.
type Row = (&'static str, f64, u32);

/// Simulates all algorithms by the number of packets that an acknowledgement answers; gives the
/// report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let (seconds, seeds) = if bench.quick { (10, 1) } else { (SECONDS, bench.runs.unwrap_or(SEEDS)) };
    let rows: Vec<Row> = ALGORITHMS
        .iter()
        .flat_map(|(name, papers)| {
            LOSSES.iter().zip(papers).filter_map(|(loss, paper)| Some((*name, *loss, (*paper)?)))
        })
        .collect();
    // Without losses of its own, a path is the same for every seed.
    let seeds_of = |loss: f64| if loss > 0.0 { seeds } else { 1 };
    let simulation = |&(name, loss, _): &Row, answered, seed| -> Simulation {
        let settings = settings(loss, seed);
        Simulation {
            acknowledgements: answering(f64::from(answered)),
            ..bulk(&settings, algorithm(name), Span::from_secs(seconds))
        }
    };
    let all: Vec<Simulation> = rows
        .iter()
        .flat_map(|row| {
            ANSWERED.iter().flat_map(move |answered| (1..=seeds_of(row.1)).map(move |seed| (row, answered, seed)))
        })
        .map(|(row, answered, seed)| simulation(row, *answered, seed))
        .collect();
    let mut outcomes = simulated::run_all(bench, &all)?.into_iter();
    let mut cells = Vec::new();
    for row in &rows {
        let goodput = |_| simulated::goodput(&outcomes.by_ref().take(seeds_of(row.1) as usize).collect::<Vec<_>>());
        cells.push((row, ANSWERED.map(goodput)));
    }
    let columns = ANSWERED.map(|answered| format!("1 for {answered}"));
    let header = ["algorithm", "loss", "paper"].map(str::to_owned).into_iter().chain(columns).collect();
    let line = |(row, spreads): &(&Row, [Spread; ANSWERED.len()])| {
        let begin = [row.0.to_owned(), ratio(row.1), row.2.to_string()];
        begin.into_iter().chain(spreads.iter().map(Spread::megabits)).collect()
    };
    Ok(Report {
        tables: vec![Table {
            caption: format!(
                "Goodput of {seconds} s in Mbit/s by acknowledgements for packets; with loss the median of {seeds} seeds (least to greatest)"
            ),
            header,
            rows: cells.iter().map(line).collect(),
        }],
        plots: LOSSES
            .iter()
            .map(|loss| {
                let of_loss = cells.iter().filter(|((_, of, _), _)| of == loss);
                let series = of_loss.map(|((name, ..), spreads)| {
                    let points =
                        ANSWERED.iter().zip(spreads).map(|(answered, spread)| (f64::from(*answered), spread.median));
                    Series::new(name, Stroke::Line, points.collect::<Vec<_>>())
                });
                Plot::new(&format!("Loss {}", ratio(*loss)), Unit::BitsPerSecond, series.collect())
                    .over("Packets that an acknowledgement answers", Unit::Number)
            })
            .collect(),
        ..Report::default()
    })
}
