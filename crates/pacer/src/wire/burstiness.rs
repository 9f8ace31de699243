//! Burstiness of the traffic that leaves, class by class, by the measure of PSPacer's authors
//! ([`Burstiness`]): the largest value since the last report, computed for one second at a time.

use icdc_scheduler::Burstiness;
use icdc_units::{ByteCount, Span, Time};

/// Interval at which bursts are computed, unless they are reported earlier.
const SECOND: Span = Span::from_secs(1);

/// Meters of the bursts of the traffic that leaves, one for each class; they keep the largest burst
/// since the last report.
pub(super) struct Bursts {
    classes: Vec<Class>,
    /// Time at which the present second ends.
    end: Time,
}

/// Meter of one class, its parent's index, and the largest burst since the last report.
struct Class {
    meter: Burstiness,
    parent: Option<usize>,
    largest: ByteCount,
}

impl Bursts {
    /// Meters for classes with these parents, from `now` on.
    pub(super) fn new(parents: impl Iterator<Item = Option<usize>>, now: Time) -> Self {
        // Only the clock ends their windows.
        let class = |parent| Class { meter: Burstiness::new(Span::MAX), parent, largest: ByteCount::ZERO };
        Self { classes: parents.map(class).collect(), end: now + SECOND }
    }

    /// Counts a frame that leaves at `at`, for its class and all classes above; times do not
    /// decrease.
    pub(super) fn left(&mut self, class: usize, at: Time, length: ByteCount) {
        let mut path = Some(class);
        while let Some(class) = path.and_then(|index| self.classes.get_mut(index)) {
            class.meter.packet(at, length);
            path = class.parent;
        }
    }

    /// Evaluates the present second if it has ended.
    pub(super) fn advance(&mut self, now: Time) {
        if now >= self.end {
            self.judge(now);
        }
    }

    /// Evaluates the second so far, and begins the next one at `now`.
    fn judge(&mut self, now: Time) {
        for class in &mut self.classes {
            let window = class.meter.cut();
            class.largest = class.largest.max(window.map_or(ByteCount::ZERO, |window| window.burst));
        }
        self.end = now + SECOND;
    }

    /// Largest burst of each class since the last call, in bytes, the present second included.
    pub(super) fn take(&mut self, now: Time) -> Vec<ByteCount> {
        self.judge(now);
        self.classes.iter_mut().map(|class| std::mem::take(&mut class.largest)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: ByteCount = ByteCount::new(1538);

    fn at(micros: u64) -> Time {
        Time::ORIGIN + Span::from_micros(micros)
    }

    #[test]
    fn each_time_it_is_asked_it_tells_of_what_has_left_since() {
        let mut bursts = Bursts::new([None, Some(0), Some(0)].into_iter(), Time::ORIGIN);
        // What was silent before does not count.
        for number in 0..1000 {
            bursts.left(1, at(600_000 + number * 100), FRAME);
            bursts.left(2, at(600_000 + number * 100), FRAME);
        }
        bursts.advance(at(950_000));
        assert_eq!(bursts.take(at(990_000)), [FRAME * 2, FRAME, FRAME], "of a second that is not over");
        assert_eq!(bursts.take(at(995_000)), [ByteCount::ZERO; 3]);
        for _ in 0..5 {
            bursts.left(1, at(1_500_000), FRAME);
        }
        bursts.advance(at(2_000_000));
        for number in 0..1000 {
            bursts.left(2, at(2_100_000 + number * 100), FRAME);
        }
        bursts.advance(at(3_500_000));
        assert_eq!(bursts.take(at(3_600_000)), [FRAME * 5, FRAME * 5, FRAME], "of several seconds the largest");
    }
}
