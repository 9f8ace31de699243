//! Copies of a file's contents within one host: by sharing its space (a reflink) where the file
//! system can do that, otherwise by the kernel, and where it cannot, by reading and writing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{copy_file_range, ioctl_ficlone};
use rustix::io::Errno;

use crate::sparse;

/// Largest number of bytes that are copied at once, so that a copy can be given up meanwhile.
const STEP: u64 = 16 << 20;
/// Number of bytes that are read and written at once where the kernel does not copy.
const BUFFER: usize = 1 << 20;

/// Copies the first `size` bytes of `from` into the empty file `to`, holes as holes. `goes_on` is
/// asked from time to time whether to continue.
///
/// # Errors
/// The kernel's errors; `UnexpectedEof` if the file is shorter, `Interrupted` if `goes_on` is false.
pub fn copy_contents(from: &File, to: &File, size: u64, goes_on: impl Fn() -> bool) -> io::Result<()> {
    if reflink(from, to)? {
        return Ok(());
    }
    to.set_len(size)?;
    let mut copying = Copying { from, to, buffer: None };
    for range in sparse::data_ranges(from, size) {
        let (mut offset, length) = range?;
        let end = offset + length;
        while offset < end {
            if !goes_on() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            match copying.step(offset, (end - offset).min(STEP))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                copied => offset += copied,
            }
        }
    }
    Ok(())
}

/// Makes the empty file `to` share all space of `from`, until either is written to; false if their file system
/// cannot do that, and `to` is still empty. What is written to `from` later does not show in `to`.
///
/// # Errors
/// Space that is shared already cannot be given back.
pub fn reflink(from: &File, to: &File) -> io::Result<bool> {
    if ioctl_ficlone(to, from).is_ok() {
        return Ok(true);
    }
    // Btrfs ends at the first extent that it cannot share, and those before it stay.
    to.set_len(0)?;
    Ok(false)
}

/// A copy of a file's contents in progress.
struct Copying<'a> {
    from: &'a File,
    to: &'a File,
    /// Memory to read into, once the kernel has refused to copy.
    buffer: Option<Vec<u8>>,
}

impl Copying<'_> {
    /// Copies up to `length` bytes at `offset`; returns how many, 0 at the end of the file.
    fn step(&mut self, offset: u64, length: u64) -> io::Result<u64> {
        if self.buffer.is_none() {
            let (mut read, mut written) = (offset, offset);
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            match copy_file_range(self.from, Some(&mut read), self.to, Some(&mut written), length) {
                // The kernel copies nothing from some of its own file systems, and says no error.
                Ok(0) | Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {}
                Ok(copied) => return Ok(copied as u64),
                Err(error) => return Err(error.into()),
            }
        }
        let buffer = self.buffer.get_or_insert_with(|| vec![0; BUFFER]);
        let most = buffer.len().min(usize::try_from(length).unwrap_or(usize::MAX));
        let read = self.from.read_at(&mut buffer[..most], offset)?;
        self.to.write_all_at(&buffer[..read], offset)?;
        Ok(read as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_copy_has_the_contents_and_the_holes_and_ends_when_it_is_told_to() {
        let from = tempfile::tempfile().unwrap();
        from.write_all_at(b"begin", 0).unwrap();
        from.write_all_at(&vec![7; 3 << 20], 32 << 20).unwrap();
        let size = from.metadata().unwrap().len();
        let to = tempfile::tempfile().unwrap();
        copy_contents(&from, &to, size, || true).unwrap();
        let contents = |file: &File| {
            let mut contents = vec![0; size as usize];
            file.read_exact_at(&mut contents, 0).unwrap();
            contents
        };
        assert!(contents(&from) == contents(&to));
        assert!(to.metadata().unwrap().blocks() <= from.metadata().unwrap().blocks() + 64, "holes stay holes");
        let reflinked = ioctl_ficlone(tempfile::tempfile().unwrap(), &from).is_ok();
        let ended = copy_contents(&from, &tempfile::tempfile().unwrap(), size, || false);
        assert_eq!(ended.is_ok(), reflinked, "a reflink is made at once");
        let longer = copy_contents(&from, &tempfile::tempfile().unwrap(), size + 1, || true);
        assert!(longer.is_ok(), "what is missing reads as a hole, and is found by its time");
    }

    #[test]
    fn what_the_kernel_does_not_copy_is_read_and_written() {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        from.write_all_at(b"contents", 0).unwrap();
        let mut copying = Copying { from: &from, to: &to, buffer: Some(vec![0; 5]) };
        assert_eq!(copying.step(0, 8).unwrap(), 5);
        assert_eq!(copying.step(5, 3).unwrap(), 3);
        assert_eq!(copying.step(8, 1).unwrap(), 0);
        let mut copied = [0; 8];
        to.read_exact_at(&mut copied, 0).unwrap();
        assert_eq!(&copied, b"contents");
    }
}
