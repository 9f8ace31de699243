//! Actions that the book requests, and the types of their outcomes.
//!
//! Actions are carried out in the order in which `Book::poll` gives them. One with an
//! outcome is answered by the named method before the next action is carried out, except for
//! those that may take long (`Expect`, `Compare`, `TakeReference`, `FindCandidates`,
//! `CompareCandidate`, `TakeCandidate`), which are answered later.

use std::sync::Arc;

use icdc_protocol::block_map::BlockMap;
use icdc_protocol::message::{
    Begin, Digest, Entry, EntryId, FileDigest, Kept, Message, Ready, SnapshotNews, SnapshotTime, Streamed,
};
use icdc_protocol::run_journal::ItemKey;
use icdc_units::ByteCount;

use super::item::{DirectoryId, DirectoryPlace};
use super::source_names::SourceNames;
use crate::Failure;
use crate::SessionError;

/// An action of the book for the executor to carry out; `P` is the payload of a pack.
#[derive(Debug)]
pub enum Action<P> {
    /// Determine where the sources go and take the lock of the journal that is found there,
    /// changing nothing: `on_placed`.
    Place {
        /// The sender's first message.
        begin: Begin,
        /// Whether the run has a journal.
        is_journaled: bool,
    },
    /// Create the destination where it is missing, and begin the run's journal or continue it:
    /// `on_begun`.
    BeginRun,
    /// Make directories, in this order: `on_directories_made`.
    MakeDirectories(Vec<NewDirectory>),
    /// Decide by `Book::decide` what is wanted of each item: `on_examined`.
    Examine(Vec<Examination>),
    /// Set those attributes of regular files that are not as they are to be, unless another file
    /// has the name by now, or this one was changed: `on_amended`.
    Amend(Vec<EntryId>),
    /// Note in the run's journal, if there is one, that an unfinished file is about to be made. If
    /// that fails, the item is lost (`on_lost`).
    NoteStaged {
        /// Id of the item.
        id: EntryId,
        /// Path of the item below the destination.
        path: Vec<u8>,
    },
    /// Prepare for the blocks of a large file. The outcome is `on_stored` or `on_lost`.
    Expect {
        /// Id of the file.
        id: EntryId,
        /// Blocks that an earlier run left, in the part that its examination has claimed.
        held: Option<BlockMap>,
        /// The files from which blocks are put together, which are to be described (`Describe`,
        /// `DescribeChunks`). `None` if
        /// all blocks travel whole.
        basis: Option<Basis>,
    },
    /// Describe to the sender the file from which blocks of an expected file are put together. The
    /// sender has been told so, and waits for it.
    Describe(EntryId),
    /// Describe to the sender, by their chunks, the files from which blocks of an expected file are put together
    /// that may have moved. The sender has been told so, and waits for it.
    DescribeChunks(EntryId),
    /// Read the file that has an item's name: `on_compared`.
    Compare {
        /// Id of the item.
        id: EntryId,
        /// The expected digest.
        digest: FileDigest,
    },
    /// Read the file that had an item's name and size in its examination: `on_compared`.
    CompareExisting {
        /// Id of the item.
        id: EntryId,
        /// Digest of the item.
        digest: FileDigest,
    },
    /// Make an item under its staging name from its counterpart in a reference directory, which is
    /// left as it is: `on_reference_taken`.
    TakeReference {
        /// Id of the item.
        id: EntryId,
        /// The counterpart that was found in the item's examination.
        reference: Reference,
    },
    /// Find the files of these directories, with everything beneath them, for the examinations of new
    /// items: `on_candidates_found`.
    FindCandidates(Vec<CandidateRoot>),
    /// Read a candidate that was found in an item's examination: `on_compared`.
    CompareCandidate {
        /// Id of the item.
        id: EntryId,
        /// Number of the candidate, of those that were found.
        number: usize,
        /// Digest of the item.
        digest: FileDigest,
    },
    /// Make an item under its staging name from its candidate, unless that was changed since it was
    /// compared: `on_reference_taken`. The candidate stays as it is.
    TakeCandidate {
        /// Id of the item.
        id: EntryId,
        /// Number of the candidate, of those that were found.
        number: usize,
    },
    /// Check and write small files under their staging names: `on_staged`.
    Stage {
        /// The files.
        pieces: Vec<Piece>,
        /// Contents of the files, back to back.
        payload: P,
    },
    /// Make a symbolic link under its staging name: `on_link_made`.
    MakeSymlink(EntryId),
    /// Make a named pipe, a socket or a device node under its staging name: `on_link_made`.
    MakeSpecial(EntryId),
    /// Make a further name of a file under its staging name: `on_link_made`, or
    /// `on_link_impossible` where the first name is not that of the file that was published or
    /// found, or the system refuses it.
    MakeLink {
        /// Id of the item.
        id: EntryId,
        /// The first name of the file.
        first: FirstName,
    },
    /// Make durable all that is written to the file systems of these numbers: `on_flushed`.
    Flush(Vec<u64>),
    /// Give items that lie under staging names their final ones, each unless another session has
    /// replaced it there, or its [`Guard`] forbids it, or, if small and asked for, the medium gives
    /// something else back: `on_renamed`.
    Rename(Vec<Publication>),
    /// Make names durable: `on_names_flushed`.
    FlushNames(Names),
    /// Write into the run's journal, if there is one, what is published. A failure is only worth a
    /// warning.
    NotePublished(Vec<(ItemKey, FileDigest)>),
    /// Remove the journals of blocks of items that were renamed.
    RemoveJournals(Vec<EntryId>),
    /// Remove leftovers of an earlier session beside a published item: journals of blocks, except
    /// one with data, which belongs to a later item of this name; of a small item, or one that
    /// cannot be made, the data as well.
    RemoveLeft {
        /// Directory of the item.
        directory: DirectoryId,
        /// Name of the item in the directory.
        name: Vec<u8>,
        /// Whether the unfinished data is removed as well.
        with_data: bool,
    },
    /// Remove the file under the staging name of an item that is not published, unless a later run
    /// can publish it as it is, or another session has replaced it.
    Discard(EntryId),
    /// Note in the run's journal, together with the next note, that an item has nothing unfinished
    /// in its directory any more.
    NoteReleased {
        /// Path of the item below the destination.
        path: Vec<u8>,
    },
    /// Drop a large file that needs nothing more, with the part that was claimed or kept for it.
    Forget(EntryId),
    /// All children of a directory are done: set its own attributes and close it.
    /// `on_directory_finished`.
    FinishDirectory {
        /// The directory's entry.
        entry: Box<Entry>,
        /// Whether the chain of its parents is needed later, for a [`FirstName`] in it.
        remembered: bool,
        /// Whether attributes may be changed. If not, a directory that has others stays open:
        /// [`NotFinished::Differs`].
        may_change: bool,
    },
    /// List a directory whose names are all announced, and return those of its items whose names
    /// the source has not, unfinished files of icdc left out: `on_extras_listed`.
    ListExtras {
        /// The directory.
        directory: DirectoryId,
        /// The directory's place, and no item yet.
        found: DirectoryExtras,
        /// Names that the source has.
        names: SourceNames,
    },
    /// Count these items and everything in them, as they are now: `on_extras_counted`.
    CountExtras(Arc<[DirectoryExtras]>),
    /// Delete these items, `count` in all, or in a dry run report them, and give their names to what
    /// replaces them: `on_extras_deleted`.
    DeleteExtras {
        /// The items.
        found: Arc<[DirectoryExtras]>,
        /// Number of items that were counted. No more are deleted.
        count: u64,
    },
    /// Everything of a snapshot is in its unfinished directory and durable: give that its name,
    /// and let the symbolic link to the newest snapshot lead there, so that both are durable; in a dry
    /// run, choose the name only: `on_snapshot_made`.
    MakeSnapshot,
    /// Remove these snapshots, the oldest first, or in a dry run see whether they can be, and what an
    /// earlier removal has left: `on_snapshots_removed`.
    RemoveSnapshots(Vec<SnapshotTime>),
    /// Add these lines to the receipt.
    AddToReceipt(Vec<u8>),
    /// Everything else is done: sign the receipt, with the time that the snapshot is named by if one
    /// was made; or tell why there is none.
    EndReceipt(Result<Option<SnapshotTime>, String>),
    /// The run is complete at both ends: remove its journal, and what earlier attempts left of
    /// items that are no longer part of it.
    PutAway {
        /// The directory that held the journal among a source's contents, to be given its
        /// attributes once more.
        contents: Option<(DirectoryId, Box<Entry>)>,
    },
    /// Ask the sender whether it is connected, by this message: `on_asked`.
    Ask(Ready),
    /// Send the sender this message.
    Reply(Message),
    /// Notify the user, and count.
    Notify(Notification),
    /// End the run: every item is done.
    Complete,
    /// End the session, which has failed.
    Fail(SessionError),
}

