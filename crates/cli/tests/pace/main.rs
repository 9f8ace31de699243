//! Pacing for any application, by policy and on the wire.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod policy;
#[path = "../support/mod.rs"]
mod support;
mod wire;
