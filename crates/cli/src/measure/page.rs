//! Makes the report of a measurement.

use icdc_protocol::measure::Sample;
use icdc_report::{Baseline, Plot, Report, Series, Stroke, Unit, reduce};
use icdc_units::{ByteCount, Rate};

use crate::clock::utc_now;
use crate::command_line::command_line;
use crate::copy::summary::{megabits, seconds};
use crate::measure::figures::{Figures, SECOND, moving_sums};
use crate::measure::show::milliseconds;

/// Columns in which long series are drawn.
const COLUMNS: usize = 4096;

/// The page about a run.
pub(crate) fn report(figures: &Figures) -> Report {
    let failed = !figures.errors.is_empty();
    let outcome = match figures.errors.first() {
        Some(reason) => reason.clone(),
        None if figures.interrupted => "Interrupted".into(),
        None => "Measured to the end".into(),
    };
    let window = match figures.window_bytes {
        0 => "tuned by the kernel".to_owned(),
        bytes => ByteCount::new(bytes).to_string(),
    };
    let mut facts = vec![
        ("Started".to_owned(), utc_now()),
        ("Goodput".into(), megabits(figures.goodput_bps)),
        ("Data".into(), ByteCount::new(figures.bytes).to_string()),
        ("Time".into(), seconds(figures.seconds)),
        ("Segments sent again".into(), figures.retransmitted_segments.to_string()),
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
    Report {
        title: "icdc measure".into(),
        command: command_line(std::env::args_os()),
        outcome,
        failed,
        summary: facts,
        stages: figures.limited_by.iter().map(|(name, share)| (name.replace('_', " "), *share)).collect(),
        plots: plots(figures),
        failures: figures.errors.clone(),
    }
}

fn plots(figures: &Figures) -> Vec<Plot> {
    let arrivals = vec![
        series("1 ms", Stroke::Faint, rates(&figures.arrivals, 1)),
        series("moving mean of 1000 ms", Stroke::Strong, rates(&figures.arrivals, SECOND)),
    ];
    let mut retransmitted = Vec::new();
    let (mut before, mut since) = (0, 0.0);
    for (at, samples) in figures.record.looks() {
        let sum: u64 = samples.iter().map(|sample| sample.retransmitted_segments).sum();
        if at > since {
            retransmitted.push((at, sum.saturating_sub(before) as f64 / (at - since)));
        }
        (before, since) = (sum, at);
    }
    // A socket that is not paced says so by the greatest number there is.
    let paced =
        |samples: &[Sample]| samples.iter().all(|sample| sample.pacing_rate_bps < Rate::MAX.as_bits_per_second());
    let pacing = looks(figures, |samples| {
        paced(samples).then(|| samples.iter().map(|sample| sample.pacing_rate_bps as f64).sum())
    });
    let cwnd = looks(figures, |samples| Some(samples.iter().map(|sample| sample.cwnd_bytes as f64).sum()));
    let rtt = looks(figures, |samples| {
        let mean = samples.iter().map(|sample| sample.rtt_nanos as f64).sum::<f64>() / samples.len() as f64 / 1e9;
        (mean > 0.0).then_some(mean)
    });
    vec![
        plot("Arrivals", Unit::BitsPerSecond, Baseline::Zero, arrivals),
        plot(
            "Segments sent again",
            Unit::SegmentsPerSecond,
            Baseline::Zero,
            vec![series("all connections", Stroke::Area, retransmitted)],
        ),
        plot("Congestion window", Unit::Bytes, Baseline::Zero, vec![series("all connections", Stroke::Strong, cwnd)]),
        plot(
            "Pacing rate",
            Unit::BitsPerSecond,
            Baseline::Zero,
            vec![series("all connections", Stroke::Strong, pacing)],
        ),
        plot("Round-trip time", Unit::Seconds, Baseline::Data, vec![series("smoothed, mean", Stroke::Strong, rtt)]),
    ]
}

/// Bits per second over the last `window` milliseconds.
fn rates(bins: &[u32], window: usize) -> Vec<(f64, f64)> {
    let bits_per_byte = 8.0 * SECOND as f64 / window as f64;
    let sums = moving_sums(bins, window).enumerate();
    let points: Vec<_> =
        sums.map(|(index, sum)| ((index + 1) as f64 / SECOND as f64, sum as f64 * bits_per_byte)).collect();
    reduce::envelope(&points, COLUMNS)
}

fn looks(figures: &Figures, value: impl Fn(&[Sample]) -> Option<f64>) -> Vec<(f64, f64)> {
    let points: Vec<_> = figures.record.looks().filter_map(|(at, samples)| Some((at, value(samples)?))).collect();
    reduce::envelope(&points, COLUMNS)
}

fn series(name: &str, stroke: Stroke, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), stroke, points }
}

fn plot(title: &str, unit: Unit, baseline: Baseline, series: Vec<Series>) -> Plot {
    Plot { title: title.into(), unit, baseline, series }
}
