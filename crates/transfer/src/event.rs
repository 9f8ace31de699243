//! Typed events of a transfer.
//!
//! One stream feeds the progress bar, the JSON lines and the report, and crosses the wire as JSON
//! when one end drives a transfer for another. Field names carry their unit: this is the documented
//! output format, which is why the quantities are plain numbers here.

use std::collections::BTreeMap;
use std::sync::Arc;

use icdc_protocol::message::{ChangedItem, Deletion, IfRunning, Kept, Running, SnapshotNews, Uncompressed};
use icdc_rate::ceilings::Limiter;
use icdc_rate::controller::{Cause, Pace};
use icdc_rate::path_ceiling::Reason;
use icdc_units::Rate;
use serde::{Deserialize, Serialize};

use crate::notices::Noticed;
use crate::path_text;

/// Callback that takes the events of a run, from any thread, in the order in which they happen on
/// that thread.
pub type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// Event of a transfer, for progress displays, JSON output and reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run begins.
    Started {
        /// Release of the program.
        version: String,
        /// Sources, as the user wrote them.
        sources: Vec<String>,
        /// Destination path, as the user wrote it.
        destination: String,
    },
    /// The run is connecting to the far end.
    Connecting {
        /// Other end that is connected to: host and port, or a host reached by ssh.
        to: String,
    },
    /// Route that the data takes to a far end that ssh has started.
    Route {
        /// Route that the data takes.
        via: Via,
        /// Reason why the previous route was not used; empty for the first.
        reason: String,
    },
    /// A data connection is established.
    Connected {
        /// Address of the other end.
        peer: String,
        /// Number of the connection, from 0.
        stream: u8,
        /// Cipher suite by its registered name; empty within one process.
        cipher: String,
        /// Congestion control of the sending socket; empty where unknown.
        congestion: String,
    },
    /// Result of the scan of the sources so far.
    Scanned {
        /// Regular files.
        files: u64,
        /// Sum of the sizes of these files.
        bytes: u64,
        /// Whether the scan is complete.
        complete: bool,
    },
    /// State of the run, several times a second.
    Progress(Sample),
    /// Outcome of one item.
    Item {
        /// Path below the destination; bytes that are not UTF-8 are replaced.
        path: String,
        /// Size of its contents; 0 for anything but a regular file.
        bytes: u64,
        /// BLAKE3 digest in hex, for a regular file whose contents were digested.
        digest: Option<String>,
        /// Outcome of the item.
        outcome: Outcome,
        /// Reason of a failure.
        reason: Option<String>,
    },
    /// An item of sources that are followed (`--follow`) is durable at the destination.
    Followed {
        /// Path from the source's parent; bytes that are not UTF-8 are replaced.
        path: String,
        /// Size of its contents in bytes.
        bytes: u64,
        /// Seconds since its writer closed it, or since it was last changed.
        lag_s: f64,
    },
    /// A notice for the user that is no failure.
    Notice {
        /// Text of the notice, a sentence for the user.
        text: String,
    },
    /// Another icdc process is writing to the same destination.
    Running {
        /// Path that the other process writes; bytes that are not UTF-8 are replaced.
        path: String,
        /// Process id of the other icdc on the receiving host; `None` where it cannot be seen.
        pid: Option<u32>,
        /// Seconds since the other process was started; `None` where that cannot be seen.
        age_s: Option<u64>,
        /// Reaction of this copy to the other process.
        then: IfRunning,
    },
    /// This copy has stopped waiting for the other icdc process.
    Waited,
    /// An existing file is written at its place from now on (`--in-place`): it is inconsistent until its
    /// `Item` follows.
    InPlace {
        /// Path of the item, as in its `Item`.
        path: String,
    },
    /// Notices of a session that has ended.
    Noticed(Noticed),
    /// The sender has changed the ceiling of its own sending rate.
    Pace {
        /// Ceiling of the sender's rate for this reason, in bits per second; 0 for no limit.
        ceiling_bps: u64,
        /// Reason of the change.
        reason: PaceReason,
    },
    /// The sender has decided anew whether data is compressed.
    Compression {
        /// Level of zstd from now on; 0 for none.
        level: u8,
        /// Reason for none.
        uncompressed: Option<Uncompressed>,
    },
    /// The connection broke; a new one will be tried.
    Reconnecting {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Pause before the attempt, in milliseconds.
        pause_ms: u64,
        /// Cause of the break.
        reason: String,
    },
    /// Earlier work was found and is used.
    Resumed {
        /// Bytes that need not travel again.
        bytes: u64,
    },
    /// More of the stream that is copied is durable at the destination.
    StreamDurable {
        /// Number of bytes from its start, those of earlier runs included.
        bytes: u64,
    },
    /// An item that a run without `--dry-run` would send.
    WouldSend {
        /// Path of the item; bytes that are not UTF-8 are replaced.
        path: String,
        /// Size of its contents in bytes.
        bytes: u64,
    },
    /// An item that the source does not have is deleted at the destination (`--delete`), or would
    /// be in a dry run.
    Deleted {
        /// Path below the destination; bytes that are not UTF-8 are replaced.
        path: String,
        /// Whether the item is a directory.
        is_directory: bool,
        /// Whether this is a dry run, which deletes nothing.
        dry_run: bool,
    },
    /// An item is removed at the source because the destination has it durably (`--move`), or would
    /// be in a dry run.
    Removed {
        /// Path from the source's parent; bytes that are not UTF-8 are replaced.
        path: String,
        /// Whether the item is a directory.
        is_directory: bool,
        /// Whether this is a dry run, which removes nothing.
        dry_run: bool,
    },
    /// Nothing is deleted at the destination, though items are there that the source does not have.
    DeletionRefused {
        /// Reason, a sentence for the user.
        reason: String,
    },
    /// The snapshot is complete and durable, and `latest` leads to it (`--snapshot`); in a dry run, it
    /// would have this name.
    Snapshot {
        /// Name of the snapshot in the destination.
        name: String,
        /// Whether this is a dry run, which makes nothing.
        dry_run: bool,
    },
    /// An older snapshot is removed (`--keep`), or would be in a dry run.
    SnapshotRemoved {
        /// Name of the snapshot in the destination.
        name: String,
        /// Whether this is a dry run, which removes nothing.
        dry_run: bool,
    },
    /// The snapshot has not got its name, and the same command goes on with it.
    SnapshotFailed {
        /// Reason, a sentence for the user.
        reason: String,
    },
    /// The run could not be completed; a summary of what was done follows.
    Failed {
        /// Message for the user: what failed, where, and what to do.
        reason: String,
        /// Exit code that the process will have.
        exit_code: u8,
    },
    /// The run is over.
    Summary(Box<Summary>),
}

