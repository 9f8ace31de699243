//! An HTTP request that reports that a copy or a session has ended.
//!
//! ```text
//! POST URL
//! Content-Type: application/json
//! X-Icdc-Signature: sha256=HEX        HMAC-SHA-256 of the body, with the secret
//! ```
//!
//! A request that cannot connect, gets no answer in time, or gets 408, 429 or 5xx is repeated
//! twice. Redirects are not followed: the body would go to a server that the user has not named.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::hmac;
use icdc_stop::StopSignal;
use icdc_units::{Span, hexadecimal};
use thiserror::Error;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, http};

/// Pauses before the second and the third attempt.
const PAUSES: [Span; 2] = [Span::from_secs(1), Span::from_secs(3)];
/// Maximum length of a secret or URL that is read from a file, in bytes.
const LONGEST_SECRET: u64 = 4096;
const USER_AGENT: &str = concat!("icdc/", env!("CARGO_PKG_VERSION"));

/// URL of a webhook. Messages have only host and port of it: the rest may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(Uri);

/// Reason why a text is not a valid URL of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// The text is not a URL.
    #[error("expected a URL such as https://host.example.org/path")]
    Form,
    /// The URL has a user or a password.
    #[error("a URL with a user or a password is seen by everyone on this host; --webhook-secret FILE signs requests")]
    Login,
}

/// Reason why a file does not give the URL of a webhook.
#[derive(Debug, Error)]
pub enum TargetFileError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] SecretError),
    /// The file contains no valid URL.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let uri: Uri = text.parse().map_err(|_| TargetError::Form)?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        match uri.authority() {
            Some(authority) if authority.as_str().contains('@') => Err(TargetError::Login),
            Some(authority) if is_web && !authority.host().is_empty() => Ok(Self(uri)),
            _ => Err(TargetError::Form),
        }
    }
}

impl Target {
    /// Reads a URL from a file that no other user can read, since a URL may hold a token;
    /// whitespace around the URL is not part of it.
    ///
    /// # Errors
    /// See [`TargetFileError`].
    pub fn read(path: &Path) -> Result<Self, TargetFileError> {
        let bytes = read_private(path)?;
        Ok(std::str::from_utf8(&bytes).map_err(|_| TargetError::Form)?.trim().parse()?)
    }

    /// Whether the URL is one of https.
    fn is_encrypted(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// Scheme, host and port of the URL, for messages.
    fn shown(&self) -> String {
        let authority = self.0.authority().map_or("", http::uri::Authority::as_str);
        format!("{}://{authority}", self.0.scheme_str().unwrap_or_default())
    }
}

/// Secret key that signs requests (HMAC-SHA-256).
pub struct Secret(hmac::Key);

/// Reason why a secret cannot be read from a file.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("{path}: {cause}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        cause: io::Error,
    },
    /// Other users can read the file, or it belongs to one of them.
    #[error(
        "{path}: other users can read it (mode {mode:04o}, owner {owner}); run `chmod 600 {path}`, and replace the secret"
    )]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
        /// User id of the file's owner.
        owner: u32,
    },
    /// The file is empty, or longer than any secret.
    #[error("{0}: expected 1 to {LONGEST_SECRET} bytes")]
    Length(PathBuf),
}

impl Secret {
    /// Reads a secret from a file that no other user can read; a newline at its end is not part of
    /// the secret.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let bytes = read_private(path)?;
        let secret = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// Value of the header with the signature (HMAC-SHA-256) of `body`.
    fn sign(&self, body: &str) -> String {
        let tag = hmac::sign(&self.0, body.as_bytes());
        format!("sha256={}", hexadecimal(tag.as_ref()))
    }
}

/// Reads a file with a secret or a URL of 1 to [`LONGEST_SECRET`] bytes; refuses one that other
/// users can read.
fn read_private(path: &Path) -> Result<Vec<u8>, SecretError> {
    let unreadable = |cause| SecretError::Read { path: path.to_owned(), cause };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
    if mode & 0o077 != 0 || !icdc_trust::is_own(&metadata) {
        return Err(SecretError::Exposed { path: path.to_owned(), mode, owner });
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_SECRET + 2).read_to_end(&mut bytes).map_err(unreadable)?;
    let length = bytes.strip_suffix(b"\n").unwrap_or(&bytes).len() as u64;
    if (1..=LONGEST_SECRET).contains(&length) { Ok(bytes) } else { Err(SecretError::Length(path.to_owned())) }
}

