//! The messages that two ends exchange, and the direction each may travel.
//!
//! ```text
//! client → server   Request ─────────────► Accepted | Refused
//! sender → receiver Congestion, Sources*, Begin, Confirmed, Connections*, Entries*, (Block | Part | Pack)*, FileEnd*, DirEnd*, Totals, End, Goodbye
//! receiver → sender Running*, Ready, Held*, Wants*, Resend*, Done*, Feedback*
//! either way        Left, Notice*, Ping, Interrupt, Abort
//! of a measurement  Measure (see [`crate::measure`])
//! ```
//!
//! Only `Block`, `Part` and `Pack` carry a payload. What arrives is bounded by [`crate::limits`] before anything is allocated.

use std::net::IpAddr;
use std::ops::Range;

use icdc_units::{ByteCount, Rate};
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::PART_SIZE;
use crate::measure;
pub use crate::notice::{Notice, NoticeKind};
pub use crate::outcome::{Done, FileDigest, FileEnd, GivenUp};
pub use crate::running::{IfRunning, Running};
use crate::version::{Features, Versions};

/// A BLAKE3 digest or chaining value.
pub type Digest = [u8; 32];

/// Identity of one run of `icdc copy`: random, the same for all its connections and reconnections.
pub type TransferId = [u8; 16];

/// Number of an entry, counted from 0 in the order in which the sender announces entries.
pub type EntryId = u32;

/// Everything that travels as the head of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// First message of the connecting end.
    Request(Request),
    /// The request is granted, by an end with these features.
    Accepted(Features),
    /// The request is refused; the connection ends.
    Refused(Refusal),

    /// First message of the sender: what the sources are.
    Begin(Begin),
    /// Entries in scan order (parents first); ids are consecutive over the whole session.
    Entries(Vec<Entry>),
    /// A range of a file; the payload holds the data of `ranges` back to back.
    Block(BlockHeader),
    /// Whole small files back to back in the payload.
    Pack(Vec<PackItem>),
    /// The sender is through with a large file, or gives an announced item up.
    FileEnd(FileEnd),
    /// All children of a directory have been announced.
    DirEnd {
        /// The directory.
        id: EntryId,
    },
    /// Something that was found but cannot be announced as an entry.
    Problem(Problem),
    /// What the scan found so far; the last one has `complete`.
    Totals(Totals),
    /// Nothing more will be announced and every wanted byte has been sent.
    End,
    /// Last message of the sender, after every item is accounted for.
    Goodbye(Goodbye),

    /// First message of the receiver. Said once more, it asks whether the sender is still there.
    Ready(Ready),
    /// Chaining values of blocks that an earlier run left durable, before the `Wants` that names the file.
    Held(Held),
    /// What the receiver wants of the entries `first..first + answers.len()`.
    Wants(Wants),
    /// A block that was held is not what the journal promised: send it after all.
    Resend {
        /// The file.
        id: EntryId,
        /// The block's number in the file.
        index: u32,
    },
    /// Items that are published under their final names, or failed.
    Done(Vec<Done>),
    /// State of the receiver, several times a second; also its sign of life.
    Feedback(Feedback),

    /// Sign of life of a sender that has nothing else to say.
    Ping,
    /// The user asked to stop; the receiver makes durable what it has and answers likewise.
    Interrupt,
    /// The session cannot go on.
    Abort(Refusal),

    /// Over a started far side's standard streams: who may connect.
    Bootstrap(Bootstrap),
    /// Answer to `Bootstrap`: where to connect.
    Listening(Listening),
    /// An event of a transfer that this end drives for another: a JSON object.
    Relay(Vec<u8>),
    /// Said between the two ends of a measurement.
    Measure(measure::ControlMessage),
    /// What the sender's TCP goes by, before its `Begin`.
    Congestion(Congestion),

    /// The sender's answer to every `Ready`: it is still there.
    Confirmed,
    /// A connection after the first has ended at this end before the session. Each end says so
    /// once of each, on the first connection; a receiver also when the sender has, whether or not
    /// it knows the connection. The sender transmits again what did not arrive.
    Left {
        /// Its number, see [`Job::Join`].
        connection: u8,
        /// Frames of data (`Block`, `Part`, `Pack`, `FileEnd`) that were handed to it by the sender, or
        /// that arrived over it at the receiver.
        frames: u64,
    },

    /// To a started far side over its standard streams, as long as it serves: connect to the
    /// starting end. From one that drives to the starting end: have the other one connect to it.
    ConnectBack(ConnectBack),
    /// Answer to `ConnectBack`, if that cannot be done.
    NotConnected {
        /// Which one.
        number: u32,
        /// Why not.
        reason: String,
    },

    /// From a sender that the other end has connected to: the path needs so many connections, the
    /// first included. The receiver makes them unless its user has named a number.
    Connections {
        /// Number of items.
        wanted: u8,
    },

    /// A part of a block, the others of which may come over other connections. All parts of one
    /// tell the same of it; a part that has come before means nothing.
    Part(Part),

    /// Notice of items that have not failed, as far as they have come.
    Notice(Notice),

    /// Before a [`Begin`](Self::Begin) that has no room for them: sources, ahead of its own.
    Sources(Vec<Source>),

    /// Behind [`Accepted`](Self::Accepted), to an end that has [`Features::MAX_RATE`]: the rate above which
    /// this end lets no session of the key go.
    MaxRate {
        /// Not zero.
        bytes_per_second: u64,
    },

    /// Another process writes what the receiver is to write; `None` when it is not waited for any more.
    Running(Option<Running>),
}

