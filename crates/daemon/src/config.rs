//! Configuration of a daemon, requests of its operator, and receivers of its reports.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    /// Confines all clients to this directory, in addition to the root of each key.
    pub root: Option<PathBuf>,
    /// The file of authorized keys.
    pub authorized_keys: PathBuf,
    /// The daemon's own key.
    pub identity: PathBuf,
    /// Congestion control that clients may ask for by name.
    pub congestion: AllowedCongestion,
    /// Destination of the audit log.
    pub audit: Option<AuditConfig>,
    /// Address and port of the metrics, served at `/metrics`.
    pub metrics: Option<SocketAddr>,
    /// Program of a session's process, with its arguments: it calls
    /// `icdc_session_process::session_process()`.
    pub session: Vec<OsString>,
    /// Program of the next daemon, with its arguments: it serves with an [`Inheritance`].
    pub successor: Vec<OsString>,
}

/// Listening sockets of a daemon.
#[derive(Debug, Default)]
pub enum Listeners {
    /// It opens its own.
    #[default]
    Own,
    /// Opened by a service manager.
    Passed(Vec<TcpListener>),
    /// Handed over by the previous daemon.
    Inherited(Inheritance),
}

/// Requests to a running daemon. It clears each one that it has carried out.
#[derive(Clone, Debug, Default)]
pub struct OperatorRequests {
    /// Read identity and authorized keys again, and open the audit log again.
    pub reload: Arc<AtomicBool>,
    /// Accept no more connections, and end with the last session.
    pub drain: Arc<AtomicBool>,
    /// Start the next daemon, hand the listening sockets over, and drain.
    pub succeed: Arc<AtomicBool>,
}

/// Notifications to the service manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It listens.
    Ready,
    /// It is alive, as every second; with the number of sessions.
    Alive(usize),
    /// It reloads its files; [`Ready`](Self::Ready) follows.
    Reloading,
    /// It accepts no more connections.
    Stopping,
    /// The process with this id is the daemon from now on, and the only one that sends
    /// notifications.
    Successor(u32),
}

/// Receivers of a daemon's reports on its sessions.
#[derive(Default)]
pub struct Observers {
    /// Gets every session that has ended.
    pub ended: Option<EndSink>,
    /// Marks data connections with fireflies.
    pub marker: Option<Arc<Marker>>,
}
