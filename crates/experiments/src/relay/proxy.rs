//! The TCP-proxy paper's figures 6 to 8: what plain hosts get by their socket buffers, direct and
//! through two relays, with Reno, HighSpeed and gHSTCP between the relays (Yamanegi, Hama,
//! Hasegawa, Murata et al.).
//!
//! The path is that of the experiments: bottleneck 70 Mbit/s, queue 100 KB drop-tail, round trips
//! of 18 ms (Tokyo–Osaka) and, as to Okinawa, 43 and 68 ms (25 ms of delay added, to the round trip
//! or each way: the paper does not say). The paper ran each case for 2 minutes, five times, over a
//! public line with others on it; here the path has no other traffic, so all loss is by the flow's
//! own overflows. The paper's values are in pictures only: its statements stand beside our numbers.
//! A buffer cannot carry more than its size per round trip, which stands beside as well; Linux
//! gives up to nearly twice the size that is asked for, but for 64 KiB, which hosts without window
//! scaling have.
//!
//! Relays stand next to the hosts, as they did, and have buffers that do not limit. Counted is what
//! the receiver reads from its first byte on.

use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::measurement::at_once::{self, Repeated};
use crate::harness::scenario::Scenario;
use crate::relay::paper_path::{ROUND_TRIPS, UNSCALED, between, settings};
use crate::relay::plain_hosts::Plain;
use crate::relay::relayed::{self, Relayed, Relaying};

/// Scenario `proxy` of `icdc lab run`: rate of plain hosts by their socket buffers, direct and
/// through two relays (TCP proxy, figures 6 to 8).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "proxy",
    about: "plain hosts' rate by socket buffer at 70 Mbit/s, 18, 43 and 68 ms: direct, and through relays with Reno, HighSpeed, gHSTCP (TCP proxy)",
    has_rows: true,
    is_parallel: true,
    run,
};

/// Sizes of the plain hosts' socket buffers without relays.
const BUFFERS: [ByteCount; 4] = [UNSCALED, ByteCount::from_kib(256), ByteCount::from_mib(1), ByteCount::from_mib(4)];
/// Buffer sizes measured through relays: the least and the greatest, which show that the size makes
/// no difference.
const RELAYED_BUFFERS: [ByteCount; 2] = [BUFFERS[0], BUFFERS[3]];
/// Length of a run in seconds.
const SECONDS: u64 = 120;
const RUNS: u64 = 5;

