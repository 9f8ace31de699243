//! Versions of the protocol that an end speaks, and its features beyond them.
//!
//! Version. An end speaks every version of a range `[l, h]`. Two ends use the highest that both
//! have:
//!
//! ```text
//! v = min(h₁, h₂)  if that is ≥ max(l₁, l₂); otherwise there is none, and the end with the smaller h is
//!                  the one to upgrade
//! ```
//!
//! | carrier | offered | agreed |
//! |---|---|---|
//! | TLS | the client's ALPN names: `icdc/h` … `icdc/l`, last `icdc` | the server takes the highest of them that it has too; `icdc` where that is none: each end then sends the line `ICDC-VERSIONS l-h` and closes |
//! | streams of a far side that ssh started | by the near end in [`Bootstrap`](crate::message::Bootstrap), by the far end in the lines `ICDC-VERSIONS l-h` and `ICDC-FAR-END l` | each end computes v; the near end tells where there is none |
//!
//! An end that has one version only sends and understands the second line alone.
//!
//! Features. Anything optional in version v is a bit: F₁ and F₂ are exchanged in the first message
//! of each end (`Bootstrap` and `Listening`, `Request` and `Accepted`), and only the features in F₁
//! ∩ F₂ are used. Unknown bits are ignored.
//!
//! Equal in every version: the ALPN names, the two lines, `Bootstrap`, `Listening`, and `Refused`
//! as the answer to a `Bootstrap`. Anything new in these is a feature.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{MIN_VERSION, VERSION};

/// Prefix of the ALPN name of a version, and of a version number in messages.
const NAME: &str = "icdc/";
/// ALPN name of the handshake by which two ends learn that they have no common version.
pub const NONE_IN_COMMON: &[u8] = b"icdc";
/// First part of the line by which an end tells its range of versions, before the numbers.
const LINE: &str = "ICDC-VERSIONS ";
/// Longest such line in bytes, its newline included.
pub const LONGEST_LINE: usize = 40;
/// Most versions that an end may offer. Each takes some ten bytes of a ClientHello.
const MOST: u32 = 64;

/// A range of protocol versions, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    lowest: u32,
    highest: u32,
}

impl Versions {
    /// The versions that this release speaks.
    pub const OURS: Self = Self { lowest: MIN_VERSION, highest: VERSION };

    /// The range from `lowest` to `highest`, both included; `None` if that is no range, or a very
    /// long one.
    #[must_use]
    pub fn new(lowest: u32, highest: u32) -> Option<Self> {
        let range = Self { lowest, highest };
        range.is_range().then_some(range)
    }

    /// Whether it is a range: from version 1 on, not reversed, and of at most as many versions as
    /// one may list.
    pub(crate) fn is_range(self) -> bool {
        self.lowest >= 1 && self.highest.checked_sub(self.lowest).is_some_and(|more| more < MOST)
    }

    /// The lowest version of the range.
    #[must_use]
    pub fn lowest(self) -> u32 {
        self.lowest
    }

    /// The highest version of the range.
    #[must_use]
    pub fn highest(self) -> u32 {
        self.highest
    }

    /// The highest version that both ranges have; `None` if they have none in common.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u32> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }

    /// The ALPN names by which the range is offered, the preferred one first.
    #[must_use]
    pub fn names(self) -> Vec<Vec<u8>> {
        let versions = (self.lowest..=self.highest).rev().map(|version| format!("{NAME}{version}").into_bytes());
        versions.chain([NONE_IN_COMMON.to_vec()]).collect()
    }

    /// The range that ALPN names offer; `None` if they name no version.
    #[must_use]
    pub fn named(names: &[Vec<u8>]) -> Option<Self> {
        let versions = || names.iter().filter_map(|name| version_named(name));
        Self::new(versions().min()?, versions().max()?)
    }

    /// The line `ICDC-VERSIONS l-h` that tells this range, newline included.
    #[must_use]
    pub fn line(self) -> String {
        format!("{LINE}{}-{}\n", self.lowest, self.highest)
    }

    /// Parses the line `ICDC-VERSIONS l-h`, with or without its newline; `None` if it is malformed.
    #[must_use]
    pub fn parse_line(line: &[u8]) -> Option<Self> {
        let (lowest, highest) = std::str::from_utf8(line).ok()?.trim_end().strip_prefix(LINE)?.split_once('-')?;
        Self::new(number(lowest)?, number(highest)?)
    }

    /// Advice for the user where two ends have no common version: which of them to upgrade.
    #[must_use]
    pub fn remedy(self, theirs: Self) -> &'static str {
        if self.highest < theirs.highest { "upgrade icdc on this host" } else { "upgrade icdc there" }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { lowest, highest } if lowest == highest => write!(f, "{NAME}{highest}"),
            Self { lowest, highest } => write!(f, "{NAME}{lowest} to {NAME}{highest}"),
        }
    }
}

