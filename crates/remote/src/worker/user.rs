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

/// A system user: whose rights a session has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// A system user could not be looked up.
#[derive(Debug, Error)]
pub(crate) enum UserError {
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
        /// The library call.
        call: &'static str,
        /// Its error.
        cause: io::Error,
    },
}

impl User {
    /// Looks up a name, with its primary and supplementary groups.
    pub(crate) fn of_name(name: &str) -> Result<Self, UserError> {
        let no_such_user = || UserError::NoSuchUser { user: name.to_owned() };
        let failed = |call| move |cause| UserError::Lookup { user: name.to_owned(), call, cause };
        let text = CString::new(name).map_err(|_| no_such_user())?;
        let (uid, gid) = look_up(&text).map_err(failed("getpwnam_r"))?.ok_or_else(no_such_user)?;
        let groups = groups_of(&text, gid).map_err(failed("getgrouplist"))?;
        Ok(Self { name: name.to_owned(), uid, gid, groups })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Numeric user id.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }
}

/// Whether this process may become another user.
pub(crate) fn may_become_others() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|own| own.effective.contains(needed))
}

/// Makes this process, which has no other thread, one of `user`, or keeps it one of its own user. Either
/// way it cannot be traced by its user, gets no rights by what it might start, and has no capability
/// unless its user is root. There is no way back.
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

/// User and primary group id of a name, `None` if the user database has no such name.
fn look_up(name: &CString) -> io::Result<Option<(u32, u32)>> {
    let mut buffer = vec![0u8; 1024];
    loop {
        // SAFETY: passwd is plain data for which all-zero bytes are valid (null pointers, zero
        // ids).
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found: *mut libc::passwd = std::ptr::null_mut();
        // SAFETY: all pointers are to live objects, and the length is the buffer's.
        let status = unsafe {
            libc::getpwnam_r(name.as_ptr(), &raw mut entry, buffer.as_mut_ptr().cast(), buffer.len(), &raw mut found)
        };
        match status {
            0 if found.is_null() => return Ok(None),
            0 => return Ok(Some((entry.pw_uid, entry.pw_gid))),
            libc::ERANGE if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            libc::EINTR => {}
            // glibc documents these as further ways to say "not found".
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Primary and supplementary groups of a user.
fn groups_of(name: &CString, primary: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut count = i32::try_from(groups.len()).map_err(io::Error::other)?;
        // SAFETY: `groups` has room for `count` ids; `name` ends in NUL.
        let status = unsafe { libc::getgrouplist(name.as_ptr(), primary, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if status >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        // NGROUPS_MAX of Linux is 65536.
        if groups.len() > 1 << 16 {
            return Err(io::Error::other("more groups than the kernel allows"));
        }
        groups.resize(count.max(groups.len() * 2), 0);
    }
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
