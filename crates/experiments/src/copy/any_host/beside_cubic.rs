//! Rows beside one CUBIC connection of another host: 1 Gbit/s, 50 ms, a queue of one
//! bandwidth-delay product.
//!
//! The other connection is between plain hosts behind the lab's two (see `relay::plain_hosts`), so
//! that the two senders have nothing in common but the path. It begins first; the copy follows when
//! it has filled the path. The copy's data is what the path delivered less what the other
//! connection's receiver read.

use std::path::Path;
use std::thread;

use icdc_lab::{Host, Settings, spoilt_but_for_bursts};
use icdc_packet::clock;
use icdc_report::Table;
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::copy::any_host::accounts::Account;
use crate::copy::any_host::case::Case;
use crate::copy::any_host::row::{Row, RunContext, size_in};
use crate::copy::any_host::turn::{CopyResult, Fixture};
use crate::copy::copying::payload;
use crate::copy::peers::Load;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::hosts::paths::path;
use crate::harness::repetition::resolution::Resolution;
use crate::relay::plain_flow::{Carried, PlainFlow};
use crate::relay::plain_hosts::{self, Plain, configure};

/// Size of the file that is copied.
const SIZE: ByteCount = ByteCount::new(2_000_000_000);
/// Length of the CUBIC connection in a full run of the scenario.
const LASTS: Span = Span::from_secs(60);
const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(50);
/// Socket buffers of the other connection, in bandwidth-delay products.
const AMPLE: u64 = 4;
/// TCP port of the CUBIC connection.
const PORT: u16 = 5001;
/// Delay of the copy after the other connection.
const EARLIER: Span = Span::from_secs(5);
/// Start-up time of the copy, which does not count.
const SETTLING: Span = Span::from_secs(5);
/// Time before the end of the copy, which does not count.
const ENDING: Span = Span::from_secs(1);

/// Case: a copy beside a CUBIC connection of another host, by account and number of the copy's
/// connections.
#[derive(Clone, Copy)]
pub(super) struct BesideCubic {
    name: &'static str,
    account: Account,
    /// Number of connections, if the row names one.
    streams: Option<u8>,
}

/// Result of one run: the share of the path's payload rate that copy and CUBIC connection each had.
pub(super) struct BothShares {
    ours: f64,
    cubic: f64,
    finish: CopyResult,
}

/// A case of this account; `streams`: number of the copy's connections, `None`: as icdc chooses.
const fn row(name: &'static str, account: Account, streams: Option<u8>) -> BesideCubic {
    BesideCubic { name, account, streams }
}

/// All rows of the table of copies beside CUBIC.
pub(super) const ALL: [BesideCubic; 7] = [
    row("beside CUBIC, user, 1 stream", Account::User, Some(1)),
    row("beside CUBIC, user, 4 streams", Account::User, Some(4)),
    row("beside CUBIC, user, 16 streams", Account::User, Some(16)),
    row("beside CUBIC, user, as many as icdc opens", Account::User, None),
    row("beside CUBIC, root, 1 stream", Account::Root, Some(1)),
    row("beside CUBIC, root, 4 streams", Account::Root, Some(4)),
    row("beside CUBIC, root, 16 streams", Account::Root, Some(16)),
];

impl BesideCubic {
    /// Settings of the lab: stock hosts for a user, tuned ones for root.
    fn settings(&self) -> Settings {
        let filled = path(RATE, ROUND_TRIP, RATE * ROUND_TRIP);
        Settings { stock: self.account == Account::User, ..Settings::symmetric(filled) }
    }

