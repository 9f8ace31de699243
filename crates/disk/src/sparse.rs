//! Data ranges of a file with holes (`lseek` with `SEEK_DATA` and `SEEK_HOLE`), and punching of
//! holes.

use std::fs::{File, Metadata};
use std::io;
use std::iter::FusedIterator;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

/// Unit of `st_blocks` in bytes, whatever the file system's own block size.
const STAT_BLOCK: u64 = 512;

/// Whether fewer bytes are allocated than the file is long.
///
/// True also for files that a file system compresses or stores within the inode; [`data_ranges`] is
/// exact.
#[must_use]
pub fn is_sparse(metadata: &Metadata) -> bool {
    metadata.blocks().saturating_mul(STAT_BLOCK) < metadata.len()
}

/// Data ranges in the first `size` bytes of a file as `(offset, length)` in bytes: ascending,
/// disjoint, not adjacent, not empty. What lies between reads as zero. File systems that keep no
/// record of holes give one range.
///
/// Moves the file position of `file`; the engines and `pread` do not depend on it. The iterator
/// ends after an error.
///
/// # Errors
/// Each item is the kernel's error of `lseek`.
#[must_use]
pub fn data_ranges(file: &File, size: u64) -> DataRanges<'_> {
    DataRanges { file, position: 0, size }
}

/// Punches a hole: makes the bytes of `range` read as zero and frees their space; the length of
/// the file stays. False if its file system cannot do that.
///
/// # Errors
/// Any other of the kernel's errors of `fallocate`.
pub fn punch(file: &File, range: Range<u64>) -> io::Result<bool> {
    if range.is_empty() {
        return Ok(true);
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    loop {
        return match fallocate(file, flags, range.start, range.end - range.start) {
            Ok(()) => Ok(true),
            Err(Errno::INTR) => continue,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        };
    }
}

/// Iterator over the data ranges of a file, made by [`data_ranges`].
#[derive(Debug)]
pub struct DataRanges<'a> {
    file: &'a File,
    position: u64,
    size: u64,
}

impl DataRanges<'_> {
    /// Start and end offset of the next data range; `None` if no data are left before `size`.
    fn following(&mut self) -> Result<Option<(u64, u64)>, Errno> {
        if self.position >= self.size {
            return Ok(None);
        }
        let start = match seek(self.file, SeekFrom::Data(self.position)) {
            Ok(start) => start,
            // No data from here to the end.
            Err(Errno::NXIO) => self.size,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((self.position, self.size))),
            Err(error) => return Err(error),
        };
        if start >= self.size {
            return Ok(None);
        }
        let end = match seek(self.file, SeekFrom::Hole(start)) {
            Ok(end) => end.min(self.size),
            // The file was cut in between.
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => self.size,
            Err(error) => return Err(error),
        };
        // A hole may have been punched at `start` since; then this range ends here.
        Ok(Some((start, end)))
    }
}

impl Iterator for DataRanges<'_> {
    type Item = io::Result<(u64, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.following() {
                Ok(Some((start, end))) => {
                    // At least one byte of progress even if the file changes under our feet.
                    self.position = end.max(self.position + 1);
                    if end > start {
                        return Some(Ok((start, end - start)));
                    }
                }
                Ok(None) => {
                    self.position = self.size;
                    return None;
                }
                Err(error) => {
                    self.position = self.size;
                    return Some(Err(error.into()));
                }
            }
        }
    }
}

impl FusedIterator for DataRanges<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn ranges(file: &File, size: u64) -> Vec<(u64, u64)> {
        data_ranges(file, size).collect::<io::Result<_>>().unwrap()
    }

    #[test]
    fn empty_and_full_files() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(ranges(&file, 0), []);
        file.write_all_at(&[1; 10_000], 0).unwrap();
        assert_eq!(ranges(&file, 10_000), [(0, 10_000)]);
        assert!(!is_sparse(&file.metadata().unwrap()));
    }

    #[test]
    fn holes_at_the_start_in_the_middle_and_at_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(&[1; 4096], 8 << 20).unwrap();
        file.write_all_at(&[1; 8192], 32 << 20).unwrap();
        assert!(is_sparse(&file.metadata().unwrap()));
        let found = ranges(&file, 64 << 20);
        let holds = |offset: u64| found.iter().any(|&(start, length)| (start..start + length).contains(&offset));
        // A file system may round to its own units, but must name the data and not everything.
        assert!(holds(8 << 20) && holds((32 << 20) + 8191));
        assert!(!holds(0) && !holds(20 << 20) && !holds(60 << 20));
        assert!(found.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
        assert_eq!(ranges(&file, 8 << 20), []);
    }

    #[test]
    fn what_is_punched_reads_as_zero() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 20_000], 0).unwrap();
        assert!(punch(&file, 0..0).unwrap());
        if !punch(&file, 5_000..13_000).unwrap() || !punch(&file, 19_000..1 << 30).unwrap() {
            return; // The file system cannot.
        }
        let mut found = vec![9; 20_000];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 20_000);
        for (at, byte) in found.into_iter().enumerate() {
            let punched = (5_000..13_000).contains(&at) || at >= 19_000;
            assert_eq!(byte, u8::from(!punched), "{at}");
        }
    }

    #[test]
    fn only_a_hole() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(ranges(&file, 1 << 40), []);
    }

    #[test]
    fn ranges_are_cut_at_the_given_size_and_at_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 10_000], 0).unwrap();
        assert_eq!(ranges(&file, 5_000), [(0, 5_000)]);
        assert!(ranges(&file, 1 << 30).iter().all(|&(start, length)| start + length <= 10_000));
    }

    #[test]
    fn descriptors_that_cannot_seek_give_an_error_and_end() {
        let (_, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let found: Vec<_> = data_ranges(&file, 10).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].as_ref().unwrap_err().raw_os_error(), Some(Errno::SPIPE.raw_os_error()));
    }
}
