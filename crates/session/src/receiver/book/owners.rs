//! Numbers here for the users and groups of the sender: [`icdc_protocol::owners`] has the order in
//! which rules, names and numbers decide.

use std::collections::HashMap;

use icdc_filter::NamePattern;
use icdc_protocol::acl::Named;
use icdc_protocol::limits::MAX_OWNER_NAMES;
use icdc_protocol::owners::{OwnerMapping, OwnerPattern, OwnerRule, OwnersBy};

use crate::SessionError;

/// A user or group of the sender, and the number that its name has here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownOwner {
    /// Number at the sender.
    pub id: u32,
    /// Name there.
    pub name: Vec<u8>,
    /// Number of the name here; `None` if there is none.
    pub here: Option<u32>,
}

/// Numbers here of the targets of the rules of an [`OwnerMapping`], in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Numbers of the targets of the rules for users.
    pub users: Vec<u32>,
    /// Numbers of the targets of the rules for groups.
    pub groups: Vec<u32>,
}

/// The numbers that users and groups of the sender get here.
#[derive(Debug, Default)]
pub(super) struct Owners {
    users: Accounts,
    groups: Accounts,
    /// Whether names are told; otherwise the sender was not asked for them.
    needs_names: bool,
    changes_any: bool,
}

/// Mapping of the sender's users, or of its groups, to numbers here: the rules, and the names that
/// were told.
#[derive(Debug, Default)]
struct Accounts {
    by: OwnersBy,
    rules: Vec<Rule>,
    /// Numbers here of those whose names were told, by their numbers at the sender.
    told: HashMap<u32, u32>,
}

/// A rule, and the number here of its target.
#[derive(Debug)]
struct Rule {
    from: OwnerMatcher,
    to: u32,
}

/// The users or groups of the sender that a rule is about, with its pattern of names compiled.
#[derive(Debug)]
enum OwnerMatcher {
    Ids(u32, u32),
    Name(Vec<u8>),
    Names(Box<NamePattern>),
    Nameless,
}

impl Owners {
    /// The mapping by the rules of the request, whose targets have these numbers here.
    pub(super) fn new(mapping: &OwnerMapping, targets: &Targets) -> Self {
        Self {
            users: Accounts::new(mapping.by, &mapping.users, &targets.users),
            groups: Accounts::new(mapping.by, &mapping.groups, &targets.groups),
            needs_names: mapping.needs_names(),
            changes_any: mapping.changes_owners(),
        }
    }

    /// Records names of users and groups that the sender has told; fails if it was not asked for
    /// them.
    pub(super) fn learn(&mut self, users: &[KnownOwner], groups: &[KnownOwner]) -> Result<(), SessionError> {
        if !self.needs_names {
            return Err(SessionError::Protocol("it tells names of owners, and was not asked for them".into()));
        }
        self.users.learn(users)?;
        self.groups.learn(groups)
    }

    /// Whether a user or group of the sender may get another number here.
    pub(super) fn change_any(&self) -> bool {
        self.changes_any
    }

    /// Number here of a user of the sender.
    pub(super) fn user(&self, id: u32) -> u32 {
        self.users.number(id)
    }

    /// Number here of a group of the sender.
    pub(super) fn group(&self, id: u32) -> u32 {
        self.groups.number(id)
    }

    /// Number here of what an access control list of the sender names.
    pub(super) fn named(&self, named: Named) -> u32 {
        match named {
            Named::User(id) => self.user(id),
            Named::Group(id) => self.group(id),
        }
    }
}

impl Accounts {
    /// The mapping of users, or of groups, by these rules, whose targets have these numbers here.
    fn new(by: OwnersBy, rules: &[OwnerRule], targets: &[u32]) -> Self {
        let rules =
            rules.iter().zip(targets).map(|(rule, to)| Rule { from: OwnerMatcher::new(&rule.from), to: *to }).collect();
        Self { by, rules, told: HashMap::new() }
    }

    /// Records the numbers here of those whose names the sender tells; fails if a name is told
    /// twice, or too many are.
    fn learn(&mut self, told: &[KnownOwner]) -> Result<(), SessionError> {
        for KnownOwner { id, name, here } in told {
            // The sender chooses names: none of them makes root's what was not.
            let by_name = here.filter(|here| self.by == OwnersBy::Names && *id != 0 && *here != 0);
            let number = self.ruled(*id, name).or(by_name).unwrap_or(*id);
            if self.told.insert(*id, number).is_some() {
                return Err(SessionError::Protocol("it tells the name of an owner twice".into()));
            }
        }
        match self.told.len() > MAX_OWNER_NAMES {
            true => Err(SessionError::Protocol("it tells too many names of owners".into())),
            false => Ok(()),
        }
    }

    /// Number here of a user or group of the sender: as found by its name if that was told, else by
    /// the rules for one without a name, else its own.
    fn number(&self, id: u32) -> u32 {
        self.told.get(&id).copied().unwrap_or_else(|| self.ruled(id, b"").unwrap_or(id))
    }

