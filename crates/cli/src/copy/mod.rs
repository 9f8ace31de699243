//! `icdc copy`: runs a plan and shows its events.
//!
//! ```text
//!                    ┌► JSON lines           (standard output)
//! copy() ─► events ──┼► progress, messages   (standard error)
//!                    ├► outlook              (into the progress, in both forms)
//!                    ├► tally ─► summary     (standard output)
//!                    │    └► exporter        (--metrics FILE, --metrics-push URL)
//!                    └► recorder ─► report   (--report FILE.html)
//! receipt, where it was signed               (--receipt FILE)
//! ```
//!
//! Copies to several destinations (`--to`) are such runs in processes of their own: `several`.

mod backlog;
mod completion;
mod consent;
pub(crate) mod exporter;
mod failures;
mod metrics;
pub(crate) mod outlook;
pub(crate) mod output;
pub(crate) mod page;
mod progress;
mod receipt;
mod recorder;
mod several;
pub(crate) mod summary;
mod tally;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use icdc_client::CopyError;
use icdc_metrics::RunResult;
use icdc_protocol::message::{IfRunning, Refusal, RefusalKind};
use icdc_stop::StopSignal;
use icdc_transfer::{Event, EventSink, Summary};

use crate::arguments::CopyArguments;
use crate::console::Console;
use crate::copy::exporter::Exporter;
use crate::copy::output::{CopyOutput, Kind};
use crate::copy::page::Ending;
use crate::ctl::{Controls, Listener};
use crate::plan::CopyPlan;
use crate::plan::output::ResultFile;
use crate::reporting::{CopyHooks, EndedCopy};
use crate::signals::{StatusOnSignal, StoppedBy};
use crate::{exit, logs, signals};

/// Text printed at the first interrupt.
pub(crate) const STOPPING: &str =
    "stopping; what has arrived is kept, the same command goes on from there (again: stop at once)";

/// Text printed at the first interrupt of a copy from or to a stream.
const STOPPING_STREAM: &str = "stopping; a stream is not resumed (again: stop at once)";

/// Text printed at the first interrupt of a copy from a stream that is kept unfinished.
const STOPPING_KEPT: &str = "stopping; what is durable of the stream is kept for --resume-stream (again: stop at once)";

/// Text printed at the first interrupt of a copy that follows its sources.
const FINISHING: &str = "finishing with what has settled (again: stop)";

/// Runs `icdc copy` and returns the exit code.
pub(crate) fn run(arguments: CopyArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    run_command(arguments, CopyPlan::new, console)
}

/// Runs `icdc sync`, given as the copy that it stands for, and returns the exit code.
pub(crate) fn sync(arguments: CopyArguments, console: &Console) -> u8 {
    logs::start(console, logs::Level::OFF);
    let plan = |arguments: CopyArguments| match &arguments.plan {
        Some(_) => Err(anyhow::anyhow!("--plan is of icdc copy: a plan says itself what is copied")),
        None => CopyPlan::new(arguments).map(CopyPlan::keeping_names),
    };
    run_command(arguments, plan, console)
}

