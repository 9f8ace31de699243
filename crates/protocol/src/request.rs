//! Requests: the work that a connecting end asks for, with its options.

use icdc_units::{ByteCount, Rate};
use serde::{Deserialize, Serialize};

use crate::change::ChangeRequest;
use crate::choice::Choice;
use crate::compression::Compress;
use crate::deletion::{Delete, Mirrored};
use crate::directory_links::DirectoryLinks;
use crate::listing::ListRequest;
use crate::measure;
use crate::message::{Digest, TransferId};
use crate::mode_change::ModeChange;
use crate::owners::OwnerMapping;
use crate::ports::Ports;
use crate::running::IfRunning;
use crate::snapshot::Snapshot;
use crate::version::Features;

/// Work that the connecting end asks for, with the run that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Id of the run that this connection belongs to; a newer connection with the same id ends the
    /// older.
    pub transfer: TransferId,
    /// Features of the connecting end.
    pub features: Features,
    /// Work that is asked for.
    pub job: Job,
}

impl Request {
    /// A request with the features of this release.
    #[must_use]
    pub fn new(transfer: TransferId, job: impl Into<Job>) -> Self {
        Self { transfer, features: Features::OURS, job: job.into() }
    }
}

/// The kinds of work that can be asked of a far end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Send or receive files.
    Transfer(Transfer),
    /// A further connection of a running session, for blocks only.
    Join {
        /// Number of the connection, from 1.
        stream: u8,
    },
    /// Let the holder of `key` run `job` once, within the rights of the asking key.
    Admit {
        /// Ed25519 public key of the holder, made for this transfer.
        key: [u8; 32],
        /// The only job that the key is allowed, besides joining its session.
        job: Box<Transfer>,
    },
    /// Connect to another far end and send it `sources`; events are returned as `Relay`.
    Drive(Box<Drive>),
    /// Give the public key that this end will use for a `Drive` with this transfer id.
    DriveKey,
    /// Send or receive zeros and report throughput and TCP statistics.
    Measure(measure::MeasureRequest),
    /// Tell what is there: names, metadata, digests.
    List(ListRequest),
    /// Make directories, remove or rename items.
    Change(ChangeRequest),
}

/// Files to be sent or received over the connection that asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transfer {
    /// Receive files into `destination`.
    Receive {
        /// Path as the user wrote it, relative to the root that the key is confined to.
        destination: Vec<u8>,
        /// Options of the receiving end.
        options: ReceiveOptions,
    },
    /// Send the files of `sources`.
    Send {
        /// Paths of the sources as the user wrote them.
        sources: Vec<Vec<u8>>,
        /// Options of the sending end.
        options: SendOptions,
    },
}

impl From<Transfer> for Job {
    fn from(transfer: Transfer) -> Self {
        Self::Transfer(transfer)
    }
}

impl Transfer {
    /// The data that is copied, if this transfer is a copy without disks; otherwise `None`.
    #[must_use]
    pub fn diskless(&self) -> Option<Diskless> {
        match self {
            Self::Receive { options, .. } => options.diskless,
            Self::Send { options, .. } => options.diskless,
        }
    }
}

/// Direction of connections between two far ends, one of which (the driving one) sends to the
/// other: who connects to whom, or either if one way does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriveRoute {
    /// The driving end connects to the other, or, if that does not work, the other to it.
    Auto,
    /// The driving end connects to the other, and nothing else is tried.
    Direct,
    /// The other connects to the driving end, which asks for it by `ConnectBack`; the starting end
    /// passes that on.
    Back,
}

/// Work order for a far end that pushes to another far end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    /// Host name or address of the far end that listens.
    pub host: String,
    /// TCP port on which that far end listens, not 0.
    pub port: u16,
    /// Ed25519 public key of that far end.
    pub key: [u8; 32],
    /// Paths of the files that are sent.
    pub sources: Vec<Vec<u8>>,
    /// Route of the connections between the far ends: which one connects to the other.
    pub route: DriveRoute,
    /// Ports on which to listen for the other far end.
    pub ports: Ports,
    /// Options of the sending end.
    pub send: SendOptions,
    /// Path of the destination on the listening host.
    pub destination: Vec<u8>,
    /// Options of the receiving end.
    pub receive: ReceiveOptions,
}

