//! The TCP-proxy paper's figures 4 and 5: how its authors found out what their line is, on the line
//! that they found (Yamanegi, Hama, Hasegawa, Murata et al.).
//!
//! Figure 4: 1, 2, 5, 10 and 20 connections for two minutes; more than five carry hardly more, so
//! the bottleneck has about 70 Mbit/s. Figure 5: the round-trip time and the window of one
//! connection. The round trip grows with the window from 18 ms to about 30 ms, so the queue holds
//! 12 ms, about 100 KB; it is near its greatest before each reduction, so the queue drops what does
//! not fit; and the window is halved there, so one packet is lost at a time.
//!
//! Here the line is given; what is shown is that it answers as theirs did. Connections are
//! Reno's, with buffers that do not limit; the hosts of one connection are the lab's.

use std::thread;

use icdc_lab::{Gauge, Heading, spoilt};
use icdc_report::{Plot, Report, Table, views};
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::measurement::at_once::{self, Repeated};
use crate::harness::measurement::measured::{Measured, SenderSample};
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::repetition::attempts::{self, Figures};
use crate::harness::repetition::resolution::Resolution;
use crate::harness::scenario::Scenario;
use crate::relay::paper_path::{ROUND_TRIPS, settings};
use crate::relay::plain_flow::{Carried, PlainFlow};
use crate::relay::plain_hosts::{Plain, Row};

/// Scenario `proxy-line` of `icdc lab run`: the emulated line of the TCP-proxy paper answers as
/// theirs did (figures 4 and 5).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "proxy-line",
    about: "the line of the TCP-proxy paper: what 1 to 20 connections carry, and one's round-trip time and window (figures 4, 5)",
    has_rows: false,
    is_parallel: true,
    run,
};

/// Numbers of connections that are measured together, each with the paper's rate in Mbit/s as text.
const CONNECTIONS: [(u16, &str); 5] = [(1, "less"), (2, "less"), (5, "nearly 70"), (10, "about 70"), (20, "about 70")];
/// Length of a run in seconds.
const SECONDS: u64 = 120;
const RUNS: u64 = 5;
/// Round-trip time of the line, that between Tokyo and Osaka.
const ROUND_TRIP: Span = ROUND_TRIPS[0];
/// Socket buffers of the connections, which do not limit.
const AMPLE: ByteCount = ByteCount::from_mib(4);
/// TCP port of the first connection; those of the others follow.
const FIRST_PORT: u16 = 5201;
/// Time in seconds after which slow start and its losses are over.
const SETTLED: f64 = 10.0;

/// Row of the table: a number of connections at once, with its runs.
struct Together {
    connections: u16,
    paper: &'static str,
    runs: Vec<LineRun>,
}

/// Result of one run of several connections at once.
struct LineRun {
    carried: Vec<Carried>,
    drops: u64,
    spoilt: Option<String>,
}

impl Figures for LineRun {
    fn figures(&self) -> String {
        format!("{:.1} Mbit/s together, the queue dropped {}", self.megabits(), self.drops)
    }
}

impl LineRun {
    /// Total rate of the connections in Mbit/s while all of them send.
    fn megabits(&self) -> f64 {
        let from = self.carried.iter().map(|carried| carried.first_byte).max().unwrap_or(Time::ORIGIN);
        let to = self.carried.iter().map(Carried::ended).min().unwrap_or(Time::ORIGIN);
        let rates = self.carried.iter().map(|carried| carried.mean_between(from, to));
        rates.sum::<Rate>().as_bits_per_second() as f64 / 1e6
    }
}

impl Repeated for Together {
    type Run = LineRun;

    fn name(&self) -> String {
        format!("{} connections", self.connections)
    }

    fn keep(&mut self, run: LineRun) {
        self.runs.push(run);
    }
}

impl Together {
    /// Measures the connections at once; returns the first attempt that the machine did not
    /// disturb, or the last one, marked as invalid.
    fn run(&self, bench: &Bench<'_>, seconds: u64) -> Result<LineRun, ExperimentError> {
        let tolerance = Resolution::Means.tolerance(ROUND_TRIP);
        attempts::unspoilt(bench, tolerance, || self.once(bench, seconds, tolerance), |run| run.spoilt.as_deref())
    }

    /// Measures once, in a lab of its own; marked as invalid if packets were later than
    /// `tolerance`.
    fn once(&self, bench: &Bench<'_>, seconds: u64, tolerance: Span) -> Result<LineRun, ExperimentError> {
        let row = Row::new(bench, &[settings(ROUND_TRIP)], Plain { congestion: "reno", window_scaling: true })?;
        let flow = |number: u16| PlainFlow {
            port: FIRST_PORT + number,
            relay: None,
            congestion: "reno",
            buffer: AMPLE,
            // Not all at once: they would lose their first windows together.
            delay: Span::from_millis(u64::from(number) * 100),
            lasts: Span::from_secs(seconds),
        };
        let carried = thread::scope(|scope| {
            let row = &row;
            let flows: Vec<_> =
                (0..self.connections).map(|number| scope.spawn(move || flow(number).run(row, || ()))).collect();
            let ended =
                flows.into_iter().map(|flow| flow.join().expect("a flow does not panic").map(|(carried, ())| carried));
            ended.collect::<Result<Vec<_>, _>>()
        })?;
        let lab = &row.labs[0];
        let page = lab.page()?;
        Ok(LineRun {
            carried,
            drops: page.gauge(Heading::Forward, Gauge::QueueDrops),
            spoilt: spoilt(&page, &lab.record.settings, tolerance),
        })
    }
}

