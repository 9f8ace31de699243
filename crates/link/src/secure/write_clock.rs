//! When the next bytes may be written, where no kernel paces what is sent.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use icdc_tcp::clock;
use icdc_units::{ByteCount, Rate, Span, Time};

/// Writes at a rate that is capped are of so much time, so that a change of the rate is heeded soon
/// and none leaves as a long burst.
const STEP: Span = Span::from_millis(10);
/// The least that is written at once: a packet's payload.
const LEAST: u64 = 1400;

/// Paces the writes of one thread; the rate is set by any.
#[derive(Debug, Default)]
pub(super) struct WriteClock {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    rate: Rate,
    /// When what was written will have been sent at the rate.
    due: Time,
    /// Nothing is waited for any more.
    stopped: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { rate: Rate::MAX, due: Time::ORIGIN, stopped: false }
    }
}

impl WriteClock {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Caps the rate from now on; [`Rate::MAX`] for none.
    pub(super) fn set_rate(&self, rate: Rate) {
        self.change(|state| state.rate = rate);
    }

    /// Lets whoever waits go.
    pub(super) fn stop(&self) {
        self.change(|state| state.stopped = true);
    }

    /// Waits until bytes are due; how many of `wanted` may be written then.
    pub(super) fn take(&self, wanted: usize) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = clock::now();
            let pause = state.due - now;
            if state.rate == Rate::MAX || state.stopped || pause.is_zero() {
                return state.take(wanted, now);
            }
            let waited = self.changed.wait_timeout(state, Duration::from(pause));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// How many of `wanted` bytes may be written, which is noted.
    fn take(&mut self, wanted: usize, now: Time) -> usize {
        if self.rate == Rate::MAX || self.stopped {
            return wanted;
        }
        let count = wanted.min((self.rate * STEP).as_u64().max(LEAST) as usize);
        // Time that went by unused is not made up for, but what a late thread has missed is.
        let begin = self.due.max(now - STEP * 2);
        self.due = begin + ByteCount::new(count as u64) / self.rate.max(Rate::from_bytes_per_second(1));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that were let go by `until`, of a thread that always has some.
    fn sent(rate: Rate, until: Time) -> u64 {
        let mut state = State { rate, ..State::default() };
        let (mut now, mut sum) = (Time::ORIGIN + Span::from_secs(5), 0);
        let end = now + (until - Time::ORIGIN);
        while now < end {
            sum += state.take(1 << 20, now) as u64;
            now = now.max(state.due);
        }
        sum
    }

    #[test]
    fn what_is_let_go_keeps_to_the_rate() {
        let second = Time::ORIGIN + Span::from_secs(1);
        for rate in [100_000, 10_000_000, 1_000_000_000] {
            let sent = sent(Rate::from_bytes_per_second(rate), second);
            assert!(sent.abs_diff(rate) <= rate / 20 + LEAST, "{sent} bytes at {rate} bytes/s");
        }
    }

    #[test]
    fn a_write_that_may_go_at_any_rate_is_whole() {
        assert_eq!(State::default().take(5 << 20, Time::ORIGIN), 5 << 20);
    }
}
