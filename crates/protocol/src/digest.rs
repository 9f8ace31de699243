//! Digests of blocks, files, items and trees.
//!
//! BLAKE3 hashes a file as a binary tree over chunks of 1 KiB whose left subtrees hold the largest
//! power of two of chunks that leaves something for the right one. A block of 2^12 chunks at a
//! multiple of its size is therefore a subtree for itself, and with n blocks of values v
//!
//! ```text
//! root(v0)       = v0                                 (one block: v0 is the root already)
//! root(v0 … vn)  = merge_root(left, right)            left: largest power of two < n of the blocks
//! value(…)       = merge(left, right)                 likewise, within
//! ```
//!
//! so blocks can be hashed in parallel, in any order and in different runs, and still give what
//! `b3sum` prints. Source: BLAKE3 paper, section 2.1; `blake3::hazmat`.
//!
//! What has no standard digest (sparse files too large to hash, items, trees) is hashed in BLAKE3's
//! `derive_key` mode under a context of its own; every field has a fixed length or is preceded by
//! its length, so that no two inputs share an encoding.

use std::sync::LazyLock;

use blake3::Hasher;
use blake3::hazmat::{
    ContextKey, HasherExt, Mode, hash_derive_key_context, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::blocks::block_count;
use crate::limits::{BLOCK_SIZE, LEAF_SIZE};
use crate::message::{DeviceNumber, Digest, Entry, EntryKind, FileDigest, Special};

/// Value of the block at `offset` (a multiple of [`BLOCK_SIZE`]) of a file of `file_size` bytes:
/// the chaining value of the block's subtree, or the file's digest if it has no other block.
///
/// `data` is the whole block: [`BLOCK_SIZE`] bytes, fewer only at the end of the file.
///
/// # Panics
/// If `data` is longer than a block or `offset` is not the start of one.
#[must_use]
pub fn block_value(offset: u64, data: &[u8], file_size: u64) -> Digest {
    assert!(data.len() <= BLOCK_SIZE, "a block has at most {BLOCK_SIZE} bytes");
    value_of_pieces(offset, std::iter::once(data), file_size)
}

/// Whether `data` has this value as the block at `offset` of a file whose size is not known: it is the
/// file's digest if the first block is the only one.
#[must_use]
pub fn is_block(offset: u64, data: &[u8], value: &Digest) -> bool {
    if data.is_empty() {
        return false;
    }
    let mut hasher = Hasher::new();
    hasher.set_input_offset(offset);
    hasher.update(data);
    let is_only = || offset == 0 && hasher.finalize().as_bytes() == value;
    hasher.finalize_non_root() == *value || is_only()
}

/// Value of the leaf at `offset` (a multiple of [`LEAF_SIZE`]) of a file with several leaves: the chaining value
/// of its subtree, from which [`block_value_of_leaves`] gives that of its block.
///
/// `leaf` is the whole leaf: [`LEAF_SIZE`] bytes, fewer only at the end of the file.
///
/// # Panics
/// If `leaf` is empty, longer than a leaf, or `offset` is not the start of one.
#[must_use]
pub fn leaf_value(offset: u64, leaf: &[u8]) -> Digest {
    assert!(leaf.len() <= LEAF_SIZE, "a leaf has at most {LEAF_SIZE} bytes");
    assert!(offset.is_multiple_of(LEAF_SIZE as u64), "leaves start at multiples of {LEAF_SIZE}");
    let mut hasher = Hasher::new();
    hasher.set_input_offset(offset);
    hasher.update(leaf).finalize_non_root()
}

/// [`block_value`] of a block of a file of `file_size` bytes from the values of all its leaves, in order; `None` if
/// there are none, or if the file is a single leaf, whose value does not give its digest.
#[must_use]
pub fn block_value_of_leaves(values: &[Digest], file_size: u64) -> Option<Digest> {
    if file_size <= LEAF_SIZE as u64 {
        return None;
    }
    let mut subtrees = Subtrees::default();
    values.iter().for_each(|value| subtrees.push(*value));
    if file_size <= BLOCK_SIZE as u64 { subtrees.root() } else { subtrees.value() }
}

/// [`block_value`] of a block of zeros, which has [`BLOCK_SIZE`] bytes or ends with the file.
///
/// The value depends on the offset, so zeros cost as much to hash as data.
#[must_use]
pub fn zero_block_value(offset: u64, file_size: u64) -> Digest {
    const PIECE: usize = 64 << 10;
    static ZEROS: [u8; PIECE] = [0; PIECE];
    let length = file_size.saturating_sub(offset).min(BLOCK_SIZE as u64) as usize;
    let pieces = (0..length).step_by(PIECE).map(|start| &ZEROS[..PIECE.min(length - start)]);
    value_of_pieces(offset, pieces, file_size)
}

/// [`block_value`] of a block whose data are `pieces`, one after the other.
fn value_of_pieces<'a>(offset: u64, pieces: impl Iterator<Item = &'a [u8]>, file_size: u64) -> Digest {
    assert!(offset.is_multiple_of(BLOCK_SIZE as u64), "blocks start at multiples of {BLOCK_SIZE}");
    let mut hasher = Hasher::new();
    hasher.set_input_offset(offset);
    for piece in pieces {
        hasher.update(piece);
    }
    if file_size <= BLOCK_SIZE as u64 { *hasher.finalize().as_bytes() } else { hasher.finalize_non_root() }
}

