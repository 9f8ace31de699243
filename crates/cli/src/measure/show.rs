//! Results of a measurement as text, JSON and CSV.

use std::fmt::Write;

use icdc_protocol::measure::Sample;
use icdc_units::{ByteCount, Rate, Time};
use serde_json::json;

use crate::copy::summary::{counted, megabits, seconds};
use crate::measure::figures::Figures;

/// A sample of one sending connection as a line of JSON.
pub(crate) fn sample(sample: &Sample) -> String {
    let span = |nanos: u64| (nanos > 0).then_some(nanos as f64 / 1e9);
    json!({
        "type": "sample",
        "at_seconds": sample.at_nanos as f64 / 1e9,
        "stream": sample.stream,
        "rtt_seconds": span(sample.rtt_nanos),
        "min_rtt_seconds": span(sample.min_rtt_nanos),
        "cwnd_bytes": sample.cwnd_bytes,
        "pacing_rate_bps": sample.pacing_rate().map(Rate::as_bits_per_second),
        "delivery_rate_bps": sample.delivery_rate_bps,
        "retransmitted_segments": sample.retransmitted_segments,
        "bytes_acked": sample.bytes_acked,
    })
    .to_string()
}

/// The measurement's summary, the last line of its JSON output.
pub(crate) fn summary(figures: &Figures, with_series: bool) -> String {
    let mut summary = json!({
        "type": "summary",
        "seconds": figures.seconds,
        "bytes": figures.bytes,
        "goodput_bps": figures.goodput_bps,
        "retransmitted_segments": figures.retransmitted_segments,
        "cc": figures.congestion,
        "streams": figures.streams,
        "mss_bytes": figures.mss_bytes,
        "window_bytes": figures.window_bytes,
        "min_rtt_seconds": figures.min_rtt_seconds,
        "median_rtt_seconds": figures.median_rtt_seconds,
        "arrivals": figures.arrivals_source(),
        "start_up_seconds": figures.start_up_seconds,
        "limited_by": figures.limited_by,
        "interrupted": figures.interrupted,
        "begun_monotonic_seconds": figures.record.begun().map(|begun| (begun - Time::ORIGIN).as_secs_f64()),
        "errors": figures.errors,
    });
    if with_series {
        summary["series_ms"] = json!(figures.arrivals);
    }
    summary.to_string()
}

/// The measurement's result as lines for people.
pub(crate) fn lines(figures: &Figures) -> Vec<String> {
    let mut first = vec![format!(
        "{} in {} at {}",
        ByteCount::new(figures.bytes),
        seconds(figures.seconds),
        megabits(figures.goodput_bps)
    )];
    if figures.streams > 1 {
        first.push(counted(figures.streams.into(), "connection"));
    }
    first.push(format!("{} retransmitted", counted(figures.retransmitted_segments, "segment")));
    if figures.interrupted {
        first.push("interrupted".into());
    }
    let mut second = Vec::new();
    if let Some(least) = figures.min_rtt_seconds {
        let median =
            figures.median_rtt_seconds.map_or_else(String::new, |rtt| format!(", median {}", milliseconds(rtt)));
        second.push(format!("round-trip time least {}{median}", milliseconds(least)));
    }
    if let Some(start_up) = figures.start_up_seconds {
        second.push(format!("90 % of the steady rate after {start_up:.2} s"));
    }
    let window = match figures.window_bytes {
        0 => "window tuned by the kernel".to_owned(),
        bytes => format!("window {}", ByteCount::new(bytes)),
    };
    let third = [
        figures.congestion.clone(),
        window,
        format!("segments of {}", ByteCount::new(figures.mss_bytes)),
        format!("arrivals from {}", if figures.packets { "packets" } else { "the socket" }),
    ];
    [first.join("; "), second.join("; "), third.join("; ")].into_iter().filter(|line| !line.is_empty()).collect()
}

/// Bytes that arrived in each millisecond, as CSV.
pub(crate) fn series(bins: &[u32]) -> String {
    let mut text = String::from("time_ms,received_bytes\n");
    for (time, bytes) in bins.iter().enumerate() {
        writeln!(text, "{time},{bytes}").expect("text grows");
    }
    text
}

/// A round-trip time in seconds as text in milliseconds.
pub(crate) fn milliseconds(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    if milliseconds < 10.0 { format!("{milliseconds:.3} ms") } else { format!("{milliseconds:.1} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpaced_connection_has_no_pacing_rate() {
        let unpaced = Sample { pacing_rate_bps: u64::MAX, rtt_nanos: 1_500_000, ..Sample::default() };
        let line: serde_json::Value = serde_json::from_str(&sample(&unpaced)).unwrap();
        assert!(line["pacing_rate_bps"].is_null() && line["min_rtt_seconds"].is_null());
        assert_eq!(line["rtt_seconds"], 0.0015);
    }

    #[test]
    fn the_series_has_a_row_per_millisecond() {
        assert_eq!(series(&[3, 0, 4]), "time_ms,received_bytes\n0,3\n1,0\n2,4\n");
    }
}
