//! Formats of numbers in tables' cells.

use icdc_units::Rate;

/// Text of a rate in whole Mbit/s.
pub(crate) fn mbit(rate: Rate) -> String {
    format!("{:.0}", rate.as_bits_per_second() as f64 / 1e6)
}

/// A loss ratio, as tables and columns name it.
pub(crate) fn ratio(loss: f64) -> String {
    if loss > 0.0 { format!("{loss:e}") } else { "0".to_owned() }
}
