//! Paths as scenarios describe them.

use icdc_units::{ByteCount, Rate, Span};

/// One direction of a path, without loss but by its queue.
pub(crate) fn path(rate: Rate, round_trip: Span, queue: ByteCount) -> icdc_path::Settings {
    icdc_path::Settings { rate, delay: round_trip / 2, queue, ..Default::default() }
}
