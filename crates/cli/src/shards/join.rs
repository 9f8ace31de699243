//! `icdc plan join`: whether everything is copied; what failed is planned again; directories get
//! their attributes, and the whole its digest.

use std::sync::Arc;

use clap::Parser;
use icdc_shards::joining::Joining;
use icdc_shards::plan::{Again, ShardState};
use icdc_shards::{Plan, PlanError};
use serde_json::json;

use super::unusable::give_up;
use super::{part, status};
use crate::arguments::{Arguments, Command, CopyArguments, JoinArguments};
use crate::console::Console;
use crate::copy::summary::counted;
use crate::{copy, exit};

/// Shards at most into which what failed is planned again.
const AGAIN: u32 = 64;

pub(super) fn run(arguments: JoinArguments, console: &Console) -> u8 {
    let json = arguments.json;
    let code = match Plan::open(&arguments.plan) {
        Ok(plan) => join(plan, arguments, console).unwrap_or_else(|error| give_up(error, console)),
        Err(error) => return give_up(error, console),
    };
    if json && code != 0 {
        console.json(&json!({"type": "plan_join", "done": false}).to_string());
    }
    console.flush();
    if console.has_lost_results() { code.max(exit::FAILED) } else { code }
}

fn join(mut plan: Plan, arguments: JoinArguments, console: &Console) -> Result<u8, PlanError> {
    let states = status::states(&plan)?;
    let missing: Vec<String> = (0..)
        .zip(&states)
        .filter(|(_, state)| !matches!(state, ShardState::Copied { .. }))
        .map(|(shard, _): (u32, _)| shard.to_string())
        .collect();
    if !missing.is_empty() {
        let directory = arguments.plan.display();
        console.complain(&format!(
            "not copied yet: shard {}; copy with icdc copy --plan {directory} --shard N, then join again",
            missing.join(", ")
        ));
        return Ok(exit::FAILED);
    }
    let mut joining = plan.gather()?;
    let is_whole = states.iter().all(|state| matches!(state, ShardState::Copied { failed: 0, .. }));
    if !is_whole {
        let Again { shards: (first, count), items, gone } = plan.plan_again(&joining, AGAIN)?;
        if gone > 0 {
            console.complain(&format!("{} gone from the sources, and not waited for any more", counted(gone, "item")));
        }
        if items > 0 {
            let last = first + count - 1;
            console.complain(&format!(
                "{} failed and planned again; copy shard {first} to {last} with icdc copy --plan {} --shard N, then join \
                 again",
                counted(items, "item"),
                arguments.plan.display()
            ));
            return Ok(exit::FAILED);
        }
    }
    let json = arguments.json;
    let code = finish_directories(&plan, &mut joining, arguments, console)?;
    if code != 0 {
        return Ok(code);
    }
    show(&plan, &joining, json, console);
    Ok(0)
}

/// Gives directories their attributes; the exit code.
fn finish_directories(
    plan: &Plan,
    joining: &mut Joining,
    arguments: JoinArguments,
    console: &Console,
) -> Result<u8, PlanError> {
    let selection = Arc::new(plan.directories()?);
    if selection.items().is_empty() {
        return Ok(0);
    }
    let copied = part::copy_plan(of_copy(arguments), &plan.text, &selection);
    let copied = match copied {
        Ok(copied) => copied,
        Err(error) => return Ok(console.give_up(&error, exit::USAGE)),
    };
    let (code, is_through) = copy::carry_out(copied.quietly(), console);
    if !is_through {
        return Ok(code);
    }
    plan.take_in_directories(joining, &selection.digests())?;
    match plan.directories_left(joining)? {
        0 => Ok(0),
        left => {
            let left = if left == 1 { "1 directory".to_owned() } else { format!("{left} directories") };
            console.complain(&format!("{left} failed, named above; join again when that is mended"));
            Ok(exit::FAILED)
        }
    }
}

/// A copy with the defaults of everything but how the far end is reached.
fn of_copy(arguments: JoinArguments) -> CopyArguments {
    let defaults = Arguments::parse_from(["icdc", "copy", "--plan", "."]);
    let Command::Copy(mut copy) = defaults.command else { unreachable!("copy was asked for") };
    copy.connection = arguments.connection;
    *copy
}

fn show(plan: &Plan, joining: &Joining, json: bool, console: &Console) {
    let digest = blake3::Hash::from_bytes(joining.tree()).to_hex();
    if json {
        let joined = json!({
            "type": "plan_join", "done": true, "items": joining.done(), "gone": plan.gone(), "tree_digest": digest.as_str(),
        });
        console.json(&joined.to_string());
        return;
    }
    console.result(&format!("{} copied, of {}", counted(joining.done(), "item"), counted(plan.text.items, "item")));
    console.result(&format!("tree digest {digest}"));
}