/// Digest of a file of `size` bytes from the values of all its blocks, in order; equal to
/// `blake3::hash` of the contents. `None` if there are not as many values as the size has blocks.
#[must_use]
pub fn root(size: u64, values: &[Digest]) -> Option<Digest> {
    let mut hasher = RootHasher::new(size);
    values.iter().for_each(|value| hasher.push(*value));
    hasher.finish()
}

/// Incremental [`root`] for values that arrive one by one, in memory of the order of log(blocks).
#[derive(Clone, Debug)]
pub struct RootHasher {
    blocks: u32,
    subtrees: Subtrees,
}

impl RootHasher {
    /// A hasher for a file of `size` bytes, without any values yet.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { blocks: block_count(size), subtrees: Subtrees::default() }
    }

    /// Sets the file's size, which was not known before.
    pub fn set_size(&mut self, size: u64) {
        self.blocks = block_count(size);
    }

    /// Adds the value of the next block.
    pub fn push(&mut self, value: Digest) {
        self.subtrees.push(value);
    }

    /// The file's digest; `None` unless as many values were added as the file has blocks.
    #[must_use]
    pub fn finish(self) -> Option<Digest> {
        if self.subtrees.pushed != u64::from(self.blocks) {
            return None;
        }
        if self.blocks == 0 {
            return Some(*blake3::hash(b"").as_bytes());
        }
        self.subtrees.root()
    }
}

/// Subtrees of equal length whose values are merged as they come.
#[derive(Clone, Debug, Default)]
struct Subtrees {
    pushed: u64,
    /// Values of complete subtrees, from large (left) to small (right).
    values: Vec<Digest>,
}

impl Subtrees {
    /// Adds the value of the next subtree.
    fn push(&mut self, value: Digest) {
        // Equal subtrees are merged only once something follows them: the last merge may be the root's.
        while self.values.len() > self.pushed.count_ones() as usize {
            self.merge_last(merge_subtrees_non_root);
        }
        self.values.push(value);
        self.pushed += 1;
    }

    /// Value of the root above all of them, or of the only one; `None` without any.
    fn root(mut self) -> Option<Digest> {
        self.merge_down_to(2);
        if self.values.len() == 2 {
            self.merge_last(|left, right, mode| *merge_subtrees_root(left, right, mode).as_bytes());
        }
        self.values.pop()
    }

    /// Value of the subtree above all of them, or of the only one; `None` without any.
    fn value(mut self) -> Option<Digest> {
        self.merge_down_to(1);
        self.values.pop()
    }

    /// Merges the last subtrees until there are this many.
    fn merge_down_to(&mut self, count: usize) {
        while self.values.len() > count {
            self.merge_last(merge_subtrees_non_root);
        }
    }