impl Event {
    /// Event for the receiver's report of another process: [`Running`](Self::Running);
    /// [`Waited`](Self::Waited) for `None`, once that process is not waited for any more.
    pub(crate) fn of_running(running: Option<&Running>) -> Self {
        running.map_or(Self::Waited, |running| Self::Running {
            path: path_text(&running.path),
            pid: running.pid,
            age_s: running.age,
            then: running.then,
        })
    }

    /// Event for a change of the sender's rate ceiling.
    pub(crate) fn of_pace(pace: Pace) -> Self {
        tracing::debug!(cause = ?pace.cause, ceiling = ?pace.ceiling, "pace");
        Self::Pace { ceiling_bps: pace.ceiling.map_or(0, Rate::as_bits_per_second), reason: pace.cause.into() }
    }

    /// Event for a limit that a daemon at the other end sets to the key in use from now on, if it lets
    /// nothing through.
    pub(crate) fn of_key_ceiling(limit: Option<Rate>) -> Option<Self> {
        let text =
            "the far end lets nothing through at present, by its limits over time; the copy goes on when they do";
        (limit == Some(Rate::ZERO)).then(|| Self::Notice { text: text.to_owned() })
    }

    /// Events for what the receiver has deleted, or why it has not.
    pub(crate) fn of_deletion(news: Deletion, dry_run: bool) -> Vec<Self> {
        match news {
            Deletion::Deleted(items) => {
                let event = |item: ChangedItem| Self::deleted(&item.path, item.is_directory, dry_run);
                items.into_iter().map(event).collect()
            }
            Deletion::Failed { path, reason } => {
                let (path, reason) = (path_text(&path), Some(reason));
                vec![Self::Item { path, bytes: 0, digest: None, outcome: Outcome::Failed, reason }]
            }
            Deletion::Refused(reason) => vec![Self::DeletionRefused { reason }],
            Deletion::Ended => Vec::new(),
        }
    }

