//! Journal of a whole unfinished run: published items, and locations of unfinished files.
//!
//! ```text
//! header (one slot)                         record (one or more slots of 64 bytes)
//! ┌───────────┬────────┬────────┬───┬─────┐ ┌───────┬─────┬────────┬──────────────┬────┐
//! │ "icdcrun" │ format │ job    │ 0 │check│ │ check │ tag │ length │ body         │ 0… │ …
//! │ NUL       │ u32 LE │ 32     │   │ 8   │ │ 8     │ 1   │ u16 LE │ length bytes │    │
//! └───────────┴────────┴────────┴───┴─────┘ └───────┴─────┴────────┴──────────────┴────┘
//! published 1: item key 16, kind of digest 1 (0 BLAKE3, 1 sparse map), digest 32
//! staged    2: staging name 8, path of its directory
//! released  3: staging name 8
//! session   4: id of the run whose session writes what follows 16
//! snapshot  5: seconds since 1970 of its name 8, device number 8, inode number 8
//! key   = BLAKE3 derive_key of the header's first 56 bytes
//! check = first 8 bytes of BLAKE3, keyed by it, of the rest of the header, or of the record with its padding
//! ```
//!
//! A damaged record is lost alone: the next one is looked for at the next slot. The memory of a run
//! is bounded: [`MAX_REMEMBERED`] published items, the first ones, 50 bytes each, and
//! [`MAX_REMEMBERED_PATHS`] bytes of directory paths. Whatever is forgotten is done again.

use std::collections::HashMap;

use crate::limits::{MAX_PATH, MAX_REMEMBERED, MAX_REMEMBERED_PATHS};
use crate::message::{Digest, FileDigest, SnapshotTime, TransferId};
use crate::seal::{CHECK_LENGTH, Seal};

/// First bytes of the journal of a run.
const MAGIC: &[u8; 8] = b"icdcrun\0";
/// Version of the journal's encoding.
const FORMAT: u32 = 1;
/// Context from which the key of the journal's check values is derived.
const CONTEXT: &str = "icdc 1 run journal";
/// Length of the header without its check value, in bytes.
const FIELDS_LENGTH: usize = SLOT_LENGTH - CHECK_LENGTH;
/// Offset of a record's body, in bytes: behind check value, tag and length.
const BODY_START: usize = CHECK_LENGTH + 1 + 2;
/// Length of the longest record in bytes, its padding included.
const LONGEST_RECORD: usize = (BODY_START + 8 + MAX_PATH).next_multiple_of(SLOT_LENGTH);
/// Number of items by which the list of published ones grows, so that it never holds much more than
/// it needs.
const GROWTH: usize = 16 << 10;

/// Unit of a journal's length in bytes: the header takes one slot, a record one or more.
pub const SLOT_LENGTH: usize = 64;

/// Name of an item in the journal of a run: a digest of its path, its source's version and its time
/// at the destination, made by [`item_key`].
pub type ItemKey = [u8; 16];

/// The part of a staging name that differs from one unfinished file to another.
pub type StagingId = [u8; 8];

/// Key of the item at `path` below the destination whose source is in state `version`, and which
/// shows the time of modification `shown` there: seconds since 1970, and nanoseconds. With the time
/// in the key, a file that was changed since is not found, whatever precision the file system has.
#[must_use]
pub fn item_key(path: &[u8], version: &[u8; 16], shown: (i64, u32)) -> ItemKey {
    let mut hasher = blake3::Hasher::new_derive_key("icdc 2 item of a run");
    hasher.update(version).update(&shown.0.to_le_bytes()).update(&shown.1.to_le_bytes()).update(path);
    let [key, _] = *hasher.finalize().as_bytes().as_chunks::<16>().0 else {
        unreachable!("a digest has 32 bytes");
    };
    key
}

