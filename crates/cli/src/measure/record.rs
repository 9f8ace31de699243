//! Keeps the samples of a run for its end. Memory is bounded: when there are [`MOST`], every second
//! look is given up, and from then on half as many are kept.

use std::collections::BTreeMap;

use icdc_protocol::limits::MAX_STREAMS;
use icdc_protocol::measure::Sample;
use icdc_units::{Span, Time};

/// Greatest number of samples that are kept; then every second look is dropped.
const MOST: usize = 65_536;

/// Samples of a measurement that are kept for its end. Those of all connections at one time are a
/// look; the kept looks are evenly spread over the run.
pub(crate) struct Record {
    looks: BTreeMap<u64, Vec<Sample>>,
    kept: usize,
    seen: u64,
    stride: u64,
    last: Option<u64>,
    begun: Option<Time>,
}

impl Default for Record {
    fn default() -> Self {
        Self { looks: BTreeMap::new(), kept: 0, seen: 0, stride: 1, last: None, begun: None }
    }
}

impl Record {
    /// Adds samples that arrived at `now`, from which the sender's start is estimated. Samples with
    /// one `at_nanos` belong to one look at all connections. Once there are [`MOST`] samples, every
    /// second look is dropped, and fewer of those that follow are kept.
    pub(crate) fn add(&mut self, now: Time, samples: Vec<Sample>) {
        if let Some(first) = samples.first() {
            // Those that were least held up on their way tell best when the sender began.
            let begun = Time::ORIGIN + ((now - Time::ORIGIN) - Span::from_nanos(first.at_nanos));
            self.begun = Some(self.begun.map_or(begun, |known| known.min(begun)));
        }
        for sample in samples {
            if self.last != Some(sample.at_nanos) {
                self.last = Some(sample.at_nanos);
                self.seen += 1;
            }
            if (self.seen - 1).is_multiple_of(self.stride) {
                let look = self.looks.entry(sample.at_nanos).or_default();
                // Whatever a far end says: there are no more connections than this.
                if look.len() < usize::from(MAX_STREAMS) {
                    look.push(sample);
                    self.kept += 1;
                }
            }
            if self.kept >= MOST {
                self.thin();
            }
        }
    }

    /// Time at which the sender began, by this host's clock; `None` before. If the sender is the
    /// far end, it is later by the way of the samples.
    pub(crate) fn begun(&self) -> Option<Time> {
        self.begun
    }

    /// The looks that were kept, as (seconds since the sender's start, samples of all connections).
    pub(crate) fn looks(&self) -> impl Iterator<Item = (f64, &[Sample])> {
        self.looks.iter().map(|(at, samples)| (*at as f64 / 1e9, samples.as_slice()))
    }

    /// Median of the smoothed round-trip times in seconds; `None` without samples.
    pub(crate) fn median_rtt(&self) -> Option<f64> {
        let mut rtts: Vec<u64> = self.looks.values().flatten().map(|sample| sample.rtt_nanos).collect();
        rtts.retain(|rtt| *rtt > 0);
        rtts.sort_unstable();
        rtts.get(rtts.len() / 2).map(|rtt| *rtt as f64 / 1e9)
    }

    /// Drops every second look, and halves the number of those that will be kept.
    fn thin(&mut self) {
        let mut number = 0_u64;
        self.looks.retain(|_, _| {
            number += 1;
            number % 2 == 1
        });
        self.kept = self.looks.values().map(Vec::len).sum();
        self.stride *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_stay_small_and_evenly_spread() {
        let mut record = Record::default();
        for look in 0..300_000_u64 {
            let sample = |stream| Sample { stream, at_nanos: look * 10_000_000, rtt_nanos: look, ..Sample::default() };
            record.add(Time::ORIGIN + Span::from_secs(3600), vec![sample(0), sample(1)]);
        }
        let sample = Sample { at_nanos: u64::MAX, ..Sample::default() };
        record.add(Time::ORIGIN, vec![sample; 2 * MOST]);
        assert!(record.kept <= MOST && record.kept > MOST / 4, "{}", record.kept);
        let times: Vec<f64> = record.looks().map(|(at, _)| at).collect();
        let steps: Vec<f64> = times[..times.len() - 1].windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 1e-6));
        assert!((record.median_rtt().unwrap() * 1e9 - 150_000.0).abs() < 1000.0);
    }
}
