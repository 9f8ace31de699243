//! Patterns for the hosts of a section.

use std::cmp::Reverse;

use globset::{GlobBuilder, GlobMatcher};

/// A pattern for names and addresses of hosts: `dtn*`, `10.1.?.*`, `{a,b}.example.org`.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    matcher: GlobMatcher,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a pattern for hosts has a character at least, such as \"dtn*\"".to_owned());
        }
        if text.contains(['@', '/']) {
            return Err("a pattern is for the name of a host alone, without user, path or URL".to_owned());
        }
        let glob = GlobBuilder::new(text).case_insensitive(true).literal_separator(false).build();
        let glob = glob.map_err(|error| format!("not a pattern for hosts: {}", error.kind()))?;
        Ok(Self { text: text.to_owned(), matcher: glob.compile_matcher() })
    }

    /// Whether the pattern matches this host name, given without user and brackets.
    pub(super) fn matches(&self, host: &str) -> bool {
        self.matcher.is_match(host)
    }

    /// Key to sort patterns by, the most specific first: those without wildcards, then those with
    /// more literal characters; characters in brackets or braces do not count. Two patterns may
    /// have equal keys.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        let (mut depth, mut plain, mut wild) = (0_usize, 0_usize, false);
        for letter in self.text.chars() {
            match letter {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                '*' | '?' => {}
                _ => {
                    plain += usize::from(depth == 0);
                    continue;
                }
            }
            wild = true;
        }
        (wild, Reverse(plain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text).unwrap()
    }

    #[test]
    fn names_and_addresses_match() {
        for (text, host, matches) in [
            ("dtn*", "dtn1.example.org", true),
            ("dtn*", "DTN7", true),
            ("dtn*", "adtn", false),
            ("*", "::1", true),
            ("2001:db8:*", "2001:db8::7", true),
            ("{a,b}.example", "b.example", true),
            ("node[0-9]", "node7", true),
            ("node?", "node12", false),
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
        ] {
            assert_eq!(pattern(text).matches(host), matches, "{text} {host}");
        }
    }

    #[test]
    fn the_most_specific_comes_first() {
        let ordered = ["dtn1.example.org", "a", "dtn*.example.org", "dtn?.example.*", "*.org", "{a,b}", "*"];
        for pair in ordered.windows(2) {
            assert!(pattern(pair[0]).rank() <= pattern(pair[1]).rank(), "{pair:?}");
        }
        assert!(pattern("a").rank() < pattern("*.long.example.org").rank());
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "a[", "a{b", "[z-a]", "user@host", "icdc://host", "a\\"] {
            assert!(Pattern::new(text).is_err(), "{text}");
        }
    }
}
