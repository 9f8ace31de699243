//! Jobs that the threads of a receiving session queue for each other.

use crossbeam_channel::Sender as Channel;
use icdc_disk::tree::Stat;
use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::{Assembled, BlockHeader, EntryId, FileDigest, ItemEnd, Message, PackItem, Streamed};
use icdc_units::ByteCount;

use super::candidates::{Candidates, Location, Search};
use super::disk_rate::Arrived;
use super::expanding::{Expanding, Frame};
use super::failure::Failure;
use super::large_file::{Gaps, Plan};
use super::publishing::Made;
use super::references::CopyJob;

/// Work for the thread that handles file names.
pub(super) enum NameJob {
    /// A message from the sender.
    Message(Message),
    /// A pack of small files: its items, and their contents back to back.
    Pack(Vec<PackItem>, Option<Arrived>),
    /// A large file is complete under its staging name.
    Stored {
        id: EntryId,
        made: Made,
        digest: FileDigest,
        /// Length and time of a stream; `None` for a file.
        streamed: Option<Streamed>,
    },
    /// A file that an earlier run has published was read and compared.
    Compared {
        id: EntryId,
        /// Whether the file still has the digest under which it was published.
        same: bool,
    },
    /// A file was copied from a reference directory; `None` if that was not possible.
    Referred { id: EntryId, made: Option<Made> },
    /// The files of the destination that may have been renamed.
    Candidates(Candidates),
    /// A large file is to be opened before its first block arrives.
    Open(EntryId),
    /// Receiving a large file was given up.
    Lost { id: EntryId, failure: Failure },
}

/// Work for the receiver's hashing threads: blocks to check, blocks to put together, and ends of
/// files.
pub(super) enum HashJob {
    /// A block whose digest is to be checked, once it is expanded if it came as a frame.
    Block { header: BlockHeader, payload: Option<Arrived>, frame: Option<Frame> },
    /// A block that is to be put together from the file that is replaced and from what differs, once
    /// that is expanded if it came as a frame.
    Difference { header: BlockHeader, payload: Arrived, frame: Option<Frame> },
    /// A block that is to be put together from files at the destination and from the rest of its data, once
    /// that is expanded if it came as a frame. `payload` is a block of this length with that data.
    Assembled { assembled: Assembled, payload: Arrived, sent: usize, frame: Option<Frame> },
    /// A pack of small files to be expanded, for the thread that handles file names.
    Pack(Vec<PackItem>, Arrived, Frame),
    /// No more blocks of a file will come, or it is given up.
    End(ItemEnd),
    /// The sender has answered a `Ready`.
    Confirmed,
}

/// Work for the thread that stores large files on disk.
pub(super) enum StoreJob {
    /// A file whose blocks will come, except for those that are `held` already.
    Expect { plan: Box<Plan>, held: Option<BlockMap> },
    /// A file that is expected is to be opened before its first block arrives.
    Open(EntryId),
    /// A block to be written, whose digest was right.
    Block { header: BlockHeader, block: Arrived, gaps: Gaps },
    /// A block that cannot be put together, because the file that is replaced has changed.
    Outdated { id: EntryId, index: u32 },
    /// No more blocks of a file will come, or the file is given up.
    End(ItemEnd),
    /// The sender has answered a `Ready`.
    Confirmed,
}

/// Work for the thread that reads files at the destination.
pub(super) enum DiskJob {
    /// A file is to be compared with a digest.
    Compare(CompareJob),
    /// A file is to be copied from a reference directory, or from one that had another name.
    Copy(Box<CopyJob>),
    /// The files of the destination are to be found that may have been renamed.
    Find(Search),
    /// Files are to be compared with those that they replace, as far as that is possible now.
    Describe,
}

impl HashJob {
    /// Expands the payload, if it came as a frame; the error is a sentence about it.
    pub(super) fn expand(&mut self, expanding: &Expanding) -> Result<(), String> {
        let (header, payload, frame) = match self {
            Self::Block { header, payload: Some(payload), frame: Some(frame) }
            | Self::Difference { header, payload, frame: Some(frame) } => (Some(&*header), payload, frame),
            Self::Assembled { assembled, payload, frame: Some(frame), .. } => (Some(&assembled.header), payload, frame),
            Self::Pack(_, payload, frame) => (None, payload, frame),
            Self::Block { .. } | Self::Difference { .. } | Self::Assembled { .. } | Self::End(_) | Self::Confirmed => {
                return Ok(());
            }
        };
        expanding.expand(&mut payload.block, *frame).map_err(|error| match header {
            Some(header) => format!("block {} of item {} cannot be expanded: {error}", header.index, header.id),
            None => format!("a pack cannot be expanded: {error}"),
        })
    }
}

impl DiskJob {
    /// Has the thread that reads files go on with the comparisons, if it can.
    pub(super) fn describe_on(reads: &Channel<Self>, can_go_on: bool) {
        if can_go_on {
            let _ = reads.send(Self::Describe);
        }
    }
}

/// A file whose contents are to be compared with a digest.
pub(super) struct CompareJob {
    pub(super) id: EntryId,
    pub(super) subject: Subject,
    pub(super) size: ByteCount,
    /// Digest that the contents of the file should have.
    pub(super) digest: FileDigest,
}

/// File at the destination that is compared with a digest: one that an earlier run has published,
/// or a candidate.
pub(super) enum Subject {
    /// The one that an earlier run has published, as the medium has it.
    Published(Location),
    /// One that may have become an item, or have its contents, if it is still as it was found.
    Candidate { location: Location, stat: Stat },
}
