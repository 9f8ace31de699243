//! Actions that the sending end's state machine requests of its executor.

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::{
    Basis, Candidates, ChangedItem, Chunks, Deletion, Digest, EntryId, FileDigest, Kept, Notice, Problem, Running,
    SnapshotNews, SourcePosition,
};
use icdc_units::ByteCount;

use crate::error::SessionError;

/// An action for the executor, in the order in which [`poll`](super::Sender::poll) gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The receiver has answered: data may flow.
    Answered,
    /// The receiver continues a run that was interrupted.
    Continuing,
    /// Read these small files into one frame: [`on_packed`](super::Sender::on_packed), or
    /// [`on_unreadable`](super::Sender::on_unreadable) for each that cannot be read, then send the
    /// pack. A file that is not [pending](super::Sender::item) any more is left out.
    Pack(Vec<EntryId>),
    /// Read a large file and send its blocks in order, but for those that the receiver holds; then
    /// [`on_read`](super::Sender::on_read). Or [`on_unreadable`](super::Sender::on_unreadable)
    /// where not even its first block was read.
    Read {
        /// Id of the file.
        id: EntryId,
        /// Blocks that the receiver holds, with their digests; `None` if it holds none.
        held: Option<BlockMap>,
        /// Whether its blocks are read only as a [`ReadDescribed`](Self::ReadDescribed) asks.
        described: bool,
    },
    /// Read a stream to its end and send its blocks in order, then
    /// [`on_stream_ended`](super::Sender::on_stream_ended); or
    /// [`on_unreadable`](super::Sender::on_unreadable) where it cannot be read to its end.
    ReadStream {
        /// Id of the stream.
        id: EntryId,
        /// Blocks that the receiver holds of an earlier session's stream; `None` for none.
        held: Option<BlockMap>,
    },
    /// Read and send the next blocks of a large file, those that are described as their
    /// differences: up to the last of them, or with `complete` to the end of the file. Then
    /// [`on_description_read`](super::Sender::on_description_read).
    ReadDescribed(Basis),
    /// Read a large file and send its blocks in order, but for those that the receiver holds, only as
    /// [`ReadMatched`](Self::ReadMatched) asks.
    AwaitChunks {
        /// Id of the file.
        id: EntryId,
        /// Blocks that the receiver holds, with their digests; `None` if it holds none.
        held: Option<BlockMap>,
    },
    /// Add these chunks to those in which the contents of a large file are looked up, and read and send its
    /// next blocks: as far as the chunks permit, or once they are complete to the end of the file. Then
    /// [`on_chunks_taken`](super::Sender::on_chunks_taken).
    ReadMatched(Chunks),
    /// Read one block of a large file once more and send it; or
    /// [`on_unreadable`](super::Sender::on_unreadable) for a stream, which is read only once.
    ReadAgain {
        /// Id of the file.
        id: EntryId,
        /// The block's number in the file.
        index: u32,
    },
    /// Look whether the source has anything at these places, and unless it has at all of them, read
    /// the file for its digest (in a dry run it is not read):
    /// [`on_compared`](super::Sender::on_compared).
    Compare(Candidates),
    /// The scan's last [request](super::Sender::request) may be granted now: the scan has to repeat
    /// it.
    Granted,
    /// An item has ended: what the executor keeps for it may be closed.
    Settled {
        /// Id of the item.
        id: EntryId,
        /// Path of the item from the source's parent.
        path: Vec<u8>,
        /// Length of a regular file, zero of anything else.
        bytes: ByteCount,
        /// Outcome of the item.
        fate: Fate,
    },
    /// The receiver could not finish a directory.
    DirectoryFailed {
        /// Id of the directory.
        id: EntryId,
        /// Path of the item from the source's parent.
        path: Vec<u8>,
        /// The reason, as a sentence for the user.
        reason: String,
    },
    /// Notify the user of something that is left out.
    Problem(Problem),
    /// Notify the user of what the receiver has deleted, or could not.
    Deletion(Deletion),
    /// Report what has become of the snapshot.
    Snapshot(SnapshotNews),
    /// Add this to the text of the receipt.
    Receipt(ReceiptText),
    /// Remove an item at the source, unless it has changed since it was announced:
    /// [`on_removed`](super::Sender::on_removed).
    Remove {
        /// Id of the item.
        id: EntryId,
    },
    /// Remove a directory at the source if it is empty:
    /// [`on_directory_removed`](super::Sender::on_directory_removed), or, if it may become so,
    /// [`on_directory_kept`](super::Sender::on_directory_kept).
    RemoveDirectory {
        /// Id of the directory.
        id: EntryId,
        /// Path of the directory from the source's parent.
        path: Vec<u8>,
    },
    /// Keep an item or a directory for [`RemoveRest`](Self::RemoveRest).
    RemoveAtEnd {
        /// Id of the item.
        id: EntryId,
        /// Path of the item from the source's parent.
        path: Vec<u8>,
    },
    /// Remove what was kept at the source, the items before the directories, unless it has changed:
    /// [`on_removed_at_end`](super::Sender::on_removed_at_end) for each, and
    /// [`on_rest_removed`](super::Sender::on_rest_removed).
    RemoveRest,
    /// Notify the user of an item that is removed at the source, or would be in a dry run.
    Removed(ChangedItem),
    /// Report how many items have met this event at the receiver so far.
    Noticed(Notice),
    /// Another process writes what the receiver is to write; `None` when it is not waited for any
    /// more.
    Running(Option<Running>),
    /// The receiver begins to write into the existing file of this path.
    InPlace {
        /// Path of the item from the source's parent.
        path: Vec<u8>,
    },
    /// Keep the place that the receiver has given the source, for further sessions of the run.
    Placed(SourcePosition),
    /// A connection after the first is lost, and what did not arrive over it is read again: shut
    /// it, and notify the user.
    ConnectionLost {
        /// Number of the connection.
        connection: u8,
    },
    /// Send nothing more of what waits behind the messages: the user stops the run.
    StopData,
    /// End all work: nothing is read or announced any more. The messages that are left are still to
    /// be sent, then [`on_sent`](super::Sender::on_sent).
    Leave,
    /// The session has ended; shut its connections.
    End(Result<(), SessionError>),
}

/// A part of a receipt's text, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptText {
    /// The text above the lines of items, from the receiver. What was written before is void.
    Begun(Vec<u8>),
    /// Lines of items, written here.
    Items(Vec<u8>),
    /// The text below the lines of items, and the signature of the whole text, from the receiver.
    Signed {
        /// The text.
        facts: Vec<u8>,
        /// Public key of the signature.
        key: Digest,
        /// The two halves of the signature.
        signature: [Digest; 2],
    },
    /// The receiver gives no receipt, for this reason.
    Refused(String),
}

/// Outcome of an item for the executor and the user, once the item is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The item was published; digest of a regular file, `None` for a link.
    Published(Option<FileDigest>),
    /// The item was published by an earlier session, and is left as it is.
    Kept,
    /// The item was left alone: it has equal size and time, and the user asked to skip such files.
    Skipped,
    /// The destination stays as it is at the item's name, as the user asked.
    Unwanted(Kept),
    /// The receiver made the file from a reference directory.
    Linked,
    /// The receiver had the file under a name that the source has no longer; its digest, `None` in a
    /// dry run.
    Renamed(Option<FileDigest>),
    /// The item would be transferred if this were no dry run.
    WouldSend,
    /// The item of sources that are followed was changed while it was read, or is gone: it is announced again once
    /// it has settled.
    Changed,
    /// The item failed at either end.
    Failed {
        /// The reason, as a sentence for the user.
        reason: String,
    },
}
