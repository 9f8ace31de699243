//! Bytes as hexadecimal text.

/// Bytes as lower-case hexadecimal digits, two for each.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 0xf)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Decodes hexadecimal digits of either case, two for each byte; `None` if their number is odd or
/// another character is among them.
#[must_use]
pub fn of_hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(value(*high)? << 4 | value(*low)?),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::{hexadecimal, of_hexadecimal};

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hexadecimal(&[0x00, 0x0a, 0x9f, 0xff]), "000a9fff");
        assert_eq!(hexadecimal(&[]), "");
    }

    #[test]
    fn digits_of_either_case_are_read_in_pairs() {
        assert_eq!(of_hexadecimal(b"000a9fFF"), Some(vec![0x00, 0x0a, 0x9f, 0xff]));
        assert_eq!(of_hexadecimal(b""), Some(Vec::new()));
        for wrong in ["0", "0a9", "0g", "+1", " 1", "0\u{e9}"] {
            assert_eq!(of_hexadecimal(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
