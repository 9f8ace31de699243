//! Pacing of writes: when the next bytes may be written, where no kernel paces what is sent.
//!
//! A program that carries a stream may have a window of its own, as a channel of ssh has: no more
//! is under way, on a path however long. It hands on what it gets as soon as it can, and its TCP
//! connection sends that in one burst; so do the others beside it, and together they overflow a
//! queue that what they carry in the mean would never reach. So the writes are paced:
//!
//! ```text
//!   at first    a little more than has arrived, for each round trip: that doubles as the congestion
//!               window does, and the window opens without bursts
//!   then        just under what the window lets through
//!   together    each has its share of the sum of their rates; whoever was late makes up for it,
//!               but all of them for a moment only
//! ```

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use icdc_tcp::clock;
use icdc_units::{ByteCount, Rate, Ratio, Span, Time};

/// Length in time of one write at a limited rate, so that a change of the rate takes effect soon
/// and no write leaves as a long burst.
const STEP: Span = Span::from_millis(10);
/// Minimum number of bytes written at once: a packet's payload.
const LEAST: u64 = 1400;
/// Maximum lateness that is made up for, while idle time is not: of a thread that writes alone.
const LATE: Span = Span::from_millis(20);
/// Maximum lateness that is made up for of one thread of several.
const LATE_BESIDE_OTHERS: Span = Span::from_millis(40);
/// Maximum lateness that several threads together make up for.
const LATE_TOGETHER: Span = Span::from_millis(8);
/// Lower bound of the rate: a lower one would never come to an end.
const LEAST_RATE: Rate = Rate::from_bytes_per_second(1);
/// Round-trip time below which a window opens at once.
const SHORT: Span = Span::from_millis(4);
/// Bytes that a TCP connection may have in flight at its beginning (initial window).
const BEGINNING: ByteCount = ByteCount::new(10 * LEAST);
/// Bytes written in a round trip per byte that has arrived (7/5): the rate doubles with each round
/// trip if that is 2 ln 2.
const GROWTH: Ratio = Ratio::new(7, 5);
/// Share of a window that is used: the peer tells in steps that it has become free, and what
/// cannot be taken waits in the program, to leave in a burst.
const USED: Ratio = Ratio::new(31, 32);

/// Common pacer of several streams, each carried by a program of its own: together they write at
/// the sum of their rates, without a common burst.
#[derive(Debug, Default)]
pub struct SharedPacer(Mutex<Sum>);

/// Sum of the rates of the streams, and the time up to which it is used.
#[derive(Debug)]
struct Sum {
    rate: Rate,
    /// Time when what was written will have been sent at the sum of all rates.
    due: Time,
}

impl Default for Sum {
    fn default() -> Self {
        Self { rate: Rate::ZERO, due: Time::ORIGIN }
    }
}

impl SharedPacer {
    fn lock(&self) -> MutexGuard<'_, Sum> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the rate of one of the streams from `before` to `rate`.
    fn replace(&self, before: Rate, rate: Rate) {
        let mut sum = self.lock();
        sum.rate = sum.rate - before + rate;
    }

    /// Reserves `count` bytes for one of the streams; returns the time when it may write them.
    fn place(&self, count: ByteCount, now: Time) -> Time {
        let mut sum = self.lock();
        let begin = sum.due.max(now - LATE_TOGETHER);
        sum.due = begin + count / sum.rate.max(LEAST_RATE);
        begin
    }
}

/// A window that opens gradually, as TCP's congestion window does.
#[derive(Debug)]
struct Opening {
    window: ByteCount,
    round_trip: Span,
    pacer: Arc<SharedPacer>,
    /// Part of this stream in the sum of the rates.
    rate: Rate,
}

impl Opening {
    /// Rate at which the stream may write when `arrived` bytes have reached the other end's host;
    /// enters it in the common sum.
    fn rate(&mut self, arrived: ByteCount) -> Rate {
        let grown = (arrived + BEGINNING) * GROWTH;
        let rate = grown.min(self.window * USED) / self.round_trip;
        if rate != self.rate {
            self.pacer.replace(self.rate, rate);
            self.rate = rate;
        }
        rate
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.pacer.replace(self.rate, Rate::ZERO);
    }
}