    /// Target of the first rule that matches this number and name, which is empty for none.
    fn ruled(&self, id: u32, name: &[u8]) -> Option<u32> {
        self.rules.iter().find(|rule| rule.from.matches(id, name)).map(|rule| rule.to)
    }
}

impl OwnerMatcher {
    /// Compiles whom a rule is about; a pattern without wildcards is a name.
    fn new(from: &OwnerPattern) -> Self {
        match from {
            OwnerPattern::Ids { first, last } => Self::Ids(*first, *last),
            OwnerPattern::Name(name) => Self::Name(name.clone()),
            OwnerPattern::Nameless => Self::Nameless,
            // One that is no pattern can only be a name.
            OwnerPattern::Names(pattern) => NamePattern::parse(pattern)
                .map_or_else(|| Self::Name(pattern.clone()), |pattern| Self::Names(pattern.into())),
        }
    }

    /// Whether a rule is about the user or group of this number and name, which is empty for none.
    fn matches(&self, id: u32, name: &[u8]) -> bool {
        match self {
            Self::Ids(first, last) => (*first..=*last).contains(&id),
            Self::Name(own) => own == name,
            Self::Names(pattern) => pattern.matches(name),
            Self::Nameless => name.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::owners::OwnerTarget;

    use super::*;

    fn known(id: u32, name: &str, here: Option<u32>) -> KnownOwner {
        KnownOwner { id, name: name.into(), here }
    }

    /// Owners with these rules for users.
    fn owners(by: OwnersBy, rules: &[(OwnerPattern, u32)]) -> Owners {
        let of = |(from, to): &(OwnerPattern, u32)| OwnerRule { from: from.clone(), to: OwnerTarget::Id(*to) };
        let targets = Targets { users: rules.iter().map(|(_, to)| *to).collect(), groups: Vec::new() };
        Owners::new(&OwnerMapping { by, users: rules.iter().map(of).collect(), groups: Vec::new() }, &targets)
    }

    #[test]
    fn names_decide_and_numbers_where_there_are_none() {
        let mut owners = owners(OwnersBy::Names, &[]);
        let users = [
            known(1000, "anna", Some(2000)),
            known(1001, "bert", None),
            known(0, "toor", Some(5)),
            known(8, "root", Some(0)),
        ];
        owners.learn(&users, &[known(100, "users", Some(985))]).expect("it was asked for");
        assert_eq!([1000, 1001, 0, 7, 8].map(|id| owners.user(id)), [2000, 1001, 0, 7, 8]);
        assert_eq!([100, 1000].map(|id| owners.group(id)), [985, 1000]);
        assert_eq!((owners.named(Named::User(1000)), owners.named(Named::Group(100))), (2000, 985));
    }

    #[test]
    fn the_first_rule_that_matches_comes_before_names() {
        let ids = |first, last| OwnerPattern::Ids { first, last };
        let rules = [
            (ids(10, 20), 1),
            (OwnerPattern::Name(b"anna".to_vec()), 2),
            (OwnerPattern::Names(b"a*".to_vec()), 3),
            (OwnerPattern::Nameless, 4),
            (ids(0, 0), 5),
        ];
        let mut by_name = owners(OwnersBy::Names, &rules);
        let told = [(15, "anna"), (1000, "anna"), (1001, "alma"), (1002, "bert"), (0, "root")];
        by_name.learn(&told.map(|(id, name)| known(id, name, Some(99))), &[]).expect("it was asked for");
        assert_eq!([15, 1000, 1001, 1002, 0, 7].map(|id| by_name.user(id)), [1, 2, 3, 99, 5, 4]);
        let all = [(OwnerPattern::Names(b"*".to_vec()), 9)];
        assert_eq!(owners(OwnersBy::Numbers, &all).user(3), 9, "also one without a name");
        let some = [(OwnerPattern::Names(b"?*".to_vec()), 9)];
        assert_eq!(owners(OwnersBy::Numbers, &some).user(3), 3);
    }

    #[test]
    fn names_that_were_not_asked_for_or_are_too_many_end_the_session() {
        let mut by_number = owners(OwnersBy::Numbers, &[(OwnerPattern::Ids { first: 1, last: 2 }, 3)]);
        assert!(by_number.learn(&[], &[]).is_err());
        assert_eq!([1, 5].map(|id| by_number.user(id)), [3, 5]);
        let mut by_name = owners(OwnersBy::Names, &[]);
        let many = |count: usize| (0..count as u32).map(|id| known(id, "a", None)).collect::<Vec<_>>();
        assert!(by_name.learn(&many(MAX_OWNER_NAMES), &[]).is_ok());
        assert!(by_name.learn(&many(1), &[]).is_err());
        assert!(owners(OwnersBy::Names, &[]).learn(&many(MAX_OWNER_NAMES + 1), &[]).is_err());
    }
}
