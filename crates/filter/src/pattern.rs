//! One pattern: which part of a path it is compared with, and the comparison.

use crate::fault::Fault;
use crate::wildcards::Wildcards;

/// Compiled pattern of one include or exclude rule: the part of a path that it is compared with,
/// and the text to compare.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    extent: Extent,
    text: Text,
    /// Whether only directories match: the pattern ends with a slash.
    directories_only: bool,
}

/// Part of a path that a pattern is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// The last component.
    Name,
    /// As many last components.
    Last(usize),
    /// The path from the transfer root on.
    Whole,
    /// The path with a slash before it, so that `**/` matches at the root as well.
    Slashed,
    /// The path, or what follows any slash in it.
    Anywhere,
}

/// Text of a compiled pattern: literal bytes, or bytes with wildcards.
#[derive(Clone, Debug)]
enum Text {
    Literal(Vec<u8>),
    Wild {
        wildcards: Wildcards,
        /// Whether a slash is put behind directories, so that `a/***` matches `a` as well.
        closes_directories: bool,
    },
}

impl Pattern {
    /// Compiles a pattern as written.
    ///
    /// # Errors
    /// The offset of what is wrong, and what it is.
    pub(crate) fn parse(pattern: &[u8]) -> Result<Self, (usize, Fault)> {
        if pattern.is_empty() {
            return Err((0, Fault::Empty));
        }
        if let Some(nul) = pattern.iter().position(|byte| *byte == 0) {
            return Err((nul, Fault::Nul));
        }
        // The root alone is no directory that could be matched.
        let shortened = pattern.strip_suffix(b"/").filter(|rest| !rest.is_empty());
        let (directories_only, pattern) = (shortened.is_some(), shortened.unwrap_or(pattern));
        let slashes = pattern.iter().filter(|byte| **byte == b'/').count();
        let crosses = pattern.windows(2).any(|two| two == b"**");
        let extent = match pattern {
            [b'/', ..] => Extent::Whole,
            [b'*', b'*', ..] => Extent::Slashed,
            _ if crosses => Extent::Anywhere,
            _ if slashes > 0 => Extent::Last(slashes + 1),
            _ => Extent::Name,
        };
        let start = usize::from(extent == Extent::Whole);
        let rest = &pattern[start..];
        let text = if rest.iter().any(|byte| b"*?[".contains(byte)) {
            let wildcards = Wildcards::parse(rest).map_err(|(offset, fault)| (offset + start, fault))?;
            Text::Wild { wildcards, closes_directories: rest.ends_with(b"***") }
        } else {
            Text::Literal(rest.to_vec())
        };
        Ok(Self { extent, text, directories_only })
    }

    /// Whether the item at `path`, relative to the transfer root, matches.
    pub(crate) fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        if self.directories_only && !is_directory {
            return false;
        }
        let Some(part) = self.extent.of(path) else { return false };
        match &self.text {
            Text::Literal(literal) => literal == part,
            Text::Wild { wildcards, closes_directories } => {
                let closing = (*closes_directories && is_directory).then_some(b'/');
                if closing.is_none() && !wildcards.may_end_with(part) {
                    return false;
                }
                let opening = (self.extent == Extent::Slashed).then_some(b'/');
                let text = opening.into_iter().chain(part.iter().copied()).chain(closing);
                wildcards.matches(text, self.extent == Extent::Anywhere)
            }
        }
    }
}

impl Extent {
    /// Part of `path` that is compared with a pattern of this extent; `None` if the path has fewer
    /// components.
    fn of(self, path: &[u8]) -> Option<&[u8]> {
        let components = match self {
            Self::Name => 1,
            Self::Last(components) => components,
            Self::Whole | Self::Slashed | Self::Anywhere => return Some(path),
        };
        let mut slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        match slashes.nth(components - 1) {
            Some((slash, _)) => Some(&path[slash + 1..]),
            // As many components as it has, or fewer.
            None => (path.iter().filter(|byte| **byte == b'/').count() + 1 == components).then_some(path),
        }
    }
}
