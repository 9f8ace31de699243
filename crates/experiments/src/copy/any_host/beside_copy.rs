//! Rows of two copies at once: 1 Gbit/s, 50 ms, a queue of one bandwidth-delay product.
//!
//! The second begins when the first has filled the path. Rates are from each copy's own progress
//! reports, from when the second has settled until one of them ends.

use std::path::Path;
use std::thread;

use icdc_lab::{Settings, spoilt_but_for_bursts};
use icdc_packet::clock;
use icdc_report::Table;
use icdc_sim::{jain_index, payload_rate};
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::copy::any_host::accounts::{Account, End};
use crate::copy::any_host::case::Case;
use crate::copy::any_host::row::{Row, RunContext, size_in};
use crate::copy::any_host::turn::{CopyResult, Fixture, Paths};
use crate::copy::peers::Load;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::repetition::resolution::Resolution;

/// Size of each copy's file.
const SIZE: ByteCount = ByteCount::new(2_000_000_000);
const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(50);
/// Delay of the second copy after the first.
const LATER: Span = Span::from_secs(5);
/// Start-up time of the second copy, which does not count.
const SETTLING: Span = Span::from_secs(5);
/// Time before the end of the copy that ends first, which does not count.
const ENDING: Span = Span::from_secs(1);
/// Names of the directories in the scratch into which the two copies go.
const DESTINATIONS: [&str; 2] = ["arrived-first", "arrived-second"];

/// Case: two copies of the same account at once.
#[derive(Clone, Copy)]
pub(super) struct BesideCopy {
    name: &'static str,
    account: Account,
}

/// Results of the two copies of one run.
pub(super) struct BothCopies {
    /// Mean rate of each copy.
    means: [Rate; 2],
    /// Payload rate of the path.
    limit: Rate,
    finishes: [CopyResult; 2],
    spoilt: Option<String>,
}

/// All rows of the table of two copies at once.
pub(super) const ALL: [BesideCopy; 2] = [
    BesideCopy { name: "beside a second copy, user", account: Account::User },
    BesideCopy { name: "beside a second copy, root", account: Account::Root },
];

impl BesideCopy {
    /// Runs both copies once, in a lab of their own.
    fn run_once(&self, bench: &Bench<'_>, fixture: &Fixture<'_>, source: &Path) -> Result<BothCopies, ExperimentError> {
        let filled = path(RATE, ROUND_TRIP, RATE * ROUND_TRIP);
        let settings = Settings { stock: self.account == Account::User, ..Settings::symmetric(filled) };
        let case = Case::beside_another(self.account, None);
        fixture.forget_paths(&case)?;
        fixture.accounts(self.account).empty_home(End::Far)?;
        let lab = TemporaryLab::new(bench, &settings)?;
        let copy = |destination| fixture.copy_between(bench, &lab, &case, Paths { source, destination });
        let finishes = thread::scope(|scope| {
            let first = scope.spawn(|| copy(DESTINATIONS[0]));
            clock::sleep_until(clock::now() + LATER);
            let second = copy(DESTINATIONS[1]);
            let first = first.join().expect("the first copy does not panic");
            Ok::<_, ExperimentError>([first?, second?])
        })?;
        let tolerance = Resolution::Means.tolerance(settings.round_trip());
        let spoilt = spoilt_but_for_bursts(&lab.page()?, &settings, tolerance);
        let from = finishes[1].begun + SETTLING;
        let ended = |finish: &CopyResult| finish.begun + finish.took;
        let to = ended(&finishes[0]).min(ended(&finishes[1])) - ENDING;
        let mean = |finish: &CopyResult| mean(&finish.progress, from, to);
        let means = [mean(&finishes[0]), mean(&finishes[1])];
        Ok(BothCopies { means, limit: payload_rate(&settings.forward), finishes, spoilt })
    }

    /// Cells of the row in the table, over the runs.
    fn cells(&self, runs: &[BothCopies]) -> Vec<String> {
        let spread = |value: &dyn Fn(&BothCopies) -> f64| Spread::of(runs.iter().map(value));
        let failed = runs.iter().flat_map(|run| &run.finishes).find_map(|finish| finish.failure.as_deref());
        let were_together = runs.iter().all(|run| run.means.iter().all(|mean| !mean.is_zero()));
        let jain = spread(&|run| jain_index(&run.means)).thousandths();
        let jain = if were_together { jain } else { "too short".to_owned() };
        vec![
            self.name.to_owned(),
            "≥ 0.95".to_owned(),
            failed.map_or(jain, |why| format!("failed: {why}")),
            spread(&|run| run.share(0)).percent(),
            spread(&|run| run.share(1)).percent(),
            spread(&|run| run.finishes[0].took.as_secs_f64()).tenths("none"),
            spread(&|run| run.finishes[1].took.as_secs_f64()).tenths("none"),
            spread(&|run| run.finishes[0].retransmitted.max(run.finishes[1].retransmitted) * 100.0).thousandths(),
            runs.iter().filter(|run| run.spoilt.is_some()).count().to_string(),
        ]
    }
}

impl BothCopies {
    /// Mean rate of the first (0) or second (1) copy, as a share of the path's payload rate.
    fn share(&self, which: usize) -> f64 {
        self.means[which].as_bits_per_second() as f64 / self.limit.as_bits_per_second() as f64
    }
}

/// Mean rate of a copy between its first and last progress report within two times; zero if there
/// are not two.
fn mean(progress: &[(Time, u64)], from: Time, to: Time) -> Rate {
    let within: Vec<_> = progress.iter().filter(|(at, _)| (from..=to).contains(at)).collect();
    match within[..] {
        [first, .., last] => ByteCount::new(last.1.saturating_sub(first.1)) / (last.0 - first.0),
        _ => Rate::ZERO,
    }
}

impl Row for BesideCopy {
    type Run = BothCopies;

    fn name(&self) -> &'static str {
        self.name
    }

    fn load(&self) -> (Load, ByteCount) {
        (Load::File, SIZE)
    }

    fn run(&self, context: &RunContext<'_>, source: &Path, _round: u64) -> Result<BothCopies, ExperimentError> {
        self.run_once(context.bench, context.fixture, source)
    }

    fn fault(run: &BothCopies) -> Option<&str> {
        run.spoilt.as_deref()
    }

    fn table(rows: &[(Self, Vec<BothCopies>)], quick: bool) -> Table {
        let size = size_in(SIZE, quick);
        let header = [
            "",
            "required",
            "Jain's index",
            "first, % of the payload",
            "second, % of the payload",
            "first, seconds",
            "second, seconds",
            "segments retransmitted by host a, %",
            "invalid runs",
        ];
        Table {
            caption: format!(
                "Two copies of {size} over 1 Gbit/s, 50 ms, queue 1 × rate × round trip, the second {LATER} after the first: median (least to greatest)"
            ),
            header: header.map(str::to_owned).to_vec(),
            rows: rows.iter().map(|(beside, runs)| beside.cells(runs)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_between_two_times() {
        let at = |seconds| Time::ORIGIN + Span::from_secs(seconds);
        let progress: Vec<(Time, u64)> = (0..10).map(|second| (at(second), second * second * 1000)).collect();
        assert_eq!(mean(&progress, at(2), at(4)), Rate::from_bits_per_second(48_000));
        assert_eq!(mean(&progress, at(2), at(2)), Rate::ZERO);
        assert_eq!(mean(&progress, at(11), at(12)), Rate::ZERO);
    }
}
