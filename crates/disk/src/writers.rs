//! Programs that have a file open for writing.

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::fs::{FsWord, fstatfs};

use crate::tree::is_local;

/// Magic number of tmpfs (`linux/magic.h`).
const TMPFS: FsWord = 0x0102_1994;
/// Command of fcntl(2) that chooses the signal of a broken lease (`asm-generic/fcntl.h`).
const F_SETSIG: libc::c_int = 10;

/// Whether a program of this host has a regular file open for writing; `None` where the kernel does not
/// tell: of files of other users, without privileges, and on file systems of other hosts.
///
/// A lease for reading is given only where nobody can write (fcntl(2), `F_SETLEASE`). It is given back at
/// once.
#[must_use]
pub fn has_writers(file: &File) -> Option<bool> {
    let kind = fstatfs(file).ok()?.f_type;
    if !is_local(kind) && kind != TMPFS {
        return None;
    }
    let lease = |command, argument: libc::c_int| {
        // SAFETY: these commands take a number, and the descriptor is open as long as `file` is.
        unsafe { libc::fcntl(file.as_raw_fd(), command, argument) }
    };
    // Who opens it for writing meanwhile has this process signalled, by default with a signal that ends it.
    if lease(F_SETSIG, libc::SIGURG) != 0 {
        return None;
    }
    if lease(libc::F_SETLEASE, libc::F_RDLCK) == 0 {
        lease(libc::F_SETLEASE, libc::F_UNLCK);
        return Some(false);
    }
    (std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)).then_some(true)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_file_has_writers_as_long_as_one_has_it_open() {
        let made = tempfile::NamedTempFile::new().unwrap();
        let read = File::open(made.path()).unwrap();
        let Some(told) = has_writers(&read) else { return };
        assert!(told, "the one that has made it");
        let (_, path) = made.keep().unwrap();
        assert_eq!(has_writers(&read), Some(false));
        let appending = OpenOptions::new().append(true).open(&path).unwrap();
        assert_eq!(has_writers(&read), Some(true));
        drop(appending);
        assert_eq!(has_writers(&read), Some(false));
        std::fs::remove_file(path).unwrap();
        assert_eq!(has_writers(&File::open("/proc/version").unwrap()), None);
    }
}
