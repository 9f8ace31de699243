//! Measures a path by a few short runs: decides which runs are needed and in which order, and
//! evaluates them.
//!
//! Nothing is sent here. [`Probe::next`] returns the next run, [`Probe::tell`] takes its outcome.
//!
//! | run | measured value |
//! |---|---|
//! | a few packets | round-trip time: the least |
//! | as fast as TCP goes | capacity: the best 100 ms of arrivals |
//! | paced at 80 % of that | loss that the path causes: segments retransmitted, of those sent |
//! | slow starts to a window of N | burst tolerance: largest N without loss, smallest with loss |
//!
//! **Bursts.** In slow start each acknowledgement lets two segments go, so the data of one round
//! trip comes at twice the rate of the bottleneck, and half of it must wait there. What is in
//! flight beyond the bandwidth-delay product B waits as well. A window of N thus needs a buffer of
//! max(N/2, N − B) on the path. A burst at the full rate of a much faster line needs a buffer of
//! its own size, so that is also the burst that passes. Reno makes the slow starts: CUBIC would
//! leave them early when delays grow.

use std::fmt;
use std::net::IpAddr;

use icdc_report::reduce::moving_sums;
use icdc_units::{ByteCount, Rate, Span};

/// Facts of the path to another host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathFacts {
    /// The other host, as the user wrote it.
    pub target: String,
    /// The other host as the destination of a copy.
    pub destination: String,
    /// Address of the other end; `None` if it is not known.
    pub address: Option<IpAddr>,
    /// Largest packet that arrives whole (the path MTU), in bytes; `None` if it is not known.
    pub mtu: Option<ByteCount>,
    /// Routes of the data, in order of preference.
    pub routes: Vec<RouteFact>,
    /// The route that data took the last time, which copies try first; `None` if none is remembered.
    pub remembered: Option<RememberedRoute>,
    /// The runs go through ssh: of TCP's own windows, losses and queues they show nothing.
    pub through_ssh: bool,
    /// Values measured by the runs.
    pub measured: Measured,
    /// Error that ended the runs early; `None` if none did.
    pub trouble: Option<String>,
}

/// A route by which data could go, and its obstacle, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteFact {
    /// Name of the route in `--via`.
    pub name: &'static str,
    /// Obstacle to the route; `None` if it can be taken.
    pub obstacle: Option<String>,
}

/// Route to a host, as copies remember it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RememberedRoute {
    /// Name of the route in `--via`.
    pub name: &'static str,
    /// Number of connections that were begun at once.
    pub connections: u8,
    /// Time from the start of ssh to the far end's answer.
    pub login: Span,
    /// Time since it worked.
    pub age: Span,
}

/// Measured values; `None` where no run has measured one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Least round-trip time.
    pub round_trip: Option<Span>,
    /// Capacity of the path.
    pub capacity: Option<Capacity>,
    /// Loss that the path itself causes.
    pub loss: Option<Loss>,
    /// Burst tolerance of the path.
    pub burst: Option<Burst>,
}

/// The rate of a path, in bytes of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Rate of arrivals in the best 100 ms.
    pub rate: Rate,
    /// The sender waited for window or buffer for a good part of the time: the path may carry more.
    pub by_windows: bool,
}

/// Loss of a run paced well below the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Number of segments sent, with those retransmitted.
    pub segments: u64,
    /// Number of segments retransmitted.
    pub retransmitted: u64,
}

/// Burst tolerance of a path: which bursts it carries without loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Largest burst that was buffered without loss; `None` if none was.
    pub tolerated: Option<ByteCount>,
    /// Smallest burst that lost packets; `None` if none did.
    pub exceeded: Option<ByteCount>,
}

impl Loss {
    /// Part of the segments that was retransmitted, 0 to 1.
    #[must_use]
    pub fn ratio(self) -> f64 {
        if self.segments == 0 { 0.0 } else { self.retransmitted as f64 / self.segments as f64 }
    }
}

/// Value that a run is to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The run measures the round-trip time.
    RoundTrip,
    /// The run measures the capacity.
    Capacity,
    /// The run measures the loss.
    Loss,
    /// Checks whether a slow start into this window loses anything.
    Burst(ByteCount),
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoundTrip => out.write_str("round-trip time"),
            Self::Capacity => out.write_str("capacity"),
            Self::Loss => out.write_str("loss, at 80 % of the capacity"),
            Self::Burst(window) => write!(out, "burst tolerance, by a window of {window}"),
        }
    }
}

