//! What a daemon and a session's process tell each other.

use std::num::NonZeroU32;

use icdc_link::LinkState;
use icdc_protocol::measure::Proof;
use icdc_protocol::message::Request;
use icdc_rate::known_paths::Resumption;
use icdc_tcp::congestion::{BundleNumber, Told};
use icdc_units::{Rate, Span};
use serde::{Deserialize, Serialize};

use super::user::User;
use crate::ended::Ended;
use crate::rights::Rights;
use crate::work::Done;

/// From the daemon to the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The first: whom to run as; `None` for the user of the daemon. With the channel of lending.
    Become(Option<User>),
    /// The second: the session. With the socket of its first connection.
    Begin(Box<Session>),
    /// A further connection, with its socket.
    Join { number: u8, link: LinkState },
    /// A data connection of the measurement, with its socket: what it has said already.
    Data(Vec<u8>),
    /// Make durable what there is, and end.
    Stop,
}

/// A session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Session {
    /// Allowed already.
    pub(super) request: Request,
    pub(super) rights: Rights,
    pub(super) link: LinkState,
}

/// From the process to the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// What it has done so far.
    So(Done),
    /// All that it has done, and how it ended: the last.
    Ended(Done, Ended),
}

/// From the process to the daemon: please do this for the socket that comes with it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Wish {
    KnownPath,
    RememberPath(Path),
    PrepareToSend,
    /// Use this congestion control.
    Congestion {
        algorithm: String,
        known: Option<Path>,
        bundle: Option<NonZeroU32>,
    },
    /// Hand on the data connections that show these proofs; without a socket.
    Expect(Vec<Proof>),
    /// Reserve so many bytes of payload; without a socket.
    Reserve(u64),
}

/// The answer to the wish of this number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) number: u64,
    pub(super) content: Content,
}

/// A wish with its number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) wish: Wish,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Content {
    Done,
    KnownPath(Option<Path>),
    /// Whether the algorithm has been told of the socket, or why the socket cannot have it.
    Congestion(Result<bool, String>),
    /// Bytes that may move from now on, or the limit that is used up.
    Reserved(Result<u64, String>),
}

/// What is known of a path.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Path {
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

impl Wish {
    /// To use a congestion control that is told so much.
    pub(super) fn congestion(algorithm: &str, told: &Told) -> Self {
        let algorithm = algorithm.to_owned();
        Self::Congestion { algorithm, known: told.known.map(Path::from), bundle: told.bundle.map(BundleNumber::number) }
    }
}
