//! The packed form of long series of integers in a page: [`encode`] and [`decode`].
//!
//! Base64 (RFC 4648, with padding) of blocks that follow one another. What is measured in each
//! millisecond jumps by whole packets rather than growing smoothly, so a block keeps its values as
//! distances from its least one, in units of what divides them all, with as few bits as the
//! greatest distance needs:
//!
//! ```text
//! n        1 byte     values in this block, 1 to 128
//! w        1 byte     bits per value, 0 to 64
//! least    varint     zigzag: 2v for v >= 0, -2v-1 for v < 0
//! unit     varint     only if w > 0
//! distances           n × w bits, the lowest bit first, filled up to a whole byte
//!
//! value = least + unit × distance
//! varint: 7 bits per byte, the lowest first; the top bit says that more follow
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Description of the packed format, embedded in the page for readers of its JSON.
pub(crate) const DESCRIPTION: &str = "Uniform series: value k, times scale, in the plot's unit, stands for step_seconds from start_seconds + \
k * step_seconds. packed is base64 of blocks: byte n (1..=128 values), byte w (bits per value), varint least (zigzag), varint unit \
(only if w > 0), then n distances of w bits, lowest bit first, filled to a whole byte; value = least + unit * distance. \
varint: 7 bits per byte, lowest first, top bit: more follow.";

/// Maximum number of values in a block.
const BLOCK: usize = 128;

/// Packs the values into text from which [`decode`] makes the same values.
#[must_use]
pub fn encode(values: &[i64]) -> String {
    let mut bytes = Vec::new();
    for block in values.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or(0);
        let distance = |value: &i64| value.abs_diff(least);
        let unit = block.iter().map(distance).fold(0, greatest_common_divisor).max(1);
        let greatest = block.iter().map(distance).max().unwrap_or(0) / unit;
        let width = u64::BITS - greatest.leading_zeros();
        bytes.extend([block.len() as u8, width as u8]);
        put_varint(&mut bytes, zigzag(least));
        if width > 0 {
            put_varint(&mut bytes, unit);
        }
        put_bits(&mut bytes, block.iter().map(|value| distance(value) / unit), width);
    }
    STANDARD.encode(bytes)
}

/// Reason why [`decode`] cannot unpack a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedError {
    /// The text is not base64.
    #[error("packed values: {0}")]
    Base64(base64::DecodeError),
    /// The block of this number breaks the format.
    #[error("packed values: the block that begins at byte {0} is cut off or says what no block can say")]
    Block(usize),
}

/// Unpacks the values in `text`. They take at most 256 times the memory of the text, whatever it
/// says.
///
/// # Errors
/// See [`MalformedError`].
pub fn decode(text: &str) -> Result<Vec<i64>, MalformedError> {
    let bytes = STANDARD.decode(text).map_err(MalformedError::Base64)?;
    let mut rest = bytes.as_slice();
    let mut values = Vec::new();
    while !rest.is_empty() {
        let start = bytes.len() - rest.len();
        take_block(&mut rest, &mut values).ok_or(MalformedError::Block(start))?;
    }
    Ok(values)
}

/// Unpacks the block with which `rest` begins, appends its values, and removes it from `rest`;
/// `None` if it is malformed.
fn take_block(rest: &mut &[u8], values: &mut Vec<i64>) -> Option<()> {
    let (count, width) = (usize::from(take_byte(rest)?), usize::from(take_byte(rest)?));
    if !(1..=BLOCK).contains(&count) || width > 64 {
        return None;
    }
    let least = unzigzag(take_varint(rest)?);
    let unit = if width > 0 { take_varint(rest)? } else { 0 };
    let (bits, behind) = rest.split_at_checked((count * width).div_ceil(8))?;
    *rest = behind;
    let distance = |index: usize| {
        let from = index * width;
        // At most 64 bits that begin anywhere in a byte: nine bytes.
        let window = bits[from / 8..].iter().take(9).rev().fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte));
        (window >> (from % 8)) as u64 & mask(width)
    };
    // Wrapping: foreign texts may say anything, those of `encode` stay within the range.
    let value = |index| least.wrapping_add_unsigned(unit.wrapping_mul(if width > 0 { distance(index) } else { 0 }));
    values.extend((0..count).map(value));
    Some(())
}

/// Mask of the lowest `width` of 64 bits.
fn mask(width: usize) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Appends numbers of `width` bits, the lowest bit first, filled up to a whole byte.
fn put_bits(bytes: &mut Vec<u8>, distances: impl Iterator<Item = u64>, width: u32) {
    let (mut pending, mut filled) = (0_u128, 0);
    for distance in distances {
        pending |= u128::from(distance) << filled;
        filled += width;
        while filled >= 8 {
            bytes.push(pending as u8);
            pending >>= 8;
            filled -= 8;
        }
    }
    if filled > 0 {
        bytes.push(pending as u8);
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Code of a signed integer for a varint: small for small distances from zero.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The signed integer that has this zigzag code.
fn unzigzag(code: u64) -> i64 {
    (code >> 1) as i64 ^ -((code & 1) as i64)
}

/// Appends an integer in 7 bits per byte, the lowest first.
fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads a varint from the beginning of `rest` and removes it there; `None` if it is cut off or too
/// long.
fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(rest)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Removes the first byte of `rest`; `None` if it is empty.
fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_packed_comes_back(values in prop::collection::vec(any::<i64>(), 0..400)) {
            prop_assert_eq!(decode(&encode(&values)).unwrap(), values);
        }

        #[test]
        fn so_do_whole_packets(packets in prop::collection::vec(0_i64..90, 0..1000), least in -5_i64..5) {
            let values: Vec<i64> = packets.iter().map(|packets| least + packets * 1524).collect();
            let text = encode(&values);
            prop_assert!(text.len() <= values.len() * 4 / 3 + 40);
            prop_assert_eq!(decode(&text).unwrap(), values);
        }

        #[test]
        fn foreign_bytes_are_values_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = STANDARD.encode(&bytes);
            if let Ok(values) = decode(&text) {
                prop_assert!(values.len() <= bytes.len() * BLOCK);
            }
        }
    }

    #[test]
    fn the_format_is_what_is_documented() {
        // Three values of 4 bits: 0, 9 and 1 packets of 100 bytes above -3.
        assert_eq!(STANDARD.decode(encode(&[-3, 897, 97])).unwrap(), [3, 4, 5, 100, 0x90, 0x01]);
        assert_eq!(STANDARD.decode(encode(&[64; 128])).unwrap(), [128, 0, 0x80, 1]);
    }

    #[test]
    fn what_is_cut_off_is_named() {
        let whole = STANDARD.decode(encode(&[1, 2, 3, 400])).unwrap();
        for length in 1..whole.len() {
            assert_eq!(decode(&STANDARD.encode(&whole[..length])), Err(MalformedError::Block(0)));
        }
        assert!(matches!(decode("?"), Err(MalformedError::Base64(_))));
        assert_eq!(decode(&STANDARD.encode([0, 0, 0])), Err(MalformedError::Block(0)));
        assert_eq!(decode(&STANDARD.encode([1, 65, 0, 1])), Err(MalformedError::Block(0)));
    }
}
