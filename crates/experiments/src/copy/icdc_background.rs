//! icdc beside cross-traffic that is on and off in turns: figures 9 and 10 of the ICDC paper
//! (Tanida, Inaba, Hiraki), on an emulated path and without a gap set by hand. Shares and times are
//! defined in `beside_others.rs`.

use icdc_lab::Settings;
use icdc_report::{Plot, Report, Series, Stroke, Table, Unit, reduce};
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Span};

use crate::copy::beside_others::{QUEUE, RATE, ROUND_TRIP, ResidualCapacity, ResidualPhase, others};
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::paths::path;
use crate::harness::measurement::arrivals::Arrivals;
use crate::harness::measurement::measured::{Measured, failures};
use crate::harness::measurement::rights::Rights;
use crate::harness::measurement::trial::{self, Trial};
use crate::harness::scenario::Scenario;

/// Scenario `icdc-background` of `icdc lab run`: an icdc flow beside cross-traffic that is on and
/// off (ICDC, figures 9 and 10).
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "icdc-background",
    about: "beside traffic of 10 to 60 % of the path that switches every 5 s: what icdc gets of the rest (ICDC, figures 9 and 10)",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Rates of the cross-traffic, in per cent of the path.
const SHARES: [u64; 4] = [50, 10, 30, 60];
/// Length of a measurement in seconds.
const SECONDS: u64 = 60;
const SECOND: Span = Span::from_secs(1);

/// Row of the table: a flow beside cross-traffic, and the capacity that this left.
struct BackgroundRun {
    share: u64,
    rights: Rights,
    measured: Measured,
    /// Capacity that the cross-traffic left, in the receiver's time since its first byte.
    left: ResidualCapacity,
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
                all.push(BackgroundRun::of(bench, share, rights, seconds)?);
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

impl BackgroundRun {
    /// Measures a flow of `seconds`, beside cross-traffic that takes `share` per cent of the path
    /// while it is on.
    fn of(bench: &Bench<'_>, share: u64, rights: Rights, seconds: u64) -> Result<Self, ExperimentError> {
        let direction = path(RATE, ROUND_TRIP, QUEUE);
        let trial = Trial::automatic(Settings::symmetric(direction.clone()), seconds, rights);
        let (measured, phases) = trial::run_beside(bench, &trial, |lab, over| others(share).send(lab, over))?;
        let left = ResidualCapacity::new(&phases, measured.recording.data_began(direction.largest_frame()));
        Ok(Self { share, rights, measured, left })
    }

    fn name(&self) -> String {
        format!("{} %, {}", self.share, self.rights.name())
    }

    /// Payload of the flow by the millisecond since its first byte.
    fn arrivals(&self) -> Arrivals<'_> {
        Arrivals::new(&self.measured.summary.series_ms)
    }

    /// Percentage of the segments that were retransmitted.
    fn retransmitted(&self) -> f64 {
        let arrivals = self.arrivals();
        let segments = arrivals.sum(Span::ZERO, arrivals.length()).ratio(ByteCount::new(1448));
        self.measured.summary.retransmitted_segments as f64 / segments.max(1.0) * 100.0
    }

    /// Cells of the row in the table.
    fn row(&self) -> Vec<String> {
        let full = payload_rate(&path(RATE, ROUND_TRIP, QUEUE));
        let are_there = |phase: &ResidualPhase| phase.payload < full.scaled(99, 100);
        let arrivals = self.arrivals();
        vec![
            self.share.to_string(),
            self.rights.name().to_owned(),
            format!("{:.1}", self.left.share(arrivals, |_| true)),
            "≥ 90".to_owned(),
            format!("{:.1}", self.left.share(arrivals, are_there)),
            format!("{:.1}", self.left.share(arrivals, |phase| !are_there(phase))),
            format!("{:.3}", self.retransmitted()),
            "< 0.1".to_owned(),
            self.measured.queue_drops.to_string(),
            self.left.followed(arrivals, ROUND_TRIP).tenths("never"),
            self.left.followed(arrivals, SECOND).tenths("never"),
            "≤ 4".to_owned(),
            if self.measured.spoilt.is_some() { "invalid" } else { "" }.to_owned(),
        ]
    }

    /// Plot of the flow's payload rate and of the rate that was left, over time.
    fn plot(&self) -> Plot {
        let arrivals = self.arrivals();
        let rates = arrivals.rates(Span::ZERO, Span::MAX);
        let mean = reduce::sliding_means(&rates, SECOND, Span::from_millis(10));
        let end = arrivals.length();
        let steps = self.left.phases().iter().filter(|phase| phase.from < end).flat_map(|phase| {
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
