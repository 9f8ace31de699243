//! Configuration of a daemon, requests of its operator, and receivers of its reports.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use icdc_schedule::RateSchedule;
use icdc_scitags::Marker;
use icdc_session_process::AllowedCongestion;

use crate::audit::AuditConfig;
use crate::session_end::EndSink;
use crate::succession::Inheritance;

/// Configuration of a daemon.
#[derive(Debug)]
pub struct ServeConfig {
    /// Address and port to listen on; `[::]` serves IPv4 as well. Unused if there are `listeners`.
    pub listen: SocketAddr,
    /// Listening sockets that a service manager or the previous daemon has opened.
    pub listeners: Listeners,
    /// Directory to which all clients are confined, in addition to the root of each key; `None` for
    /// no such limit.
    pub root: Option<PathBuf>,
    /// Path of the file of authorized keys.
    pub authorized_keys: PathBuf,
    /// Path of the file with the daemon's own key.
    pub identity: PathBuf,
    /// Limit of the rate of all sessions together, both directions counted; `None` for no limit.
    pub max_rate: Option<RateSchedule>,
    /// Reads that limit again, for a reload; the error is for the log.
    pub reread_max_rate: fn() -> Result<Option<RateSchedule>, String>,
    /// Congestion control that clients may ask for by name.
    pub congestion: AllowedCongestion,
    /// Destination of the audit log; `None` for no log.
    pub audit: Option<AuditConfig>,
    /// Address and port at which the metrics are served, at `/metrics`; `None` for none.
    pub metrics: Option<SocketAddr>,
    /// Program of a session's process, with its arguments: it calls
    /// `icdc_session_process::session_process()`.
    pub session: Vec<OsString>,
    /// Program of the next daemon, with its arguments: it serves with an [`Inheritance`].
    pub successor: Vec<OsString>,
}

/// Origin of a daemon's listening sockets.
#[derive(Debug, Default)]
pub enum Listeners {
    /// The daemon opens its own.
    #[default]
    Own,
    /// A service manager has opened them.
    Passed(Vec<TcpListener>),
    /// The previous daemon has handed them over.
    Inherited(Inheritance),
}

/// Flags by which the operator makes requests of a running daemon, which clears each one that it
/// has carried out.
#[derive(Clone, Debug, Default)]
pub struct OperatorRequests {
    /// Read identity, authorized keys and the limit of the rate again, and open the audit log again.
    pub reload: Arc<AtomicBool>,
    /// Accept no more connections, and end with the last session.
    pub drain: Arc<AtomicBool>,
    /// Start the next daemon, hand the listening sockets over, and drain.
    pub succeed: Arc<AtomicBool>,
}

/// Notifications to the service manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The daemon listens.
    Ready,
    /// The daemon is alive, sent every second; with the number of sessions.
    Alive(usize),
    /// The daemon reloads its files; [`Ready`](Self::Ready) follows.
    Reloading,
    /// The daemon accepts no more connections.
    Stopping,
    /// The process with this id is the daemon from now on, and the only one that sends
    /// notifications.
    Successor(u32),
}

/// Receivers of a daemon's reports on its sessions.
#[derive(Default)]
pub struct Observers {
    /// Receiver of a report on every session that has ended; `None` for none.
    pub ended: Option<EndSink>,
    /// Marker that tells networks by fireflies whose the data connections are; `None` for no
    /// marking.
    pub marker: Option<Arc<Marker>>,
}
