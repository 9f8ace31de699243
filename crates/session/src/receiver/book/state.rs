//! Progress of the session and of each item.

use std::collections::VecDeque;

use icdc_protocol::limits::{MAX_PENDING, MAX_PENDING_BYTES};
use icdc_protocol::message::{Entry, EntryId, FileDigest, LeftOut, Message, SnapshotTime, Source, Want};
use icdc_units::ByteCount;

use super::action::Target;
use super::item::{DirectoryId, Item, ModificationTime};
use super::publishing::batch::LotNumber;
use crate::SessionError;
use crate::receipt::Lines;
use crate::weight::entry_weight;

/// Progress of a session up to the processing of its announcements.
#[derive(Debug)]
pub(super) enum SessionStage {
    /// `Begin` has not arrived; `sources` may have arrived ahead of it.
    Fresh { sources: Vec<Source> },
    /// The destinations of the sources are being determined.
    Placing(Opening),
    /// The sender has been asked whether it is still connected.
    Unconfirmed(Opening),
    /// The run's journal is being made or reopened.
    Beginning { opening: Opening, sender: Confirmation },
    /// Announcements are processed.
    Running(Run),
    /// The session has failed; announcements are ignored.
    Broken,
}

impl Default for SessionStage {
    fn default() -> Self {
        Self::Fresh { sources: Vec::new() }
    }
}

impl SessionStage {
    /// The queued entries, which are not processed yet.
    pub(super) fn queued(&self) -> impl Iterator<Item = &Entry> {
        let messages = match self {
            Self::Fresh { .. } | Self::Broken => None,
            Self::Placing(opening) | Self::Unconfirmed(opening) | Self::Beginning { opening, .. } => {
                Some(&opening.queue.messages)
            }
            Self::Running(run) => Some(&run.queue),
        };
        messages.into_iter().flatten().flat_map(|message| match message {
            Message::Entries(entries) => entries.as_slice(),
            _ => &[],
        })
    }
}

/// Confirmation that the sender is connected, before the run has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// The sender is taken to be connected because this end has not waited. `Ready` is still to be
    /// sent; `resuming`: an interrupted run's journal is continued.
    Assumed { resuming: bool },
    /// The sender has answered `Ready`: it is connected.
    Confirmed,
}

/// The sources and the queued messages of a session whose run has not begun.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) sources: Vec<Source>,
    pub(super) queue: Queue,
}

/// State of a run that has begun: sources, destinations, and queued announcements.
#[derive(Debug)]
pub(super) struct Run {
    /// The sources, as announced.
    pub(super) sources: Vec<Source>,
    pub(super) targets: Vec<Target>,
    pub(super) queue: VecDeque<Message>,
    /// The announcement whose entries are being answered, if there is one.
    pub(super) answering: Option<Announced>,
}

/// Messages in the order of their arrival, limited by what may be pending.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) messages: VecDeque<Message>,
    items: usize,
    weight: usize,
}

impl Queue {
    /// Appends a message for later; fails if too much is pending.
    pub(super) fn keep(&mut self, message: Message) -> Result<(), SessionError> {
        let (items, weight) = match &message {
            Message::Entries(entries) => {
                (entries.len(), entries.iter().map(|entry| entry_weight(entry, &entry.name)).sum())
            }
            Message::LeftOut { what: LeftOut::Names(names), .. } => (1, names.iter().map(Vec::len).sum()),
            _ => (1, 0),
        };
        self.items += items;
        self.weight += weight;
        if self.items > 2 * MAX_PENDING || self.weight > MAX_PENDING_BYTES {
            return Err(SessionError::Protocol("more entries are announced than may be pending".into()));
        }
        self.messages.push_back(message);
        Ok(())
    }
}

/// Progress of the announcements: open, complete, or ended by the link; and completion of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// More entries may be announced.
    Announcing,
    /// All entries are announced.
    Announced,
    /// The link has ended, though more was to be announced.
    Cut,
    /// The link has ended, after everything was announced.
    Draining,
    /// Every item is done.
    Complete,
}

impl Phase {
    /// Whether the link is open, so that the sender can be answered.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Announcing | Self::Announced)
    }

    /// Whether everything has been announced, but not everything is done.
    pub(super) fn is_last(self) -> bool {
        matches!(self, Self::Announced | Self::Draining)
    }
}

/// Stage of the receipt of a run.
#[derive(Debug, Default)]
pub(super) enum ReceiptStage {
    /// No receipt is made, or its end has been asked for.
    #[default]
    Nothing,
    /// The items that are done have their lines.
    Listing {
        /// The lines.
        lines: Lines,
        /// Time that the snapshot is named by, once that is made.
        snapshot: Option<SnapshotTime>,
    },
    /// There will be none: the item with this path has failed.
    Failed(Vec<u8>),
}

