//! Start of a far end: its task, and its answer.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::ports::Ports;
use crate::version::{Features, Versions};

/// First message to a started far side: over its standard input, and beforehand as a [word](Self::word) of its
/// command line, where the program is started with one. ssh passes input on a round trip later than
/// the command. Nothing in it is secret. The same in every version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Versions of the protocol that the starting end speaks.
    pub versions: Versions,
    /// Features of the starting end.
    pub features: Features,
    /// Release of the starting end, for messages.
    pub version: String,
    /// Task for which the far side is started.
    pub task: FarTask,
    /// Address family to which the far side is restricted: 4, 6, or 0 for both.
    pub family: u8,
}

/// Task for which a far side is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FarTask {
    /// Listen for one end, and serve it.
    Serve {
        /// Ed25519 key of the end that will connect.
        peer: [u8; 32],
        /// Ports on which the far side may listen.
        ports: Ports,
    },
    /// Drive a transfer to another far side, over the standard streams.
    Drive,
    /// Connect the standard streams to a far side that listens on the same host. After `Listening`
    /// they carry the bytes of that connection.
    Forward {
        /// Port on which that far side listens.
        port: u16,
    },
}

/// A connection that a far side is to make, because its own port cannot be reached. It begins with
/// the SHA-256 digest of the secret, and is then like one to that port: the starting end speaks
/// first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectBack {
    /// Number of this connection, by which an answer refers to it.
    pub number: u32,
    /// Secret by whose digest the starting end recognizes this connection. The secret itself is not
    /// sent, because the end that requests a connection must not choose the bytes that are written
    /// to it.
    pub secret: [u8; 32],
    /// Addresses of the starting end, as it knows them; the far side may know another.
    pub addresses: Vec<IpAddr>,
    /// Whether the far side refuses addresses of its own host: another end has named addresses and
    /// port, and may not reach services on this host.
    pub elsewhere: bool,
    /// Port on which the starting end listens.
    pub port: u16,
}

/// Answer of a far side to `Bootstrap`. It is the same in every version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Features of the far side.
    pub features: Features,
    /// Release of the far side.
    pub version: String,
    /// Ed25519 public key of the far side for this transfer; zeros for an end that only forwards.
    pub key: [u8; 32],
    /// Port on which the far side listens or to which it forwards; 0 for an end that only drives.
    pub port: u16,
}
