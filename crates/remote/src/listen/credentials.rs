//! Acting as a system user on one thread, as file servers do.
//!
//! Linux keeps credentials per thread. A session that acts for a user takes over what file access
//! is judged by (the file-system uid and gid and the supplementary groups) and gives up every
//! capability, by raw system calls: the C library's wrappers would change all threads of the
//! process. Threads that it starts inherit this.
//!
//! The real, effective and saved user ids stay the daemon's. Were they the user's, the user's own
//! processes could send signals to the thread, and by it to the whole daemon, or trace it.

use std::ffi::CString;
use std::io;

use thiserror::Error;

use super::user_database;

/// Who a thread acts as: file ownership and access are those of this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    user: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// A system user could not be looked up.
#[derive(Debug, Error)]
pub(crate) enum CredentialsError {
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

impl Credentials {
    /// Looks up `user` with its primary and supplementary groups.
    pub(crate) fn of_user(user: &str) -> Result<Self, CredentialsError> {
        let no_such_user = || CredentialsError::NoSuchUser { user: user.to_owned() };
        let name = CString::new(user).map_err(|_| no_such_user())?;
        let failed = |call| move |cause| CredentialsError::Lookup { user: user.to_owned(), call, cause };
        let (uid, gid) = user_database::look_up(&name).map_err(failed("getpwnam_r"))?.ok_or_else(no_such_user)?;
        let groups = user_database::groups_of(&name, gid).map_err(failed("getgrouplist"))?;
        Ok(Self { user: user.to_owned(), uid, gid, groups })
    }

    /// Name of the user.
    #[cfg(test)]
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Numeric user id.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Numeric primary group id.
    #[cfg(test)]
    pub(crate) fn gid(&self) -> u32 {
        self.gid
    }

    /// Makes the calling thread, and the threads that it starts from now on, act as this user.
    /// There is no way back: the thread's capabilities are gone. Needs root.
    pub(crate) fn assume_for_this_thread(&self) -> io::Result<()> {
        set_groups(&self.groups)?;
        set_file_system_id(libc::SYS_setfsgid, self.gid)?;
        set_file_system_id(libc::SYS_setfsuid, self.uid)?;
        drop_capabilities()
    }
}

fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the kernel reads `len` ids from the slice; only this thread is affected.
    let status = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `setfsuid` and `setfsgid` report no error: they answer the previous id, so a second call shows
/// whether the first took effect (an id of -1 changes nothing).
fn set_file_system_id(call: libc::c_long, id: u32) -> io::Result<()> {
    // SAFETY: takes and returns plain integers; only this thread is affected.
    let now = unsafe {
        libc::syscall(call, libc::c_long::from(id));
        libc::syscall(call, libc::c_long::from(-1i32))
    };
    if now as u32 == id { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}

/// Without this the thread could still set file capabilities, exceed quotas or write `trusted.`
/// attributes with the daemon's rights.
fn drop_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::sync::Arc;

    use icdc_tuning::own_rights;

    use super::*;

    #[test]
    fn unknown_users_are_named() {
        let error = Credentials::of_user("no-such-user-here").unwrap_err();
        assert!(error.to_string().contains("no-such-user-here"), "{error}");
        assert!(Credentials::of_user("nul\0inside").is_err());
    }

    #[test]
    fn root_is_found_with_its_group() {
        let root = Credentials::of_user("root").unwrap();
        assert_eq!((root.uid(), root.gid()), (0, 0));
        assert!(root.groups.contains(&0));
    }

    #[test]
    fn a_thread_acts_as_the_user_and_the_others_do_not() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: acting as another user needs root");
            return;
        }
        let nobody = Arc::new(Credentials::of_user("nobody").unwrap());
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "root only").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();

        let made = directory.path().join("made");
        let by_child = directory.path().join("by-child");
        let acting = {
            let (nobody, secret, made, by_child) = (nobody.clone(), secret.clone(), made.clone(), by_child.clone());
            std::thread::spawn(move || {
                nobody.assume_for_this_thread().unwrap();
                std::fs::write(&made, "x").unwrap();
                std::thread::spawn(move || std::fs::write(&by_child, "x").unwrap()).join().unwrap();
                let read = std::fs::read(&secret).map_err(|error| error.kind());
                let chown = std::os::unix::fs::chown(&made, Some(0), None).map_err(|error| error.kind());
                (read, chown)
            })
        };
        let (read, chown) = acting.join().unwrap();
        assert_eq!(read.unwrap_err(), io::ErrorKind::PermissionDenied);
        assert_eq!(chown.unwrap_err(), io::ErrorKind::PermissionDenied);
        for path in [&made, &by_child] {
            let meta = std::fs::metadata(path).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (nobody.uid(), nobody.gid()), "{}", path.display());
        }
        // This thread is root as before.
        assert_eq!(std::fs::read(&secret).unwrap(), b"root only");
    }

    #[test]
    fn a_thread_that_acts_as_a_user_can_have_done_what_it_may_not() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: acting as another user needs root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "daemon's").unwrap();
        own_rights::keep().unwrap();
        let acting = std::thread::spawn(move || {
            Credentials::of_user("nobody").unwrap().assume_for_this_thread().unwrap();
            let itself = std::fs::read(&file).map_err(|error| error.kind());
            (itself, own_rights::run(move || std::fs::read(&file).unwrap()))
        });
        let (itself, done) = acting.join().unwrap();
        assert_eq!(itself, Err(io::ErrorKind::PermissionDenied));
        assert_eq!(done.as_deref(), Some(&b"daemon's"[..]));
    }
}
