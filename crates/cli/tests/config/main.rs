//! Settings of files and variables, through the real binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod explain;
mod files;
mod hosts;
mod pages;
mod places;
mod precedence;
mod refused;
#[path = "../support/mod.rs"]
mod support;
mod use_in_copies;
