//! The greatest rate at which bytes reached the other end, over fractions of a round trip.

use std::collections::VecDeque;

use icdc_units::{ByteCount, Rate, Span, Time};

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// What was delivered by when, for as long as a fraction of a round trip.
    recent: VecDeque<(Time, ByteCount)>,
    peak: Rate,
}

impl Delivery {
    /// Takes note of what is delivered at `now`; `span` is the fraction.
    pub(super) fn note(&mut self, now: Time, delivered: ByteCount, span: Span) {
        while self.recent.get(1).is_some_and(|(at, _)| now - *at >= span) {
            self.recent.pop_front();
        }
        if let Some((since, bytes)) = self.recent.front().filter(|(since, _)| now - *since >= span) {
            self.peak = self.peak.max((delivered - *bytes) / (now - *since));
        }
        self.recent.push_back((now, delivered));
    }

    /// The greatest rate since it was last taken.
    pub(super) fn peak(&self) -> Rate {
        self.peak
    }

    /// Gives the greatest rate and begins anew.
    pub(super) fn take_peak(&mut self) -> Rate {
        std::mem::replace(&mut self.peak, Rate::ZERO)
    }
}
