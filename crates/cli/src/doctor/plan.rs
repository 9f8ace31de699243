//! The plan of a doctor run, made from its command line, with nothing left to doubt.

use std::path::PathBuf;

use icdc_client::{CopyOptions, Location};
use icdc_doctor::System;
use icdc_units::{Rate, Span};

use crate::arguments::DoctorArguments;
use crate::measure::plan::reach;
use crate::values::PathsDestination;

/// Plan of an `icdc doctor` command.
pub(super) struct DoctorPlan {
    pub(super) system: System,
    pub(super) json: bool,
    pub(super) task: Task,
}

/// Task of an `icdc doctor` command; each command has exactly one.
pub(super) enum Task {
    /// Examine the host, and a path if one is named.
    Examine(Box<ExaminationRequest>),
    /// Undo the changes that earlier runs have made.
    Undo,
    /// Show or forget known paths.
    Paths(PathsTask),
}

/// Operation on the paths that are remembered from earlier copies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathsTask {
    /// Show the known paths.
    Show,
    /// Forget what leads to a place, or everything.
    Forget(Option<PathsDestination>),
}

/// Extent of an examination: path and disk if requested, the rate and round-trip time by which it
/// judges, and whether it applies changes.
pub(super) struct ExaminationRequest {
    pub(super) target: Option<(Location, CopyOptions)>,
    pub(super) rate: Option<Rate>,
    pub(super) round_trip: Option<Span>,
    pub(super) disk: Option<PathBuf>,
    pub(super) apply: bool,
}

impl DoctorPlan {
    /// Makes the plan from the arguments; every error is one of usage.
    pub(super) fn new(arguments: DoctorArguments) -> anyhow::Result<Self> {
        let task = if arguments.undo {
            Task::Undo
        } else if arguments.paths {
            Task::Paths(arguments.clear.map_or(PathsTask::Show, PathsTask::Forget))
        } else {
            let target = arguments.target.map(|target| reach(&target, arguments.connection, None)).transpose()?;
            Task::Examine(Box::new(ExaminationRequest {
                target,
                rate: arguments.rate.0,
                round_trip: arguments.rtt,
                disk: arguments.disk,
                apply: arguments.apply,
            }))
        };
        Ok(Self { system: System::at(arguments.system_root), json: arguments.json, task })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn plan(words: &str) -> anyhow::Result<DoctorPlan> {
        let arguments = Arguments::try_parse_from(["icdc", "doctor"].into_iter().chain(words.split_whitespace()))?;
        let Command::Doctor(arguments) = arguments.command else { panic!("doctor was asked for") };
        DoctorPlan::new(*arguments)
    }

    #[test]
    fn options_reach_the_plan() {
        let plan = plan("--rate 10gbit --rtt 150ms --disk /data --apply --json icdc://far").unwrap();
        let Task::Examine(wish) = plan.task else { panic!("an examination was asked for") };
        assert_eq!(wish.rate, Some(Rate::from_bits_per_second(10_000_000_000)));
        assert_eq!((wish.round_trip, wish.disk), (Some(Span::from_millis(150)), Some(PathBuf::from("/data"))));
        assert!(wish.apply && plan.json && plan.system.is_running());
        assert!(matches!(wish.target, Some((Location::Daemon { .. }, _))));
    }

    #[test]
    fn paths_are_shown_or_forgotten() {
        let task = |words: &str| match plan(words).unwrap().task {
            Task::Paths(task) => task,
            _ => panic!("{words}: paths were asked for"),
        };
        let prefix = |text: &str| PathsTask::Forget(Some(PathsDestination::Prefix(text.parse().unwrap())));
        assert_eq!(task("--paths --json"), PathsTask::Show);
        assert_eq!(task("--paths --clear"), PathsTask::Forget(None));
        assert_eq!(task("--paths --clear 192.0.2.7/24"), prefix("192.0.2.0/24"));
        assert_eq!(task("--clear 2001:db8::1 --paths"), prefix("2001:db8::1/128"));
        assert_eq!(task("--paths --clear far"), PathsTask::Forget(Some(PathsDestination::Host("far".to_owned()))));
        for words in ["--clear", "--paths far", "--paths --apply", "--paths --rtt 1ms", "--paths --clear 1.2.3.4/33"] {
            assert!(plan(words).is_err(), "{words}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        assert!(matches!(plan("--undo --json").unwrap().task, Task::Undo));
        for words in ["--undo --apply", "--undo far", "--undo --rate 1gbit", "far:path", "--rtt 0ms", "--rate 7"] {
            assert!(plan(words).is_err(), "{words}");
        }
    }
}
