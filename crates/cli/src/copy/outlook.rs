//! Future of a copy, as its events tell of it: when it is complete, and whether one that follows its sources falls
//! behind.
//!
//! All that is needed is in the events, so that it is known at the end that the user sees, whichever end sends.
//!
//! ```text
//!                 arriving                                     stored
//!  done           bytes arrived − bytes of an earlier run      the same − blocks that wait for the destination's disk
//!  left           bytes found − bytes of items that need       the same + blocks that wait
//!                 not travel or have failed − bytes arrived
//!  cost of files  none                                         weighed
//! ```
//!
//! While the path limits, or a rate that is set, what arrives tells when all has: how much waits for the disk and how many
//! files have their names goes up and down meanwhile, as the disk publishes many at a time, and says nothing. While
//! anything else limits, what is stored does. The forecast is between the two, by the share of the recent time in which
//! something else than the path was the limit.

use icdc_protocol::limits::BLOCK_SIZE;
use icdc_transfer::{Event, IfRunning, Outcome, Sample, Stage};
use icdc_units::Rate;
use serde::{Deserialize, Serialize};

use super::backlog::Backlog;
use super::completion::{Completion, TimeLeft, Work};

/// Time in seconds without a sign of the other end after which nothing is predicted.
const SILENT: f64 = 2.0;
/// Round trips from the last byte to the end: the receiver's report, and the sender's answer.
const LAST_ROUND_TRIPS: f64 = 2.0;

/// Future of a copy, as far as it can be said, for a person and as members of the progress events in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Forecast {
    /// Seconds until the copy is complete; `None` as long as it cannot be said.
    #[serde(default)]
    pub(crate) seconds_left: Option<f64>,
    /// Seconds that it takes at least, by how the rate varies and what is not known of files; `None` as above.
    #[serde(default)]
    pub(crate) seconds_left_low: Option<f64>,
    /// Seconds that it takes at most, likewise.
    #[serde(default)]
    pub(crate) seconds_left_high: Option<f64>,
    /// Bytes that have settled in sources that are followed, and are not at the destination; `None` for other copies.
    #[serde(default)]
    pub(crate) behind_bytes: Option<u64>,
    /// Bytes per minute by which these become more, 0 if the copy keeps up; `None` in the first minute, and for other
    /// copies.
    #[serde(default)]
    pub(crate) behind_bytes_per_minute: Option<u64>,
}

/// State of a copy and its forecast.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Progress {
    #[serde(flatten)]
    pub(crate) sample: Sample,
    #[serde(flatten)]
    pub(crate) forecast: Forecast,
}

/// Seconds over which it is averaged what limits a copy.
const LIMITING_MEMORY: f64 = 4.0;

/// Collects what the events of a copy tell of its future.
pub(crate) struct Outlook {
    /// Predictor by what has arrived.
    arriving: Completion,
    /// Predictor by what is stored.
    stored: Completion,
    /// Share of the recent time in which something else than the path was the limit; `None` before anything has limited it.
    beside_path: Option<f64>,
    /// For a copy that follows its sources.
    backlog: Option<Backlog>,
    /// Files and bytes that the scan has found, and whether that is all.
    found: (u64, u64, bool),
    /// Bytes of items that have failed.
    failed: u64,
    /// The data waits for another process.
    waits: bool,
    limit: Limit,
    /// Time of the last sample in seconds of the run.
    last: f64,
    forecast: Forecast,
}

/// Limit that the user has set to the rate; `None` for none.
#[derive(Clone, Copy, Default, PartialEq)]
struct Limit {
    rate: Option<Rate>,
    /// Time at which another one applies, in seconds of the run.
    until: Option<f64>,
}

impl Outlook {
    /// Outlook of a copy that has not begun.
    pub(crate) fn new(follows: bool) -> Self {
        Self {
            arriving: Completion::of_bytes(),
            stored: Completion::of_files(),
            beside_path: None,
            backlog: follows.then(Backlog::default),
            found: (0, 0, false),
            failed: 0,
            waits: false,
            limit: Limit::default(),
            last: 0.0,
            forecast: Forecast::default(),
        }
    }

