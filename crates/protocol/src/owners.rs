//! Owners by name: names of the sender's users and groups, and the rules by which the receiver finds
//! numbers for them.
//!
//! ```text
//! sender's number n, with the name N if its host has one; the first line that applies decides:
//!   the first rule of --usermap or --groupmap that matches n or N    → the rule's target
//!   owners by name, n ≠ 0, and the receiver's host has N with m ≠ 0  → m
//!   otherwise                                                        → n
//! ```
//!
//! The order is that of rsync's `recv_add_id`, which takes m = 0 as well: a sender that says that n is
//! root would get past a rule for 0.

use serde::{Deserialize, Serialize};

use crate::limits::MAX_NAME;

/// Names of users and groups of the sender's host, ahead of the first entry that has their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerNames {
    /// Users.
    pub users: Vec<NamedOwner>,
    /// Groups.
    pub groups: Vec<NamedOwner>,
}

/// The number of a user or group, and its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedOwner {
    /// Number of the user or group.
    pub id: u32,
    /// Its name.
    pub name: Vec<u8>,
}

/// Rules by which the receiver finds owners and groups for the numbers that the sender announces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerMapping {
    /// Decision where no rule matches.
    pub by: OwnersBy,
    /// Rules for users; the first that matches decides.
    pub users: Vec<OwnerRule>,
    /// Rules for groups; the first that matches decides.
    pub groups: Vec<OwnerRule>,
}

/// Property that makes a user or group of the sender and one of the receiver the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnersBy {
    /// Their number.
    #[default]
    Numbers,
    /// Their name; the number where one of the hosts has no such name, and for number 0.
    Names,
}

/// A rule that gives users, or groups, of the sender a number at the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRule {
    /// Whom the rule is about.
    pub from: OwnerPattern,
    /// User or group that they become.
    pub to: OwnerTarget,
}

/// Users or groups of the sender that a rule is about, by number or name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnerPattern {
    /// Those with the numbers from the first to the last, both included.
    Ids {
        /// The first number.
        first: u32,
        /// The last number, not below the first.
        last: u32,
    },
    /// The one of this name.
    Name(Vec<u8>),
    /// Those whose names match this pattern with `*`, `?` or brackets; for those without a name it is
    /// matched with the empty one.
    Names(Vec<u8>),
    /// Those without a name.
    Nameless,
}

/// User or group of the receiver's host that a rule gives to items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnerTarget {
    /// The one of this number.
    Id(u32),
    /// The one of this name, which the receiver's host must have.
    Name(Vec<u8>),
}

impl OwnerMapping {
    /// Whether the receiver needs the names of the sender's users and groups.
    #[must_use]
    pub fn needs_names(&self) -> bool {
        let is_about_names = |rule: &OwnerRule| !matches!(rule.from, OwnerPattern::Ids { .. });
        self.by == OwnersBy::Names || self.users.iter().chain(&self.groups).any(is_about_names)
    }

    /// Whether the receiver may give an item another number of user or group than the sender
    /// announces.
    #[must_use]
    pub fn changes_owners(&self) -> bool {
        self.by == OwnersBy::Names || !self.users.is_empty() || !self.groups.is_empty()
    }
}

/// Whether this can be the name of a user or group: neither empty nor longer than [`MAX_NAME`]
/// bytes, without the bytes that end a name where accounts are listed, and without a slash or a dot at
/// its start, so that the pattern `*` matches every name.
#[must_use]
pub fn is_account_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && !name.starts_with(b".")
        && !name.iter().any(|byte| b":,/\n\0".contains(byte))
}
