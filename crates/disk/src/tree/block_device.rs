//! Block devices that are read or written as a whole. A node is found by its name once; from then on
//! its descriptor stands for it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::directory::Directory;
use super::error::{Result, TreeError};
use super::metadata::Stat;
use super::names::Name;
use super::special::Special;

/// Node of a block device, by a descriptor that refers to it and cannot be read or written.
#[derive(Debug)]
pub struct DeviceNode {
    reference: OwnedFd,
    stat: Stat,
    path: String,
}

impl AsFd for DeviceNode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reference.as_fd()
    }
}

impl Directory {
    /// Finds the node of a block device that has this name, or to which symbolic links of this name
    /// lead; in a confined tree beneath its root. The device is not opened.
    ///
    /// # Errors
    /// [`TreeError::NotADevice`] for anything else, [`TreeError::Missing`], [`TreeError::Escapes`].
    pub fn find_device(&self, name: &Name) -> Result<DeviceNode> {
        let path = self.path_of(name);
        let reference =
            self.open_followed(name, OFlags::PATH | OFlags::CLOEXEC).map_err(|errno| self.unfollowed(name, errno))?;
        let stat =
            Stat::of(&reference).map_err(|cause| TreeError::System { path: path.clone(), call: "fstat", cause })?;
        match stat.special() {
            Some(Special::BlockDevice(_)) => Ok(DeviceNode { reference, stat, path }),
            _ => Err(TreeError::NotADevice { path, found: stat.kind.described(), call: "openat2" }),
        }
    }
}

impl DeviceNode {
    /// Description of the node; its size is not that of the device.
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Path by which the node was found, printable.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Opens the device for reading.
    ///
    /// # Errors
    /// [`TreeError::Denied`], or that the device has no driver or no medium.
    pub fn open(&self) -> Result<File> {
        self.reopen(OFlags::RDONLY).map_err(|errno| self.failed(errno))
    }

    /// Opens the device for reading and writing, for nobody else: neither mounted nor in use by swap,
    /// a volume group or the like, as a whole or in one of its partitions. `None` if it is in use.
    ///
    /// # Errors
    /// As of [`open`](Self::open), and [`TreeError::ReadOnly`].
    pub fn claim(&self) -> Result<Option<File>> {
        match self.reopen(OFlags::RDWR | OFlags::EXCL) {
            Err(Errno::BUSY) => Ok(None),
            opened => opened.map(Some).map_err(|errno| self.failed(errno)),
        }
    }

    /// Opens the node that the descriptor refers to, whatever has its name by now.
    fn reopen(&self, flags: OFlags) -> std::result::Result<File, Errno> {
        let link = format!("/proc/self/fd/{}", self.reference.as_raw_fd());
        let file = File::from(rustix::fs::open(link, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?);
        let opened = Stat::from(rustix::fs::fstat(&file)?);
        if opened.special() == self.stat.special() { Ok(file) } else { Err(Errno::NXIO) }
    }

    /// Error for `errno` of opening the device.
    fn failed(&self, errno: Errno) -> TreeError {
        TreeError::new("open", self.path.clone(), errno)
    }
}
