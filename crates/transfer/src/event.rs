//! Typed events of a transfer.
//!
//! One stream feeds the progress bar, the JSON lines and the report, and crosses the wire as JSON
//! when one end drives a transfer for another. Field names carry their unit: this is the documented
//! output format, which is why the quantities are plain numbers here.

use std::collections::BTreeMap;
use std::sync::Arc;

use icdc_protocol::message::{IfRunning, Running};
use icdc_rate::ceilings::Limiter;
use icdc_rate::controller::{Cause, Pace};
use icdc_rate::path_ceiling::Reason;
use icdc_units::Rate;
use serde::{Deserialize, Serialize};

use crate::notices::Noticed;
use crate::path_text;

/// Takes the events of a run, from any thread, in the order in which they happen on that thread.
pub type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run begins.
    Started {
        /// Release of the program.
        version: String,
        /// Sources, as the user wrote them.
        sources: Vec<String>,
        /// Destination, as the user wrote it.
        destination: String,
    },
    /// Route of the data to a far end that ssh has started.
    Connecting {
        /// To whom: host and port, or a host by ssh.
        to: String,
    },
    /// Which route the data takes to a far end that ssh has started.
    Route {
        /// The route.
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
        /// Sum of their sizes.
        bytes: u64,
        /// The scan is through.
        complete: bool,
    },
    /// State of the run, several times a second.
    Progress(Sample),
    /// Fate of one item.
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
    /// Something worth knowing that is no failure.
    Notice {
        /// A sentence.
        text: String,
    },
    /// Another icdc writes what is to be written.
    Running {
        /// Path that it writes; bytes that are not UTF-8 are replaced.
        path: String,
        /// Its number on the receiving host, where that can be seen.
        pid: Option<u32>,
        /// Time since it was started, where that can be seen.
        age_s: Option<u64>,
        /// Treatment by this copy.
        then: IfRunning,
    },
    /// The other icdc is not waited for any more.
    Waited,
    /// Notices of a session that has ended.
    Noticed(Noticed),
    /// The sender allows itself another rate.
    Pace {
        /// Ceiling of the sender's rate for this reason, in bits per second; 0 for no limit.
        ceiling_bps: u64,
        /// Reason of the change.
        reason: PaceReason,
    },
    /// The connection broke; a new one will be tried.
    Reconnecting {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Pause before it.
        pause_ms: u64,
        /// Cause of the break.
        reason: String,
    },
    /// Earlier work was found and is used.
    Resumed {
        /// Bytes that need not travel again.
        bytes: u64,
    },
    /// An item that a run without `--dry-run` would send.
    WouldSend {
        /// Path of the item; bytes that are not UTF-8 are replaced.
        path: String,
        /// Size of its contents.
        bytes: u64,
    },
    /// The run could not be completed; a summary of what was done follows.
    Failed {
        /// Message for the user: what failed, where, and what to do.
        reason: String,
        /// Exit code that the process will have.
        exit_code: u8,
    },
    /// The run is over.
    Summary(Summary),
}

impl Event {
    /// Event for the receiver's report of another process; `None` once that is not waited for any
    /// more.
    pub(crate) fn of_running(running: Option<&Running>) -> Self {
        running.map_or(Self::Waited, |running| Self::Running {
            path: path_text(&running.path),
            pid: running.pid,
            age_s: running.age,
            then: running.then,
        })
    }

    /// The sender allows itself another rate.
    pub(crate) fn of_pace(pace: Pace) -> Self {
        tracing::debug!(cause = ?pace.cause, ceiling = ?pace.ceiling, "pace");
        Self::Pace { ceiling_bps: pace.ceiling.map_or(0, Rate::as_bits_per_second), reason: pace.cause.into() }
    }

    /// A connection after the first has ended early.
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

/// Reason why a connection after the first has ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EarlyEnd {
    /// Sending over it failed, for this cause.
    Lost(String),
    /// The receiver reported that it broke or stalled.
    AtReceiver,
    /// It broke, or the sender closed it: the receiver notices this by itself.
    AtSender(String),
    /// The others bring the last blocks sooner.
    Slow,
    /// Nothing arrived over it while the first connection was alive.
    Stalled,
}

/// A route for data to a far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// TCP to the far end's port.
    Direct,
    /// TCP from the far end to a port here.
    Back,
    /// ssh connections of their own.
    Ssh,
    /// TCP to the far end's port through a relay.
    Relay,
    /// TCP to the far end's port through a SOCKS 5 proxy.
    Socks5,
}

impl Via {
    /// Name in `--via` and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Back => "back",
            Self::Ssh => "ssh",
            Self::Relay => "relay",
            Self::Socks5 => "socks5",
        }
    }
}

