//! Answers to those who ask: `icdc relay status` on a Unix socket, Prometheus over HTTP.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::relay::Shared;

/// How long whoever asks may take for a read or a write.
const PATIENCE: Duration = Duration::from_secs(2);
/// Rest after an error of accepting: without descriptors the next would come at once.
const REST: Duration = Duration::from_millis(100);
/// Longest request that is read.
const MAX_REQUEST: usize = 8 << 10;
/// In so many pieces at most.
const MOST_READS: usize = 8;

/// Nobody could ask.
#[derive(Debug, Error)]
pub enum TellError {
    /// Another relay answers there.
    #[error("{} belongs to a relay that runs; give this one another with --status-socket", .0.display())]
    Taken(PathBuf),
    /// Something else is there.
    #[error("{} is there and is no socket; give another path with --status-socket", .0.display())]
    NoSocket(PathBuf),
    /// The system did not let it.
    #[error("{place} {what}: {cause}")]
    System {
        /// The socket.
        place: String,
        /// What could not be done with it.
        what: &'static str,
        /// What the kernel said.
        cause: io::Error,
    },
}

/// Tells the whole status, as JSON, to everybody who may connect to this socket: its owner and root.
pub(crate) fn on_unix_socket(path: &Path, shared: &Arc<Shared>) -> Result<(), TellError> {
    let failed = |what| move |cause| TellError::System { place: path.display().to_string(), what, cause };
    if path.exists() {
        match UnixStream::connect(path) {
            Ok(_) => return Err(TellError::Taken(path.to_owned())),
            // What a relay that was killed has left.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Files that are no sockets refuse as well.
                if !std::fs::symlink_metadata(path).map_err(failed("cannot be looked at"))?.file_type().is_socket() {
                    return Err(TellError::NoSocket(path.to_owned()));
                }
                std::fs::remove_file(path).map_err(failed("cannot be removed"))?;
            }
            Err(cause) => return Err(failed("cannot be asked whether a relay answers")(cause)),
        }
    }
    let listener = UnixListener::bind(path).map_err(failed("cannot be listened at"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(failed("cannot be kept from other users"))?;
    let shared = Arc::clone(shared);
    let answer = move || {
        for stream in accepted(listener.incoming()) {
            if let Err(error) = tell_status(stream, &shared) {
                tracing::debug!("status: {error}");
            }
        }
    };
    std::thread::Builder::new()
        .name("relay-status".to_owned())
        .spawn(answer)
        .map_err(failed("cannot be given a thread"))?;
    Ok(())
}

/// Those who ask.
fn accepted<S>(incoming: impl Iterator<Item = io::Result<S>>) -> impl Iterator<Item = S> {
    incoming.filter_map(|stream| {
        let rest = |error: &io::Error| {
            tracing::debug!("accept: {error}");
            std::thread::park_timeout(REST);
        };
        stream.inspect_err(rest).ok()
    })
}

fn tell_status(mut stream: UnixStream, shared: &Shared) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = serde_json::to_vec(&shared.status())?;
    text.push(b'\n');
    stream.write_all(&text)
}

/// The status of the relay that answers at this socket, as JSON.
///
/// # Errors
/// What keeps it from answering.
pub fn ask(path: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Serves the metrics to Prometheus, one request at a time.
pub(crate) fn metrics(address: SocketAddr, shared: &Arc<Shared>) -> Result<(), TellError> {
    let failed = |what| move |cause| TellError::System { place: format!("metrics {address}"), what, cause };
    let listener = TcpListener::bind(address).map_err(failed("cannot be listened at"))?;
    let address = listener.local_addr().map_err(failed("does not tell its port"))?;
    tracing::info!(%address, "metrics");
    let shared = Arc::clone(shared);
    let answer = move || {
        for stream in accepted(listener.incoming()) {
            if let Err(error) = tell_metrics(stream, &shared) {
                tracing::debug!("metrics: {error}");
            }
        }
    };
    std::thread::Builder::new()
        .name("relay-metrics".to_owned())
        .spawn(answer)
        .map_err(failed("cannot be given a thread"))?;
    Ok(())
}

fn tell_metrics(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read_request(&mut stream)?;
    let asks = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ");
    let (state, body) =
        if asks { ("200 OK", exposition(shared)) } else { ("404 Not Found", "GET /metrics\n".to_owned()) };
    write!(
        stream,
        "HTTP/1.1 {state}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The head of a request. Whoever sends it byte by byte does not keep others waiting for long.
fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut buffer = [0; MAX_REQUEST / MOST_READS];
    for _ in 0..MOST_READS {
        let count = stream.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..count]);
        if request.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(request);
        }
        if count == 0 {
            break;
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "no request of HTTP"))
}

/// Prometheus's text format.
fn exposition(shared: &Shared) -> String {
    let totals = shared.totals();
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(&str, f64)]| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP icdc_relay_{name} {help}\n# TYPE icdc_relay_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "icdc_relay_{name}{labels} {value}");
        }
    };
    family("connections", "gauge", "Connections now.", &[("", totals.open as f64)]);
    family(
        "held_bytes",
        "gauge",
        "Bytes that wait in the relay, sockets included.",
        &[("", totals.held.as_u64() as f64)],
    );
    family("accepted_total", "counter", "Accepted connections.", &[("", totals.accepted as f64)]);
    family(
        "ended_total",
        "counter",
        "Connections by how they ended.",
        &[
            ("{how=\"finished\"}", totals.finished as f64),
            ("{how=\"turned_away\"}", totals.turned_away as f64),
            ("{how=\"not_reached\"}", totals.not_reached as f64),
            ("{how=\"broken\"}", totals.broken as f64),
            ("{how=\"timed_out\"}", totals.timed_out as f64),
        ],
    );
    family(
        "bytes_total",
        "counter",
        "Bytes passed on, from clients (up) and to them (down).",
        &[("{direction=\"up\"}", totals.bytes_up as f64), ("{direction=\"down\"}", totals.bytes_down as f64)],
    );
    family(
        "waited_seconds_total",
        "counter",
        "Time that directions of ended connections have waited for a leg: the one that limits.",
        &[
            ("{leg=\"near\"}", totals.waited_for_near.as_secs_f64()),
            ("{leg=\"far\"}", totals.waited_for_far.as_secs_f64()),
        ],
    );
    text
}
