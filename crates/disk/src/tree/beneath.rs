//! Opening a path so that it cannot leave the directory it starts from.
//!
//! The kernel does it in one call: `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`.
//! Kernels before 5.6 and some system call filters do not have it. Then the path is walked here:
//! each component is opened with `O_PATH | O_NOFOLLOW`, so that what was opened is what is looked
//! at, whatever is replaced during the walk; links are read from their own descriptor; `..` goes
//! back to the descriptor from which the walk came and never asks the file system for a parent.
//! Both ways follow links that stay beneath and refuse `..` above the start and absolute links.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::names::MAX_NAME;

/// Maximum length of a path that the kernel takes (`PATH_MAX` less the NUL).
const MAX_PATH: usize = 4095;
/// Maximum number of symbolic links in one resolution, as in the kernel.
const MAX_LINKS: usize = 40;
/// Maximum depth that a walk enters; each level holds a descriptor.
const MAX_WALK: usize = 512;
/// Number of times that `openat2` is repeated after `EAGAIN` (`..` met a rename anywhere in the
/// system) before the walk, which knows no such case, takes over.
const RETRIES: usize = 8;

/// Opens the relative `path` beneath `start`. `EXDEV` means that it leads outside.
pub(super) fn open(start: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RETRIES {
        match rustix::fs::openat2(start, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Filters of containers answer EPERM for calls that they do not know; an O_PATH or
            // read-only open has it only for O_NOATIME, and the walk then says so as well.
            Err(Errno::NOSYS | Errno::PERM) => break,
            outcome => return outcome,
        }
    }
    walk(start, path, flags)
}

/// Opens the relative `path` beneath `start` without `openat2`, component by component.
pub(super) fn walk(start: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if path.len() > MAX_PATH {
        return Err(Errno::NAMETOOLONG);
    }
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    if path.starts_with(b"/") {
        return Err(Errno::XDEV);
    }
    let mut entered: Vec<OwnedFd> = Vec::new();
    let mut pending = components(path);
    let mut links = 0;
    while let Some(component) = pending.pop() {
        if component == b".." {
            entered.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        if component.len() > MAX_NAME {
            return Err(Errno::NAMETOOLONG);
        }
        let here = entered.last().map_or(start, AsFd::as_fd);
        let inspecting = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(here, &*component, inspecting, Mode::empty())?;
        match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
            FileType::Symlink => {
                links += 1;
                let target = rustix::fs::readlinkat(&found, "", Vec::new())?.into_bytes();
                if links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                if target.starts_with(b"/") {
                    return Err(Errno::XDEV);
                }
                pending.extend(components(&target));
            }
            FileType::Directory if entered.len() < MAX_WALK => entered.push(found),
            FileType::Directory => return Err(Errno::NAMETOOLONG),
            _ if pending.is_empty() && !flags.contains(OFlags::DIRECTORY) => {
                return rustix::fs::openat(here, &*component, flags | OFlags::NOFOLLOW, Mode::empty());
            }
            _ => return Err(Errno::NOTDIR),
        }
    }
    let here = entered.last().map_or(start, AsFd::as_fd);
    rustix::fs::openat(here, ".", flags, Mode::empty())
}

/// The path without the slashes in front; `.` (the directory itself) if nothing is left.
pub(super) fn relative(path: &[u8]) -> &[u8] {
    match path.iter().position(|byte| *byte != b'/') {
        Some(start) => &path[start..],
        None => b".",
    }
}

