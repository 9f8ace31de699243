//! The command line: words, help, errors, keys, and copies that need no other host.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod copy;
mod errors;
mod help;
mod install;
mod keygen;
mod leftovers;
#[path = "../support/mod.rs"]
mod support;
mod usage;
