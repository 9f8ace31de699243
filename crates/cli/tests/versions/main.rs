//! Ends of different releases: the last release as a recorded peer, ranges of versions, features, and the
//! build that `--send-self` sends.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod agreement;
mod features;
#[path = "../support/peer.rs"]
mod peer;
mod recorded;
mod recording;
mod send_self;
mod started;
#[path = "../support/mod.rs"]
mod support;
mod wire;
