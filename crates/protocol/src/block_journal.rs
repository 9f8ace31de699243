//! Journal of the durable blocks of one unfinished file, kept beside it.
//!
//! ```text
//! header (76 bytes)                                            record (44 bytes), any number
//! ┌───────────┬────────┬─────────┬────────┬───────────┬───────┐ ┌─────────┬───────────┬───────┐
//! │ "icdcblk" │ format │ version │ size   │ path hash │ check │ │ block # │ its value │ check │ …
//! │ NUL       │ u32 LE │ 16      │ u64 LE │ 32        │ 8     │ │ u32 LE  │ 32        │ 8     │
//! └───────────┴────────┴─────────┴────────┴───────────┴───────┘ └─────────┴───────────┴───────┘
//! key   = BLAKE3 derive_key of the header's first 68 bytes
//! check = first 8 bytes of BLAKE3, keyed by it, of what precedes it in the header or record
//! ```
//!
//! so that a record of another file, or of another version of this one, never counts.
//!
//! A record is appended after its block is durable. A run that is killed leaves at worst a torn
//! record at the end; a machine that fails may leave anything. Records have fixed positions, so
//! that a damaged one is skipped and those after it still count. The last of several records of one
//! block counts. The journal is a hint that saves work: the file's digest is verified in any case.

use crate::block_map::BlockMap;
use crate::blocks::block_count;
use crate::message::Digest;
use crate::seal::{CHECK_LENGTH, Seal};

/// First bytes of a journal of blocks.
const MAGIC: &[u8; 8] = b"icdcblk\0";
/// Version of the journal's encoding.
const FORMAT: u32 = 1;
/// Context from which the key of the journal's check values is derived.
const CONTEXT: &str = "icdc 1 block journal";
/// Length of the header without its check value, in bytes.
const FIELDS_LENGTH: usize = 8 + 4 + 16 + 8 + 32;
/// Length of a record without its check value, in bytes.
const BODY_LENGTH: usize = 4 + 32;

/// Length of the header in bytes.
pub const HEADER_LENGTH: usize = FIELDS_LENGTH + CHECK_LENGTH;
/// Length of a record in bytes.
pub const RECORD_LENGTH: usize = BODY_LENGTH + CHECK_LENGTH;

/// Header: the source file that a journal belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Digest of the source file's state, as in its announced entry.
    pub version: [u8; 16],
    /// Size of the file in bytes.
    pub size: u64,
    /// Hash of the path of the destination and of whatever else must be equal for the partial file
    /// to be of use.
    pub path: Digest,
}

/// Encoder and decoder of the journal of one file.
#[derive(Clone, Debug)]
pub struct BlockJournal {
    size: u64,
    header: [u8; HEADER_LENGTH],
    seal: Seal,
}

/// Contents of a journal of blocks: what is durable of the unfinished file, and where the journal
/// is continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The durable blocks of the file, with their digests.
    pub blocks: BlockMap,
    /// Length in bytes up to the end of the last good record, at which the journal is cut before it
    /// is continued. 0 if it is useless and must be created anew.
    pub valid_length: u64,
    /// Number of records that were damaged, apart from those that are cut.
    pub damaged: u64,
}

impl BlockJournal {
    /// The journal of the file that `header` describes.
    #[must_use]
    pub fn new(header: &Header) -> Self {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..28].copy_from_slice(&header.version);
        bytes[28..36].copy_from_slice(&header.size.to_le_bytes());
        bytes[36..FIELDS_LENGTH].copy_from_slice(&header.path);
        let seal = Seal::new(CONTEXT, &bytes[..FIELDS_LENGTH]);
        let check = seal.check(&bytes[..FIELDS_LENGTH]);
        bytes[FIELDS_LENGTH..].copy_from_slice(&check);
        Self { size: header.size, header: bytes, seal }
    }

    /// The first [`HEADER_LENGTH`] bytes of the journal.
    #[must_use]
    pub fn header(&self) -> &[u8; HEADER_LENGTH] {
        &self.header
    }

    /// The encoded record of a durable block.
    #[must_use]
    pub fn record(&self, index: u32, value: &Digest) -> [u8; RECORD_LENGTH] {
        let mut record = [0; RECORD_LENGTH];
        record[..4].copy_from_slice(&index.to_le_bytes());
        record[4..BODY_LENGTH].copy_from_slice(value);
        let check = self.seal.check(&record[..BODY_LENGTH]);
        record[BODY_LENGTH..].copy_from_slice(&check);
        record
    }

    /// Length in bytes beyond which a journal of this file need not be read: twice the records of
    /// all blocks.
    #[must_use]
    pub fn longest(&self) -> u64 {
        HEADER_LENGTH as u64 + 2 * u64::from(block_count(self.size)) * RECORD_LENGTH as u64
    }

    /// A reader that decodes a journal of any length piece by piece.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            journal: self,
            blocks: BlockMap::new(self.size),
            pending: Vec::with_capacity(HEADER_LENGTH),
            position: 0,
            valid_length: 0,
            skipped: 0,
            damaged: 0,
        }
    }

    /// Decodes a whole journal.
    #[must_use]
    pub fn parse(&self, bytes: &[u8]) -> Parsed {
        let mut reader = self.reader();
        reader.feed(bytes);
        reader.finish()
    }

    /// The block number and digest in a record; `None` if the record is damaged.
    fn parse_record(&self, record: &[u8]) -> Option<(u32, Digest)> {
        let (body, check) = record.split_at_checked(BODY_LENGTH)?;
        let (index, value) = body.split_first_chunk::<4>()?;
        let authentic = self.seal.check(body) == check;
        authentic.then_some((u32::from_le_bytes(*index), value.try_into().ok()?))
    }
}

/// A journal that is being read; memory is bounded by the blocks that it names.
#[derive(Debug)]
pub struct Reader<'a> {
    journal: &'a BlockJournal,
    blocks: BlockMap,
    /// The beginning of a header or record that has not arrived completely.
    pending: Vec<u8>,
    /// Position in the journal at which `pending` starts.
    position: u64,
    valid_length: u64,
    /// Number of damaged records since the last good one.
    skipped: u64,
    damaged: u64,
}

impl Reader<'_> {
    /// Decodes the next bytes of the journal.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_foreign() {
            let wanted = if self.position == 0 { HEADER_LENGTH } else { RECORD_LENGTH };
            let (now, later) = bytes.split_at(bytes.len().min(wanted - self.pending.len()));
            self.pending.extend_from_slice(now);
            bytes = later;
            if self.pending.len() == wanted {
                self.take_pending();
            }
        }
    }

    /// Whether the journal belongs to another file, so that the rest need not be read.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.position > 0 && self.valid_length == 0
    }

    /// The contents of the journal, once all its bytes are fed.
    #[must_use]
    pub fn finish(self) -> Parsed {
        Parsed { blocks: self.blocks, valid_length: self.valid_length, damaged: self.damaged }
    }

    /// Decodes the complete header or record in `pending`.
    fn take_pending(&mut self) {
        let end = self.position + self.pending.len() as u64;
        let good = if self.position == 0 {
            self.pending == self.journal.header
        } else {
            let record = self.journal.parse_record(&self.pending);
            record.is_some_and(|(index, value)| self.blocks.insert(index, value).is_ok())
        };
        if good {
            self.valid_length = end;
            self.damaged += std::mem::take(&mut self.skipped);
        } else {
            self.skipped += 1;
        }
        self.position = end;
        self.pending.clear();
    }
}