/// The version that an ALPN name stands for; `None` for any other name.
#[must_use]
pub fn version_named(name: &[u8]) -> Option<u32> {
    number(std::str::from_utf8(name).ok()?.strip_prefix(NAME)?)
}

/// Parses digits without a sign or leading zeros; `None` for anything else.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if plain { text.parse().ok() } else { None }
}

/// A set of optional features of the protocol, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features(u64);

impl Features {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The end can copy without its disks ([`Diskless`](crate::message::Diskless)).
    pub const DISKLESS: Self = Self(1);
    /// The receiver puts blocks together from parts ([`Part`](crate::message::Part)).
    pub const PARTS: Self = Self(1 << 1);
    /// The end that requests accepts the rate limit of its key
    /// ([`MaxRate`](crate::Message::MaxRate)).
    pub const MAX_RATE: Self = Self(1 << 2);
    /// The end can mirror: as a sender it tells what it leaves out, as a receiver it deletes what
    /// the source does not have ([`Delete`](crate::message::Delete)).
    pub const DELETION: Self = Self(1 << 3);
    /// The end lists what is there ([`ListRequest`](crate::message::ListRequest)).
    pub const LISTING: Self = Self(1 << 4);
    /// As the sender, the end tells the digest of a file that the receiver has with equal size
    /// ([`Equality::Contents`](crate::message::Equality::Contents)).
    pub const CHECKSUM: Self = Self(1 << 5);
    /// As the sender of a mirror, the end compares files that may have been renamed
    /// ([`Candidates`](crate::message::Candidates)).
    pub const RENAMES: Self = Self(1 << 6);
    /// The end can make snapshots ([`Snapshot`](crate::message::Snapshot)).
    pub const SNAPSHOT: Self = Self(1 << 7);
    /// The end carries named pipes, sockets and device nodes, access control lists apart from other
    /// attributes, and the `security` namespace.
    pub const ATTRIBUTES: Self = Self(1 << 8);
    /// As a receiver, the end signs receipts ([`crate::receipt`]).
    pub const RECEIPT: Self = Self(1 << 9);
    /// The end makes, removes and renames items ([`ChangeRequest`](crate::message::ChangeRequest)).
    pub const CHANGES: Self = Self(1 << 10);
    /// The end tells, and finds, owners by their names ([`crate::owners`]).
    pub const OWNER_NAMES: Self = Self(1 << 11);
    /// As the sender, the end sends only the difference between a file and the one that it replaces
    /// ([`Basis`](crate::message::Basis)).
    pub const DIFFERENCES: Self = Self(1 << 12);
    /// As a receiver, the end keeps symbolic links to directories and fills these
    /// ([`DirectoryLinks`](crate::message::DirectoryLinks)).
    pub const DIRECTORY_LINKS: Self = Self(1 << 13);
    /// As a receiver, the end takes files whose length is known only at their end
    /// ([`Stream`](crate::message::EntryKind::Stream)).
    pub const STREAMS: Self = Self(1 << 14);
    /// As a receiver, the end takes payloads that are compressed
    /// ([`Compressed`](crate::message::Compressed)).
    pub const COMPRESSION: Self = Self(1 << 15);
    /// As the end that drives a copy between two, the end passes the receipt on to the client; as the
    /// one that receives and that ssh has started, it tells the client the key that signs
    /// ([`PassedReceipt`](crate::message::PassedReceipt)).
    pub const PASSED_RECEIPTS: Self = Self(1 << 16);
    /// As the sender, the end takes changes of the ceiling of the receiver's user
    /// ([`UserCeiling`](crate::Message::UserCeiling)).
    pub const USER_CEILING: Self = Self(1 << 17);
    /// The end reads a block device as a file, and writes one file into a block device
    /// ([`SendOptions::copy_devices`](crate::message::SendOptions::copy_devices),
    /// [`ReceiveOptions::write_device`](crate::message::ReceiveOptions::write_device)).
    pub const DEVICES: Self = Self(1 << 18);
    /// The end that requests takes changes of the limit of its key
    /// ([`KeyCeiling`](crate::Message::KeyCeiling)).
    pub const KEY_CEILING: Self = Self(1 << 19);
    /// As the sender, the end takes what is durable of a stream
    /// ([`StreamDurable`](crate::Message::StreamDurable)); as a receiver, it continues one that an earlier
    /// session has left ([`StreamFrom`](crate::Message::StreamFrom)).
    pub const STREAM_PLACES: Self = Self(1 << 20);
    /// As the sender, the end finds content that has moved within a file, or comes from another one
    /// ([`Chunks`](crate::message::Chunks)).
    pub const DELTA: Self = Self(1 << 21);
    /// As a receiver, the end writes existing files at their place
    /// ([`ReceiveOptions::in_place`](crate::message::ReceiveOptions::in_place)); as the sender, it takes
    /// which ones ([`InPlace`](crate::Message::InPlace)).
    pub const IN_PLACE: Self = Self(1 << 22);
    /// As the end that makes connections, the end hears that datagrams are wanted
    /// ([`DatagramsWanted`](crate::Message::DatagramsWanted)).
    pub const DATAGRAMS: Self = Self(1 << 23);
    /// The features of this release.
    pub const OURS: Self = Self(
        Self::DISKLESS.0
            | Self::PARTS.0
            | Self::MAX_RATE.0
            | Self::DELETION.0
            | Self::LISTING.0
            | Self::CHECKSUM.0
            | Self::RENAMES.0
            | Self::SNAPSHOT.0
            | Self::ATTRIBUTES.0
            | Self::RECEIPT.0
            | Self::CHANGES.0
            | Self::OWNER_NAMES.0
            | Self::DIFFERENCES.0
            | Self::DIRECTORY_LINKS.0
            | Self::STREAMS.0
            | Self::COMPRESSION.0
            | Self::PASSED_RECEIPTS.0
            | Self::USER_CEILING.0
            | Self::DEVICES.0
            | Self::KEY_CEILING.0
            | Self::STREAM_PLACES.0
            | Self::DELTA.0
            | Self::IN_PLACE.0
            | Self::DATAGRAMS.0,
    );

