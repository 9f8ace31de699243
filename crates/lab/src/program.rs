//! Runs programs of the system: `ip`, `tc`, `unshare`, `ssh-keygen`.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use crate::error::LabError;

/// Runs `ip` in the namespace of the calling thread, with `input` as its standard input.
///
/// # Errors
/// See [`LabError`].
pub fn ip(arguments: &[&str], input: &str) -> Result<(), LabError> {
    run("ip", "iproute2", arguments, input)
}

/// Runs a program to its end, with `input` as its standard input. The error has the program's
/// standard error, or names Debian's `package` to install if the program is missing.
pub fn run(program: &'static str, package: &'static str, arguments: &[&str], input: &str) -> Result<(), LabError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => LabError::Missing { program, package },
        _ => LabError::io(format!("run {program}"), error),
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Where administrators' programs are, whatever the user's PATH is.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading prints the reason on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let ended = child.wait_with_output().map_err(failed)?;
    if ended.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', "; ");
    Err(LabError::Program { program: format!("{program} {}", arguments.join(" ")), output })
}
