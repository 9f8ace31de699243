//! Rows beside one CUBIC connection of another host: 1 Gbit/s, 50 ms, a queue of what fills the
//! path.
//!
//! The other connection is between plain hosts behind the lab's two (see `relay::plain_hosts`), so
//! that the two senders have nothing in common but the path. It comes first; the copy follows when
//! it has filled the path. What the copy got is what the path delivered less what the other
//! connection's receiver got.

use std::path::Path;
use std::thread;

use icdc_lab::{Host, Settings, spoilt_but_for_bursts};
use icdc_packet::clock;
use icdc_report::Table;
use icdc_sim::payload_rate;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::copy::any_host::accounts::Account;
use crate::copy::any_host::case::Case;
use crate::copy::any_host::turn::{Finish, Ground};
use crate::copy::copying::payload;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::paths::path;
use crate::harness::resolution::Resolution;
use crate::harness::spread::Spread;
use crate::relay::plain_flow::{Carried, PlainFlow};
use crate::relay::plain_hosts::{Plain, Row, configure};

const RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
const ROUND_TRIP: Span = Span::from_millis(50);
/// The other connection's sockets hold so many times what fills the path.
const AMPLE: u64 = 4;
const PORT: u16 = 5001;
/// The copy begins so long after the other connection.
const EARLIER: Span = Span::from_secs(5);
/// Start-up of the copy, and its end, do not count.
const SETTLING: Span = Span::from_secs(5);
const ENDING: Span = Span::from_secs(1);

/// Who copies beside the other connection.
pub(super) struct BesideCubic {
    pub(super) name: &'static str,
    account: Account,
    /// As given by hand.
    streams: Option<u8>,
}

/// What each of the two got, as a share of what TCP's payload can reach.
pub(super) struct BothShares {
    ours: f64,
    cubic: f64,
    finish: Finish,
}

const fn row(name: &'static str, account: Account, streams: Option<u8>) -> BesideCubic {
    BesideCubic { name, account, streams }
}

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
    fn settings(&self) -> Settings {
        let filled = path(RATE, ROUND_TRIP, RATE * ROUND_TRIP);
        Settings { stock: self.account == Account::User, ..Settings::symmetric(filled) }
    }

    pub(super) fn run(
        &self,
        bench: &Bench<'_>,
        ground: &Ground<'_>,
        source: &Path,
        lasts: Span,
    ) -> Result<BothShares, ExperimentError> {
        let settings = self.settings();
        let row =
            Row::new(bench, std::slice::from_ref(&settings), Plain { congestion: "cubic", window_scaling: true })?;
        let lab = &row.labs[0];
        if settings.stock {
            // Hosts that forward are others'; these are the copy's own.
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
        ground.forget_paths(&case)?;
        let (carried, finish) = thread::scope(|scope| {
            let other = scope.spawn(|| other.run(&row, || ()));
            clock::sleep_until(clock::now() + EARLIER);
            let finish = ground.copy(bench, lab, &case, source);
            let (carried, ()) = other.join().expect("the other connection does not panic")?;
            Ok::<_, ExperimentError>((carried, finish?))
        })?;
        let tolerance = Resolution::Means.tolerance(settings.round_trip());
        let spoilt = spoilt_but_for_bursts(&lab.page()?, &settings, tolerance);
        Ok(BothShares::of(&settings, &carried, Finish { spoilt, ..finish }))
    }

    fn row(&self, runs: &[BothShares]) -> Vec<String> {
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
    fn of(settings: &Settings, carried: &Carried, finish: Finish) -> Self {
        let from = (finish.begun + SETTLING).max(carried.first_byte);
        let to = (finish.begun + (finish.took - ENDING)).min(carried.ended());
        let cubic = carried.mean_between(from, to).as_bits_per_second() as f64;
        let index = |at: Time| (at - finish.recording.begun).as_millis() as usize;
        // The wire saw it before the receiver by half of a round trip, which is little.
        let all = payload(finish.recording.mean_rate_between(index(from), index(to)), settings);
        let limit = payload_rate(&settings.forward).as_bits_per_second() as f64;
        Self { ours: (all - cubic) / limit, cubic: cubic / limit, finish }
    }

    pub(super) fn spoilt(&self) -> Option<&str> {
        self.finish.spoilt.as_deref()
    }
}

pub(super) fn table(rows: &[(&BesideCubic, Vec<BothShares>)], size: ByteCount) -> Table {
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
        rows: rows.iter().map(|(beside, runs)| beside.row(runs)).collect(),
    }
}
