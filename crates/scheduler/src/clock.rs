//! The clock of one class: positions on the line instead of times.

use icdc_units::{ByteCount, Rate};

/// Computes the position on the line from which the next frame may leave, so that the class gets
/// `rate` of a line of `line`.
#[derive(Clone, Debug)]
pub(super) struct ByteClock {
    line: u64,
    rate: u64,
    due: u64,
    /// Part of the position that is below one byte, in 1/rate bytes.
    rest: u64,
}

impl ByteClock {
    /// A clock that is due at `position`. Neither rate may be zero.
    pub(super) fn new(line: Rate, rate: Rate, position: ByteCount) -> Self {
        let (line, rate) = (line.as_bits_per_second().max(1), rate.as_bits_per_second().max(1));
        Self { line, rate, due: position.as_u64(), rest: 0 }
    }

    /// Position on the line, in bytes, from which the next frame may leave.
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// Moves the due position up to `position`, in bytes, if it is lower: what was not used of the
    /// line until then is not made up for.
    pub(super) fn not_before(&mut self, position: u64) {
        if self.due < position {
            (self.due, self.rest) = (position, 0);
        }
    }

    /// Bytes that pass on the line while the class sends `bytes`, rounded down.
    pub(super) fn stretch(&self, bytes: u64) -> u64 {
        u64::try_from(u128::from(bytes) * u128::from(self.line) / u128::from(self.rate)).unwrap_or(u64::MAX)
    }

    /// Moves the due position on by what the line carries while the class, at its rate, sends a
    /// frame of `bytes` on the wire.
    pub(super) fn charge(&mut self, bytes: u64) {
        let exact = u128::from(bytes) * u128::from(self.line) + u128::from(self.rest);
        let rate = u128::from(self.rate);
        self.rest = (exact % rate) as u64;
        self.due = self.due.saturating_add(u64::try_from(exact / rate).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_byte_is_lost_to_rounding(line in 1_u64..400_000_000_000, rate in 1_u64..400_000_000_000, sizes in prop::collection::vec(84_u64..9100, 1..200)) {
            let mut clock = ByteClock::new(Rate::from_bits_per_second(line), Rate::from_bits_per_second(rate), ByteCount::ZERO);
            let mut total = 0_u128;
            for size in sizes {
                total += u128::from(size);
                clock.charge(size);
                let exact = u64::try_from(total * u128::from(line) / u128::from(rate)).unwrap_or(u64::MAX);
                prop_assert_eq!(clock.due(), exact);
            }
        }
    }
}
