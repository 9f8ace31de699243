//! The messages that two ends exchange, and the direction each may travel.
//!
//! ```text
//! client → server   Request ─────────────► Accepted | Refused
//! sender → receiver Congestion, Sources*, Begin, Confirmed, Connections*, Entries*, (Block | Difference | Assembled | Part | Pack | Compressed)*, (FileEnd | StreamEnd)*, DirEnd*, Totals, End, Goodbye
//!                   LeftOut* (of a mirror, ahead of the DirEnd of its directory), Removed* (of a move),
//!                   OwnerNames* (of owners by name, ahead of the entries), NamesWanted* (of listed names),
//!                   CandidateAnswer* (of a mirror), Holes* (for a Basis), StreamFrom? (ahead of a stream)
//! receiver → sender Placed?, Running*, Ready, Held*, Wants*, Basis*, Chunks*, Resend*, Done*, Feedback*, UserCeiling*, Candidates* and Deletion* (of a mirror),
//!                   Snapshot* (ahead of the last Deletion), Names* (for a NamesWanted), Receipt* (where one is asked for), StreamDurable* (of a stream),
//!                   InPlace* (of files that are written at their place)
//! either way        Left, KeyCeiling* (from a daemon), Notice*, Ping, Interrupt, Abort
//! of a listing      List (see [`ListMessage`])
//! of a change       Change (see [`ChangeMessage`])
//! of a measurement  Measure (see [`crate::measure`])
//! ```
//!
//! Only `Block`, `Difference`, `Assembled`, `Part`, `Pack` and `Compressed` carry a payload. What arrives is bounded by [`crate::limits`]
//! before anything is allocated.

use std::ops::Range;

use icdc_units::{ByteCount, Rate};
use serde::{Deserialize, Serialize};

pub use crate::basis::Basis;
pub use crate::bootstrap::{Bootstrap, ConnectBack, FarTask, Listening};
pub use crate::change::{ChangeCount, ChangeMessage, ChangeRequest, ChangedItem};
pub use crate::choice::{Choice, TimeStamp};
pub use crate::compression::{Compress, Compressed, Compressible, Uncompressed};
pub use crate::deletion::{Delete, Deletion, LeftOut, MaxDelete, Mirrored};
pub use crate::delta::{Assembled, Chunks};
pub use crate::directory_links::DirectoryLinks;
use crate::limits::PART_SIZE;
pub use crate::listed::ListedNames;
pub use crate::listing::{
    ListDetail, ListDigest, ListMessage, ListReach, ListRequest, Listed, ListedItem, ListedKind, ListedMetadata,
};
use crate::measure;
pub use crate::mode_change::ModeChange;
pub use crate::notice::{Notice, NoticeKind};
pub use crate::outcome::{Done, FileDigest, FileEnd, GivenUp, ItemEnd, StreamEnd, Streamed};
pub use crate::owners::{OwnerMapping, OwnerNames};
pub use crate::receipt::{PassedReceipt, ReceiptPart};
pub use crate::renaming::{CandidateAnswer, CandidatePlace, Candidates};
pub use crate::request::{
    Backup, Diskless, Drive, DriveRoute, Equality, Existing, Job, Missing, Preserve, ReceiveOptions, Request,
    SendOptions, SourcePosition, Transfer,
};
pub use crate::running::{IfRunning, Running};
pub use crate::snapshot::{Keep, Snapshot, SnapshotNews, SnapshotTime};
pub use crate::special::{DeviceNumber, Special};
use crate::version::Features;

/// A BLAKE3 digest or chaining value.
pub type Digest = [u8; 32];

/// Identity of one run of `icdc copy`: random, the same for all its connections and reconnections.
pub type TransferId = [u8; 16];

/// Number of an entry, counted from 0 in the order in which the sender announces entries.
pub type EntryId = u32;

