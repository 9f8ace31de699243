//! An open regular file or block device with two descriptors: buffered, and by Direct I/O where its file system
//! allows it.
//!
//! Direct I/O moves data between the disk and a block without the page cache: no copy, no eviction
//! of other programs' memory, and a write that is complete has left this machine's memory. It wants
//! offsets, lengths and addresses that are multiples of the file's alignment; the engine sees to
//! that and takes the buffered descriptor for what cannot be aligned.
//!
//! Whether it works is asked of the kernel (`STATX_DIOALIGN`, Linux 6.1). Where the kernel cannot
//! tell, opening decides, and the first transfer that is refused (`EINVAL`) turns it off for good.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    Advice, AtFlags, FallocateFlags, FileType, FsWord, Mode, OFlags, SeekFrom, StatxFlags, fadvise, fallocate,
    fcntl_getfl, fcntl_setfl, fstat, fstatfs, fstatvfs, seek, statx,
};
use rustix::io::Errno;

use crate::pool::BLOCK_SIZE;
use crate::tree::operation;

/// Smallest alignment used, whatever the device allows: the block size of common file systems and
/// the sector size of current disks. Writes below it cost a read and a lock.
const PAGE: usize = 4096;
/// Flag of `statx` that requests alignment for Direct I/O: `STATX_DIOALIGN` of `linux/stat.h`.
const STATX_DIOALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2000);
/// Magic numbers of the file systems that live in the page cache (`linux/magic.h`): newer kernels
/// accept `O_DIRECT` there and then copy all the same.
const MEMORY_FILE_SYSTEMS: [FsWord; 2] = [0x0102_1994 /* tmpfs */, 0x8584_58f6 /* ramfs */];

/// Magic number of the file systems of programs behind FUSE (`linux/magic.h`).
const FUSE: FsWord = 0x6573_5546;

/// Magic number of the file system that stands for block devices (`linux/magic.h`).
const BLOCK_DEVICES: FsWord = 0x6264_6576;

/// An open regular file or block device that the disk engines read or write.
#[derive(Debug)]
pub struct DiskFile {
    buffered: File,
    direct: Option<Direct>,
    /// Magic number of its file system (`linux/magic.h`), which programs behind FUSE need not
    /// report; `None` if it cannot be asked for.
    file_system: Option<FsWord>,
}

/// Second descriptor of a file, for Direct I/O, with the alignment that it needs.
#[derive(Debug)]
struct Direct {
    descriptor: OwnedFd,
    /// Alignment of offsets, lengths and addresses in bytes: a power of two, at most
    /// [`BLOCK_SIZE`].
    alignment: usize,
    refused: AtomicBool,
}

/// Outcome of a preallocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preallocation {
    /// The space is reserved.
    Reserved,
    /// The file system cannot reserve space, or is in memory; writing may still succeed.
    Unsupported,
}

/// Error: a system call on an open file failed.
#[derive(Debug, thiserror::Error)]
#[error("{path:?}: {}: {cause}{}", operation(call), advice(cause))]
pub struct FileError {
    /// Name of the system call.
    pub call: &'static str,
    /// Present path of the file as the kernel knows it.
    pub path: PathBuf,
    /// Error that the kernel returned.
    pub cause: io::Error,
}

impl FileError {
    /// Whether the error is that the disk or the quota is full.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        is_out_of_space(&self.cause)
    }
}

impl DiskFile {
    /// Wraps a file to read from (it may be open for writing, too).
    ///
    /// Clears `O_NONBLOCK` and `O_APPEND` of `file`: they would make transfers fail or miss their
    /// offset.
    ///
    /// # Errors
    /// `file` is not a regular file, or not open for reading.
    pub fn for_reading(file: File) -> Result<Self, FileError> {
        Self::open(file, "read", OFlags::WRONLY)
    }

    /// Wraps a file to write to; open it for reading and writing if it is to be read back.
    ///
    /// Flags as [`for_reading`](Self::for_reading). The file must be writable by its mode, too, for
    /// Direct I/O: set a read-only mode when the file is complete.
    ///
    /// # Errors
    /// `file` is not a regular file, or not open for writing.
    pub fn for_writing(file: File) -> Result<Self, FileError> {
        Self::open(file, "write", OFlags::RDONLY)
    }

