//! Links: duplex streams of frames between two ends.
//!
//! Everything above this crate sends and receives [`Parcel`]s; what carries them is one of three:
//!
//! | constructor | carrier | payloads |
//! |---|---|---|
//! | [`secure_client`], [`secure_server`] | TLS 1.3 over TCP, both ends known by key | yes |
//! | [`memory_pair`] | channels within one process; parcels change owner, nothing is copied | yes |
//! | [`stdio_link`] | a pair of pipes (to `ssh`, or from it) in clear | no |
//!
//! A link has two halves that share nothing but the carrier, so that a thread that sends never
//! waits for the one that receives, and a [`LinkControl`] that any thread may hold to watch the
//! link or to end it.
//!
//! Dropping an [`Outlet`] sends what it has buffered and ends its direction in order: the peer's
//! [`Inlet`] then reports [`LinkError::Closed`]. A connection that ends in any other way, a panic
//! of the outlet's thread included, is [`LinkError::Cut`].
//!
//! An end that answers a request by messages holds an [`Answering`].
//!
//! A link knows no policy: how its socket is tuned is the business of whoever sends over it, who
//! gets the socket from [`LinkControl::socket`]. Neighbours: `icdc-tcp` and `icdc-trust` below make
//! the sockets and the TLS configurations, `icdc-record` is the record layer, `icdc-transfer`,
//! `icdc-client` and `icdc-session-process` above run sessions.
//!
//! ```
//! use icdc_link::memory_pair;
//! use icdc_protocol::Message;
//!
//! let (mut near, mut far) = memory_pair();
//! near.outlet.send(Message::Ping.into())?;
//! near.outlet.flush()?;
//! assert_eq!(icdc_link::receive(far.inlet.as_mut())?, Message::Ping);
//! # Ok::<(), icdc_link::LinkError>(())
//! ```

#![forbid(unsafe_code)]

mod answering;
mod assembler;
mod control;
mod error;
mod halves;
mod link;
mod memory;
mod memory_pace;
mod message_writer;
mod messages;
mod named;
mod parcel;
mod secure;
mod stdio;
#[cfg(test)]
mod tests;

pub use answering::Answering;
pub use control::{LinkControl, SendTimes};
pub use error::LinkError;
pub use halves::{DEAD_AFTER, Inlet, Outlet};
pub use link::Link;
pub use memory::memory_pair;
pub use message_writer::{MessageWriter, WriterGuard};
pub use messages::receive;
pub use parcel::{Parcel, Payload};
pub use secure::{
    Carrier, Forwarded, ForwardingProgram, HandedOver, InletState, LinkState, OutletState, OverDatagrams,
    OwnConnection, SecureSettings, SharedPacer, secure_client, secure_client_with, secure_server, secure_server_with,
};
pub use stdio::stdio_link;