/// Pacer of the writes of one thread; any thread may set the rate.
#[derive(Debug, Default)]
pub(super) struct WriteClock {
    state: Mutex<State>,
    changed: Condvar,
}

/// Rate limits of the writes of one thread, and the time up to which they are used.
#[derive(Debug)]
struct State {
    /// Rate limit; `None` for no limit.
    rate: Option<Rate>,
    opening: Option<Opening>,
    /// Time when what was written will have been sent at the rate.
    due: Time,
    /// Whether pacing has stopped: nothing is waited for any more.
    stopped: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { rate: None, opening: None, due: Time::ORIGIN, stopped: false }
    }
}

impl WriteClock {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the thread that waits by it.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Limits the rate from now on; `None` for no limit.
    pub(super) fn set_rate(&self, rate: Option<Rate>) {
        self.change(|state| state.rate = rate);
    }

    /// Begins to open a window on a path of this round-trip time, together with others; false
    /// where the path is so short that it opens at once.
    pub(super) fn open(&self, window: ByteCount, round_trip: Span, pacer: &Arc<SharedPacer>) -> bool {
        let is_long = round_trip >= SHORT;
        if is_long {
            let pacer = Arc::clone(pacer);
            self.change(|state| state.opening = Some(Opening { window, round_trip, pacer, rate: Rate::ZERO }));
        }
        is_long
    }

    /// Stops pacing: wakes whoever waits.
    pub(super) fn stop(&self) {
        self.change(|state| (state.stopped, state.opening) = (true, None));
    }

    /// Waits until bytes are due; returns how many of `wanted` may be written then. `arrived`
    /// returns how many have arrived since the beginning, where that is known.
    pub(super) fn take(&self, wanted: usize, arrived: impl Fn() -> Option<ByteCount>) -> usize {
        let mut state = self.wait(self.lock(), |state| state.due);
        let (count, at) = state.take(wanted, clock::now(), arrived);
        drop(self.wait(state, |_| at));
        count
    }