    /// Wraps a block device to read from; if it is open for writing, also to write to.
    ///
    /// # Errors
    /// `device` is not a block device, or not open for reading.
    pub fn of_device(device: File) -> Result<Self, FileError> {
        let descriptor = device.as_fd();
        let stat = fstat(descriptor).map_err(|errno| failure(descriptor, "fstat", errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
            let cause = io::Error::new(io::ErrorKind::InvalidInput, "not a block device");
            return Err(FileError { call: "read", path: path_of(descriptor), cause });
        }
        let flags = fcntl_getfl(descriptor).map_err(|errno| failure(descriptor, "fcntl", errno))?;
        if flags & OFlags::RWMODE == OFlags::WRONLY {
            return Err(failure(descriptor, "read", Errno::BADF));
        }
        let direct = Direct::open(descriptor, flags);
        // That of the node's directory, which is in memory, says nothing of the device.
        Ok(Self { buffered: device, direct, file_system: Some(BLOCK_DEVICES) })
    }

    /// Wraps a regular file whose access mode is not `useless`, which cannot serve the `purpose`, a
    /// word for errors; opens the second descriptor for Direct I/O where that is possible.
    fn open(file: File, purpose: &'static str, useless: OFlags) -> Result<Self, FileError> {
        let descriptor = file.as_fd();
        let stat = fstat(descriptor).map_err(|errno| failure(descriptor, "fstat", errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let cause = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            return Err(FileError { call: purpose, path: path_of(descriptor), cause });
        }
        let flags = fcntl_getfl(descriptor).map_err(|errno| failure(descriptor, "fcntl", errno))?;
        if flags & OFlags::RWMODE == useless {
            return Err(failure(descriptor, purpose, Errno::BADF));
        }
        if flags.intersects(OFlags::NONBLOCK | OFlags::APPEND) {
            fcntl_setfl(descriptor, flags - OFlags::NONBLOCK - OFlags::APPEND)
                .map_err(|errno| failure(descriptor, "fcntl", errno))?;
        }
        let file_system = fstatfs(descriptor).ok().map(|found| found.f_type);
        let direct = if is_in_memory(file_system) { None } else { Direct::open(descriptor, flags) };
        Ok(Self { buffered: file, direct, file_system })
    }

    /// Turns Direct I/O off if `buffered`: reads then use data in the page cache, and writes go to
    /// it.
    #[must_use]
    pub fn through_page_cache(mut self, buffered: bool) -> Self {
        if buffered {
            self.direct = None;
        }
        self
    }

    /// Whether the file is on a file system that may give less than a read asks for before the
    /// file's end, as those behind FUSE; also true if the kernel does not tell the file system.
    pub(crate) fn may_read_short(&self) -> bool {
        self.file_system.is_none_or(|found| found == FUSE)
    }

    /// Whether it is a block device, which has other data behind those that are written.
    pub(crate) fn is_device(&self) -> bool {
        self.file_system == Some(BLOCK_DEVICES)
    }

    /// Whether transfers of aligned ranges use Direct I/O.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.alignment().is_some()
    }

    /// Present size of the file, or of the device, in bytes.
    ///
    /// # Errors
    /// Error of `fstat`, or of `lseek`.
    pub fn size(&self) -> Result<u64, FileError> {
        if self.is_device() {
            // By its end: transfers name their offsets, so that the position is nobody's.
            return seek(&self.buffered, SeekFrom::End(0)).map_err(|errno| self.failure("lseek", errno));
        }
        let stat = fstat(&self.buffered).map_err(|errno| self.failure("fstat", errno))?;
        Ok(stat.st_size as u64)
    }

    /// The file by its buffered descriptor.
    #[must_use]
    pub fn as_file(&self) -> &File {
        &self.buffered
    }

    /// Reserves space for the bytes of `range` and makes the file at least as long as its end, so
    /// that writing does not have to. The end is rounded up to the alignment: whoever writes sets
    /// the length afterwards ([`set_len`](Self::set_len)).
    ///
    /// # Errors
    /// No space, quota, too large for the file system or any other of `fallocate`; a file system
    /// that reserves nothing is no error, see [`Preallocation::Unsupported`].
    pub fn preallocate(&self, range: Range<u64>) -> Result<Preallocation, FileError> {
        if range.is_empty() {
            return Ok(Preallocation::Reserved);
        }
        // The kernel would give the file all that there is before it refuses, and others would find
        // the disk full.
        if self.lacks_space(&range) {
            return Err(self.failure("fallocate", Errno::NOSPC));
        }
        // There it would take as long as writing, page by page, with nothing gained.
        if is_in_memory(self.file_system) {
            return Ok(Preallocation::Unsupported);
        }
        let alignment = self.alignment().unwrap_or(1) as u64;
        let end = range.end.checked_next_multiple_of(alignment).unwrap_or(range.end);
        let length = end - range.start;
        loop {
            return match fallocate(&self.buffered, FallocateFlags::empty(), range.start, length) {
                Ok(()) => Ok(Preallocation::Reserved),
                Err(Errno::INTR) => continue,
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Preallocation::Unsupported),
                Err(errno) => Err(self.failure("fallocate", errno)),
            };
        }
    }

    /// Whether `range` has more bytes than the file holds from its start on and the file system has free; false
    /// where the kernel does not tell.
    fn lacks_space(&self, range: &Range<u64>) -> bool {
        let (Ok(stat), Ok(disk)) = (fstat(&self.buffered), fstatvfs(&self.buffered)) else { return false };
        let held = (stat.st_blocks as u64).saturating_mul(512);
        let needed = (range.end - range.start).saturating_sub(held.saturating_sub(range.start));
        // Some file systems do not report their size.
        disk.f_blocks > 0 && needed > disk.f_bfree.saturating_mul(disk.f_frsize)
    }

