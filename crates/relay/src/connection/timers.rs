//! Deadlines and limits of a connection, looked after by a tick a few times a second.

use icdc_protocol::relay::peer::Verdict;
use icdc_units::ByteCount;

use super::channel::{Channel, Tick};
use super::inbound::Inbound;
use super::next_hop::{NextHop, Refusal};
use super::stage::{End, Stage, Transition};
use crate::worker_context::WorkerContext;

/// Checks deadlines and limits of a connection. `share` is the number of bytes that it may buffer
/// at present; `None` if only its own limit holds.
pub(super) fn tick(
    stage: Stage,
    inbound: &mut Inbound,
    share: Option<ByteCount>,
    context: &WorkerContext,
) -> Transition {
    let now = context.now;
    let timed_out = || Refusal(Verdict::TimedOut, "timed out".to_owned());
    match stage {
        Stage::Greeting(greeting) if now >= greeting.deadline => {
            let end = if greeting.is_idle() {
                End::TimedOut("idle")
            } else {
                End::Rejected { reason: "timed out waiting for the client's request".to_owned(), reply: None }
            };
            Transition::End(Stage::Greeting(greeting), end)
        }
        Stage::Resolving(resolving) if now >= resolving.deadline => resolving.failed(timed_out()),
        Stage::Connecting(stage) if now >= stage.deadline => stage.pending.next_candidate(&stage.hop, timed_out()),
        Stage::Securing(stage) if now >= stage.deadline => {
            stage.pending.next_candidate(&NextHop::Relay(stage.relay), timed_out())
        }
        Stage::Requesting(stage) if now >= stage.deadline => {
            let end = End::unreachable(Verdict::TimedOut, "timed out waiting for the next relay's answer");
            Transition::End(Stage::Requesting(stage), end)
        }
        Stage::Closing(stage) if now >= stage.deadline => Transition::Next(Stage::Closed),
        Stage::Requesting(mut stage) => {
            let tick = tick_channel(&mut stage.channel, inbound, share, context);
            after(tick, Stage::Requesting(stage))
        }
        Stage::Relaying(mut stage) => {
            let tick = tick_channel(&mut stage.channel, inbound, share, context);
            after(tick, Stage::Relaying(stage))
        }
        stage => Transition::Wait(stage),
    }
}

/// Updates counters, buffers and limits of a channel.
fn tick_channel(
    channel: &mut Channel,
    inbound: &mut Inbound,
    share: Option<ByteCount>,
    context: &WorkerContext,
) -> Tick {
    channel.tick(&mut inbound.near, &inbound.config, share, context)
}

/// Transition of a stage after the check of its channel: an idle connection ends.
fn after(tick: Tick, stage: Stage) -> Transition {
    match tick {
        Tick::Quiet => Transition::Wait(stage),
        Tick::Resumed => Transition::Next(stage),
        Tick::Idle => Transition::End(stage, End::TimedOut("no data in either direction")),
    }
}