/// A run that is wanted: one TCP connection, from here to there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Subject of the run.
    pub step: Step,
    /// Duration of the run, from the arrival of the first byte.
    pub time: Span,
    /// Number of bytes after which the run ends; `None` for no limit.
    pub bytes: Option<ByteCount>,
    /// Ceiling of the rate, by pacing; `None` for none.
    pub rate: Option<Rate>,
    /// Buffers of both ends; `None` leaves them to the kernel.
    pub window: Option<ByteCount>,
    /// Congestion control of the run; `None` for the system's.
    pub congestion: Option<&'static str>,
    /// Expected duration from the first byte.
    expected: Span,
}

/// Outcome of a run over the path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Least round-trip time in the run; `None` if none was measured.
    pub round_trip: Option<Span>,
    /// Amount of data that arrived.
    pub received: ByteCount,
    /// Time from the first byte's arrival to the end.
    pub lasted: Span,
    /// Bytes that arrived in each millisecond.
    pub arrivals: Vec<u32>,
    /// Number of segments retransmitted.
    pub retransmitted: u64,
    /// Size of the largest segment, in bytes.
    pub segment: ByteCount,
    /// The smaller of the two buffers that were granted, where some were requested.
    pub window: ByteCount,
    /// Share of the time in which the sender waited for window or buffer.
    pub window_share: f64,
}

/// Time limit of all runs together. It is exceeded only where a connection takes longer to be made
/// than was expected.
pub const BUDGET: Span = Span::from_secs(30);

/// Size of the first run, which measures the round-trip time: enough for some round trips, too
/// little to fill any path.
const FEW_PACKETS: ByteCount = ByteCount::from_kib(64);
/// Time limit of the first run: a path that takes longer is not worth the others.
const FEW_PACKETS_TIME: Span = Span::from_secs(10);
/// Duration of the run that measures the capacity, in round trips: until slow start has reached 100
/// ms of 1 Gbit/s, and some more.
const CAPACITY_ROUND_TRIPS: u64 = 15;
/// Shortest duration of the run that measures the capacity.
const CAPACITY_LEAST: Span = Span::from_secs(1);
/// Longest duration of the run that measures the capacity.
const CAPACITY_MOST: Span = Span::from_secs(10);
/// Duration of the run that measures the loss, in round trips.
const LOSS_ROUND_TRIPS: u64 = 10;
/// Shortest duration of the run that measures the loss.
const LOSS_LEAST: Span = Span::from_secs(1);
/// Longest duration of the run that measures the loss.
const LOSS_MOST: Span = Span::from_secs(5);
/// Length of the window of arrivals whose best mean is the capacity, in bins of a millisecond.
const BEST: usize = 100;
/// Share of a run's time in which the sender waited for window or buffer, above which the windows
/// limited the run.
const MUCH: f64 = 0.2;
/// Smallest window of the runs that measure bursts: of a smaller one, ten initial segments are
/// most.
const LEAST_WINDOW: ByteCount = ByteCount::from_kib(64);
/// Largest window of the runs that measure bursts.
const LARGEST_WINDOW: ByteCount = ByteCount::from_mib(512);
/// Multiple of the bandwidth-delay product beyond which buffers do harm, so that no larger bursts
/// are tried.
const ENOUGH: u64 = 2;
/// Greatest number of runs that measure bursts.
const MOST_BURSTS: usize = 6;
/// Number of windows of data that such a run sends: slow start takes two, and one may be lost and
/// retransmitted.
const WINDOWS_SENT: u64 = 4;
/// Number of segments that are retransmitted for other reasons than loss, such as a probe of the
/// tail (RFC 8985), and do not count as loss.
const NEEDLESS: u64 = 2;
/// Initial window of Linux: ten segments of 1448 bytes.
const INITIAL_WINDOW: ByteCount = ByteCount::new(14_480);

