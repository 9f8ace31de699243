//! Errors of key material and the files that hold it.

use std::io;
use std::path::{Path, PathBuf};

/// Error: a key or a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A system call on a file failed.
    #[error("{path} {}: {cause}", operation(call), path = path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Name of the system call.
        call: &'static str,
        /// Error of the system call.
        cause: io::Error,
    },
    /// An identity exists already, which is never overwritten.
    #[error(
        "{path} exists and is not overwritten: keep using it, or move it away first if its key must change",
        path = path.display()
    )]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A private key can be read by others.
    #[error(
        "{path} can be read by other users (mode {mode:04o}) and is not used: if the key may still be trusted, run `chmod 600 {path}`",
        path = path.display()
    )]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// Another user could have changed a list of trusted keys, or owns a private key.
    #[error("{path} is not trusted: {what}; {remedy}", path = path.display())]
    Unsafe {
        /// Path of the file, or of one of the directories above it.
        path: PathBuf,
        /// The problem.
        what: String,
        /// Remedy for the user.
        remedy: String,
    },
    /// A file does not hold a private key that can be used; or a private key that is in an
    /// ssh-agent was to be written to it.
    #[error(
        "{path} is not an Ed25519 private key in PKCS#8 PEM or OpenSSH form ({what}): make one with `icdc keygen`",
        path = path.display()
    )]
    NotAnIdentity {
        /// Path of the file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// The private half of a key should be in an ssh-agent, which cannot be used.
    #[error("{path} {what}, so ssh-agent must sign: {reason}", path = path.display())]
    Agent {
        /// Path of the file.
        path: PathBuf,
        /// Kind of the file.
        what: &'static str,
        /// Reason why the agent cannot be used, with the remedy.
        reason: String,
    },
    /// The ssh-agent that has the private half of a key has not signed with it.
    #[error("nothing was signed: {reason}")]
    NotSigned {
        /// The reason, with the remedy.
        reason: String,
    },
    /// A public key cannot be read.
    #[error(
        "not a public key ({what}): expected `icdc-ed25519 BASE64 [comment]` or `ssh-ed25519 BASE64 [comment]`, as \
         `icdc keygen` and `ssh-keygen -t ed25519` make them"
    )]
    NotAPublicKey {
        /// The problem.
        what: String,
    },
    /// A line of a list of keys cannot be read.
    #[error("{path}:{line}: {what}", path = path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The problem, and the expected form.
        what: String,
    },
}

/// Description for error messages of the failure of a system call on a file, such as "cannot be
/// read".
fn operation(call: &str) -> &'static str {
    match call {
        "read" => "cannot be read",
        "write" | "fsync" => "cannot be written",
        "mkdir" => "cannot be made",
        "rename" | "renameat" => "cannot be put in its place",
        "fstat" | "stat" => "cannot be looked at",
        _ => "cannot be opened",
    }
}

impl TrustError {
    /// Error of a system call on the file at `path`.
    pub(crate) fn io(path: &Path, call: &'static str, cause: impl Into<io::Error>) -> Self {
        Self::Io { path: path.to_owned(), call, cause: cause.into() }
    }

    /// Error in a line of the file at `path`, counted from 1.
    pub(crate) fn line(path: &Path, line: usize, what: impl Into<String>) -> Self {
        Self::Line { path: path.to_owned(), line, what: what.into() }
    }
}
