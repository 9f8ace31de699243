//! Arithmetic between quantities: saturating, with 128 bits inside.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use crate::{ByteCount, Rate, Span, Time};

/// Bit-nanoseconds per byte-second: `bits/s × ns = bytes × 8e9`.
const BIT_NANOS_PER_BYTE: u128 = 8_000_000_000;

impl Mul<Span> for Rate {
    type Output = ByteCount;

    /// Amount that the rate carries in the span, rounded down.
    fn mul(self, span: Span) -> ByteCount {
        ByteCount(saturated(u128::from(self.0) * u128::from(span.0) / BIT_NANOS_PER_BYTE))
    }
}

impl Mul<Rate> for Span {
    type Output = ByteCount;

    /// Amount that the rate carries in the span, rounded down.
    fn mul(self, rate: Rate) -> ByteCount {
        rate * self
    }
}

impl Div<Span> for ByteCount {
    type Output = Rate;

    /// The rate that carries this amount in the span, rounded down.
    fn div(self, span: Span) -> Rate {
        Rate(quotient(self.bit_nanos(), u128::from(span.0)))
    }
}

impl Div<Rate> for ByteCount {
    type Output = Span;

    /// The time that this amount takes at the rate, rounded up.
    fn div(self, rate: Rate) -> Span {
        match rate.0 {
            0 => Span(quotient(self.bit_nanos(), 0)),
            bits => Span(saturated(self.bit_nanos().div_ceil(u128::from(bits)))),
        }
    }
}

impl ByteCount {
    /// This amount in the unit of `Rate × Span`, bit/s × ns; at most 2^97.
    fn bit_nanos(self) -> u128 {
        u128::from(self.0) * BIT_NANOS_PER_BYTE
    }
}

impl Sub for Time {
    type Output = Span;

    /// The span from `earlier` to this time; zero if `earlier` is later.
    fn sub(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;

    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;

    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

/// Sums, multiples and proportions within one quantity.
macro_rules! within_one_quantity {
    ($($quantity:ident),*) => {$(
        impl Add for $quantity {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl AddAssign for $quantity {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Sub for $quantity {
            type Output = Self;

            /// The difference; zero if `other` is greater.
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl SubAssign for $quantity {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl Mul<u64> for $quantity {
            type Output = Self;

            fn mul(self, factor: u64) -> Self {
                Self(self.0.saturating_mul(factor))
            }
        }

        impl Div<u64> for $quantity {
            type Output = Self;

            /// The quantity divided by an integer, rounded down.
            fn div(self, divisor: u64) -> Self {
                Self(quotient(u128::from(self.0), u128::from(divisor)))
            }
        }

        impl Sum for $quantity {
            fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
                quantities.fold(Self::ZERO, Add::add)
            }
        }

        impl $quantity {
            /// `numerator / denominator` of this quantity, rounded down: `rate.scaled(9, 10)` is 90
            /// % of it.
            pub fn scaled(self, numerator: u64, denominator: u64) -> Self {
                Self(quotient(u128::from(self.0) * u128::from(numerator), u128::from(denominator)))
            }

            /// This quantity as a multiple of `other`; zero if `other` is zero.
            pub fn ratio(self, other: Self) -> f64 {
                if other.0 == 0 { 0.0 } else { self.0 as f64 / other.0 as f64 }
            }

            /// Whether the quantity is zero.
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }
    )*};
}

within_one_quantity!(Rate, ByteCount, Span);

/// Quotient rounded down, at most [`u64::MAX`], which also is the result of a division by zero; 0 /
/// 0 is zero.
pub(crate) fn quotient(dividend: u128, divisor: u128) -> u64 {
    match (dividend, divisor) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
        _ => saturated(dividend / divisor),
    }
}

/// The value, or [`u64::MAX`] if it is greater.
fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