/// Plan of the runs over a path, which decides on the next one, and the values measured so far.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    measured: Measured,
    has_begun: bool,
    spent: Span,
    /// Time that the last run took beside the data: connecting, negotiating, closing.
    overhead: Span,
    bursts: usize,
    clean: Option<ByteCount>,
    lossy: Option<ByteCount>,
    /// Whether an end has granted a smaller window than was requested, so that no larger one is
    /// tried.
    is_refused: bool,
}

impl Probe {
    /// A probe without any measured values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next run; `None` if nothing more is to be learned, or there is no time for it.
    #[must_use]
    pub fn next(&self) -> Option<Run> {
        let run = self.wanted()?;
        let left = BUDGET - self.spent - self.overhead;
        (run.expected <= left).then(|| Run { time: run.time.min(left), ..run })
    }

    /// Takes the outcome of a run that took `took` in total.
    pub fn tell(&mut self, run: &Run, outcome: &Outcome, took: Span) {
        self.has_begun = true;
        self.spent += took;
        self.overhead = took - outcome.lasted;
        let measured = &mut self.measured;
        measured.round_trip = [measured.round_trip, outcome.round_trip].into_iter().flatten().min();
        match run.step {
            Step::RoundTrip => {}
            Step::Capacity => {
                let rate = best_rate(&outcome.arrivals);
                let by_windows = outcome.window_share > MUCH;
                measured.capacity = (!rate.is_zero()).then_some(Capacity { rate, by_windows });
            }
            Step::Loss => {
                let segments = outcome.segments() + outcome.retransmitted;
                measured.loss = Some(Loss { segments, retransmitted: outcome.retransmitted });
            }
            Step::Burst(window) => self.tell_burst(window, outcome),
        }
    }

    /// Values measured so far.
    #[must_use]
    pub fn measured(&self) -> Measured {
        self.measured
    }

    /// The next run, whatever time is left for it; `None` if nothing more is to be measured.
    fn wanted(&self) -> Option<Run> {
        let Some(round_trip) = self.measured.round_trip else {
            return (!self.has_begun)
                .then(|| Run { bytes: Some(FEW_PACKETS), ..Run::plain(Step::RoundTrip, FEW_PACKETS_TIME) });
        };
        let Some(capacity) = self.measured.capacity else {
            let time = (round_trip * CAPACITY_ROUND_TRIPS).clamp(CAPACITY_LEAST, CAPACITY_MOST);
            return Some(Run::plain(Step::Capacity, time));
        };
        if self.measured.loss.is_none() {
            let time = (round_trip * LOSS_ROUND_TRIPS).clamp(LOSS_LEAST, LOSS_MOST);
            return Some(Run { rate: Some(capacity.rate.scaled(8, 10)), ..Run::plain(Step::Loss, time) });
        }
        let window = self.next_window(capacity.rate * round_trip)?;
        let bytes = window * WINDOWS_SENT;
        let rounds = u64::from((window.as_u64() / INITIAL_WINDOW.as_u64()).max(1).ilog2()) + WINDOWS_SENT;
        let expected = round_trip * rounds + bytes / capacity.rate;
        let time = expected * 2 + Span::from_secs(1);
        Some(Run {
            bytes: Some(bytes),
            window: Some(window),
            congestion: Some("reno"),
            expected,
            ..Run::plain(Step::Burst(window), time)
        })
    }

    /// Window of the next run that measures bursts: twice the largest that lost nothing, or half of
    /// the least that did. `None` once both are known, after [`MOST_BURSTS`], outside of the
    /// limits, or where a larger one is of no use or not granted.
    fn next_window(&self, in_flight: ByteCount) -> Option<ByteCount> {
        let next = match (self.clean, self.lossy) {
            _ if self.bursts == MOST_BURSTS => return None,
            (None, None) => (in_flight / 4).clamp(LEAST_WINDOW, LARGEST_WINDOW),
            (Some(clean), None) if self.is_refused || buffered(clean, in_flight) > in_flight * ENOUGH => return None,
            (Some(clean), None) => clean * 2,
            (None, Some(lossy)) => lossy / 2,
            (Some(_), Some(_)) => return None,
        };
        (LEAST_WINDOW..=LARGEST_WINDOW).contains(&next).then_some(next)
    }

