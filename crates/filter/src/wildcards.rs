//! Wildcards over bytes, compared as a nondeterministic automaton (Thompson, 1968).
//!
//! ```text
//! pattern  t₁ t₂ … tₘ    tokens: a byte, one of a set, any but a slash; * (no slash); ** (any)
//! state i                the first i tokens match what was read so far
//! byte c   i → i+1       if tᵢ₊₁ takes c
//!          i → i         if tᵢ₊₁ is **, or is * and c is no slash
//!          i → i+1       without a byte, if tᵢ₊₁ is * or **
//! ```
//!
//! All states are followed at once, so n bytes take at most n · m steps, whatever the pattern: there
//! is no backtracking. Most comparisons end sooner, when no state is left.

use crate::bytes::ByteSet;
use crate::fault::Fault;

/// Element of a compiled pattern: a byte, `?`, a set in brackets, `*` or `**`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// Any byte but a slash.
    Any,
    /// A byte of the set of this number.
    Set(usize),
    /// Any bytes but slashes, also none.
    Star,
    /// Any bytes, also none.
    StarStar,
}

/// Most tokens of a pattern whose matching needs no memory from the heap, as its states fit in an
/// array.
const FEW: usize = 255;

/// Compiled pattern with wildcards, matched as a nondeterministic automaton: the time is bounded by
/// the product of both lengths.
#[derive(Clone, Debug)]
pub(crate) struct Wildcards {
    tokens: Vec<Token>,
    sets: Vec<ByteSet>,
    /// Bytes that whatever matches ends with.
    tail: Vec<u8>,
}

impl Wildcards {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// The offset of what is wrong, and what it is.
    pub(crate) fn parse(pattern: &[u8]) -> Result<Self, (usize, Fault)> {
        let (mut tokens, mut sets) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(byte) = pattern.get(at) {
            match byte {
                b'*' => {
                    let stars = pattern[at..].iter().take_while(|byte| **byte == b'*').count();
                    tokens.push(if stars == 1 { Token::Star } else { Token::StarStar });
                    at += stars;
                }
                b'?' => {
                    tokens.push(Token::Any);
                    at += 1;
                }
                b'[' => {
                    let (set, end) = ByteSet::parse(pattern, at)?;
                    tokens.push(Token::Set(sets.len()));
                    sets.push(set);
                    at = end;
                }
                b'\\' => {
                    let escaped = pattern.get(at + 1).ok_or((at, Fault::NothingEscaped))?;
                    tokens.push(Token::Byte(*escaped));
                    at += 2;
                }
                byte => {
                    tokens.push(Token::Byte(*byte));
                    at += 1;
                }
            }
        }
        let literal = |token: &Token| if let Token::Byte(byte) = token { Some(*byte) } else { None };
        let mut tail: Vec<u8> = tokens.iter().rev().map_while(literal).collect();
        tail.reverse();
        Ok(Self { tokens, sets, tail })
    }

    /// Whether a text that ends with `end` may match, by the literal bytes at the end of the
    /// pattern alone: a quick test before the whole comparison.
    pub(crate) fn may_end_with(&self, end: &[u8]) -> bool {
        self.tail.iter().rev().zip(end.iter().rev()).all(|(one, other)| one == other)
    }

    /// Whether the whole of `text` matches; if `anywhere`, also what follows any slash in it.
    pub(crate) fn matches(&self, text: impl Iterator<Item = u8>, anywhere: bool) -> bool {
        if self.tokens.len() <= FEW {
            return self.run(&mut [0; (FEW + 1) / 64], text, anywhere);
        }
        self.run(&mut vec![0; self.tokens.len() / 64 + 1], text, anywhere)
    }

