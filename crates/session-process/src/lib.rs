//! Sessions of a listening end, each within the rights of its key: in a process of its own where a
//! daemon listens, and in this process for a far end that ssh has started.
//!
//! ```text
//! daemon ── listens, handshakes, judges keys and requests, keeps the list of sessions
//!   │  one for each session
//!   ├─ control ─► session_process()  becomes the key's user, and only then has the connection    process.rs, user.rs
//!   │               confine          what the process may open and call                          confinement.rs
//!   │               run_session      measures, drives, or run_transfer: sends or receives        run.rs, drive.rs
//!   │             socket of each connection, with the state of its TLS                           messages.rs, channel.rs
//!   ├◄ help ────── a receipt, which the daemon's key signs                                           receipt.rs
//!   └◄ help ────── operations on a socket of the session that need the daemon's privileges       privileged_helper.rs
//! ```
//!
//! The process ends with its session, and at once when the daemon is gone: what it has made durable
//! is found again by the next session of the transfer. A session that fails takes no other one
//! along, and what a mistake in it can reach is what the user of its key can reach.
//!
//! Below is `icdc-client`: an end that drives a transfer to another one is a client of that. Above
//! is `icdc-daemon`, which decides who may ask for what.

#![forbid(unsafe_code)]

pub mod channel;
mod confinement;
mod drive;
mod ended;
pub mod messages;
mod privileged_helper;
mod process;
mod receipt;
mod rights;
mod root;
mod run;
mod sessions;
mod user;
mod work;

pub use drive::{conclude, drive_once};
pub use ended::Ended;
pub use process::{SessionProcessError, session_process};
pub use rights::{AllowedCongestion, MAY_NOT_REMOVE, Rights};
pub use root::Root;
pub use run::{RunningSession, diskless, refuse, run_session};
pub use sessions::{Part, Registered, Sessions};
pub use user::{User, may_become_others};
pub use work::{Done, Work};
