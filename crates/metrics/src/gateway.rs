//! Pushes metrics to a Pushgateway: HTTP/1.1 without TLS.
//!
//! `POST` replaces the metrics of the names that are pushed and leaves others of the group as they
//! are, where `PUT` removes them: when a run has failed, the time of the last success stays.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::Format;
use crate::clock::Deadline;

/// Default port of Pushgateways.
const PORT: u16 = 9091;
/// Most of an answer that is read, in bytes.
const MAX_ANSWER: u64 = 8 << 10;
/// Most of an answer that an error shows.
const MAX_TOLD: usize = 200;

/// A Pushgateway, and the group of metrics there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    host: String,
    port: u16,
    /// Path of the URL, from the first slash on.
    path: String,
}

/// Why a URL is not that of a Pushgateway.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GatewayError {
    /// TLS would be needed.
    #[error("https is not supported: push by http to a gateway, or a proxy that speaks TLS, on this host or network")]
    Tls,
    /// It has a user or password, which every user of this host could see.
    #[error("leave user and password out: a command line is seen by every user of this host")]
    Login,
    /// Something else is wrong.
    #[error("write http://HOST[:PORT], or http://HOST[:PORT]/metrics/job/JOB for a group of your own")]
    Form,
}

/// Metrics could not be pushed.
#[derive(Debug, Error)]
pub enum PushError {
    /// The gateway could not be reached, or did not answer in time.
    #[error("{gateway}: cannot {what}: {cause}")]
    System {
        /// The gateway.
        gateway: String,
        /// The operation.
        what: &'static str,
        /// Error of the resolver or the kernel.
        cause: io::Error,
    },
    /// It answered something other than success.
    #[error("{gateway}: the gateway answered {answer}")]
    Refused {
        /// The gateway.
        gateway: String,
        /// Its status and the beginning of its reason.
        answer: String,
    },
}

impl FromStr for Gateway {
    type Err = GatewayError;

    fn from_str(text: &str) -> Result<Self, GatewayError> {
        if text.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            return Err(GatewayError::Tls);
        }
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(['?', '#', '"', '\\']);
        let rest = text.strip_prefix("http://").filter(|_| is_plain).ok_or(GatewayError::Form)?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        if authority.contains('@') {
            return Err(GatewayError::Login);
        }
        let (host, port) = match authority.strip_prefix('[') {
            // An address of IPv6.
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(GatewayError::Form)?;
                (host, (!port.is_empty()).then(|| port.strip_prefix(':').ok_or(GatewayError::Form)).transpose()?)
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(PORT), str::parse).map_err(|_| GatewayError::Form)?;
        if host.is_empty() || port == 0 {
            return Err(GatewayError::Form);
        }
        Ok(Self { host: host.to_owned(), port, path: path.trim_end_matches('/').to_owned() })
    }
}

impl Gateway {
    /// The gateway with the group of `job` and `instance`, unless the URL names a group.
    #[must_use]
    pub fn with_default_group(mut self, job: &str, instance: &str) -> Self {
        if !self.path.contains("/metrics/job") {
            self.path = format!("{}/metrics/job/{}/instance/{}", self.path, segment(job), segment(instance));
        }
        self
    }

    /// Replaces the metrics of these names in the group. Resolving a name may take longer than
    /// `patience`; everything else does not.
    ///
    /// # Errors
    /// The gateway cannot be reached within `patience`, or does not take them.
    pub fn push(&self, text: &str, patience: Duration) -> Result<(), PushError> {
        let deadline = Deadline::after(patience);
        let failed = |what| move |cause| PushError::System { gateway: self.to_string(), what, cause };
        let mut stream = self.connect(deadline).map_err(failed("connect"))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.path,
            self.authority(),
            Format::Classic.content_type(),
            text.len()
        );
        write_all(&mut stream, &[head.as_bytes(), text.as_bytes()].concat(), deadline).map_err(failed("send"))?;
        let answer = read(&mut stream, deadline).map_err(failed("read the answer"))?;
        // The gateway has closed already, or does not matter any more.
        let _ = stream.shutdown(Shutdown::Both);
        let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..)).unwrap_or_default();
        if status.starts_with('2') {
            return Ok(());
        }
        let reason = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
        let told = format!("{} {reason}", status.lines().next().unwrap_or_default());
        let told: String = told.trim().chars().take(MAX_TOLD).flat_map(char::escape_debug).collect();
        let answer = if told.is_empty() { "with no HTTP/1.1".to_owned() } else { told };
        Err(PushError::Refused { gateway: self.to_string(), answer })
    }

    fn connect(&self, deadline: Deadline) -> io::Result<TcpStream> {
        let mut failed = io::Error::other("the name has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, left(deadline)?) {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}{}", self.authority(), self.path)
    }
}

