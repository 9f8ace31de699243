//! Papers' tables and figures, measured anew: `icdc lab run NAME`.
//!
//! A scenario makes labs, measures in them, and gives a [`Report`] whose tables show the paper's value beside ours. One
//! file each; they share `trial.rs`, one measurement in a lab of its own on a machine that is `calm.rs`, by whom `control.rs` says,
//! `arrivals.rs`, what its receiver got, `cross_traffic.rs`, what others send meanwhile, `shaper.rs`, what else holds the sender back, `simulated.rs`, flows in virtual time, and
//! `shares.rs`, what each of them gets. Those that relay share `relayed.rs`, one measurement of `plain_hosts.rs` with `relays.rs` between them, and
//! `plain_flow.rs`, what those hosts send each other. Those that copy share `copying.rs`, one copy in a lab of its own, `race.rs`, one
//! turn of any program, and `scratch.rs`, files on a disk. Those of the wire pacer share `paced.rs`, one measurement of `wire_pacer.rs` with
//! `supply.rs`, classes that always have something to send, and `spacing.rs`, how evenly their frames came. Those of processor time share
//! `loopback.rs`, a flow in this process.

mod arrivals;
mod bounded;
mod calm;
mod cc_agreement;
mod cc_sweep;
mod cc_table;
mod control;
mod copying;
mod cross_traffic;
mod fairness;
mod fifo;
mod ghstcp_sweep;
mod icdc_background;
mod icdc_disk;
mod icdc_fast;
mod icdc_pseudo;
mod icdc_sim;
mod loopback;
mod paced;
mod pacing_classes;
mod pacing_many;
mod pacing_single;
mod pairs;
mod peers;
mod plain_flow;
mod plain_hosts;
mod policy_cost;
mod processor_time;
mod proxy;
mod proxy_chain;
mod proxy_cost;
mod proxy_fair;
mod proxy_lfn;
mod proxy_placement;
mod race;
mod ramp;
mod rate_faults;
mod relayed;
mod relays;
mod scratch;
mod server;
mod shaper;
mod shares;
mod simulated;
mod slow_disk;
mod spacing;
mod spread;
mod startup;
mod steady;
mod supply;
mod throttle;
mod trial;
mod versus;
mod window;
mod wire_pacer;

use std::path::Path;

use icdc_report::Report;
use icdc_units::{ByteCount, Rate, Span};

use crate::LabError;

/// Something that can be run.
#[derive(Debug)]
pub struct Scenario {
    /// By which it is called.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    run: fn(&Bench<'_>) -> Result<Report, LabError>,
}

/// With what to run it.
pub struct Bench<'a> {
    /// The icdc that is measured.
    pub program: &'a Path,
    /// Fewer and shorter measurements: to see that it works.
    pub quick: bool,
    /// How often each live measurement is made, in place of what the scenario says.
    pub runs: Option<u64>,
    /// How long each live measurement waits at most for a calm machine.
    pub patience: Span,
    /// Is told what happens, a line at a time.
    pub say: &'a dyn Fn(&str),
}

/// All scenarios.
pub static ALL: [Scenario; 29] = [
    cc_agreement::SCENARIO,
    cc_sweep::SCENARIO,
    cc_table::SCENARIO,
    fairness::SCENARIO,
    fifo::SCENARIO,
    ghstcp_sweep::SCENARIO,
    icdc_background::SCENARIO,
    icdc_disk::SCENARIO,
    icdc_fast::SCENARIO,
    icdc_pseudo::SCENARIO,
    icdc_sim::SCENARIO,
    pacing_classes::SCENARIO,
    pacing_many::SCENARIO,
    pacing_single::SCENARIO,
    pairs::SCENARIO,
    policy_cost::SCENARIO,
    proxy::SCENARIO,
    proxy_chain::SCENARIO,
    proxy_cost::SCENARIO,
    proxy_fair::SCENARIO,
    proxy_lfn::SCENARIO,
    proxy_placement::SCENARIO,
    ramp::SCENARIO,
    rate_faults::SCENARIO,
    slow_disk::SCENARIO,
    startup::SCENARIO,
    steady::SCENARIO,
    versus::SCENARIO,
    window::SCENARIO,
];

impl Scenario {
    /// The scenario of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|scenario| scenario.name == name)
    }

    /// Runs it; gives its report.
    pub fn run(&self, bench: &Bench<'_>) -> Result<Report, LabError> {
        let mut report = (self.run)(bench)?;
        self.name.clone_into(&mut report.title);
        if report.outcome.is_empty() {
            self.about.clone_into(&mut report.outcome);
        }
        Ok(report)
    }
}

/// One direction of a path, without loss but by its queue.
fn path(rate: Rate, round_trip: Span, queue: ByteCount) -> icdc_path::Settings {
    icdc_path::Settings { rate, delay: round_trip / 2, queue, ..Default::default() }
}

/// A rate in Mbit/s, as the papers print it.
fn mbit(rate: Rate) -> String {
    format!("{:.0}", rate.as_bits_per_second() as f64 / 1e6)
}

/// A loss ratio, as tables and columns name it.
fn ratio(loss: f64) -> String {
    if loss > 0.0 { format!("{loss:e}") } else { "0".to_owned() }
}

/// A mark behind the value of a spoilt measurement.
fn marked(value: String, measured: &trial::Measured) -> String {
    if measured.spoilt.is_some() { format!("{value} (invalid)") } else { value }
}

/// What a reader has to know about the measurements of a report.
fn failures<'a>(measured: impl IntoIterator<Item = (String, &'a trial::Measured)>) -> Vec<String> {
    let failure = |(name, measured): (String, &trial::Measured)| Some(format!("{name}: {}", measured.spoilt.as_ref()?));
    measured.into_iter().filter_map(failure).collect()
}