    /// Waits until a time, which may change, or until pacing is stopped.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>, until: impl Fn(&State) -> Time) -> MutexGuard<'a, State> {
        loop {
            let pause = until(&state) - clock::now();
            if pause.is_zero() || state.is_free() {
                return state;
            }
            let waited = self.changed.wait_timeout(state, Duration::from(pause));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// Whether no write has to wait.
    fn is_free(&self) -> bool {
        self.stopped || (self.rate.is_none() && self.opening.is_none())
    }

    /// Returns how many of `wanted` bytes may be written, and when, and reserves them.
    fn take(&mut self, wanted: usize, now: Time, arrived: impl Fn() -> Option<ByteCount>) -> (usize, Time) {
        if self.is_free() {
            return (wanted, now);
        }
        let by_window = self.opening.as_mut().and_then(|opening| Some(opening.rate(arrived()?)));
        let Some(rate) = [by_window, self.rate].into_iter().flatten().min() else { return (wanted, now) };
        let rate = rate.max(LEAST_RATE);
        let count = wanted.min((rate * STEP).as_u64().max(LEAST) as usize);
        let bytes = ByteCount::new(count as u64);
        let late = if by_window.is_some() { LATE_BESIDE_OTHERS } else { LATE };
        self.due = self.due.max(now - late) + bytes / rate;
        let at = self.opening.as_ref().map(|opening| opening.pacer.place(bytes, now));
        (count, at.unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_secs(1);
    const BEGIN: Time = Time::ORIGIN;

    /// Bytes that were let go in `span`, of a thread that always has some.
    fn sent(rate: Rate, span: Span) -> u64 {
        let mut state = State { rate: Some(rate), ..State::default() };
        let (mut now, mut sum) = (BEGIN + SECOND * 5, 0);
        let end = now + span;
        while now < end {
            sum += state.take(1 << 20, now, || None).0 as u64;
            now = now.max(state.due);
        }
        sum
    }

    #[test]
    fn what_is_let_go_keeps_to_the_rate() {
        for rate in [100_000, 10_000_000, 1_000_000_000] {
            let sent = sent(Rate::from_bytes_per_second(rate), SECOND);
            assert!(sent.abs_diff(rate) <= rate / 20 + LEAST, "{sent} bytes at {rate} bytes/s");
        }
    }

    #[test]
    fn a_write_that_may_go_at_any_rate_is_whole() {
        assert_eq!(State::default().take(5 << 20, BEGIN, || None).0, 5 << 20);
    }

    const WINDOW: ByteCount = ByteCount::from_mib(2);
    const ROUND_TRIP: Span = Span::from_millis(300);

    /// Streams that open a window each, and always have something to write.
    struct Streams {
        states: Vec<State>,
        /// Of each: when it may go on, and what left when.
        next: Vec<(Time, Vec<(Time, u64)>)>,
    }

    impl Streams {
        fn new(count: usize) -> Self {
            let pacer = Arc::default();
            let opening =
                || Opening { window: WINDOW, round_trip: ROUND_TRIP, pacer: Arc::clone(&pacer), rate: Rate::ZERO };
            let state = || State { opening: Some(opening()), ..State::default() };
            Self { states: (0..count).map(|_| state()).collect(), next: vec![(BEGIN + SECOND, Vec::new()); count] }
        }

        /// Goes on until `end`; nobody writes in `pause`.
        fn run(&mut self, end: Time, pause: Option<(Time, Time)>) {
            let sent = |left: &[(Time, u64)], by: Time| left.iter().filter(|(at, _)| *at <= by).map(|(_, n)| n).sum();
            loop {
                let turn = (0..self.states.len()).min_by_key(|index| self.next[*index].0).unwrap();
                let (state, (next, left)) = (&mut self.states[turn], &mut self.next[turn]);
                let now = match pause {
                    Some((from, to)) if (from..to).contains(next) => to,
                    _ => *next,
                };
                if now >= end {
                    return;
                }
                let arrived = ByteCount::new(sent(left, now - ROUND_TRIP));
                let (count, at) = state.take(1 << 20, now, || Some(arrived));
                left.push((at.max(now), count as u64));
                *next = at.max(now).max(state.due);
            }
        }

        /// Bytes that left from `from` to `to`.
        fn left(&self, from: Time, to: Time) -> u64 {
            let of_all = self.next.iter().flat_map(|(_, left)| left);
            of_all.filter(|(at, _)| (from..to).contains(at)).map(|(_, count)| count).sum()
        }
    }

    #[test]
    fn a_window_opens_by_doubling_and_is_never_quite_full() {
        let mut streams = Streams::new(1);
        streams.run(BEGIN + SECOND * 6, None);
        let round = |number: u64| {
            let from = BEGIN + SECOND + ROUND_TRIP * number;
            streams.left(from, from + ROUND_TRIP) as f64
        };
        for number in 1..6 {
            let growth = round(number) / round(number - 1);
            assert!((1.5..2.5).contains(&growth), "round trip {number}: {growth}");
        }
        for number in 0..15 {
            let used = round(number) / WINDOW.as_u64() as f64;
            assert!(used <= 1.0 && (number < 9 || used > 0.93), "round trip {number}: {used}");
        }
    }

    #[test]
    fn after_a_pause_streams_make_up_for_a_moment_of_it_together() {
        let mut streams = Streams::new(17);
        let pause = (BEGIN + SECOND * 5, BEGIN + SECOND * 5 + Span::from_millis(100));
        streams.run(BEGIN + SECOND * 6, Some(pause));
        let each = WINDOW * USED / ROUND_TRIP;
        let all = each * 17;
        let burst = ByteCount::new(streams.left(pause.1, pause.1 + Span::from_millis(1)));
        assert!(burst <= all * (LATE_TOGETHER + Span::from_millis(2)), "{burst} at once");
        // And none of it is lost where they had not stood still.
        let before = ByteCount::new(streams.left(BEGIN + SECOND * 4, BEGIN + SECOND * 5));
        assert!(before.ratio(all * SECOND) > 0.98, "{before}");
    }

    #[test]
    fn one_that_ends_leaves_the_sum() {
        let mut streams = Streams::new(3);
        streams.run(BEGIN + SECOND * 6, None);
        let pacer = Arc::clone(&streams.states[0].opening.as_ref().unwrap().pacer);
        let three = pacer.lock().rate;
        streams.states.truncate(2);
        assert_eq!(pacer.lock().rate, three * 2 / 3);
        drop(streams);
        assert_eq!(pacer.lock().rate, Rate::ZERO);
    }
}
