//! One direction of a path: input port, loss, bottleneck and delay in sequence, with counters.

use std::collections::VecDeque;

use icdc_units::{ByteCount, Span, Time};
use serde::Serialize;

use crate::codel::Codel;
use crate::input_port::Reception;
use crate::loss::Loss;
use crate::{Change, Delay, DropTail, Frame, InputPort, Settings, SettingsError};

/// Fate of a frame that was offered to the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Arrives at the far end at this time.
    Delivered(Time),
    /// Arrives at the far end at this time, marked as having met congestion.
    Marked(Time),
    /// The path loses the frame, by its model of loss or because it is cut.
    Lost,
    /// The queue of the bottleneck has no room for it, or CoDel drops it.
    Dropped,
    /// A gap frame, which is not delivered. Without a line it is charged to the bottleneck, unless
    /// the queue there is full.
    Gap,
    /// The host has sent more than its line carries.
    Overrun,
}

impl Fate {
    /// Time at which the frame arrives at the far end; `None` if it does not.
    #[must_use]
    pub fn due(self) -> Option<Time> {
        match self {
            Self::Delivered(due) | Self::Marked(due) => Some(due),
            Self::Lost | Self::Dropped | Self::Gap | Self::Overrun => None,
        }
    }
}

/// Counters in frames and in bytes on the wire. Every frame that was offered is in exactly one of
/// the other counts; those that are marked are delivered, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Number of frames that arrived at the path.
    pub offered: u64,
    /// Bytes on the wire of the frames that arrived.
    pub offered_bytes: ByteCount,
    /// Number of frames that the bottleneck passed.
    pub delivered: u64,
    /// Bytes on the wire of the frames that it passed.
    pub delivered_bytes: ByteCount,
    /// Frames of these that got a mark.
    pub marked: u64,
    /// Number of frames that the path lost, by its model of loss or while it was cut.
    pub lost: u64,
    /// Frames that the full queue refused, or CoDel dropped.
    pub dropped: u64,
    /// Number of gap frames (PAUSE), except those that exceeded the line rate.
    pub gaps: u64,
    /// Number of frames that exceeded the line rate.
    pub overrun: u64,
    /// Longest queue at the bottleneck, in bytes.
    pub queue_max: ByteCount,
}

/// Model of one direction of a path: input port, loss, bottleneck and delay in sequence.
#[derive(Clone, Debug)]
pub struct Direction {
    port: InputPort,
    loss: Loss,
    bottleneck: DropTail,
    codel: Option<Codel>,
    delay: Delay,
    counters: Counters,
    /// Changes that are still to come.
    changes: VecDeque<Change>,
    /// Arrival time of the first frame; `None` before it.
    begun: Option<Time>,
    is_cut: bool,
}

