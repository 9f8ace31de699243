//! `icdc copy --plan`: shards are copied, and what became of them is noted in the plan.

use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use icdc_shards::Plan;
use icdc_shards::plan::{PlanText, ShardState};
use icdc_transfer::sender::selection::Selection;

use super::share;
use super::unusable::give_up;
use crate::arguments::CopyArguments;
use crate::clock::seconds_since_1970;
use crate::console::Console;
use crate::plan::CopyPlan;
use crate::{copy, exit};

/// Copies the shards of this process and returns the exit code.
pub(crate) fn run(arguments: &CopyArguments, directory: &Path, console: &Console) -> u8 {
    let plan = match Plan::open(directory) {
        Ok(plan) => plan,
        Err(error) => return give_up(error, console),
    };
    let shards = share::of_process(arguments.shard.0, plan.shards(), |name| std::env::var(name).ok());
    let shards = shards.and_then(|shards| {
        let one_report = arguments.report.is_none() || shards.len() == 1;
        ensure!(one_report, "--report is about one shard, and this process has {}", shards.len());
        Ok(shards)
    });
    match shards {
        Ok(shards) => {
            let mut code = 0;
            for shard in shards {
                let one = copy_one(arguments, &plan, shard, console);
                code = code.max(one);
                if one == exit::INTERRUPTED {
                    break;
                }
            }
            code
        }
        Err(error) => console.give_up(&error, exit::USAGE),
    }
}

fn copy_one(arguments: &CopyArguments, plan: &Plan, shard: u32, console: &Console) -> u8 {
    match plan.state(shard) {
        Ok(ShardState::Copied { note, failed: 0 }) => {
            console.complain(&format!("shard {shard} is copied already, by {}", note.host));
            return 0;
        }
        Err(error) => return give_up(error, console),
        Ok(_) => {}
    }
    let selection = match plan.selection(shard).and_then(|selection| {
        plan.begin(shard, seconds_since_1970())?;
        Ok(Arc::new(selection))
    }) {
        Ok(selection) => selection,
        Err(error) => return give_up(error, console),
    };
    if selection.items().is_empty() {
        return note(plan, shard, &selection, 0, console);
    }
    match copy_plan(arguments.clone(), &plan.text, &selection) {
        Ok(copied) => {
            let (code, is_through) = copy::carry_out(copied, console);
            if is_through { note(plan, shard, &selection, code, console) } else { code }
        }
        Err(error) => console.give_up(&error, exit::USAGE),
    }
}

fn note(plan: &Plan, shard: u32, selection: &Selection, code: u8, console: &Console) -> u8 {
    match plan.note(shard, selection.digests(), seconds_since_1970()) {
        Ok(()) => code,
        Err(error) => console.give_up(&error.into(), code.max(exit::FAILED)),
    }
}

/// A copy of what `selection` has of the plan's sources.
pub(super) fn copy_plan(
    mut arguments: CopyArguments,
    text: &PlanText,
    selection: &Arc<Selection>,
) -> anyhow::Result<CopyPlan> {
    arguments.places = text.sources.iter().chain([&text.destination]).map(Into::into).collect();
    arguments.exclude.clone_from(&text.exclude);
    arguments.preserve = text.preserve;
    let mut plan = CopyPlan::new(arguments)?;
    plan.options.selection = Some(Arc::clone(selection));
    Ok(plan)
}