/// A message between the two ends: everything that travels as the head of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// First message of the connecting end.
    Request(Request),
    /// The request is granted, by an end with these features.
    Accepted(Features),
    /// The request is refused; the connection ends.
    Refused(Refusal),

    /// First message of the sender, which describes the sources.
    Begin(Begin),
    /// Entries in scan order (parents first); ids are consecutive over the whole session.
    Entries(Vec<Entry>),
    /// A range of a file; the payload holds the data of `ranges` back to back.
    Block(BlockHeader),
    /// Whole small files back to back in the payload.
    Pack(Vec<PackItem>),
    /// The sender has finished a large file, or gives an announced item up.
    FileEnd(FileEnd),
    /// All children of a directory have been announced.
    DirEnd {
        /// Id of the directory.
        id: EntryId,
    },
    /// Something that was found but cannot be announced as an entry.
    Problem(Problem),
    /// Totals of the scan so far; the last one has `complete`.
    Totals(Totals),
    /// Nothing more will be announced and every wanted byte has been sent.
    End,
    /// Last message of the sender, after every item is accounted for.
    Goodbye(Goodbye),

    /// First message of the receiver. A further one asks whether the sender is still connected.
    Ready(Ready),
    /// Chaining values of blocks that an earlier run left durable, before the `Wants` that names
    /// the file.
    Held(Held),
    /// Requests of the receiver for the entries `first..first + answers.len()`.
    Wants(Wants),
    /// A block that was held does not match the journal: transmit it.
    Resend {
        /// Id of the file.
        id: EntryId,
        /// The block's number in the file.
        index: u32,
    },
    /// Outcomes of items that are published under their final names, or failed.
    Done(Vec<Done>),
    /// State of the receiver, sent several times a second; also its keepalive.
    Feedback(Feedback),

    /// Keepalive of a sender that has nothing else to send.
    Ping,
    /// The user asked to stop; the receiver makes durable what it has and answers likewise.
    Interrupt,
    /// The session fails for this reason.
    Abort(Refusal),

    /// Task for a started far side, over its standard streams.
    Bootstrap(Bootstrap),
    /// Answer to `Bootstrap`: the port to connect to.
    Listening(Listening),
    /// An event of a transfer that this end drives for another, as a JSON object.
    Relay(Vec<u8>),
    /// A message between the two ends of a measurement.
    Measure(measure::ControlMessage),
    /// Congestion control that the sender's TCP uses, before its `Begin`.
    Congestion(Congestion),

    /// The sender's answer to every `Ready`: it is still connected.
    Confirmed,
    /// A connection after the first has ended at this end, before the session. Each end sends this
    /// once for each, on the first connection; a receiver also after the sender has, whether or not
    /// it knows the connection. The sender retransmits what did not arrive.
    Left {
        /// Number of the connection, see [`Job::Join`].
        connection: u8,
        /// Number of data frames (`Block`, `Difference`, `Assembled`, `Part`, `Pack`, `Compressed`, `FileEnd`, `StreamEnd`) that the sender
        /// handed to the connection, or that arrived over it at the receiver.
        frames: u64,
    },

    /// To a started far side over its standard streams, as long as it serves: connect to the
    /// starting end. From one that drives to the starting end: have the other one connect to it.
    ConnectBack(ConnectBack),
    /// Answer to `ConnectBack` if the connection cannot be made.
    NotConnected {
        /// Number of the connection.
        number: u32,
        /// The reason, as a sentence for the user.
        reason: String,
    },

    /// Number of connections that the path needs, from a sender that the other end has connected
    /// to. The receiver makes them unless its user has set a number.
    Connections {
        /// Number of connections that the path needs.
        wanted: u8,
    },

    /// A part of a block, whose other parts may travel over other connections. All parts of a block
    /// have the same header except for their number; a duplicate is ignored.
    Part(Part),

    /// Notice of items that have not failed; their numbers count from the beginning.
    Notice(Notice),

    /// Sources ahead of those in a [`Begin`](Self::Begin) that has no room for all.
    Sources(Vec<Source>),

    /// Limit on the rate of this session, by its key at this end. Follows
    /// [`Accepted`](Self::Accepted), to an end that has [`Features::MAX_RATE`] and not
    /// [`Features::KEY_CEILING`].
    MaxRate {
        /// The rate in bytes per second, not zero.
        bytes_per_second: u64,
    },

    /// Another process writes the receiver's destination; `None` when its end is not awaited any
    /// more.
    Running(Option<Running>),

    /// Place that the receiver has given the source, for further sessions of the run: the
    /// destination then contains what this and other sessions have written.
    Placed(SourcePosition),

    /// Items of a directory of the source besides the entries announced in it. Only for a receiver
    /// that deletes, and before the directory's `DirEnd`.
    LeftOut {
        /// Id of the directory, whose children are still being announced.
        directory: EntryId,
        /// Items that are left out of the announcements.
        what: LeftOut,
    },
    /// Items that the receiver has deleted, or why it has deleted none, once every item is done.
    Deletion(Deletion),

    /// A message of a listing ([`Job::List`]).
    List(ListMessage),
    /// Items that the sender has removed at the source because the receiver has published them; in a
    /// dry run, those that it would remove.
    Removed(Vec<ChangedItem>),
    /// The sender asks for the next part of the list of names that it is to send
    /// ([`SendOptions::listed`]), which the asking end has.
    NamesWanted {
        /// The pass through the list; another number than before begins anew.
        pass: u32,
    },
    /// The part of the list that a `NamesWanted` has asked for.
    Names(ListedNames),

    /// Files of a mirror's receiver that may have become an announced item, for a sender that has
    /// [`Features::RENAMES`]. The item is answered by [`Wants`](Self::Wants) after the sender has
    /// told what the source has.
    Candidates(Candidates),
    /// The sender's answer to [`Candidates`](Self::Candidates).
    CandidateAnswer(CandidateAnswer),
    /// Outcome of the snapshot, and of those that are no longer kept, once every item is done.
    Snapshot(SnapshotNews),
    /// A message of a change ([`Job::Change`]).
    Change(ChangeMessage),
    /// Part of the receipt that the receiver was asked for ([`ReceiveOptions::receipt`]): the first
    /// before the first [`Wants`](Self::Wants), the last once every item is done.
    Receipt(ReceiptPart),
    /// Names of users and groups, ahead of the first entry that has their numbers, from a sender that
    /// was [asked](SendOptions::owner_names) for them.
    OwnerNames(OwnerNames),
    /// Digests of the receiver's file for which it has answered [`Want::Difference`].
    Basis(Basis),
    /// A block that the receiver puts together from its [`Basis`] and from the data of the header's
    /// ranges, of which there may be none; the payload holds that data back to back.
    Difference(BlockHeader),
    /// Blocks that a [`Basis`] has described and that are holes at the source: they do not travel.
    Holes {
        /// Id of the file.
        id: EntryId,
        /// Numbers of the blocks.
        blocks: Vec<u32>,
    },
    /// The sender has come to the end of a [`Stream`](EntryKind::Stream).
    StreamEnd(StreamEnd),
    /// A `Block`, `Difference`, `Assembled` or `Pack` whose payload is compressed, to a receiver that has
    /// [`Features::COMPRESSION`]: the payload is one zstd frame.
    Compressed(Compressed),
    /// A message about the receipt of a copy between two far ends, from or to the client of both.
    PassedReceipt(PassedReceipt),
    /// Ceiling that the receiver's user sets to the sending rate from now on: `None` for none, zero to
    /// send no data until the next one. From an end that has requested the session, to a sender that
    /// has [`Features::USER_CEILING`].
    UserCeiling(Option<Rate>),
    /// Limit that a daemon sets to the rate of this session from now on: `None` for none, zero if no data
    /// may flow until the next one. Follows [`Accepted`](Self::Accepted), and each change, to an end that
    /// has [`Features::KEY_CEILING`].
    KeyCeiling(Option<Rate>),
    /// The stream that is announced next is kept unfinished where the session ends early, and its first
    /// block comes behind this many bytes, which an earlier session has left and the receiver has to hold;
    /// zero begins one. To a receiver that has [`Features::STREAM_PLACES`].
    StreamFrom {
        /// A number of bytes in whole blocks.
        bytes: u64,
    },
    /// This many bytes from the start of a stream are durable at the receiver. To a sender that has
    /// [`Features::STREAM_PLACES`].
    StreamDurable {
        /// Number of bytes, more than was told before.
        bytes: u64,
    },
    /// Chunks of the files in which the receiver, which has answered [`Want::Delta`], has content of a
    /// file.
    Chunks(Chunks),
    /// A block that the receiver puts together from parts of its files and from the payload, which has
    /// the rest of the block's data back to back; there may be none.
    Assembled(Assembled),
    /// The receiver begins to write into the existing file that has the item's name, which is inconsistent
    /// from now on until the item is `Done`. To a sender that has [`Features::IN_PLACE`].
    InPlace {
        /// Id of the item, whose contents are wanted.
        id: EntryId,
    },
    /// Losses are more than any number of TCP connections bears, from a sender that the other end has connected to. The receiver
    /// goes on over datagrams, if it can. To a receiver that has [`Features::DATAGRAMS`].
    DatagramsWanted,
}

