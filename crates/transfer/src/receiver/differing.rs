//! Differences between a block and the file into which it is written at its place.
//!
//! Only that is written: what is equal stays untouched, also for snapshots and reflinks that share it. Holes of
//! the source become holes of the file where its file system can punch them, and zeros elsewhere.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use icdc_disk::{DiskFile, sparse};
use icdc_protocol::limits::LEAF_SIZE;

/// Smallest unit that is written or made a hole: a page, and the block of common file systems.
const PAGE: usize = 4096;

/// Block of a file, with its contents.
pub(super) struct Piece<'a> {
    /// Offset of the block in the file, in bytes.
    pub(super) offset: u64,
    /// Contents of the block, with zeros in its holes.
    pub(super) data: &'a [u8],
    /// Ranges (offset, length) that have data at the source; empty if all has.
    pub(super) ranges: &'a [(u32, u32)],
}

/// Ranges (offset, length) of a block that are to be written into `file`; none if it has them all. What is a
/// hole of the source is cleared. Without `compares`, everything else is written.
///
/// # Errors
/// A hole cannot be punched.
pub(super) fn differing(file: &DiskFile, piece: &Piece<'_>, compares: bool) -> io::Result<Vec<(u32, u32)>> {
    let unit = file.alignment().unwrap_or(PAGE).max(PAGE);
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut there = vec![0; if compares { unit.max(LEAF_SIZE) } else { 0 }];
    for (range, is_hole) in parts(piece, unit) {
        let place = piece.offset + range.start as u64..piece.offset + range.end as u64;
        if is_hole && sparse::punch(file.as_file(), place)? {
            continue;
        }
        for leaf in leaves(range, unit.max(LEAF_SIZE)) {
            let (data, there) = (&piece.data[leaf.clone()], there.get_mut(..leaf.len()));
            // What cannot be read is written.
            let is_equal = there.is_some_and(|there| {
                file.as_file().read_exact_at(there, piece.offset + leaf.start as u64).is_ok() && *there == *data
            });
            match found.last_mut() {
                _ if is_equal => {}
                Some(last) if last.end == leaf.start => last.end = leaf.end,
                _ => found.push(leaf),
            }
        }
    }
    Ok(found.into_iter().map(|range| (range.start as u32, range.len() as u32)).collect())
}

/// The parts of a block, in their order, and whether each is a hole, in multiples of `unit` from its start.
fn parts(piece: &Piece<'_>, unit: usize) -> Vec<(Range<usize>, bool)> {
    let length = piece.data.len();
    if piece.ranges.is_empty() {
        return vec![(0..length, false)];
    }
    let (mut parts, mut done) = (Vec::new(), 0);
    for &(start, size) in piece.ranges {
        let (start, end) = (start as usize, start as usize + size as usize);
        let (start, end) = ((start - start % unit).max(done), end.next_multiple_of(unit).min(length));
        if start > done {
            parts.push((done..start, true));
        }
        if end > start {
            parts.push((start..end, false));
            done = end;
        }
    }
    if done < length {
        parts.push((done..length, true));
    }
    parts
}

/// Cuts a range, which is not empty, at multiples of `size`.
fn leaves(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let Range { start, end } = range;
    let first = start / size;
    (first..end.div_ceil(size)).map(move |number| (number * size).max(start)..((number + 1) * size).min(end))
}

