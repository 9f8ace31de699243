//! Errors of operations on a network device.

use std::io;

use thiserror::Error;

/// Error: a system call on a network device, or on a packet socket, failed.
#[derive(Debug, Error)]
#[error("{call} on device {device}: {cause}{}", hint(.cause))]
pub struct PacketError {
    /// The system call and the option.
    pub call: &'static str,
    /// Name of the device.
    pub device: String,
    /// Error of the system call.
    pub cause: io::Error,
}

impl PacketError {
    /// Error of a system call on a device.
    pub(crate) fn new(call: &'static str, device: &str, cause: impl Into<io::Error>) -> Self {
        Self { call, device: device.to_owned(), cause: cause.into() }
    }

    /// Error of the system call that has just failed, from `errno`.
    pub(crate) fn last(call: &'static str, device: &str) -> Self {
        Self::new(call, device, io::Error::last_os_error())
    }
}

/// Advice for users about the cause, to be appended to the message; empty if there is none.
fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "; raw frames need root, or CAP_NET_RAW and CAP_NET_ADMIN",
        Some(libc::ENODEV) => "; `ip link` lists the devices",
        Some(libc::ENOMEM) => "; the kernel has no memory for a ring of this size",
        _ => "",
    }
}