/// The event that answers an action before the next one is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Placed,
    Begun,
    DirectoriesMade,
    Examined,
    Amended,
    Staged,
    LinkMade,
    Flushed,
    Renamed,
    NamesFlushed,
    DirectoryFinished,
    ExtrasListed,
    ExtrasCounted,
    ExtrasDeleted,
    SnapshotMade,
    SnapshotsRemoved,
    Asked,
}

impl<P> Action<P> {
    /// The event that must answer this before the next action is carried out, if there is one.
    pub(super) fn answer(&self) -> Option<Answer> {
        match self {
            Self::Place { .. } => Some(Answer::Placed),
            Self::BeginRun => Some(Answer::Begun),
            Self::MakeDirectories(_) => Some(Answer::DirectoriesMade),
            Self::Examine(_) => Some(Answer::Examined),
            Self::Amend(_) => Some(Answer::Amended),
            Self::Stage { .. } => Some(Answer::Staged),
            Self::MakeSymlink(_) | Self::MakeSpecial(_) | Self::MakeLink { .. } => Some(Answer::LinkMade),
            Self::Flush(_) => Some(Answer::Flushed),
            Self::Rename(_) => Some(Answer::Renamed),
            Self::FlushNames(_) => Some(Answer::NamesFlushed),
            Self::FinishDirectory { .. } => Some(Answer::DirectoryFinished),
            Self::ListExtras { .. } => Some(Answer::ExtrasListed),
            Self::CountExtras(_) => Some(Answer::ExtrasCounted),
            Self::DeleteExtras { .. } => Some(Answer::ExtrasDeleted),
            Self::MakeSnapshot => Some(Answer::SnapshotMade),
            Self::RemoveSnapshots(_) => Some(Answer::SnapshotsRemoved),
            Self::Ask(_) => Some(Answer::Asked),
            // Those of large files take longer, and the others have no outcome that matters.
            Self::Expect { .. }
            | Self::Describe(_)
            | Self::DescribeChunks(_)
            | Self::Compare { .. }
            | Self::CompareExisting { .. }
            | Self::TakeReference { .. }
            | Self::FindCandidates(_)
            | Self::CompareCandidate { .. }
            | Self::TakeCandidate { .. }
            | Self::NoteStaged { .. }
            | Self::NotePublished(_)
            | Self::RemoveJournals(_)
            | Self::RemoveLeft { .. }
            | Self::Discard(_)
            | Self::NoteReleased { .. }
            | Self::Forget(_)
            | Self::AddToReceipt(_)
            | Self::EndReceipt(_)
            | Self::PutAway { .. }
            | Self::Reply(_)
            | Self::Notify(_)
            | Self::Complete
            | Self::Fail(_) => None,
        }
    }
}

