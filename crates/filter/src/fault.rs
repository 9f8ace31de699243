//! Faults of patterns.

use std::fmt;

/// Reason why the pattern of an include or exclude rule, or of names, cannot be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The pattern is empty.
    Empty,
    /// The pattern has a NUL, which no name has.
    Nul,
    /// A `[` without its `]`.
    Unclosed,
    /// A class in brackets that does not exist.
    UnknownClass,
    /// A `\` at the end of a pattern with wildcards.
    NothingEscaped,
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Empty => "an empty pattern matches nothing",
            Self::Nul => "a name has no NUL",
            Self::Unclosed => "the bracket is not closed; for the byte itself write \\[",
            Self::UnknownClass => {
                "the class is none of alnum, alpha, blank, cntrl, digit, graph, lower, print, punct, space, upper, xdigit"
            }
            Self::NothingEscaped => "the backslash has nothing after it; for the byte itself write \\\\",
        })
    }
}
