//! Ticks at round numbers and their labels.
//!
//! Steps are 1, 2 or 5 times a power of ten (for time above ten seconds: what clocks use), the
//! smallest that leaves at most the wanted number of intervals.

use crate::Unit;

/// Scale of one axis of a plot: its range, and its ticks as (value, label).
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// Position of a value between 0 (low) and 1 (high).
    pub(crate) fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// Steps of time above ten seconds that clocks would choose, in seconds.
const CLOCK_STEPS: [f64; 15] =
    [15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 21600.0, 43200.0, 86400.0];

/// Makes the scale of an axis of values that contains `low` and `high`, ends at ticks, and has
/// about `intervals` between them; returns with it the unit and its prefix as text.
pub(crate) fn values(low: f64, high: f64, unit: Unit, intervals: usize) -> (Scale, String) {
    let high = if high > low { high } else { low + 1.0 };
    let step = decimal_step((high - low) / intervals as f64);
    let first = (low / step).floor();
    // The small allowance keeps a value that lies on a tick, but for rounding, below it.
    let last = (high / step - 1e-9).ceil().max(first + 1.0);
    let (factor, prefix) = prefix(high, unit);
    let ticks = (0..=(last - first) as usize)
        .map(|index| (first + index as f64) * step)
        .map(|value| (value, number(value / factor, step / factor)))
        .collect();
    (Scale { low: first * step, high: last * step, ticks }, format!("{prefix}{}", unit.symbol()))
}

/// Makes the scale of a time axis from 0 to exactly `end` seconds, with at most about `intervals`
/// intervals.
pub(crate) fn time(end: f64, intervals: usize) -> Scale {
    let end = if end > 0.0 { end } else { 1.0 };
    let rough = end / intervals as f64;
    let step = if rough <= 10.0 {
        decimal_step(rough)
    } else {
        let day = 86400.0;
        CLOCK_STEPS.into_iter().find(|&step| step >= rough).unwrap_or_else(|| (rough / day).ceil() * day)
    };
    let ticks = (0..=(end / step + 1e-9) as usize)
        .map(|index| index as f64 * step)
        .map(|value| (value, clock(value, step, end)))
        .collect();
    Scale { low: 0.0, high: end, ticks }
}

/// Distance of ticks: the least of 1, 2 and 5 times a power of ten that is not below `rough`.
fn decimal_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Divisor and prefix for the values of an axis up to `largest`: of the unit's prefixes the
/// greatest that leaves at least 1, or else the least.
fn prefix(largest: f64, unit: Unit) -> (f64, &'static str) {
    let known = unit.prefixes(largest);
    let fitting = known.iter().find(|(factor, _)| largest >= *factor * (1.0 - 1e-9));
    *fitting.unwrap_or(&known[known.len() - 1])
}

/// Text of a tick's value, with as many decimals as the distance of ticks needs.
fn number(value: f64, step: f64) -> String {
    let decimals = (0..9).find(|&digits| {
        let scaled = step * 10_f64.powi(digits);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    });
    format!("{value:.*}", decimals.unwrap_or(9) as usize)
}

/// Label of a tick on a time axis that ends at `end` seconds: seconds, or minutes and hours as
/// clocks show them.
fn clock(seconds: f64, step: f64, end: f64) -> String {
    if end <= 120.0 {
        return format!("{} s", number(seconds, step));
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if end < 3600.0 { format!("{minutes}:{seconds:02}") } else { format!("{hours}:{minutes:02}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Scale) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn values_get_round_steps_and_a_prefix() {
        let (axis, unit) = values(0.0, 934e6, Unit::BitsPerSecond, 5);
        assert_eq!((labels(&axis), unit.as_str()), (vec!["0", "200", "400", "600", "800", "1000"], "Mbit/s"));
        let (axis, unit) = values(0.0, 12.4e9, Unit::BitsPerSecond, 5);
        assert_eq!((labels(&axis), unit.as_str()), (vec!["0", "5", "10", "15"], "Gbit/s"));
        let (axis, unit) = values(0.3001, 0.3049, Unit::Seconds, 5);
        assert_eq!((labels(&axis), unit.as_str()), (vec!["300", "301", "302", "303", "304", "305"], "ms"));
        let (axis, unit) = values(0.0, 0.0, Unit::Segments, 5);
        assert_eq!((labels(&axis), unit.as_str()), (vec!["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"], "segments"));
        let (axis, unit) = values(0.0, 25000.0, Unit::Segments, 5);
        assert_eq!((labels(&axis), unit.as_str()), (vec!["0", "5", "10", "15", "20", "25"], "thousand segments"));
    }

    #[test]
    fn ticks_enclose_every_range() {
        for low in [0.0, 1e-7, 0.9, 37.0, 1e9] {
            for width in [1e-9, 3e-4, 1.0, 17.0, 1e12] {
                let (axis, _) = values(low, low + width, Unit::BitsPerSecond, 5);
                assert!(axis.low <= low && axis.high >= (low + width) * (1.0 - 1e-9), "{low} + {width}");
                assert!((2..=8).contains(&axis.ticks.len()), "{low} + {width}: {} ticks", axis.ticks.len());
            }
        }
    }

    #[test]
    fn time_is_labelled_as_clocks_do() {
        assert_eq!(labels(&time(2.1, 8)), ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]);
        assert_eq!(labels(&time(40.0, 8)), ["0 s", "5 s", "10 s", "15 s", "20 s", "25 s", "30 s", "35 s", "40 s"]);
        assert_eq!(labels(&time(92.0, 8)), ["0 s", "15 s", "30 s", "45 s", "60 s", "75 s", "90 s"]);
        assert_eq!(labels(&time(210.0, 8)), ["0:00", "0:30", "1:00", "1:30", "2:00", "2:30", "3:00", "3:30"]);
        assert_eq!(labels(&time(4.0 * 3600.0, 4)), ["0:00:00", "1:00:00", "2:00:00", "3:00:00", "4:00:00"]);
        assert_eq!(time(0.0, 8).high, 1.0);
        assert!(time(1e9, 8).ticks.len() <= 9);
    }
}
