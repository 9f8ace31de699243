//! What the doctor finds on hosts and paths, and what it changes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod apply;
mod host;
mod path;
mod paths;
#[path = "../support/mod.rs"]
mod support;
