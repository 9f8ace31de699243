//! Congestion control in the kernel, loaded and used by the real binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod differential;
mod load;
#[path = "../support/mod.rs"]
mod support;