/// A way by which the two hosts are connected: direct (`cc` is `None`), or by relays with this
/// congestion control between them.
struct Between {
    cc: Option<&'static str>,
    figure: &'static str,
    /// The paper's findings at the short and the long round trip, with small and with large
    /// buffers.
    findings: [[&'static str; 2]; 2],
}

/// The ways that are compared.
const BETWEEN: [Between; 4] = [
    Between { cc: None, figure: "figure 6", findings: [["not full", "full"], ["short", "short"]] },
    Between {
        cc: Some("reno"),
        figure: "figure 7",
        findings: [["very high", "very high"], ["as with large ones", "below 18 ms"]],
    },
    Between {
        cc: Some("highspeed"),
        figure: "figure 8",
        findings: [["", ""], ["better than Reno", "better than Reno"]],
    },
    Between {
        cc: Some("ghstcp"),
        figure: "figure 8",
        findings: [["", ""], ["better still, below 70", "better still, below 70"]],
    },
];

/// Row of the table: way, round trip and size of the hosts' buffers, with its runs.
struct BufferRuns {
    cc: Option<&'static str>,
    figure: &'static str,
    /// The paper's statement about the cell.
    paper: &'static str,
    round_trip: Span,
    buffer: ByteCount,
    runs: Vec<Relayed>,
}

/// All rows of the table, or two for a quick run of the scenario.
fn cases(quick: bool) -> Vec<BufferRuns> {
    let mut cases = Vec::new();
    for (which, round_trip) in ROUND_TRIPS.into_iter().enumerate() {
        for Between { cc, figure, findings } in BETWEEN {
            let buffers = if cc.is_some() { &RELAYED_BUFFERS[..] } else { &BUFFERS[..] };
            for &buffer in buffers {
                let paper = findings[usize::from(which > 0)][usize::from(buffer > UNSCALED)];
                cases.push(BufferRuns { cc, figure, paper, round_trip, buffer, runs: Vec::new() });
            }
        }
    }
    if quick {
        // Direct and through relays, with the least buffers at the long round trip.
        cases.retain(|case| case.buffer == UNSCALED && case.round_trip == LONG);
    }
    cases
}

impl Repeated for BufferRuns {
    type Run = Relayed;

    fn name(&self) -> String {
        format!("{}, {}, buffers {}", between(self.cc), self.round_trip, self.buffer)
    }

    fn keep(&mut self, run: Relayed) {
        self.runs.push(run);
    }
}

impl BufferRuns {
    /// The measurement of this row, `seconds` long.
    fn relaying(&self, seconds: u64) -> Relaying {
        Relaying {
            legs: vec![settings(self.round_trip)],
            cc: self.cc,
            plain: Plain { congestion: "reno", window_scaling: self.buffer > UNSCALED },
            buffer: self.buffer,
            earlier: Span::ZERO,
            delay: Span::ZERO,
            lasts: Span::from_secs(seconds),
            beside: None,
        }
    }
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let seconds = if bench.quick { 8 } else { SECONDS };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let mut cases = bench.wanted(cases(bench.quick), BufferRuns::name)?;
    let relay = |bench: &Bench<'_>, case: &BufferRuns, _| relayed::run(bench, &case.relaying(seconds));
    at_once::repeat(bench, runs, &mut cases, relay)?;
    let all = cases.iter().flat_map(|case| case.runs.iter().map(|run| (case.name(), run)));
    Ok(Report {
        failures: relayed::failures(all),
        tables: vec![table(&cases, seconds, runs), order(&cases)],
        plots: ROUND_TRIPS.iter().filter_map(|round_trip| plot(&cases, *round_trip)).collect(),
        ..Report::default()
    })
}

/// Table of the goodput of each row, beside the paper's findings.
fn table(cases: &[BufferRuns], seconds: u64, runs: u64) -> Table {
    let row = |case: &BufferRuns| {
        let most = (case.buffer / case.round_trip).min(payload_rate(&settings(case.round_trip).forward));
        let bound =
            if case.cc.is_some() { String::new() } else { format!("{:.1}", most.as_bits_per_second() as f64 / 1e6) };
        let again = Spread::of(case.runs.iter().filter_map(|run| Some(run.legs.first()?.retransmissions as f64)));
        let drops = Spread::of(case.runs.iter().map(|run| run.queue_drops as f64));
        vec![
            case.round_trip.to_string(),
            between(case.cc),
            case.buffer.to_string(),
            case.figure.to_owned(),
            case.paper.to_owned(),
            relayed::goodput(&case.runs).tenths("none"),
            bound,
            drops.whole(),
            if again.median.is_nan() { String::new() } else { again.whole() },
            case.runs.iter().filter(|run| run.spoilt.is_some()).count().to_string(),
        ]
    };
    let header = [
        "round trip",
        "",
        "hosts' buffers",
        "paper",
        "the paper's finding",
        "ours, Mbit/s",
        "buffer per round trip, at most, Mbit/s",
        "dropped at the queue",
        "retransmitted on the relays' leg",
        "invalid runs",
    ];
    Table {
        caption: format!(
            "70 Mbit/s, queue 100 KB, {seconds} s from the first byte: goodput, median of {runs} (least to greatest); payload can reach {:.1} Mbit/s",
            payload_rate(&settings(ROUND_TRIPS[0]).forward).as_bits_per_second() as f64 / 1e6
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: cases.iter().map(row).collect(),
    }
}

/// Row of the table to which a finding refers: congestion control of the relays (`None` without
/// relays), round trip, and the hosts' buffers.
type Place = (Option<&'static str>, Span, ByteCount);

/// The short round trip, in the paper's findings.
const SHORT: Span = ROUND_TRIPS[0];
/// The long round trip, in the paper's findings.
const LONG: Span = ROUND_TRIPS[2];
/// The small socket buffers, in the paper's findings.
const SMALL: ByteCount = BUFFERS[0];
/// The large socket buffers, in the paper's findings.
const LARGE: ByteCount = BUFFERS[3];

/// The paper's findings: what is compared, the figure, the one place, the other, and how the
/// goodput at the one stands to that at the other.
const FINDINGS: [(&str, u32, Place, Place, &str); 7] = [
    ("direct: large buffers against small ones", 6, (None, SHORT, LARGE), (None, SHORT, SMALL), "more"),
    ("direct, large buffers: long round trip against short", 6, (None, LONG, LARGE), (None, SHORT, LARGE), "less"),
    (
        "small buffers: through relays with Reno against direct",
        7,
        (Some("reno"), SHORT, SMALL),
        (None, SHORT, SMALL),
        "more",
    ),
    (
        "through relays with Reno: small buffers against large ones",
        7,
        (Some("reno"), LONG, SMALL),
        (Some("reno"), LONG, LARGE),
        "alike",
    ),
    (
        "through relays with Reno: long round trip against short",
        7,
        (Some("reno"), LONG, SMALL),
        (Some("reno"), SHORT, SMALL),
        "less",
    ),
    (
        "long round trip: HighSpeed against Reno",
        8,
        (Some("highspeed"), LONG, SMALL),
        (Some("reno"), LONG, SMALL),
        "more",
    ),
    (
        "long round trip: gHSTCP against HighSpeed",
        8,
        (Some("ghstcp"), LONG, SMALL),
        (Some("highspeed"), LONG, SMALL),
        "more",
    ),
];

/// Table that compares the goodput of two rows for each of the paper's findings.
fn order(cases: &[BufferRuns]) -> Table {
    let find = |place: &Place| cases.iter().find(|case| (case.cc, case.round_trip, case.buffer) == *place);
    let row = |(what, figure, one, other, paper): &(&str, u32, Place, Place, &str)| {
        let ratio = relayed::goodput(&find(one)?.runs).median / relayed::goodput(&find(other)?.runs).median;
        let ours = match ratio {
            ratio if ratio > 1.02 => "more",
            ratio if ratio < 0.98 => "less",
            _ => "alike",
        };
        Some(vec![
            (*what).to_owned(),
            format!("figure {figure}"),
            (*paper).to_owned(),
            ours.to_owned(),
            format!("{ratio:.2}"),
        ])
    };
    Table {
        caption: "The paper's findings as comparisons of medians; alike: within 2 %".to_owned(),
        header: ["", "paper", "the paper's finding", "ours", "ratio"].map(str::to_owned).to_vec(),
        rows: FINDINGS.iter().filter_map(row).collect(),
    }
}

/// Plot of goodput over buffer size; `None` if nothing was measured.
fn plot(cases: &[BufferRuns], round_trip: Span) -> Option<Plot> {
    let series: Vec<Series> = BETWEEN
        .iter()
        .filter_map(|Between { cc, .. }| {
            let of_way = cases.iter().filter(|case| case.cc == *cc && case.round_trip == round_trip);
            let points: Vec<(f64, f64)> =
                of_way.map(|case| (case.buffer.as_u64() as f64, relayed::goodput(&case.runs).median * 1e6)).collect();
            (!points.is_empty()).then(|| Series::new(&between(*cc), Stroke::Line, points))
        })
        .collect();
    let title = format!("Goodput over the hosts' socket buffers, {round_trip}");
    (!series.is_empty())
        .then(|| Plot::new(&title, Unit::BitsPerSecond, series).over("Socket buffers of the hosts", Unit::Bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_compares_cases_that_there_are() {
        assert_eq!(order(&cases(false)).rows.len(), 7);
    }
}
