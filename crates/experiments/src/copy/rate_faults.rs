//! Disturbances of a flow, and its recovery: another route, less capacity, a cut, a suspended
//! receiver, jitter, lost acknowledgements, a policer in place of a queue, an end before the rate
//! is found.
//!
//! 1 Gbit/s, 300 ms, queue 2.5 MB, unless the disturbance says otherwise. Paths change while
//! packets are on their way ([`icdc_path::Change`]); the receiver is suspended by SIGSTOP. Shares
//! are of what TCP payload can reach at the capacity of the time. What arrives is counted on the
//! path, because a receiver that is suspended cannot; what is retransmitted counts as well. A flow
//! has recovered when a round trip, and the rest of the time, carries nine tenths of what it did
//! before.

use std::sync::atomic::{AtomicBool, Ordering};

use icdc_lab::{Buffers, Host, Lab, Settings};
use icdc_packet::clock;
use icdc_path::{Change, loss::Model};
use icdc_report::{Report, Series, Stroke, Table, views};
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span, Time};
use rustix::process::Signal;

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::measurement::measured::{Measured, failures};
use crate::harness::measurement::rights::Rights;
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;

/// Scenario `rate-faults` of `icdc lab run`: disturbances of a flow, such as another route or a
/// cut, and its recovery.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "rate-faults",
    about: "route changes, capacity drops, cuts, a suspended receiver, jitter, lost acknowledgements, a policer: how a flow comes through",
    has_rows: false,
    is_parallel: false,
    run,
};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Round-trip time of the path, and of the longer route.
const ROUND_TRIP: Span = Span::from_millis(300);
/// Round-trip time of the route before it changes to a longer one.
const SHORT_ROUND_TRIP: Span = Span::from_millis(50);
const QUEUE: ByteCount = ByteCount::new(2_500_000);
/// Burst that a policer lets pass: about 20 frames of full size.
const POLICER: ByteCount = ByteCount::new(30_000);
const SECOND: Span = Span::from_secs(1);
/// Begin of the disturbance, after the first packet of the connection.
const FROM: Span = Span::from_secs(10);
/// Least retransmission timeout beyond the round trip (Linux).
const LEAST_TIMEOUT: Span = Span::from_millis(200);

/// A disturbance of a running flow.
#[derive(Clone, Copy)]
enum Fault {
    /// The path has another capacity and delay, or is cut, for the time `lasts`.
    Path { lasts: Span, round_trip: Span, rate: Rate, during: Rate, during_round_trip: Span, cut: bool },
    /// The receiver is suspended for the time `lasts`.
    Suspended { lasts: Span },
    /// The path differs all the time.
    Always { change: fn(&mut Settings), seconds: u64 },
}

/// A change to a route of a longer round trip, and back after 15 s.
const ROUTE: Fault = Fault::Path {
    lasts: Span::from_secs(15),
    round_trip: SHORT_ROUND_TRIP,
    rate: RATE,
    during: RATE,
    during_round_trip: ROUND_TRIP,
    cut: false,
};
/// A fall of the path's rate to a tenth, and back after 15 s.
const CAPACITY: Fault = Fault::Path {
    lasts: Span::from_secs(15),
    round_trip: ROUND_TRIP,
    rate: RATE,
    during: Rate::from_bits_per_second(100_000_000),
    during_round_trip: ROUND_TRIP,
    cut: false,
};
/// A cut of the path for 5 s.
const CUT: Fault = Fault::Path {
    lasts: Span::from_secs(5),
    round_trip: ROUND_TRIP,
    rate: RATE,
    during: RATE,
    during_round_trip: ROUND_TRIP,
    cut: true,
};

/// All disturbances, with their names in the table.
const FAULTS: [(&str, Fault); 8] = [
    ("nothing for 5 s", CUT),
    ("route 50 → 300 ms, back after 15 s", ROUTE),
    ("a tenth of the capacity for 15 s", CAPACITY),
    ("receiver suspended for 3 s", Fault::Suspended { lasts: Span::from_secs(3) }),
    (
        "jitter of 10 ms",
        Fault::Always { change: |settings| settings.forward.jitter = Span::from_millis(10), seconds: 20 },
    ),
    (
        "1 % of the acknowledgements lost",
        Fault::Always { change: |settings| settings.backward.loss = Model::Random(0.01), seconds: 20 },
    ),
    ("a policer, 30 kB", Fault::Always { change: |settings| settings.forward.queue = POLICER, seconds: 20 }),
    ("an end after 1 s", Fault::Always { change: |_| (), seconds: 1 }),
];