/// Measures 1 to 20 connections at once, and the window of one; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let seconds = if bench.quick { 10 } else { SECONDS };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let connections = if bench.quick { &CONNECTIONS[..2] } else { &CONNECTIONS[..] };
    let cases = connections.iter().map(|&(connections, paper)| Together { connections, paper, runs: Vec::new() });
    let mut cases: Vec<Together> = cases.collect();
    let once = |bench: &Bench<'_>, case: &Together, _| case.run(bench, seconds);
    at_once::repeat(bench, runs, &mut cases, once)?;
    (bench.say)("one connection, watched");
    let trial = Trial { resolution: Resolution::Means, ..Trial::new(settings(ROUND_TRIP), seconds, "reno") };
    let watched = trial::run(bench, &trial)?;
    let all = cases.iter().flat_map(|case| case.runs.iter().map(|run| (case.name(), &run.spoilt)));
    let all = all.chain([("one connection, watched".to_owned(), &watched.spoilt)]);
    Ok(Report {
        failures: attempts::failures(all),
        tables: vec![together(&cases, seconds), findings(&watched)],
        plots: traces(&watched),
        ..Report::default()
    })
}

/// Table for figure 4: several connections together.
fn together(cases: &[Together], seconds: u64) -> Table {
    let payload = payload_rate(&settings(ROUND_TRIP).forward).as_bits_per_second() as f64 / 1e6;
    let row = |case: &Together| {
        let spread = |value: &dyn Fn(&LineRun) -> f64| Spread::of(case.runs.iter().map(value));
        vec![
            case.connections.to_string(),
            case.paper.to_owned(),
            spread(&LineRun::megabits).tenths("none"),
            spread(&|run| run.megabits() / payload).percent(),
            spread(&|run| run.drops as f64).whole(),
            case.runs.iter().filter(|run| run.spoilt.is_some()).count().to_string(),
        ]
    };
    let header = [
        "connections",
        "paper, figure 4, Mbit/s",
        "ours, Mbit/s",
        "of what payload can reach, %",
        "dropped at the queue",
        "invalid runs",
    ];
    Table {
        caption: format!("70 Mbit/s, 18 ms, queue 100 KB, {seconds} s: goodput together, median (least to greatest)"),
        header: header.map(str::to_owned).to_vec(),
        rows: cases.iter().map(row).collect(),
    }
}

/// Table of the findings that the paper's authors read from figure 5, beside ours.
fn findings(watched: &Measured) -> Table {
    let settled: Vec<&SenderSample> = watched.samples.iter().filter(|sample| sample.at_seconds >= SETTLED).collect();
    let trips = Spread::of(settled.iter().filter_map(|sample| Some(sample.rtt_seconds? * 1e3)));
    let cuts = cuts(&settled);
    let before = Spread::of(cuts.iter().filter_map(|cut| Some(cut.before.rtt_seconds? * 1e3)));
    let kept = Spread::of(cuts.iter().map(|cut| cut.after.cwnd_bytes as f64 / cut.before.cwnd_bytes as f64));
    let lost = watched.queue_drops as f64;
    let row = |what: &str, paper: &str, ours: String| vec![what.to_owned(), paper.to_owned(), ours];
    Table {
        caption: format!("One connection of Reno, from {SETTLED:.0} s on"),
        header: ["", "paper, figure 5", "ours"].map(str::to_owned).to_vec(),
        rows: vec![
            row("least round-trip time, ms", "about 18", format!("{:.1}", trips.least)),
            row("greatest, ms", "about 30", format!("{:.1}", trips.greatest)),
            row("before each reduction of the window, ms", "near the greatest", before.tenths("none")),
            row("reductions", "", cuts.len().to_string()),
            row("kept of the window in a reduction", "half", kept.hundredths()),
            row("packets lost, start-up included", "one at a time", format!("{lost:.0}")),
        ],
    }
}

/// A reduction of the congestion window: the samples before and after it.
struct Cut<'a> {
    before: &'a SenderSample,
    after: &'a SenderSample,
}

/// Reductions of the window: from a maximum to the minimum that follows it, where that is less than
/// nine tenths.
fn cuts<'a>(samples: &[&'a SenderSample]) -> Vec<Cut<'a>> {
    let mut cuts: Vec<Cut<'a>> = Vec::new();
    let mut samples = samples.iter().copied().peekable();
    while let Some(before) = samples.next() {
        let mut after = before;
        // A reduction may take a round trip: one packet less for every second acknowledgement.
        while let Some(next) = samples.next_if(|next| next.cwnd_bytes < after.cwnd_bytes) {
            after = next;
        }
        if after.cwnd_bytes * 10 < before.cwnd_bytes * 9 {
            cuts.push(Cut { before, after });
        }
    }
    cuts
}

/// Plots of round-trip time and congestion window of one connection over time (figure 5).
fn traces(watched: &Measured) -> Vec<Plot> {
    let trips = watched.samples.iter().filter_map(|sample| Some((sample.at_seconds, sample.rtt_seconds?)));
    vec![views::round_trip_time(trips.collect::<Vec<_>>()), views::congestion_window(watched.windows())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_are_told_from_one_window_to_the_least_after_it() {
        let sample = |cwnd_bytes| SenderSample { cwnd_bytes, ..SenderSample::default() };
        let samples = [10, 20, 30, 25, 15, 16, 17, 16, 18, 9].map(sample);
        let samples: Vec<&SenderSample> = samples.iter().collect();
        let cuts: Vec<_> = cuts(&samples).iter().map(|cut| (cut.before.cwnd_bytes, cut.after.cwnd_bytes)).collect();
        assert_eq!(cuts, [(30, 15), (18, 9)]);
    }
}
