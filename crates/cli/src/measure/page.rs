//! Makes the report of a measurement.

use icdc_protocol::measure::Sample;
use icdc_report::{Judgement, Plot, Report, Uniform, views};
use icdc_units::Span;

use crate::clock::utc_now;
use crate::command_line::command_line;
use crate::copy::page::stages;
use crate::copy::summary::{megabits, seconds, size};
use crate::measure::figures::Figures;
use crate::measure::show::milliseconds;
use crate::version;

/// The report's page about a measurement.
pub(crate) fn report(figures: &Figures) -> Report {
    let (outcome, judgement) = match figures.errors.first() {
        Some(reason) => (reason.clone(), Judgement::Failed),
        None if figures.interrupted => ("Interrupted".into(), Judgement::Limited),
        None => ("Measured to the end".into(), Judgement::Good),
    };
    let window = match figures.window_bytes {
        0 => "tuned by the kernel".to_owned(),
        bytes => size(bytes),
    };
    let mut facts = vec![
        ("Started".to_owned(), utc_now()),
        ("Goodput".into(), megabits(figures.goodput_bps)),
        ("Data".into(), size(figures.bytes)),
        ("Time".into(), seconds(figures.seconds)),
        ("Segments retransmitted".into(), figures.retransmitted_segments.to_string()),
        ("Congestion control".into(), figures.congestion.clone()),
        ("Connections".into(), figures.streams.to_string()),
        ("Window".into(), window),
        ("Arrivals from".into(), figures.arrivals_source().into()),
    ];
    let optional = [
        ("Least round-trip time", figures.min_rtt_seconds.map(milliseconds)),
        ("Median round-trip time", figures.median_rtt_seconds.map(milliseconds)),
        ("90 % of the steady rate after", figures.start_up_seconds.map(seconds)),
    ];
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    facts.extend(version::made_by());
    Report {
        title: "icdc measure".into(),
        command: command_line(std::env::args_os()),
        outcome,
        judgement,
        summary: facts,
        stages: stages(figures.limited_by.iter().map(|(name, share)| (*name, *share))),
        plots: plots(figures),
        origin: figures.record.begun(),
        failures: figures.errors.clone(),
        ..Report::default()
    }
}

/// Plots of a measurement: throughput, congestion window, pacing rate, round-trip time.
fn plots(figures: &Figures) -> Vec<Plot> {
    let mut retransmitted = Vec::new();
    let mut before = 0;
    for (at, samples) in figures.record.looks() {
        let sum: u64 = samples.iter().map(|sample| sample.retransmitted_segments).sum();
        if sum > before {
            retransmitted.push((at, (sum - before) as f64));
        }
        before = sum;
    }
    let pacing = looks(figures, |samples| {
        let each = samples.iter().map(|sample| sample.pacing_rate().map(|rate| rate.as_bits_per_second() as f64));
        each.sum::<Option<f64>>()
    });
    let cwnd = looks(figures, |samples| Some(samples.iter().map(|sample| sample.cwnd_bytes as f64).sum()));
    let rtt = looks(figures, |samples| {
        let mean = samples.iter().map(|sample| sample.rtt_nanos as f64).sum::<f64>() / samples.len() as f64 / 1e9;
        (mean > 0.0).then_some(mean)
    });
    let arrivals = figures.arrivals.iter().map(|&bytes| i64::from(bytes)).collect();
    let arrivals = Uniform::rates(Span::ZERO, Span::from_millis(1), arrivals);
    let marks = if retransmitted.is_empty() { Vec::new() } else { vec![views::marks("retransmitted", retransmitted)] };
    let throughput = views::throughput(arrivals, None, marks);
    vec![
        Plot { title: "Throughput, payload".to_owned(), ..throughput },
        views::congestion_window(cwnd),
        views::pacing_rate(pacing),
        views::round_trip_time(rtt),
    ]
}

/// Points of a plot: a value of the samples that were taken at one time, by seconds since the
/// sender's start.
fn looks(figures: &Figures, value: impl Fn(&[Sample]) -> Option<f64>) -> Vec<(f64, f64)> {
    figures.record.looks().filter_map(|(at, samples)| Some((at, value(samples)?))).collect()
}