impl Message {
    /// Whether the message may travel over any connection of a session and counts in
    /// [`Message::Left`].
    #[must_use]
    pub fn is_data(&self) -> bool {
        matches!(
            self,
            Self::Block(_)
                | Self::Difference(_)
                | Self::Assembled(_)
                | Self::Part(_)
                | Self::Pack(_)
                | Self::FileEnd(_)
                | Self::StreamEnd(_)
                | Self::Compressed(_)
        )
    }

    /// Length of the data that a payload of `payload_length` bytes stands for, in bytes.
    #[must_use]
    pub fn plain_length(&self, payload_length: usize) -> usize {
        match self {
            Self::Compressed(compressed) => compressed.length as usize,
            _ => payload_length,
        }
    }

    /// Length of the data that the receiver copies from its files in place of a payload, in bytes.
    #[must_use]
    pub fn copied(&self) -> ByteCount {
        match self {
            Self::Assembled(assembled)
            | Self::Compressed(Compressed { of: Compressible::Assembled(assembled), .. }) => assembled.copied(),
            _ => ByteCount::ZERO,
        }
    }

    /// Name of the message's variant, for people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Request(_) => "Request",
            Self::Accepted(_) => "Accepted",
            Self::Refused(_) => "Refused",
            Self::Begin(_) => "Begin",
            Self::Entries(_) => "Entries",
            Self::Block(_) => "Block",
            Self::Pack(_) => "Pack",
            Self::FileEnd(_) => "FileEnd",
            Self::DirEnd { .. } => "DirEnd",
            Self::Problem(_) => "Problem",
            Self::Totals(_) => "Totals",
            Self::End => "End",
            Self::Goodbye(_) => "Goodbye",
            Self::Ready(_) => "Ready",
            Self::Held(_) => "Held",
            Self::Wants(_) => "Wants",
            Self::Resend { .. } => "Resend",
            Self::Done(_) => "Done",
            Self::Feedback(_) => "Feedback",
            Self::Ping => "Ping",
            Self::Interrupt => "Interrupt",
            Self::Abort(_) => "Abort",
            Self::Bootstrap(_) => "Bootstrap",
            Self::Listening(_) => "Listening",
            Self::Relay(_) => "Relay",
            Self::Measure(_) => "Measure",
            Self::Congestion(_) => "Congestion",
            Self::Confirmed => "Confirmed",
            Self::Left { .. } => "Left",
            Self::ConnectBack(_) => "ConnectBack",
            Self::NotConnected { .. } => "NotConnected",
            Self::Connections { .. } => "Connections",
            Self::Part(_) => "Part",
            Self::Notice(_) => "Notice",
            Self::Sources(_) => "Sources",
            Self::MaxRate { .. } => "MaxRate",
            Self::Running(_) => "Running",
            Self::Placed(_) => "Placed",
            Self::LeftOut { .. } => "LeftOut",
            Self::Deletion(_) => "Deletion",
            Self::List(_) => "List",
            Self::Removed(_) => "Removed",
            Self::NamesWanted { .. } => "NamesWanted",
            Self::Names(_) => "Names",
            Self::Candidates(_) => "Candidates",
            Self::CandidateAnswer(_) => "CandidateAnswer",
            Self::Snapshot(_) => "Snapshot",
            Self::Change(_) => "Change",
            Self::Receipt(_) => "Receipt",
            Self::OwnerNames(_) => "OwnerNames",
            Self::Basis(_) => "Basis",
            Self::Difference(_) => "Difference",
            Self::Holes { .. } => "Holes",
            Self::StreamEnd(_) => "StreamEnd",
            Self::Compressed(_) => "Compressed",
            Self::PassedReceipt(_) => "PassedReceipt",
            Self::UserCeiling(_) => "UserCeiling",
            Self::KeyCeiling(_) => "KeyCeiling",
            Self::StreamFrom { .. } => "StreamFrom",
            Self::StreamDurable { .. } => "StreamDurable",
            Self::Chunks(_) => "Chunks",
            Self::Assembled(_) => "Assembled",
            Self::InPlace { .. } => "InPlace",
            Self::DatagramsWanted => "DatagramsWanted",
        }
    }
}

