//! `icdc copy --plan`: shards are copied, and what became of them is noted in the plan.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use icdc_limits::thread::start_scoped;
use icdc_shards::Plan;
use icdc_shards::plan::{PlanText, ShardState};
use icdc_stop::StopSignal;
use icdc_transfer::UserCeiling;
use icdc_transfer::sender::selection::Selection;

use super::share;
use super::unusable::give_up;
use crate::arguments::{CopyArguments, IfRunningMode};
use crate::clock::seconds_since_1970;
use crate::console::{Console, printable};
use crate::plan::CopyPlan;
use crate::signals::StoppedBy;
use crate::{copy, exit, signals};

/// Sentence for a user who asks for a receipt of a shard.
pub(crate) const NO_RECEIPT: &str = "a receipt is of a whole copy, and a shard is a part of one; leave it out, and once icdc \
    plan join says that everything is copied, icdc copy --skip-equal --checksum --receipt FILE SRC... DST compares all files at \
    both ends, sends what differs, and leaves one";

/// Interval at which a process marks the shard that it copies as being copied.
const BEAT: Duration = Duration::from_secs(2);

/// Copies the shards of this process and returns the exit code.
pub(crate) fn run(arguments: &CopyArguments, directory: &Path, console: &Console) -> u8 {
    let plan = match Plan::open(directory) {
        Ok(plan) => plan,
        Err(error) => return give_up(error, console),
    };
    let shards = share::of_process(arguments.shard.0, plan.shards(), |name| std::env::var(name).ok());
    let shards = shards.and_then(|shards| {
        let one_report = arguments.report.is_none() || shards.len() == 1;
        ensure!(arguments.receipt.is_none(), "--receipt: {NO_RECEIPT}");
        ensure!(one_report, "--report is about one shard, and this process has {}", shards.len());
        let skips = arguments.if_running == IfRunningMode::Skip;
        ensure!(!skips, "--if-running skip would leave a shard out as if it were copied; use wait or fail with --plan");
        Ok(shards)
    });
    match shards {
        Ok(shards) => {
            let stop = StopSignal::new();
            signals::watch_copy(StoppedBy::Terminal, &stop, console, copy::STOPPING);
            let mut code = 0;
            for shard in shards {
                if stop.is_requested() {
                    return exit::INTERRUPTED;
                }
                code = code.max(copy_one(arguments, &plan, shard, &stop, console));
            }
            code
        }
        Err(error) => console.give_up(&error, exit::USAGE),
    }
}

/// Copies one shard, unless it is copied already, and writes its result to the plan; returns the
/// exit code.
fn copy_one(arguments: &CopyArguments, plan: &Plan, shard: u32, stop: &StopSignal, console: &Console) -> u8 {
    match plan.state(shard) {
        Ok(ShardState::Copied { note, failed: 0 } | ShardState::Replanned { note, .. }) => {
            console.complain(&format!("shard {shard} is copied already, by {}", printable(&note.host)));
            return 0;
        }
        Err(error) => return give_up(error, console),
        Ok(_) => {}
    }
    let begun = plan.selection(shard).and_then(|selection| {
        plan.begin(shard, seconds_since_1970())?;
        Ok((selection, plan.beat(shard)?))
    });
    let (selection, at_work) = match begun {
        Ok(begun) => begun,
        Err(error) => return give_up(error, console),
    };
    let selection = Arc::new(selection);
    if selection.items().is_empty() {
        return note(plan, shard, &selection, 0, console);
    }
    match copy_plan(arguments.clone(), &plan.text, &selection) {
        Ok(copied) => {
            let ceiling = Arc::clone(&copied.ceiling);
            ceiling.set_share(plan.text.rate.map(|all| all / at_work));
            let (code, is_through) = thread::scope(|scope| {
                // Dropped at the end, which ends the thread.
                let (_running, ended) = mpsc::channel();
                let beating = start_scoped(scope, "beat", move || keep_beating(plan, shard, &ceiling, &ended));
                match beating {
                    Ok(_) => copy::carry_out(copied, stop, console),
                    Err(error) => (console.give_up(&error.into(), exit::FAILED), false),
                }
            });
            if is_through { note(plan, shard, &selection, code, console) } else { code }
        }
        Err(error) => console.give_up(&error, exit::USAGE),
    }
}

/// Marks the shard as being copied, at an interval, and sets its share of the plan's rate by the
/// number of shards that are being copied, until the other end of `running` is dropped.
fn keep_beating(plan: &Plan, shard: u32, ceiling: &UserCeiling, running: &mpsc::Receiver<Infallible>) {
    while running.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
        match plan.beat(shard) {
            Ok(at_work) => ceiling.set_share(plan.text.rate.map(|all| all / at_work)),
            // The share stays as it was.
            Err(error) => tracing::debug!(%error, "others are not told that the shard is being copied"),
        }
    }
}

/// Writes the result of a shard, which was copied with the exit code `code`; returns the exit code.
fn note(plan: &Plan, shard: u32, selection: &Selection, code: u8, console: &Console) -> u8 {
    match plan.write_result(shard, selection.digests(), seconds_since_1970()) {
        Ok(()) => code,
        Err(error) => console.give_up(&error.into(), code.max(exit::FAILED)),
    }
}

/// Plan of a copy of those items of the plan's sources that `selection` has.
pub(super) fn copy_plan(
    mut arguments: CopyArguments,
    text: &PlanText,
    selection: &Arc<Selection>,
) -> anyhow::Result<CopyPlan> {
    // Without one of them, others would take its place.
    for source in &text.sources {
        Path::new(source)
            .symlink_metadata()
            .with_context(|| format!("{source}: nothing was copied, this source cannot be found"))?;
    }
    arguments.places = text.sources.iter().chain([&text.destination]).map(Into::into).collect();
    arguments.preserve = text.preserve;
    let mut plan = CopyPlan::new(arguments)?;
    // What it can be at most decides how many connections are made.
    plan.options.send.rate = [plan.options.send.rate, text.rate].into_iter().flatten().min();
    plan.options.selection = Some(Arc::clone(selection));
    Ok(plan)
}
