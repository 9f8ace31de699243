//! Names of running copies: `=NAME@HOST` beside the sockets, a file that the copy holds locked, with the
//! number of its process and that of its socket.
//!
//! The kernel gives the lock back with the process, however that ends, so that no name is taken by one
//! that is gone. The number of the socket tells a copy from a later one with the same process number.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::place::{Bound, Place, host};
use crate::values::CopyName;

/// Longest content of a file, in bytes: two numbers.
const LONGEST: u64 = 64;
/// Most attempts to take a name whose holders end at that moment.
const ATTEMPTS: usize = 100;

/// A name that this process holds; it is free again when this is dropped.
pub(super) struct HeldName {
    bound: Arc<Bound>,
    file_name: String,
    /// Holds the lock.
    file: File,
}

impl HeldName {
    /// Takes a name for the copy that listens at `bound`; the error is a sentence.
    pub(super) fn take(name: &CopyName, bound: &Arc<Bound>) -> Result<Self, String> {
        let elsewhere = Place::all().iter().find_map(|place| holder(place, name));
        if let Some((pid, _)) = elsewhere {
            return Err(in_use(name, Some(pid)));
        }
        let place = bound.place();
        let file_name = file_name(name);
        let unusable = |error: io::Error| format!("the name {} cannot be taken: {error}", name.as_str());
        for _ in 0..ATTEMPTS {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = fs::openat(place.directory(), &file_name, flags, Mode::RUSR | Mode::WUSR);
            let mut file = File::from(file.map_err(|error| unusable(error.into()))?);
            match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(in_use(name, read(&mut file).map(|(pid, _)| pid))),
                Err(error) => return Err(unusable(error.into())),
            }
            // Its last holder may have removed the file in between.
            let is_there = is_same(place, &file_name, &file).map_err(unusable)?;
            if is_there {
                let written = bound.inode().and_then(|inode| {
                    file.set_len(0)?;
                    file.write_all(format!("{} {inode}\n", std::process::id()).as_bytes())
                });
                written.map_err(unusable)?;
                return Ok(Self { bound: Arc::clone(bound), file_name, file });
            }
        }
        Err(in_use(name, None))
    }
}

impl Drop for HeldName {
    fn drop(&mut self) {
        // Before the lock goes. One that stays is taken by whoever wants the name.
        let place = self.bound.place();
        if is_same(place, &self.file_name, &self.file).unwrap_or(false) {
            let _ = fs::unlinkat(place.directory(), &self.file_name, AtFlags::empty());
        }
    }
}

/// The copy of this host that has a name here, with a connection to it; `None` if none has.
pub(super) fn holder(place: &Place, name: &CopyName) -> Option<(u32, UnixStream)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::openat(place.directory(), file_name(name), flags, Mode::empty()).ok()?;
    let (pid, inode) = read(&mut File::from(file))?;
    (place.inode_of(pid).ok()? == inode).then(|| Some((pid, place.connect(pid).ok()?)))?
}

/// Sentence for a name that is taken, by the process if it is known.
fn in_use(name: &CopyName, pid: Option<u32>) -> String {
    let by = pid.map_or_else(String::new, |pid| format!(", process {pid},"));
    let name = shell_words::quote(name.as_str());
    format!(
        "--name {name}: a copy of this user{by} has this name; `icdc ctl {name} status` shows it. Take another name, or wait \
         for its end"
    )
}

/// Numbers of the process and of the socket of a name's holder; `None` if they are not there.
fn read(file: &mut File) -> Option<(u32, u64)> {
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    let (pid, inode) = text.trim_end().split_once(' ')?;
    Some((pid.parse().ok()?, inode.parse().ok()?))
}

/// Whether this file is the one that has the name now.
fn is_same(place: &Place, file_name: &str, file: &File) -> io::Result<bool> {
    let own = fs::fstat(file)?;
    match fs::statat(place.directory(), file_name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Name of the file of a copy's name: a home may be on several hosts.
fn file_name(name: &CopyName) -> String {
    format!("={}@{}", name.as_str(), host())
}