/// Congestion control that the sending end's TCP uses, told to the other end for its user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Congestion {
    /// Name of the congestion control in the kernel.
    pub name: String,
    /// Reason for which it is not the requested congestion control; empty if it is.
    pub instead: String,
}

/// Message of the sender that describes the run: the digest by which an interrupted one is
/// recognized, and the sources, some of which may have come ahead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// Digest that identifies source host and source paths, so that an interrupted run is
    /// recognized.
    pub job: Digest,
    /// The sources, in the order of the command line.
    pub sources: Vec<Source>,
}

/// One source as the receiver needs to know it to place it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Last component of the source's path.
    pub name: Vec<u8>,
    /// Kind of the source.
    pub kind: SourceKind,
    /// Identity of the source that is unique on the running kernel; `None` where it is not known.
    pub identity: Option<Identity>,
}

/// Identity of a file or directory to ends on the same running kernel; it means nothing to others.
pub type Identity = [u8; 16];

/// Kind of a source, by which the receiver decides where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceKind {
    /// A file, a link or anything else that is not a directory.
    Item,
    /// A directory that is to arrive under its name.
    Directory,
    /// The contents of a directory (written with a trailing slash).
    Contents,
    /// A stream without a name, which the destination names.
    Stream,
}

impl SourceKind {
    /// Whether it is a directory, of which any number of items may come.
    #[must_use]
    pub fn is_directory(self) -> bool {
        matches!(self, Self::Directory | Self::Contents)
    }
}