/// Progress of the snapshot that a run makes in the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SnapshotStage {
    /// Items are copied, and what the source does not have is deleted.
    #[default]
    Filling,
    /// The snapshot is getting its name.
    Making,
    /// Older ones are being removed.
    Removing,
    /// Nothing more is done about it.
    Ended,
}

/// An item and its progress.
pub(super) struct Tracked {
    pub(super) item: Box<Item>,
    pub(super) state: ItemState,
}

/// Progress of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemState {
    /// The item is being examined, to be answered with the other entries of its message.
    Announced,
    /// The item waits: an earlier item holds its name.
    Waiting,
    /// The file that has its name is being read: an earlier run seems to have published it with
    /// this digest. `is_noted`: the name is durable.
    Comparing { digest: FileDigest, is_noted: bool, shown: ModificationTime },
    /// The item is being made from its counterpart in a reference directory.
    Referencing,
    /// The item waits until it is known which files the destination has.
    AwaitingCandidates,
    /// The sender was asked whether one of some files of the destination has become the item.
    Asked,
    /// The sender was asked for the digest of the item: the existing file has its size.
    AskedDigest,
    /// The existing file is being read, for comparison with the item.
    ComparingContents,
    /// The file of this number is being read.
    ComparingCandidate(usize, Comparison),
    /// The item is being made from that file, which has this digest.
    Renaming(FileDigest),
    /// The item is left alone; its name is being flushed.
    Skipping,
    /// The item is examined once more, to be answered by itself.
    Examined,
    /// The item's contents, or the file to which it is a hard link, are still to arrive.
    Wanted,
    /// The item's contents have arrived, with this digest, and are being staged.
    Staging(FileDigest),
    /// The item is complete under its staging name.
    Staged {
        /// Origin of its contents.
        origin: Origin,
        /// Number of its bytes that become durable with the batch.
        bytes: ByteCount,
        /// Whether it is durable but for its name, so that a later run might publish it.
        is_durable: bool,
        /// Modification time that it shows, once it has its final name.
        shown: Option<ModificationTime>,
    },
}

/// Comparison of an item, whose digest the sender has told, with files of the destination that may
/// have become it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Digest of the item.
    pub(super) digest: FileDigest,
    /// Files that are left to compare, a bit for each.
    pub(super) left: u32,
}

/// Origin of the contents of an item that is complete under its staging name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The sender: a regular file with this digest.
    Sender(FileDigest),
    /// A reference directory: a regular file whose digest is not known.
    Reference,
    /// A file of the destination that had another name, with this digest.
    Renamed(FileDigest),
    /// The item is a link and has no contents.
    Link,
}

impl Origin {
    /// Digest of the contents, if it is known.
    pub(super) fn digest(self) -> Option<FileDigest> {
        match self {
            Self::Sender(digest) | Self::Renamed(digest) => Some(digest),
            Self::Reference | Self::Link => None,
        }
    }
}

impl ItemState {
    /// Whether the item is still to be given its final name.
    pub(super) fn is_wanted(self) -> bool {
        matches!(self, Self::Referencing | Self::Renaming(_) | Self::Wanted | Self::Staging(_) | Self::Staged { .. })
    }
}

/// Purpose of a flush of names, by which its outcome is handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameFlush {
    /// The flush makes the names of the present lot durable.
    Lot,
    /// The flush makes the name of an item durable that an earlier session has renamed and not
    /// reported.
    Compared { id: EntryId, digest: FileDigest, shown: ModificationTime },
    /// The flush makes the names of items durable that are left alone, and that an earlier session
    /// may have renamed.
    Skipped(Vec<EntryId>),
}

/// A directory whose children are all done, until its own attributes are set and durable.
pub(super) struct Finishing {
    pub(super) path: Vec<u8>,
    /// File system of the directory.
    pub(super) device: u64,
    /// Whether the chain of its parents is needed later.
    pub(super) remembered: bool,
    /// Lot with which the directory itself became durable, or was to; `None` unless it was made.
    pub(super) made: Option<LotNumber>,
    /// Lot with which its attributes become durable.
    pub(super) restored: Option<LotNumber>,
    /// The directory's entry, once it has its attributes and only waits for them to be durable.
    pub(super) finished: Option<Box<Entry>>,
}

/// The entries of one message, until they are answered.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) first: EntryId,
    /// Answers in the order of ids, from `first` on; `None` for an entry that is answered later or
    /// not yet.
    pub(super) answers: Vec<Option<Want>>,
    /// Items whose directories are being made.
    pub(super) drafts: Vec<Draft>,
    /// Number of items that are examined and not judged.
    pub(super) examined: usize,
}

/// An announced item whose directory may not be made yet, so that it is not tracked so far.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) entry: Entry,
    pub(super) path: Vec<u8>,
    pub(super) directory: DirectoryId,
    pub(super) name: Vec<u8>,
}
