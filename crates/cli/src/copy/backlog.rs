//! Whether a copy that follows its sources falls behind.
//!
//! What waits goes up by a whole file when one has settled, and down as it travels. So it is the lowest points that are
//! compared: a copy that keeps up gets through with everything now and then.
//!
//! ```text
//!  time     │ −3·THIRD … −2·THIRD │ −2·THIRD … −THIRD │ −THIRD … now │
//!  lowest   │          a          │         b         │      c       │
//!
//!  falls behind: a < b < c, by (c − a) / (2 · THIRD)
//! ```

use std::collections::VecDeque;

/// Seconds of one of the three times whose lowest points are compared. Chosen: what is told is a change per minute.
const THIRD: f64 = 20.0;

/// Bytes that wait, over the last minute.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Lowest points of the last times that are over, the oldest first.
    lowest: VecDeque<u64>,
    /// End in seconds of the time that goes on, and its lowest point so far.
    open: Option<(f64, u64)>,
    /// Growth in bytes per minute, by the times that are over.
    growth: Option<u64>,
}

impl Backlog {
    /// Takes how many bytes wait at this time in seconds.
    pub(crate) fn observe(&mut self, seconds: f64, waiting: u64) {
        let (mut end, lowest) = *self.open.get_or_insert((seconds + THIRD, waiting));
        let mut lowest = lowest.min(waiting);
        while seconds >= end {
            self.lowest.push_back(lowest);
            (end, lowest) = (end + THIRD, waiting);
            if self.lowest.len() > 3 {
                self.lowest.pop_front();
            }
            self.growth = self.of_last_minute();
        }
        self.open = Some((end, lowest));
    }

    /// Growth in bytes per minute, 0 if the copy keeps up; `None` in the first minute.
    pub(crate) fn growth(&self) -> Option<u64> {
        self.growth
    }

    fn of_last_minute(&self) -> Option<u64> {
        let [a, b, c] = [0, 1, 2].map(|place| self.lowest.get(place).copied());
        let (a, b, c) = (a?, b?, c?);
        let per_minute = |bytes: u64| (bytes as f64 * 60.0 / (2.0 * THIRD)) as u64;
        Some(if a < b && b < c { per_minute(c - a) } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Growth with files of 100 bytes, one every `period` seconds, of which `rate` bytes per second travel, in each second
    /// after the first minute.
    fn growths(period: u64, rate: u64) -> Vec<u64> {
        let (mut backlog, mut waiting) = (Backlog::default(), 0_u64);
        let mut growths = Vec::new();
        for second in 0..600 {
            waiting = waiting.saturating_sub(rate) + if second % period == 0 { 100 } else { 0 };
            backlog.observe(second as f64, waiting);
            growths.extend(backlog.growth());
        }
        growths
    }

    #[test]
    fn a_copy_that_keeps_up_with_bursts_does_not_fall_behind() {
        for (period, rate) in [(1, 101), (10, 11), (60, 2), (300, 1), (150, 1)] {
            let growths = growths(period, rate);
            assert!(growths.len() > 500 && growths.iter().all(|growth| *growth == 0), "{period} {rate}: {growths:?}");
        }
    }

    #[test]
    fn one_that_is_too_slow_falls_behind_by_what_it_lacks() {
        // 10 bytes come and 4 go in each second.
        let growths = growths(10, 4);
        assert!(growths.iter().all(|growth| (270..450).contains(growth)), "{growths:?}");
    }

    #[test]
    fn nothing_is_said_in_the_first_minute_nor_of_a_long_silence() {
        let mut backlog = Backlog::default();
        for second in 0..60 {
            backlog.observe(f64::from(second), 100 * u64::from(second as u32));
            assert_eq!(backlog.growth(), None);
        }
        backlog.observe(60.0, 6000);
        assert!(backlog.growth().is_some_and(|growth| growth > 0));
        backlog.observe(300.0, 6000);
        assert_eq!(backlog.growth(), Some(0));
    }
}
