//! Users and groups as this host knows them.
//!
//! A static program reads `/etc/passwd` and `/etc/group` and asks nscd, but cannot load the modules
//! that bring the users of a directory service. For these it asks the host's own programs.

use std::ffi::CStr;
use std::io;

/// User id and primary group id of a user name; `None` if the user database has no such name.
pub(super) fn look_up(name: &CStr) -> io::Result<Option<(u32, u32)>> {
    let known = library::look_up(name)?;
    #[cfg(target_env = "musl")]
    let known = match known {
        Some(ids) => Some(ids),
        None => programs::look_up(name)?,
    };
    Ok(known)
}

/// Ids of the primary and supplementary groups of a user.
pub(super) fn groups_of(name: &CStr, primary: u32) -> io::Result<Vec<u32>> {
    #[cfg(target_env = "musl")]
    if let Some(groups) = programs::groups_of(name)? {
        return Ok(groups);
    }
    library::groups_of(name, primary)
}

/// Lookups by the C library.
mod library {
    use std::ffi::CStr;
    use std::io;

    /// User id and primary group id of a user name; `None` if the user database has no such name.
    pub(super) fn look_up(name: &CStr) -> io::Result<Option<(u32, u32)>> {
        let mut buffer = vec![0u8; 1024];
        loop {
            // SAFETY: passwd is plain data for which all-zero bytes are valid (null pointers, zero
            // ids).
            let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
            let mut found: *mut libc::passwd = std::ptr::null_mut();
            // SAFETY: all pointers are to live objects, and the length is the buffer's.
            let status = unsafe {
                libc::getpwnam_r(
                    name.as_ptr(),
                    &raw mut entry,
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    &raw mut found,
                )
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

    /// Ids of the primary and supplementary groups of a user.
    pub(super) fn groups_of(name: &CStr, primary: u32) -> io::Result<Vec<u32>> {
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
}

/// Lookups by the programs `getent` and `id`.
#[cfg(any(test, target_env = "musl"))]
mod programs {
    use std::ffi::{CStr, OsStr};
    use std::io;
    use std::os::unix::ffi::OsStrExt as _;
    use std::process::{Command, Stdio};

    /// User id and primary group id of a user name; `None` if there is no such name.
    pub(super) fn look_up(name: &CStr) -> io::Result<Option<(u32, u32)>> {
        let answer = answer_of("getent", &[b"passwd", b"--", name.to_bytes()])?;
        Ok(answer.and_then(|line| entry(&line, name.to_bytes())))
    }

    /// Ids of all groups of a user; `None` where the program is missing or does not know the user.
    pub(super) fn groups_of(name: &CStr) -> io::Result<Option<Vec<u32>>> {
        let answer = answer_of("id", &[b"-G", b"--", name.to_bytes()])?;
        Ok(answer
            .and_then(|line| std::str::from_utf8(&line).ok()?.split_whitespace().map(|id| id.parse().ok()).collect()))
    }

    /// Standard output of a program; `None` where it is missing or fails.
    fn answer_of(program: &str, words: &[&[u8]]) -> io::Result<Option<Vec<u8>>> {
        let words = words.iter().map(|word| OsStr::from_bytes(word));
        match Command::new(program).args(words).stdin(Stdio::null()).stderr(Stdio::null()).output() {
            Ok(output) => Ok(output.status.success().then_some(output.stdout)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// User id and primary group id in a line of the user database. A name of digits is looked up
    /// as a number; the line is then another user's, and the result `None`.
    pub(super) fn entry(line: &[u8], name: &[u8]) -> Option<(u32, u32)> {
        let line = line.split(|byte| *byte == b'\n').next()?;
        let mut fields = line.split(|byte| *byte == b':');
        let mut number = |index| std::str::from_utf8(fields.nth(index)?).ok()?.parse().ok();
        let own = line.strip_prefix(name)?.starts_with(b":");
        let (user, group) = (number(2)?, number(0)?);
        own.then_some((user, group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_the_library_know_the_same() {
        for name in [c"root", c"nobody", c"daemon"] {
            let known = library::look_up(name).unwrap();
            assert_eq!(programs::look_up(name).unwrap(), known, "{name:?}");
            let mut by_program = programs::groups_of(name).unwrap().unwrap();
            let mut by_library = library::groups_of(name, known.unwrap().1).unwrap();
            by_program.sort_unstable();
            by_library.sort_unstable();
            assert_eq!(by_program, by_library, "{name:?}");
        }
    }

    #[test]
    fn nobody_is_found_by_a_number_or_an_option() {
        for name in [c"0", c"--help", c"no-such-user-here", c""] {
            assert_eq!(programs::look_up(name).unwrap(), None, "{name:?}");
        }
        assert_eq!(programs::entry(b"root:x:0:0:root:/root:/bin/sh\n", b"0"), None);
        assert_eq!(programs::entry(b"ada:x:1815:1852::/home/ada:/bin/sh\n", b"ada"), Some((1815, 1852)));
        assert_eq!(programs::entry(b"ada:x:1815\n", b"ada"), None);
    }
}