/// Outcome of [`Action::Place`]: the destinations are known, and nothing there is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Whether the journal of an interrupted run was found.
    pub resuming: bool,
    /// Whether an earlier session has held the lock until just now.
    pub has_waited: bool,
    /// Whether the sender has closed the connection by now.
    pub peer_is_gone: bool,
}

/// Place at the destination that one source goes to: a name in a directory, or a directory itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The source goes into a directory under this name.
    Named {
        /// Identity of the directory.
        directory: DirectoryPlace,
        /// Name in the directory.
        name: Vec<u8>,
    },
    /// The contents of the source go into this directory.
    Contents(DirectoryPlace),
    /// The source would go into a directory that a dry run does not make.
    Imagined,
}

/// Reason for which a run has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotBegun {
    /// Another session was faster, and has held the lock until just now.
    HasWaited {
        /// Whether the journal of an interrupted run was found.
        resuming: bool,
    },
    /// The run cannot begin.
    Failed(SessionError),
}

/// A directory to be made, or opened if it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDirectory {
    /// Id of the entry that announced the directory.
    pub id: EntryId,
    /// The parent directory.
    pub parent: DirectoryId,
    /// Name of the directory; `None` if it is `parent` itself, for the contents of a source.
    pub name: Option<Vec<u8>>,
}

/// Extra items of one directory of the destination: its source has no items of these names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryExtras {
    /// Number of the source to which the directory belongs.
    pub source: u32,
    /// Identity of the directory.
    pub place: DirectoryPlace,
    /// Path of the directory below the destination; empty for the destination itself.
    pub path: Vec<u8>,
    /// Path of the source's directory from the transfer root.
    pub source_path: Vec<u8>,
    /// The items, in the order of their names.
    pub extras: Vec<Extra>,
}

