//! Byte streams over datagrams: QUIC (RFC 9000), whose sender an algorithm of [`icdc_cc`] controls, so that the best
//! congestion control needs no privilege.
//!
//! ```text
//!  a program's stream ═ Unix socket ═╗                                      ╔═ Unix socket ═ a program's stream
//!                                    ║                                      ║
//!                        bridge ── engine ── UDP socket ◄════► UDP socket ── engine ── bridge
//!                                    │ quinn-proto: packets, keys, losses, flow control
//!                                    │ congestion: the algorithm, window and rate
//!                                    └ pacing: when packets leave
//! ```
//!
//! | part | file |
//! |---|---|
//! | a connection that this end makes, and its streams | [`Dialed`] |
//! | connections that others make | [`Listener`] |
//! | the thread that carries all of one end's connections | `engine` |
//! | one connection: what it may send, its streams | `connection` |
//! | one stream and its local socket | `bridge` |
//! | what a stream has received, brought into order | `order` |
//! | the algorithm, as the kernel would call it | `congestion` |
//! | when packets leave | `pacing` |
//! | UDP sockets, many packets at a time | `socket` |
//! | several of one address | `group` |
//! | what is asked of QUIC | `settings` |
//!
//! Whoever has one end of a stream has a Unix socket, which can be handed to another process. QUIC's TLS protects what this
//! crate adds; who the other end is, the streams' own handshake tells.

#![forbid(unsafe_code)]

mod bridge;
mod clock;
mod congestion;
mod connection;
mod dialed;
mod engine;
mod error;
mod group;
mod listener;
mod order;
mod pacing;
mod settings;
mod socket;

pub use congestion::FlowState;
pub use dialed::Dialed;
pub use engine::StreamHandle;
pub use error::DatagramError;
pub use listener::{Accepted, Listener};
pub use settings::{Algorithm, listen};
