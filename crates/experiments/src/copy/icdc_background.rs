//! icdc beside traffic that comes and goes: the ICDC paper's figures 9 and 10, on an emulated path
//! and without a gap set by hand.
//!
//! Datagrams at a constant rate come for five seconds and go for five, on 1 Gbit/s and 300 ms,
//! queue 25 MB: whoever follows can do so a round trip later at the earliest, and what is sent
//! until then has to wait somewhere (half of the path for one round trip are 19 MB).
//!
//! Shares are of what the others leave of what TCP payload can reach, from ten round trips and a
//! second after the first byte to the end, the times of change included. A change is followed when
//! a window, told by its middle, is within a tenth of what is left over.

use icdc_lab::Settings;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit, reduce};
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::harness::arrivals::Arrivals;
use crate::harness::bench::Bench;
use crate::harness::cross_traffic::{CrossTraffic, TrafficPhase};
use crate::harness::error::ExperimentError;
use crate::harness::measured::{Measured, failures};
use crate::harness::paths::path;
use crate::harness::rights::Rights;
use crate::harness::scenario::Scenario;
use crate::harness::spread::Spread;
use crate::harness::trial::{self, Trial};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "icdc-background",
    about: "beside traffic of 10 to 60 % of the path that switches every 5 s: what icdc gets of the rest (ICDC, figures 9 and 10)",
    has_rows: false,
    run,
};

pub(crate) const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
pub(crate) const ROUND_TRIP: Span = Span::from_millis(300);
pub(crate) const QUEUE: ByteCount = ByteCount::new(25_000_000);
/// Per cent of the path.
const SHARES: [u64; 4] = [50, 10, 30, 60];
const HALF_PERIOD: Span = Span::from_secs(5);
/// Both ends have found each other by then, and the first byte has arrived.
const QUIET: Span = Span::from_secs(10);
pub(crate) const SECONDS: u64 = 60;
const SECOND: Span = Span::from_secs(1);

/// A flow, and what else was on the path.
pub(crate) struct BackgroundRun {
    share: u64,
    rights: Rights,
    pub(crate) measured: Measured,
    /// As the receiver saw them, in the time of its first byte.
    phases: Vec<Left>,
}

/// A time in which the others left so much.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    from: Span,
    to: Span,
    payload: Rate,
}

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let (shares, rights) =
        if bench.quick { (&SHARES[..1], &Rights::BOTH[..1]) } else { (&SHARES[..], &Rights::BOTH[..]) };
    let seconds = if bench.quick { 25 } else { SECONDS };
    let mut all = Vec::new();
    for &share in shares {
        for &rights in rights {
            for run in 1..=bench.runs.unwrap_or(1) {
                (bench.say)(&format!("{share} % every other 5 s, {}, run {run}", rights.name()));
                let settings = Settings::symmetric(path(RATE, ROUND_TRIP, QUEUE));
                all.push(BackgroundRun::of(bench, settings, share, rights, seconds)?);
            }
        }
    }
    let header = [
        "others, % of the path",
        "",
        "of what is left over, %",
        "required",
        "while the others are there, %",
        "while they are not, %",
        "retransmitted, %",
        "required",
        "dropped at the queue",
        "followed by windows of a round trip, round trips",
        "by windows of 1000 ms, round trips",
        "required",
        "",
    ];
    Ok(Report {
        tables: vec![Table {
            caption: format!(
                "1 Gbit/s, 300 ms, queue 25 MB, others come and go every 5 s, {seconds} s; times to follow: median (least to greatest) of all changes"
            ),
            header: header.map(str::to_owned).to_vec(),
            rows: all.iter().map(BackgroundRun::row).collect(),
        }],
        plots: all.iter().map(BackgroundRun::plot).collect(),
        failures: failures(all.iter().map(|beside| (beside.name(), &beside.measured))),
        ..Report::default()
    })
}

/// What the others left, in the time of the receiver.
fn left(measured: &Measured, phases: &[TrafficPhase]) -> Vec<Left> {
    let direction = path(RATE, ROUND_TRIP, QUEUE);
    let begun = measured.recording.data_begins(direction.largest_frame());
    let first_byte = measured.recording.begun + Span::from_millis(begun as u64);
    let seen = |at: Time| at + direction.delay - first_byte;
    let payload = |rate| {
        let rest = icdc_path::Settings { rate, ..direction.clone() };
        payload_rate(&rest)
    };
    let left =
        |phase: &TrafficPhase| Left { from: seen(phase.from), to: seen(phase.to), payload: payload(RATE - phase.rate) };
    phases.iter().map(left).collect()
}

