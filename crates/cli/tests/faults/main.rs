//! Copies that are interrupted, killed, cut off or refused by the disk.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod backups;
mod believed;
mod black_hole;
mod cycles;
mod damage;
mod directories;
mod firewall;
mod interrupt;
mod interrupted;
mod items;
mod journals;
mod kill;
mod limits;
mod listed;
mod network;
mod progress;
mod races;
mod references;
mod snapshots;
#[path = "../support/mod.rs"]
mod support;
mod waits;
