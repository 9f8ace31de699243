//! Progress of the session and of each item.

use std::collections::VecDeque;

use icdc_protocol::limits::{MAX_PENDING, MAX_PENDING_BYTES};
use icdc_protocol::message::{Entry, EntryId, FileDigest, Message, Source, Want};
use icdc_units::ByteCount;

use super::action::Target;
use super::item::{DirectoryId, Item, ModificationTime};
use super::publishing::batch::LotNumber;
use crate::SessionError;
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
    /// Entries that are not processed yet.
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

/// Whether the sender is known to be connected, before the run has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// This end has not waited, so that the sender need not be asked. `Ready` is still to be sent,
    /// and says whether an interrupted run's journal is continued.
    Assumed { resuming: bool },
    /// `Ready` was sent, and answered.
    Confirmed,
}

/// A session whose run has not begun.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) sources: Vec<Source>,
    pub(super) queue: Queue,
}

/// A run that has begun.
#[derive(Debug)]
pub(super) struct Run {
    /// The sources, as announced.
    pub(super) sources: Vec<Source>,
    pub(super) targets: Vec<Target>,
    pub(super) queue: VecDeque<Message>,
    /// The message whose entries are being answered.
    pub(super) answering: Option<Announced>,
}

/// Messages in the order of their arrival, within the bounds of what may be pending.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) messages: VecDeque<Message>,
    items: usize,
    weight: usize,
}

impl Queue {
    /// Keeps a message for later.
    pub(super) fn keep(&mut self, message: Message) -> Result<(), SessionError> {
        let (items, weight) = match &message {
            Message::Entries(entries) => {
                (entries.len(), entries.iter().map(|entry| entry_weight(entry, &entry.name)).sum())
            }
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

/// Progress of the announcements and of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// More may be announced.
    Announcing,
    /// Nothing more is announced.
    Announced,
    /// The link has ended, though more was to be announced.
    Cut,
    /// The link has ended, after everything was announced.
    Draining,
    /// Every item is done.
    Complete,
}

impl Phase {
    /// Whether the sender can be answered.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Announcing | Self::Announced)
    }

    /// Whether everything has been announced, and not everything is done.
    pub(super) fn is_last(self) -> bool {
        matches!(self, Self::Announced | Self::Draining)
    }
}

/// An item and its progress.
pub(super) struct Tracked {
    pub(super) item: Box<Item>,
    pub(super) state: ItemState,
}

/// Progress of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemState {
    /// It is examined, to be answered with the other entries of its message.
    Announced,
    /// An earlier item makes its name.
    Waiting,
    /// The file that has its name is being read: an earlier run seems to have published it with
    /// this digest. If it `is_noted`, the name is durable.
    Comparing { digest: FileDigest, is_noted: bool, shown: ModificationTime },
    /// Left alone; its name is being flushed.
    Skipping,
    /// It is examined once more, to be answered by itself.
    Examined,
    /// Wanted: its contents, or the file it is a further name of, are still to arrive.
    Wanted,
    /// Its contents have arrived, with this digest, and are being staged.
    Staging(FileDigest),
    /// Complete under its staging name.
    Staged {
        /// Digest of a regular file.
        digest: Option<FileDigest>,
        /// Bytes of it that become durable with the batch.
        bytes: ByteCount,
        /// It is durable but for its name, and a later run might publish it.
        is_durable: bool,
        /// Time of modification that it shows, once it has its final name.
        shown: Option<ModificationTime>,
    },
}

impl ItemState {
    /// Whether its name is to be made.
    pub(super) fn is_wanted(self) -> bool {
        matches!(self, Self::Wanted | Self::Staging(_) | Self::Staged { .. })
    }
}

/// Purpose of a flush of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameFlush {
    /// The lot that is being published.
    Lot,
    /// An item that an earlier session has renamed and not reported.
    Compared { id: EntryId, digest: FileDigest, shown: ModificationTime },
    /// Items that are left alone, and that an earlier session may have renamed.
    Skipped(Vec<EntryId>),
}

/// A directory whose children are all done.
pub(super) struct Finishing {
    pub(super) path: Vec<u8>,
    /// The lot with which it became durable, or was to, if it was made.
    pub(super) made: Option<LotNumber>,
    /// The lot with which its attributes become durable.
    pub(super) restored: Option<LotNumber>,
    /// Its entry, once it has its attributes and only waits for them to be durable.
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
    /// Items that are examined and not judged.
    pub(super) examined: usize,
}

/// An item whose directory may not be made yet.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) entry: Entry,
    pub(super) path: Vec<u8>,
    pub(super) directory: DirectoryId,
    pub(super) name: Vec<u8>,
}