/// Parent of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Parent {
    /// The entry has no parent: it is the source of this number itself.
    Source(u32),
    /// The entry is in the directory with this id.
    Directory(EntryId),
}

/// A file, directory or link as announced by the sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of the entry; numbers are consecutive.
    pub id: EntryId,
    /// Parent of the entry.
    pub parent: Parent,
    /// Name of the entry, one path component: any bytes but `/` and NUL; not empty, `.` or `..`.
    /// Empty for `Parent::Source`.
    pub name: Vec<u8>,
    /// Type of the entry, with the fields of that type.
    pub kind: EntryKind,
    /// Permission bits (lower 12 bits).
    pub mode: u16,
    /// Modification time: seconds since 1970.
    pub mtime_seconds: i64,
    /// Modification time: nanoseconds, below 1e9.
    pub mtime_nanos: u32,
    /// Numeric owner and group; `None` if they are not carried.
    pub owner: Option<(u32, u32)>,
    /// Extended attributes (name, value); empty if they are not carried.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Type of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Length in bytes.
        size: u64,
        /// Hash that identifies this state of the source file: device, inode, size, mtime and
        /// ctime.
        version: [u8; 16],
        /// Whether the file has holes worth keeping.
        sparse: bool,
        /// Whether the file has further names; `HardLink` entries may refer to it.
        linked: bool,
    },
    /// A directory; its children follow, then `DirEnd`.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Target of the link, uninterpreted.
        target: Vec<u8>,
    },
    /// A hard link: a further name of a file announced before.
    HardLink {
        /// Id of the entry with the file's first name.
        to: EntryId,
        /// Length of the file in bytes.
        size: u64,
        /// State of the source as in [`File::version`](Self::File::version), if it has to become a
        /// file of its own.
        version: [u8; 16],
        /// Whether the file has holes worth keeping.
        sparse: bool,
    },
    /// A named pipe, a socket or a device node, for a receiver with [`Preserve::specials`]; device
    /// nodes only together with the owner.
    Special(Special),
    /// A file whose length is known only when all of it has been read. Its blocks travel one by one,
    /// all but the last of them whole, and then its [`StreamEnd`].
    Stream,
}

