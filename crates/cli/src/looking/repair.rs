//! Copies what differs from the first tree to the second.
//!
//! The copy is one of A's contents whose rules include the differing items and the directories above
//! them, and nothing else. Nothing is deleted.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::{bail, ensure};
use icdc_filter::{Effect, Rule};
use icdc_protocol::limits::{MAX_RULE_BYTES, MAX_RULES};
use icdc_protocol::message::ListedKind;
use icdc_session::listing::checker::Found;
use icdc_session::listing::compare::{Aspect, Difference, Side};

use crate::arguments::{Command, ConnectionArguments, parse_from};
use crate::choosing::rule_bytes;
use crate::plan::CopyPlan;

/// Items that `icdc verify --repair` has to copy, collected while two trees are compared.
#[derive(Default)]
pub(super) struct Repair {
    rules: Vec<Rule>,
    /// Directories above items, which the rules include already.
    above: HashSet<Vec<u8>>,
    bytes: usize,
    /// Number of items that differ, also of those for which the rules have no room.
    items: u64,
    /// Whether the compared items themselves are directories.
    is_of_directories: bool,
    /// Whether the compared items themselves are of different types.
    is_hopeless: bool,
}

/// Both trees of the command line as typed, and how they are reached.
pub(super) struct Trees {
    pub(super) a: OsString,
    pub(super) b: OsString,
    pub(super) connection: ConnectionArguments,
}

impl Repair {
    /// Notes an item that has to be copied, if this difference is one that a copy from A to B
    /// settles.
    pub(super) fn note(&mut self, difference: &Difference<'_>) {
        match difference {
            Difference::Differs { aspects, a, .. } => {
                self.is_hopeless |= a.path.is_empty() && aspects.contains(&Aspect::Type);
                self.include(a);
            }
            Difference::OneSided { side: Side::A, found, .. } => self.include(found),
            Difference::OneSided { side: Side::B, .. } | Difference::Unreadable { .. } => {}
        }
    }

    /// Whether there is nothing to copy.
    pub(super) fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Adds rules that include this item with the directories above it and everything in it.
    fn include(&mut self, found: &Found) {
        self.items += 1;
        self.is_of_directories |= !found.path.is_empty() || found.kind == ListedKind::Open;
        if found.path.is_empty() {
            return;
        }
        for (slash, _) in found.path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let directory = &found.path[..slash];
            if self.above.insert(directory.to_vec()) {
                self.rule([&literal(directory)[..], b"/"].concat());
            }
        }
        self.rule(literal(&found.path));
        if found.kind == ListedKind::Open && !self.above.contains(&found.path) {
            self.rule([&escaped(&found.path)[..], b"/***"].concat());
        }
    }

    /// Adds a rule that includes this pattern from the transfer root on, if there is room for it.
    fn rule(&mut self, pattern: Vec<u8>) {
        self.bytes += pattern.len() + 5;
        if self.rules.len() < MAX_RULES && self.bytes < MAX_RULE_BYTES {
            self.rules.push(Rule { effect: Effect::Include, pattern: [b"/", &pattern[..]].concat() });
        }
    }

    /// Plan of the copy that repairs B; `owners` if owners were compared and are to be copied.
    ///
    /// # Errors
    /// It cannot be done by one copy.
    pub(super) fn plan(mut self, trees: Trees, owners: bool) -> anyhow::Result<CopyPlan> {
        let Trees { a, b, connection } = trees;
        ensure!(!self.is_hopeless, "one is a directory and the other is not: remove the second, then copy the first");
        let words: [&OsStr; 5] = ["icdc".as_ref(), "copy".as_ref(), "--".as_ref(), &a, &b];
        let Command::Copy(mut copy) = parse_from(words)?.command else { bail!("copy was asked for") };
        copy.connection = connection;
        copy.preserve.owner |= owners;
        // Numbers are what was compared.
        copy.numeric_ids = true;
        if self.is_of_directories {
            self.rules.push(Rule { effect: Effect::Exclude, pattern: b"*".to_vec() });
            ensure!(
                self.rules.len() <= MAX_RULES
                    && self.bytes < MAX_RULE_BYTES
                    && rule_bytes(&self.rules) <= MAX_RULE_BYTES,
                "{} items differ, too many to be copied one by one; run icdc copy {} {}",
                self.items,
                contents(&a).display(),
                b.display()
            );
            copy.places[0] = contents(&a);
        }
        let is_of_directories = self.is_of_directories;
        let mut plan = CopyPlan::new(*copy)?;
        if is_of_directories {
            plan.options.send.choice.rules = self.rules;
        }
        Ok(plan)
    }
}

/// A place as typed, with an end by which it means the contents of its directory.
fn contents(place: &OsStr) -> OsString {
    let text = place.as_bytes();
    let end: &[u8] = match text {
        [.., b'/'] => b"",
        // The home directory of a host.
        [.., b':'] => b"./",
        _ => b"/",
    };
    OsString::from_vec([text, end].concat())
}

/// A pattern that matches this path alone.
fn literal(path: &[u8]) -> Vec<u8> {
    // Without wildcards a pattern is taken as it is, backslashes as well.
    if path.iter().any(|byte| b"*?[".contains(byte)) { escaped(path) } else { path.to_vec() }
}

/// A path as the literal part of a pattern with wildcards.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(path.len() + 4);
    for byte in path {
        if b"*?[\\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use icdc_filter::Rules;

    use super::*;

    #[test]
    fn rules_include_what_differs_and_nothing_else() {
        let found = |path: &str, kind| Found { path: path.into(), name_start: 0, kind, metadata: None };
        let file = || ListedKind::File { digest: None };
        let mut repair = Repair::default();
        for (path, kind) in [("a*b/x", file()), ("new", ListedKind::Open), ("q\\[", file()), ("back\\slash", file())] {
            repair.note(&Difference::OneSided { side: Side::A, found: &found(path, kind), beneath: 0 });
        }
        repair.rules.push(Rule { effect: Effect::Exclude, pattern: b"*".to_vec() });
        let rules = Rules::compile(&repair.rules).unwrap();
        for (path, is_directory, included) in [
            ("a*b", true, true),
            ("a*b/x", false, true),
            ("a*b/y", false, false),
            ("acb", true, false),
            ("new", true, true),
            ("new/deep/file", false, true),
            ("q\\[", false, true),
            ("back\\slash", false, true),
            ("other", false, false),
            ("deep/new", true, false),
        ] {
            assert_eq!(rules.decide(path.as_bytes(), is_directory) == Effect::Include, included, "{path}");
        }
    }

    #[test]
    fn contents_of_a_home_are_not_those_of_the_root() {
        for (place, expected) in [("a", "a/"), ("a/", "a/"), ("host:", "host:./"), ("host:a", "host:a/")] {
            assert_eq!(contents(OsStr::new(place)), expected);
        }
    }
}
