//! The lab: its paths, its reports, its life, and its simulator.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod life;
mod path;
mod reports;
mod sim;
mod simulated;
#[path = "../support/mod.rs"]
mod support;
