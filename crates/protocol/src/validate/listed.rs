//! Rules of lists of names.

use super::names::is_component;
use super::rules::{Checked, require};
use crate::limits::{MAX_NAME_BYTES_IN_PART, MAX_NAMES_IN_PART, MAX_PATH};
use crate::listed::ListedNames;

/// Checks a part of a list of names to be copied: each is a path below a source.
pub(super) fn names(ListedNames { names, ended, .. }: &ListedNames) -> Checked {
    require(!names.is_empty() || *ended, "no name, although the list goes on")?;
    require(names.len() <= MAX_NAMES_IN_PART, "too many names")?;
    require(names.iter().map(Vec::len).sum::<usize>() <= MAX_NAME_BYTES_IN_PART, "names too long in all")?;
    let is_below = |name: &Vec<u8>| name.len() <= MAX_PATH && name.split(|byte| *byte == b'/').all(is_component);
    require(names.iter().all(is_below), "a name that is no path below a source")
}
