//! Greatest delivery rate over fractions of a round trip.

use std::collections::VecDeque;

use icdc_units::{ByteCount, Rate, Span, Time};

/// Meter of the greatest delivery rate.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Times, and the bytes delivered by then, over one fraction of a round trip.
    recent: VecDeque<(Time, ByteCount)>,
    peak: Rate,
}

impl Delivery {
    /// Adds the bytes `delivered` by `now`; `span` is the fraction.
    pub(super) fn note(&mut self, now: Time, delivered: ByteCount, span: Span) {
        while self.recent.get(1).is_some_and(|(at, _)| now - *at >= span) {
            self.recent.pop_front();
        }
        if let Some((since, bytes)) = self.recent.front().filter(|(since, _)| now - *since >= span) {
            self.peak = self.peak.max((delivered - *bytes) / (now - *since));
        }
        self.recent.push_back((now, delivered));
    }

    /// Greatest delivery rate since [`Self::take_peak`].
    pub(super) fn peak(&self) -> Rate {
        self.peak
    }

    /// Returns the greatest rate and resets it.
    pub(super) fn take_peak(&mut self) -> Rate {
        std::mem::replace(&mut self.peak, Rate::ZERO)
    }
}