    /// Evaluates a slow start into `window`: it had loss if more segments were retransmitted than
    /// the path loses by itself.
    fn tell_burst(&mut self, window: ByteCount, outcome: &Outcome) {
        let in_flight = match (self.measured.capacity, self.measured.round_trip) {
            (Some(capacity), Some(round_trip)) => capacity.rate * round_trip,
            _ => ByteCount::ZERO,
        };
        self.bursts += 1;
        self.is_refused |= outcome.window < window;
        let window = window.min(outcome.window);
        let by_itself = self.measured.loss.map_or(0.0, Loss::ratio) * outcome.segments() as f64;
        // Three times as many as are to be expected come by chance, too.
        if outcome.retransmitted as f64 > NEEDLESS as f64 + 3.0 * by_itself {
            self.lossy = Some(self.lossy.map_or(window, |least| least.min(window)));
        } else {
            self.clean = self.clean.max(Some(window));
        }
        let buffer = |window: ByteCount| buffered(window, in_flight);
        self.measured.burst = Some(Burst { tolerated: self.clean.map(buffer), exceeded: self.lossy.map(buffer) });
    }
}

/// Bytes queued on the path when a slow start reaches `window`.
fn buffered(window: ByteCount, in_flight: ByteCount) -> ByteCount {
    (window / 2).max(window - in_flight)
}

/// The best mean over 100 ms, or over all if that is less.
fn best_rate(arrivals: &[u32]) -> Rate {
    let length = arrivals.len().clamp(1, BEST);
    let best = moving_sums(arrivals, length).max().unwrap_or_default();
    ByteCount::new(u64::try_from(best).unwrap_or_default()) / Span::from_millis(length as u64)
}

impl Run {
    /// A run of this length by the system's congestion control, without limits of bytes, rate or
    /// buffers.
    fn plain(step: Step, time: Span) -> Self {
        Self { step, time, bytes: None, rate: None, window: None, congestion: None, expected: time }
    }
}

