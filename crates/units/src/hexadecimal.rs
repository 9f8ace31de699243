//! Bytes as hexadecimal text.

/// Bytes as lower-case hexadecimal digits, two for each.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 0xf)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::hexadecimal;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hexadecimal(&[0x00, 0x0a, 0x9f, 0xff]), "000a9fff");
        assert_eq!(hexadecimal(&[]), "");
    }
}