impl Message {
    /// Whether it may travel over any connection of a session and counts in [`Message::Left`].
    #[must_use]
    pub fn is_data(&self) -> bool {
        matches!(self, Self::Block(_) | Self::Part(_) | Self::Pack(_) | Self::FileEnd(_))
    }

    /// Name of its kind, for people.
    #[must_use]
    pub fn kind(&self) -> String {
        let text = format!("{self:?}");
        text.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default().to_owned()
    }
}

/// What the connecting end wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The run that this connection belongs to; a newer connection with the same id ends the older.
    pub transfer: TransferId,
    /// Those of the connecting end.
    pub features: Features,
    /// What shall be done.
    pub job: Job,
}

impl Request {
    /// A request of this release.
    #[must_use]
    pub fn new(transfer: TransferId, job: Job) -> Self {
        Self { transfer, features: Features::OURS, job }
    }
}

/// The kinds of work that can be asked of a far end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Receive into `destination`.
    Receive {
        /// Path as the user wrote it, relative to the root that the key is confined to.
        destination: Vec<u8>,
        /// How.
        options: ReceiveOptions,
    },
    /// Send `sources`.
    Send {
        /// Paths as the user wrote them.
        sources: Vec<Vec<u8>>,
        /// How.
        options: SendOptions,
    },
    /// A further connection of a running session, for blocks only.
    Join {
        /// Number of the connection, from 1.
        stream: u8,
    },
    /// Let the holder of `key` run `job` once, within the rights of the asking key.
    Admit {
        /// Ed25519 public key made for this transfer.
        key: [u8; 32],
        /// The only job allowed: `Receive`, `Send` or `Join`.
        #[serde(deserialize_with = "admissible")]
        job: Box<Job>,
    },
    /// Connect to another far end and send it `sources`; events come back as `Relay`.
    Drive(Drive),
    /// Tell the public key that this end will use for a `Drive` under this transfer id.
    DriveKey,
    /// Send or receive zeros and tell how they travel.
    Measure(measure::Order),
}

/// Decodes the job within `Admit` as a type that cannot nest: a chain of them in one head would exhaust the stack.
fn admissible<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<Job>, D::Error> {
    #[derive(Deserialize)]
    enum Admissible {
        Receive { destination: Vec<u8>, options: ReceiveOptions },
        Send { sources: Vec<Vec<u8>>, options: SendOptions },
        Join { stream: u8 },
    }
    Ok(Box::new(match Admissible::deserialize(deserializer)? {
        Admissible::Receive { destination, options } => Job::Receive { destination, options },
        Admissible::Send { sources, options } => Job::Send { sources, options },
        Admissible::Join { stream } => Job::Join { stream },
    }))
}