impl Fault {
    /// Settings of the lab, with the changes of its path that the disturbance makes.
    fn settings(&self) -> Settings {
        let mut settings = Settings::symmetric(path(RATE, self.round_trip(), QUEUE));
        match *self {
            Self::Path { lasts, round_trip, rate, during, during_round_trip, cut } => {
                let delay = during_round_trip / 2;
                let changes = vec![
                    Change { after: FROM, rate: during, delay, cut },
                    Change { after: FROM + lasts, rate, delay: round_trip / 2, cut: false },
                ];
                for direction in [&mut settings.forward, &mut settings.backward] {
                    direction.changes.clone_from(&changes);
                }
                // As for the longest route.
                settings.buffers = Buffers::AtMost(RATE * ROUND_TRIP * 3);
            }
            Self::Suspended { .. } => {}
            Self::Always { change, .. } => change(&mut settings),
        }
        settings
    }

    /// Round-trip time of the path before and after the disturbance.
    fn round_trip(&self) -> Span {
        match self {
            Self::Path { round_trip, .. } => *round_trip,
            _ => ROUND_TRIP,
        }
    }

    /// Longest round-trip time of the path while the disturbance lasts.
    fn longest_round_trip(&self) -> Span {
        match self {
            Self::Path { during_round_trip, .. } => self.round_trip().max(*during_round_trip),
            _ => ROUND_TRIP,
        }
    }

    /// Length of the disturbance; `None` if it is permanent.
    fn lasts(&self) -> Option<Span> {
        match self {
            Self::Path { lasts, .. } | Self::Suspended { lasts } => Some(*lasts),
            Self::Always { .. } => None,
        }
    }

    /// Length of the measurement in seconds.
    fn seconds(&self, quick: bool) -> u64 {
        match self {
            Self::Always { seconds, .. } => *seconds,
            _ => (FROM + self.lasts().unwrap_or_default()).as_secs() + if quick { 8 } else { 20 },
        }
    }

    /// Rate of the path during the disturbance.
    fn capacity(&self) -> Rate {
        match self {
            Self::Path { during, .. } => *during,
            _ => RATE,
        }
    }
}

/// Row of the table: a flow that was disturbed, with its measurement.
struct Disturbed {
    name: &'static str,
    fault: Fault,
    rights: Rights,
    measured: Measured,
    /// Payload that arrived in each millisecond since the first.
    payload: Vec<u32>,
    /// Begin and end of the disturbance after the first byte; `None` if it is permanent.
    times: Option<(Span, Span)>,
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let (faults, rights) =
        if bench.quick { (&FAULTS[..1], &Rights::BOTH[..1]) } else { (&FAULTS[..], &Rights::BOTH[..]) };
    let mut all = Vec::new();
    for &(name, fault) in faults {
        for &rights in rights {
            for run in 1..=bench.runs.unwrap_or(1) {
                (bench.say)(&format!("{name}, {}, run {run}", rights.name()));
                let trial = Trial::automatic(fault.settings(), fault.seconds(bench.quick), rights);
                let (measured, suspended) = trial::run_beside(bench, &trial, |lab, over| suspend(&fault, lab, over))?;
                let (payload, times) = (payload(&measured), times(&fault, &measured, suspended));
                all.push(Disturbed { name, fault, rights, measured, payload, times });
            }
        }
    }
    let header = [
        "",
        "",
        "before, %",
        "meanwhile, %",
        "after, %",
        "longest silence meanwhile, ms",
        "longest silence after, ms",
        "at most (2 × RTO)",
        "recovered after, s",
        "variation of round trips at the end",
        "retransmitted",
        "",
    ];
    Ok(Report {
        tables: vec![Table {
            caption: "Goodput as share of what payload can reach, before, while and after something disturbs"
                .to_owned(),
            header: header.map(str::to_owned).to_vec(),
            rows: all.iter().map(Disturbed::row).collect(),
        }],
        plots: all.iter().map(Disturbed::plot).collect(),
        failures: failures(all.iter().map(|disturbed| (disturbed.title(), &disturbed.measured))),
        ..Report::default()
    })
}

/// Suspends the receiver if that is the fault, and returns begin and end; `None` for any other
/// fault.
fn suspend(fault: &Fault, lab: &Lab, over: &AtomicBool) -> Result<Option<(Time, Time)>, ExperimentError> {
    let Fault::Suspended { lasts } = fault else { return Ok(None) };
    let wait = |until: Time| {
        while clock::now() < until && !over.load(Ordering::Relaxed) {
            clock::sleep_until(until.min(clock::now() + Span::from_millis(20)));
        }
    };
    wait(clock::now() + FROM);
    let from = clock::now();
    lab.signal(Host::B, Signal::STOP)?;
    wait(from + *lasts);
    let to = clock::now();
    lab.signal(Host::B, Signal::CONT)?;
    Ok(Some((from, to)))
}

