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
