//! `icdc plan join`: whether everything is copied; what failed is planned again; directories get
//! their attributes, and the whole its digest.

use std::sync::Arc;

use clap::Parser;
use icdc_shards::joining::Joining;
use icdc_shards::plan::{Replanned, ShardState};
use icdc_shards::{Plan, PlanError};
use icdc_stop::StopSignal;
use serde_json::json;

use super::unusable::give_up;
use super::{part, status};
use crate::arguments::{Arguments, Command, CopyArguments, JoinArguments};
use crate::console::Console;
use crate::copy::summary::counted;
use crate::{copy, exit, signals};

/// Most new shards into which items that failed are planned again.
const MOST: u32 = 64;

/// Runs `icdc plan join` and returns the exit code.
pub(super) fn run(arguments: JoinArguments, console: &Console) -> u8 {
    let json = arguments.json;
    let joined = Plan::open(&arguments.plan).and_then(|plan| join(plan, arguments, console));
    let (code, is_told) = joined.unwrap_or_else(|error| (give_up(error, console), false));
    if json && !is_told {
        console.json(&json!({"type": "plan_join", "done": false}).to_string());
    }
    console.flush();
    if console.has_lost_results() { code.max(exit::FAILED) } else { code }
}

/// Checks that all shards are copied, plans failed items again or else finishes the directories and
/// prints the digest. Returns the exit code, and whether the result was printed.
fn join(mut plan: Plan, arguments: JoinArguments, console: &Console) -> Result<(u8, bool), PlanError> {
    let states = status::states(&plan)?;
    let is_copied = |state: &ShardState| matches!(state, ShardState::Copied { .. } | ShardState::Replanned { .. });
    let missing: Vec<String> = (0..)
        .zip(&states)
        .filter(|(_, state)| !is_copied(state))
        .map(|(shard, _): (u32, _)| shard.to_string())
        .collect();
    if !missing.is_empty() {
        let directory = arguments.plan.display();
        console.complain(&format!(
            "not copied yet: shard {}; copy with icdc copy --plan {directory} --shard N, then join again",
            missing.join(", ")
        ));
        return Ok((exit::FAILED, false));
    }
    let mut joining = plan.gather()?;
    if !states.iter().all(ShardState::is_done) {
        let Replanned { shards, items, gone } = if arguments.accept_missing {
            plan.accept_missing()?;
            Replanned::default()
        } else {
            plan.plan_again(&joining, MOST)?
        };
        if gone > 0 {
            let gone = counted(gone, "item");
            console.complain(&format!("{gone} gone from the sources; if that is right, join with --accept-missing"));
        }
        if items > 0 {
            let last = shards.end.saturating_sub(1);
            let which =
                if shards.len() == 1 { format!("shard {last}") } else { format!("shards {} to {last}", shards.start) };
            console.complain(&format!(
                "{} failed and planned again: copy {which} with icdc copy --plan {} --shard N, then join again",
                counted(items, "item"),
                arguments.plan.display()
            ));
            return Ok((exit::FAILED, false));
        }
        if gone > 0 {
            return Ok((exit::FAILED, false));
        }
    }
    let json = arguments.json;
    let code = finish_directories(&plan, &mut joining, arguments, console)?;
    if code != 0 {
        return Ok((code, false));
    }
    show(&plan, &joining, json, console);
    if plan.text.left_out > 0 {
        let left_out = counted(plan.text.left_out, "item");
        console.complain(&format!("{left_out} could not be planned, named then by icdc plan"));
        return Ok((exit::FAILED, true));
    }
    Ok((0, true))
}

/// Gives directories at the destination their attributes, by a copy of them alone; returns the exit
/// code.
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
    let accepts_missing = arguments.accept_missing;
    let copied = part::copy_plan(of_copy(arguments), &plan.text, &selection);
    let copied = match copied {
        Ok(copied) => copied,
        Err(error) => return Ok(console.give_up(&error, exit::USAGE)),
    };
    let stop = StopSignal::new();
    signals::watch_if_possible(&stop, console, copy::STOPPING);
    let (code, is_through) = copy::carry_out(copied.quietly(), &stop, console);
    if !is_through || (code != 0 && !accepts_missing) {
        return Ok(code);
    }
    match plan.take_in_directories(joining, &selection.digests())? {
        0 => Ok(0),
        _ if accepts_missing => Ok(0),
        left => {
            let left = if left == 1 { "1 directory".to_owned() } else { format!("{left} directories") };
            console.complain(&format!("{left} failed, named above; join again when that is mended"));
            Ok(exit::FAILED)
        }
    }
}

/// Arguments of a copy with the defaults of everything but how the far end is reached.
fn of_copy(arguments: JoinArguments) -> CopyArguments {
    let defaults = Arguments::parse_from(["icdc", "copy", "--plan", "."]);
    let Command::Copy(mut copy) = defaults.command else { unreachable!("copy was asked for") };
    copy.connection = arguments.connection;
    *copy
}

/// Prints the joint result: how many items are copied, and the digest of the whole.
fn show(plan: &Plan, joining: &Joining, json: bool, console: &Console) {
    let digest = blake3::Hash::from_bytes(joining.tree()).to_hex();
    if json {
        let joined = json!({
            "type": "plan_join", "done": plan.text.left_out == 0, "items": joining.done(),
            "missing": plan.text.items.saturating_sub(joining.done()), "tree_digest": digest.as_str(),
        });
        console.json(&joined.to_string());
        return;
    }
    console.result(&format!("{} copied, of {}", counted(joining.done(), "item"), counted(plan.text.items, "item")));
    console.result(&format!("tree digest {digest}"));
}