    /// The future as far as it can be said at present.
    pub(crate) fn forecast(&self) -> Forecast {
        self.forecast
    }

    /// Notes the limit of the rate from now on, and in how many seconds another one applies; `None` for never. What was
    /// measured under another one does not count.
    pub(crate) fn set_limit(&mut self, rate: Option<Rate>, lasting: Option<f64>) {
        if rate != self.limit.rate {
            self.arriving.forget();
            self.stored.forget();
            self.predict(None);
        }
        self.limit = Limit { rate, until: lasting.map(|lasting| self.last + lasting) };
    }

    /// Takes an event of the copy.
    pub(crate) fn add(&mut self, event: &Event) {
        match event {
            Event::Scanned { files, bytes, complete } => self.found = (*files, *bytes, *complete),
            Event::Item { bytes, outcome: Outcome::Failed, .. } => self.failed = self.failed.saturating_add(*bytes),
            Event::Reconnecting { .. } => {
                // What fails again is told again.
                self.failed = 0;
                self.interrupt();
            }
            Event::Running { then: IfRunning::Wait, .. } => self.waits = true,
            Event::Waited => self.waits = false,
            Event::Progress(sample) => self.sample(sample),
            _ => {}
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let elapsed = (sample.seconds - self.last).max(0.0);
        self.last = sample.seconds;
        let travelled = sample.bytes_done.saturating_sub(sample.resumed_bytes);
        let waiting = (u64::from(sample.ring_used) * BLOCK_SIZE as u64).min(travelled);
        let settled = [sample.skipped_bytes, self.failed, sample.bytes_done].into_iter().fold(0, u64::saturating_add);
        let left = self.found.1.saturating_sub(settled);
        if let Some(backlog) = &mut self.backlog {
            backlog.observe(sample.seconds, left + waiting);
            self.forecast.behind_bytes = Some(left + waiting);
            self.forecast.behind_bytes_per_minute = backlog.growth();
        }
        let round_trip = sample.rtt_us as f64 / 1e6;
        let is_silent = sample.silent_ms as f64 / 1e3 > SILENT.max(2.0 * round_trip);
        let has_begun = travelled > 0 || sample.files_done > 0;
        if is_silent || self.waits || !has_begun || self.limit.rate.is_some_and(|rate| rate.is_zero()) {
            return self.interrupt();
        }
        let work = |bytes: u64, files: u64| Work { bytes: bytes as f64, files: files as f64 };
        self.arriving.observe(sample.seconds, work(travelled, sample.files_done));
        self.stored.observe(sample.seconds, work(travelled - waiting, sample.files_done));
        let beside_path = self.note_limit(sample.limited_by, elapsed);
        let (files, _, is_complete) = self.found;
        // How long it takes to make the last data durable is not known.
        if !is_complete || left == 0 && sample.limited_by == Stage::Finish {
            return self.predict(None);
        }
        let files = files.saturating_sub(sample.files_done);
        let arriving = self.arriving.left(work(left, files));
        let stored = self.stored.left(work(left + waiting, files));
        let end = LAST_ROUND_TRIPS * round_trip;
        let predicted = arriving.zip(stored).map(|(arriving, stored)| {
            let between = |of: fn(&TimeLeft) -> f64| of(&arriving) * (1.0 - beside_path) + of(&stored) * beside_path;
            TimeLeft {
                expected: between(|left| left.expected) + end,
                least: between(|left| left.least),
                most: between(|left| left.most) + end,
            }
        });
        let lasts = |left: &TimeLeft| self.limit.until.is_none_or(|until| sample.seconds + left.most <= until);
        self.predict(predicted.filter(lasts));
    }

    /// Notes what has limited the copy for this time in seconds; returns the share of the recent time in which it was
    /// something else than the path.
    fn note_limit(&mut self, limited_by: Stage, elapsed: f64) -> f64 {
        let now = match limited_by {
            Stage::Start => None,
            Stage::Network | Stage::RateCeiling | Stage::MaxRate => Some(0.0),
            _ => Some(1.0),
        };
        let part = 1.0 - (-elapsed / LIMITING_MEMORY).exp();
        self.beside_path = match (self.beside_path, now) {
            (Some(before), Some(now)) => Some(before + (now - before) * part),
            (before, now) => before.or(now),
        };
        self.beside_path.unwrap_or(0.0)
    }

    /// Leaves out the time until the next sample: nothing can be said.
    fn interrupt(&mut self) {
        self.arriving.interrupt();
        self.stored.interrupt();
        self.predict(None);
    }

    fn predict(&mut self, left: Option<TimeLeft>) {
        // Whole milliseconds are more than is known.
        let rounded = |seconds: f64| (seconds * 1e3).round() / 1e3;
        self.forecast.seconds_left = left.map(|left| rounded(left.expected));
        self.forecast.seconds_left_low = left.map(|left| rounded(left.least));
        self.forecast.seconds_left_high = left.map(|left| rounded(left.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// State after so many tenths of a second, at 10 MB/s.
    fn sample(tenths: u32) -> Sample {
        let (seconds, bytes_done) = (f64::from(tenths) / 10.0, u64::from(tenths) * 1_000_000);
        Sample { seconds, bytes_done, bytes_total: 100_000_000, limited_by: Stage::Network, ..Sample::default() }
    }

    /// Outlook of a copy of a file of 100 MB after these events and 5 s; then 5 s are left.
    fn after(events: &[Event]) -> Outlook {
        let mut outlook = Outlook::new(false);
        outlook.add(&Event::Scanned { files: 1, bytes: 100_000_000, complete: true });
        events.iter().for_each(|event| outlook.add(event));
        (1..=50).for_each(|tenths| outlook.add(&Event::Progress(sample(tenths))));
        outlook
    }

    fn item(outcome: Outcome, bytes: u64) -> Event {
        Event::Item { path: "x".into(), bytes, digest: None, outcome, reason: None }
    }

    fn assert_left(outlook: &Outlook, seconds: f64) {
        let Forecast { seconds_left, seconds_left_low, seconds_left_high, .. } = outlook.forecast();
        let left = seconds_left.expect("it is known");
        assert!((left - seconds).abs() < 0.1, "{left}");
        assert!(seconds_left_low.unwrap() <= left && left <= seconds_left_high.unwrap());
    }

    #[test]
    fn what_need_not_travel_is_not_left() {
        assert_left(&after(&[]), 5.0);
        assert_left(&after(&[item(Outcome::Failed, 20_000_000)]), 3.0);
        assert_left(&after(&[item(Outcome::Published, 20_000_000)]), 5.0);
        let mut outlook = after(&[]);
        outlook.add(&Event::Progress(Sample { skipped_bytes: 20_000_000, ..sample(51) }));
        assert_left(&outlook, 2.9);
    }

    #[test]
    fn what_an_earlier_run_has_brought_is_no_rate() {
        let mut outlook = after(&[Event::Scanned { files: 1, bytes: 150_000_000, complete: true }]);
        for tenths in 51..=60 {
            let (resumed_bytes, bytes_done) = (50_000_000, 50_000_000 + sample(tenths).bytes_done);
            outlook.add(&Event::Progress(Sample { bytes_done, resumed_bytes, ..sample(tenths) }));
        }
        assert_left(&outlook, 4.0);
    }

    #[test]
    fn blocks_that_wait_for_the_disk_and_the_last_round_trips_are_left() {
        let mut outlook = Outlook::new(false);
        outlook.add(&Event::Scanned { files: 1, bytes: 100_000_000, complete: true });
        for tenths in 20..=70 {
            let sample = Sample { ring_used: 4, ring_blocks: 64, rtt_us: 200_000, ..sample(tenths) };
            outlook.add(&Event::Progress(Sample { limited_by: Stage::DestinationDisk, ..sample }));
        }
        assert_left(&outlook, 3.0 + 4.0 * BLOCK_SIZE as f64 / 10e6 + 0.4);
    }

    #[test]
    fn while_the_path_limits_it_does_not_matter_when_small_files_get_their_names() {
        // 10,000 files of 10 kB in 10 s; the disk takes them 1,024 at a time, and each batch waits for up to a second.
        for tenths in 20..=60 {
            let mut outlook = Outlook::new(false);
            outlook.add(&Event::Scanned { files: 10_000, bytes: 100_000_000, complete: true });
            for tenths in 1..=tenths {
                let arrived = u64::from(tenths) * 100;
                let files_done = arrived / 1024 * 1024;
                let ring_used = u32::try_from((arrived - files_done) * 10_000 / BLOCK_SIZE as u64).unwrap();
                let sample = Sample { ring_used, ring_blocks: 64, files_done, ..sample(tenths) };
                outlook.add(&Event::Progress(sample));
            }
            if outlook.forecast().seconds_left.is_some() {
                assert_left(&outlook, 10.0 - f64::from(tenths) / 10.0);
            }
        }
    }

    #[test]
    fn nothing_is_said_while_it_cannot_be_known() {
        let progress = |sample: Sample| Event::Progress(sample);
        let cases = [
            progress(Sample { silent_ms: 5000, ..sample(51) }),
            progress(Sample { bytes_done: 100_000_000, limited_by: Stage::Finish, ..sample(51) }),
            Event::Reconnecting { attempt: 1, pause_ms: 0, reason: String::new() },
        ];
        for event in cases {
            let mut outlook = after(&[]);
            outlook.add(&event);
            assert_eq!(outlook.forecast(), Forecast::default(), "{event:?}");
        }
        let scanning = after(&[Event::Scanned { files: 1, bytes: 100_000_000, complete: false }]);
        assert_eq!(scanning.forecast(), Forecast::default());
    }

    #[test]
    fn nothing_is_said_in_a_pause_and_nothing_beyond_the_present_limit() {
        let (slow, paused) = (Some(Rate::from_bits_per_second(80_000_000)), Some(Rate::ZERO));
        let mut outlook = after(&[]);
        outlook.set_limit(None, Some(60.0));
        outlook.add(&Event::Progress(sample(51)));
        assert_left(&outlook, 4.9);
        outlook.set_limit(None, Some(2.0));
        outlook.add(&Event::Progress(sample(52)));
        assert_eq!(outlook.forecast(), Forecast::default(), "another limit will apply before the end");
        outlook.set_limit(None, None);
        outlook.add(&Event::Progress(sample(53)));
        assert_left(&outlook, 4.7);
        outlook.set_limit(paused, None);
        assert_eq!(outlook.forecast(), Forecast::default());
        (54..80).for_each(|tenths| outlook.add(&Event::Progress(sample(tenths))));
        assert_eq!(outlook.forecast(), Forecast::default());
        outlook.set_limit(slow, None);
        outlook.add(&Event::Progress(sample(80)));
        assert_eq!(outlook.forecast(), Forecast::default(), "that rate is not known yet");
    }

    #[test]
    fn of_sources_that_are_followed_it_is_told_what_is_behind() {
        let mut outlook = Outlook::new(true);
        for second in 0..100_u32 {
            // 30 MB are found in each second, and 10 MB travel; 5 MB were at the destination.
            let bytes = 5_000_000 + u64::from(second) * 30_000_000;
            outlook.add(&Event::Scanned { files: 1, bytes, complete: false });
            outlook.add(&Event::Progress(Sample { skipped_bytes: 5_000_000, ..sample(second * 10) }));
        }
        let forecast = outlook.forecast();
        assert_eq!((forecast.behind_bytes, forecast.seconds_left), (Some(99 * 20_000_000), None));
        let growth = forecast.behind_bytes_per_minute.unwrap();
        assert!((1_190_000_000..=1_210_000_000).contains(&growth), "{growth}");
    }
}
