//! Names of the owners that are announced, told ahead of the first item that has them.

use std::collections::HashSet;

use icdc_protocol::acl::{self, Named};
use icdc_protocol::limits::{MAX_NAMES_TOLD, MAX_OWNER_NAMES};
use icdc_protocol::message::OwnerNames;
use icdc_protocol::owners::NamedOwner;
use icdc_session::sender::Found;

use crate::accounts::Accounts;

/// Owners that have been announced, so that each name is looked up and told once.
pub(super) struct AnnouncedOwners {
    accounts: Accounts,
    users: HashSet<u32>,
    groups: HashSet<u32>,
}

impl AnnouncedOwners {
    /// No owners yet, whose names are those of `accounts`.
    pub(super) fn new(accounts: Accounts) -> Self {
        Self { accounts, users: HashSet::new(), groups: HashSet::new() }
    }

    /// Messages with the names of the owners of an item, and of those whom its access control lists
    /// name, as far as none has told them.
    pub(super) fn untold(&mut self, found: &Found) -> Vec<OwnerNames> {
        let owners = found.owner.into_iter().flat_map(|(user, group)| [Named::User(user), Named::Group(group)]);
        let lists = found.xattrs.iter().filter(|(name, _)| acl::is_acl(name));
        let mut told = Vec::new();
        for named in owners.chain(lists.flat_map(|(_, list)| acl::named(list))) {
            self.note(named, &mut told);
        }
        told
    }

    /// Adds the name of an owner to the messages `told`, unless the owner was handled before, has
    /// no name here, or too many were told.
    fn note(&mut self, named: Named, told: &mut Vec<OwnerNames>) {
        let (seen, id) = match named {
            Named::User(id) => (&mut self.users, id),
            Named::Group(id) => (&mut self.groups, id),
        };
        // Those beyond keep their numbers.
        if seen.len() >= MAX_OWNER_NAMES || !seen.insert(id) {
            return;
        }
        let name = match named {
            Named::User(id) => self.accounts.user_name(id),
            Named::Group(id) => self.accounts.group_name(id),
        };
        let Some(name) = name else { return };
        if told.last().is_none_or(|last| last.users.len().max(last.groups.len()) == MAX_NAMES_TOLD) {
            told.push(OwnerNames::default());
        }
        if let Some(last) = told.last_mut() {
            let names = if matches!(named, Named::User(_)) { &mut last.users } else { &mut last.groups };
            names.push(NamedOwner { id, name });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use icdc_protocol::message::{EntryKind, Parent};
    use icdc_session::sender::Removal;

    use super::*;

    fn found(owner: Option<(u32, u32)>, xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> Found {
        Found {
            parent: Parent::Source(0),
            name: Vec::new(),
            kind: EntryKind::Directory,
            mode: 0o755,
            mtime: (0, 0),
            owner,
            xattrs,
            path: b"source".to_vec(),
            above: 0,
            first: None,
            held: 0,
            removal: Removal::Never,
        }
    }

    /// An access control list that names this user and no group.
    fn list(user: u32) -> Vec<u8> {
        let entries = [(1_u16, u32::MAX), (2, user), (4, u32::MAX), (16, u32::MAX), (32, u32::MAX)];
        let bytes = entries
            .iter()
            .flat_map(|(tag, id)| tag.to_le_bytes().into_iter().chain(4_u16.to_le_bytes()).chain(id.to_le_bytes()));
        2_u32.to_le_bytes().into_iter().chain(bytes).collect()
    }

    #[test]
    fn each_name_is_told_once_and_nobody_without_one() {
        let mut owners = AnnouncedOwners::new(Accounts::start().unwrap());
        let root = || NamedOwner { id: 0, name: b"root".to_vec() };
        let both = OwnerNames { users: vec![root()], groups: vec![root()] };
        assert_eq!(owners.untold(&found(Some((0, 0)), Vec::new())), [both]);
        let nobody = 3_999_999_999;
        for owner in [Some((0, 0)), Some((nobody, nobody)), None] {
            assert_eq!(owners.untold(&found(owner, Vec::new())), [], "{owner:?}");
        }
    }

    #[test]
    fn those_whom_lists_name_are_told_as_well() {
        let mut owners = AnnouncedOwners::new(Accounts::start().unwrap());
        let lists = |name: &[u8]| vec![(name.to_vec(), list(0))];
        assert_eq!(owners.untold(&found(None, lists(b"user.list"))), []);
        let users = vec![NamedOwner { id: 0, name: b"root".to_vec() }];
        assert_eq!(owners.untold(&found(None, lists(acl::DEFAULT))), [OwnerNames { users, groups: Vec::new() }]);
    }
}
