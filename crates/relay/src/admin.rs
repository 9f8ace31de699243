//! The administrative interfaces: the status on a Unix socket, metrics for Prometheus over HTTP.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::monitor::Monitor;

/// Timeout of a read or a write.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after an accept has failed: without descriptors the next one would fail at once.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest request, in bytes.
const MAX_REQUEST: usize = 8 << 10;
/// Reads of a request, at most.
const MAX_READS: usize = 8;

/// The status socket or the metrics listener could not be opened.
#[derive(Debug, Error)]
pub enum AdminError {
    /// Another relay uses the socket.
    #[error("{} is in use by a running relay; choose another path with --status-socket", .0.display())]
    Taken(PathBuf),
    /// The file is no socket.
    #[error("{} exists and is not a socket; choose another path with --status-socket", .0.display())]
    NotASocket(PathBuf),
    /// The kernel refused it.
    #[error("cannot {what} {place}: {cause}")]
    System {
        /// The socket, or the address of the metrics.
        place: String,
        /// What could not be done.
        what: &'static str,
        /// Error of the kernel.
        cause: io::Error,
    },
}

/// Serves the status, as JSON, on a Unix socket that its owner and root may connect to.
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

/// Connections without the errors of accepting them.
fn accepted<S>(incoming: impl Iterator<Item = io::Result<S>>) -> impl Iterator<Item = S> {
    incoming.filter_map(|stream| {
        let pause = |error: &io::Error| {
            tracing::debug!("accept: {error}");
            std::thread::park_timeout(PAUSE);
        };
        stream.inspect_err(pause).ok()
    })
}

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

/// Serves the metrics to Prometheus, one request at a time.
pub(crate) fn serve_metrics(address: SocketAddr, monitor: &Arc<Monitor>) -> Result<(), AdminError> {
    let failed = |what| move |cause| AdminError::System { place: format!("metrics {address}"), what, cause };
    let listener = TcpListener::bind(address).map_err(failed("listen at"))?;
    let address = listener.local_addr().map_err(failed("find the port of"))?;
    tracing::info!(%address, "metrics");
    let monitor = Arc::clone(monitor);
    let answer = move || {
        for stream in accepted(listener.incoming()) {
            if let Err(error) = send_metrics(stream, &monitor) {
                tracing::debug!("metrics: {error}");
            }
        }
    };
    std::thread::Builder::new().name("relay-metrics".to_owned()).spawn(answer).map_err(failed("start a thread for"))?;
    Ok(())
}

fn send_metrics(mut stream: TcpStream, monitor: &Monitor) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = read_request(&mut stream)?;
    let is_known = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ");
    let (state, body) =
        if is_known { ("200 OK", exposition(monitor)) } else { ("404 Not Found", "GET /metrics\n".to_owned()) };
    write!(
        stream,
        "HTTP/1.1 {state}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The head of an HTTP request. A client that sends it byte by byte does not delay others for long.
fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut buffer = [0; MAX_REQUEST / MAX_READS];
    for _ in 0..MAX_READS {
        let count = stream.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..count]);
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(request);
        }
        if count == 0 {
            break;
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "not an HTTP request"))
}

/// The metrics in Prometheus's text format.
fn exposition(monitor: &Monitor) -> String {
    let totals = monitor.totals();
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(&str, f64)]| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP icdc_relay_{name} {help}\n# TYPE icdc_relay_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "icdc_relay_{name}{labels} {value}");
        }
    };
    family("connections", "gauge", "Open connections.", &[("", totals.open as f64)]);
    family(
        "buffered_bytes",
        "gauge",
        "Bytes buffered in the relay and its sockets.",
        &[("", totals.buffered.as_u64() as f64)],
    );
    family("accepted_total", "counter", "Accepted connections.", &[("", totals.accepted as f64)]);
    family(
        "ended_total",
        "counter",
        "Ended connections by outcome.",
        &[
            ("{outcome=\"finished\"}", totals.finished as f64),
            ("{outcome=\"rejected\"}", totals.rejected as f64),
            ("{outcome=\"unreachable\"}", totals.unreachable as f64),
            ("{outcome=\"aborted\"}", totals.aborted as f64),
            ("{outcome=\"timed_out\"}", totals.timed_out as f64),
        ],
    );
    family(
        "bytes_total",
        "counter",
        "Bytes relayed from clients (up) and to them (down).",
        &[("{direction=\"up\"}", totals.bytes_up as f64), ("{direction=\"down\"}", totals.bytes_down as f64)],
    );
    family(
        "waited_seconds_total",
        "counter",
        "Time for which directions of ended connections have waited for a leg; the longer wait is for the leg that limits.",
        &[
            ("{leg=\"near\"}", totals.waited_for_near.as_secs_f64()),
            ("{leg=\"far\"}", totals.waited_for_far.as_secs_f64()),
        ],
    );
    text
}
