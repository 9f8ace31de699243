//! Limits of the wait for a connection: a timeout, and a descriptor that cancels it.

use std::os::fd::BorrowedFd;

use icdc_units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Limits of the wait while a connection is made: a timeout, and a descriptor that cancels it.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// Time limit for resolving the name and for all addresses together.
    pub timeout: Span,
    /// Descriptor that becomes readable when the caller cancels; `None` if it does not.
    pub cancel: Option<BorrowedFd<'a>>,
}

impl From<Span> for Patience<'_> {
    fn from(timeout: Span) -> Self {
        Self { timeout, cancel: None }
    }
}

/// Whether the caller has cancelled; false if it cannot.
pub(crate) fn is_cancelled(cancel: Option<BorrowedFd<'_>>) -> bool {
    cancel.is_some_and(|cancel| {
        poll(&mut [PollFd::new(&cancel, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    })
}
