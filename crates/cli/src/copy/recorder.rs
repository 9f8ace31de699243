//! Keeps what the report of a run needs of its events.
//!
//! Memory is bounded: when there are [`MOST`] intervals, neighbours are merged, and from then on
//! twice as many samples go into one interval.

use icdc_transfer::{Event, Outcome, Sample};
use icdc_units::{Span, Time};

use crate::clock::{monotonic, utc_now};

/// Greatest number of intervals that are kept; then neighbours are merged.
const MOST: usize = 16_384;
/// Greatest number of failures that are kept.
const MOST_FAILURES: usize = 10_000;
/// Collects a copy's events for the report (`--report`), in bounded memory.
pub(crate) struct Recorder {
    kept: Recording,
    open: Option<Interval>,
    samples_per_interval: u32,
}

/// Recorded data of a copy for its report: its samples, in intervals that follow one another
/// without gaps, facts and failures.
pub(crate) struct Recording {
    pub(crate) intervals: Vec<Interval>,
    /// Size of the receiver's ring; 0 if unknown.
    pub(crate) ring_blocks: u32,
    /// Facts of the run, as (name, value).
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) reconnections: u64,
    pub(crate) failures: Vec<String>,
    /// Time at which the run began, by this host's clock; `None` before.
    pub(crate) begun: Option<Time>,
}

/// Successive samples of a copy, merged: sums over them where there are any, else the last value.
/// Times are seconds of the run.
#[derive(Clone, Copy)]
pub(crate) struct Interval {
    samples: u32,
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// Payload that flowed, in bits.
    pub(crate) bits: f64,
    /// Segments retransmitted since the connection began.
    pub(crate) retransmitted: u64,
    pub(crate) ring_used: u32,
    pub(crate) rtt_us: u64,
    pub(crate) cwnd: u64,
    /// Bits per second; 0 if unknown or without limit.
    pub(crate) pacing_bps: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        let kept = Recording {
            intervals: Vec::new(),
            ring_blocks: 0,
            facts: vec![("Started".into(), utc_now())],
            reconnections: 0,
            failures: Vec::new(),
            begun: None,
        };
        Self { kept, open: None, samples_per_interval: 1 }
    }
}

impl Recorder {
    /// Records an event.
    pub(crate) fn add(&mut self, event: &Event) {
        match event {
            Event::Progress(sample) => self.sample(sample),
            Event::Connected { peer, stream: 0, cipher, congestion } => {
                let cipher = cipher.replace("TLS13_", "TLS 1.3 ").replace('_', "-");
                for (name, value) in [("Peer", peer), ("Cipher", &cipher), ("Congestion control", congestion)] {
                    let known = self.kept.facts.iter().any(|(known, _)| known == name);
                    if !value.is_empty() && !known {
                        self.kept.facts.push((name.into(), value.clone()));
                    }
                }
            }
            Event::Reconnecting { .. } => self.kept.reconnections += 1,
            Event::Item { path, outcome: Outcome::Failed, reason, .. } if self.kept.failures.len() < MOST_FAILURES => {
                self.kept.failures.push(format!("{path}: {}", reason.as_deref().unwrap_or("failed")));
            }
            _ => {}
        }
    }

    /// Appends a sample, merged with others once the run is long.
    fn sample(&mut self, sample: &Sample) {
        if sample.seconds > 0.0 {
            let begun = Time::ORIGIN + ((monotonic() - Time::ORIGIN) - Span::from_nanos((sample.seconds * 1e9) as u64));
            // Events that were least held up tell best.
            self.kept.begun = Some(self.kept.begun.map_or(begun, |known| known.min(begun)));
        }
        self.kept.ring_blocks = self.kept.ring_blocks.max(sample.ring_blocks);
        let start = self.open.or(self.kept.intervals.last().copied()).map_or(0.0, |before| before.end);
        if sample.seconds <= start {
            return;
        }
        let next = Interval {
            samples: 1,
            start,
            end: sample.seconds,
            bits: sample.rate_bps as f64 * (sample.seconds - start),
            retransmitted: sample.retransmitted_segments,
            ring_used: sample.ring_used,
            rtt_us: sample.rtt_us,
            cwnd: sample.cwnd,
            pacing_bps: sample.pacing_bps,
        };
        let open = self.open.map_or(next, |open| open.joined(next));
        self.open = Some(open);
        if open.samples >= self.samples_per_interval {
            self.kept.intervals.push(open);
            self.open = None;
        }
        if self.kept.intervals.len() >= MOST {
            self.kept.intervals =
                self.kept.intervals.chunks(2).map(|pair| pair[0].joined(pair[pair.len() - 1])).collect();
            self.samples_per_interval *= 2;
        }
    }

    /// Ends the recording and returns all that was kept.
    pub(crate) fn finish(mut self) -> Recording {
        self.kept.intervals.extend(self.open.take());
        self.kept
    }
}

impl Interval {
    /// This interval merged with the one after it.
    fn joined(self, later: Self) -> Self {
        if self.end == later.end {
            return self;
        }
        Self { samples: self.samples + later.samples, start: self.start, bits: self.bits + later.bits, ..later }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Ten samples per second, at 0 and 2 Mbit/s in turn.
    pub(crate) fn record(samples: u32) -> Recorder {
        let mut recorder = Recorder::default();
        for number in 1..=samples {
            let rate_bps = if number % 2 == 0 { 2_000_000 } else { 0 };
            let sample = Sample {
                seconds: f64::from(number) * 0.1,
                rate_bps,
                rtt_us: 300_000,
                cwnd: 10,
                ring_blocks: 64,
                ..Sample::default()
            };
            recorder.add(&Event::Progress(sample));
        }
        recorder
    }

    #[test]
    fn long_runs_stay_small_and_keep_their_volume() {
        let samples = 100_000;
        let recorder = record(samples);
        assert!(recorder.kept.intervals.len() <= MOST);
        let bits: f64 = recorder.kept.intervals.iter().chain(&recorder.open).map(|interval| interval.bits).sum();
        assert!((bits - f64::from(samples / 2) * 200_000.0).abs() < 1.0, "{bits}");
        let contiguous = recorder.kept.intervals.windows(2).all(|pair| pair[0].end == pair[1].start);
        assert!(contiguous && recorder.kept.intervals[0].start == 0.0);
    }
}
