//! State of the destination that concerns one item, as the decision about it asks for it.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::{CandidatePlace, EntryId, FileDigest, Special};
use icdc_protocol::run_journal::ItemKey;
use icdc_units::ByteCount;

use super::super::item::ModificationTime;
use crate::Failure;

/// State of the destination that concerns one item, read only when it is needed.
pub trait Facts {
    /// Attributes of the file that has the item's name, without following a symbolic link; `None`
    /// if there is none or it cannot be read.
    fn stat(&mut self) -> Option<Stat>;

    /// The modification time that a file in the item's directory shows once it was set to `wanted`,
    /// as the file system rounds it.
    fn shown_time(&mut self, wanted: ModificationTime) -> ModificationTime;

    /// Target of the symbolic link that has the item's name; `None` if there is none.
    fn link_target(&mut self) -> Option<Vec<u8>>;

    /// Named pipe, socket or device that has the item's name; `None` if there is none.
    fn special(&mut self) -> Option<Special>;

    /// Size of the block device that is the destination; `None` where files are written.
    fn device(&self) -> Option<ByteCount> {
        None
    }

    /// The item's name as the user would write it at the destination, for messages.
    fn shown(&self) -> String;

    /// Digest of the item in the run's journal, if it was published before this session, and the
    /// run that published it.
    fn published(&mut self, key: &ItemKey) -> Option<(FileDigest, PublishedBy)>;

    /// Maps of durable blocks from journals about this version of the source that have no
    /// unfinished file.
    fn journals_without_part(&mut self) -> Vec<BlockMap>;

    /// Takes the unfinished file that an earlier run left, if its journal is about this version of
    /// the source; waits for another process that still writes it. Gives the blocks that are
    /// durable according to the journal.
    ///
    /// With `cleared`, everything else in it reads as zero from then on; `None` if that is
    /// impossible.
    ///
    /// # Errors
    /// If another process continues to write it.
    fn claim_part(&mut self, cleared: bool) -> Result<Option<BlockMap>, Failure>;

    /// Whether an interrupted run has left the file that has the item's name with parts of its old and of
    /// its new contents, as it was written at its place.
    fn is_torn(&mut self) -> bool {
        false
    }

    /// Checks that the file that has the item's name may be written at its place, waits for another process
    /// that does so, and gives the blocks that an earlier run has made durable in it, if its journal is about
    /// this version of the source; only checks with `is_dry`.
    ///
    /// # Errors
    /// It may not be written at its place, or another process continues to write it.
    fn claim_in_place(&mut self, is_dry: bool) -> Result<Option<BlockMap>, Failure> {
        let _ = is_dry;
        Err(format!("{}: cannot be written in place", self.shown()).into())
    }

    /// Takes the unfinished stream that an earlier session left, if the sender continues it, and gives its
    /// leading blocks up to the place where the sender begins; `None` if it begins a new one.
    ///
    /// # Errors
    /// If another process continues to write it, or it does not have all these blocks.
    fn claim_stream(&mut self) -> Result<Option<BlockMap>, Failure> {
        Ok(None)
    }

    /// Durable blocks of an unfinished file that [`claim_part`](Self::claim_part) has waited for
    /// and that is gone, by its journal, if that was about this version of the source.
    fn ended_part(&mut self) -> Option<BlockMap>;

    /// Number of reference directories.
    fn references(&self) -> usize;

    /// Attributes of the item's counterpart in the reference directory of this number, without
    /// following symbolic links; `None` if there is none or it cannot be read.
    fn reference(&mut self, number: usize) -> Option<Stat>;

    /// Whether a regular file, the item's counterpart in the reference directory of this number or,
    /// with `None`, the file that has the item's name, has the item's extended attributes and no
    /// others that are copied; false if they cannot be read.
    fn has_xattrs(&mut self, reference: Option<usize>) -> bool;

    /// Whether the file that has the item's name has the name of the file `first`, too, and that was
    /// found with its contents and attributes and is left alone.
    fn is_further_name(&mut self, first: EntryId) -> bool;

    /// Whether the file that has the item's name is the one whose contents were compared, unchanged.
    fn is_as_compared(&mut self) -> bool;

    /// Numeric id of the user to whom new files belong.
    fn user(&self) -> u32;

    /// Whether both ends can put a file together from another one, and this end's files may be
    /// described to the other.
    fn describes_files(&self) -> bool;

    /// Whether both ends find content that has moved.
    fn finds_moved(&self) -> bool {
        false
    }

    /// Whether a file that the user has named, or a counterpart in a directory that the user has named, may
    /// have content of the item.
    fn has_named_basis(&mut self) -> bool {
        false
    }

    /// Files of the destination with the item's size and modification time, which is rounded as the
    /// file system does it; only for an item whose name nothing has.
    fn candidates(&mut self) -> Lookup;
}

/// Outcome of looking for a file that may have become an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is not known yet which files the destination has.
    Unknown,
    /// There are none.
    Nothing,
    /// There are these, at most [`MAX_CANDIDATES`](icdc_protocol::limits::MAX_CANDIDATES).
    Found(Vec<CandidatePlace>),
}

/// Attributes of a file at the destination, or in a reference directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Type of the file.
    pub kind: Kind,
    /// Length of the file.
    pub size: ByteCount,
    /// Modification time of the file.
    pub mtime: ModificationTime,
    /// Permission bits of the file.
    pub mode: u16,
    /// Numeric owner and group of the file.
    pub owner: (u32, u32),
    /// Number of names (hard links) of the file.
    pub names: u64,
}

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, a named pipe or a socket, as it is called.
    Other(&'static str),
}

/// The run that has published an item, in relation to the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedBy {
    /// The present one, in this session or before a cut.
    ThisRun,
    /// A run that was interrupted; the item may have been changed since.
    AnEarlierRun,
}
