//! Listening ends: the daemon, and the far end that ssh starts for one transfer.
//!
//! ```text
//! Datagrams          streams over datagrams, for the guard              datagrams.rs
//! Guard::start      accept, wait for a whole ClientHello, handshake       guard.rs
//!   Daemon::serve   for each connection:                                  service.rs
//!     enter         the key's line: what it is granted now                admission/
//!     serve_connection                                                    request.rs
//!       read_request
//!       authorize   may it ask for this?                                  authorize.rs
//!       register    among the running sessions                            icdc-session-process, sessions.rs
//!       dispatch    to the session that it joins, or to
//!         Workers::run    a process of its own, as the key's user         supervisor.rs
//!           run_session, run_transfer                                     icdc-session-process, run.rs
//!     end           log, audit log, metrics, report                       service.rs, audit.rs, session_end.rs
//! ```
//!
//! [`far_end()`] has the same guard and the same steps for the one key of whoever started it, and
//! runs the session in its own process. `lifecycle.rs` is the life of a daemon: configuration,
//! reload, handover to the next daemon (`succession.rs`), drain.

#![forbid(unsafe_code)]

mod admission;
mod audit;
mod authorize;
mod capabilities;
mod config;
mod connect_back;
mod datagrams;
mod far_end;
mod granted;
mod guard;
mod lifecycle;
mod login_receipt;
mod privileged_helper;
mod request;
mod service;
mod session_end;
mod succession;
mod supervisor;

pub use audit::{AuditConfig, AuditPlace, WhenFull};
pub use config::{Listeners, Notice, Observers, OperatorRequests, ServeConfig};
pub use far_end::{FarEndError, far_end};
pub use lifecycle::{Prepared, ServeError};
pub use session_end::{EndSink, SessionEnd};
pub use succession::Inheritance;
