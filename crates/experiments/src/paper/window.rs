//! Rate against the size of the socket buffers, by round-trip time, protocol and MTU.
//!
//! The paper's results (Tamatsukuri et al., figures 3 and 6): a connection needs buffers of three
//! times what fills the path (RTT × bandwidth), because Linux advertises half of a receive buffer
//! and overhead takes of the rest; IPv4 and IPv6 are equal within noise; jumbo frames cost less and
//! so reach more where the processor limits. The paper's peak is that of 10 Gbit/s hardware, so the
//! table shows shares of the bottleneck.

use icdc_lab::{Buffers, Settings};
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit};
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::measured::{Measured, failures, marked};
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;

/// Scenario `window` of `icdc lab run`: rate by the size of the socket buffers, round-trip time, IP
/// version and MTU.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "window",
    about: "rate by socket buffers of 0.5 to 4 × RTT × bandwidth, round-trip time, IPv4 and IPv6, MTU 1500 and 9000 (10 Gbit/s IPv6 LFN)",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIPS: [Span; 5] =
    [Span::ZERO, Span::from_millis(100), Span::from_millis(200), Span::from_millis(300), Span::from_millis(400)];
/// Sizes of the socket buffers in halves of the bandwidth-delay product, each with the paper's
/// finding on the rate.
const HALVES: [(u64, &str); 5] = [(1, ""), (2, ""), (4, ""), (6, "full"), (8, "full")];
/// Least round trip for the bandwidth-delay product: the delay of two stacks and a queue.
const LEAST_ROUND_TRIP: Span = Span::from_millis(1);

/// Case: IP version, MTU in bytes, round trip, and size of the buffers in halves of the
/// bandwidth-delay product.
struct BufferSize {
    ipv6: bool,
    mtu: u64,
    round_trip: Span,
    halves: u64,
}

impl BufferSize {
    fn name(&self) -> String {
        let protocol = if self.ipv6 { "IPv6" } else { "IPv4" };
        format!("{protocol}, MTU {}, round trip {}, buffer {}", self.mtu, self.round_trip, times(self.halves))
    }
}

/// Measures the rate by the size of the socket buffers in all cases; gives the report.
fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let (protocols, mtus): (&[bool], &[u64]) =
        if bench.quick { (&[false], &[1500]) } else { (&[false, true], &[1500, 9000]) };
    let round_trips = if bench.quick { &ROUND_TRIPS[1..2] } else { &ROUND_TRIPS[..] };
    let (mut tables, mut plots, mut spoilt) = (Vec::new(), Vec::new(), Vec::new());
    for &ipv6 in protocols {
        for &mtu in mtus {
            let mut rows: Vec<Vec<String>> =
                HALVES.iter().map(|&(halves, paper)| vec![times(halves), paper.to_owned()]).collect();
            let mut lines = Vec::new();
            for &round_trip in round_trips {
                let mut points = Vec::new();
                for (row, &(halves, _)) in rows.iter_mut().zip(&HALVES) {
                    let case = BufferSize { ipv6, mtu, round_trip, halves };
                    (bench.say)(&case.name());
                    let measured = measure(bench, &case)?;
                    let share = measured.recording.peak_rate().ratio(RATE);
                    row.push(marked(format!("{:.0}", share * 100.0), &measured));
                    points.push((halves as f64 / 2.0, share * RATE.as_bits_per_second() as f64));
                    spoilt.extend(failures([(case.name(), &measured)]));
                }
                lines.push(Series::new(&format!("{round_trip}"), Stroke::Line, points));
            }
            let protocol = if ipv6 { "IPv6" } else { "IPv4" };
            let header = ["buffer", "paper"].map(str::to_owned).into_iter();
            tables.push(Table {
                caption: format!(
                    "{protocol}, MTU {mtu}: greatest rate over a second, % of 1 Gbit/s on the wire, by round trip"
                ),
                header: header.chain(round_trips.iter().map(Span::to_string)).collect(),
                rows,
            });
            plots.push(
                Plot::new(&format!("{protocol}, MTU {mtu}"), Unit::BitsPerSecond, lines)
                    .over("Buffer, × RTT × bandwidth", Unit::Number),
            );
        }
    }
    Ok(Report { tables, plots, failures: spoilt, ..Report::default() })
}

/// Measures one flow of CUBIC with buffers of this size, and a queue in which nothing is lost.
fn measure(bench: &Bench<'_>, case: &BufferSize) -> Result<Measured, ExperimentError> {
    let fills = RATE * case.round_trip.max(LEAST_ROUND_TRIP);
    // No loss disturbs: whatever a window holds fits.
    let queue = fills * 4 + ByteCount::from_mib(1);
    let direction = icdc_path::Settings { mtu: ByteCount::new(case.mtu), ..path(RATE, case.round_trip, queue) };
    let buffers = Buffers::AtMost((fills * case.halves) / 2);
    let settings = Settings { buffers, ..Settings::symmetric(direction) };
    // Slow start, the receiver's tuning (once per round trip), and two seconds at the peak.
    let seconds = 3 + (case.round_trip * 14).as_secs();
    let seconds = if bench.quick { 4 } else { seconds };
    trial::run(bench, &Trial { ipv6: case.ipv6, ..Trial::new(settings, seconds, "cubic") })
}

/// Text of a number of halves as a multiple: 3 is `1.5 ×`.
fn times(halves: u64) -> String {
    format!("{} ×", halves as f64 / 2.0)
}