/// The route between two far ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriveRoute {
    /// The driving end connects to the other, or, if that does not work, the other to it.
    Auto,
    /// The driving end connects to the other.
    Direct,
    /// The other connects to the driving end, which asks for it by `ConnectBack`; the starting end
    /// passes that on.
    Back,
}

/// Work order for a far end that pushes to another far end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    /// Host that listens.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its Ed25519 public key.
    pub key: [u8; 32],
    /// What to send.
    pub sources: Vec<Vec<u8>>,
    /// By which route.
    pub route: DriveRoute,
    /// Ports to listen on for the other far end, inclusive; (0, 0) lets the system choose.
    pub ports: (u16, u16),
    /// How to send.
    pub send: SendOptions,
    /// Where to, on the listening host.
    pub destination: Vec<u8>,
    /// How it is to be received.
    pub receive: ReceiveOptions,
}

/// Options of the sending end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendOptions {
    /// Shell patterns of names and paths to leave out.
    pub exclude: Vec<String>,
    /// What to carry besides the data.
    pub preserve: Preserve,
    /// Ceiling of the rate.
    pub rate: Option<Rate>,
    /// Congestion control by its kernel name; `None` for the best that the sending end can have.
    pub congestion: Option<String>,
    /// Number of TCP connections, from 1; `None` for as many as the path needs.
    pub streams: Option<u8>,
    /// Only tell what would be sent.
    pub dry_run: bool,
    /// Read through the page cache instead of by Direct I/O.
    pub buffered: bool,
    /// Send zeros that no disk is read for.
    pub diskless: Option<Diskless>,
}

/// Options of the receiving end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveOptions {
    /// Read every file back from the medium before it is published, and those that an earlier run has published.
    pub verify: bool,
    /// Use what earlier runs left behind.
    pub resume: bool,
    /// Treatment of files that are there.
    pub existing: Existing,
    /// Treatment of a copy that another process is writing.
    pub if_running: IfRunning,
    /// Make the directories above the destination that are missing.
    pub mkpath: bool,
    /// What to restore besides the data.
    pub preserve: Preserve,
    /// Size of the ring of blocks between socket and disk; `None` for the default.
    pub ring: Option<ByteCount>,
    /// Only tell what would be received.
    pub dry_run: bool,
    /// Write through the page cache instead of by Direct I/O.
    pub buffered: bool,
    /// Write nothing.
    pub diskless: Option<Diskless>,
}

/// Treatment of a file that is at the destination already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    /// It is replaced.
    #[default]
    Replace,
    /// It stays if it has equal size and modification time, and a symbolic link if it has an equal
    /// target; attributes that differ are set.
    SkipEqual,
    /// As `SkipEqual`, and a regular file whose modification time is later stays as it is.
    Update,
}

/// A copy without its disks, by which everything else is measured. All options are the defaults but for
/// rate, congestion control and connections, and nothing is preserved ([`Preserve::NOTHING`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diskless {
    /// How much is sent.
    pub length: ByteCount,
    /// Blocks are digested at both ends and compared, as in a copy.
    pub hashed: bool,
}

/// What is carried besides names and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, one per word of --preserve")]
pub struct Preserve {
    /// Permission bits.
    pub mode: bool,
    /// Modification times.
    pub times: bool,
    /// Symbolic and hard links as links.
    pub links: bool,
    /// Numeric owner and group.
    pub owner: bool,
    /// Extended attributes.
    pub xattr: bool,
    /// Holes.
    pub sparse: bool,
}

impl SendOptions {
    /// What the receiver must have for them.
    #[must_use]
    pub fn needs(&self) -> Features {
        needs(self.diskless)
    }
}

impl ReceiveOptions {
    /// What the sender must have for them.
    #[must_use]
    pub fn needs(&self) -> Features {
        needs(self.diskless)
    }
}

fn needs(diskless: Option<Diskless>) -> Features {
    if diskless.is_some() { Features::DISKLESS } else { Features::NONE }
}

impl Preserve {
    /// The data, and nothing besides.
    pub const NOTHING: Self =
        Self { mode: false, times: false, links: false, owner: false, xattr: false, sparse: false };
}

impl Default for Preserve {
    fn default() -> Self {
        Self { mode: true, times: true, links: true, owner: false, xattr: false, sparse: true }
    }
}

