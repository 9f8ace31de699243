//! `icdc doctor`: gathers facts, measures, judges, applies, and shows what was found.
//!
//! | file | what |
//! |---|---|
//! | `plan` | what the command line means |
//! | `examination` | what was found and done |
//! | `path` | the runs over the path |
//! | `paths`, `routes` | what is remembered of paths, and of routes to hosts |
//! | `known` | the table of either, and the error for a broken file |
//! | `show` | lines for people |
//! | `json` | the object for programs |
//!
//! What is looked for and how it is judged is in `icdc-doctor`.

mod examination;
mod json;
mod known;
mod path;
mod paths;
mod plan;
mod routes;
mod show;

use std::path::Path;

use icdc_doctor::remedy::{self, RemedyError, Set};
use icdc_doctor::{Aim, Finding, HostFacts, System, facts, judge};
use icdc_stop::StopSignal;

use crate::arguments::DoctorArguments;
use crate::command_line::command_line;
use crate::console::Console;
use crate::doctor::examination::{Examination, INTERRUPTED, Troubles};
use crate::doctor::plan::{DoctorPlan, ExaminationRequest, Task};
use crate::{exit, logs, signals};

/// Text printed at the first interrupt.
const STOPPING: &str = "stopping; what was found until now is told (again: stop at once)";

/// Runs `icdc doctor` and returns the exit code.
pub(crate) fn run(arguments: DoctorArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    let plan = match DoctorPlan::new(arguments) {
        Ok(plan) => plan,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let code = match plan.task {
        Task::Undo => undo(&plan.system, plan.json, console).map_or_else(|error| refuse(&error, console), |()| 0),
        Task::Examine(wish) => match examine(*wish, &plan.system, console) {
            Ok(examination) => {
                tell(&examination, plan.json, console);
                examination.troubles.code
            }
            Err(error) => refuse(&error, console),
        },
        Task::Paths(task) => {
            paths::run(&task, plan.json, console).map_or_else(|error| console.give_up(&error, exit::FAILED), |()| 0)
        }
    };
    console.flush();
    if console.has_lost_results() { code.max(exit::FAILED) } else { code }
}

/// Examines this host and, if one is requested, the path to another; judges, and applies the
/// changes if requested.
///
/// # Errors
/// Settings were to be applied, and this user may not.
fn examine(request: ExaminationRequest, system: &System, console: &Console) -> Result<Examination, RemedyError> {
    let ExaminationRequest { target, rate, round_trip, disk, apply } = request;
    if apply {
        // Before others on the path are disturbed for nothing.
        remedy::permitted(system)?;
    }
    let (mut troubles, stop) = (Troubles::default(), StopSignal::new());
    let path = target.map(|(target, mut connection)| {
        signals::watch_if_possible(&stop, console, STOPPING);
        connection.confirm_host = Some(console.confirm_host(&stop));
        path::measure(&target, &connection, &stop, console, &mut troubles)
    });
    let mut host = HostFacts::gather(system, path.as_ref().and_then(|path| path.address));
    if let Some(directory) = disk.filter(|_| troubles.code != exit::INTERRUPTED) {
        host.disk = measure_disk(&directory, console, &mut troubles);
    }
    if stop.is_requested() && troubles.code == 0 {
        troubles.add(INTERRUPTED.to_owned(), exit::INTERRUPTED);
    }
    let aim = Aim::new(rate, round_trip, &host, path.as_ref());
    let findings = judge(&host, path.as_ref(), aim);
    let applied = if apply { apply_to(system, &findings, &mut troubles) } else { Vec::new() };
    Ok(Examination { host, path, aim, findings, applied, troubles })
}

/// Measures the disk of this directory; `None` if that fails, which is noted in `troubles`.
fn measure_disk(directory: &Path, console: &Console, troubles: &mut Troubles) -> Option<facts::Disk> {
    console.complain(&format!("measuring the disk below {}", directory.display()));
    match facts::measure_disk(directory) {
        Ok(disk) => Some(disk),
        Err(error) => {
            troubles.add(error.to_string(), exit::FAILED);
            None
        }
    }
}

/// Applies the changes that the findings propose, unless there was an error before; returns those
/// made.
fn apply_to(system: &System, findings: &[Finding], troubles: &mut Troubles) -> Vec<Set> {
    if troubles.code != 0 {
        troubles
            .add("nothing was applied: correct that first, or leave TARGET and --disk out".to_owned(), exit::FAILED);
        return Vec::new();
    }
    let changes: Vec<remedy::Change> = findings.iter().filter_map(|finding| finding.change.clone()).collect();
    match remedy::apply(system, &changes) {
        Ok(applied) => {
            applied.refused.iter().for_each(|error| troubles.add(error.to_string(), exit::FAILED));
            applied.set
        }
        Err(error) => {
            troubles.add(refusal(&error), exit::FAILED);
            Vec::new()
        }
    }
}

/// Prints the results of an examination.
fn tell(examination: &Examination, as_json: bool, console: &Console) {
    examination.troubles.texts.iter().for_each(|text| console.complain(text));
    if as_json {
        console.json(&json::examination(examination).to_string());
    } else {
        let is_root = rustix::process::geteuid().is_root();
        show::lines(examination, is_root).iter().for_each(|line| console.result(line));
    }
}

/// Runs `--undo`: restores the settings from before `--apply`, and prints them.
fn undo(system: &System, as_json: bool, console: &Console) -> Result<(), RemedyError> {
    remedy::permitted(system)?;
    let undone = remedy::undo(system)?;
    if as_json {
        console.json(&json::undone(&undone).to_string());
    } else {
        show::undone(&undone).iter().for_each(|line| console.result(line));
    }
    Ok(())
}

/// Prints why settings were not changed, and returns the exit code.
fn refuse(error: &RemedyError, console: &Console) -> u8 {
    console.complain(&refusal(error));
    exit::FAILED
}

/// Sentence that tells why settings were not changed, and the command that can, where root could.
fn refusal(error: &RemedyError) -> String {
    match error {
        RemedyError::Denied { .. } => {
            format!("{error}; settings of the system take root: sudo {}", command_line(std::env::args_os()))
        }
        _ => error.to_string(),
    }
}
