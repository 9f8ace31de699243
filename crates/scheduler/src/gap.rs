//! Gaps as frames: PAUSE frames with a pause time of zero (IEEE 802.3 annex 31B), which every
//! switch drops at its input port and which pause no sender.

use icdc_units::ByteCount;

/// The shortest gap that frames can fill: 60 bytes and the wire's 24.
pub const LEAST_GAP: ByteCount = ByteCount::new(84);

/// Lengths on the wire of the frames that fill a gap: as few as possible, as equal as possible,
/// none longer than `longest`. A shorter gap than [`LEAST_GAP`] becomes one of that length: the
/// next frame is late by the rest, and no class's clock is.
pub fn gap_frames(gap: ByteCount, longest: ByteCount) -> impl Iterator<Item = ByteCount> {
    let gap = gap.max(LEAST_GAP).as_u64();
    let count = gap.div_ceil(longest.max(LEAST_GAP).as_u64());
    let (each, more) = (gap / count, gap % count);
    (0..count).map(move |number| ByteCount::new(each + u64::from(number < more)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_fill_the_gap_evenly(gap in 0_u64..100_000_000, longest in 200_u64..9100) {
            let frames: Vec<u64> = gap_frames(ByteCount::new(gap), ByteCount::new(longest)).map(ByteCount::as_u64).collect();
            prop_assert_eq!(frames.iter().sum::<u64>(), gap.max(84));
            prop_assert!(frames.iter().all(|length| (84..=longest).contains(length)));
            prop_assert!(frames.iter().max().unwrap() - frames.iter().min().unwrap() <= 1);
        }
    }
}