/// Components of `path`, last first, without the empty ones and `.`.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/')
        .rev()
        .filter(|component| !component.is_empty() && *component != b".")
        .map(<[u8]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;

    type Opener = fn(BorrowedFd<'_>, &[u8], OFlags) -> Result<OwnedFd, Errno>;

    const OPENERS: [(&str, Opener); 2] = [("open", open), ("walk", walk)];

    /// `root/{plain, inner/{file, up -> ../plain, out -> ../../outside}, …}` beside
    /// `outside/secret`.
    fn hostile_tree() -> (tempfile::TempDir, std::fs::File) {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("root");
        let outside = temporary.path().join("outside");
        std::fs::create_dir_all(root.join("inner/deep")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), "secret").unwrap();
        std::fs::write(root.join("plain"), "plain").unwrap();
        std::fs::write(root.join("inner/file"), "file").unwrap();
        symlink("../plain", root.join("inner/up")).unwrap();
        symlink("inner/deep", root.join("short")).unwrap();
        symlink("../outside", root.join("out")).unwrap();
        symlink(&outside, root.join("absolute")).unwrap();
        symlink("inner/../../outside", root.join("winding")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        let opened = std::fs::File::open(root).unwrap();
        (temporary, opened)
    }

    #[test]
    fn both_ways_find_the_same() {
        let (temporary, root) = hostile_tree();
        let inode = |path: &str| std::fs::metadata(temporary.path().join("root").join(path)).unwrap().ino();
        let found = [
            (".", inode("")),
            ("inner", inode("inner")),
            ("inner/", inode("inner")),
            ("inner//./file", inode("inner/file")),
            ("inner/up", inode("plain")),
            ("inner/deep/../..", inode("")),
            ("short/../file", inode("inner/file")),
            ("short", inode("inner/deep")),
        ];
        for (name, way) in OPENERS {
            for (path, expected) in found {
                let opened = way(root.as_fd(), path.as_bytes(), OFlags::PATH);
                let opened = opened.unwrap_or_else(|errno| panic!("{name} {path}: {errno}"));
                assert_eq!(rustix::fs::fstat(opened).unwrap().st_ino, expected, "{name} {path}");
            }
        }
    }

    #[test]
    fn both_ways_refuse_the_same() {
        let (_temporary, root) = hostile_tree();
        let long = "a/".repeat(3000);
        let refused = [
            ("..", Errno::XDEV),
            ("../outside/secret", Errno::XDEV),
            ("inner/../../outside/secret", Errno::XDEV),
            ("/etc/passwd", Errno::XDEV),
            ("out/secret", Errno::XDEV),
            ("absolute/secret", Errno::XDEV),
            ("absolute", Errno::XDEV),
            ("winding/secret", Errno::XDEV),
            ("loop", Errno::LOOP),
            ("dangling", Errno::NOENT),
            ("missing/file", Errno::NOENT),
            ("", Errno::NOENT),
            ("plain/file", Errno::NOTDIR),
            (&long, Errno::NAMETOOLONG),
            (&"n".repeat(256), Errno::NAMETOOLONG),
        ];
        for (name, way) in OPENERS {
            for (path, expected) in &refused {
                let outcome = way(root.as_fd(), path.as_bytes(), OFlags::PATH);
                assert_eq!(outcome.err(), Some(*expected), "{name} {path}");
            }
        }
    }

    #[test]
    fn magic_links_lead_nowhere() {
        let proc = std::fs::File::open("/proc/self").unwrap();
        for (name, way) in OPENERS {
            for path in ["root/etc", "cwd", "fd/0", "exe"] {
                let outcome = way(proc.as_fd(), path.as_bytes(), OFlags::PATH);
                assert!(outcome.is_err(), "{name} {path}");
            }
        }
    }

    #[test]
    fn a_directory_swapped_for_a_link_leads_nowhere() {
        let (temporary, root) = hostile_tree();
        let base = temporary.path().join("root");
        std::fs::write(base.join("inner/secret"), "inside").unwrap();
        symlink("../outside", base.join("trap")).unwrap();
        let outside = std::fs::metadata(temporary.path().join("outside/secret")).unwrap().ino();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let (one, other) = (base.join("inner"), base.join("trap"));
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            for (name, way) in OPENERS {
                let (mut inside, mut refused) = (0, 0);
                for _ in 0..200_000 {
                    match way(root.as_fd(), b"inner/secret", OFlags::RDONLY) {
                        Ok(opened) => {
                            let found = rustix::fs::fstat(opened).unwrap().st_ino;
                            assert_ne!(found, outside, "{name} got out");
                            inside += 1;
                        }
                        Err(_) => refused += 1,
                    }
                    if inside > 500 && refused > 500 {
                        break;
                    }
                }
                assert!(inside > 0 && refused > 0, "{name}: {inside} inside, {refused} refused");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