impl BackgroundRun {
    /// A flow for so long, beside others that take `share` per cent of the path while they are
    /// there. Of `settings` the hosts count: the path is the scenario's.
    pub(crate) fn of(
        bench: &Bench<'_>,
        settings: Settings,
        share: u64,
        rights: Rights,
        seconds: u64,
    ) -> Result<Self, ExperimentError> {
        let others = CrossTraffic { rate: RATE.scaled(share, 100), quiet: QUIET, half_period: HALF_PERIOD };
        let trial = Trial::automatic(settings, seconds, rights);
        let (measured, phases) = trial::run_beside(bench, &trial, |lab, over| others.send(lab, over))?;
        let phases = left(&measured, &phases);
        Ok(Self { share, rights, measured, phases })
    }

    fn name(&self) -> String {
        format!("{} %, {}", self.share, self.rights.name())
    }

    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals::new(&self.measured.summary.series_ms)
    }

    /// Per cent of what is left over.
    pub(crate) fn of_what_is_left(&self) -> f64 {
        self.part(|_| true)
    }

    /// Of what is left over in these phases, from when it is steady on.
    fn part(&self, counts: impl Fn(&Left) -> bool) -> f64 {
        let arrivals = self.arrivals();
        let (first, last) = (ROUND_TRIP * 10 + SECOND, arrivals.length());
        let (mut got, mut there) = (ByteCount::ZERO, ByteCount::ZERO);
        for phase in self.phases.iter().filter(|phase| counts(phase)) {
            let (from, to) = (phase.from.max(first), phase.to.min(last));
            got += arrivals.sum(from, to);
            there += phase.payload * (to - from);
        }
        got.ratio(there) * 100.0
    }

    /// Round trips after each change until a window is near what is left over; infinite if none is
    /// before the next change.
    pub(crate) fn followed(&self, window: Span) -> Spread {
        let arrivals = self.arrivals();
        let changes = self.phases.windows(2).filter(|two| two[1].to <= arrivals.length() && two[1].from >= window);
        Spread::of(changes.map(|two| {
            let left = two[1];
            let (least, most) = (left.payload.scaled(9, 10), left.payload.scaled(11, 10));
            // Told by its middle: half of it before the change.
            let from = left.from - window / 2;
            let near = arrivals.first_window(window, from + window, |_, mean| (least..=most).contains(&mean));
            let near = near.map(|end| end - window / 2).filter(|middle| *middle < left.to);
            near.map_or(f64::INFINITY, |middle| (middle - left.from).ratio(ROUND_TRIP))
        }))
    }

    /// Per cent of the segments.
    pub(crate) fn retransmitted(&self) -> f64 {
        let arrivals = self.arrivals();
        let segments = arrivals.sum(Span::ZERO, arrivals.length()).ratio(ByteCount::new(1448));
        self.measured.summary.retransmitted_segments as f64 / segments.max(1.0) * 100.0
    }

    fn row(&self) -> Vec<String> {
        let full = payload_rate(&path(RATE, ROUND_TRIP, QUEUE));
        let are_there = |phase: &Left| phase.payload < full.scaled(99, 100);
        vec![
            self.share.to_string(),
            self.rights.name().to_owned(),
            format!("{:.1}", self.of_what_is_left()),
            "≥ 90".to_owned(),
            format!("{:.1}", self.part(are_there)),
            format!("{:.1}", self.part(|phase| !are_there(phase))),
            format!("{:.3}", self.retransmitted()),
            "< 0.1".to_owned(),
            self.measured.queue_drops.to_string(),
            self.followed(ROUND_TRIP).tenths("never"),
            self.followed(SECOND).tenths("never"),
            "≤ 4".to_owned(),
            if self.measured.spoilt.is_some() { "invalid" } else { "" }.to_owned(),
        ]
    }

    fn plot(&self) -> Plot {
        let arrivals = self.arrivals();
        let rates = arrivals.rates(Span::ZERO, Span::MAX);
        let mean = reduce::sliding_means(&rates, SECOND, Span::from_millis(10));
        let end = arrivals.length();
        let steps = self.phases.iter().filter(|phase| phase.from < end).flat_map(|phase| {
            let rate = phase.payload.as_bits_per_second() as f64;
            [(phase.from.as_secs_f64(), rate), (phase.to.min(end).as_secs_f64(), rate)]
        });
        let column = |what: &str| format!("{what}_{}_{}", self.share, self.rights.name());
        let series = vec![
            Series::new("1 ms window", Stroke::Faint, rates).column(&column("payload")),
            Series::new("1000 ms mean", Stroke::Strong, mean).column(&column("payload_mean_1000ms")),
            Series::new("left over", Stroke::Limit, steps.collect::<Vec<_>>()).column(&column("left_over")),
        ];
        Plot::new(&format!("Payload beside {}", self.name()), Unit::BitsPerSecond, series)
    }
}
