//! Names as they travel in a listing: the number of bytes shared with the name before, and the rest.

/// Number of bytes at the start of `name` that are those of `before`, the name before it.
#[must_use]
pub fn shared(before: &[u8], name: &[u8]) -> u8 {
    let equal = before.iter().zip(name).take_while(|(one, other)| one == other).count();
    u8::try_from(equal).unwrap_or(u8::MAX)
}

/// The name that has the first `shared` bytes of `before`, and then `rest`; `None` if `before` has
/// fewer.
#[must_use]
pub fn whole(before: &[u8], shared: u8, rest: &[u8]) -> Option<Vec<u8>> {
    Some([before.get(..usize::from(shared))?, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_together_again() {
        for (before, name, bytes) in
            [("", "abc", 0), ("abc", "abd", 2), ("ab", "abc", 2), ("x", "y", 0), ("a\u{e9}", "a\u{e8}", 2)]
        {
            let number = shared(before.as_bytes(), name.as_bytes());
            assert_eq!(number, bytes);
            let rest = &name.as_bytes()[usize::from(number)..];
            assert_eq!(whole(before.as_bytes(), number, rest), Some(name.as_bytes().to_vec()));
        }
        assert_eq!(whole(b"ab", 3, b"c"), None);
        assert_eq!(shared(&[7; 300], &[7; 300]), 255);
    }
}