impl Outcome {
    /// Segments that the data was in.
    fn segments(&self) -> u64 {
        self.received.as_u64().div_ceil(self.segment.as_u64().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path as simple as the reasoning above.
    struct Path {
        rate: Rate,
        round_trip: Span,
        buffer: ByteCount,
        loss: f64,
        granted: ByteCount,
        set_up: Span,
    }

    impl Path {
        fn new(rate: &str, round_trip: &str, buffer: &str) -> Self {
            Self {
                rate: rate.parse().unwrap(),
                round_trip: round_trip.parse().unwrap(),
                buffer: buffer.parse().unwrap(),
                loss: 0.0,
                granted: ByteCount::MAX,
                set_up: Span::from_millis(100),
            }
        }

        fn run(&self, run: &Run) -> Outcome {
            let rate = run.rate.unwrap_or(self.rate).min(self.rate);
            let lasted = run.bytes.map_or(run.time, |bytes| bytes / rate + self.round_trip);
            let received = run.bytes.unwrap_or(rate * lasted);
            let window = run.window.unwrap_or_default().min(self.granted);
            let segment = ByteCount::new(1448);
            let overflow = buffered(window, self.rate * self.round_trip) - self.buffer;
            let by_itself = (received.as_u64() / 1448) as f64 * self.loss;
            Outcome {
                round_trip: Some(self.round_trip),
                received,
                lasted,
                arrivals: vec![(rate * Span::from_millis(1)).as_u64() as u32; lasted.as_millis() as usize],
                retransmitted: overflow.as_u64() / 1448 + by_itself.round() as u64,
                segment,
                window,
                window_share: 0.0,
            }
        }

        fn probe(&self) -> (Probe, Vec<Step>) {
            let (mut probe, mut steps) = (Probe::new(), Vec::new());
            while let Some(run) = probe.next() {
                let outcome = self.run(&run);
                probe.tell(&run, &outcome, outcome.lasted + self.set_up);
                steps.push(run.step);
                assert!(steps.len() < 20, "{steps:?}");
            }
            (probe, steps)
        }
    }

    #[test]
    fn a_path_is_found_out() {
        for (rate, round_trip, buffer) in [
            ("50mbit", "40ms", "250kB"),
            ("1gbit", "100ms", "2.5MB"),
            ("10gbit", "20ms", "10MB"),
            ("1gbit", "1ms", "256kB"),
            ("100mbit", "300ms", "100kB"),
        ] {
            let path = Path::new(rate, round_trip, buffer);
            let (probe, steps) = path.probe();
            let measured = probe.measured();
            assert!(probe.spent <= BUDGET, "{:?}", probe.spent);
            assert_eq!(measured.round_trip, Some(path.round_trip));
            let capacity = measured.capacity.unwrap();
            assert!((0.99..1.01).contains(&capacity.rate.ratio(path.rate)), "{capacity:?} of {rate}");
            assert!(!capacity.by_windows);
            assert_eq!(measured.loss.unwrap().ratio(), 0.0);
            let Burst { tolerated, exceeded } = measured.burst.unwrap();
            // A few packets too many are no loss to speak of.
            assert!(tolerated.unwrap() <= path.buffer + ByteCount::new(5_000), "{steps:?} {tolerated:?} of {buffer}");
            assert!(exceeded.unwrap() > path.buffer, "{steps:?} {exceeded:?} of {buffer}");
        }
    }

    #[test]
    fn loss_by_itself_is_no_burst() {
        let path = Path { loss: 0.001, ..Path::new("100mbit", "40ms", "10MB") };
        let measured = path.probe().0.measured();
        assert!((0.0009..0.0011).contains(&measured.loss.unwrap().ratio()));
        assert_eq!(measured.burst.unwrap().exceeded, None);
    }

    #[test]
    fn buffers_beyond_all_need_are_not_looked_for() {
        let (probe, steps) = Path::new("100mbit", "40ms", "1GB").probe();
        let Burst { tolerated, exceeded } = probe.measured().burst.unwrap();
        assert_eq!(exceeded, None);
        assert!(tolerated.unwrap() > ByteCount::new(1_000_000) && steps.len() <= 3 + MOST_BURSTS);
    }

    #[test]
    fn a_window_that_is_not_granted_ends_it() {
        let path = Path { granted: ByteCount::from_kib(208), ..Path::new("1gbit", "40ms", "10MB") };
        let (probe, steps) = path.probe();
        assert_eq!(steps.len(), 4, "{steps:?}");
        assert_eq!(probe.measured().burst.unwrap().tolerated, Some(ByteCount::from_kib(104)));
    }

    #[test]
    fn shallow_buffers_are_looked_for_from_above() {
        let path = Path::new("1gbit", "100ms", "10kB");
        let Burst { tolerated, exceeded } = path.probe().0.measured().burst.unwrap();
        assert_eq!((tolerated, exceeded.is_some()), (None, true));
    }

    #[test]
    fn the_time_is_bounded_however_long_it_takes_to_get_there() {
        let (probe, steps) = Path { set_up: Span::from_secs(6), ..Path::new("1gbit", "600ms", "1MB") }.probe();
        assert_eq!(steps, [Step::RoundTrip, Step::Capacity]);
        assert!(probe.spent <= BUDGET);
        assert!(probe.measured().capacity.is_some() && probe.measured().loss.is_none());
        let (_, steps) = Path { set_up: Span::from_secs(60), ..Path::new("1gbit", "40ms", "1MB") }.probe();
        assert_eq!(steps, [Step::RoundTrip]);
    }

    #[test]
    fn a_kernel_that_tells_no_round_trip_time_is_asked_once() {
        let mut probe = Probe::new();
        let run = probe.next().unwrap();
        probe.tell(&run, &Outcome::default(), Span::from_millis(3));
        assert_eq!((probe.next(), probe.measured()), (None, Measured::default()));
    }

    #[test]
    fn waiting_for_windows_is_told() {
        let (mut probe, path) = (Probe::new(), Path::new("1gbit", "40ms", "1MB"));
        for _ in 0..2 {
            let run = probe.next().unwrap();
            let outcome = Outcome { window_share: 0.5, ..path.run(&run) };
            probe.tell(&run, &outcome, outcome.lasted);
        }
        assert!(probe.measured().capacity.unwrap().by_windows);
    }

    #[test]
    fn the_best_tenth_of_a_second_counts() {
        assert_eq!(best_rate(&[]), Rate::ZERO);
        assert_eq!(best_rate(&[1250; 10]), Rate::from_bits_per_second(10_000_000));
        let mut bins = vec![10; 1000];
        bins[300..400].fill(1250);
        assert_eq!(best_rate(&bins), Rate::from_bits_per_second(10_000_000));
    }
}