    /// Runs the copy once beside the CUBIC connection, which lasts for `lasts`, in a lab of its
    /// own.
    fn run_once(
        &self,
        bench: &Bench<'_>,
        fixture: &Fixture<'_>,
        source: &Path,
        lasts: Span,
    ) -> Result<BothShares, ExperimentError> {
        let settings = self.settings();
        let row = plain_hosts::Row::new(
            bench,
            std::slice::from_ref(&settings),
            Plain { congestion: "cubic", window_scaling: true },
        )?;
        let lab = &row.labs[0];
        if settings.stock {
            // Hosts that forward do not belong to the copy; these do.
            for host in [Host::A, Host::B] {
                lab.on(host, || configure("", &[("tcp_congestion_control", "cubic")]))?;
            }
        }
        let other = PlainFlow {
            port: PORT,
            relay: None,
            congestion: "cubic",
            buffer: RATE * ROUND_TRIP * AMPLE,
            delay: Span::ZERO,
            lasts,
        };
        let case = Case::beside_another(self.account, self.streams);
        fixture.forget_paths(&case)?;
        let (carried, finish) = thread::scope(|scope| {
            let other = scope.spawn(|| other.run(&row, || ()));
            clock::sleep_until(clock::now() + EARLIER);
            let finish = fixture.copy(bench, lab, &case, source);
            let (carried, ()) = other.join().expect("the other connection does not panic")?;
            Ok::<_, ExperimentError>((carried, finish?))
        })?;
        let tolerance = Resolution::Means.tolerance(settings.round_trip());
        let spoilt = spoilt_but_for_bursts(&lab.page()?, &settings, tolerance);
        Ok(BothShares::of(&settings, &carried, CopyResult { spoilt, ..finish }))
    }

    /// Cells of the row in the table, over the runs.
    fn cells(&self, runs: &[BothShares]) -> Vec<String> {
        let spread = |value: fn(&BothShares) -> f64| Spread::of(runs.iter().map(value));
        let failed = runs.iter().find_map(|run| run.finish.failure.as_deref());
        vec![
            self.name.to_owned(),
            "≥ 42 each".to_owned(),
            failed.map_or_else(|| spread(|run| run.ours).percent(), |why| format!("failed: {why}")),
            spread(|run| run.cubic).percent(),
            spread(|run| run.finish.took.as_secs_f64()).tenths("none"),
            spread(|run| run.finish.retransmitted * 100.0).thousandths(),
            runs.iter().filter(|run| run.finish.spoilt.is_some()).count().to_string(),
        ]
    }
}

impl BothShares {
    /// Shares while both run and the copy has settled.
    fn of(settings: &Settings, carried: &Carried, finish: CopyResult) -> Self {
        let from = (finish.begun + SETTLING).max(carried.first_byte);
        let to = (finish.begun + (finish.took - ENDING)).min(carried.ended());
        let cubic = carried.mean_between(from, to).as_bits_per_second() as f64;
        let index = |at: Time| (at - finish.recording.begun).as_millis() as usize;
        // The wire is ahead of the receiver by half a round trip, which is negligible here.
        let all = payload(finish.recording.mean_rate_between(index(from), index(to)), settings);
        let limit = payload_rate(&settings.forward).as_bits_per_second() as f64;
        Self { ours: (all - cubic) / limit, cubic: cubic / limit, finish }
    }
}

impl Row for BesideCubic {
    type Run = BothShares;

    fn name(&self) -> &'static str {
        self.name
    }

    fn load(&self) -> (Load, ByteCount) {
        (Load::File, SIZE)
    }

    fn run(&self, context: &RunContext<'_>, source: &Path, _round: u64) -> Result<BothShares, ExperimentError> {
        let lasts = if context.bench.quick { LASTS / 3 } else { LASTS };
        self.run_once(context.bench, context.fixture, source, lasts)
    }

    fn fault(run: &BothShares) -> Option<&str> {
        run.finish.spoilt.as_deref()
    }

    fn table(rows: &[(Self, Vec<BothShares>)], quick: bool) -> Table {
        let size = size_in(SIZE, quick);
        let header = [
            "",
            "required",
            "icdc, % of the payload",
            "CUBIC, % of the payload",
            "seconds",
            "segments retransmitted, %",
            "invalid runs",
        ];
        Table {
            caption: format!(
                "{size} over 1 Gbit/s, 50 ms, queue 1 × rate × round trip, beside a CUBIC connection of another host: median (least to greatest)"
            ),
            header: header.map(str::to_owned).to_vec(),
            rows: rows.iter().map(|(beside, runs)| beside.cells(runs)).collect(),
        }
    }
}
