//! The rate that is found automatically, and what a start costs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod auto;
mod background;
mod losses;
mod relayed;
mod round_trips;
mod streams;
#[path = "../support/mod.rs"]
mod support;
