//! Pushes metrics to a Pushgateway: HTTP/1.1 without TLS.
//!
//! `POST` replaces the metrics of the names that are pushed and leaves others of the group as they
//! are, where `PUT` removes them: when a run has failed, the time of the last success stays.

use std::fmt;
use std::io::Read as _;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body, http};

use crate::Format;

/// Default TCP port of Pushgateways.
const PORT: u16 = 9091;
/// Maximum length of an answer's head, in bytes.
const MAX_HEAD: usize = 8 << 10;
/// Maximum number of bytes of an answer's body that are read: an error shows its beginning.
const MAX_BODY: u64 = 8 << 10;
/// Maximum number of characters of an answer that an error shows.
const MAX_SHOWN: usize = 200;
/// Value of the header `User-Agent` of a push.
const USER_AGENT: &str = concat!("icdc/", env!("CARGO_PKG_VERSION"));

/// URL of a Pushgateway with the group of metrics to push to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Host and port of the gateway.
    authority: String,
    /// Path of the URL, from the first slash on.
    path: String,
}

/// Reason why a URL is not valid for a Pushgateway.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GatewayError {
    /// The URL requires TLS (`https`), which is not supported.
    #[error("https is not supported: push by http to a gateway, or a proxy that speaks TLS, on this host or network")]
    Tls,
    /// The URL has a user or password, which every user of this host could see.
    #[error("leave user and password out: a command line is seen by every user of this host")]
    Login,
    /// Anything else is wrong with the URL.
    #[error("write http://HOST[:PORT], or http://HOST[:PORT]/metrics/job/JOB for a group of your own")]
    Form,
}

/// Reason why metrics could not be pushed.
#[derive(Debug, Error)]
pub enum PushError {
    /// The gateway did not answer in time.
    #[error("{gateway}: no answer within {} s", patience.as_secs_f64())]
    Timeout {
        /// Address of the gateway.
        gateway: String,
        /// Time limit of the push.
        patience: Duration,
    },
    /// The gateway answered something other than HTTP.
    #[error("{gateway}: no HTTP/1.1 ({cause}): is it the port of a gateway?")]
    NoHttp {
        /// Address of the gateway.
        gateway: String,
        /// Fault of the answer.
        cause: Box<ureq::Error>,
    },
    /// The gateway could not be reached, or closed the connection.
    #[error("{gateway}: {cause}")]
    Failed {
        /// Address of the gateway.
        gateway: String,
        /// Cause of the failure.
        cause: Box<ureq::Error>,
    },
    /// The gateway answered with a status other than success.
    #[error("{gateway}: the gateway answered {answer}")]
    Refused {
        /// Address of the gateway.
        gateway: String,
        /// Status of the answer and the beginning of its reason.
        answer: String,
    },
}

impl FromStr for Gateway {
    type Err = GatewayError;

    fn from_str(text: &str) -> Result<Self, GatewayError> {
        if text.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:")) {
            return Err(GatewayError::Tls);
        }
        // `Uri` drops a fragment, and takes more characters in a path than RFC 3986.
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains(['?', '#', '"', '\\']);
        let uri: Uri = Some(text).filter(|_| is_plain).and_then(|text| text.parse().ok()).ok_or(GatewayError::Form)?;
        let authority = uri.authority().ok_or(GatewayError::Form)?;
        match uri.scheme_str() {
            Some("http") if authority.as_str().contains('@') => return Err(GatewayError::Login),
            Some("http") if !authority.host().is_empty() => {}
            _ => return Err(GatewayError::Form),
        }
        let authority = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => format!("{authority}:{PORT}"),
            Some(port) if port.strip_prefix(':').is_some_and(|port| port.parse::<NonZeroU16>().is_ok()) => {
                authority.to_string()
            }
            _ => return Err(GatewayError::Form),
        };
        Ok(Self { authority, path: uri.path().trim_end_matches('/').to_owned() })
    }
}

impl Gateway {
    /// Sets the group to `job` and `instance`, unless the URL names a group.
    #[must_use]
    pub fn with_default_group(mut self, job: &str, instance: &str) -> Self {
        if !self.path.contains("/metrics/job") {
            self.path = format!("{}/metrics/job/{}/instance/{}", self.path, segment(job), segment(instance));
        }
        self
    }

    /// Replaces the metrics of these names in the gateway's group, by one request. Resolving a
    /// name may take longer than `patience`; everything else does not. Proxies that environment
    /// variables name are not used, and redirects not followed.
    ///
    /// # Errors
    /// The gateway cannot be reached within `patience`, or does not take them.
    pub fn push(&self, text: &str, patience: Duration) -> Result<(), PushError> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(MAX_HEAD)
            .proxy(None)
            .timeout_global(Some(patience))
            .user_agent(USER_AGENT)
            .build();
        let agent = Agent::with_parts(config, DefaultConnector::default(), OnThisThread);
        let gateway = self.to_string();
        let request = agent.post(&gateway).header("Content-Type", Format::Classic.content_type());
        match request.send(text) {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(PushError::Refused { gateway, answer: shown(answer) }),
            Err(ureq::Error::Timeout(_)) => Err(PushError::Timeout { gateway, patience }),
            Err(cause @ ureq::Error::Protocol(_)) => Err(PushError::NoHttp { gateway, cause: Box::new(cause) }),
            Err(cause) => Err(PushError::Failed { gateway, cause: Box::new(cause) }),
        }
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { authority, path } = self;
        write!(formatter, "http://{authority}{path}")
    }
}

/// Resolver that works on the calling thread: ureq's own resolver starts another one, and panics
/// where none can be had.
#[derive(Debug)]
struct OnThisThread;

impl Resolver for OnThisThread {
    fn resolve(&self, uri: &Uri, config: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        DefaultResolver::default().resolve(uri, config, NextTimeout::default())
    }
}

/// Encodes one segment of a URL's path: characters other than the unreserved ones of RFC 3986 are
/// escaped.
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

/// Status and beginning of the gateway's answer, for an error: one line that cannot harm a
/// terminal.
fn shown(mut answer: http::Response<Body>) -> String {
    let mut reason = Vec::new();
    // A body that breaks off is shown as far as it came.
    let _ = answer.body_mut().as_reader().take(MAX_BODY).read_to_end(&mut reason);
    let text = format!("{} {}", answer.status(), String::from_utf8_lossy(&reason).trim());
    text.trim().chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
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
        let head = request.to_lowercase();
        for line in ["content-length: 9\r\n", "content-type: text/plain; version=0.0.4", "\r\n\r\nicdc_x 1\n"] {
            assert!(head.contains(line), "{line}: {request}");
        }
    }

    #[test]
    fn what_the_gateway_says_is_told_and_cannot_harm_a_terminal() {
        for (answer, expected) in [
            ("HTTP/1.1 400 Bad Request\r\n\r\ntext format\u{1b}[2J\n", "400 Bad Request text format\\u{1b}[2J"),
            ("SSH-2.0-x\r\n", "no HTTP/1.1"),
            ("", "disconnected"),
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
        assert!(told.ends_with(": no answer within 0.05 s"), "{told}");
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
            ("https://gw/?x", Err(GatewayError::Tls)),
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
