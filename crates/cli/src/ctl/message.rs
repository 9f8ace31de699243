//! Requests to a running copy and their answers: one JSON object in a line each.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use icdc_tcp::clock;
use icdc_units::Span;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::copy::outlook::Progress;

/// Maximum length of a line in bytes: a status has the sources and the destination of a copy.
const MAX_LINE: usize = 1 << 20;

/// Request to a running copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(super) enum Request {
    /// The state.
    Status,
    /// Another limit of the rate, as `--rate` has it.
    Rate {
        /// The limit as text.
        rate: String,
    },
    /// Take up nothing more to send.
    Pause,
    /// Go on.
    Resume,
    /// End as by SIGTERM.
    Stop,
}

/// Answer of a running copy: its state once the request was carried out, or the reason why that
/// cannot be.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Answer {
    /// The state of the copy.
    Status(Box<Status>),
    /// The request cannot be carried out.
    Refused {
        /// Reason, and remedy.
        reason: String,
    },
}

/// State of a copy.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Status {
    /// Process of the copy.
    pub(super) pid: u32,
    /// Name that the copy was given; `None` if it has none.
    #[serde(default)]
    pub(super) name: Option<String>,
    pub(super) sources: Vec<String>,
    pub(super) destination: String,
    /// Whether the user has paused the copy.
    pub(super) paused: bool,
    /// Limit of the rate, as the user gave it.
    pub(super) rate: String,
    /// Limit of the rate at present, in bits per second; `None` for none.
    pub(super) rate_limit_bps: Option<u64>,
    /// The last measured state, with what is to come.
    pub(super) progress: Progress,
    /// The line that SIGUSR1 prints.
    pub(super) text: String,
}

/// Sends a request or an answer; each read and write ends after `limit`.
pub(super) fn send(mut stream: &UnixStream, message: &impl Serialize, limit: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(limit))?;
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Receives a request or an answer, which has come whole within `limit`.
///
/// # Errors
/// It has not come in time, or is not a message.
pub(super) fn receive<T: DeserializeOwned>(mut stream: &UnixStream, limit: Duration) -> io::Result<T> {
    let deadline = clock::now() + Span::from(limit);
    let mut line = Vec::new();
    let mut piece = [0; 4096];
    while line.len() < MAX_LINE && !line.ends_with(b"\n") {
        let left = deadline - clock::now();
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(Duration::from_nanos(left.as_nanos())))?;
        match stream.read(&mut piece)? {
            0 => break,
            length => line.extend_from_slice(&piece[..length]),
        }
    }
    Ok(serde_json::from_slice(&line)?)
}

#[cfg(test)]
mod tests {
    use rustix::event::poll;

    use super::*;

    #[test]
    fn one_byte_at_a_time_is_not_waited_for_beyond_the_limit() {
        let (near, mut far) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while far.write_all(b" ").is_ok() {
                    let _ = poll(&mut [], Some(&clock::timespec(Span::from_millis(1))));
                }
            });
            assert!(receive::<Request>(&near, Duration::from_millis(50)).is_err());
            drop(near);
        });
        let (near, far) = UnixStream::pair().unwrap();
        send(&far, &Request::Rate { rate: "x".repeat(10_000) }, Duration::from_secs(10)).unwrap();
        let long: Request = receive(&near, Duration::from_secs(10)).unwrap();
        assert_eq!(long, Request::Rate { rate: "x".repeat(10_000) });
    }
}
