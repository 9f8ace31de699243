//! Split TCP for hosts that cannot be changed: a relay near each end takes their plain TCP at a short round trip, and
//! carries it over the long path between by a connection that is tuned for it.
//!
//! ```text
//! client ══ near leg ══ relay A ══════ leg between relays ══════ relay B ══ far leg ══ destination
//!           short RTT             long RTT: algorithm, pacing,              short RTT
//!                                 buffers, TLS with pinned keys
//! ```
//!
//! | module | what |
//! |---|---|
//! | `config` | what a relay is told: [`Draft`] as typed, [`Config`] with nothing left to doubt |
//! | `relay` | [`Relay`]: started, changed while it runs, asked, stopped |
//! | `acceptor` | accepts and admits connections |
//! | `worker` | a thread that waits for events; warm connections to other relays |
//! | `connection` | one relayed connection from its greeting to its end |
//! | `flow`, `leg`, `pipe` | data: `splice` between clear legs, TLS by rustls, back-pressure |
//! | `socket`, `rooms` | what sockets have before they are connected, and what may wait unread in them |
//! | `clients`, `house`, `mailbox`, `resolver`, `tools` | what threads share and say to each other |
//! | `status`, `tell` | what a relay tells, and to whom |
//! | `steering` | the rules by which packets come to a transparent listener |
//!
//! Neighbours: `icdc-protocol` has what goes over the wire before the data, `icdc-tcp` the sockets' options and congestion
//! control, `icdc-trust` the keys; `cli` makes `icdc relay` of it.

#![forbid(unsafe_code)]

mod acceptor;
mod clients;
pub mod config;
mod congestion;
mod connection;
mod flow;
mod house;
mod known_paths;
mod leg;
mod mailbox;
mod pipe;
mod relay;
mod resolver;
mod rooms;
mod socket;
pub mod status;
pub mod steering;
mod tell;
mod tools;
mod worker;

pub use config::{Config, ConfigError, Draft};
pub use relay::{Relay, RelayError};
pub use socket::OpenError;
pub use status::Status;
pub use tell::{TellError, ask};