    /// Replaces the last two subtrees by the one above them, whose value `merge` computes.
    fn merge_last(&mut self, merge: impl FnOnce(&Digest, &Digest, Mode<'_>) -> Digest) {
        if let (Some(right), Some(left)) = (self.values.pop(), self.values.pop()) {
            self.values.push(merge(&left, &right, Mode::Hash));
        }
    }
}

/// Digest of a sparse file by its size and the blocks that hold data, (index, value) in ascending
/// order: for files whose zeros are too many to hash.
#[must_use]
pub fn sparse_map(size: u64, blocks: impl IntoIterator<Item = (u32, Digest)>) -> Digest {
    static KEY: LazyLock<ContextKey> = LazyLock::new(|| hash_derive_key_context("icdc 1 digest of a sparse map"));
    let mut hasher = Hasher::new_from_context_key(&KEY);
    hasher.update(&size.to_le_bytes());
    for (index, value) in blocks {
        hasher.update(&index.to_le_bytes()).update(&value);
    }
    finish(&hasher)
}

/// Digest that identifies a name to which hard links refer, made of its path below the destination.
#[must_use]
pub fn first_name(path: &[u8]) -> Digest {
    static KEY: LazyLock<ContextKey> = LazyLock::new(|| hash_derive_key_context("icdc 1 digest of a first name"));
    finish(Hasher::new_from_context_key(&KEY).update(path))
}

/// Digest of one item: its path below the destination, everything about it that is preserved, the
/// digest of its contents if it is a regular file, and the [`first_name`] of a hard link.
///
/// Properties that differ between equal trees are left out: the source file's version, the
/// positions of its holes, the numbers of entries.
#[must_use]
pub fn item(path: &[u8], entry: &Entry, first: Option<&Digest>, contents: Option<&FileDigest>) -> Digest {
    static KEY: LazyLock<ContextKey> = LazyLock::new(|| hash_derive_key_context("icdc 1 digest of an item"));
    let mut hasher = Hasher::new_from_context_key(&KEY);
    field(&mut hasher, path);
    match &entry.kind {
        EntryKind::File { size, .. } => {
            hasher.update(b"f").update(&size.to_le_bytes());
        }
        EntryKind::Directory => {
            hasher.update(b"d");
        }
        EntryKind::Stream => {
            hasher.update(b"-");
        }
        EntryKind::Symlink { target } => field(hasher.update(b"l"), target),
        EntryKind::HardLink { .. } => {
            hasher.update(b"h").update(first.unwrap_or(&[0; 32]));
        }
        EntryKind::Special(special) => {
            let kind = match special {
                Special::Pipe => b"p",
                Special::Socket => b"s",
                Special::BlockDevice(_) => b"B",
                Special::CharacterDevice(_) => b"C",
            };
            hasher.update(kind);
            if let Some(DeviceNumber { major, minor }) = special.device() {
                hasher.update(&major.to_le_bytes()).update(&minor.to_le_bytes());
            }
        }
    }
    hasher
        .update(&entry.mode.to_le_bytes())
        .update(&entry.mtime_seconds.to_le_bytes())
        .update(&entry.mtime_nanos.to_le_bytes());
    match entry.owner {
        Some((user, group)) => hasher.update(b"o").update(&user.to_le_bytes()).update(&group.to_le_bytes()),
        None => hasher.update(b"-"),
    };
    hasher.update(&(entry.xattrs.len() as u64).to_le_bytes());
    for (name, value) in &entry.xattrs {
        field(&mut hasher, name);
        field(&mut hasher, value);
    }
    match contents {
        Some(FileDigest::Blake3(digest)) => hasher.update(b"b").update(digest),
        Some(FileDigest::SparseMap(digest)) => hasher.update(b"s").update(digest),
        None => hasher.update(b"-"),
    };
    finish(&hasher)
}

/// Digest of a tree: a hash over its items' digests in scan order.
#[derive(Clone, Debug)]
pub struct TreeHasher(Hasher);

impl TreeHasher {
    /// A hasher that has no items yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Hasher::new_derive_key("icdc 1 digest of a tree"))
    }

    /// Adds the digest of the next item, as given by [`item`].
    pub fn push(&mut self, item: &Digest) {
        self.0.update(item);
    }

    /// The tree's digest so far.
    #[must_use]
    pub fn finish(&self) -> Digest {
        finish(&self.0)
    }
}

impl Default for TreeHasher {
    fn default() -> Self {
        Self::new()
    }
}

/// Hashes a field of any length, preceded by its length.
fn field(hasher: &mut Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
}

fn finish(hasher: &Hasher) -> Digest {
    *hasher.finalize().as_bytes()
}
