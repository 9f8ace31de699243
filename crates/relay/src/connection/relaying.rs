//! Relays data in both directions until both have ended, or one leg fails.

use icdc_protocol::relay::peer::Verdict;
use icdc_protocol::relay::proxy_v2;

use super::channel::{Channel, LegError};
use super::inbound::Inbound;
use super::next_hop::NextHop;
use super::stage::{End, Pending, Relaying, Stage, Transition};
use crate::flow::Progress;
use crate::leg::Leg;
use crate::poller::Side;
use crate::worker_context::WorkerContext;

/// Replies to the client, whose far leg to the destination is open, and begins to relay; sends the
/// header of the PROXY protocol first where that is configured.
pub(super) fn begin(
    pending: Pending,
    hop: NextHop,
    mut far: Leg,
    inbound: &mut Inbound,
    context: &WorkerContext,
) -> Stage {
    let Pending { route, up } = pending;
    inbound.prepare_legs(&mut far, context);
    if inbound.config.exit.proxy_protocol
        && let Some(peer) = far.peer()
    {
        far.send_first(&proxy_v2::header(route.request.client, peer));
    }
    if let Some(reply) = inbound.reply(Verdict::Connected, far.local()) {
        inbound.near.send_first(&reply);
    }
    let channel = Box::new(Channel::new(far, up, inbound.began, context.now));
    Stage::Relaying(Relaying { destination: route.request.destination, hop, channel })
}

/// Relays data until both legs would block or the turn is over. Ends the connection when both
/// directions have ended, or a leg has failed.
pub(super) fn advance(mut stage: Relaying, inbound: &mut Inbound, context: &mut WorkerContext) -> Transition {
    match relay(&mut stage.channel, &mut inbound.near, context) {
        Err(LegError { side, cause }) => {
            let leg = if side == Side::Far { "far" } else { "near" };
            Transition::End(Stage::Relaying(stage), End::Aborted(format!("{leg} leg: {cause}")))
        }
        Ok(_) if stage.channel.is_finished() => Transition::End(Stage::Relaying(stage), End::Finished),
        Ok(true) => Transition::Yield(Stage::Relaying(stage)),
        Ok(false) => Transition::Wait(Stage::Relaying(stage)),
    }
}

/// Moves data in both directions; returns whether either has more to move at once.
fn relay(channel: &mut Channel, near: &mut Leg, context: &mut WorkerContext) -> Result<bool, LegError> {
    let up = channel.relay_up(near, context)?;
    let down = channel.relay_down(near, context)?;
    Ok(up == Progress::More || down == Progress::More)
}
