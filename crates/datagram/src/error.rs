//! Errors of connections over datagrams.

use std::io;

use icdc_units::Span;
use quinn_proto::{ConnectError, ConnectionError};

/// Failure of a connection over datagrams.
#[derive(Debug, thiserror::Error)]
pub enum DatagramError {
    /// The kernel refuses a system call.
    #[error("{call}: {cause}")]
    Kernel {
        /// The call that failed.
        call: &'static str,
        /// Error of the kernel.
        cause: io::Error,
    },
    /// The address is none that can be reached by datagrams.
    #[error("cannot send datagrams there: {0}")]
    Address(#[from] ConnectError),
    /// Nothing has answered in time: nobody listens there, or datagrams do not pass.
    #[error("no answer to datagrams within {timeout}: nobody listens at the UDP port, or a firewall drops them")]
    NoAnswer {
        /// How long an answer was waited for.
        timeout: Span,
    },
    /// The connection has ended.
    #[error("the connection over datagrams has ended: {0}")]
    Ended(String),
    /// The caller asked to give up.
    #[error("given up")]
    GivenUp,
}

impl DatagramError {
    pub(crate) fn kernel(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Kernel { call, cause }
    }
}

impl From<ConnectionError> for DatagramError {
    fn from(error: ConnectionError) -> Self {
        Self::Ended(error.to_string())
    }
}
