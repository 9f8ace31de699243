//! `ip` (iproute2), which does what would take a library of rtnetlink.

use std::process::{Command, Stdio};

use thiserror::Error;

/// It could not, or would not.
#[derive(Debug, Error)]
#[error("{command}: {reason}")]
pub struct IpError {
    /// What was run.
    pub command: String,
    /// What it said.
    pub reason: String,
}

/// Runs `ip` in the network namespace of this thread and gives what it prints.
pub(crate) fn ip(words: &[&str]) -> Result<String, IpError> {
    let failed = |reason: String| IpError { command: format!("ip {}", words.join(" ")), reason };
    let mut command = Command::new("ip");
    // Where administrators' programs are, whatever the user's PATH is.
    let path = std::env::var("PATH").unwrap_or_default();
    command.args(words).stdin(Stdio::null()).env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    let output = command.output().map_err(|error| failed(format!("{error}; install iproute2")))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The word behind `name` in a line of `ip`.
pub(crate) fn after<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut words = line.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()
}
