//! The times at which a client reconnects after its session has ended, and at which it gives up.
//!
//! The first pause is short, and each further one twice as long. When anything has arrived since
//! the last session, the pauses and the total time begin anew.

use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_units::{Span, Time};

use crate::SessionError;

/// Default time for which a client tries to get a connection on which something arrives.
pub const RETRY_FOR: Span = Span::from_secs(600);

/// Pause before the first attempt to reconnect.
const FIRST_PAUSE: Span = Span::from_millis(500);
/// Longest pause before an attempt: the pauses double up to it.
const LONGEST_PAUSE: Span = Span::from_secs(15);

/// Schedule of a client's attempts to reconnect: exponential backoff with a time limit.
#[derive(Clone, Debug)]
pub struct Retry {
    /// Time without any arriving data after which the client gives up.
    patience: Span,
    /// The attempts since data last arrived; `None` before the first session has ended.
    attempts: Option<Attempts>,
}

/// The attempts to reconnect since data last arrived: the next one, and the time at which the
/// client gives up.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    /// Time at which the client gives up.
    until: Time,
    next: Attempt,
}

/// An attempt to reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Number of the attempt, counted from 1 since data last arrived.
    pub number: u32,
    /// Pause before the attempt.
    pub pause: Span,
}

impl Retry {
    /// The schedule of a client that gives up when no data has arrived for `patience`.
    #[must_use]
    pub fn new(patience: Span) -> Self {
        Self { patience, attempts: None }
    }

    /// Whether a session has ended before, so that this is not the first attempt.
    #[must_use]
    pub fn has_tried(&self) -> bool {
        self.attempts.is_some()
    }

    /// Whether another session is worth starting after `error`; `stops`: the user has requested the
    /// end.
    #[must_use]
    pub fn is_worth_it(&self, error: &SessionError, stops: bool) -> bool {
        match error {
            SessionError::Cut(_) => true,
            // The far end was stopped.
            SessionError::Interrupted => !stops,
            // An earlier connection of this run may still be ending there.
            SessionError::Refused(Refusal { kind: RefusalKind::Busy, .. }) => self.has_tried(),
            SessionError::Refused(_) | SessionError::Protocol(_) | SessionError::Local(_) => false,
        }
    }

    /// Records that a session has ended or could not be started; `progressed`: data arrived in it.
    /// Returns the next attempt, or `None` if the client is to give up.
    pub fn again(&mut self, now: Time, progressed: bool) -> Option<Attempt> {
        let anew = Attempts { until: now + self.patience, next: Attempt { number: 1, pause: FIRST_PAUSE } };
        let attempts = self.attempts.filter(|_| !progressed).unwrap_or(anew);
        let Attempts { until, next: attempt @ Attempt { number, pause } } = attempts;
        let next = Attempt { number: number + 1, pause: (pause * 2).min(LONGEST_PAUSE) };
        self.attempts = Some(Attempts { until, next });
        (now < until).then_some(attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ORIGIN;

    #[test]
    fn pauses_double_up_to_a_limit_and_begin_anew_when_something_has_arrived() {
        let mut retry = Retry::new(RETRY_FOR);
        let pauses: Vec<u64> =
            (0..7).map_while(|_| retry.again(NOW, false)).map(|attempt| attempt.pause.as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
        assert_eq!(retry.again(NOW, true), Some(Attempt { number: 1, pause: FIRST_PAUSE }));
        assert_eq!(retry.again(NOW, false).map(|attempt| attempt.number), Some(2));
    }

    #[test]
    fn it_is_given_up_when_nothing_arrives_for_long_enough() {
        let mut retry = Retry::new(Span::from_secs(5));
        assert!(retry.again(NOW, false).is_some() && retry.again(NOW + Span::from_secs(4), false).is_some());
        assert!(retry.clone().again(NOW + Span::from_secs(5), true).is_some());
        assert_eq!(retry.again(NOW + Span::from_secs(5), false), None);
        assert_eq!(Retry::new(Span::ZERO).again(NOW, false), None);
    }

    #[test]
    fn what_an_earlier_session_or_the_far_end_may_be_the_reason_of_is_tried_again() {
        let busy = SessionError::Refused(Refusal { kind: RefusalKind::Busy, reason: String::new() });
        let mut retry = Retry::new(RETRY_FOR);
        assert!(!retry.is_worth_it(&busy, false) && retry.is_worth_it(&SessionError::Cut(String::new()), false));
        assert!(retry.is_worth_it(&SessionError::Interrupted, false));
        assert!(!retry.is_worth_it(&SessionError::Interrupted, true));
        assert!(retry.again(NOW, false).is_some() && retry.is_worth_it(&busy, false));
        assert!(!retry.is_worth_it(&SessionError::Protocol(String::new()), false));
    }
}
