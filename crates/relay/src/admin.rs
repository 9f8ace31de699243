//! The administrative interfaces: the status on a Unix socket, metrics for Prometheus over HTTP.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use icdc_metrics::{Endpoint, EndpointError, Reading};
use thiserror::Error;

use crate::monitor::Monitor;
use crate::status::Totals;

/// Release of this crate; all crates have the same.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Timeout of a read or a write.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after an accept has failed: without descriptors the next one would fail at once.
const PAUSE: Duration = Duration::from_millis(100);

/// The status socket or the metrics listener could not be opened.
#[derive(Debug, Error)]
pub enum AdminError {
    /// Another relay uses the admin socket at this path.
    #[error("{} is in use by a running relay; choose another path with --status-socket", .0.display())]
    Taken(PathBuf),
    /// The file at the admin socket's path is no socket.
    #[error("{} exists and is not a socket; choose another path with --status-socket", .0.display())]
    NotASocket(PathBuf),
    /// The endpoint of the metrics cannot be opened.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// The kernel refused an operation on the admin socket.
    #[error("cannot {what} {place}: {cause}")]
    System {
        /// Path of the admin socket.
        place: String,
        /// Description of the failed operation.
        what: &'static str,
        /// Error of the kernel.
        cause: io::Error,
    },
}

/// Serves the status, as JSON, on a Unix socket that its owner and root may connect to.
///
/// # Errors
/// See [`AdminError`].
pub(crate) fn serve_status(path: &Path, monitor: &Arc<Monitor>) -> Result<(), AdminError> {
    let failed = |what| move |cause| AdminError::System { place: path.display().to_string(), what, cause };
    if path.exists() {
        match UnixStream::connect(path) {
            Ok(_) => return Err(AdminError::Taken(path.to_owned())),
            // Left behind by a relay that was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Files that are no sockets refuse connections as well.
                if !std::fs::symlink_metadata(path).map_err(failed("examine"))?.file_type().is_socket() {
                    return Err(AdminError::NotASocket(path.to_owned()));
                }
                std::fs::remove_file(path).map_err(failed("remove"))?;
            }
            Err(cause) => return Err(failed("connect to")(cause)),
        }
    }
    let listener = UnixListener::bind(path).map_err(failed("listen at"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed("restrict access to"))?;
    let monitor = Arc::clone(monitor);
    let answer = move || {
        for stream in accepted(listener.incoming()) {
            if let Err(error) = send_status(stream, &monitor) {
                tracing::debug!("status: {error}");
            }
        }
    };
    std::thread::Builder::new().name("relay-status".to_owned()).spawn(answer).map_err(failed("start a thread for"))?;
    Ok(())
}

/// The accepted connections. Errors of accepting are skipped, each after a pause.
fn accepted<S>(incoming: impl Iterator<Item = io::Result<S>>) -> impl Iterator<Item = S> {
    incoming.filter_map(|stream| {
        let pause = |error: &io::Error| {
            tracing::debug!("accept: {error}");
            #[expect(clippy::disallowed_methods, reason = "no event tells of descriptors that are free again")]
            std::thread::sleep(PAUSE);
        };
        stream.inspect_err(pause).ok()
    })
}

/// Sends the status as a line of JSON to a client of the status socket.
fn send_status(mut stream: UnixStream, monitor: &Monitor) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut text = serde_json::to_vec(&monitor.status())?;
    text.push(b'\n');
    stream.write_all(&text)
}

/// Queries the status of the relay that serves this socket, as JSON.
///
/// # Errors
/// No relay answers at the socket.
pub fn query_status(path: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Serves the metrics to Prometheus.
///
/// # Errors
/// See [`AdminError`].
pub(crate) fn serve_metrics(address: SocketAddr, monitor: &Arc<Monitor>) -> Result<(), AdminError> {
    let endpoint = Endpoint::bind(address)?;
    tracing::info!(address = %endpoint.address(), "metrics");
    let monitor = Arc::clone(monitor);
    endpoint.serve(move |format| reading(&monitor.totals()).text(format))?;
    Ok(())
}

/// The relay's metrics for Prometheus, from its totals.
fn reading(totals: &Totals) -> Reading {
    let mut reading = Reading::new();
    reading.gauge("icdc_relay_build_info", "Release of the relay", [([("version", VERSION)], 1_u64.into())]);
    reading.gauge("icdc_relay_connections", "Open connections", [((), (totals.open as u64).into())]);
    let buffered = totals.buffered.as_u64().into();
    reading.gauge("icdc_relay_buffered_bytes", "Bytes buffered in the relay and its sockets", [((), buffered)]);
    reading.counter("icdc_relay_connections_accepted", "Accepted connections", [((), totals.accepted.into())]);
    let outcomes = [
        ("finished", totals.finished),
        ("rejected", totals.rejected),
        ("unreachable", totals.unreachable),
        ("aborted", totals.aborted),
        ("timed_out", totals.timed_out),
    ];
    let ended = outcomes.map(|(outcome, count)| ([("outcome", outcome)], count.into()));
    reading.counter("icdc_relay_connections_ended", "Ended connections by outcome", ended);
    let directions = [("up", totals.bytes_up), ("down", totals.bytes_down)];
    let relayed = directions.map(|(direction, bytes)| ([("direction", direction)], bytes.into()));
    reading.counter("icdc_relay_relayed_bytes", "Bytes relayed from clients (up) and to them (down)", relayed);
    let legs = [("near", totals.waited_for_near), ("far", totals.waited_for_far)];
    let waited = legs.map(|(leg, span)| ([("leg", leg)], span.as_secs_f64().into()));
    reading.counter(
        "icdc_relay_waited_seconds",
        "Time for which directions of ended connections have waited for a leg; the longer wait is for the leg that limits",
        waited,
    );
    reading
}
