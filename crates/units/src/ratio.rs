//! Exact ratios of integers.

use std::ops::Mul;

use crate::arithmetic::quotient;
use crate::{ByteCount, Rate, Span};

/// An exact ratio of two integers, for constants such as thresholds and margins: 7/8, 5/4, 1/40.
///
/// `quantity * ratio` is `quantity × numerator / denominator`, multiplied in 128 bits, then divided
/// once, rounded down, and at most the greatest value. So `rate * Ratio::new(1, 40)` is `rate /
/// 40`.
///
/// ```
/// use icdc_units::{Rate, Ratio};
///
/// const MARGIN: Ratio = Ratio::new(1, 40);
/// let capacity = Rate::from_bits_per_second(999);
/// assert_eq!(capacity - capacity * MARGIN, Rate::from_bits_per_second(975));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// `numerator / denominator`.
    ///
    /// # Panics
    /// The denominator is zero; in a constant the compiler reports it.
    #[must_use]
    pub const fn new(numerator: u64, denominator: u64) -> Self {
        assert!(denominator > 0, "a ratio needs a denominator");
        Self { numerator, denominator }
    }

    /// The product of this ratio and `numerator / denominator`, exact as long as the products fit
    /// 64 bits, so that a quantity that is multiplied by both is rounded once.
    ///
    /// # Panics
    /// The denominator is zero.
    #[must_use]
    pub const fn times(self, numerator: u64, denominator: u64) -> Self {
        Self::new(self.numerator.saturating_mul(numerator), self.denominator.saturating_mul(denominator))
    }

    /// An integer times this ratio, rounded down, at most [`u64::MAX`].
    fn of(self, value: u64) -> u64 {
        quotient(u128::from(value) * u128::from(self.numerator), u128::from(self.denominator))
    }
}

impl Mul<Ratio> for u64 {
    type Output = Self;

    /// The integer times the ratio, rounded down, saturating.
    fn mul(self, ratio: Ratio) -> Self {
        ratio.of(self)
    }
}

macro_rules! times_ratio {
    ($($quantity:ident),*) => {$(
        impl Mul<Ratio> for $quantity {
            type Output = Self;

            /// The quantity times the ratio, rounded down, saturating.
            fn mul(self, ratio: Ratio) -> Self {
                Self(ratio.of(self.0))
            }
        }
    )*};
}

times_ratio!(Rate, ByteCount, Span);
