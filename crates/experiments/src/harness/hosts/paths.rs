//! Paths as scenarios describe them.

use icdc_units::{ByteCount, Rate, Span};

/// Settings of one direction of a path, which loses only what its queue has no room for.
pub(crate) fn path(rate: Rate, round_trip: Span, queue: ByteCount) -> icdc_path::Settings {
    icdc_path::Settings { rate, delay: round_trip / 2, queue, ..Default::default() }
}