/// An extra item, as it was when its directory was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Name in the directory.
    pub name: Vec<u8>,
    /// Device number of its file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Item that is to have its name instead, and is complete under a staging name; `None` if the
    /// source has nothing of that name.
    pub replaced_by: Option<EntryId>,
}

impl Extra {
    /// Identity of the item, if it is a directory that the copy may go into.
    pub(super) fn place(&self) -> DirectoryPlace {
        DirectoryPlace { device: self.device, inode: self.inode }
    }
}

/// Outcome of listing a directory of the destination: its extra items, and the number of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedExtras {
    /// The extra items of the directory.
    pub found: DirectoryExtras,
    /// Number of all items in the directory.
    pub items: u64,
}

/// A complete snapshot among those of the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeSnapshot {
    /// Time that the snapshot is named by.
    pub time: SnapshotTime,
    /// Times of all complete snapshots.
    pub all: Vec<SnapshotTime>,
}

/// An announced item whose name at the destination is to be examined, to decide what is wanted of
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Examination {
    /// Id of the item.
    pub id: EntryId,
    /// The question to answer.
    pub question: Question,
}

/// Question that an examination of an item's name answers: anything that is wanted, or only the
/// contents or the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Anything that is wanted of the item; nothing has been decided about it.
    Anything,
    /// Contents that are wanted of an item which is not published as it should be.
    Contents,
    /// Attributes that are wanted of an item whose contents were equal to those of the existing
    /// file when they were compared.
    Attributes,
}

/// A file of equal size and modification time from which an item is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Place of the file.
    pub place: ReferencePlace,
    /// Method by which the item is made from it.
    pub method: Method,
}

/// Place of the file at the receiver from which an item, or blocks of it, are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferencePlace {
    /// It is the item's counterpart in the reference directory of this number, from 0.
    Older(usize),
    /// It has the item's name.
    Itself,
}

/// Files at the receiver from which the blocks of a large file are put together, besides what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// This one: each block from what it has at the same place.
    AtSamePlace(ReferencePlace),
    /// This one, if there is one, and those that the user has named: from any place in them.
    AtAnyPlace(Option<ReferencePlace>),
}

/// A directory of the destination in which files may have been renamed: the copy of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateRoot {
    /// Number of the source.
    pub source: u32,
    /// The directory that the source goes into.
    pub directory: DirectoryId,
    /// Name of the copy in it; `None` if it is the copy itself.
    pub name: Option<Vec<u8>>,
    /// Path of the source from the transfer root.
    pub source_path: Vec<u8>,
}

/// Method by which an item is made from another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The item becomes a further name (hard link) of it: all attributes are equal.
    Link,
    /// The item becomes a copy with attributes of its own.
    Copy,
}

/// A small file in the payload of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Id of the item.
    pub id: EntryId,
    /// Offset of its contents in the payload, in bytes.
    pub offset: usize,
    /// Length of its contents in bytes.
    pub length: usize,
    /// BLAKE3 digest of its contents.
    pub digest: Digest,
}

/// Reason for which a small file is not under its staging name: its contents are damaged, or it
/// could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotStaged {
    /// The contents do not match their digest.
    Damaged,
    /// The file cannot be written.
    Failed(Failure),
}

/// A large file that is complete under its staging name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Digest of its contents.
    pub digest: FileDigest,
    /// Whether it is durable but for its name; otherwise it becomes so with the next batch.
    pub is_durable: bool,
    /// Number of its bytes that are not durable.
    pub bytes: ByteCount,
    /// Length and time of a stream; `None` for a file, whose announcement has them.
    pub streamed: Option<Streamed>,
}

/// The first name of a file with several, to which further names are linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstName {
    /// The directory, which may have been finished meanwhile.
    pub directory: DirectoryId,
    /// Identity of that directory; one that is reopened must have the same.
    pub place: DirectoryPlace,
    /// Number of the source to which it belongs, from which the directory is reopened.
    pub source: u32,
    /// Name in the directory.
    pub name: Vec<u8>,
}

/// An item to be renamed to its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Id of the item.
    pub id: EntryId,
    /// Digest of a regular file; `None` for a link.
    pub digest: Option<FileDigest>,
    /// Protection of the name from other sessions.
    pub guard: Guard,
}

