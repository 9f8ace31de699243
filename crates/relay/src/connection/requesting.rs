//! Sends the request to the next relay, and waits for its answer while the client's data already
//! follows.

use std::io;
use std::sync::Arc;

use icdc_protocol::relay::peer::{ANSWER, Verdict};

use super::channel::{Channel, LegError};
use super::inbound::Inbound;
use super::next_hop::NextHop;
use super::stage::{End, Pending, Relaying, Requesting, Stage, Transition};
use crate::config::NextRelay;
use crate::flow::Progress;
use crate::leg::{Leg, Received};
use crate::poller::Side;
use crate::worker_context::WorkerContext;

/// Sends the request to the next relay, to which the far leg is open. `was_warm`: the leg was open
/// before the request came.
pub(super) fn begin(
    pending: Pending,
    (relay, mut far): (Arc<NextRelay>, Leg),
    was_warm: bool,
    inbound: &mut Inbound,
    context: &WorkerContext,
) -> Stage {
    let Pending { route, up } = pending;
    inbound.prepare_legs(&mut far, context);
    far.send_first(&route.request.header(context.relay.id).encode());
    let deadline = context.now + inbound.config.limits.connect;
    let channel = Box::new(Channel::new(far, up, inbound.began, context.now));
    Stage::Requesting(Requesting { route, relay, was_warm, answer: Vec::new(), deadline, channel })
}

/// Relays what the client sends, and reads the next relay's answer: begins to relay both ways if
/// that has connected, else ends the connection. If a warm leg turns out to be closed, the same
/// relay is tried again.
pub(super) fn advance(mut stage: Requesting, inbound: &mut Inbound, context: &mut WorkerContext) -> Transition {
    let up = match stage.channel.relay_up(&mut inbound.near, context) {
        Ok(up) => up,
        Err(LegError { side: Side::Near, cause }) => {
            return Transition::End(Stage::Requesting(stage), End::Aborted(format!("near leg: {cause}")));
        }
        Err(LegError { side: Side::Far, cause }) => return far_failed(stage, &cause),
    };
    match read_answer(&mut stage.answer, &mut stage.channel.far) {
        Ok(None) if up == Progress::More => Transition::Yield(Stage::Requesting(stage)),
        Ok(None) => Transition::Wait(Stage::Requesting(stage)),
        Ok(Some(Verdict::Connected)) => {
            if let Some(reply) = inbound.reply(Verdict::Connected, stage.channel.far.local()) {
                inbound.near.send_first(&reply);
            }
            let Requesting { route, relay, channel, .. } = stage;
            let destination = route.request.destination;
            Transition::Next(Stage::Relaying(Relaying { destination, hop: NextHop::Relay(relay), channel }))
        }
        Ok(Some(verdict)) => {
            let end = End::unreachable(verdict, format!("the next relay answered: {verdict}"));
            Transition::End(Stage::Requesting(stage), end)
        }
        Err(cause) => far_failed(stage, &cause),
    }
}

/// The verdict of the next relay; `None` until all of its answer has arrived.
fn read_answer(answer: &mut Vec<u8>, far: &mut Leg) -> io::Result<Option<Verdict>> {
    loop {
        let mut bytes = [0; ANSWER];
        let missing = ANSWER - answer.len();
        match far.read(&mut bytes[..missing])? {
            Received::Bytes(count) => answer.extend_from_slice(&bytes[..count]),
            Received::WouldBlock => return Ok(None),
            Received::End => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        if let Ok(whole) = <[u8; ANSWER]>::try_from(answer.as_slice()) {
            let verdict = Verdict::decode(whole);
            return verdict.map(Some).ok_or_else(|| io::Error::other("its answer is not one of a relay"));
        }
    }
}

/// Ends the connection because the leg to the next relay has failed. A warm one may have been
/// closed while it was idle: unless data has been sent, the same relay is tried again.
fn far_failed(stage: Requesting, cause: &io::Error) -> Transition {
    let is_stale = stage.was_warm && stage.channel.up.moved == 0 && stage.answer.is_empty();
    if !is_stale {
        let end = End::unreachable(Verdict::Unreachable, format!("the next relay closed the connection: {cause}"));
        return Transition::End(Stage::Requesting(stage), end);
    }
    let Requesting { mut route, relay, channel, .. } = stage;
    route.retry(NextHop::Relay(relay));
    Transition::Next(Stage::Routing(Box::new(Pending { route, up: channel.up })))
}