/// Makes a range of a file read as zero: by a hole, or where its file system has none, by zeros. Behind the end
/// of the file nothing is done.
///
/// # Errors
/// Errors of reading, writing and `fallocate`.
pub(super) fn clear(file: &DiskFile, range: Range<u64>) -> io::Result<()> {
    let file = file.as_file();
    let range = range.start..range.end.min(file.metadata()?.len());
    if range.is_empty() || sparse::punch(file, range.clone())? {
        return Ok(());
    }
    let zeros = vec![0; LEAF_SIZE];
    let mut there = vec![0; LEAF_SIZE];
    let mut at = range.start;
    while at < range.end {
        let length = usize::try_from(range.end - at).unwrap_or(LEAF_SIZE).min(LEAF_SIZE);
        file.read_exact_at(&mut there[..length], at)?;
        if there[..length] != zeros[..length] {
            file.write_all_at(&zeros[..length], at)?;
        }
        at += length as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    const UNIT: usize = PAGE;

    fn piece<'a>(data: &'a [u8], ranges: &'a [(u32, u32)]) -> Piece<'a> {
        Piece { offset: 0, data, ranges }
    }

    #[test]
    fn a_block_falls_into_data_and_holes_of_whole_units() {
        let data = vec![1; 5 * UNIT + 10];
        let unit = UNIT as u32;
        assert_eq!(parts(&piece(&data, &[]), UNIT), [(0..data.len(), false)]);
        let ranges = [(1, 3), (unit - 1, 1), (3 * unit + 7, 2)];
        assert_eq!(
            parts(&piece(&data, &ranges), UNIT),
            [(0..UNIT, false), (UNIT..3 * UNIT, true), (3 * UNIT..4 * UNIT, false), (4 * UNIT..data.len(), true)]
        );
        let ranges = [(unit, unit + 1), (2 * unit + 9, 5 * 9), (5 * unit + 3, 7)];
        let found = parts(&piece(&data, &ranges), UNIT);
        let data_parts: Vec<_> = found.iter().filter(|(_, is_hole)| !is_hole).map(|(range, _)| range.clone()).collect();
        assert_eq!(data_parts, [UNIT..3 * UNIT, 5 * UNIT..data.len()]);
        assert_eq!(found.iter().map(|(range, _)| range.len()).sum::<usize>(), data.len());
    }

    #[test]
    fn a_range_is_cut_at_leaves() {
        assert_eq!(leaves(3..25, 10).collect::<Vec<_>>(), [3..10, 10..20, 20..25]);
        assert_eq!(leaves(10..25, 10).collect::<Vec<_>>(), [10..20, 20..25]);
        assert_eq!(leaves(9..20, 10).collect::<Vec<_>>(), [9..10, 10..20]);
    }

    /// A file with these contents.
    fn file(contents: &[u8]) -> (tempfile::NamedTempFile, DiskFile) {
        let named = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(named.path(), contents).unwrap();
        let open = std::fs::File::options().read(true).write(true).open(named.path()).unwrap();
        (named, DiskFile::for_writing(open).unwrap())
    }

    #[test]
    fn only_leaves_that_differ_are_written() {
        let old: Vec<u8> = (0..5 * LEAF_SIZE).map(|at| (at / 7 % 251) as u8).collect();
        let (_named, disk) = file(&old);
        let mut new = [old.clone(), vec![9; 100]].concat();
        new[LEAF_SIZE] ^= 1;
        new[3 * LEAF_SIZE - 1] ^= 1;
        new[4 * LEAF_SIZE + 5] ^= 1;
        let leaf = LEAF_SIZE as u32;
        let found = differing(&disk, &piece(&new, &[]), true).unwrap();
        assert_eq!(found, [(leaf, 2 * leaf), (4 * leaf, leaf + 100)]);
        assert_eq!(differing(&disk, &piece(&old, &[]), true).unwrap(), []);
        assert_eq!(differing(&disk, &piece(&old, &[]), false).unwrap(), [(0, 5 * leaf)]);
    }

    #[test]
    fn what_is_cleared_reads_as_zero_and_nothing_beside_it() {
        let (named, disk) = file(&vec![1; 3 * LEAF_SIZE]);
        clear(&disk, LEAF_SIZE as u64..2 * LEAF_SIZE as u64).unwrap();
        clear(&disk, 5 * LEAF_SIZE as u64..9 * LEAF_SIZE as u64).unwrap();
        let now = std::fs::read(named.path()).unwrap();
        assert_eq!(now.len(), 3 * LEAF_SIZE);
        for (at, byte) in now.into_iter().enumerate() {
            assert_eq!(byte, u8::from(at / LEAF_SIZE != 1), "{at}");
        }
    }
}