    /// Runs the automaton over `text`, with a bit of `states`, all zero at first, for each state;
    /// returns whether all of the text matches, or with `anywhere` also what follows any slash in
    /// it.
    fn run(&self, states: &mut [u64], text: impl Iterator<Item = u8>, anywhere: bool) -> bool {
        let words = self.tokens.len() / 64 + 1;
        self.enter(states, 0);
        for byte in text {
            // Downwards, so that what is entered is not left at once.
            for word in (0..words).rev() {
                let mut left = std::mem::take(&mut states[word]);
                while left != 0 {
                    let bit = 63 - left.leading_zeros() as usize;
                    left &= !(1 << bit);
                    self.step(states, word * 64 + bit, byte);
                }
            }
            if anywhere && byte == b'/' {
                self.enter(states, 0);
            }
            if !anywhere && states[..words].iter().all(|word| *word == 0) {
                return false;
            }
        }
        let last = self.tokens.len();
        states[last / 64] >> (last % 64) & 1 == 1
    }

    /// Takes `byte` in `state` of the automaton: enters the states that follow.
    fn step(&self, states: &mut [u64], state: usize, byte: u8) {
        let Some(token) = self.tokens.get(state) else { return };
        match token {
            Token::Byte(expected) if *expected == byte => self.enter(states, state + 1),
            Token::Any if byte != b'/' => self.enter(states, state + 1),
            Token::Set(number) if self.sets[*number].contains(byte) => self.enter(states, state + 1),
            Token::Star if byte != b'/' => self.enter(states, state),
            Token::StarStar => self.enter(states, state),
            _ => {}
        }
    }

    /// Enters `state`, and the one after it if that needs no byte. No two stars follow each other.
    fn enter(&self, states: &mut [u64], state: usize) {
        states[state / 64] |= 1 << (state % 64);
        if let Some(Token::Star | Token::StarStar) = self.tokens.get(state) {
            let next = state + 1;
            states[next / 64] |= 1 << (next % 64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let compiled = Wildcards::parse(pattern.as_bytes()).unwrap();
        let found = compiled.matches(text.bytes(), false);
        assert!(!found || compiled.may_end_with(text.as_bytes()), "{pattern} {text}");
        found
    }

    #[test]
    fn a_star_stops_at_slashes_and_two_do_not() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "abc", true),
            ("*", "a/b", false),
            ("**", "a/b", true),
            ("***", "a/b", true),
            ("a*c", "ac", true),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("a*/c", "ab/c", true),
            ("a*/c", "a/b/c", false),
            ("a**/c", "a/b/c", true),
            ("a**c", "a/b/c", true),
            ("**/*.o", "a/b/c.o", true),
            ("**/*.o", "c.o", false),
            ("*a**b*c", "xa/y/b.c", true),
            ("*a**b*c", "xa/y/b/c", false),
            ("?", "", false),
            ("?", "/", false),
            ("??", "ab", true),
            ("[!a]", "/", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\/b", "a/b", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_of_many_tokens_needs_no_other_rules() {
        for tokens in [62, 63, 64, 65, 127, 128, FEW - 1, FEW, FEW + 1, 1000] {
            let pattern = "?".repeat(tokens);
            assert!(matches(&pattern, &"x".repeat(tokens)), "{tokens}");
            assert!(!matches(&pattern, &"x".repeat(tokens - 1)), "{tokens}");
            assert!(!matches(&pattern, &"x".repeat(tokens + 1)), "{tokens}");
            let pattern = format!("{}*", "a*".repeat(tokens / 2));
            assert!(Wildcards::parse(pattern.as_bytes()).is_ok());
        }
    }

    #[test]
    fn after_a_slash_is_a_start_as_well() {
        let compiled = Wildcards::parse(b"b/**").unwrap();
        assert!(compiled.matches("a/b/c".bytes(), true));
        assert!(!compiled.matches("a/b/c".bytes(), false));
        assert!(!compiled.matches("a/xb/c".bytes(), true));
    }

    #[test]
    fn a_backslash_at_the_end_is_refused() {
        assert_eq!(Wildcards::parse(b"*\\").unwrap_err(), (1, Fault::NothingEscaped));
    }
}
