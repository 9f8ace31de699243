//! Digests of files that earlier runs of a user have read, as kept in a file: a cache, of which nothing
//! is missed when it is lost.
//!
//! ```text
//! header   "icdc digests 1\n"
//! entry*   device 8, inode 8, size 8, mtime 8 + 4, ctime 8 + 4, met 2, kind 1, digest 32 (bytes, little endian)
//! check    32 bytes: BLAKE3 of everything before, by a key of its own
//! ```
//!
//! Times are seconds since 1970 and nanoseconds, `met` is the day since 1970 on which the file was last
//! found as the entry describes it. Entries are in the order of device and inode, of which each pair has
//! one. The check value finds damage; it is no defence against who may write the file.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::message::FileDigest;

/// First line of a cache file, with the version of its format.
const HEADER: &[u8] = b"icdc digests 1\n";
/// Name of the key for check values.
const CONTEXT: &str = "icdc digest cache 1";
/// Length of the check value at the end of the file, in bytes.
const CHECK_LENGTH: usize = blake3::OUT_LEN;
/// Length of an entry in bytes.
const ENTRY: usize = 83;
/// Most entries that a cache keeps.
pub const MAX_ENTRIES: usize = 1 << 20;
/// Most bytes that a cache takes.
pub const MAX_LENGTH: usize = HEADER.len() + MAX_ENTRIES * ENTRY + CHECK_LENGTH;
/// Days for which an entry is kept whose file is not met.
const DAYS_KEPT: u16 = 90;
/// Days after which it is noted anew that a file was met: not every run writes the cache.
const DAYS_UNNOTED: u16 = 7;

/// Identity of a file on its host, by which its digest is looked up, whatever its name and contents
/// are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumbers {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// Properties of a file that change with its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// Length in bytes.
    pub size: u64,
    /// Modification time: seconds since 1970, nanoseconds.
    pub mtime: (i64, u32),
    /// Time of the last change of contents or attributes, which only the kernel sets: seconds since 1970,
    /// nanoseconds.
    pub ctime: (i64, u32),
}

/// Entry of the digest cache: digest of a file's contents, the version of the file that it is of,
/// and the day on which that was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownDigest {
    /// The version that was read.
    pub version: FileVersion,
    /// Day since 1970 on which the file had this version last, as far as it was noted.
    pub met: u16,
    /// Digest of its contents.
    pub digest: FileDigest,
}

impl KnownDigest {
    /// Whether it is to be noted that the file was met on the day `today`.
    #[must_use]
    pub fn is_to_be_noted(&self, today: u16) -> bool {
        today.abs_diff(self.met) >= DAYS_UNNOTED
    }
}

/// Contents of a digest cache in memory: digests of files that earlier runs of the user have read,
/// each with the version of the file that it is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// The entries, in their order, encoded.
    entries: Vec<u8>,
}

impl Digests {
    /// The entries of a cache file; `None` if it is damaged, or of another format.
    #[must_use]
    pub fn parse(mut file: Vec<u8>) -> Option<Self> {
        let end = file.len().checked_sub(CHECK_LENGTH)?;
        let entries = file[..end].strip_prefix(HEADER)?;
        if check(&file[..end]) != file[end..] || entries.len() % ENTRY != 0 || entries.len() / ENTRY > MAX_ENTRIES {
            return None;
        }
        file.truncate(end);
        file.drain(..HEADER.len());
        let digests = Self { entries: file };
        let mut before = None;
        for position in 0..digests.len() {
            let (numbers, _) = digests.entry(position)?;
            if before.is_some_and(|before| before >= numbers) {
                return None;
            }
            before = Some(numbers);
        }
        Some(digests)
    }