    /// Truncates or extends (by a hole) the file to `length` bytes.
    ///
    /// # Errors
    /// Error of `ftruncate`.
    pub fn set_len(&self, length: u64) -> Result<(), FileError> {
        rustix::fs::ftruncate(&self.buffered, length).map_err(|errno| self.failure("ftruncate", errno))
    }

    /// Asks the kernel to drop the file's clean pages from its cache.
    pub fn forget_cache(&self) {
        // Advice only: a file system that ignores it keeps the pages, which does no harm.
        let _ = fadvise(&self.buffered, 0, None, Advice::DontNeed);
    }

    /// Alignment of direct transfers in bytes (a power of two that divides [`BLOCK_SIZE`]); `None`
    /// if the file is buffered.
    #[must_use]
    pub fn alignment(&self) -> Option<usize> {
        let direct = self.direct.as_ref()?;
        (!direct.refused.load(Ordering::Relaxed)).then_some(direct.alignment)
    }

    /// Turns Direct I/O off: uses the buffered descriptor from now on.
    pub(crate) fn refuse_direct(&self) {
        let Some(direct) = &self.direct else { return };
        if !direct.refused.swap(true, Ordering::Relaxed) {
            let path = self.path();
            tracing::debug!(?path, "the file system refused a direct transfer: buffered from now on");
        }
    }

    /// Descriptor for direct or buffered transfers.
    pub(crate) fn descriptor(&self, direct: bool) -> BorrowedFd<'_> {
        match &self.direct {
            Some(handle) if direct => handle.descriptor.as_fd(),
            _ => self.buffered.as_fd(),
        }
    }

    /// Present path of the file, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(self.buffered.as_fd())
    }

    fn failure(&self, call: &'static str, errno: Errno) -> FileError {
        failure(self.buffered.as_fd(), call, errno)
    }
}

impl Direct {
    /// Opens a second descriptor for Direct I/O with its own flags: `O_DIRECT` belongs to an open
    /// file, not to a descriptor, so `dup` would not do. `None` (buffered) after any failure.
    fn open(file: BorrowedFd<'_>, flags: OFlags) -> Option<Self> {
        let alignment = direct_alignment(file)?;
        let flags = (flags & (OFlags::RWMODE | OFlags::NOATIME)) | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOCTTY;
        let descriptor = rustix::fs::open(link_of(file), flags, Mode::empty()).ok()?;
        Some(Self { descriptor, alignment, refused: AtomicBool::new(false) })
    }
}

/// Whether files of this file system lie in memory.
fn is_in_memory(file_system: Option<FsWord>) -> bool {
    file_system.is_some_and(|found| MEMORY_FILE_SYSTEMS.contains(&found))
}

/// Alignment of Direct I/O on an open file, in bytes; `None` if the file has no Direct I/O, or
/// needs an alignment above [`BLOCK_SIZE`].
fn direct_alignment(file: BorrowedFd<'_>) -> Option<usize> {
    let alignment = match statx(file, c"", AtFlags::EMPTY_PATH, STATX_DIOALIGN) {
        Ok(stat) if StatxFlags::from_bits_retain(stat.stx_mask).contains(STATX_DIOALIGN) => {
            // Zero says that this file has no Direct I/O (encrypted, verity, journaled data).
            if stat.stx_dio_mem_align == 0 || stat.stx_dio_offset_align == 0 {
                return None;
            }
            PAGE.max(stat.stx_dio_mem_align as usize).max(stat.stx_dio_offset_align as usize)
        }
        _ => PAGE,
    };
    (alignment.is_power_of_two() && alignment <= BLOCK_SIZE).then_some(alignment)
}

/// Error of a system call on an open file, with its present path.
fn failure(file: BorrowedFd<'_>, call: &'static str, errno: Errno) -> FileError {
    FileError { call, path: path_of(file), cause: errno.into() }
}

/// Present path of an open file as the kernel knows it.
fn path_of(file: BorrowedFd<'_>) -> PathBuf {
    let link = link_of(file);
    std::fs::read_link(&link).unwrap_or(link)
}

/// Path in `/proc` that leads to an open file, by which it can be opened again.
fn link_of(file: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Whether the error is that the disk or the quota is full.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
}

/// Remedy for an error, as the end of a sentence; empty where only the kernel's text helps.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => ": free space there or choose another directory",
        Some(Errno::DQUOT) => ": free space or ask for a larger quota",
        Some(Errno::FBIG) => ": the file system or `ulimit -f` allows no file of this size",
        Some(Errno::IO) => ": the device failed; the kernel log (dmesg) says more",
        Some(Errno::ROFS) => ": the file system is mounted read-only",
        Some(Errno::BADF) => ": the file is not open for this",
        Some(Errno::STALE) => ": the file was removed on its server",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
