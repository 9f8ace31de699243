//! The usual plots of traffic over a long path, with the same titles, units and column names
//! wherever they are made.

use icdc_units::{Rate, Span};

use crate::reduce::sliding_means;
use crate::{Baseline, Plot, Series, Stroke, Uniform, Unit, Values};

/// Length of the window of the sliding mean of throughput, as usual meters show it.
const MEAN: Span = Span::from_millis(1000);
/// Distance from one drawn value of the sliding mean to the next.
const SLIDE: Span = Span::from_millis(10);

/// Plot of throughput: in windows of `per_ms`'s step (1 ms), behind it the sliding mean over 1000
/// ms, the bottleneck, and `marks` (see [`marks`]).
///
/// `per_ms` comes from [`Uniform::rates`]: bytes per step, shown in bit/s.
#[must_use]
pub fn throughput(per_ms: Uniform, bottleneck: Option<Rate>, marks: Vec<Series>) -> Plot {
    let window = per_ms.step().as_nanos() as f64 / 1e6;
    let mean = sliding_means(&per_ms, MEAN, SLIDE);
    let end = per_ms.end().as_secs_f64();
    let mut series = vec![
        Series::new(&format!("{window} ms window"), Stroke::Faint, per_ms).column("throughput"),
        Series::new("1000 ms mean", Stroke::Strong, mean).column("throughput_mean_1000ms"),
    ];
    if let Some(bottleneck) = bottleneck {
        let rate = bottleneck.as_bits_per_second() as f64;
        let line = vec![(0.0, rate), (end, rate)];
        series.push(Series::new("bottleneck", Stroke::Limit, line).column("bottleneck"));
    }
    series.extend(marks);
    Plot::new("Throughput", Unit::BitsPerSecond, series)
}

/// Series of events for the foot of a plot: the number of `name` (drops, retransmissions) at each
/// position on the axis.
#[must_use]
pub fn marks(name: &str, counts: impl Into<Values>) -> Series {
    Series::new(name, Stroke::Marks, counts).column(name)
}

/// Plot of the bytes that wait at the bottleneck over time, with the `limit` of its queue if that
/// is given.
#[must_use]
pub fn queue(bytes: impl Into<Values>, limit: Option<icdc_units::ByteCount>) -> Plot {
    let values = bytes.into();
    let end = values.end();
    let mut series = vec![Series::new("waiting", Stroke::Area, values).column("queue")];
    if let Some(limit) = limit.map(|limit| limit.as_u64() as f64) {
        series.push(Series::new("limit", Stroke::Limit, vec![(0.0, limit), (end, limit)]).column("queue_limit"));
    }
    Plot::new("Queue", Unit::Bytes, series)
}

/// Plot of the congestion window over time, in bytes.
#[must_use]
pub fn congestion_window(bytes: impl Into<Values>) -> Plot {
    single("Congestion window", Unit::Bytes, "sender", "cwnd", bytes.into())
}

/// Plot of the pacing rate over time, in bit/s.
#[must_use]
pub fn pacing_rate(bits_per_second: impl Into<Values>) -> Plot {
    single("Pacing rate", Unit::BitsPerSecond, "sender", "pacing_rate", bits_per_second.into())
}

/// Plot of the smoothed round-trip time over time, in seconds.
#[must_use]
pub fn round_trip_time(seconds: impl Into<Values>) -> Plot {
    single("Round-trip time", Unit::Seconds, "smoothed", "rtt", seconds.into()).from_baseline(Baseline::Data)
}

/// Plot over time of one strong line; `name` is for its legend, `column` for its CSV column.
fn single(title: &str, unit: Unit, name: &str, column: &str, values: Values) -> Plot {
    Plot::new(title, unit, vec![Series::new(name, Stroke::Strong, values).column(column)])
}
