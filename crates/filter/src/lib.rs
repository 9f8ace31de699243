//! Include and exclude rules over paths, with the syntax and the semantics of rsync.
//!
//! ```text
//! rule      effect and pattern; the first rule that matches an item decides, and none includes it
//! path      of an item from the transfer root, without a slash at its start: bytes, never text
//! root      the directory that holds the source where `SRC` is copied (its paths begin with SRC/),
//!           the source itself where `SRC/` is
//! ```
//!
//! | pattern | matches |
//! |---|---|
//! | `*` `?` `[a-z]` `[!a]` `[[:digit:]]` `\` | any bytes, one byte, one of these; none of them a slash. The byte after `\` |
//! | `**` | any bytes, slashes as well |
//! | `*.o` (no slash, no `**`) | the last component of a path |
//! | `a/*.c` | as many last components as it has |
//! | `a/**` | from the start of any component on |
//! | `/a`, `**/a` | from the transfer root on |
//! | `a/` | directories only |
//! | `a/***` | the directory `a` and everything beneath it |
//!
//! A pattern without `*`, `?` and `[` is taken literally, backslashes as well. Patterns that can
//! match nothing, because a `[` is not closed or a `\` has nothing after it, are errors; rsync keeps
//! them without a word.
//!
//! A directory that is excluded is not entered, so nothing beneath it is asked about: whoever asks
//! for a single path asks for the directories above it first.
//!
//! ```
//! use icdc_filter::{Effect, Rule, Rules};
//!
//! let rule = |effect, pattern: &str| Rule { effect, pattern: pattern.into() };
//! let rules = [rule(Effect::Include, "*.nc"), rule(Effect::Include, "*/"), rule(Effect::Exclude, "*")];
//! let rules = Rules::compile(&rules).unwrap();
//! assert_eq!(rules.decide(b"run7/out.nc", false), Effect::Include);
//! assert_eq!(rules.decide(b"run7/out.log", false), Effect::Exclude);
//! ```
//!
//! | part | file |
//! |---|---|
//! | which part of a path a pattern is compared with | `pattern` |
//! | wildcards, compared in time bounded by the product of both lengths | `wildcards` |
//! | sets of bytes in brackets | `bytes` |
//! | names in one directory, as in a shell | [`NamePattern`] |
//! | files of rules | [`read_file`], [`parse_rule`] |

#![forbid(unsafe_code)]

mod bytes;
mod fault;
mod file;
mod name_pattern;
mod pattern;
mod wildcards;

use serde::{Deserialize, Serialize};

pub use self::fault::Fault;
pub use self::file::{FileError, Form, Line, LineError, parse_rule, read_file};
pub use self::name_pattern::NamePattern;
use self::pattern::Pattern;

/// Effect of a rule on the items that it matches: they are copied, or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// The item is copied.
    Include,
    /// The item is left out, with everything beneath it.
    Exclude,
}

/// An include or exclude rule as the user wrote it and as it travels to the other end: not yet
/// compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Effect on the items that match.
    pub effect: Effect,
    /// The pattern, as written.
    pub pattern: Vec<u8>,
}

/// A pattern that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {fault}, at byte {}", String::from_utf8_lossy(pattern), offset + 1)]
pub struct PatternError {
    /// The pattern, as written.
    pub pattern: Vec<u8>,
    /// Offset in bytes of what is wrong in the pattern.
    pub offset: usize,
    /// Fault of the pattern.
    pub fault: Fault,
}

/// Compiled include and exclude rules, in order: the first one that matches an item decides.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<(Effect, Pattern)>);

impl Rules {
    /// Compiles `rules`.
    ///
    /// # Errors
    /// The first pattern that is none.
    pub fn compile(rules: &[Rule]) -> Result<Self, PatternError> {
        rules.iter().map(|rule| Ok((rule.effect, compile(&rule.pattern)?))).collect::<Result<_, _>>().map(Self)
    }

    /// Effect of the first rule that matches the item at `path`; [`Effect::Include`] if none does.
    /// The path is relative to the transfer root, not empty, and has no slash at its start or end.
    #[must_use]
    pub fn decide(&self, path: &[u8], is_directory: bool) -> Effect {
        let first = self.0.iter().find(|(_, pattern)| pattern.matches(path, is_directory));
        first.map_or(Effect::Include, |(effect, _)| *effect)
    }
}

/// Compiles the pattern of one rule; the error repeats the pattern, for the message.
fn compile(pattern: &[u8]) -> Result<Pattern, PatternError> {
    Pattern::parse(pattern).map_err(|(offset, fault)| PatternError { pattern: pattern.to_vec(), offset, fault })
}