/// Congestion control of the sending end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Congestion {
    /// The kernel's name of it.
    pub name: String,
    /// Why it is not the one that was asked for; empty if it is.
    pub instead: String,
}

/// Opening of the sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// Names the pair (source host, source paths), so that an interrupted run is known again.
    pub job: Digest,
    /// One per source, in the order of the command line.
    pub sources: Vec<Source>,
}

/// One source as the receiver needs to know it to place it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Last component of the path.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: SourceKind,
    /// Tells it from all others on the same running kernel, where that is known.
    pub identity: Option<Identity>,
}

/// Identity of a file or directory to ends on the same running kernel; nothing to others.
pub type Identity = [u8; 16];

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceKind {
    /// A file, a link or anything else that is not a directory.
    Item,
    /// A directory that is to arrive under its name.
    Directory,
    /// The contents of a directory (written with a trailing slash).
    Contents,
}

/// Where an entry lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Parent {
    /// It is the source of this number itself.
    Source(u32),
    /// In the directory with this id.
    Directory(EntryId),
}

/// A file, directory or link as announced by the sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Consecutive number.
    pub id: EntryId,
    /// Where it lives.
    pub parent: Parent,
    /// One component: any bytes but `/` and NUL; not empty, `.` or `..`. Empty for `Parent::Source`.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits (lower 12 bits).
    pub mode: u16,
    /// Modification time: seconds since 1970.
    pub mtime_seconds: i64,
    /// Modification time: nanoseconds, below 1e9.
    pub mtime_nanos: u32,
    /// Numeric owner and group, when carried.
    pub owner: Option<(u32, u32)>,
    /// Extended attributes (name, value), when carried.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Length in bytes.
        size: u64,
        /// Names this state of the source file: device, inode, size, mtime and ctime, hashed.
        version: [u8; 16],
        /// The file has holes worth keeping.
        sparse: bool,
        /// The file has further names; `HardLink` entries may refer to it.
        linked: bool,
    },
    /// A directory; its children follow, then `DirEnd`.
    Directory,
    /// A symbolic link.
    Symlink {
        /// What it points to, uninterpreted.
        target: Vec<u8>,
    },
    /// A further name of a file announced before.
    HardLink {
        /// That file.
        to: EntryId,
        /// Length of the file in bytes.
        size: u64,
        /// As [`File::version`](Self::File::version), if it has to be a file of its own.
        version: [u8; 16],
        /// The file has holes worth keeping.
        sparse: bool,
    },
}

/// Head of a block. The payload is the data of `ranges`; what lies between is zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockHeader {
    /// The file.
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
    /// The file.
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
    /// The bytes of the block that it carries; nothing where the block has no such part.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        let (start, length) = (usize::from(self.number) * PART_SIZE, self.length as usize);
        start.min(length)..(start + PART_SIZE).min(length)
    }
}

/// One small file in a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackItem {
    /// The file.
    pub id: EntryId,
    /// Its length, equal to the announced size.
    pub length: u32,
    /// Its BLAKE3 digest.
    pub digest: Digest,
}

/// Something that the sender leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Where: path as the sender shows it.
    pub path: Vec<u8>,
    /// Why.
    pub reason: String,
    /// It counts as an error (unreadable, a device node, …); otherwise it is left out on purpose.
    pub error: bool,
}

/// What the scan found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Entries of any kind.
    pub entries: u64,
    /// Regular files.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// The scan is through.
    pub complete: bool,
}

/// Last word of the sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodbye {
    /// Digest over names, metadata and file digests of all items, in scan order.
    pub tree: Digest,
    /// Payload bytes sent in this session.
    pub bytes_sent: u64,
    /// TCP segments retransmitted in this session.
    pub retransmitted_segments: u64,
    /// Items that failed at the sender.
    pub failed: u64,
    /// Where the sender's time went, in nanoseconds, by stage name.
    pub limited_by: Vec<(String, u64)>,
}

/// Opening of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// An earlier run of the same job was interrupted here and is continued.
    pub resuming: bool,
    /// Size of the receiver's ring in blocks.
    pub ring_blocks: u32,
}

/// Blocks of a file that the receiver already has, in runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The file.
    pub id: EntryId,
    /// Number of the first block.
    pub first: u32,
    /// Chaining values of `first`, `first + 1`, …
    pub values: Vec<Digest>,
}

