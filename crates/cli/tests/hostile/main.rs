//! Ends that keep to no rule, against the real binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod client;
mod compressed;
mod delta;
mod floods;
mod keys;
mod late;
mod mirrors;
mod parting;
#[path = "../support/peer.rs"]
mod peer;
mod receipts;
mod server;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
mod woken;