    /// Event for what has become of the snapshot, or of an older one.
    pub(crate) fn of_snapshot(news: SnapshotNews, dry_run: bool) -> Self {
        match news {
            SnapshotNews::Made(time) => Self::Snapshot { name: time.name(), dry_run },
            SnapshotNews::NotMade(reason) => Self::SnapshotFailed { reason },
            SnapshotNews::Removed(time) => Self::SnapshotRemoved { name: time.name(), dry_run },
            SnapshotNews::Stays { time, reason } => Self::Item {
                path: time.name(),
                bytes: 0,
                digest: None,
                outcome: Outcome::Failed,
                reason: Some(format!("is not removed: {reason}")),
            },
        }
    }

    /// Event for an item that is deleted, or would be in a dry run.
    pub(crate) fn deleted(path: &[u8], is_directory: bool, dry_run: bool) -> Self {
        Self::Deleted { path: path_text(path), is_directory, dry_run }
    }

    /// Event for an item that is removed at the source, or would be in a dry run.
    pub(crate) fn removed(item: &ChangedItem, dry_run: bool) -> Self {
        Self::Removed { path: path_text(&item.path), is_directory: item.is_directory, dry_run }
    }

    /// Notice that a connection after the first, `number`, has ended early.
    pub(crate) fn connection_ended(number: u8, end: &EarlyEnd) -> Self {
        let how = match end {
            EarlyEnd::Lost(cause) => format!("was lost ({cause})"),
            EarlyEnd::AtReceiver => "was lost (the receiving end found it broken, or silent for 5 s)".to_owned(),
            EarlyEnd::AtSender(cause) => format!("was lost, or too slow for the sending end ({cause})"),
            EarlyEnd::Slow => "was closed: it would have held up the end of the copy".to_owned(),
            EarlyEnd::Stalled => "was closed: nothing arrived over it for 5 s".to_owned(),
        };
        Self::Notice { text: format!("connection {number} {how}; the others carry the rest") }
    }
}

/// Reason why a connection after the first has ended before the session, for the notice to the
/// user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EarlyEnd {
    /// Sending over the connection failed, for this cause.
    Lost(String),
    /// The receiver reported that the connection broke or stalled.
    AtReceiver,
    /// The connection broke, or the sender closed it: the receiver notices this by itself.
    AtSender(String),
    /// The sender closed the connection because the others deliver the last blocks sooner.
    Slow,
    /// Nothing arrived over the connection while the first connection was alive.
    Stalled,
}

/// Route of the data connections to a far end: TCP in either direction, ssh, a relay or a SOCKS
/// proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// TCP to the far end's port.
    Direct,
    /// Datagrams to the far end's port.
    Udp,
    /// TCP from the far end to a port here.
    Back,
    /// ssh connections that are opened for the data.
    Ssh,
    /// TCP to the far end's port through a relay.
    Relay,
    /// TCP to the far end's port through a SOCKS 5 proxy.
    Socks5,
}

impl Via {
    /// Name of the route in `--via` and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Udp => "udp",
            Self::Back => "back",
            Self::Ssh => "ssh",
            Self::Relay => "relay",
            Self::Socks5 => "socks5",
        }
    }
}

