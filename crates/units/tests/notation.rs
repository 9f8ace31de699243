//! Quantities as text: what is accepted, what is refused, and that printing can be parsed again.

use icdc_units::{ByteCount, ParseQuantityError, Rate, Span, Time};
use proptest::prelude::*;

fn bits(text: &str) -> u64 {
    text.parse::<Rate>().expect(text).as_bits_per_second()
}

fn bytes(text: &str) -> u64 {
    text.parse::<ByteCount>().expect(text).as_u64()
}

fn nanos(text: &str) -> u64 {
    text.parse::<Span>().expect(text).as_nanos()
}

#[test]
fn rates_are_bits_or_bytes_with_a_capital() {
    assert_eq!(bits("900mbit"), 900_000_000);
    assert_eq!(bits("10Gbit"), 10_000_000_000);
    assert_eq!(bits("10 Gbit/s"), 10_000_000_000);
    assert_eq!(bits("8kbit"), 8_000);
    assert_eq!(bits("0bit"), 0);
    assert_eq!(bits("1.2GB/s"), 9_600_000_000);
    assert_eq!(bits("100MiB/s"), 838_860_800);
    assert_eq!(bits("1KB/s"), 8_000);
    assert_eq!(bits("1kB/s"), 8_000);
    assert_eq!(bits(".5tbit"), 500_000_000_000);
    for ambiguous in
        ["900", "900m", "900mbps", "900Mb/s", "900mb/s", "900MB", "9e3bit", "-1mbit", "mbit", "", "1.2.3mbit"]
    {
        assert!(ambiguous.parse::<Rate>().is_err(), "{ambiguous} must be refused");
    }
}

#[test]
fn sizes_are_plain_or_si_or_binary() {
    assert_eq!(bytes("1048576"), 1 << 20);
    assert_eq!(bytes("256MiB"), 256 << 20);
    assert_eq!(bytes("4MB"), 4_000_000);
    assert_eq!(bytes("4mb"), 4_000_000);
    assert_eq!(bytes("2.5MB"), 2_500_000);
    assert_eq!(bytes(" 1.5 GiB "), 3 << 29);
    assert_eq!(bytes("18446744073709551615"), u64::MAX);
    for wrong in
        ["4M", "4mbit", "18446744073709551616", "0x10", "1,5MB", "½MB", "99999999999999999999999999999999999999999PB"]
    {
        assert!(wrong.parse::<ByteCount>().is_err(), "{wrong} must be refused");
    }
}

#[test]
fn spans_need_a_unit() {
    assert_eq!(nanos("300ms"), 300_000_000);
    assert_eq!(nanos("25us"), 25_000);
    assert_eq!(nanos("25µs"), 25_000);
    assert_eq!(nanos("25μs"), 25_000);
    assert_eq!(nanos("1.5s"), 1_500_000_000);
    assert_eq!(nanos("10min"), 600_000_000_000);
    assert_eq!(nanos("2h"), 7_200_000_000_000);
    assert_eq!(nanos("0.0000000005s"), 1);
    assert!("300".parse::<Span>().is_err());
}

#[test]
fn errors_name_the_text_and_the_units() {
    let missing = "900".parse::<Rate>().expect_err("no unit");
    assert!(matches!(missing, ParseQuantityError::MissingUnit { .. }));
    let unknown = "900mbps".parse::<Rate>().expect_err("unknown unit");
    assert!(matches!(&unknown, ParseQuantityError::UnknownUnit { unit, .. } if unit == "mbps"));
    let nothing = "fast".parse::<Rate>().expect_err("no number");
    assert!(matches!(nothing, ParseQuantityError::NotANumber { .. }));
    let large = "99999999tbit".parse::<Rate>().expect_err("too large");
    assert!(matches!(large, ParseQuantityError::TooLarge { .. }));
    for (error, text) in [(missing, "900"), (unknown, "900mbps"), (nothing, "fast"), (large, "99999999tbit")] {
        let message = error.to_string();
        assert!(message.contains(&format!("\"{text}\"")) && message.contains("mbit"), "{message}");
    }
}

#[test]
fn printing_for_people_keeps_four_digits() {
    let rate = |bits| Rate::from_bits_per_second(bits).to_string();
    assert_eq!(rate(0), "0 bit/s");
    assert_eq!(rate(999), "999 bit/s");
    assert_eq!(rate(934_217_000), "934.2 Mbit/s");
    assert_eq!(rate(999_949_999), "999.9 Mbit/s");
    assert_eq!(rate(999_950_000), "1 Gbit/s");
    assert_eq!(rate(1_234_567_890_123_456), "1235 Tbit/s");
    assert_eq!(Rate::from_bits_per_second(934_217_000).to_argument(), "934.2mbit");
    assert_eq!(format!("{:#}", Rate::from_bits_per_second(934_217_000)), "934217kbit");
    let size = |bytes| ByteCount::new(bytes).to_string();
    assert_eq!(size(4 << 20), "4MiB");
    assert_eq!(size(4_000_000), "4MB");
    assert_eq!(size(3 << 19), "1.573MB");
    assert_eq!(size(1023), "1.023kB");
    let span = |nanos| Span::from_nanos(nanos).to_string();
    assert_eq!(span(12_345), "12.35us");
    assert_eq!(span(300_000_000), "300ms");
    assert_eq!(span(5_400_000_000_000), "5400s");
    assert_eq!(format!("{:>8}|{:<6}|", Span::from_millis(25), ByteCount::new(1)), "    25ms|1B    |");
}

#[test]
fn serialised_as_plain_integers() {
    let quantities = (Rate::from_bits_per_second(1), ByteCount::new(2), Span::from_nanos(3), Time::from_nanos(4));
    assert_eq!(serde_json::to_string(&quantities).expect("serialises"), "[1,2,3,4]");
    let back: (Rate, ByteCount, Span, Time) = serde_json::from_str("[1,2,3,4]").expect("parses");
    assert_eq!(back, quantities);
}

proptest! {
    #[test]
    fn exact_text_is_parsed_back(value: u64, shift in 0_u32..64) {
        let value = value >> shift;
        prop_assert_eq!(bits(&format!("{:#}", Rate::from_bits_per_second(value))), value);
        prop_assert_eq!(bytes(&format!("{:#}", ByteCount::new(value))), value);
        prop_assert_eq!(nanos(&format!("{:#}", Span::from_nanos(value))), value);
    }

    #[test]
    fn text_for_people_is_within_a_two_thousandth(value in 0_u64..u64::MAX / 2, shift in 0_u32..63) {
        let value = value >> shift;
        let close = |parsed: u64| parsed.abs_diff(value) <= value / 1999;
        prop_assert!(close(bits(&Rate::from_bits_per_second(value).to_string())));
        prop_assert!(close(bytes(&ByteCount::new(value).to_string())));
        prop_assert!(close(nanos(&Span::from_nanos(value).to_string())));
    }

    #[test]
    fn no_text_panics(text in "[0-9.]{0,60}[ a-zA-Z/µ]{0,6}") {
        let _ = (text.parse::<Rate>(), text.parse::<ByteCount>(), text.parse::<Span>());
    }
}
