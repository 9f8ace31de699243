//! Conversion of errors of libbpf and of files to those of a policy.

use std::path::Path;

use crate::policy::PolicyError;

/// Makes the error of a call of libbpf on this path a [`PolicyError`], with its causes in one line.
pub(super) fn refused(path: &Path, call: &'static str) -> impl Fn(libbpf_rs::Error) -> PolicyError {
    let path = path.to_owned();
    move |error| PolicyError::Call { path: path.clone(), call, reason: format!("{error:#}") }
}

/// Makes the error of a system call on this path a [`PolicyError`].
pub(super) fn failed(path: &Path, call: &'static str) -> impl Fn(std::io::Error) -> PolicyError {
    let path = path.to_owned();
    move |error| PolicyError::Call { path: path.clone(), call, reason: error.to_string() }
}