/// Options of a transfer for the end that sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendOptions {
    /// Choice of what of the sources is copied.
    pub choice: Choice,
    /// Metadata that is carried besides the data.
    pub preserve: Preserve,
    /// Ceiling of the send rate; `None` for no ceiling.
    pub rate: Option<Rate>,
    /// Congestion control by its kernel name; `None` for the best that the sending end can have.
    pub congestion: Option<String>,
    /// Number of TCP connections, from 1; `None` for as many as the path needs.
    pub streams: Option<u8>,
    /// Whether this is a dry run: what would be sent is only reported.
    pub dry_run: bool,
    /// Whether to read through the page cache instead of by Direct I/O.
    pub buffered: bool,
    /// Data to send as zeros that are read from no disk; `None` for an ordinary copy.
    pub diskless: Option<Diskless>,
    /// Deletion at the receiver of what is not announced.
    pub mirrored: Mirrored,
    /// Whether each item is removed at the source once the receiver has published it durably.
    pub moves: bool,
    /// Digest of the list of the names that are sent, which are below the only source; `None` to
    /// send everything.
    pub listed: Option<Digest>,
    /// Whether directories are left out in which nothing is sent but directories.
    pub prune_empty_dirs: bool,
    /// Whether the names of owners, and of those whom access control lists name, are told.
    pub owner_names: bool,
    /// Whether digests that the receiver asks for may be those that earlier runs have kept
    /// ([`crate::digest_cache`]).
    pub known_digests: bool,
    /// Compression of the data on its way.
    pub compress: Compress,
    /// Whether the transfer gives way to other traffic on its path.
    pub background: bool,
    /// Whether a source that is a block device is sent as a file with the device's contents.
    pub copy_devices: bool,
}

/// Options of a transfer for the end that receives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveOptions {
    /// Whether to read every file back from the medium before it is published, and those that an
    /// earlier run has published.
    pub verify: bool,
    /// Whether to use the unfinished files and journals of earlier runs.
    pub resume: bool,
    /// Treatment of files that exist at the destination.
    pub existing: Existing,
    /// Treatment of a copy that another process is writing.
    pub if_running: IfRunning,
    /// Whether to make the directories above the destination that are missing.
    pub mkpath: bool,
    /// Metadata that is restored besides the data.
    pub preserve: Preserve,
    /// Size of the ring of blocks between socket and disk, in bytes; `None` for the default.
    pub ring: Option<ByteCount>,
    /// Whether this is a dry run: what would be received is only reported.
    pub dry_run: bool,
    /// Whether to write through the page cache instead of by Direct I/O.
    pub buffered: bool,
    /// Data to receive and write nowhere; `None` for an ordinary copy.
    pub diskless: Option<Diskless>,
    /// Place that an earlier session of the run has given the source; `None` in the first one.
    pub place: Option<SourcePosition>,
    /// Whether a single directory keeps its name in the destination even if that does not exist yet;
    /// otherwise it becomes the destination then, as with `cp`.
    pub keeps_name: bool,
    /// Deletion of items that the source does not have; `None` to delete nothing.
    pub delete: Option<Delete>,
    /// Paths of the reference directories, absolute or from the parent of the destination: a file
    /// that is unchanged in one of them is linked from there instead of being sent.
    pub link_dest: Vec<Vec<u8>>,
    /// Treatment of items that do not exist at the destination.
    pub missing: Missing,
    /// Snapshot to be made in the destination; `None` for an ordinary copy.
    pub snapshot: Option<Snapshot>,
    /// Place of replaced and deleted items; `None` to keep none.
    pub backup: Option<Box<Backup>>,
    /// Whether the sender is given a receipt ([`crate::receipt`]), signed by the receiving end.
    pub receipt: bool,
    /// Changes of the modes that the sender announces, made in their order.
    pub chmod: Vec<ModeChange>,
    /// Mapping of owners from the numbers that the sender announces.
    pub owners: Box<OwnerMapping>,
    /// Whether files travel whole even where existing ones may have parts in common with them.
    pub whole_files: bool,
    /// Symbolic links to directories that are kept and followed; `None` to follow none.
    pub directory_links: Option<DirectoryLinks>,
    /// Whether the digests of existing files may be those that earlier runs have kept
    /// ([`crate::digest_cache`]).
    pub known_digests: bool,
    /// Whether the only file is written into the block device that is the destination.
    pub write_device: bool,
    /// Whether content that has moved within large files is looked for, and not sent.
    pub delta: bool,
    /// Paths of files and directories, absolute or from the parent of the destination, in which content
    /// of large files is looked for besides those that they replace; only with `delta`.
    pub bases: Vec<Vec<u8>>,
    /// Whether large files that exist at the destination are written where they are, instead of being
    /// replaced by new ones.
    pub in_place: bool,
}

