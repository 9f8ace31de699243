//! How bursty what leaves is, class by class, in the measure of PSPacer's authors ([`Burstiness`]), over windows of a second.

use icdc_control::Burstiness;
use icdc_units::{ByteCount, Span, Time};

const WINDOW: Span = Span::from_secs(1);

/// See the module's description.
pub(super) struct Bursts {
    classes: Vec<Class>,
}

struct Class {
    meter: Burstiness,
    largest: ByteCount,
}

impl Bursts {
    /// Meters for so many classes.
    pub(super) fn new(classes: usize) -> Self {
        let class = || Class { meter: Burstiness::new(WINDOW), largest: ByteCount::ZERO };
        Self { classes: std::iter::repeat_with(class).take(classes).collect() }
    }

    /// A frame leaves at `at`; times do not decrease.
    pub(super) fn left(&mut self, class: usize, at: Time, length: ByteCount) {
        let Some(class) = self.classes.get_mut(class) else { return };
        if let Some(window) = class.meter.packet(at, length) {
            class.largest = class.largest.max(window.burst);
        }
    }

    /// The largest burst in any window that has ended.
    pub(super) fn largest(&self, class: usize) -> ByteCount {
        self.classes.get(class).map_or(ByteCount::ZERO, |class| class.largest)
    }
}
