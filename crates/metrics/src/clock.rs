//! Deadlines of requests: nothing is decided by them but when to give up.

use std::time::{Duration, Instant};

/// An instant by which something has to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub(crate) fn after(span: Duration) -> Self {
        Self(now() + span)
    }

    /// Time until then; zero once it has passed.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(now())
    }
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the clock of this crate")]
    Instant::now()
}
