//! Measurements from memory to memory.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod daemon;
#[path = "../support/peer.rs"]
mod peer;
mod pipeline;
mod routes;
mod runs;
#[path = "../support/mod.rs"]
mod support;
