//! The table of copies, whose rows run one after another.

use std::path::Path;

use icdc_report::{Plot, Table};
use icdc_units::ByteCount;

use crate::copy::any_host::case::Case;
use crate::copy::any_host::row::{QUICKER, Row, RunContext};
use crate::copy::any_host::turn::CopyResult;
use crate::copy::peers::Load;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;

impl Row for Case {
    type Run = CopyResult;

    fn name(&self) -> &'static str {
        self.name
    }

    fn load(&self) -> (Load, ByteCount) {
        (self.load, self.size)
    }

    fn run(&self, context: &RunContext<'_>, source: &Path, round: u64) -> Result<CopyResult, ExperimentError> {
        context.fixture.run(context.bench, self, source, round)
    }

    fn fault(run: &CopyResult) -> Option<&str> {
        run.failure.as_deref().or(run.spoilt.as_deref())
    }

    fn is_last(run: &CopyResult) -> bool {
        run.failure.is_some()
    }

    fn table(rows: &[(Self, Vec<CopyResult>)], quick: bool) -> Table {
        let header = [
            "",
            "required",
            "seconds",
            "steady, Mbit/s of payload",
            "drops at the queue, start-up",
            "all",
            "segments retransmitted, %",
            "data connections",
            "connections opened by a, ssh's too",
            "data went to",
            "congestion control",
            "exit code",
            "invalid runs",
            "why it failed",
        ];
        let smaller = if quick {
            format!("; files of a {QUICKER}th of the size, so what is required does not apply")
        } else {
            String::new()
        };
        Table {
            caption: format!(
                "Disk to disk, command to exit, 2 GB over 1 Gbit/s, 300 ms and a queue of 2.5 MB where a row does not tell otherwise: median (least to greatest){smaller}"
            ),
            header: header.map(str::to_owned).to_vec(),
            rows: rows.iter().map(|(case, finishes)| case.cells(finishes)).collect(),
        }
    }

    /// Throughput and queue of the first run.
    fn plots(&self, finishes: &[CopyResult]) -> Vec<Plot> {
        let Some(first) = finishes.first() else { return Vec::new() };
        let mut plots = first.recording.plots(&self.settings(1).forward);
        plots.truncate(2);
        for plot in &mut plots {
            plot.title = format!("{}, {}", plot.title, self.name);
        }
        plots
    }
}

impl Case {
    /// Cells of the row in the table, over the runs.
    fn cells(&self, finishes: &[CopyResult]) -> Vec<String> {
        let spread = |value: fn(&CopyResult) -> f64| Spread::of(finishes.iter().map(value));
        let all = |value: &dyn Fn(&CopyResult) -> String| {
            let mut values: Vec<String> = finishes.iter().map(value).collect();
            values.sort();
            values.dedup();
            values.join(" / ")
        };
        let failed = finishes.iter().find_map(|finish| finish.failure.as_deref());
        let steady = spread(|finish| finish.steady.goodput);
        let seconds = spread(|finish| finish.took.as_secs_f64()).tenths("none");
        vec![
            self.name.to_owned(),
            self.required.to_owned(),
            if failed.is_some() { format!("failed after {seconds}") } else { seconds },
            if steady.greatest > 0.0 { steady.megabits() } else { "too short".to_owned() },
            spread(|finish| finish.steady.early_drops as f64).whole(),
            spread(|finish| (finish.steady.early_drops + finish.steady.drops) as f64).whole(),
            spread(|finish| finish.retransmitted * 100.0).thousandths(),
            spread(|finish| finish.data_connections as f64).whole(),
            spread(|finish| finish.opened as f64).whole(),
            all(&|finish| finish.peers.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
            all(&|finish| finish.congestion.clone()),
            all(&|finish| finish.exit.map_or_else(|| "killed".to_owned(), |code| code.to_string())),
            finishes.iter().filter(|finish| finish.spoilt.is_some()).count().to_string(),
            failed.unwrap_or_default().to_owned(),
        ]
    }
}