/// Place where the receiver keeps the items that the copy replaces or deletes at the destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Path of the directory for them, absolute or from the parent of the destination: each is kept
    /// there under its path below the destination. `None` to keep each in its own directory.
    pub directory: Option<Vec<u8>>,
    /// Bytes added to the names of those that are no directories; not empty without a directory.
    pub suffix: Vec<u8>,
}

/// Position of the only source, a directory: it is the destination itself, or goes into it. The
/// run's first session decides that by the rule of `cp`, and later sessions ask for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourcePosition {
    /// The destination itself becomes the copy.
    Named,
    /// The copy goes into the destination, a directory that exists.
    Inside,
}

/// Treatment of a file that is at the destination already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    /// The existing file is replaced.
    #[default]
    Replace,
    /// The existing file is kept if it is equal, and a symbolic link if it has an equal target;
    /// attributes that differ are set.
    SkipEqual(Equality),
    /// The existing file is treated as by `SkipEqual`; in addition, a regular file whose
    /// modification time is later than the source's is kept.
    Update(Equality),
    /// Whatever has the item's name is kept; directories are filled.
    Keep,
}

impl Existing {
    /// Whether equal files and links are skipped.
    #[must_use]
    pub fn skips_equal(self) -> bool {
        self.equality().is_some()
    }

    /// Condition on which a file is equal and skipped; `None` if none is skipped for that.
    #[must_use]
    pub fn equality(self) -> Option<Equality> {
        match self {
            Self::SkipEqual(equality) | Self::Update(equality) => Some(equality),
            Self::Replace | Self::Keep => None,
        }
    }
}

/// Properties in which two regular files agree that count as equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Equality {
    /// Size and modification time.
    #[default]
    SizeAndTime,
    /// Size.
    Size,
    /// Contents, by the digest that both ends have of them.
    Contents,
}

/// Treatment of an item that does not exist at the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// The item is made.
    #[default]
    Make,
    /// The item is left out, a directory with everything in it.
    LeaveOut,
}

/// A copy of zeros that are read from no disk and written to none, by which everything else is
/// measured. All options are the defaults but for rate, congestion control and connections, and
/// nothing is preserved ([`Preserve::NOTHING`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diskless {
    /// Length of the data, in bytes.
    pub length: ByteCount,
    /// Whether blocks are digested at both ends and compared, as in a copy.
    pub hashed: bool,
}

/// Metadata that is carried besides names and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, one per word of --preserve")]
pub struct Preserve {
    /// Whether permission bits are carried.
    pub mode: bool,
    /// Whether modification times are carried.
    pub times: bool,
    /// Whether symbolic and hard links are carried as links.
    pub links: bool,
    /// Whether numeric owner and group are carried.
    pub owner: bool,
    /// Whether extended attributes are carried.
    pub xattr: bool,
    /// Whether holes are carried.
    pub sparse: bool,
    /// Whether access control lists are carried.
    pub acl: bool,
    /// Whether named pipes and sockets are carried, and, together with the owner, device nodes.
    pub specials: bool,
    /// Whether extended attributes of the `security` namespace are carried, together with the owner.
    pub security: bool,
}

