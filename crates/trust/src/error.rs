//! Errors of key material and the files that hold it.

use std::io;
use std::path::{Path, PathBuf};

/// A key or a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A system call on a file failed.
    #[error("{path} {}: {cause}", operation(call), path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system call.
        call: &'static str,
        /// Its error.
        cause: io::Error,
    },
    /// An identity is already there and is never overwritten.
    #[error(
        "{path} exists and is not overwritten: keep using it, or move it away first if its key must change",
        path = path.display()
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A private key can be read by others.
    #[error(
        "{path} can be read by other users (mode {mode:04o}) and is not used: if the key may still be trusted, run `chmod 600 {path}`",
        path = path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user could have changed a list of trusted keys, or owns a private key.
    #[error("{path} is not trusted: {what}; {remedy}", path = path.display())]
    Unsafe {
        /// The file or one of the directories above it.
        path: PathBuf,
        /// The problem.
        what: String,
        /// The remedy.
        remedy: String,
    },
    /// A file does not hold a private key that can be used.
    #[error(
        "{path} is not an Ed25519 private key in PKCS#8 PEM or OpenSSH form ({what}): make one with `icdc keygen`",
        path = path.display()
    )]
    NotAnIdentity {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// The private half of a key is to be asked of an ssh-agent, which does not help.
    #[error("{path} {what}, so ssh-agent must sign: {reason}", path = path.display())]
    Agent {
        /// The file.
        path: PathBuf,
        /// Kind of the file.
        what: &'static str,
        /// Reason why the agent cannot be used, with the remedy.
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
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// The problem, and the expected form.
        what: String,
    },
}

/// Purpose of a system call, in words for users.
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
    pub(crate) fn io(path: &Path, call: &'static str, cause: impl Into<io::Error>) -> Self {
        Self::Io { path: path.to_owned(), call, cause: cause.into() }
    }

    pub(crate) fn line(path: &Path, line: usize, what: impl Into<String>) -> Self {
        Self::Line { path: path.to_owned(), line, what: what.into() }
    }
}
