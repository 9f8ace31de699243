//! Named pipes, sockets and device nodes: made and described, never opened. What is set of them is
//! set by a descriptor that nothing can be read from.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::attributes::{ACCESS_ACL, AttributeKinds};
use super::directory::Directory;
use super::error::{Result, TreeError};
use super::kind::Kind;
use super::metadata::{self, Metadata, Stat, permissions};
use super::names::Name;

/// Kind of an item that is neither file nor directory nor link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A node of the block device with this number.
    BlockDevice(u64),
    /// A node of the character device with this number.
    CharacterDevice(u64),
}

impl Special {
    fn file_type(self) -> FileType {
        match self {
            Self::Pipe => FileType::Fifo,
            Self::Socket => FileType::Socket,
            Self::BlockDevice(_) => FileType::BlockDevice,
            Self::CharacterDevice(_) => FileType::CharacterDevice,
        }
    }

    /// Number of the device; 0 for a pipe or a socket.
    fn device(self) -> u64 {
        match self {
            Self::Pipe | Self::Socket => 0,
            Self::BlockDevice(number) | Self::CharacterDevice(number) => number,
        }
    }
}

/// Major and minor number of a device node.
#[must_use]
pub fn device_number(node: u64) -> (u32, u32) {
    (rustix::fs::major(node), rustix::fs::minor(node))
}

/// Number of the device node with this major and minor number.
#[must_use]
pub fn device_node(major: u32, minor: u32) -> u64 {
    rustix::fs::makedev(major, minor)
}

impl Stat {
    /// Kind of the item if it is neither file nor directory nor link; `None` if it is one of these.
    #[must_use]
    pub fn special(&self) -> Option<Special> {
        match self.kind {
            Kind::Other(_) => match self.kind.letter() {
                'p' => Some(Special::Pipe),
                's' => Some(Special::Socket),
                'b' => Some(Special::BlockDevice(self.device_node)),
                'c' => Some(Special::CharacterDevice(self.device_node)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Directory {
    /// Makes a named pipe, a socket or a device node with the permissions `mode & 0o777` less the
    /// umask. Nothing may have the name.
    ///
    /// # Errors
    /// [`TreeError::Exists`]; [`TreeError::NotPermitted`] for a device node that this user may not
    /// make.
    pub fn make_special(&self, special: Special, name: &Name, mode: u16) -> Result<()> {
        let (kind, device) = (special.file_type(), special.device());
        rustix::fs::mknodat(self, name.as_c_str(), kind, permissions(mode & 0o777), device)
            .map_err(|errno| self.failed("mknodat", name, errno))
    }

    /// Restores owner, mode and time of a special item, if it is still the one that `found`
    /// describes and has no other name. With a mode and ACLs among the kinds, an ACL that its directory
    /// has passed on to it is taken away.
    ///
    /// # Errors
    /// As [`set_metadata`](Self::set_metadata); [`TreeError::NotOurs`] for another item.
    pub fn set_special_metadata(&self, name: &Name, found: &Stat, wanted: &Metadata<'_>) -> Result<()> {
        let place = self.open_reference(name)?;
        let stat = Stat::from(rustix::fs::fstat(&place).map_err(|errno| self.failed("fstat", name, errno))?);
        let is_same = (stat.dev, stat.ino) == (found.dev, found.ino);
        if !is_same || stat.special() != found.special() || stat.special().is_none() || stat.nlink != 1 {
            return Err(TreeError::NotOurs { path: self.path_of(name), call: "openat" });
        }
        if let Some((uid, gid)) = wanted.owner.filter(|owner| *owner != (stat.uid, stat.gid)) {
            let (uid, gid) = metadata::identity(uid, gid).map_err(|failure| failure.at(self.path_of(name)))?;
            rustix::fs::chownat(&place, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
                .map_err(|errno| self.failed("fchownat", name, errno))?;
        }
        let is_bare = wanted.mode.is_some() && wanted.kinds.has(AttributeKinds::ACL);
        let is_removed = is_bare
            && match rustix::fs::removexattr(path_of(&place), ACCESS_ACL) {
                Ok(()) => true,
                Err(Errno::NODATA | Errno::NOTSUP) => false,
                Err(errno) => return Err(self.failed("removexattr", name, errno)),
            };
        if let Some(mode) = wanted.mode.filter(|mode| *mode != stat.mode || wanted.owner.is_some() || is_removed) {
            rustix::fs::chmod(path_of(&place), permissions(mode))
                .map_err(|errno| self.failed("fchmod", name, errno))?;
        }
        if let Some(mtime) = wanted.mtime {
            let times = metadata::timestamps(mtime);
            rustix::fs::utimensat(self, name.as_c_str(), &times, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| self.failed("utimensat", name, errno))?;
        }
        Ok(())
    }
}

/// Path in `/proc` of an item that is open by `O_PATH`: calls that take an open file refuse such a
/// descriptor.
fn path_of(place: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", place.as_raw_fd())
}
