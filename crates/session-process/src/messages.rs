//! Messages between a daemon and the process of a session.

use std::num::NonZeroU32;

use icdc_link::LinkState;
use icdc_protocol::measure::Proof;
use icdc_protocol::message::{Request, SnapshotTime};
use icdc_rate::known_paths::Resumption;
use icdc_tcp::congestion::{BundleNumber, PathHints};
use icdc_transfer::SignedReceipt;
use icdc_units::{Rate, Span};
use serde::{Deserialize, Serialize};

use crate::ended::Ended;
use crate::rights::Rights;
use crate::user::User;
use crate::work::Done;

/// Message from the daemon to the process of a session.
#[derive(Debug, Serialize, Deserialize)]
pub enum Instruction {
    /// The first message: the user as whom to run; `None` for the user of the daemon. The channel
    /// for [`HelpRequest`]s comes with it.
    Become(Option<User>),
    /// The second message: the session. The socket of its first connection comes with it.
    Begin(Box<Session>),
    /// A further connection of the session; its socket comes with the message.
    Join {
        /// Number of the connection in the session.
        number: u8,
        /// TLS state of the connection.
        link: LinkState,
    },
    /// Bytes already read from a data connection of the measurement; its socket comes with the
    /// message.
    Data(Vec<u8>),
    /// Make durable what has arrived, and end.
    Stop,
    /// Keep to this limit of the rate from now on; `None` for no limit, zero if nothing may flow.
    Limit(Option<Rate>),
}

/// A session, as it is handed to its process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Session {
    /// The request, which is authorized already.
    pub request: Request,
    /// Rights of the session.
    pub rights: Rights,
    /// TLS state of its first connection.
    pub link: LinkState,
}

/// Message from the process of a session to the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// Work that the session has done so far.
    Progress(Done),
    /// The last report: all work done, and how the session ended.
    Ended(Done, Ended),
}

/// Request of the process for an operation by the daemon on the socket that comes with it.
#[derive(Debug, Serialize, Deserialize)]
pub enum HelpRequest {
    /// Tell what is known of the socket's path.
    KnownPath,
    /// Remember this rate and round-trip time of the socket's path.
    RememberPath(KnownPath),
    /// Give the socket the send buffer of a long path.
    PrepareToSend,
    /// Set this congestion control for the socket.
    Congestion {
        /// Name of the algorithm.
        algorithm: String,
        /// Known rate and round-trip time of the path; `None` if they are not known.
        known: Option<KnownPath>,
        /// Number of the bundle of connections to which the socket belongs, if there is one.
        bundle: Option<NonZeroU32>,
        /// Whether the socket gives way to other traffic on its path.
        background: bool,
    },
    /// Hand on the data connections that show these proofs; no socket comes with the request.
    Expect(Vec<Proof>),
    /// Reserve payload, in bytes; no socket comes with the request.
    Reserve(u64),
    /// A step of the session's receipt; no socket comes with the request.
    Receipt(ReceiptRequest),
}

/// Step of a session's receipt that its process requests of the daemon, whose key signs.
#[derive(Debug, Serialize, Deserialize)]
pub enum ReceiptRequest {
    /// Begin it.
    Begin {
        /// Path of the directory in which everything is delivered, printable.
        directory: String,
    },
    /// Add whole lines of items that are delivered.
    Add(Vec<u8>),
    /// Sign it.
    Sign {
        /// Time that the snapshot is named by, if one was made.
        snapshot: Option<SnapshotTime>,
    },
}

/// The daemon's answer to a step of a receipt.
#[derive(Debug, Serialize, Deserialize)]
pub enum ReceiptAnswer {
    /// The text above the lines of items.
    Begun(Vec<u8>),
    /// The lines are added.
    Added,
    /// The end of the receipt.
    Signed(SignedReceipt),
}

/// The daemon's answer to the request of the same number.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Number of the request.
    pub number: u64,
    /// Result of the request.
    pub content: Content,
}

/// A request with its number.
#[derive(Debug, Serialize, Deserialize)]
pub struct NumberedRequest {
    /// Number of the request, one more than that of the one before.
    pub number: u64,
    /// The request.
    pub request: HelpRequest,
}

/// Result of a [`HelpRequest`].
#[derive(Debug, Serialize, Deserialize)]
pub enum Content {
    /// The operation was carried out, or there was nothing to tell.
    Done,
    /// Known rate and round-trip time of the path; `None` if they are not known.
    KnownPath(Option<KnownPath>),
    /// Whether the algorithm has taken the hints; the error is the reason why the socket cannot
    /// have it.
    Congestion(Result<bool, String>),
    /// Number of bytes that may move from now on; the error is the limit that is used up.
    Reserved(Result<u64, String>),
    /// Answer to a step of a receipt; the error is the reason for which there is none.
    Receipt(Result<ReceiptAnswer, String>),
}

/// Rate and round-trip time that are known of a network path.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct KnownPath {
    rate: Rate,
    round_trip: Span,
}

impl From<Resumption> for KnownPath {
    fn from(Resumption { rate, round_trip }: Resumption) -> Self {
        Self { rate, round_trip }
    }
}

impl From<KnownPath> for Resumption {
    fn from(KnownPath { rate, round_trip }: KnownPath) -> Self {
        Self { rate, round_trip }
    }
}

impl HelpRequest {
    /// A request to set congestion control, with hints on the path.
    pub(crate) fn congestion(algorithm: &str, hints: &PathHints) -> Self {
        let algorithm = algorithm.to_owned();
        Self::Congestion {
            algorithm,
            known: hints.known.map(KnownPath::from),
            bundle: hints.bundle.map(BundleNumber::number),
            background: hints.background,
        }
    }
}