/// Head of a block. The payload is the data of `ranges`; the gaps between them are zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockHeader {
    /// Id of the file.
    pub id: EntryId,
    /// Block number: the block starts at `index * BLOCK_SIZE`.
    pub index: u32,
    /// Chaining value of the whole block (zeros included), see [`crate::digest`].
    pub value: Digest,
    /// Data within the block as (offset, length), ascending and disjoint; empty means all of it.
    pub ranges: Vec<(u32, u32)>,
}

/// Head of a part of a block without holes. The payload is the data of [`Part::range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Id of the file.
    pub id: EntryId,
    /// Number of the block.
    pub index: u32,
    /// Chaining value of the whole block.
    pub value: Digest,
    /// Length of the whole block in bytes.
    pub length: u32,
    /// Number of the part: it starts at `number * PART_SIZE` in the block.
    pub number: u8,
}

impl Part {
    /// Range of the block in which the part's bytes are; empty if the block has no such part.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        let (start, length) = (usize::from(self.number) * PART_SIZE, self.length as usize);
        start.min(length)..(start + PART_SIZE).min(length)
    }
}

/// Id, length and digest of one small file in a [`Message::Pack`], whose payload holds the file's
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackItem {
    /// Id of the file.
    pub id: EntryId,
    /// Length of the file in bytes, equal to the announced size.
    pub length: u32,
    /// BLAKE3 digest of the file.
    pub digest: Digest,
}

/// Something at the source that the sender has found and does not send, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Path, as the sender shows it.
    pub path: Vec<u8>,
    /// The reason, as a sentence for the user.
    pub reason: String,
    /// Whether it counts as an error (unreadable, a device node, …); otherwise it is left out on
    /// purpose.
    pub error: bool,
}

/// Totals of the sender's scan so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of entries of any kind.
    pub entries: u64,
    /// Number of regular files.
    pub files: u64,
    /// Sum of the regular files' sizes, in bytes.
    pub bytes: u64,
    /// Whether the scan is complete.
    pub complete: bool,
}

/// Last message of the sender, once every item is accounted for: digest of the tree, and statistics
/// of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodbye {
    /// Digest over names, metadata and file digests of all items, in scan order.
    pub tree: Digest,
    /// Number of payload bytes sent in this session, before they were compressed.
    pub bytes_sent: u64,
    /// Number of TCP segments retransmitted in this session.
    pub retransmitted_segments: u64,
    /// Number of items that failed at the sender.
    pub failed: u64,
    /// Time of the sender by stage: name of the stage, and nanoseconds.
    pub limited_by: Vec<(String, u64)>,
    /// Reason for which data travelled as it is; `None` where it was compressed, or there was no
    /// reason to decide.
    pub uncompressed: Option<Uncompressed>,
}

/// Message of the receiver once it knows where the sources go, which the sender confirms; a later
/// one asks whether the sender is still connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Whether an earlier run of the same job was interrupted here and is continued.
    pub resuming: bool,
    /// Size of the receiver's ring in blocks.
    pub ring_blocks: u32,
}