/// Reason for a change of the ceiling of the sender's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaceReason {
    /// The receiver's disk is slower than the path: its ring fills.
    RingFills,
    /// The receiver's ring has nearly emptied: its disk keeps up.
    RingEmptied,
    /// A growing queue on the path showed the path's rate.
    QueueGrew,
    /// More packets were lost than random loss explains.
    Losses,
    /// Slow start has ended without building a queue on the path.
    NoGrowth,
    /// The queue on the path has drained.
    QueueGone,
    /// The sender begins to probe for a higher rate.
    ProbeStarted,
    /// The path carried the higher rate that was probed.
    ProbeSucceeded,
    /// The probe showed that the higher rate is not available.
    ProbeFailed,
    /// The path was found to carry the rate that was measured earlier.
    CachedRateConfirmed,
    /// The rise of the delay turned out not to be caused by a queue.
    NoQueue,
    /// The queue does not drain whatever is sent: other traffic fills it.
    QueueStays,
    /// Half of the path's rate has been measured.
    ShareFound,
}

impl From<Cause> for PaceReason {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::RingFills => Self::RingFills,
            Cause::RingEmptied => Self::RingEmptied,
            Cause::Path(reason) => reason.into(),
        }
    }
}

impl From<Reason> for PaceReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::QueueGrew => Self::QueueGrew,
            Reason::Losses => Self::Losses,
            Reason::NoGrowth => Self::NoGrowth,
            Reason::QueueGone => Self::QueueGone,
            Reason::ProbeStarted => Self::ProbeStarted,
            Reason::ProbeSucceeded => Self::ProbeSucceeded,
            Reason::ProbeFailed => Self::ProbeFailed,
            Reason::CachedRateConfirmed => Self::CachedRateConfirmed,
            Reason::NoQueue => Self::NoQueue,
            Reason::QueueStays => Self::QueueStays,
            Reason::ShareFound => Self::ShareFound,
        }
    }
}

/// Outcome of an item (a file, directory or link).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The item is complete under its final name.
    Published,
    /// An equal file existed already.
    Skipped,
    /// A newer file was there, and stays (`--update`).
    KeptNewer,
    /// It was made from an equal file in a reference directory (`--link-dest`), or from itself where only
    /// its attributes differ and it has several names; nothing travelled.
    Linked,
    /// The item could not be copied; the run continues with the others.
    Failed,
    /// Something has the name, and stays (`--ignore-existing`).
    KeptExisting,
    /// Nothing has the name, and nothing new is made (`--existing`).
    NotMade,
    /// A file of the destination that had a name which the source has no longer (`--delete`) has
    /// become this one, and nothing travelled.
    Renamed,
}

impl Outcome {
    /// Outcome of an item at whose name the destination stays as it is.
    pub(crate) fn kept(why: Kept) -> Self {
        match why {
            Kept::Newer => Self::KeptNewer,
            Kept::Existing => Self::KeptExisting,
            Kept::Missing => Self::NotMade,
        }
    }
}

/// Measured state of a run at one instant, as reported with a progress event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the start of the run.
    pub seconds: f64,
    /// Payload bytes that have arrived at the receiver so far, those of an earlier run included, and
    /// those that files there had before.
    pub bytes_done: u64,
    /// Bytes of these that files at the destination had before, and that did not travel.
    #[serde(default)]
    pub unchanged_bytes: u64,
    /// Bytes of these that an earlier run, or an earlier connection, had brought.
    #[serde(default)]
    pub resumed_bytes: u64,
    /// Bytes that are not among these and need not travel, as the destination has them or does not want them.
    #[serde(default)]
    pub skipped_bytes: u64,
    /// Total bytes that the scan has found so far.
    pub bytes_total: u64,
    /// Number of files that are published or skipped so far.
    pub files_done: u64,
    /// Payload bits per second that reached the receiving host since the sample before.
    pub rate_bps: u64,
    /// Pipeline stage that the others waited for since the sample before.
    pub limited_by: Stage,
    /// Number of blocks in the receiver's ring buffer that are complete and wait for its disk.
    pub ring_used: u32,
    /// Capacity of the receiver's ring buffer in blocks.
    pub ring_blocks: u32,
    /// Smoothed round-trip time in microseconds; 0 if unknown.
    pub rtt_us: u64,
    /// Congestion window in segments; 0 if unknown.
    pub cwnd: u64,
    /// TCP segments retransmitted so far.
    pub retransmitted_segments: u64,
    /// Pacing rate of the sending socket in bits per second; 0 if unknown or without limit.
    pub pacing_bps: u64,
    /// Milliseconds since anything last arrived from the other end; 0 if unknown.
    #[serde(default)]
    pub silent_ms: u64,
    /// Limit that the daemon sets to the rate of the key in use, in bits per second; 0 where it
    /// sets none.
    #[serde(default)]
    pub max_rate_bps: u64,
    /// Payload bytes that were compressed so far.
    #[serde(default)]
    pub compressed_from: u64,
    /// Bytes that those became.
    #[serde(default)]
    pub compressed_to: u64,
}

