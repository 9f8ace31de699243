//! Deadlines of requests. They decide only when to give up.

use std::time::{Duration, Instant};

/// Time at which an HTTP client's connection is given up, or a pause ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Deadline that is this long from now.
    pub(crate) fn after(span: Duration) -> Self {
        Self(now() + span)
    }

    /// Time until the deadline; zero once it has passed.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(now())
    }
}

/// Time of the monotonic clock.
fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the clock of this crate")]
    Instant::now()
}
