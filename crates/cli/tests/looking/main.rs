//! Looking at trees and comparing them, by every way to reach one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod completion;
mod du;
mod hostile;
mod lists;
mod ls;
#[path = "../support/peer.rs"]
mod peer;
mod rights;
mod scene;
#[path = "../support/mod.rs"]
mod support;
mod verify;
