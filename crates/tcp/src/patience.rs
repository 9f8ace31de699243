//! Limits of the wait for a connection: a timeout, and a descriptor that cancels it.

use std::os::fd::BorrowedFd;

use icdc_units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Limits of the time for making a connection.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// For the name and all addresses together.
    pub timeout: Span,
    /// Becomes readable when the caller gives up before.
    pub cancel: Option<BorrowedFd<'a>>,
}

impl From<Span> for Patience<'_> {
    fn from(timeout: Span) -> Self {
        Self { timeout, cancel: None }
    }
}

/// Whether the caller has given up.
pub(crate) fn is_cancelled(cancel: Option<BorrowedFd<'_>>) -> bool {
    cancel.is_some_and(|cancel| {
        poll(&mut [PollFd::new(&cancel, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    })
}
