//! Addresses that a key may be used from: `from="10.0.0.0/8,!10.9.0.0/16,2001:db8::/32"`, a pattern
//! list as in sshd(8), but without names of hosts, which sshd does not look up by default either.

use std::net::IpAddr;

use icdc_units::Prefix;

/// List of address patterns from which a key may be used. An address has to match one, and none
/// that is negated by `!`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    patterns: Vec<Pattern>,
}

/// One pattern of the list, negated if `!` stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    is_negated: bool,
    matches: Matches,
}

/// Addresses or names that a pattern of the list matches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Matches {
    /// The addresses of a network (`ADDRESS/BITS`).
    Prefix(Prefix),
    /// A pattern for the address as text, where `*` matches any characters and `?` one.
    Text(String),
}

impl Sources {
    /// Parses the value of `from=`.
    pub(super) fn parse(list: &str) -> Result<Self, String> {
        let patterns: Vec<_> = list.split(',').map(Pattern::parse).collect::<Result<_, _>>()?;
        if patterns.iter().all(|pattern| pattern.is_negated) {
            return Err(format!("from=\"{list}\" admits nobody: add what is to be admitted, for example *"));
        }
        Ok(Self { patterns })
    }

    /// Whether connections may come from `address`. An IPv4-mapped IPv6 address counts as its IPv4
    /// address.
    #[must_use]
    pub fn admit(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let text = address.to_string();
        let matching = || self.patterns.iter().filter(|pattern| pattern.matches(address, &text));
        matching().next().is_some() && !matching().any(|pattern| pattern.is_negated)
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let (is_negated, pattern) = text.strip_prefix('!').map_or((false, text), |pattern| (true, pattern));
        Ok(Self { is_negated, matches: Matches::parse(pattern)? })
    }

    /// Whether the pattern matches an address; `text` is the same address as text.
    fn matches(&self, address: IpAddr, text: &str) -> bool {
        match &self.matches {
            Matches::Prefix(prefix) => prefix.contains(address),
            Matches::Text(pattern) => is_like(text.as_bytes(), pattern.as_bytes()),
        }
    }
}

impl Matches {
    fn parse(pattern: &str) -> Result<Self, String> {
        let of_addresses = |byte: u8| byte.is_ascii_hexdigit() || b".:*?/".contains(&byte);
        if pattern.is_empty() {
            return Err("from= has an empty pattern: write addresses with commas between them".into());
        }
        if !pattern.bytes().all(of_addresses) {
            return Err(format!(
                "from= has {pattern:?}: host names are not looked up; write addresses such as 192.0.2.7 or 2001:db8::/32"
            ));
        }
        if !pattern.contains('/') && pattern.contains(['*', '?']) {
            return Ok(Self::Text(pattern.to_ascii_lowercase()));
        }
        let prefix = Prefix::of_text(pattern).map_err(|error| format!("from=: {error}"))?;
        let written = pattern.split_once('/').map_or(pattern, |(address, _)| address).parse::<IpAddr>();
        match written.map(|address| address.to_canonical()) {
            Ok(address) if address == prefix.address() => Ok(Self::Prefix(prefix)),
            _ => Err(format!("from= has {pattern}, which has bits beyond its length: is {prefix} meant?")),
        }
    }
}

/// Whether `text` matches `pattern`. Backtracks to the last `*` only, so that no pattern takes
/// long.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    let mut star = None;
    while at < text.len() {
        match pattern.get(next) {
            Some(b'*') => {
                star = Some((next, at));
                next += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[at] => {
                at += 1;
                next += 1;
            }
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, next) = (taken + 1, place + 1);
            }
        }
    }
    pattern[next..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(list: &str, address: &str) -> bool {
        Sources::parse(list).unwrap().admit(address.parse().unwrap())
    }

    #[test]
    fn an_address_has_to_match_and_no_negation_may() {
        for (list, address, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "2001:db8::1", false),
            ("10.0.0.0/8,2001:db8::/32", "2001:db8:7::1", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("!10.9.0.0/16,10.0.0.0/8", "10.9.0.1", false),
            ("10.0.0.0/8,!10.9.0.0/16", "10.9.0.1", false),
            ("10.0.0.0/8,!10.9.0.0/16", "10.8.0.1", true),
            ("*,!10.*", "10.8.0.1", false),
            ("*,!10.*", "2001:db8::1", true),
            ("192.0.2.?", "192.0.2.7", true),
            ("192.0.2.?", "192.0.2.17", false),
            ("2001:DB8::*", "2001:db8::1", true),
            ("*.*.*.*.*", "1.2.3.4", false),
        ] {
            assert_eq!(admits(list, address), expected, "{list} {address}");
        }
    }

    #[test]
    fn what_would_never_match_is_refused() {
        for (list, expected) in [
            ("", "empty pattern"),
            ("10.0.0.0/8,", "empty pattern"),
            ("!10.0.0.0/8", "admits nobody"),
            ("*.example.org", "host names"),
            ("10.0.0.1/8", "is 10.0.0.0/8 meant"),
            ("10.0.0.0/33", "no prefix"),
            ("10.0.0", "no prefix"),
            ("10.*/8", "no prefix"),
            ("bad.cafe", "no prefix"),
        ] {
            let error = Sources::parse(list).unwrap_err();
            assert!(error.contains(expected), "{list}: {error}");
        }
    }
}
