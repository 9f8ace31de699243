//! Directories made, items removed and renamed, by every way to reach them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod directories;
mod hostile;
#[path = "../support/peer.rs"]
mod peer;
mod removal;
mod renaming;
mod rights;
#[path = "../looking/scene.rs"]
mod scene;
#[path = "../support/mod.rs"]
mod support;
mod unfinished;
