//! Closes the connection of a client that was refused, after it has had its reply.

use icdc_units::{Span, Time};

use super::stage::{Closing, Stage, Transition};
use crate::leg::{Leg, Received};
use crate::worker_context::WorkerContext;

/// Time limit for a refused client to read its reply.
const TIMEOUT: Span = Span::from_secs(2);
/// Greatest number of reads in one turn.
const READS: u32 = 16;

/// Begins the stage Closing of a refused connection: sends the client the reply that says why.
pub(super) fn begin(reply: &[u8], near: &mut Leg, refused: &Stage, now: Time) -> Stage {
    near.send_first(reply);
    near.close_gracefully();
    let (destination, via) = (refused.destination(), refused.via());
    Stage::Closing(Closing { deadline: now + TIMEOUT, destination, via })
}

/// Reads until the client closes: unread bytes would cause a reset, which could overtake the reply.
pub(super) fn advance(stage: Closing, near: &mut Leg, context: &mut WorkerContext) -> Transition {
    match near.shut_down_writing() {
        Ok(true) => {}
        Ok(false) => return Transition::Wait(Stage::Closing(stage)),
        Err(_) => return Transition::Next(Stage::Closed),
    }
    for _ in 0..READS {
        match near.read(&mut context.scratch) {
            Ok(Received::Bytes(_)) => {}
            Ok(Received::WouldBlock) => return Transition::Wait(Stage::Closing(stage)),
            Ok(Received::End) | Err(_) => return Transition::Next(Stage::Closed),
        }
    }
    // A client that sends more and more leaves others their turn.
    Transition::Yield(Stage::Closing(stage))
}