/// Reason of a change of the sender's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaceReason {
    /// The receiver's disk is slower than the path: its ring fills.
    RingFills,
    /// The ring has nearly emptied: the disk keeps up.
    RingEmptied,
    /// A queue on the path showed what the path carries.
    QueueGrew,
    /// More was lost than chance takes.
    Losses,
    /// Slow start has ended without a queue.
    NoGrowth,
    /// The queue on the path has drained.
    QueueGone,
    /// The sender begins to probe for a higher rate.
    ProbeStarted,
    /// The higher rate was carried.
    ProbeSucceeded,
    /// The probe showed that the higher rate is not available.
    ProbeFailed,
    /// The path carries what it is known to carry.
    CachedRateConfirmed,
    /// The rise of the delay was not caused by a queue.
    NoQueue,
    /// The queue does not drain whatever is sent: others fill it.
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

/// Outcome of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is complete under its final name.
    Published,
    /// An equal file existed already.
    Skipped,
    /// A newer file was there, and stays (`--update`).
    KeptNewer,
    /// It could not be copied; the run continues with the others.
    Failed,
}

/// State of a run at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time since the start of the run.
    pub seconds: f64,
    /// Bytes that arrived, those of an earlier run included.
    pub bytes_done: u64,
    /// Bytes that the scan found so far.
    pub bytes_total: u64,
    /// Files that are published or skipped.
    pub files_done: u64,
    /// Payload bits per second that reached the receiving host since the sample before.
    pub rate_bps: u64,
    /// The stage that the others waited for since the sample before.
    pub limited_by: Stage,
    /// Blocks of the receiver's ring that are complete and wait for its disk.
    pub ring_used: u32,
    /// Blocks of the receiver's ring.
    pub ring_blocks: u32,
    /// Smoothed round-trip time; 0 if unknown.
    pub rtt_us: u64,
    /// Congestion window in segments; 0 if unknown.
    pub cwnd: u64,
    /// Segments retransmitted so far.
    pub retransmitted_segments: u64,
    /// Pacing rate of the sending socket; 0 if unknown or without limit.
    pub pacing_bps: u64,
    /// Time since anything last arrived from the other end; 0 if unknown.
    #[serde(default)]
    pub silent_ms: u64,
    /// Limit that the daemon sets to the rate of the key in use, in bits per second; 0 where it
    /// sets none.
    #[serde(default)]
    pub max_rate_bps: u64,
}

/// A stage of the pipeline that can limit the rate of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Connecting, and waiting for the other end's answers.
    #[default]
    Start,
    /// Finding out what there is to send.
    Scan,
    /// Reading the source.
    SourceDisk,
    /// Digesting.
    Hash,
    /// Encrypting.
    Encrypt,
    /// The user's `--rate`.
    RateCeiling,
    /// The limit that the daemon sets to the rate of the key in use (`max-rate=`).
    MaxRate,
    /// The path: congestion window and bottleneck.
    Network,
    /// Writing the destination (the ring is full, or TCP's window is closed).
    DestinationDisk,
    /// Making durable, reading back and publishing what has arrived.
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

    /// The name used in JSON and on the wire.
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

    /// The stage of this name.
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

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Regular files that are complete at the destination and were not skipped.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// Symbolic links, and further names of files, that were made.
    #[serde(default)]
    pub links: u64,
    /// Payload bytes that travelled.
    pub bytes_sent: u64,
    /// Time from start to end.
    pub seconds: f64,
    /// `bytes_sent` in bits over `seconds`.
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
    /// In this run both ends agreed on the digest of each of these files, and nothing failed.
    pub verified: bool,
    /// Every file was read back from the medium and compared, too (`--verify`).
    pub read_back: bool,
    /// Share of the time (0 to 1) by the name of the stage that the others waited for.
    pub limited_by: BTreeMap<String, f64>,
    /// Limit that the daemon sets to the rate of the key in use, in bits per second; 0 where it
    /// sets none.
    #[serde(default)]
    pub max_rate_bps: u64,
    /// Items that failed.
    pub errors: u64,
    /// Files that are as they were, being equal by size and time (`--skip-equal`, `--update`).
    pub skipped: u64,
    /// Files that are as they were, being newer than the source's (`--update`).
    #[serde(default)]
    pub kept_newer: u64,
    /// Bytes that an earlier run had made durable and that did not travel again.
    pub resumed_bytes: u64,
    /// Files that an earlier run had published and whose contents were not read in this one: their
    /// size, modification time, mode and owner are right. They count among the files.
    #[serde(default)]
    pub taken_over_files: u64,
    /// Sum of their sizes.
    #[serde(default)]
    pub taken_over_bytes: u64,
    /// Notices of items that have not failed.
    #[serde(default)]
    pub notices: Vec<Noticed>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_documented_keys() {
        let json = serde_json::to_value(Event::Summary(Summary::default())).unwrap();
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
            Event::Summary(Summary { limited_by: [("network".to_owned(), 0.5)].into(), ..Summary::default() }),
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