/// A record of a run's journal: an item was published, an unfinished file made or gone, a session
/// begun, or a snapshot named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A file is published under its final name, and durable.
    Published {
        /// Key of the item.
        key: ItemKey,
        /// Digest of the file's contents.
        digest: FileDigest,
    },
    /// An unfinished file is about to be made.
    Staged {
        /// Variable part of its staging name.
        staging: StagingId,
        /// Path of its directory below the destination.
        directory: &'a [u8],
    },
    /// An unfinished file has gone: published or removed.
    Released {
        /// Variable part of its staging name.
        staging: StagingId,
    },
    /// A session begins; the records that follow belong to it.
    Session {
        /// Id of the run that the session is part of.
        transfer: TransferId,
    },
    /// The unfinished snapshot, which is complete, is about to get its name.
    Snapshot(NamedSnapshot),
}

/// A complete snapshot by its name and the directory that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedSnapshot {
    /// Time that it is named by.
    pub time: SnapshotTime,
    /// Device number of the directory.
    pub device: u64,
    /// Inode number of the directory.
    pub inode: u64,
}

/// Encoder and decoder of the journal of one run.
#[derive(Clone, Debug)]
pub struct RunJournal {
    header: [u8; SLOT_LENGTH],
    seal: Seal,
}

/// Contents of the journal of an unfinished run: published items, unfinished files that may exist,
/// and where the journal is continued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The items that were published.
    pub published: Published,
    /// Unfinished files that may exist, by staging name, with the paths of their directories.
    pub staged: HashMap<StagingId, Vec<u8>>,
    /// Length in bytes up to the end of the last good record, at which the journal is cut before it
    /// is continued. 0 if it is useless and must be created anew.
    pub valid_length: u64,
    /// Number of good records that were dropped because a limit was reached.
    pub forgotten: u64,
    /// Id of the run that the last session belongs to; `None` if the journal has no session.
    pub last_run: Option<TransferId>,
    /// The snapshot to which that run has given a name, or was about to.
    pub snapshot: Option<NamedSnapshot>,
}

/// Items that the journal of an unfinished run names as published, by key, with the digests of
/// their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The items with their digests, and whether the last run has published them; sorted by key
    /// once the journal is read.
    items: Vec<(ItemKey, FileDigest, bool)>,
}

impl Published {
    /// The digest under which the item was published; `None` if it was not.
    #[must_use]
    pub fn get(&self, key: &ItemKey) -> Option<FileDigest> {
        self.find(key).map(|(_, digest, _)| *digest)
    }

    /// Whether the run of the last session published the item.
    #[must_use]
    pub fn is_of_last_run(&self, key: &ItemKey) -> bool {
        self.find(key).is_some_and(|(_, _, last)| *last)
    }

    /// The item of this key, its digest, and whether the last run published it; `None` if it is not
    /// there.
    fn find(&self, key: &ItemKey) -> Option<&(ItemKey, FileDigest, bool)> {
        let place = self.items.binary_search_by_key(&key, |(key, ..)| key).ok()?;
        self.items.get(place)
    }

    /// Number of published items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no item was published.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl RunJournal {
    /// The journal of the run of `job`, the digest that identifies sources and destination.
    #[must_use]
    pub fn new(job: &Digest) -> Self {
        let mut header = [0; SLOT_LENGTH];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        header[12..44].copy_from_slice(job);
        let seal = Seal::new(CONTEXT, &header[..FIELDS_LENGTH]);
        let check = seal.check(&header[..FIELDS_LENGTH]);
        header[FIELDS_LENGTH..].copy_from_slice(&check);
        Self { header, seal }
    }

    /// The first [`SLOT_LENGTH`] bytes of the journal.
    #[must_use]
    pub fn header(&self) -> &[u8; SLOT_LENGTH] {
        &self.header
    }