/// A run of consecutive blocks of a file that the receiver already has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Id of the file.
    pub id: EntryId,
    /// Number of the first block of the run.
    pub first: u32,
    /// Chaining values of the blocks `first`, `first + 1`, …
    pub values: Vec<Digest>,
}

/// Answers of the receiver to announced entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wants {
    /// Id of the entry that `answers[0]` is about.
    pub first: EntryId,
    /// Answers for consecutive entries, one for each.
    pub answers: Vec<Want>,
}

/// Answer of the receiver to one announced entry: what of it is to be sent, or why nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// All of it is wanted (for a directory or link: it will be made, nothing to send).
    All,
    /// Only the blocks that no `Held` named are wanted.
    Rest,
    /// Nothing is wanted: it is published with this digest, by this run or compared just now.
    Have(FileDigest),
    /// Nothing is wanted: an earlier run published it with this digest; it was not read since, but
    /// its size and time are right.
    TakenOver(FileDigest),
    /// Nothing is wanted: it is equal, and the user asked to [skip](Existing::SkipEqual) such files.
    Skip,
    /// Nothing is wanted: it failed; `Done` has the reason.
    Failed,
    /// The contents of a hard link are wanted for which [`All`](Self::All) was answered before: the
    /// link cannot be made, and becomes a file of its own.
    Contents,
    /// Nothing is wanted: what is at the destination stays as it is, as the user asked.
    Keep(Kept),
    /// Nothing is wanted: a file that was equal in a [reference directory](ReceiveOptions::link_dest)
    /// has become this one, and is durable.
    Linked,
    /// Nothing is wanted: one of the [`Candidates`] with this digest, the one that the sender has told, has
    /// become this item, and is durable. `None` in a dry run: it would be compared.
    Renamed(Option<FileDigest>),
    /// Only blocks that no `Held` named are wanted, each as its difference to the [`Basis`] that
    /// follows.
    Difference,
    /// Only blocks that no `Held` named are wanted, without the content that the [`Chunks`] that follow
    /// describe, wherever in the file it is.
    Delta,
}

/// Reason why the destination stays as it is at the name of an item that may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kept {
    /// A regular file was modified later ([`Existing::Update`]).
    Newer,
    /// Something has the name ([`Existing::Keep`]).
    Existing,
    /// Nothing has the name, and nothing new is made ([`Missing::LeaveOut`]).
    Missing,
}

/// State of the receiver, sent several times a second: what has arrived and is durable, and how
/// full the ring of blocks before its disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// Number of payload bytes received in this session; what was compressed counts as what it stands
    /// for, once it has arrived.
    pub received: u64,
    /// Number of bytes received that are durable: they would survive a power cut.
    pub durable: u64,
    /// Number of blocks in the ring that are complete and wait for the disk.
    pub ring_used: u32,
    /// Size of the ring in blocks.
    pub ring_blocks: u32,
    /// Mean rate at which the disk took data over its last two seconds of work, in bytes per
    /// second; `None` while it is unknown.
    pub write_rate: Option<u64>,
}

/// Refusal of a request, or end of a session by one of its ends, with the reason for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Kind of the refusal, which determines the exit code and the client's next step.
    pub kind: RefusalKind,
    /// Sentence for the user: what, where and what to do.
    pub reason: String,
}

impl Refusal {
    /// A refusal of this kind, with its reason.
    pub fn new(kind: RefusalKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }
}

/// Kind of a refusal, by which the other end chooses its exit code and its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    /// The key does not have the right to do this.
    NotAllowed,
    /// The path cannot be used (missing source, destination not a directory, …).
    Path,
    /// The other end broke the protocol.
    Protocol,
    /// This end is stopping or overloaded.
    Busy,
    /// The user of the other end has stopped the run.
    Interrupted,
    /// A local failure at this end (memory, disk, …).
    Internal,
    /// Another process writes the destination already, and its end was not to be waited for.
    Running,
}
