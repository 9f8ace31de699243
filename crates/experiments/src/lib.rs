//! Experiments: papers' tables and figures, and icdc's own claims, measured anew (`icdc lab run
//! NAME`).
//!
//! A [`Scenario`] makes labs, measures in them or simulates, and gives a
//! [`Report`](icdc_report::Report) whose tables show the paper's value beside ours. It measures the
//! program `icdc` as a user runs it, from outside: this crate knows the lab and the simulator, and
//! nothing of how a copy or a relay works.
//!
//! | folder | scenarios about |
//! |---|---|
//! | `paper/` | papers on congestion control and long paths |
//! | `copy/` | icdc's rate, and copies beside other programs |
//! | `relay/` | split TCP by relays |
//! | `pacing/` | pacing of other programs' traffic |
//! | `harness/` | what scenarios are made from; the check of the emulator |
//!
//! ```no_run
//! use icdc_units::Span;
//!
//! let scenario = icdc_experiments::find("startup").expect("there is one");
//! let bench = icdc_experiments::Bench::of("/usr/bin/icdc".as_ref(), Span::from_secs(60), &|line| eprintln!("{line}"));
//! let bench = icdc_experiments::Bench { quick: true, ..bench };
//! println!("{}", scenario.run(&bench)?.to_json());
//! # Ok::<(), icdc_experiments::ExperimentError>(())
//! ```

#![forbid(unsafe_code)]

mod copy;
mod harness;
mod pacing;
mod paper;
mod relay;

pub use harness::bench::Bench;
pub use harness::error::ExperimentError;
pub use harness::scenario::Scenario;

/// All scenarios, in the order of their names.
pub static ALL: [Scenario; 40] = [
    copy::any_host::SCENARIO,
    copy::bundles_simulated::SCENARIO,
    paper::cc_acks::SCENARIO,
    paper::cc_agreement::SCENARIO,
    paper::cc_sweep::SCENARIO,
    paper::cc_table::SCENARIO,
    copy::copy_file::SCENARIO,
    copy::copy_files::SCENARIO,
    harness::emulator::SCENARIO,
    paper::fairness::SCENARIO,
    pacing::fifo::SCENARIO,
    pacing::fifo_start::SCENARIO,
    paper::ghstcp_sweep::SCENARIO,
    copy::icdc_background::SCENARIO,
    copy::icdc_disk::SCENARIO,
    copy::icdc_fast::SCENARIO,
    paper::icdc_pseudo::SCENARIO,
    copy::icdc_simulated::SCENARIO,
    copy::any_host::LOSSY,
    pacing::pacing_classes::SCENARIO,
    pacing::pacing_many::SCENARIO,
    pacing::pacing_single::SCENARIO,
    pacing::pairs::SCENARIO,
    pacing::policy_cost::SCENARIO,
    relay::proxy::SCENARIO,
    relay::proxy_chain::SCENARIO,
    relay::proxy_cost::SCENARIO,
    relay::proxy_fair::SCENARIO,
    relay::proxy_lfn::SCENARIO,
    relay::proxy_line::SCENARIO,
    relay::proxy_placement::SCENARIO,
    copy::ramp::SCENARIO,
    copy::rate_faults::SCENARIO,
    copy::shots::SCENARIO,
    copy::slow_disk::SCENARIO,
    paper::startup::SCENARIO,
    copy::steady::SCENARIO,
    paper::ten_gigabit::SCENARIO,
    copy::versus::SCENARIO,
    paper::window::SCENARIO,
];

/// The scenario of this name; `None` if there is none.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_sorted_by_name_and_found_by_it() {
        assert!(ALL.is_sorted_by_key(|scenario| scenario.name));
        assert!(ALL.iter().all(|scenario| find(scenario.name).is_some_and(|found| found.about == scenario.about)));
        assert!(find("no such").is_none());
    }
}