/// A stage of the pipeline that can limit the rate of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Connecting, and waiting for the other end's answers.
    #[default]
    Start,
    /// Scanning: finding out what there is to send.
    Scan,
    /// Reading the source from its disk.
    SourceDisk,
    /// Computing digests.
    Hash,
    /// Encrypting the data.
    Encrypt,
    /// The rate ceiling that the user set with `--rate`.
    RateCeiling,
    /// The limit that the daemon sets to the rate of the key in use (`max-rate=`).
    MaxRate,
    /// The network path: congestion window and bottleneck.
    Network,
    /// Writing to the destination's disk (the ring is full, or TCP's window is closed).
    DestinationDisk,
    /// Finishing: making durable, reading back and publishing what has arrived.
    Finish,
}

impl From<Limiter> for Stage {
    fn from(limiter: Limiter) -> Self {
        match limiter {
            Limiter::Key => Self::MaxRate,
            Limiter::User => Self::RateCeiling,
            Limiter::Disk => Self::DestinationDisk,
            Limiter::Path => Self::Network,
        }
    }
}

impl Stage {
    /// All stages in the order in which data passes them.
    pub const ALL: [Self; 10] = [
        Self::Start,
        Self::Scan,
        Self::SourceDisk,
        Self::Hash,
        Self::Encrypt,
        Self::RateCeiling,
        Self::MaxRate,
        Self::Network,
        Self::DestinationDisk,
        Self::Finish,
    ];

    /// Name of the stage in JSON and on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Scan => "scan",
            Self::SourceDisk => "source_disk",
            Self::Hash => "hash",
            Self::Encrypt => "encrypt",
            Self::RateCeiling => "rate_ceiling",
            Self::MaxRate => "max_rate",
            Self::Network => "network",
            Self::DestinationDisk => "destination_disk",
            Self::Finish => "finish",
        }
    }

    /// Stage with this name; `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(&self.name().replace('_', " "))
    }
}

