//! Patterns of names: one component of a path, as a shell has it.

use crate::wildcards::Wildcards;

/// Shell pattern (`*`, `?`, brackets) for one component of a path. As in a shell, a name that
/// begins with a dot matches only a pattern that does.
#[derive(Clone, Debug)]
pub struct NamePattern {
    wildcards: Wildcards,
    begins_with_dot: bool,
}

impl NamePattern {
    /// Compiles one component of a path as a pattern; `None` if it has no wildcard or is no valid
    /// pattern, and so can only be a name.
    #[must_use]
    pub fn parse(component: &[u8]) -> Option<Self> {
        if !component.iter().any(|byte| b"*?[".contains(byte)) {
            return None;
        }
        let wildcards = Wildcards::parse(component).ok()?;
        Some(Self { wildcards, begins_with_dot: component.starts_with(b".") })
    }

    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        (self.begins_with_dot || !name.starts_with(b".")) && self.wildcards.matches(name.iter().copied(), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, matching, others) in [
            ("*.nc", &["a.nc", "run.7.nc"] as &[&str], &["a.ncx", ".nc", ".a.nc", "nc"] as &[&str]),
            (".*", &[".a", "."], &["a"]),
            ("?x", &["ax"], &["x", "aax", ".x"]),
            ("[ab]*", &["a", "bc"], &["c", ".a"]),
            ("a\\*[*]", &["a**"], &["ab*", "a*b"]),
        ] {
            let pattern = NamePattern::parse(pattern.as_bytes()).unwrap();
            matching.iter().for_each(|name| assert!(pattern.matches(name.as_bytes()), "{pattern:?} {name}"));
            others.iter().for_each(|name| assert!(!pattern.matches(name.as_bytes()), "{pattern:?} {name}"));
        }
    }

    #[test]
    fn names_are_no_patterns() {
        for name in ["", "a", ".", "..", "a\\b", "[a", "a[", "*\\"] {
            assert!(NamePattern::parse(name.as_bytes()).is_none(), "{name}");
        }
    }
}
