//! Rows beside traffic that comes and goes, as `icdc-background` has them, on a user's stock hosts
//! and on root's tuned ones.

use icdc_lab::Settings;
use icdc_report::Table;

use crate::copy::icdc_background::{BackgroundRun, QUEUE, RATE, ROUND_TRIP, SECONDS};
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::paths::path;
use crate::harness::rights::Rights;
use crate::harness::spread::Spread;

const QUICK_SECONDS: u64 = 25;

/// Traffic of so many per cent of the path, and who sends beside it.
#[derive(Clone, Copy)]
pub(super) struct Background {
    pub(super) name: &'static str,
    share: u64,
    rights: Rights,
}

pub(super) const ALL: [Background; 6] = [
    Background { name: "background of 30 %, user", share: 30, rights: Rights::Few },
    Background { name: "background of 30 %, root", share: 30, rights: Rights::All },
    Background { name: "background of 50 %, user", share: 50, rights: Rights::Few },
    Background { name: "background of 50 %, root", share: 50, rights: Rights::All },
    Background { name: "background of 60 %, user", share: 60, rights: Rights::Few },
    Background { name: "background of 60 %, root", share: 60, rights: Rights::All },
];

impl Background {
    pub(super) fn run(&self, bench: &Bench<'_>) -> Result<BackgroundRun, ExperimentError> {
        let stock = self.rights == Rights::Few;
        let settings = Settings { stock, ..Settings::symmetric(path(RATE, ROUND_TRIP, QUEUE)) };
        BackgroundRun::of(bench, settings, self.share, self.rights, if bench.quick { QUICK_SECONDS } else { SECONDS })
    }

    fn row(&self, runs: &[BackgroundRun]) -> Vec<String> {
        let spread = |value: &dyn Fn(&BackgroundRun) -> f64| Spread::of(runs.iter().map(value));
        vec![
            self.name.to_owned(),
            if self.rights == Rights::All { "≥ 92" } else { "≥ 90" }.to_owned(),
            spread(&BackgroundRun::of_what_is_left).tenths("none"),
            "≤ 8".to_owned(),
            spread(&|run| run.followed(ROUND_TRIP).median).tenths("never"),
            spread(&|run| run.measured.queue_drops as f64).whole(),
            spread(&BackgroundRun::retransmitted).thousandths(),
            runs.iter().filter(|run| run.measured.spoilt.is_some()).count().to_string(),
        ]
    }
}

pub(super) fn table(rows: &[(Background, Vec<BackgroundRun>)]) -> Table {
    let header = [
        "",
        "required",
        "of what is left over, %",
        "required",
        "changes followed after, round trips",
        "dropped at the queue",
        "segments retransmitted, %",
        "invalid runs",
    ];
    Table {
        caption:
            "1 Gbit/s, 300 ms, queue 25 MB, memory to memory, others on and off each 5 s: median (least to greatest)"
                .to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: rows.iter().map(|(background, runs)| background.row(runs)).collect(),
    }
}