/// Result of a run, as reported to the user and in JSON at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Regular files that are complete at the destination and were not skipped.
    pub files: u64,
    /// Sum of the sizes of these files in bytes.
    pub bytes: u64,
    /// Symbolic links, and further names of files, that were made.
    #[serde(default)]
    pub links: u64,
    /// Payload bytes transferred, before they were compressed.
    pub bytes_sent: u64,
    /// Those of them that were compressed.
    #[serde(default)]
    pub compressed_from: u64,
    /// Bytes that those became, which travelled in their place.
    #[serde(default)]
    pub compressed_to: u64,
    /// Reason for which data travelled as it is when the run ended; `None` where it was compressed, and
    /// where there was no need to decide.
    #[serde(default)]
    pub uncompressed: Option<Uncompressed>,
    /// Seconds from the start to the end of the run.
    pub seconds: f64,
    /// Mean payload rate of the run in bits per second: `bytes_sent` over `seconds`.
    pub goodput_bps: u64,
    /// TCP segments retransmitted.
    pub retransmitted_segments: u64,
    /// Congestion control that the sending end really used, by its kernel name; empty within one
    /// host.
    #[serde(default)]
    pub congestion: String,
    /// For one file: its BLAKE3 digest in hex, as `b3sum` prints it.
    pub digest: Option<String>,
    /// For one sparse file whose zeros were not hashed: the digest of its size and data blocks in
    /// hex.
    pub sparse_digest: Option<String>,
    /// Digest over names, metadata and contents of all items in hex.
    pub tree_digest: Option<String>,
    /// Whether both ends agreed in this run on the digest of each of these files, and nothing
    /// failed.
    pub verified: bool,
    /// Whether every file was also read back from the medium and compared (`--verify`).
    pub read_back: bool,
    /// Share of the time (0 to 1) for which each pipeline stage limited the rate, by the stage's
    /// name.
    pub limited_by: BTreeMap<String, f64>,
    /// Limit that the daemon sets to the rate of the key in use, in bits per second; 0 where it
    /// sets none.
    #[serde(default)]
    pub max_rate_bps: u64,
    /// Number of items that failed.
    pub errors: u64,
    /// Number of files left as they were because they are equal by size and time (`--skip-equal`,
    /// `--update`).
    pub skipped: u64,
    /// Number of files left as they were because they are newer than the source's (`--update`).
    #[serde(default)]
    pub kept_newer: u64,
    /// Number of files that were made from a reference directory (`--link-dest`) or from themselves at
    /// the destination, or would be in a dry run.
    #[serde(default)]
    pub linked: u64,
    /// Number of items whose names exist at the destination, which were left as they were
    /// (`--ignore-existing`).
    #[serde(default)]
    pub kept_existing: u64,
    /// Number of files and links that do not exist at the destination and were not made
    /// (`--existing`).
    #[serde(default)]
    pub not_made: u64,
    /// Number of items that the source does not have and that were deleted at the destination
    /// (`--delete`), or would be in a dry run.
    #[serde(default)]
    pub deleted: u64,
    /// Number of files that were made from files of the destination which had names that the source
    /// has no longer (`--delete`), or may be in a dry run.
    #[serde(default)]
    pub renamed: u64,
    /// Number of items that were removed at the source (`--move`), or would be in a dry run.
    #[serde(default)]
    pub removed: u64,
    /// Bytes that an earlier run had made durable and that did not travel again.
    pub resumed_bytes: u64,
    /// Bytes of changed files that did not travel, as files at the destination had them before.
    #[serde(default)]
    pub unchanged_bytes: u64,
    /// Number of files that an earlier run had published and whose contents were not read in this
    /// one: their size, modification time, mode and owner are right. They are included in `files`.
    #[serde(default)]
    pub taken_over_files: u64,
    /// Sum of the sizes of these files in bytes.
    #[serde(default)]
    pub taken_over_bytes: u64,
    /// Notices about items that have not failed.
    #[serde(default)]
    pub notices: Vec<Noticed>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_documented_keys() {
        let json = serde_json::to_value(Event::Summary(Box::default())).unwrap();
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        for key in [
            "type",
            "files",
            "bytes",
            "bytes_sent",
            "seconds",
            "goodput_bps",
            "retransmitted_segments",
            "congestion",
            "digest",
            "verified",
            "limited_by",
            "errors",
        ] {
            assert!(keys.contains(&key), "{key} is missing in {keys:?}");
        }
        assert_eq!(json["type"], "summary");
    }

    #[test]
    fn events_survive_json() {
        let events = [
            Event::Progress(Sample { seconds: 1.5, limited_by: Stage::SourceDisk, ..Sample::default() }),
            Event::Item {
                path: "a".into(),
                bytes: u64::MAX,
                digest: None,
                outcome: Outcome::Failed,
                reason: Some("gone".into()),
            },
            Event::Summary(Box::new(Summary {
                limited_by: [("network".to_owned(), 0.5)].into(),
                ..Summary::default()
            })),
        ];
        for event in events {
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
        }
    }

    #[test]
    fn stages_have_the_same_name_everywhere() {
        for stage in Stage::ALL {
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.name());
            assert_eq!(Stage::from_name(stage.name()), Some(stage));
        }
        assert_eq!(Stage::from_name("elsewhere"), None);
        assert_eq!(format!("[{:>12}]", Stage::SourceDisk), "[ source disk]");
    }
}