    /// The set of these bits, whatever they mean.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits of the set.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether all of `others` are in this set.
    #[must_use]
    pub fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// The features that are in either set.
    #[must_use]
    pub fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// This set without these features.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Sentence on what an end with these features cannot do, with the remedy, if one of `needed`
    /// is missing; otherwise `None`.
    #[must_use]
    pub fn lacking(self, needed: Self) -> Option<&'static str> {
        let known = [
            (
                Self::DISKLESS,
                "the far end cannot copy without its disks; upgrade icdc there, or measure without --secure",
            ),
            (
                Self::PARTS,
                "the far end cannot put blocks together from parts: the last ones travel whole, which takes longer over several connections; upgrade icdc there",
            ),
            (
                Self::DELETION,
                "the far end cannot delete what the source does not have; upgrade icdc there, or copy without --delete",
            ),
            (Self::LISTING, "the far end cannot list what is there; upgrade icdc there"),
            (Self::SNAPSHOT, "the far end cannot make snapshots; upgrade icdc there, or copy without --snapshot"),
            (
                Self::STREAMS,
                "the far end cannot take a stream of unknown length; upgrade icdc there, or write it to a file and copy that",
            ),
            (
                Self::STREAM_PLACES,
                "the far end cannot continue a stream; upgrade icdc there, or copy all of it without --resume-stream",
            ),
            (Self::CHANGES, "the far end cannot make, remove and rename items; upgrade icdc there"),
            (
                Self::DIRECTORY_LINKS,
                "the far end does not follow links to directories; upgrade icdc there, or copy without --keep-dirlinks",
            ),
            (
                Self::DEVICES,
                "the far end does not read or write block devices; upgrade icdc there, or have dd read or write the device and copy by \
                 standard input or output",
            ),
            (
                Self::DELTA,
                "the far end does not find content that has moved: large files are compared place by place, and with a named basis not \
                 at all; upgrade icdc there",
            ),
            (
                Self::IN_PLACE,
                "the far end does not write files in place; upgrade icdc there, or copy without --in-place, for which it needs room for \
                 a second copy of each large file",
            ),
            (Self::RECEIPT, "the far end cannot sign receipts; upgrade icdc there, or copy without --receipt"),
            (
                Self::PASSED_RECEIPTS,
                "the far end cannot pass a receipt on to a third host; upgrade icdc there, or run icdc on one of both hosts",
            ),
            (
                Self::ATTRIBUTES,
                "the far end does not know all that --preserve names; upgrade icdc there, or leave acl, specials and security out",
            ),
            (
                Self::OWNER_NAMES,
                "the far end knows owners by number only, and the same number may be somebody else here; upgrade icdc there, or \
                 keep the numbers with --numeric-ids",
            ),
        ];
        let lacking = known.into_iter().find(|(feature, _)| needed.has(*feature) && !self.has(*feature));
        lacking.map(|(_, sentence)| sentence)
    }
}
