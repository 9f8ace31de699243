//! Messages between a daemon and the process of a session.

use std::num::NonZeroU32;

use icdc_link::LinkState;
use icdc_protocol::measure::Proof;
use icdc_protocol::message::Request;
use icdc_rate::known_paths::Resumption;
use icdc_tcp::congestion::{BundleNumber, PathHints};
use icdc_units::{Rate, Span};
use serde::{Deserialize, Serialize};

use crate::ended::Ended;
use crate::rights::Rights;
use crate::user::User;
use crate::work::Done;

/// From the daemon to the process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Instruction {
    /// The first: whom to run as; `None` for the user of the daemon. With the channel for
    /// [`HelpRequest`]s.
    Become(Option<User>),
    /// The second: the session. With the socket of its first connection.
    Begin(Box<Session>),
    /// A further connection, with its socket.
    Join {
        /// Its number in the session.
        number: u8,
        /// The state of its TLS.
        link: LinkState,
    },
    /// A data connection of the measurement, with its socket: what it has said already.
    Data(Vec<u8>),
    /// Make durable what there is, and end.
    Stop,
}

/// A session.
#[derive(Debug, Serialize, Deserialize)]
pub struct Session {
    /// Allowed already.
    pub request: Request,
    /// Its rights.
    pub rights: Rights,
    /// The state of its first connection's TLS.
    pub link: LinkState,
}

/// From the process to the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// Work done so far.
    Progress(Done),
    /// The last report: all work, and how the session ended.
    Ended(Done, Ended),
}

/// From the process to the daemon: an operation on the socket that comes with it.
#[derive(Debug, Serialize, Deserialize)]
pub enum HelpRequest {
    /// Tell what is known of the path.
    KnownPath,
    /// Remember this of the path.
    RememberPath(Path),
    /// Give the socket the send buffer of a long path.
    PrepareToSend,
    /// Use this congestion control.
    Congestion {
        /// Its name.
        algorithm: String,
        /// The path, where it is known.
        known: Option<Path>,
        /// The bundle of connections that the socket belongs to.
        bundle: Option<NonZeroU32>,
    },
    /// Hand on the data connections that show these proofs; without a socket.
    Expect(Vec<Proof>),
    /// Reserve payload, in bytes; without a socket.
    Reserve(u64),
}

/// The answer to the request of this number.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The number.
    pub number: u64,
    /// The result.
    pub content: Content,
}

/// A request with its number.
#[derive(Debug, Serialize, Deserialize)]
pub struct NumberedRequest {
    /// The number, one more than that of the last.
    pub number: u64,
    /// The request.
    pub request: HelpRequest,
}

/// Result of a request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Content {
    /// It was done, or nothing was to be told.
    Done,
    /// The rate and round-trip time that are known of the path.
    KnownPath(Option<Path>),
    /// Whether the algorithm has taken the hints, or why the socket cannot have it.
    Congestion(Result<bool, String>),
    /// Bytes that may move from now on, or the limit that is used up.
    Reserved(Result<u64, String>),
}

/// Rate and round-trip time that are known of a path.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Path {
    rate: Rate,
    round_trip: Span,
}

impl From<Resumption> for Path {
    fn from(Resumption { rate, round_trip }: Resumption) -> Self {
        Self { rate, round_trip }
    }
}

impl From<Path> for Resumption {
    fn from(Path { rate, round_trip }: Path) -> Self {
        Self { rate, round_trip }
    }
}

impl HelpRequest {
    /// A request to set congestion control, with hints on the path.
    pub(crate) fn congestion(algorithm: &str, hints: &PathHints) -> Self {
        let algorithm = algorithm.to_owned();
        Self::Congestion {
            algorithm,
            known: hints.known.map(Path::from),
            bundle: hints.bundle.map(BundleNumber::number),
        }
    }
}