    /// Appends a record to `out`: a multiple of [`SLOT_LENGTH`] bytes.
    ///
    /// A staged file in a directory whose path is longer than [`MAX_PATH`] is not recorded.
    pub fn encode(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; BODY_START]);
        let tag = match record {
            Record::Published { key, digest } => {
                out.extend_from_slice(key);
                let (kind, digest) = match digest {
                    FileDigest::Blake3(digest) => (0, digest),
                    FileDigest::SparseMap(digest) => (1, digest),
                };
                out.push(kind);
                out.extend_from_slice(digest);
                1
            }
            Record::Staged { directory, .. } if directory.len() > MAX_PATH => {
                out.truncate(start);
                return;
            }
            Record::Staged { staging, directory } => {
                out.extend_from_slice(staging);
                out.extend_from_slice(directory);
                2
            }
            Record::Released { staging } => {
                out.extend_from_slice(staging);
                3
            }
            Record::Session { transfer } => {
                out.extend_from_slice(transfer);
                4
            }
            Record::Snapshot(NamedSnapshot { time, device, inode }) => {
                [time.seconds(), *device, *inode]
                    .iter()
                    .for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
                5
            }
        };
        let length = (out.len() - start - BODY_START) as u16;
        out.resize(start + (out.len() - start).next_multiple_of(SLOT_LENGTH), 0);
        let written = &mut out[start..];
        written[CHECK_LENGTH] = tag;
        written[CHECK_LENGTH + 1..BODY_START].copy_from_slice(&length.to_le_bytes());
        let check = self.seal.check(&written[CHECK_LENGTH..]);
        written[..CHECK_LENGTH].copy_from_slice(&check);
    }

    /// A reader that decodes a journal of any length piece by piece.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            journal: self,
            pending: Vec::new(),
            position: 0,
            parsed: Parsed::default(),
            path_bytes: 0,
            of_earlier_runs: 0,
        }
    }

    /// Decodes a whole journal.
    #[must_use]
    pub fn parse(&self, bytes: &[u8]) -> Parsed {
        let mut reader = self.reader();
        reader.feed(bytes);
        reader.finish()
    }

    /// The record at the start of `bytes`, with its length in bytes.
    fn parse_record<'a>(&self, bytes: &'a [u8]) -> Found<'a> {
        let Some((start, rest)) = bytes.split_at_checked(BODY_START) else {
            return Found::Short;
        };
        let (check, tag_and_length) = start.split_at(CHECK_LENGTH);
        let &[tag, low, high] = tag_and_length else {
            return Found::Damaged;
        };
        let body_length = usize::from(u16::from_le_bytes([low, high]));
        let length = (BODY_START + body_length).next_multiple_of(SLOT_LENGTH);
        if length > LONGEST_RECORD {
            return Found::Damaged;
        }
        let Some(record) = bytes.get(..length) else {
            return Found::Short;
        };
        if self.seal.check(&record[CHECK_LENGTH..]) != check {
            return Found::Damaged;
        }
        match parse_body(tag, &rest[..body_length]) {
            Some(record) => Found::Record(record, length),
            None => Found::Damaged,
        }
    }
}

/// Result of looking for a record.
enum Found<'a> {
    /// A good record, and its length in bytes.
    Record(Record<'a>, usize),
    /// A damaged record.
    Damaged,
    /// An incomplete record: more bytes are needed.
    Short,
}

/// Decodes the body of a record; `None` if it is malformed.
fn parse_body(tag: u8, body: &[u8]) -> Option<Record<'_>> {
    match tag {
        1 => {
            let (key, rest) = body.split_first_chunk::<16>()?;
            let (kind, digest) = rest.split_first()?;
            let digest = digest.try_into().ok()?;
            let digest = match kind {
                0 => FileDigest::Blake3(digest),
                1 => FileDigest::SparseMap(digest),
                _ => return None,
            };
            Some(Record::Published { key: *key, digest })
        }
        2 => {
            let (staging, directory) = body.split_first_chunk::<8>()?;
            Some(Record::Staged { staging: *staging, directory })
        }
        3 => Some(Record::Released { staging: body.try_into().ok()? }),
        4 => Some(Record::Session { transfer: body.try_into().ok()? }),
        5 => {
            let (numbers, rest) = body.as_chunks::<8>();
            let [seconds, device, inode] = <[[u8; 8]; 3]>::try_from(numbers).ok()?.map(u64::from_le_bytes);
            let time = SnapshotTime::new(seconds).filter(|_| rest.is_empty())?;
            Some(Record::Snapshot(NamedSnapshot { time, device, inode }))
        }
        _ => None,
    }
}

