//! Jobs that the threads of a receiving session queue for each other.

use icdc_disk::tree::{Directory, Name};
use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::{BlockHeader, EntryId, FileDigest, FileEnd, Message, PackItem};
use icdc_units::ByteCount;

use super::disk_rate::Arrived;
use super::failure::Failure;
use super::large_file::Plan;
use super::publishing::Made;

/// Work for the thread of the names.
pub(super) enum NameJob {
    Message(Message),
    Pack(Vec<PackItem>, Option<Arrived>),
    /// A large file is complete under its staging name.
    Stored {
        id: EntryId,
        made: Made,
        digest: FileDigest,
    },
    /// A file that an earlier run has published was read.
    Compared {
        id: EntryId,
        /// The file still has the digest under which it was published.
        same: bool,
    },
    /// A large file is given up.
    Lost {
        id: EntryId,
        failure: Failure,
    },
}

/// Work for the hashers' threads.
pub(super) enum HashJob {
    Block { header: BlockHeader, payload: Option<Arrived> },
    End(FileEnd),
    Confirmed,
}

/// Work for the store's thread.
pub(super) enum StoreJob {
    /// A file whose blocks will come, except for those that are held.
    Expect { plan: Box<Plan>, held: Option<BlockMap> },
    /// A block with the right value.
    Block { header: BlockHeader, block: Arrived },
    /// No more blocks of a file will come, or it is given up.
    End(FileEnd),
    /// The sender has answered a `Ready`.
    Confirmed,
}

/// A file to compare.
pub(super) struct CompareJob {
    pub(super) id: EntryId,
    pub(super) directory: Directory,
    pub(super) name: Name,
    pub(super) size: ByteCount,
    /// Digest that the contents should have.
    pub(super) digest: FileDigest,
}
