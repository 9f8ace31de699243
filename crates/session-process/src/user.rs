//! Becoming the user of a key: for a process that has nothing from the network yet.

use std::ffi::CString;
use std::io;

use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// System user as which a session's process runs: name, user id, and group ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// Reason for which a system user could not be looked up.
#[derive(Debug, Error)]
pub enum UserError {
    /// The user database has no such user.
    #[error("there is no system user {user:?}; create it, or correct user= in the authorized keys")]
    NoSuchUser {
        /// The name looked for.
        user: String,
    },
    /// The user database could not be read.
    #[error("looking up the system user {user:?} failed ({call}): {cause}")]
    Lookup {
        /// The name looked for.
        user: String,
        /// Name of the library call.
        call: &'static str,
        /// Error of the library call.
        cause: io::Error,
    },
}

impl User {
    /// Looks up a user by name, with primary and supplementary groups.
    ///
    /// # Errors
    /// There is no such user, or users cannot be looked up.
    pub fn of_name(name: &str) -> Result<Self, UserError> {
        let no_such_user = || UserError::NoSuchUser { user: name.to_owned() };
        let failed = |call| move |cause| UserError::Lookup { user: name.to_owned(), call, cause };
        let text = CString::new(name).map_err(|_| no_such_user())?;
        let (uid, gid) = icdc_accounts::look_up(&text).map_err(failed("getpwnam_r"))?.ok_or_else(no_such_user)?;
        let groups = icdc_accounts::groups_of(&text, gid).map_err(failed("getgrouplist"))?;
        Ok(Self { name: name.to_owned(), uid, gid, groups })
    }

    /// Name of the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Numeric user id of the user.
    pub fn uid(&self) -> u32 {
        self.uid
    }
}

/// Whether this process may become another user: it has the capabilities to set its ids.
pub fn may_become_others() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|own| own.effective.contains(needed))
}

/// Changes user and groups of this process, which has no other thread, to those of `user`; `None`
/// keeps its own. Either way it cannot be traced by its user, gains no rights through what it might
/// start, and has no capability unless its user is root. None of this can be undone.
pub(crate) fn become_user(user: Option<&User>) -> io::Result<()> {
    if let Some(User { uid, gid, groups, .. }) = user {
        let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
        let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
    }
    set_no_new_privs(true)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    if geteuid().is_root() {
        return Ok(());
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, none)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_users_are_named() {
        let error = User::of_name("no-such-user-here").unwrap_err();
        assert!(error.to_string().contains("no-such-user-here"), "{error}");
        assert!(User::of_name("nul\0inside").is_err());
    }

    #[test]
    fn root_is_found_with_its_group() {
        let root = User::of_name("root").unwrap();
        assert_eq!((root.uid(), root.gid), (0, 0));
        assert!(root.groups.contains(&0));
    }
}
