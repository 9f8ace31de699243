//! Who may copy what from whom: keys, daemons, ssh.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "real processes need real time")]

mod between;
mod daemon;
mod datagrams;
mod devices;
mod firewalls;
mod keys;
mod operation;
mod planted;
mod proxies;
mod rates;
mod routes;
mod ssh;
mod sshd;
#[path = "../support/mod.rs"]
mod support;
