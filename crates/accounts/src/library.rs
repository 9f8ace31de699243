//! Lookups by the C library.

use std::ffi::{CStr, c_char, c_int};
use std::io;

/// Largest buffer, in bytes, for the strings of one passwd or group entry; a longer entry is an
/// error.
const LARGEST_BUFFER: usize = 1 << 20;

/// User id and primary group id of a user name; `None` if the user database has no such name.
pub(crate) fn user_of_name(name: &CStr) -> io::Result<Option<(u32, u32)>> {
    // SAFETY: passwd is plain data for which all-zero bytes are valid (null pointers, zero ids).
    let empty: libc::passwd = unsafe { std::mem::zeroed() };
    // SAFETY: all pointers are to live objects, the name ends in NUL, and the length is the buffer's.
    let ask = |entry, buffer, length, found| unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer, length, found) };
    look_up(empty, ask, |entry| (entry.pw_uid, entry.pw_gid))
}

/// Group id of a group name; `None` if the group database has no such name.
pub(crate) fn group_of_name(name: &CStr) -> io::Result<Option<u32>> {
    // SAFETY: group is plain data for which all-zero bytes are valid (null pointers, zero ids).
    let empty: libc::group = unsafe { std::mem::zeroed() };
    // SAFETY: all pointers are to live objects, the name ends in NUL, and the length is the buffer's.
    let ask = |entry, buffer, length, found| unsafe { libc::getgrnam_r(name.as_ptr(), entry, buffer, length, found) };
    look_up(empty, ask, |entry| entry.gr_gid)
}

/// Name of the user with this user id; `None` if the user database has none.
pub(crate) fn user_of_id(id: u32) -> io::Result<Option<Vec<u8>>> {
    // SAFETY: passwd is plain data for which all-zero bytes are valid (null pointers, zero ids).
    let empty: libc::passwd = unsafe { std::mem::zeroed() };
    // SAFETY: all pointers are to live objects, and the length is the buffer's.
    let ask = |entry, buffer, length, found| unsafe { libc::getpwuid_r(id, entry, buffer, length, found) };
    look_up(empty, ask, |entry| text(entry.pw_name))
}

/// Name of the group with this group id; `None` if the group database has none.
pub(crate) fn group_of_id(id: u32) -> io::Result<Option<Vec<u8>>> {
    // SAFETY: group is plain data for which all-zero bytes are valid (null pointers, zero ids).
    let empty: libc::group = unsafe { std::mem::zeroed() };
    // SAFETY: all pointers are to live objects, and the length is the buffer's.
    let ask = |entry, buffer, length, found| unsafe { libc::getgrgid_r(id, entry, buffer, length, found) };
    look_up(empty, ask, |entry| text(entry.gr_name))
}

/// Ids of the primary and supplementary groups of a user.
pub(crate) fn groups_of(name: &CStr, primary: u32) -> io::Result<Vec<u32>> {
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

/// Calls a `get…_r` function of the C library (`ask`) with a buffer that grows until the entry
/// fits, and converts the entry by `read` while the buffer is alive; `None` if there is no such
/// entry.
fn look_up<E, T>(
    mut entry: E,
    ask: impl Fn(*mut E, *mut c_char, usize, *mut *mut E) -> c_int,
    read: impl Fn(&E) -> T,
) -> io::Result<Option<T>> {
    let mut buffer = vec![0_u8; 1024];
    loop {
        let mut found: *mut E = std::ptr::null_mut();
        match ask(&raw mut entry, buffer.as_mut_ptr().cast(), buffer.len(), &raw mut found) {
            0 if found.is_null() => return Ok(None),
            0 => return Ok(Some(read(&entry))),
            libc::ERANGE if buffer.len() < LARGEST_BUFFER => buffer.resize(buffer.len() * 4, 0),
            libc::EINTR => {}
            // glibc documents these as further ways to say "not found".
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Copies a C string of a passwd or group entry whose buffer is still alive; empty for a null
/// pointer.
fn text(text: *const c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: it is not null, and the library has filled in the entry, whose texts end in NUL.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}