/// Makes the plan, asks for consent to a deletion if that is needed, and carries the plan out;
/// returns the exit code.
fn run_command(
    arguments: CopyArguments,
    plan: impl Fn(CopyArguments) -> anyhow::Result<CopyPlan>,
    console: &Console,
) -> u8 {
    let stopped_by = match arguments.one_of_several {
        None if !arguments.to.is_empty() => return several::run(&arguments, plan, console),
        None => StoppedBy::Terminal,
        Some(_) => StoppedBy::Parent,
    };
    let arguments = match several::one_of(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let listing = consent::listing(&arguments).and_then(|listing| listing.map(&plan).transpose());
    let (listing, plan) = match listing.and_then(|listing| Ok((listing, plan(arguments)?))) {
        Ok(plans) => plans,
        Err(error) => return console.give_up(&error, exit::USAGE),
    };
    let stop = StopSignal::new();
    match &plan.options.follow {
        Some(follow) => {
            let (ceiling, waits) = (Arc::clone(&plan.ceiling), Arc::clone(&plan.waits));
            let is_stalled = move || ceiling.get() == Some(icdc_units::Rate::ZERO) || waits.load(Ordering::Relaxed);
            let requests = [(follow.finish.clone(), FINISHING), (stop.clone(), STOPPING)];
            signals::watch_following(stopped_by, requests, console, is_stalled);
        }
        None => {
            let announcement = match &plan.options.input {
                Some(input) if input.from().is_some() => STOPPING_KEPT,
                _ if plan.options.has_stream() => STOPPING_STREAM,
                _ => STOPPING,
            };
            signals::watch_copy(stopped_by, &stop, console, announcement);
        }
    }
    if let Some(listing) = listing {
        let (code, _) = carry_out(listing, &stop, console);
        if code != 0 {
            return code;
        }
        if console.confirm(consent::QUESTION, &stop) != Some(true) {
            console.complain("nothing was copied, and nothing was deleted");
            return exit::USAGE;
        }
    }
    carry_out(plan, &stop, console).0
}

/// Runs a copy as planned, with its output, metrics and hooks. Returns the exit code, and whether
/// the run came to its end, with or without failed items.
pub(crate) fn carry_out(plan: CopyPlan, stop: &StopSignal, console: &Console) -> (u8, bool) {
    let CopyPlan { name, sources, destination, mut options, ceiling, waits, rate, mut output, reporting } = plan;
    let hooks = match CopyHooks::new(&reporting, console) {
        Ok(hooks) => hooks.filter(|_| !output.dry_run),
        Err(error) => return (console.give_up(&error, exit::USAGE), false),
    };
    options.confirm_host = Some(console.confirm_host(stop));
    let report = output.report.take();
    let (records, follows) = (report.is_some(), options.follow.is_some());
    let copy_output = Arc::new(CopyOutput::new(console.clone(), &output, &destination, Kind { records, follows }));
    let events: EventSink = {
        let copy_output = Arc::clone(&copy_output);
        // Later it is single items that another one writes.
        let has_begun = AtomicBool::new(false);
        Arc::new(move |event| {
            match &event {
                Event::Running { then: IfRunning::Wait, .. } if !has_begun.load(Ordering::Relaxed) => {
                    waits.store(true, Ordering::Relaxed);
                }
                Event::Waited | Event::Reconnecting { .. } => waits.store(false, Ordering::Relaxed),
                Event::Followed { .. } | Event::Item { .. } => has_begun.store(true, Ordering::Relaxed),
                _ => {}
            }
            copy_output.show(event);
        })
    };
    copy_output.show(Event::Started {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sources: sources.iter().map(ToString::to_string).collect(),
        destination: destination.to_string(),
    });
    let exporter = match output.metrics.map(|metrics| Exporter::start(metrics, &copy_output, console)).transpose() {
        Ok(exporter) => exporter,
        Err(error) => return (console.give_up(&error, exit::USAGE), false),
    };
    options.ceiling = Some(Arc::clone(&ceiling));
    let controls = Arc::new(Controls::new(name, (&sources, &destination), (&ceiling, rate), &copy_output, console));
    let listener = match Listener::start(&controls) {
        Ok(listener) => listener,
        Err(reason) => return (console.give_up(&anyhow::anyhow!(reason), exit::USAGE), false),
    };
    let status = StatusOnSignal::start(console, move || controls.text());
    let mut result = icdc_client::copy(&sources, &destination, &options, &events, stop);
    if let (Ok(summary), true) = (&mut result, output.dry_run) {
        (summary.verified, summary.read_back) = (false, false);
    }
    drop((status, listener));
    let is_through = result.is_ok();
    let receipt = options.receipt.take().filter(|_| is_through).map(|receipt| receipt::finish(&receipt, &copy_output));
    let skips = options.receive.if_running == IfRunning::Skip;
    let (ending, result, mut exit_code) = conclude(&copy_output, console, report, result, skips);
    if let Some(Err(reason)) = receipt {
        console.complain(&reason);
        exit_code = exit_code.max(exit::FAILED);
    }
    if let Some(exporter) = exporter {
        exporter.finish();
    }
    if let Some(hooks) = hooks {
        let Ending { summary, reason } = &ending;
        let (sources, destination, reason) = (&sources, &destination, reason.as_deref());
        hooks.tell(&EndedCopy { sources, destination, summary, result, reason, exit_code }, stop);
    }
    (exit_code, is_through)
}

/// Shows the end of the run in every form; how it ended, its result, and the exit code. That
/// another process is writing the same is no failure of one that `skips` then.
fn conclude(
    copy_output: &CopyOutput,
    console: &Console,
    report: Option<ResultFile>,
    result: Result<Summary, CopyError>,
    skips: bool,
) -> (Ending, RunResult, u8) {
    let (ending, mut code) = match result {
        Ok(mut summary) => {
            summary.notices = copy_output.partial_summary().notices;
            let code = if summary.errors == 0 { 0 } else { exit::FAILED };
            (Ending { summary, reason: None }, code)
        }
        Err(CopyError::Refused(Refusal { kind: RefusalKind::Running, reason })) if skips => {
            let summary = Summary { errors: 0, ..copy_output.partial_summary() };
            (Ending { summary, reason: Some(reason) }, 0)
        }
        Err(error) => {
            let code = exit::after(error.kind());
            (Ending { summary: copy_output.partial_summary(), reason: Some(error.to_string()) }, code)
        }
    };
    let result = copy_output.conclude(&ending, code);
    if let Some(report) = report
        && let Err(error) = report.write("report", &copy_output.report(&ending).to_html())
    {
        console.complain(&error);
        code = code.max(exit::FAILED);
    }
    if console.has_lost_results() {
        code = code.max(exit::FAILED);
    }
    (ending, result, code)
}
