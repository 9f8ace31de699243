//! Figures in text: where they stand, how many digits they have, and whether they are what a record says.

use std::ops::Range;

/// Where the figures of a text stand: digits, with commas between groups of three, a decimal point, an exponent.
pub(crate) fn places(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
    let (mut found, mut index) = (Vec::new(), 0);
    while index < bytes.len() {
        // What is part of a name (`b3`, `1e-6` within a word) is none.
        let in_word = index > 0 && (bytes[index - 1].is_ascii_alphabetic() || bytes[index - 1] == b'_');
        if !digit(index) || in_word {
            index += 1;
            continue;
        }
        let begin = index;
        while digit(index) || (matches!(bytes.get(index), Some(b'.' | b',')) && digit(index + 1) && digit(index - 1)) {
            // "1, 2" has a space; "94,94" without one is a group only of three.
            if bytes[index] == b',' && !(digit(index + 2) && digit(index + 3) && !digit(index + 4)) {
                break;
            }
            index += 1;
        }
        if bytes.get(index) == Some(&b'e') {
            let sign = usize::from(matches!(bytes.get(index + 1), Some(b'-' | b'+')));
            if digit(index + 1 + sign) {
                index += 1 + sign;
                while digit(index) {
                    index += 1;
                }
            }
        }
        found.push(begin..index);
    }
    found
}

pub(crate) fn value(figure: &str) -> f64 {
    figure.replace(',', "").parse().unwrap_or(f64::NAN)
}

/// `value` as `shown` is written: as many decimals, groups of three where those have them; with an exponent as it is.
pub(crate) fn like(shown: &str, value: f64) -> String {
    if shown.contains('e') {
        return format!("{value:e}");
    }
    let decimals = shown.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    if !shown.contains(',') {
        return plain;
    }
    let digits = whole.as_bytes();
    let grouped = digits.iter().enumerate().map(|(index, digit)| {
        let comma = if index > 0 && (digits.len() - index) % 3 == 0 { "," } else { "" };
        format!("{comma}{}", *digit as char)
    });
    format!("{}{rest}", grouped.collect::<String>())
}

/// Whether a page may write `shown` for what a record has: the same, rounded; a half either way.
pub(crate) fn agrees(shown: &str, value_of_record: f64) -> bool {
    let decimals = shown.split_once('.').map_or(0, |(_, decimals)| decimals.len()) as i32;
    let (own, half) = (value(shown), 0.5 * 10_f64.powi(-decimals));
    if shown.contains('e') { own == value_of_record } else { (own - value_of_record).abs() <= half * 1.000_001 }
}

#[test]
fn figures_are_found_and_compared_as_written() {
    let text = "94, 94 of 12,300 (0.5 to 1e-6), `b3` 2.";
    let found: Vec<&str> = places(text).into_iter().map(|place| &text[place]).collect();
    assert_eq!(found, ["94", "94", "12,300", "0.5", "1e-6", "2"]);
    assert_eq!(
        (like("9,999", 1234567.4), like("0.0", 2.25), like("1", 2.6)),
        ("1,234,567".into(), "2.2".into(), "3".into())
    );
    assert!(agrees("21.6", 21.58) && agrees("21.6", 21.649) && !agrees("21.6", 21.66) && !agrees("22", 21.4));
    assert!(agrees("12,300", 12_300.4) && agrees("1e-6", 1e-6) && !agrees("1e-6", 2e-6));
}
