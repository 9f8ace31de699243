//! How many connections a path needs.
//!
//! A connection has no more under way than its socket buffers allow. Where nobody has raised the
//! kernels' limits, that is about 3 MiB at either end (half of the third value of `tcp_rmem`, 6 MiB
//! in Linux), so on a long path one connection carries a small part of what the path does.

use icdc_units::{ByteCount, Rate, Span};

/// What one connection has under way at least, with the kernel's own limits of buffers.
const WINDOW: ByteCount = ByteCount::from_mib(3);
/// The rate that is to be reached on a path of which nothing is known.
const UNKNOWN: Rate = Rate::from_bits_per_second(1_200_000_000);
/// Most connections that are made without being asked for.
pub const MOST: u8 = 16;

/// Connections for a path of this round-trip time that is known to carry `known`.
#[must_use]
pub fn needed(round_trip: Span, known: Option<Rate>) -> u8 {
    let rate = known.map_or(UNKNOWN, |known| known + known / 4);
    let windows = (rate * round_trip).as_u64().div_ceil(WINDOW.as_u64());
    u8::try_from(windows).unwrap_or(MOST).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_need_many_and_short_ones_one() {
        let of = |millis| needed(Span::from_millis(millis), None);
        assert_eq!([of(0), of(1), of(20), of(50), of(100), of(300), of(1000)], [1, 1, 1, 3, 5, 15, 16]);
        let known = |mbit: u64| needed(Span::from_millis(300), Some(Rate::from_bits_per_second(mbit * 1_000_000)));
        assert_eq!([known(10), known(100), known(900), known(100_000)], [1, 2, 14, 16]);
    }
}
