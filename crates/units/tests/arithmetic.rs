//! Arithmetic between quantities: against plain 128-bit integers, and at the ends of the range.

use std::time::Duration;

use icdc_units::{ByteCount, Rate, Ratio, Span, Time};
use proptest::prelude::*;

#[test]
fn the_bandwidth_delay_product_of_the_design() {
    let rate = Rate::from_bits_per_second(100_000_000_000);
    assert_eq!(rate * Span::from_millis(300), ByteCount::new(3_750_000_000));
    assert_eq!(Span::from_millis(300) * rate, ByteCount::new(3_750_000_000));
    assert_eq!(ByteCount::new(3_750_000_000) / Span::from_millis(300), rate);
    assert_eq!(ByteCount::new(3_750_000_000) / rate, Span::from_millis(300));
}

#[test]
fn bits_and_bytes() {
    assert_eq!(Rate::from_bytes_per_second(125_000_000), Rate::from_bits_per_second(1_000_000_000));
    assert_eq!(Rate::from_bits_per_second(15).as_bytes_per_second(), 1);
    assert_eq!(Rate::from_bytes_per_second(u64::MAX), Rate::MAX);
}

#[test]
fn rounding_never_exceeds_the_rate() {
    let slow = Rate::from_bits_per_second(3);
    assert_eq!(slow * Span::from_secs(1), ByteCount::ZERO);
    assert_eq!(ByteCount::new(1) / slow, Span::from_nanos(2_666_666_667));
}

#[test]
fn ends_of_the_range() {
    assert_eq!(ByteCount::new(1) / Span::ZERO, Rate::MAX);
    assert_eq!(ByteCount::ZERO / Span::ZERO, Rate::ZERO);
    assert_eq!(ByteCount::new(1) / Rate::ZERO, Span::MAX);
    assert_eq!(ByteCount::MAX / Rate::MAX, Span::from_secs(8));
    assert_eq!(Rate::MAX * Span::MAX, ByteCount::MAX);
    assert_eq!(Rate::MAX + Rate::MAX, Rate::MAX);
    assert_eq!(Span::ZERO - Span::MAX, Span::ZERO);
    assert_eq!(ByteCount::MAX * 2, ByteCount::MAX);
    assert_eq!(ByteCount::new(7) / 0, ByteCount::MAX);
    assert_eq!(Rate::MAX.scaled(u64::MAX, u64::MAX), Rate::MAX);
    assert_eq!(Rate::from_bits_per_second(1000).scaled(9, 10), Rate::from_bits_per_second(900));
    assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
    assert!((Span::from_secs(3).ratio(Span::from_secs(2)) - 1.5).abs() < f64::EPSILON);
    assert!(Span::from_secs(3).ratio(Span::ZERO).abs() < f64::EPSILON);
}

#[test]
fn a_ratio_is_applied_exactly_and_rounded_down_once() {
    const MARGIN: Ratio = Ratio::new(1, 40);
    assert_eq!(Rate::from_bits_per_second(79) * MARGIN, Rate::from_bits_per_second(1));
    assert_eq!(ByteCount::new(15) * Ratio::new(7, 8), ByteCount::new(13));
    assert_eq!(Span::from_nanos(5) * Ratio::new(5, 4), Span::from_nanos(6));
    assert_eq!(u64::MAX * Ratio::new(u64::MAX, u64::MAX), u64::MAX);
    assert_eq!(Rate::MAX * Ratio::new(2, 1), Rate::MAX);
    // 7 × 3/5 × 5/3, which two roundings would make 6.
    assert_eq!(7 * Ratio::new(3, 5).times(5, 3), 7);
}

#[test]
#[should_panic(expected = "a ratio needs a denominator")]
fn a_ratio_without_a_denominator_is_refused() {
    let _ = Ratio::new(1, 0);
}

#[test]
fn times_and_spans() {
    let (start, end) = (Time::from_nanos(100), Time::from_nanos(350));
    assert_eq!(end - start, Span::from_nanos(250));
    assert_eq!(start - end, Span::ZERO);
    assert_eq!(start + Span::from_nanos(250), end);
    assert_eq!(end - Span::from_nanos(250), start);
    assert_eq!(Time::ORIGIN - Span::from_nanos(1), Time::ORIGIN);
    assert_eq!(Time::MAX + Span::from_nanos(1), Time::MAX);
    assert_eq!(Duration::from(Span::from_micros(5)), Duration::from_micros(5));
    assert_eq!(Span::from(Duration::MAX), Span::MAX);
    assert_eq!((1..=3).map(ByteCount::new).sum::<ByteCount>(), ByteCount::new(6));
}

proptest! {
    #[test]
    fn products_and_quotients_equal_wide_integers(a: u64, b in 1_u64.., shift in 0_u32..63) {
        let (a, b) = (a >> shift, (b >> (shift / 2)).max(1));
        let expect = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        let product = u128::from(a) * u128::from(b) / 8_000_000_000;
        prop_assert_eq!((Rate::from_bits_per_second(a) * Span::from_nanos(b)).as_u64(), expect(product));
        let bit_nanos = u128::from(a) * 8_000_000_000;
        let rate = ByteCount::new(a) / Span::from_nanos(b);
        prop_assert_eq!(rate.as_bits_per_second(), expect(bit_nanos / u128::from(b)));
        let span = ByteCount::new(a) / Rate::from_bits_per_second(b);
        prop_assert_eq!(span.as_nanos(), expect(bit_nanos.div_ceil(u128::from(b))));
    }

    #[test]
    fn a_ratio_equals_one_multiplication_and_one_division(value: u64, numerator: u64, denominator in 1_u64..) {
        let ratio = Ratio::new(numerator, denominator);
        let scaled = Rate::from_bits_per_second(value).scaled(numerator, denominator);
        prop_assert_eq!(Rate::from_bits_per_second(value) * ratio, scaled);
        prop_assert_eq!(value * Ratio::new(1, denominator), value / denominator);
    }

    #[test]
    fn what_is_paced_does_not_exceed_the_rate(bytes in 0_u64..1 << 40, bits in 1_u64..1 << 40) {
        let (amount, rate) = (ByteCount::new(bytes), Rate::from_bits_per_second(bits));
        prop_assert!(rate * (amount / rate) >= amount);
        prop_assert!(amount / (amount / rate) <= rate);
    }
}
