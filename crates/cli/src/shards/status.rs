//! `icdc plan status`: which shards are copied.

use icdc_shards::plan::ShardState;
use icdc_shards::{Plan, PlanError};
use serde_json::{Value, json};

use super::unusable::give_up;
use crate::arguments::StatusArguments;
use crate::clock::utc;
use crate::console::{Console, printable};
use crate::copy::summary::{counted, size};
use crate::exit;

/// Runs `icdc plan status` and returns the exit code.
pub(super) fn run(arguments: &StatusArguments, console: &Console) -> u8 {
    match Plan::open(&arguments.plan).and_then(|plan| states(&plan).map(|states| (plan, states))) {
        Ok((plan, states)) => {
            if arguments.json {
                console.json(&object(&plan, &states).to_string());
            } else {
                show(&plan, &states, console);
            }
            console.flush();
            let is_done = states.iter().all(ShardState::is_done) && !console.has_lost_results();
            if is_done { 0 } else { exit::FAILED }
        }
        Err(error) => give_up(error, console),
    }
}

/// The state of each shard, in their order.
pub(crate) fn states(plan: &Plan) -> Result<Vec<ShardState>, PlanError> {
    (0..plan.shards()).map(|shard| plan.state(shard)).collect()
}

/// Prints a line about each shard.
fn show(plan: &Plan, states: &[ShardState], console: &Console) {
    for ((shard, state), list) in (0..).zip(states).zip(plan.lists()) {
        let what = format!("{}, {}", counted(list.items, "item"), size(list.bytes));
        let state = match state {
            ShardState::Planned => "not begun".to_owned(),
            ShardState::Begun(note) => {
                format!("begun {} by {} (process {}), not ended", utc(note.at), printable(&note.host), note.pid)
            }
            ShardState::Copied { note, failed: 0 } => format!("copied {} by {}", utc(note.at), printable(&note.host)),
            ShardState::Copied { note, failed } => {
                format!("copied {} by {}, {} FAILED", utc(note.at), printable(&note.host), counted(*failed, "item"))
            }
            ShardState::Replanned { note, failed } => {
                let again = counted(*failed, "item");
                format!("copied {} by {}, {again} planned again", utc(note.at), printable(&note.host))
            }
        };
        console.result(&format!("shard {shard}: {what}: {state}"));
    }
    let done = states.iter().filter(|state| state.is_done()).count();
    console.result(&format!("{done} of {} done", counted(states.len() as u64, "shard")));
}

/// JSON object of the states of all shards.
fn object(plan: &Plan, states: &[ShardState]) -> Value {
    let shards = (0..).zip(states).zip(plan.lists()).map(|((shard, state), list): ((u32, _), _)| {
        let (name, note, failed) = match state {
            ShardState::Planned => ("planned", None, 0),
            ShardState::Begun(note) => ("begun", Some(note), 0),
            ShardState::Copied { note, failed } => ("copied", Some(note), *failed),
            ShardState::Replanned { note, failed } => ("replanned", Some(note), *failed),
        };
        json!({
            "shard": shard, "items": list.items, "bytes": list.bytes, "state": name, "failed": failed,
            "host": note.map(|note| &note.host), "at": note.map(|note| note.at),
        })
    });
    json!({"type": "plan_status", "shards": shards.collect::<Value>(), "done": states.iter().all(ShardState::is_done)})
}
