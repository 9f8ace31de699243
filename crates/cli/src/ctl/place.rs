//! The sockets of running copies: `PID@HOST` in a directory of the user's that no other may enter, where
//! their names are, too.
//!
//! Directories are opened once and held, and sockets are reached by way of the descriptor: nobody can put
//! another directory in its place, and the path of a socket, which may have 107 bytes, stays short.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir, Mode, OFlags};

/// Rights on a directory that nobody but its owner may have.
const OF_OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);

/// A directory of this user's with the sockets of running copies.
pub(super) struct Place(OwnedFd);

/// A socket on which a copy listens.
pub(super) struct Bound {
    pub(super) listener: UnixListener,
    place: Place,
    name: String,
}

/// Places where the sockets of this user's copies can be, the best first: a copy started by cron
/// may not have the variable that a login has.
fn directories() -> Vec<PathBuf> {
    let user = rustix::process::geteuid();
    // With the variables of another user (`sudo -E`), nothing may be made in that user's directories.
    let is_own = |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user.as_raw());
    let own = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute()).filter(is_own);
    let of_login = PathBuf::from(format!("/run/user/{}", user.as_raw()));
    let of_system = user.is_root().then(|| PathBuf::from("/run"));
    let runtime = own("XDG_RUNTIME_DIR").into_iter().chain([of_login]).chain(of_system).filter(is_own);
    let state = own("XDG_STATE_HOME").or_else(|| Some(own("HOME")?.join(".local/state")));
    let mut all: Vec<PathBuf> = runtime.chain(state).map(|path| path.join("icdc/ctl")).collect();
    all.dedup();
    all
}

impl Place {
    /// Opens the best directory that can be used, which is made if it is missing; `None` if there
    /// is none.
    pub(super) fn make() -> Option<Self> {
        directories().iter().find_map(|path| {
            // Root has others' files beside it.
            let around = if path.starts_with("/run/icdc") { 0o755 } else { 0o700 };
            let make = |mode, path| DirBuilder::new().recursive(true).mode(mode).create(path);
            let made = make(around, path.parent().unwrap_or(path)).and_then(|()| make(0o700, path));
            let opened = made.and_then(|()| Self::open(path));
            opened.inspect_err(|error| tracing::debug!(%error, "{} has no sockets", path.display())).ok()
        })
    }

    /// The directories that are there.
    pub(super) fn all() -> Vec<Self> {
        directories().iter().filter_map(|path| Self::open(path).ok()).collect()
    }

    /// Opens a directory if it belongs to this user, and to nobody else.
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = fs::open(path, flags, Mode::empty())?;
        let found = fs::fstat(&directory)?;
        let is_private = !Mode::from_raw_mode(found.st_mode).intersects(OF_OTHERS);
        match found.st_uid == rustix::process::geteuid().as_raw() && is_private {
            true => Ok(Self(directory)),
            false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may enter it")),
        }
    }

    /// Listens on the socket of this process.
    pub(super) fn listen(self) -> io::Result<Bound> {
        let name = name(std::process::id());
        // Under its name only once it takes connections: one that takes none is left from a process that was killed.
        let first = format!(".{name}");
        let _ = fs::unlinkat(&self.0, &first, AtFlags::empty());
        let listener = UnixListener::bind(self.path(first.as_ref()))?;
        fs::renameat(&self.0, &first, &self.0, &name)?;
        Ok(Bound { listener, place: self, name })
    }

    /// Connections to the copies of this host that listen here, with their processes. Sockets of
    /// processes that are gone are removed.
    pub(super) fn copies(&self) -> Vec<(u32, UnixStream)> {
        let Ok(entries) = Dir::read_from(&self.0) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
        let own = names.filter_map(|found| {
            let pid = found.split('@').next()?.parse().ok()?;
            (found == name(pid)).then_some((pid, found))
        });
        own.filter_map(|(pid, found)| match UnixStream::connect(self.path(found.as_ref())) {
            Ok(stream) => Some((pid, stream)),
            Err(error) => {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    let _ = fs::unlinkat(&self.0, &found, AtFlags::empty());
                }
                None
            }
        })
        .collect()
    }

    /// Connects to the copy of this host with this process number.
    pub(super) fn connect(&self, pid: u32) -> io::Result<UnixStream> {
        UnixStream::connect(self.path(name(pid).as_ref()))
    }

    /// Number by which the file system knows the socket of a process.
    pub(super) fn inode_of(&self, pid: u32) -> io::Result<u64> {
        Ok(fs::statat(&self.0, name(pid), AtFlags::SYMLINK_NOFOLLOW)?.st_ino)
    }

    /// The directory.
    pub(super) fn directory(&self) -> &OwnedFd {
        &self.0
    }

    /// Path of a socket by way of the descriptor.
    fn path(&self, name: &OsStr) -> PathBuf {
        Path::new(&format!("/proc/self/fd/{}", self.0.as_raw_fd())).join(name)
    }
}

/// Name of the socket of a process: a home may be on several hosts.
fn name(pid: u32) -> String {
    format!("{pid}@{}", host())
}

/// Name of this host, as names of files have it.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().replace('/', "_")
}

impl Bound {
    /// The directory of the socket.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Number by which the file system knows the socket.
    pub(super) fn inode(&self) -> io::Result<u64> {
        self.place.inode_of(std::process::id())
    }

    /// Removes the socket, which takes no connections then.
    pub(super) fn remove(&self) {
        // One that stays is removed by whoever finds it.
        let _ = fs::unlinkat(&self.place.0, &self.name, AtFlags::empty());
    }
}
