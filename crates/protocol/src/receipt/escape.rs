//! Paths as text in lines: every path has one text, and every text one path.
//!
//! `\\` stands for a backslash, `\n` for a newline, `\r` for a carriage return, as `b3sum` and
//! `sha256sum` write them; `\xHH` for any other control character of ASCII, and for a byte that is not
//! part of UTF-8. All else stands for itself.

use icdc_units::{hexadecimal, of_hexadecimal};

/// Path as a receipt has it: backslashes, control characters and bytes that are not part of UTF-8
/// are escaped (`\\`, `\n`, `\xHH`), all else is left as it is.
#[must_use]
pub fn escaped(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(path.len());
    let in_hexadecimal = |text: &mut Vec<u8>, byte: u8| {
        text.extend(b"\\x");
        text.extend(hexadecimal(&[byte]).into_bytes());
    };
    for chunk in path.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'\\' => text.extend(b"\\\\"),
                b'\n' => text.extend(b"\\n"),
                b'\r' => text.extend(b"\\r"),
                byte if byte.is_ascii_control() => in_hexadecimal(&mut text, byte),
                byte => text.push(byte),
            }
        }
        chunk.invalid().iter().for_each(|byte| in_hexadecimal(&mut text, *byte));
    }
    text
}

/// The path with this text; `None` if no path has it.
#[must_use]
pub fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        path.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                b'x' => *of_hexadecimal(&[*bytes.next()?, *bytes.next()?])?.first()?,
                _ => return None,
            },
            byte => *byte,
        });
    }
    (escaped(&path) == text).then_some(path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_escaped_as_b3sum_does_and_bytes_beyond_that() {
        for (path, text) in [
            (&b"a b/\xc3\xa9"[..], &b"a b/\xc3\xa9"[..]),
            (b"new\nline\\\r", b"new\\nline\\\\\\r"),
            (b"\x1b[31m\x7f", b"\\x1b[31m\\x7f"),
            (b"latin\xe9", b"latin\\xe9"),
            // A surrogate in UTF-8 is none.
            (b"\xed\xa0\x80", b"\\xed\\xa0\\x80"),
        ] {
            assert_eq!(escaped(path), text);
            assert_eq!(unescaped(text).as_deref(), Some(path));
        }
    }

    #[test]
    fn no_path_has_another_text() {
        for text in ["\\", "\\q", "\\x", "\\x1", "\\x1B", "\\x41", "\\x0a", "\n", "\x1b", "\\xc3\\xa9"] {
            assert_eq!(unescaped(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(unescaped(b"\xe9"), None);
    }

    proptest! {
        #[test]
        fn every_path_survives(path: Vec<u8>) {
            let text = escaped(&path);
            prop_assert!(std::str::from_utf8(&text).is_ok_and(|text| !text.contains(|byte: char| byte.is_ascii_control())));
            prop_assert_eq!(unescaped(&text), Some(path));
        }
    }
}
