//! Rules of the names of owners, and of what becomes of them.

use super::rules::{Checked, require};
use crate::limits::{MAX_NAME, MAX_NAMES_TOLD, MAX_OWNER_RULES};
use crate::message::{OwnerMapping, OwnerNames};
use crate::owners::{NamedOwner, OwnerPattern, OwnerRule, OwnerTarget, is_account_name};

/// Checks names of users and groups.
pub(super) fn names(OwnerNames { users, groups }: &OwnerNames) -> Checked {
    let is_proper = |NamedOwner { id, name }: &NamedOwner| *id != u32::MAX && is_account_name(name);
    for named in [users, groups] {
        require(named.len() <= MAX_NAMES_TOLD, "too many names")?;
        require(named.iter().all(is_proper), "a name that no user or group has")?;
    }
    Ok(())
}

/// Checks rules for users and groups.
pub(super) fn mapping(OwnerMapping { by: _, users, groups }: &OwnerMapping) -> Checked {
    for rules in [users, groups] {
        require(rules.len() <= MAX_OWNER_RULES, "too many rules for owners")?;
        require(rules.iter().all(is_rule), "a rule for owners that is none")?;
    }
    Ok(())
}

/// Whether a rule for owners names users or groups that there can be.
fn is_rule(OwnerRule { from, to }: &OwnerRule) -> bool {
    let is_from = match from {
        OwnerPattern::Ids { first, last } => first <= last,
        OwnerPattern::Name(name) => is_account_name(name),
        OwnerPattern::Names(pattern) => pattern.len() <= MAX_NAME,
        OwnerPattern::Nameless => true,
    };
    is_from
        && match to {
            OwnerTarget::Id(id) => *id != u32::MAX,
            OwnerTarget::Name(name) => is_account_name(name),
        }
}
