//! The relay, with real sockets on both sides.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod data;
mod load;
mod operation;
mod property;
mod routes;
mod socks;
#[path = "../support/mod.rs"]
mod support;
mod transparent;