/// A web server that receives the requests, with the settings for sending them.
pub struct Webhook {
    agent: Agent,
    target: Target,
    secret: Option<Secret>,
}

/// Reason why a request failed.
#[derive(Debug, Error)]
pub enum WebhookError {
    /// The system's certificates, by which the server is verified, cannot be used.
    #[error(
        "https needs the system's certificates, and none were found ({0}); install ca-certificates, or name a file with SSL_CERT_FILE"
    )]
    NoCertificates(String),
    /// The server was not reached, or did not answer, at the last attempt.
    #[error("{target}: {cause} (after {tries} tries)")]
    Unreached {
        /// Scheme, host and port of the server.
        target: String,
        /// The cause.
        cause: String,
        /// Number of attempts.
        tries: usize,
    },
    /// The server refused the request.
    #[error("{target} answered {status}{}", if status.is_redirection() { "; redirects are not followed; use the final URL" } else { "" })]
    Refused {
        /// Scheme, host and port of the server.
        target: String,
        /// HTTP status of its answer.
        status: http::StatusCode,
    },
    /// The server answered the last attempt with a status that asks for a later one (408, 429 or
    /// 5xx).
    #[error("{target} answered {status} ({tries} tries)")]
    Busy {
        /// Scheme, host and port of the server.
        target: String,
        /// HTTP status of its last answer.
        status: http::StatusCode,
        /// Number of attempts.
        tries: usize,
    },
}

impl Webhook {
    /// New webhook that sends requests to `target`, each with this time limit.
    ///
    /// # Errors
    /// [`WebhookError::NoCertificates`].
    pub fn new(target: Target, secret: Option<Secret>, limit: Span) -> Result<Self, WebhookError> {
        let mut tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        if target.is_encrypted() {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
                return Err(WebhookError::NoCertificates(errors.join("; ")));
            }
            let certificates = found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
            tls = tls.root_certs(RootCerts::from(certificates));
        }
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(limit.into()))
            .user_agent(USER_AGENT)
            .build();
        Ok(Self { agent: config.into(), target, secret })
    }

    /// Sends `body`, JSON, until it is accepted or refused, or all attempts have failed, or `stop`
    /// is requested.
    ///
    /// # Errors
    /// See [`WebhookError`].
    pub fn post(&self, body: &str, stop: &StopSignal) -> Result<(), WebhookError> {
        let (mut pauses, mut tries) = (PAUSES.into_iter(), 0);
        loop {
            tries += 1;
            let target = self.target.shown();
            let failed = match self.once(body) {
                Ok(status) if status.is_success() => return Ok(()),
                Ok(status) if matches!(status.as_u16(), 408 | 429 | 500..) => {
                    WebhookError::Busy { target, status, tries }
                }
                Ok(status) => return Err(WebhookError::Refused { target, status }),
                Err(error) => WebhookError::Unreached { target, cause: error.to_string(), tries },
            };
            match pauses.next() {
                Some(pause) if !stop.wait(pause) => {}
                _ => return Err(failed),
            }
        }
    }

    /// Makes one attempt to send the request; returns the HTTP status of the answer.
    fn once(&self, body: &str) -> Result<http::StatusCode, ureq::Error> {
        let mut request = self.agent.post(&self.target.0).header("Content-Type", "application/json");
        if let Some(secret) = &self.secret {
            request = request.header("X-Icdc-Signature", secret.sign(body));
        }
        Ok(request.send(body)?.status())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_rfc_4231() {
        // Test case 2.
        let secret = Secret(hmac::Key::new(hmac::HMAC_SHA256, b"Jefe"));
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(secret.sign("what do ya want for nothing?"), expected);
    }

    #[test]
    fn a_target_is_a_web_server_and_no_secret_of_it_is_shown() {
        let target: Target = "https://hooks.example.org:8443/services/TOKEN?key=SECRET".parse().unwrap();
        assert_eq!(target.shown(), "https://hooks.example.org:8443");
        for (text, error) in [
            ("", TargetError::Form),
            ("hooks.example.org", TargetError::Form),
            ("ftp://hooks.example.org", TargetError::Form),
            ("https:///path", TargetError::Form),
            ("https://user:password@hooks.example.org/", TargetError::Login),
        ] {
            assert_eq!(text.parse::<Target>(), Err(error), "{text}");
        }
    }
}