/// Protection of a final name from other sessions. A newer run may have given it to a newer version
/// of the item since this session's sender has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// This session holds a lock that keeps others from the name.
    Lock,
    /// There is no lock. The item is renamed only if the sender is not known to have closed the
    /// connection and the name belongs to what was found in the item's latest examination, or at the
    /// latest attempt to rename it.
    AsFound,
    /// There is no lock, and another program changes what has the name again and again. The item is
    /// renamed only if the sender is not known to have closed the connection.
    Sender,
}

/// Reason for which a directory is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFinished {
    /// It has other attributes, which may not be changed yet.
    Differs,
    /// Its attributes cannot be set.
    Failed(Failure),
}

impl From<Failure> for NotFinished {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Reason for which an item has not got its final name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRenamed {
    /// The name does not belong to what was found there before.
    Changed,
    /// The item cannot be published.
    Failed(Failure),
}

impl From<Failure> for NotRenamed {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Names to be made durable by a flush, after items got them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// Names in a few directories, each of which is flushed by itself.
    In(Vec<DirectoryId>),
    /// Names in many directories, on the file systems of these device numbers.
    OnFileSystems(Vec<u64>),
}

/// Event of an item, a deletion or a snapshot at the receiver, for the user and the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// An item has its final name.
    Published {
        /// Path of the item below the destination.
        path: Vec<u8>,
        /// Size and digest of a regular file; `None` for a link.
        file: Option<PublishedFile>,
    },
    /// A file is there with this digest already.
    Had {
        /// Length of the file in bytes.
        size: ByteCount,
        /// Digest of the file.
        digest: FileDigest,
    },
    /// A file is as an earlier run has published it, and was not read.
    TakenOver {
        /// Length of the file in bytes.
        size: ByteCount,
    },
    /// A part of an unfinished file is held from an earlier run.
    Continued {
        /// Number of bytes held.
        held: ByteCount,
    },
    /// An item that is there as it should be is left alone.
    Skipped {
        /// Path of the item below the destination.
        path: Vec<u8>,
        /// Length of a regular file, 0 of a link.
        size: ByteCount,
        /// Whether it is a regular file.
        is_file: bool,
    },
    /// A file is made from its counterpart in a reference directory, or would be in a dry run.
    Linked {
        /// Path of the item below the destination.
        path: Vec<u8>,
        /// Length of the file in bytes.
        size: ByteCount,
    },
    /// A file is made from one that the destination had under another name, or would be in a dry run.
    Renamed {
        /// Path of the item below the destination.
        path: Vec<u8>,
        /// Length of the file in bytes.
        size: ByteCount,
        /// Digest of the file; `None` in a dry run.
        digest: Option<FileDigest>,
    },
    /// The destination stays as it is at the name of an item.
    Kept {
        /// Path of the item below the destination.
        path: Vec<u8>,
        /// Length of the source's file, 0 of a link or a further name of a file.
        size: ByteCount,
        /// The reason.
        why: Kept,
    },
    /// An item is not done.
    Failed {
        /// Path of the item below the destination.
        path: Vec<u8>,
        /// Length of a regular file, 0 of anything else.
        size: ByteCount,
        /// The reason, as a sentence for the user.
        reason: String,
    },
    /// An extra item is deleted, or would be in a dry run.
    Deleted {
        /// Path of the item below the destination.
        path: Vec<u8>,
        /// Whether the item is a directory.
        is_directory: bool,
    },
    /// Nothing is deleted.
    DeletionRefused {
        /// The reason, as a sentence for the user.
        reason: String,
    },
    /// Outcome of the snapshot, or of an older one.
    Snapshot(SnapshotNews),
    /// A further name of a file is made as a file of its own.
    Unlinked {
        /// Path of the item below the destination.
        path: Vec<u8>,
        /// The reason for which the link is not made.
        why: Apart,
    },
    /// An item that an earlier run published was changed since, and is replaced.
    Altered {
        /// Path of the item below the destination.
        path: Vec<u8>,
    },
    /// A dry run would receive this item.
    WouldReceive {
        /// Path of the source.
        path: Vec<u8>,
        /// Length of a regular file, 0 of anything else.
        size: ByteCount,
    },
}

/// Reason for which a further name of a file becomes a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// The first name belongs to another file than the one that was published or found.
    Replaced,
    /// The destination stays as it is at the first name.
    Kept,
    /// The operating system does not make the link.
    Refused,
}

/// A regular file that has its final name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedFile {
    /// Length of the file in bytes.
    pub size: ByteCount,
    /// Digest of the file.
    pub digest: FileDigest,
    /// Number of bytes that became durable with it, as stated when it was staged or stored.
    pub made_durable: ByteCount,
}