/// Answers to announced entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wants {
    /// Id of the entry that `answers[0]` is about.
    pub first: EntryId,
    /// One per entry.
    pub answers: Vec<Want>,
}

/// What the receiver wants of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// All of it (for a directory or link: it will be made, nothing to send).
    All,
    /// Only the blocks that no `Held` named.
    Rest,
    /// Nothing: it is published with this digest, by this run or compared just now.
    Have(FileDigest),
    /// Nothing: an earlier run published it with this digest; not read since, but its size and time are right.
    TakenOver(FileDigest),
    /// Nothing: equal size and time, and the user asked to [skip](Existing::SkipEqual) such files.
    Skip,
    /// Nothing: it failed; a `Done` tells why.
    Failed,
    /// All of a hard link for which [`All`](Self::All) was answered before: it cannot be made, and
    /// becomes a file of its own.
    Contents,
    /// Nothing: what is there was modified later, and the user asked to [keep](Existing::Update) it.
    Keep,
}

/// State of the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// Payload bytes received in this session.
    pub received: u64,
    /// Bytes that would survive a power cut.
    pub durable: u64,
    /// Blocks of the ring that are complete and wait for the disk.
    pub ring_used: u32,
    /// Blocks of the ring.
    pub ring_blocks: u32,
    /// Mean rate at which the disk took what waited over its last two seconds of work, bytes per second; `None` while
    /// it is not known.
    pub write_rate: Option<u64>,
}

/// Why a request or a session was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Kind, for the exit code and for what the client does next.
    pub kind: RefusalKind,
    /// What, where and what to do.
    pub reason: String,
}

impl Refusal {
    /// A refusal of this kind, with the words for it.
    pub fn new(kind: RefusalKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }
}

/// Kinds of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    /// The key does not have this right.
    NotAllowed,
    /// The path is no good (missing source, destination not a directory, …).
    Path,
    /// The other end broke the protocol.
    Protocol,
    /// This end is stopping or overloaded.
    Busy,
    /// Interrupted by the user of the other end.
    Interrupted,
    /// A local failure (memory, disk, …).
    Internal,
    /// Another process writes it already, and its end was not to be waited for.
    Running,
}

/// First message over a started far side's standard input. The same in every version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Of the protocol, those that the starting end speaks.
    pub versions: Versions,
    /// Those of the starting end.
    pub features: Features,
    /// Release of the starting end, for messages.
    pub version: String,
    /// What it is started for.
    pub task: FarTask,
    /// Restricts the address family: 4, 6 or 0 for both.
    pub family: u8,
}

/// What a far side is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FarTask {
    /// Listens for one end, and serves it.
    Serve {
        /// Ed25519 key of the end that will connect.
        peer: [u8; 32],
        /// Ports to listen on, inclusive; (0, 0) lets the system choose.
        ports: (u16, u16),
    },
    /// Drives a transfer to another far side, over its standard streams.
    Drive,
    /// Connects its standard streams to one that listens on the same host. After `Listening` they
    /// carry the bytes of that connection.
    Forward {
        /// Where that one listens.
        port: u16,
    },
}

/// A connection that a far side is to make, because its own port cannot be reached. It begins with
/// the SHA-256 digest of the secret, and is then like one to that port: the starting end speaks
/// first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectBack {
    /// Names it in the answer.
    pub number: u32,
    /// Its digest tells the starting end this connection from others. Not itself: who asks for a
    /// connection must not choose what is written where.
    pub secret: [u8; 32],
    /// The starting end's; the far side may know another.
    pub addresses: Vec<IpAddr>,
    /// Only an address of another host than the far side's will do: it is another end that has
    /// named addresses and port, and that has no business with what listens on this host.
    pub elsewhere: bool,
    /// Where it listens.
    pub port: u16,
}

/// Answer to `Bootstrap`. The same in every version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Those of the far side.
    pub features: Features,
    /// Release of the far side.
    pub version: String,
    /// Its Ed25519 public key for this transfer; zeros for an end that only forwards.
    pub key: [u8; 32],
    /// Port it listens on, or forwards to; 0 for an end that only drives.
    pub port: u16,
}