/// A journal that is being read.
#[derive(Debug)]
pub struct Reader<'a> {
    journal: &'a RunJournal,
    /// Bytes that are not decoded yet: less than the longest record.
    pending: Vec<u8>,
    /// Position in the journal at which `pending` starts.
    position: u64,
    parsed: Parsed,
    path_bytes: usize,
    /// Number of published items that are not from the last run.
    of_earlier_runs: usize,
}

impl Reader<'_> {
    /// Decodes the next bytes of the journal.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_foreign() {
            let (now, later) = bytes.split_at(bytes.len().min(GROWTH));
            bytes = later;
            let mut pending = std::mem::take(&mut self.pending);
            pending.extend_from_slice(now);
            let used = self.take(&pending, false);
            pending.drain(..used);
            self.pending = pending;
        }
    }

    /// Whether the journal belongs to another run, so that the rest need not be read.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.position > 0 && self.parsed.valid_length == 0
    }

    /// The contents of the journal, once all its bytes are fed.
    #[must_use]
    pub fn finish(mut self) -> Parsed {
        let pending = std::mem::take(&mut self.pending);
        self.take(&pending, true);
        let items = &mut self.parsed.published.items;
        items.iter_mut().skip(self.of_earlier_runs).for_each(|(.., last)| *last = true);
        // Stable, and the last record of an item counts.
        items.sort_by_key(|(key, ..)| *key);
        items.reverse();
        items.dedup_by_key(|(key, ..)| *key);
        items.reverse();
        items.shrink_to_fit();
        self.parsed
    }

    /// Parses the complete records in `bytes`; returns the number of bytes used. At the `end` of
    /// the journal a record that claims to be longer is damaged, and others may follow within the
    /// length that it claims.
    fn take(&mut self, bytes: &[u8], end: bool) -> usize {
        let mut used = 0;
        while !self.is_foreign() {
            let rest = &bytes[used..];
            let Some(slot) = rest.first_chunk::<SLOT_LENGTH>() else {
                break;
            };
            let mut length = SLOT_LENGTH;
            if self.position == 0 {
                if *slot == self.journal.header {
                    self.parsed.valid_length = SLOT_LENGTH as u64;
                }
            } else {
                match self.journal.parse_record(rest) {
                    Found::Record(record, record_length) => {
                        length = record_length;
                        self.remember(&record);
                        self.parsed.valid_length = self.position + length as u64;
                    }
                    Found::Short if !end => break,
                    Found::Short | Found::Damaged => {}
                }
            }
            used += length;
            self.position += length as u64;
        }
        used
    }

    /// Applies a record to the contents, within the limits on memory.
    fn remember(&mut self, record: &Record<'_>) {
        match *record {
            Record::Published { key, digest } => {
                let items = &mut self.parsed.published.items;
                if items.len() == MAX_REMEMBERED {
                    self.parsed.forgotten += 1;
                    return;
                }
                if items.len() == items.capacity() {
                    items.reserve_exact(GROWTH);
                }
                items.push((key, digest, false));
            }
            Record::Session { transfer } => {
                if self.parsed.last_run.replace(transfer) != Some(transfer) {
                    self.of_earlier_runs = self.parsed.published.items.len();
                    self.parsed.snapshot = None;
                }
            }
            Record::Snapshot(named) => self.parsed.snapshot = Some(named),
            Record::Staged { staging, directory } => {
                // What a name costs beside its path is charged as well, or many names without a
                // path would be free.
                let cost = directory.len() + SLOT_LENGTH;
                if self.path_bytes + cost > MAX_REMEMBERED_PATHS {
                    self.parsed.forgotten += 1;
                    return;
                }
                self.path_bytes += cost;
                if let Some(replaced) = self.parsed.staged.insert(staging, directory.to_vec()) {
                    self.path_bytes -= replaced.len() + SLOT_LENGTH;
                }
            }
            Record::Released { staging } => {
                if let Some(directory) = self.parsed.staged.remove(&staging) {
                    self.path_bytes -= directory.len() + SLOT_LENGTH;
                }
            }
        }
    }
}
