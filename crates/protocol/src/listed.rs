//! Names that the user lists one by one, when only these are copied: what a sender that does not
//! have the list asks for, and is given.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// Part of a list of names, in scan order ([`list_order`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedNames {
    /// The pass through the list that the sender has asked for.
    pub pass: u32,
    /// The next names: paths below the source.
    pub names: Vec<Vec<u8>>,
    /// Whether these are the last names.
    pub ended: bool,
}

/// Order in which a scan comes to names below a source: by components, each by its bytes.
#[must_use]
pub fn list_order(one: &[u8], other: &[u8]) -> Ordering {
    // No name has a NUL in it, so that the end of a component comes before any longer one.
    let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    one.iter().map(key).cmp(other.iter().map(key))
}