impl Direction {
    /// Makes an idle path with these settings.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn new(settings: &Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            port: InputPort::new(settings.line_rate),
            loss: Loss::new(&settings.loss, settings.seed),
            bottleneck: DropTail::new(settings.rate, settings.queue),
            codel: settings.codel.map(Codel::new),
            // Loss and jitter must not draw the same numbers.
            delay: Delay::new(settings.delay, settings.jitter, settings.seed ^ 0x6a69_7474_6572),
            counters: Counters::default(),
            changes: settings.changes.clone().into(),
            begun: None,
            is_cut: false,
        })
    }

    /// Decides the outcome of a frame that arrives at `now`; times must not decrease from call to
    /// call.
    pub fn offer(&mut self, now: Time, frame: Frame) -> Fate {
        let begun = *self.begun.get_or_insert(now);
        while let Some(&change) = self.changes.front().filter(|change| now >= begun + change.after) {
            self.changes.pop_front();
            self.change(begun + change.after, &change);
        }
        let fate = self.pass(now, frame);
        let counters = &mut self.counters;
        counters.offered += 1;
        counters.offered_bytes += frame.wire_length();
        match fate {
            Fate::Delivered(_) | Fate::Marked(_) => {
                counters.delivered += 1;
                counters.delivered_bytes += frame.wire_length();
                counters.marked += u64::from(matches!(fate, Fate::Marked(_)));
            }
            Fate::Lost => counters.lost += 1,
            Fate::Dropped => counters.dropped += 1,
            Fate::Gap => counters.gaps += 1,
            Fate::Overrun => counters.overrun += 1,
        }
        fate
    }

    /// Applies a change of the path, whose time has come at `at`.
    fn change(&mut self, at: Time, change: &Change) {
        self.bottleneck.change_rate(at, change.rate);
        self.delay.change(change.delay);
        self.is_cut = change.cut;
    }

    /// Sends a frame through port, loss, bottleneck and delay in sequence, and returns its fate;
    /// counts nothing but the longest queue.
    fn pass(&mut self, now: Time, frame: Frame) -> Fate {
        let received = match self.port.receive(now, frame) {
            Reception::Received(at) => at,
            Reception::Gap => return Fate::Gap,
            Reception::Overrun => return Fate::Overrun,
        };
        // A gap frame without a line of its own is charged to the bottleneck and cannot be lost
        // before.
        if !frame.gap && (self.loss.loses_next() || self.is_cut) {
            return Fate::Lost;
        }
        let mut is_marked = false;
        if let Some(codel) = self.codel.as_mut().filter(|_| !frame.gap)
            && self.bottleneck.has_room(received, frame.wire_length())
        {
            let wait = self.bottleneck.wait(received);
            if codel.drops(received + wait, wait) {
                if !codel.marks() || !frame.ecn_capable {
                    return Fate::Dropped;
                }
                is_marked = true;
            }
        }
        let departure = self.bottleneck.offer(received, frame.wire_length());
        self.counters.queue_max = self.counters.queue_max.max(self.bottleneck.queued(received));
        match departure {
            Some(_) if frame.gap => Fate::Gap,
            Some(left) if is_marked => Fate::Marked(self.delay.deliver(left)),
            Some(left) => Fate::Delivered(self.delay.deliver(left)),
            None if frame.gap => Fate::Gap,
            None => Fate::Dropped,
        }
    }

    /// Bytes on the wire that wait at the bottleneck at `now`.
    #[must_use]
    pub fn queued(&self, now: Time) -> ByteCount {
        self.bottleneck.queued(now)
    }

    /// Time that a frame sent at `now` waits for the line between host and path; zero without such
    /// a line.
    #[must_use]
    pub fn line_backlog(&self, now: Time) -> Span {
        self.port.backlog(now)
    }

    /// Whether ECN-capable frames may be marked instead of dropped.
    #[must_use]
    pub fn marks(&self) -> bool {
        self.codel.as_ref().is_some_and(Codel::marks)
    }

    /// Counters since the beginning.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use icdc_units::Rate;
    use proptest::prelude::*;

    use super::*;
    use crate::DelayLine;
    use crate::codel::Parameters;
    use crate::loss::Model;

    fn models() -> impl Strategy<Value = Model> {
        prop_oneof![
            Just(Model::None),
            (0.0..0.5).prop_map(Model::Random),
            (0.0..0.4, 1.0..9.0).prop_map(|(ratio, mean_length)| Model::Burst { ratio, mean_length }),
            prop::collection::vec(0_u64..300, 0..20).prop_map(Model::Listed),
        ]
    }

    fn settings() -> impl Strategy<Value = Settings> {
        (
            models(),
            10_000_000_u64..10_000_000_000,
            0_u64..500,
            0_u64..20,
            1_538_u64..200_000,
            any::<bool>(),
            any::<bool>(),
            any::<u64>(),
        )
            .prop_map(|(loss, rate, delay, jitter, queue, line, codel, seed)| Settings {
                rate: Rate::from_bits_per_second(rate),
                delay: Span::from_millis(delay),
                jitter: Span::from_millis(jitter),
                queue: ByteCount::new(queue),
                codel: codel.then(|| Parameters {
                    target: Span::from_millis(1),
                    interval: Span::from_millis(3),
                    marks: seed % 2 == 0,
                }),
                loss,
                line_rate: line.then_some(Rate::from_bits_per_second(rate * 2)),
                seed,
                ..Settings::default()
            })
    }

    /// Arrivals as (nanoseconds since the one before, length, gap frame).
    fn arrivals() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
        prop::collection::vec((0_u64..30_000, 60_u64..1515, prop::bool::weighted(0.2)), 1..300)
    }

    proptest! {
        #[test]
        fn nothing_appears_vanishes_or_overtakes(settings in settings(), arrivals in arrivals(), stop in 0_u64..600_000_000) {
            let mut direction = Direction::new(&settings).unwrap();
            let mut line = DelayLine::default();
            let mut now = Time::ORIGIN;
            for (number, &(gap, length, is_gap)) in arrivals.iter().enumerate() {
                now += Span::from_nanos(gap);
                let frame = Frame { length: ByteCount::new(length), gap: is_gap, ecn_capable: number % 2 == 0 };
                if let Some(due) = direction.offer(now, frame).due() {
                    prop_assert!(due >= now + settings.delay + frame.wire_length() / settings.rate - Span::from_nanos(1));
                    line.push(due, number);
                }
            }
            let counters = direction.counters();
            prop_assert_eq!(counters.offered, arrivals.len() as u64);
            let ends = counters.delivered + counters.lost + counters.dropped + counters.gaps + counters.overrun;
            prop_assert_eq!(counters.offered, ends);
            prop_assert_eq!(counters.gaps, arrivals.iter().filter(|arrival| arrival.2).count() as u64 );
            prop_assert!(counters.queue_max <= settings.queue);
            let mut out = Vec::new();
            while let Some((_, number)) = line.pop_due(Time::from_nanos(stop)) {
                out.push(number);
            }
            prop_assert!(out.is_sorted());
            prop_assert_eq!(out.len() + line.held(), counters.delivered as usize);
        }

        #[test]
        fn the_same_seed_gives_the_same_fates(settings in settings(), arrivals in arrivals()) {
            let fates = || {
                let mut direction = Direction::new(&settings).unwrap();
                let mut now = Time::ORIGIN;
                arrivals.iter().map(|&(gap, length, _)| {
                    now += Span::from_nanos(gap);
                    direction.offer(now, Frame::data(ByteCount::new(length)))
                }).collect::<Vec<_>>()
            };
            prop_assert_eq!(fates(), fates());
        }
    }

    #[test]
    fn a_path_changes_at_its_time() {
        let second = Span::from_secs(1);
        let change = |after, megabits: u64, millis, cut| Change {
            after: second * after,
            rate: Rate::from_bits_per_second(megabits * 1_000_000),
            delay: Span::from_millis(millis),
            cut,
        };
        let changes = vec![change(1, 100, 50, false), change(2, 100, 50, true), change(3, 1000, 10, false)];
        let settings = Settings { delay: Span::from_millis(10), changes, ..Settings::default() };
        let mut direction = Direction::new(&settings).unwrap();
        // The machine has run for a while.
        let start = Time::ORIGIN + second * 100;
        let mut at = |after: Span| match direction.offer(start + after, Frame::data(ByteCount::new(1514))) {
            Fate::Delivered(due) => Some((due - start - after).as_nanos()),
            _ => None,
        };
        assert_eq!(at(Span::ZERO), Some(10_012_304));
        assert_eq!(at(second), Some(50_123_040));
        assert_eq!(at(second * 2), None);
        assert_eq!(at(second * 3), Some(10_012_304));
        assert_eq!(direction.counters().lost, 1);
        let late = Settings { changes: vec![change(2, 1, 1, false), change(1, 1, 1, false)], ..Settings::default() };
        assert!(matches!(late.check(), Err(SettingsError::Order(_))));
    }

    #[test]
    fn codel_keeps_the_wait_of_an_overload_near_its_target() {
        let settings = Settings {
            rate: Rate::from_bits_per_second(100_000_000),
            queue: ByteCount::new(5_000_000),
            codel: Some(Parameters::default()),
            ..Settings::default()
        };
        let mut direction = Direction::new(&settings).unwrap();
        // A fiftieth more than the rate, in frames that take 123 us.
        let mut waits = Vec::new();
        for number in 0..300_000_u64 {
            let now = Time::ORIGIN + Span::from_nanos(120_600) * number;
            if let Fate::Delivered(left) = direction.offer(now, Frame::data(ByteCount::new(1514)))
                && number > 200_000
            {
                waits.push((left - now).as_micros());
            }
        }
        waits.sort_unstable();
        let median = waits[waits.len() / 2];
        assert!((2_000..15_000).contains(&median), "{median} us");
        let counters = direction.counters();
        let dropped = counters.dropped as f64 / counters.offered as f64;
        assert!((0.01..0.03).contains(&dropped), "{dropped}");
    }

    #[test]
    fn gap_frames_take_time_from_the_line_and_nothing_from_the_bottleneck() {
        let line_rate = Some(Rate::from_bits_per_second(1_000_000_000));
        let slow = Settings { rate: Rate::from_bits_per_second(500_000_000), line_rate, ..Settings::default() };
        let mut direction = Direction::new(&slow).unwrap();
        let size = ByteCount::new(1514);
        assert_eq!(direction.offer(Time::ORIGIN, Frame::gap(size)), Fate::Gap);
        // 12,304 ns for the gap frame and for itself on the line, twice that at the bottleneck.
        let fate = direction.offer(Time::ORIGIN, Frame::data(size));
        assert_eq!(fate, Fate::Delivered(Time::from_nanos(12_304 * 4)));
    }

    #[test]
    fn without_a_line_gap_frames_take_time_from_the_bottleneck() {
        let mut direction = Direction::new(&Settings::default()).unwrap();
        let size = ByteCount::new(1514);
        assert_eq!(direction.offer(Time::ORIGIN, Frame::gap(size)), Fate::Gap);
        assert_eq!(direction.offer(Time::ORIGIN, Frame::data(size)), Fate::Delivered(Time::from_nanos(12_304 * 2)));
    }
}
