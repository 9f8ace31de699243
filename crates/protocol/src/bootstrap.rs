//! Start of a far end: its task, and its answer.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::ports::Ports;
use crate::version::{Features, Versions};

/// First message over a started far side's standard input. The same in every version of the
/// protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Versions of the protocol that the starting end speaks.
    pub versions: Versions,
    /// Features of the starting end.
    pub features: Features,
    /// Release of the starting end, for messages.
    pub version: String,
    /// Task that it is started for.
    pub task: FarTask,
    /// Restricts the address family: 4, 6 or 0 for both.
    pub family: u8,
}

/// Task that a far side is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FarTask {
    /// Listens for one end, and serves it.
    Serve {
        /// Ed25519 key of the end that will connect.
        peer: [u8; 32],
        /// Ports to listen on.
        ports: Ports,
    },
    /// Drives a transfer to another far side, over its standard streams.
    Drive,
    /// Connects its standard streams to one that listens on the same host. After `Listening` they
    /// carry the bytes of that connection.
    Forward {
        /// Its port.
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
    /// Secret by whose digest the starting end recognizes this connection. The secret itself is not
    /// sent, because the end that requests a connection must not choose the bytes that are written
    /// to it.
    pub secret: [u8; 32],
    /// The starting end's; the far side may know another.
    pub addresses: Vec<IpAddr>,
    /// The far side refuses addresses of its own host: another end has named addresses and port,
    /// and may not reach services on this host.
    pub elsewhere: bool,
    /// Port on which the starting end listens.
    pub port: u16,
}

/// Answer to `Bootstrap`. The same in every version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Features of the far side.
    pub features: Features,
    /// Release of the far side.
    pub version: String,
    /// Its Ed25519 public key for this transfer; zeros for an end that only forwards.
    pub key: [u8; 32],
    /// Port it listens on, or forwards to; 0 for an end that only drives.
    pub port: u16,
}