/// One segment of a path: what is not of the unreserved characters of RFC 3986 is escaped.
fn segment(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte.into()),
            _ => escaped += &format!("%{byte:02X}"),
        }
    }
    escaped
}

/// Time until the deadline; an error once it has passed.
fn left(deadline: Deadline) -> io::Result<Duration> {
    Some(deadline.left()).filter(|left| !left.is_zero()).ok_or_else(|| io::ErrorKind::TimedOut.into())
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8], deadline: Deadline) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        let count = stream.write(bytes).map_err(in_time)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// The answer to its end, as far as it matters.
fn read(stream: &mut TcpStream, deadline: Deadline) -> io::Result<String> {
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    while (answer.len() as u64) < MAX_ANSWER {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut buffer).map_err(in_time)? {
            0 => break,
            count => answer.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A timeout of a socket, as what it is.
fn in_time(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Serves one push with this answer; gives what was asked.
    fn gateway(answer: &'static str) -> (Gateway, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"icdc_x 1\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        });
        (url.parse::<Gateway>().unwrap().with_default_group("icdc_copy", "a b"), served)
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_push_names_group_format_and_length() {
        let (gateway, served) = gateway("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        gateway.push("icdc_x 1\n", PATIENCE).unwrap();
        let request = served.join().unwrap();
        assert!(request.starts_with("POST /metrics/job/icdc_copy/instance/a%20b HTTP/1.1\r\n"), "{request}");
        for line in ["Content-Length: 9\r\n", "Content-Type: text/plain; version=0.0.4", "\r\n\r\nicdc_x 1\n"] {
            assert!(request.contains(line), "{line}: {request}");
        }
    }

    #[test]
    fn what_the_gateway_says_is_told_and_cannot_harm_a_terminal() {
        for (answer, expected) in [
            ("HTTP/1.1 400 Bad Request\r\n\r\ntext format\u{1b}[2J\n", "400 Bad Request text format\\u{1b}[2J"),
            ("SSH-2.0-x\r\n", "no HTTP/1.1"),
            ("", "no HTTP/1.1"),
        ] {
            let (gateway, served) = gateway(answer);
            let told = gateway.push("icdc_x 1\n", PATIENCE).unwrap_err().to_string();
            assert!(told.contains(expected) && told.starts_with("http://127.0.0.1:"), "{told}");
            served.join().unwrap();
        }
    }

    #[test]
    fn a_gateway_that_does_not_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gateway: Gateway = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let told = gateway.push("icdc_x 1\n", Duration::from_millis(50)).unwrap_err().to_string();
        assert!(told.contains("read the answer"), "{told}");
    }

    #[test]
    fn urls_are_read_or_refused_with_the_reason() {
        let shown = |text: &str| text.parse().map(|gateway: Gateway| gateway.with_default_group("j", "i").to_string());
        for (text, expected) in [
            ("http://gw", Ok("http://gw:9091/metrics/job/j/instance/i")),
            ("http://gw:80/push/", Ok("http://gw:80/push/metrics/job/j/instance/i")),
            ("http://[2001:db8::1]:9091/metrics/job/run7", Ok("http://[2001:db8::1]:9091/metrics/job/run7")),
            ("http://[::1]", Ok("http://[::1]:9091/metrics/job/j/instance/i")),
            ("https://gw", Err(GatewayError::Tls)),
            ("HTTPS://gw", Err(GatewayError::Tls)),
            ("http://user:secret@gw", Err(GatewayError::Login)),
            ("gw:9091", Err(GatewayError::Form)),
            ("http://", Err(GatewayError::Form)),
            ("http://gw:0", Err(GatewayError::Form)),
            ("http://gw:port", Err(GatewayError::Form)),
            ("http://[::1", Err(GatewayError::Form)),
            ("http://[::1]9091", Err(GatewayError::Form)),
            ("http://gw/a b", Err(GatewayError::Form)),
            ("http://gw/a\r\nX: y", Err(GatewayError::Form)),
        ] {
            assert_eq!(shown(text), expected.map(str::to_owned), "{text:?}");
        }
    }
}