/// Payload that the path delivered, by the millisecond, for the time of the measurement.
fn payload(measured: &Measured) -> Vec<u32> {
    let direction = path(RATE, ROUND_TRIP, QUEUE);
    let payload = |bytes: ByteCount| {
        let rate = payload_rate(&direction).as_bits_per_second();
        bytes.scaled(rate, direction.rate.as_bits_per_second()).as_u64() as u32
    };
    let recording = &measured.recording;
    let flow = recording.bins.iter().skip(recording.data_begins(direction.largest_frame()));
    flow.take(measured.summary.series_ms.len()).map(|bin| payload(bin.delivered)).collect()
}

/// Begin and end of the fault, as times at the receiver after the first byte; `None` if the fault
/// is permanent.
fn times(fault: &Fault, measured: &Measured, suspended: Option<(Time, Time)>) -> Option<(Span, Span)> {
    let lasts = fault.lasts()?;
    let recording = &measured.recording;
    let direction = path(RATE, fault.round_trip(), QUEUE);
    let first_byte = recording.data_began(direction.largest_frame());
    // Changes of a path are dated by its first packet, with which the recording begins, and seen a
    // delay later.
    let change = recording.begun + FROM + direction.delay;
    let (from, to) = suspended.unwrap_or((change, change + lasts));
    Some((from - first_byte, to - first_byte))
}

impl Disturbed {
    /// Name of the row: the disturbance and the privileges.
    fn title(&self) -> String {
        format!("{}, {}", self.name, self.rights.name())
    }

    /// Payload that the path delivered, by the millisecond since the first.
    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals::new(&self.payload)
    }

    /// Cells of the row in the table.
    fn row(&self) -> Vec<String> {
        let arrivals = self.arrivals();
        let (round_trip, end) = (self.fault.round_trip(), arrivals.length());
        // The time after start-up; all of a flow that is too short for that.
        let steady = Some(round_trip * 10 + SECOND).filter(|from| *from < end).unwrap_or_default();
        let (from, to) = self.times.unwrap_or((steady, end));
        let share = |rate: Rate, from, to| {
            let limit = payload_rate(&path(rate, round_trip, QUEUE));
            format!("{:.0}", arrivals.mean(from, to).ratio(limit) * 100.0)
        };
        let millis = |from, to| arrivals.longest_silence(from, to).as_millis().to_string();
        let is_over = self.times.is_some();
        let otherwise = |value: String| if is_over { value } else { String::new() };
        let before = arrivals.mean(steady, from);
        let wanted = before.scaled(9, 10);
        let recovered = arrivals.first_window(round_trip, to + round_trip, |at, mean| {
            mean >= wanted && at + SECOND <= end && arrivals.mean(at, end) >= wanted
        });
        let last = if is_over { to } else { from };
        let last = last.max(end - round_trip * 20);
        vec![
            self.name.to_owned(),
            self.rights.name().to_owned(),
            otherwise(share(RATE, steady, from)),
            share(self.fault.capacity(), from, to),
            otherwise(share(RATE, to, end)),
            millis(from, to),
            otherwise(millis(to, end)),
            ((self.fault.longest_round_trip() + LEAST_TIMEOUT) * 2).as_millis().to_string(),
            otherwise(recovered.map_or_else(|| "never".to_owned(), |at| format!("{:.1}", (at - to).as_secs_f64()))),
            format!("{:.3}", arrivals.variation(round_trip, last, end)),
            self.measured.summary.retransmitted_segments.to_string(),
            if self.measured.spoilt.is_some() { "invalid" } else { "" }.to_owned(),
        ]
    }

    /// Plot of the throughput over time, with begin and end of the disturbance.
    fn plot(&self) -> icdc_report::Plot {
        let limit = payload_rate(&path(RATE, ROUND_TRIP, QUEUE));
        let mut plot = views::throughput(self.arrivals().rates(Span::ZERO, Span::MAX), Some(limit), Vec::new());
        if let Some((from, to)) = self.times {
            let at = [from, to].map(|at| (at.as_secs_f64(), 1.0));
            plot.series.push(Series::new("begins and ends", Stroke::Marks, at.to_vec()));
        }
        plot.title = self.title();
        plot
    }
}
