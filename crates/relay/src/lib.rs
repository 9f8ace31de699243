//! A split-TCP relay for hosts that cannot be changed: a relay near each end terminates their plain
//! TCP at a short round trip, and carries its data over the long path between by a connection that
//! is tuned for it.
//!
//! ```text
//! client ══ near leg ══ relay A ══════ leg between relays ══════ relay B ══ far leg ══ destination
//!           short RTT             long RTT: algorithm, pacing,              short RTT
//!                                 buffers, TLS with pinned keys
//! ```
//!
//! | module | what |
//! |---|---|
//! | `config` | configurations: [`Draft`] as typed, [`Config`] ready to use |
//! | `relay` | [`Relay`]: start, reload, stop |
//! | `acceptor` | accepts and admits connections |
//! | `worker` | a thread that drives connections: events (`poller`), messages (`mailbox`), ticks |
//! | `connection` | one relayed connection, a state machine |
//! | `flow`, `leg`, `pipe` | data: `splice` between legs without TLS, TLS by rustls, back-pressure |
//! | `warm` | legs to other relays that are open before they are needed |
//! | `socket`, `buffers`, `receive_budget` | options of sockets, and what may wait unread in them |
//! | `known_paths`, `congestion` | what legs between relays know and use |
//! | `clients`, `counters`, `resolver` | limits on connections, sums, name resolution |
//! | `context`, `worker_context` | what all threads, and all connections of a thread, share |
//! | `status`, `monitor`, `admin` | the status: its form, its collection, its interfaces |
//! | `tproxy` | the rules by which packets come to a transparent listener |
//!
//! Neighbours: `icdc-protocol` has what goes over the wire before the data, `icdc-tcp` socket
//! options and congestion control, `icdc-trust` keys and TLS; `cli` makes `icdc relay` of it.

#![forbid(unsafe_code)]

mod acceptor;
mod address;
mod admin;
mod buffers;
mod clients;
pub mod config;
mod congestion;
mod connection;
mod context;
mod counters;
mod flow;
mod known_paths;
mod leg;
mod mailbox;
mod monitor;
mod pipe;
mod poller;
mod receive_budget;
mod relay;
mod resolver;
mod socket;
pub mod status;
pub mod tproxy;
mod warm;
mod worker;
mod worker_context;

pub use admin::{AdminError, query_status};
pub use config::{Config, ConfigError, Draft};
pub use relay::{Relay, RelayError};
pub use socket::OpenError;
pub use status::Status;
