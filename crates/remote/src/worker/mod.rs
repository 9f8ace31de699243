//! Sessions of a daemon in processes of their own.
//!
//! ```text
//! daemon ── listens, handshakes, judges keys and requests, keeps the list of sessions
//!   │  one for each session
//!   ├─ control ─► session's process ── runs as the key's user from before it has the connection on
//!   │             socket of each connection, with the state of its TLS
//!   └◄ lending ── what the session may not do itself: the daemon does it for a socket of the session
//! ```
//!
//! | module | what |
//! |---|---|
//! | `channel` | messages and descriptors over a Unix socket |
//! | `messages` | what daemon and session tell each other |
//! | `supervisor` | the daemon's side: starts a process and stays with it to its end |
//! | `process` | the process |
//! | `confinement` | what the process may open and call |
//! | `lending` | what the daemon does for a session, both sides of it |
//! | `user`, `user_database` | becoming the key's user |
//!
//! The process ends with its session, and at once when the daemon is gone: what it has made durable is
//! found again by the next session of the transfer. A session that fails takes no other one along, and
//! what a mistake in it can reach is what the user of its key can reach.

mod channel;
mod confinement;
mod lending;
mod messages;
mod process;
mod supervisor;
mod user;
mod user_database;

pub(crate) use channel::{Channel, Received};
pub use process::{SessionProcessError, session_process};
pub(crate) use supervisor::{Heard, Workers};
use user::become_user;
pub(crate) use user::{User, may_become_others};
