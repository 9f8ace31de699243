//! Users and groups of this host, as a receiving session looks them up.

use icdc_protocol::message::{OwnerNames, ReceiveOptions, Refusal, RefusalKind};
use icdc_protocol::owners::{NamedOwner, OwnerRule, OwnerTarget};
use icdc_session::SessionError;
use icdc_session::receiver::book::owners::{KnownOwner, Targets};

use crate::accounts::Accounts;
use crate::path_text;

/// Lookup of this host's users and groups for owners that are restored by names or rules; without
/// these, of nothing.
#[derive(Default)]
pub(super) struct OwnerLookup {
    accounts: Option<Accounts>,
    /// Numbers of the targets of the rules for owners.
    pub(super) targets: Targets,
    /// Reason why the session cannot begin; `None` if it can.
    refused: Option<SessionError>,
}

impl OwnerLookup {
    /// Looks up the targets of the rules for owners, before the session's threads are confined;
    /// [`check`](Self::check) reports a failure.
    pub(super) fn new(options: &ReceiveOptions) -> Self {
        match options.owners.changes_owners() {
            true => Self::of(options).unwrap_or_else(|error| Self { refused: Some(error), ..Self::default() }),
            false => Self::default(),
        }
    }

    /// Starts the lookup, and looks up the targets of the rules for owners.
    fn of(options: &ReceiveOptions) -> Result<Self, SessionError> {
        let accounts = Accounts::start()?;
        let user = |rule: &OwnerRule| target(&rule.to, "user", |name| accounts.user_id(name));
        let group = |rule: &OwnerRule| target(&rule.to, "group", |name| accounts.group_id(name));
        let targets = Targets {
            users: options.owners.users.iter().map(user).collect::<Result<_, _>>()?,
            groups: options.owners.groups.iter().map(group).collect::<Result<_, _>>()?,
        };
        Ok(Self { accounts: Some(accounts), targets, refused: None })
    }

    /// Checks that the session can begin, by the outcome of looking up the rules' targets.
    ///
    /// # Errors
    /// A user or group that a rule names and this host does not have, or a thread that cannot be
    /// started.
    pub(super) fn check(&self) -> Result<(), SessionError> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// Users and groups that the sender has named, with the ids that their names have on this host;
    /// none if owners are not restored by name.
    pub(super) fn known(&self, OwnerNames { users, groups }: OwnerNames) -> (Vec<KnownOwner>, Vec<KnownOwner>) {
        let Some(accounts) = &self.accounts else { return (Vec::new(), Vec::new()) };
        (known(users, |name| accounts.user_id(name)), known(groups, |name| accounts.group_id(name)))
    }
}

/// Users, or groups, of the sender, with the numbers that their names have here.
fn known(told: Vec<NamedOwner>, look_up: impl Fn(Vec<u8>) -> Option<u32>) -> Vec<KnownOwner> {
    let known = |NamedOwner { id, name }| KnownOwner { id, here: look_up(name.clone()), name };
    told.into_iter().map(known).collect()
}

/// Id that a rule for owners maps to: the one that it states, or that of the account that it names;
/// an error if this host has no such account.
fn target(to: &OwnerTarget, what: &str, look_up: impl Fn(Vec<u8>) -> Option<u32>) -> Result<u32, SessionError> {
    match to {
        OwnerTarget::Id(id) => Ok(*id),
        OwnerTarget::Name(name) => look_up(name.clone()).ok_or_else(|| {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let reason = format!(
                "nothing was copied: the receiving host {host} has no {what} {}; name another, or a number",
                path_text(name)
            );
            SessionError::Refused(Refusal::new(RefusalKind::Path, reason))
        }),
    }
}