impl SendOptions {
    /// Features that the receiver must have for these options.
    #[must_use]
    pub fn needs(&self) -> Features {
        needs(self.diskless, self.mirrored != Mirrored::No, self.mirrored == Mirrored::Snapshot)
            .union(self.preserve.needs())
            .union(if self.owner_names { Features::OWNER_NAMES } else { Features::NONE })
    }
}

impl ReceiveOptions {
    /// Features that the sender must have for these options.
    #[must_use]
    pub fn needs(&self) -> Features {
        let needed = needs(self.diskless, self.delete.is_some(), self.snapshot.is_some())
            .union(self.preserve.needs())
            .union(if self.learns_owner_names() { Features::OWNER_NAMES } else { Features::NONE });
        if self.existing.equality() == Some(Equality::Contents) { needed.union(Features::CHECKSUM) } else { needed }
    }

    /// Features that the receiver itself must have for these options, as far as the sender is not told
    /// of them by its own.
    #[must_use]
    pub fn needs_here(&self) -> Features {
        needed([
            (self.receipt, Features::RECEIPT),
            (self.directory_links.is_some(), Features::DIRECTORY_LINKS),
            (self.write_device, Features::DEVICES),
            (self.in_place, Features::IN_PLACE),
        ])
    }

    /// Features without which the copy is made, in another way than these options ask.
    #[must_use]
    pub fn wishes(&self) -> Features {
        if self.delta { Features::DELTA } else { Features::NONE }
    }

    /// Whether the sender is to tell the names of owners, or of those whom access control lists name.
    #[must_use]
    pub fn learns_owner_names(&self) -> bool {
        (self.preserve.owner || self.preserve.acl) && self.owners.needs_names()
    }
}

/// Features that the other end must have for this kind of copy.
fn needs(diskless: Option<Diskless>, deletes: bool, is_snapshot: bool) -> Features {
    needed([(diskless.is_some(), Features::DISKLESS), (deletes, Features::DELETION), (is_snapshot, Features::SNAPSHOT)])
}

/// Those of the features that are needed.
fn needed<const N: usize>(features: [(bool, Features); N]) -> Features {
    let needed = features.into_iter().filter(|(is_needed, _)| *is_needed);
    needed.fold(Features::NONE, |all, (_, feature)| all.union(feature))
}

impl Preserve {
    /// No metadata is carried besides names and data.
    pub const NOTHING: Self = Self {
        mode: false,
        times: false,
        links: false,
        owner: false,
        xattr: false,
        sparse: false,
        acl: false,
        specials: false,
        security: false,
    };

    /// The kinds of metadata: the word for each, and whether it is carried.
    pub fn kinds(&mut self) -> [(&'static str, &mut bool); 9] {
        [
            ("mode", &mut self.mode),
            ("times", &mut self.times),
            ("links", &mut self.links),
            ("owner", &mut self.owner),
            ("xattr", &mut self.xattr),
            ("acl", &mut self.acl),
            ("specials", &mut self.specials),
            ("sparse", &mut self.sparse),
            ("security", &mut self.security),
        ]
    }

    /// Whether capabilities of programs are carried: they mean nothing without the owner.
    #[must_use]
    pub fn capabilities(self) -> bool {
        self.owner && (self.xattr || self.security)
    }

    /// Whether labels and the rest of the `security` namespace are carried.
    #[must_use]
    pub fn labels(self) -> bool {
        self.owner && self.security
    }

    /// Whether any extended attributes are carried.
    #[must_use]
    pub fn attributes(self) -> bool {
        self.xattr || self.acl || self.security
    }

    /// Features that the other end must have.
    fn needs(self) -> Features {
        if self.acl || self.specials || self.security { Features::ATTRIBUTES } else { Features::NONE }
    }
}

impl Default for Preserve {
    fn default() -> Self {
        Self { mode: true, times: true, links: true, sparse: true, ..Self::NOTHING }
    }
}
