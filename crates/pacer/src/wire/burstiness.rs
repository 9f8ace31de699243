//! How bursty what leaves is, class by class, in the measure of PSPacer's authors ([`Burstiness`]):
//! the largest since it was last told, sought in a second at a time.

use icdc_scheduler::Burstiness;
use icdc_units::{ByteCount, Span, Time};

/// What bursts are sought in, unless it is told earlier.
const SECOND: Span = Span::from_secs(1);

/// See the module's description.
pub(super) struct Bursts {
    classes: Vec<Class>,
    /// When the second that is under way ends.
    end: Time,
}

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

    /// A frame leaves at `at`, for its class and all that this is part of; times do not decrease.
    pub(super) fn left(&mut self, class: usize, at: Time, length: ByteCount) {
        let mut path = Some(class);
        while let Some(class) = path.and_then(|index| self.classes.get_mut(index)) {
            class.meter.packet(at, length);
            path = class.parent;
        }
    }

    /// Judges the second that is under way if it is over.
    pub(super) fn go_on(&mut self, now: Time) {
        if now >= self.end {
            self.judge(now);
        }
    }

    fn judge(&mut self, now: Time) {
        for class in &mut self.classes {
            let window = class.meter.cut();
            class.largest = class.largest.max(window.map_or(ByteCount::ZERO, |window| window.burst));
        }
        self.end = now + SECOND;
    }

    /// By class the largest burst since this was last asked for.
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
        bursts.go_on(at(950_000));
        assert_eq!(bursts.take(at(990_000)), [FRAME * 2, FRAME, FRAME], "of a second that is not over");
        assert_eq!(bursts.take(at(995_000)), [ByteCount::ZERO; 3]);
        for _ in 0..5 {
            bursts.left(1, at(1_500_000), FRAME);
        }
        bursts.go_on(at(2_000_000));
        for number in 0..1000 {
            bursts.left(2, at(2_100_000 + number * 100), FRAME);
        }
        bursts.go_on(at(3_500_000));
        assert_eq!(bursts.take(at(3_600_000)), [FRAME * 5, FRAME * 5, FRAME], "of several seconds the largest");
    }
}
