//! Users and groups as this host knows them.
//!
//! A static program reads `/etc/passwd` and `/etc/group` and asks nscd, but cannot load the modules
//! that bring the users of a directory service. For these it asks the host's own programs, where it
//! may start any.

mod library;
#[cfg(any(test, target_env = "musl"))]
mod programs;
#[cfg(test)]
mod tests;

use std::ffi::{CStr, CString};
use std::io;

/// User id and primary group id of a user name; `None` if the user database has no such name.
///
/// # Errors
/// The user database cannot be asked.
pub fn look_up(name: &CStr) -> io::Result<Option<(u32, u32)>> {
    let known = library::user_of_name(name)?;
    #[cfg(target_env = "musl")]
    let known = match known {
        Some(ids) => Some(ids),
        None => programs::user_of_name(name)?,
    };
    Ok(known)
}

/// Ids of the primary and supplementary groups of a user.
///
/// # Errors
/// The user database cannot be asked.
pub fn groups_of(name: &CStr, primary: u32) -> io::Result<Vec<u32>> {
    #[cfg(target_env = "musl")]
    if let Some(groups) = programs::groups_of(name)? {
        return Ok(groups);
    }
    library::groups_of(name, primary)
}

/// User id of a user name; `None` if there is none, or the user database cannot be asked.
#[must_use]
pub fn user_id(name: &[u8]) -> Option<u32> {
    let (id, _) = look_up(&CString::new(name).ok()?).ok()??;
    Some(id)
}

/// Group id of a group name; `None` if there is none, or the group database cannot be asked.
#[must_use]
pub fn group_id(name: &[u8]) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let known = library::group_of_name(&name).ok()?;
    #[cfg(target_env = "musl")]
    let known = known.or_else(|| programs::group_of_name(&name).ok()?);
    known
}

/// Name of the user with this id; `None` if there is none, or the user database cannot be asked.
#[must_use]
pub fn user_name(id: u32) -> Option<Vec<u8>> {
    let known = library::user_of_id(id).ok()?;
    #[cfg(target_env = "musl")]
    let known = known.or_else(|| programs::name_of("passwd", id).ok()?);
    known
}

/// Name of the group with this id; `None` if there is none, or the group database cannot be asked.
#[must_use]
pub fn group_name(id: u32) -> Option<Vec<u8>> {
    let known = library::group_of_id(id).ok()?;
    #[cfg(target_env = "musl")]
    let known = known.or_else(|| programs::name_of("group", id).ok()?);
    known
}
