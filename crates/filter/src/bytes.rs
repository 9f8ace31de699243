//! Sets of bytes, as brackets in patterns name them.

use crate::fault::Fault;

/// Set of bytes that a bracket in a pattern (`[a-z]`) matches, as 256 bits; a slash is never in
/// one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteSet([u64; 4]);

impl ByteSet {
    /// Whether `byte` is in the set.
    pub(crate) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn insert_all(&mut self, bytes: impl Iterator<Item = u8>) {
        bytes.for_each(|byte| self.insert(byte));
    }

    /// Reads the set whose `[` is at `open`; gives it with the offset behind its `]`.
    ///
    /// A `]` right after `[`, `[!` or `[^` is one of the bytes, as is a `-` without a byte before or
    /// after it, and a `[:` that no `:]` follows. `\` takes the byte after it literally.
    ///
    /// # Errors
    /// The offset of what is wrong: the set is not closed, or names a class that does not exist.
    pub(crate) fn parse(pattern: &[u8], open: usize) -> Result<(Self, usize), (usize, Fault)> {
        let unclosed = || (open, Fault::Unclosed);
        let mut set = Self::default();
        let mut at = open + 1;
        let is_negated = matches!(pattern.get(at), Some(b'!' | b'^'));
        at += usize::from(is_negated);
        let first = at;
        // The byte from which a `-` makes a range.
        let mut lower = None;
        loop {
            let byte = *pattern.get(at).ok_or_else(unclosed)?;
            match byte {
                b']' if at > first => break,
                b'-' if lower.is_some() && !matches!(pattern.get(at + 1), None | Some(b']')) => {
                    let (upper, next) = literal(pattern, at + 1).ok_or_else(unclosed)?;
                    set.insert_all(lower.take().unwrap_or(upper)..=upper);
                    at = next;
                }
                b'[' if pattern.get(at + 1) == Some(&b':') => {
                    let name = &pattern[at + 2..];
                    let end = name.iter().position(|byte| *byte == b']').ok_or_else(unclosed)?;
                    match name[..end].strip_suffix(b":") {
                        Some(name) => {
                            let is_in = class(name).ok_or((at, Fault::UnknownClass))?;
                            set.insert_all((0..=u8::MAX).filter(is_in));
                            (lower, at) = (None, at + 2 + end + 1);
                        }
                        None => {
                            set.insert(b'[');
                            (lower, at) = (Some(b'['), at + 1);
                        }
                    }
                }
                _ => {
                    let (byte, next) = literal(pattern, at).ok_or_else(unclosed)?;
                    set.insert(byte);
                    (lower, at) = (Some(byte), next);
                }
            }
        }
        if is_negated {
            set.0.iter_mut().for_each(|word| *word = !*word);
        }
        set.0[usize::from(b'/' >> 6)] &= !(1 << (b'/' & 63));
        Ok((set, at + 1))
    }
}

/// The byte at `at`, or behind the `\` there, and the offset of what follows; `None` at the end.
fn literal(pattern: &[u8], at: usize) -> Option<(u8, usize)> {
    match pattern.get(at)? {
        b'\\' => Some((*pattern.get(at + 1)?, at + 2)),
        byte => Some((*byte, at + 1)),
    }
}

/// Test for a byte of the POSIX character class `name` (such as `digit`) in the locale C; `None` if
/// there is no class of that name.
fn class(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        // With the vertical tab, which Rust does not count.
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(set: &str) -> Vec<u8> {
        let (set, end) = ByteSet::parse(set.as_bytes(), 0).map(|(found, end)| (found, end == set.len())).unwrap();
        assert!(end);
        (0..=u8::MAX).filter(|byte| set.contains(*byte)).collect()
    }

    #[test]
    fn brackets_name_bytes_ranges_and_classes() {
        for (set, expected) in [
            ("[abc]", "abc"),
            ("[a-e]", "abcde"),
            ("[]a]", "]a"),
            ("[a-]", "-a"),
            ("[-a]", "-a"),
            ("[\\]-a]", "]^_`a"),
            ("[a-c-e]", "-abce"),
            ("[z-a]", "z"),
            ("[a/b]", "ab"),
            ("[[:digit:]x]", "0123456789x"),
            ("[[:digit]", ":[dgit"),
            ("[[:]", "[:"),
            ("[\\!a]", "!a"),
            ("[a-\\c]", "abc"),
        ] {
            let mut expected: Vec<u8> = expected.into();
            expected.sort_unstable();
            assert_eq!(members(set), expected, "{set}");
        }
        for set in ["[!a]", "[^a]"] {
            assert_eq!(members(set).len(), 254, "{set}: all but a and the slash");
        }
    }

    #[test]
    fn classes_are_those_of_the_locale_c() {
        for (name, count) in [
            ("alnum", 62),
            ("alpha", 52),
            ("blank", 2),
            ("cntrl", 33),
            ("digit", 10),
            ("graph", 93),
            ("lower", 26),
            ("print", 94),
            ("punct", 31),
            ("space", 6),
            ("upper", 26),
            ("xdigit", 22),
        ] {
            assert_eq!(members(&format!("[[:{name}:]]")).len(), count, "{name}, less the slash");
        }
    }

    #[test]
    fn what_is_wrong_has_its_offset() {
        let fault = |set: &str| ByteSet::parse(set.as_bytes(), 0).unwrap_err();
        for set in ["[", "[]", "[!]", "[a", "[a-", "[a\\", "[[:digit:]", "[[:digit"] {
            assert_eq!(fault(set), (0, Fault::Unclosed), "{set}");
        }
        assert_eq!(fault("[ab[:digits:]]"), (3, Fault::UnknownClass));
        assert_eq!(fault("[[::]]"), (1, Fault::UnknownClass));
    }
}
