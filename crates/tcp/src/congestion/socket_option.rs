//! Choice of the congestion control algorithm of one socket.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::sockopt;
use thiserror::Error;

use crate::options::OptionError;

/// Reason why a congestion control algorithm could not be chosen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CongestionError {
    /// The kernel does not have the algorithm, at least not at present.
    #[error(
        "the kernel has no congestion control \"{name}\"; it has: {}; name one of these, load another with `modprobe tcp_NAME` as root, or take one of icdc's (`icdc cc list`)",
        listed(.available)
    )]
    Unknown {
        /// Requested name.
        name: String,
        /// Names of the available algorithms.
        available: Vec<String>,
    },
    /// The algorithm is available for privileged users only.
    #[error(
        "congestion control \"{name}\" is reserved for root here; allowed: {}; as root, add it to net.ipv4.tcp_allowed_congestion_control",
        listed(.allowed)
    )]
    NotAllowed {
        /// Requested name.
        name: String,
        /// Names of the algorithms that any user may choose.
        allowed: Vec<String>,
    },
    /// The socket option could not be set.
    #[error(transparent)]
    Option(#[from] OptionError),
}

/// The names in one line, for a message.
fn listed(names: &[String]) -> String {
    if names.is_empty() { "(unknown)".to_owned() } else { names.join(", ") }
}

/// Maximum length of an algorithm's name (`TCP_CA_NAME_MAX` less the NUL).
const MAX_NAME: usize = 15;

/// Sets the congestion control of the socket to `name`, as the kernel calls it (`cubic`, `bbr`).
///
/// # Errors
/// See [`CongestionError`].
pub fn set_congestion(fd: &impl AsFd, name: &str) -> Result<(), CongestionError> {
    let unknown =
        || CongestionError::Unknown { name: name.escape_default().to_string(), available: available_congestion() };
    // The kernel would cut a longer name and take the rest of it for an algorithm.
    if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
        return Err(unknown());
    }
    sockopt::set_tcp_congestion(fd, name).map_err(|errno| match errno {
        Errno::NOENT => unknown(),
        Errno::PERM => CongestionError::NotAllowed { name: name.to_owned(), allowed: allowed_congestion() },
        errno => OptionError::of(fd, "setsockopt(TCP_CONGESTION)", errno).into(),
    })
}

/// Kernel name of the congestion control that the socket uses.
///
/// # Errors
/// See [`OptionError`].
pub fn congestion(fd: &impl AsFd) -> Result<String, OptionError> {
    sockopt::tcp_congestion(fd).map_err(|errno| OptionError::of(fd, "getsockopt(TCP_CONGESTION)", errno))
}

/// Names of the algorithms that are built in or loaded; a module that the kernel would load on
/// demand is not among them. Empty if `/proc` does not say.
pub fn available_congestion() -> Vec<String> {
    names(AVAILABLE).unwrap_or_default()
}

/// Names of the algorithms that any user may choose. Empty if `/proc` does not say.
pub fn allowed_congestion() -> Vec<String> {
    names(ALLOWED).unwrap_or_default()
}

/// File with the names of the algorithms that the kernel has at present.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// File with the names of the algorithms that any user may choose.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Reads the names, separated by spaces, in a file of the kernel.
fn names(path: &str) -> io::Result<Vec<String>> {
    Ok(std::fs::read_to_string(path)?.split_whitespace().map(str::to_owned).collect())
}