    /// The bytes of a cache file with these entries.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut file = Vec::with_capacity(HEADER.len() + self.entries.len() + CHECK_LENGTH);
        file.extend_from_slice(HEADER);
        file.extend_from_slice(&self.entries);
        let check = check(&file);
        file.extend_from_slice(&check);
        file
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() / ENTRY
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Digest that is known of a file, of whichever version.
    #[must_use]
    pub fn get(&self, file: FileNumbers) -> Option<KnownDigest> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let (numbers, known) = self.entry(middle)?;
            match numbers.cmp(&file) {
                Ordering::Equal => return Some(known),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// These entries and the `newer` ones, which take the place of those of the same files, as of the day
    /// `today`. Entries whose files were not met for long are left out; so are, if there are more than a
    /// cache keeps, those of the files that were not met for longest.
    #[must_use]
    pub fn with(&self, newer: &BTreeMap<FileNumbers, KnownDigest>, today: u16) -> Self {
        let older = (0..self.len()).filter_map(|position| self.entry(position));
        let mut all: Vec<_> = older.filter(|(numbers, _)| !newer.contains_key(numbers)).collect();
        all.extend(newer.iter().map(|(numbers, known)| (*numbers, *known)));
        // A clock that was ahead must not keep an entry for ever.
        all.iter_mut().for_each(|(_, known)| known.met = known.met.min(today));
        all.retain(|(_, known)| today - known.met <= DAYS_KEPT);
        if all.len() > MAX_ENTRIES {
            all.select_nth_unstable_by_key(MAX_ENTRIES, |(numbers, known)| (Reverse(known.met), *numbers));
            all.truncate(MAX_ENTRIES);
        }
        all.sort_unstable_by_key(|(numbers, _)| *numbers);
        let mut entries = Vec::with_capacity(all.len() * ENTRY);
        all.into_iter().for_each(|(numbers, known)| encode_entry(&mut entries, numbers, &known));
        Self { entries }
    }

    /// The entry at a position; `None` if it is malformed.
    fn entry(&self, position: usize) -> Option<(FileNumbers, KnownDigest)> {
        let mut left = self.entries.get(position * ENTRY..(position + 1) * ENTRY)?;
        let numbers =
            FileNumbers { device: u64::from_le_bytes(take(&mut left)?), inode: u64::from_le_bytes(take(&mut left)?) };
        let size = u64::from_le_bytes(take(&mut left)?);
        let mut time = || Some((i64::from_le_bytes(take(&mut left)?), u32::from_le_bytes(take(&mut left)?)));
        let version = FileVersion { size, mtime: time()?, ctime: time()? };
        let met = u16::from_le_bytes(take(&mut left)?);
        let digest = match take(&mut left)? {
            [0] => FileDigest::Blake3(take(&mut left)?),
            [1] => FileDigest::SparseMap(take(&mut left)?),
            _ => return None,
        };
        Some((numbers, KnownDigest { version, met, digest }))
    }
}

/// Appends an entry of [`ENTRY`] bytes.
fn encode_entry(out: &mut Vec<u8>, FileNumbers { device, inode }: FileNumbers, known: &KnownDigest) {
    let FileVersion { size, mtime, ctime } = known.version;
    [device, inode, size].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    for (seconds, nanos) in [mtime, ctime] {
        out.extend_from_slice(&seconds.to_le_bytes());
        out.extend_from_slice(&nanos.to_le_bytes());
    }
    out.extend_from_slice(&known.met.to_le_bytes());
    let (kind, digest) = match known.digest {
        FileDigest::Blake3(digest) => (0, digest),
        FileDigest::SparseMap(digest) => (1, digest),
    };
    out.push(kind);
    out.extend_from_slice(&digest);
}

/// Takes the first `N` bytes; `None` if there are fewer.
fn take<const N: usize>(left: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = left.split_first_chunk()?;
    *left = rest;
    Some(*taken)
}

/// Check value of the bytes of a cache file before it.
fn check(bytes: &[u8]) -> [u8; CHECK_LENGTH] {
    blake3::derive_key(CONTEXT, bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    fn numbers(inode: u64) -> FileNumbers {
        FileNumbers { device: 7, inode }
    }

    fn known(size: u64, met: u16) -> KnownDigest {
        let version = FileVersion { size, mtime: (-5, 6), ctime: (1 << 33, 999_999_999) };
        let digest = if size.is_multiple_of(2) { FileDigest::Blake3([3; 32]) } else { FileDigest::SparseMap([4; 32]) };
        KnownDigest { version, met, digest }
    }

    fn digests(entries: impl IntoIterator<Item = (u64, KnownDigest)>, today: u16) -> Digests {
        let newer = entries.into_iter().map(|(inode, known)| (numbers(inode), known)).collect();
        Digests::default().with(&newer, today)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let written = digests([(9, known(1, 50)), (2, known(2, 51)), (u64::MAX, known(3, 52))], 60);
        let read = Digests::parse(written.encode()).unwrap();
        assert_eq!(read, written);
        assert_eq!([2, 9, u64::MAX].map(|inode| read.get(numbers(inode)).unwrap().version.size), [2, 1, 3]);
        assert_eq!((read.get(numbers(9)), read.get(numbers(3))), (Some(known(1, 50)), None));
        assert_eq!(read.get(FileNumbers { device: 8, inode: 9 }), None);
        assert_eq!(Digests::parse(Digests::default().encode()), Some(Digests::default()));
    }

    #[test]
    fn no_damaged_file_is_believed() {
        let whole = digests((0..5).map(|inode| (inode, known(inode, 1))), 1).encode();
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 0x10;
            assert_eq!(Digests::parse(damaged), None, "{position}");
            assert_eq!(Digests::parse(whole[..position].to_vec()), None, "{position}");
        }
        assert_eq!(Digests::parse([whole.as_slice(), &[0]].concat()), None);
    }

    #[test]
    fn entries_in_another_order_or_twice_are_not_believed() {
        let of = |inode| {
            let mut bytes = Vec::new();
            encode_entry(&mut bytes, numbers(inode), &known(inode, 1));
            bytes
        };
        for (order, is_one) in [([1, 2], true), ([2, 1], false), ([1, 1], false)] {
            let file = Digests { entries: order.map(of).concat() }.encode();
            assert_eq!(Digests::parse(file).is_some(), is_one, "{order:?}");
        }
    }

    #[test]
    fn what_is_not_met_for_long_leaves_and_newer_entries_take_the_place_of_older_ones() {
        let first = digests([(1, known(1, 100)), (2, known(2, 100)), (3, known(3, 20))], 100);
        assert_eq!(first.len(), 3);
        let next = BTreeMap::from([(numbers(2), known(22, 150))]);
        let later = first.with(&next, 100 + DAYS_KEPT);
        assert_eq!((later.len(), later.get(numbers(3))), (2, None));
        assert_eq!(later.get(numbers(2)), Some(known(22, 150)));
        assert_eq!(later.with(&BTreeMap::new(), 101 + DAYS_KEPT).len(), 1);
        // From a clock that was ahead.
        assert_eq!(digests([(1, known(1, 60_000))], 30).get(numbers(1)), Some(known(1, 30)));
        assert!(!known(1, 30).is_to_be_noted(36) && known(1, 30).is_to_be_noted(37));
    }

    #[test]
    fn a_cache_keeps_no_more_than_it_may_and_those_that_were_met_last() {
        let most = MAX_ENTRIES as u64;
        let met = |inode| if inode % 2 == 0 { 9 } else { 10 };
        let full = digests((0..most + 1000).map(|inode| (inode, known(inode, met(inode)))), 10);
        assert_eq!((full.len(), full.encode().len()), (MAX_ENTRIES, MAX_LENGTH));
        let kept = |inode| full.get(numbers(inode)).is_some();
        assert!(kept(most + 999) && kept(0) && !kept(most + 998));
        assert_eq!(Digests::parse(full.encode()), Some(full));
    }
}
