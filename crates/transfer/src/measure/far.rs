//! The far end of a measurement: listens for the data connections, and sends or receives as ordered.

use std::net::TcpStream;

use icdc_protocol::Message;
use icdc_protocol::limits::MAX_ARRIVALS;
use icdc_protocol::measure::{Order, Sample, Word};
use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_tcp::Family;
use icdc_units::{ByteCount, Span};

use super::desk::Desk;
use super::{admission, local, receiving, sending};
use crate::error::SessionError;
use crate::link::Link;
use crate::session::Ended;
use crate::stop::StopSignal;

/// How long the near end may take to get ready to receive.
const GO_PATIENCE: Span = Span::from_secs(60);
/// How long it may take to close the link.
const FAREWELL: Span = Span::from_secs(10);
/// Samples that travel together: those of a tenth of a second.
const TICKS_PER_MESSAGE: usize = 10;

/// Serves one measurement.
pub(crate) fn answer(link: Link, order: &Order, stop: &StopSignal) -> Ended {
    let desk = match Desk::open(link, stop) {
        Ok(desk) => desk,
        Err(error) => return Ended::Refused(format!("clone: {error}")),
    };
    // The data connections stay until the near end has gone: one that closes early looks broken to the sender.
    let mut sockets = Vec::new();
    let outcome = serve(order, &desk, stop, &mut sockets);
    if let Err(error) = &outcome
        && let Some(refusal) = told(error)
    {
        desk.tell(Message::Abort(refusal));
    }
    desk.close(FAREWELL);
    match outcome {
        Ok(false) => Ended::Finished,
        Ok(true) | Err(SessionError::Interrupted) => Ended::Interrupted,
        Err(SessionError::Cut(reason)) => Ended::Cut(reason),
        Err(error) => Ended::Refused(error.to_string()),
    }
}

/// What the near end is told. A cut of a data connection or of patience is news to it.
fn told(error: &SessionError) -> Option<Refusal> {
    match error {
        SessionError::Cut(reason) => Some(Refusal { kind: RefusalKind::Internal, reason: reason.clone() }),
        SessionError::Refused(refusal) => Some(refusal.clone()),
        error => error.refusal(),
    }
}

/// Whether it was interrupted.
fn serve(order: &Order, desk: &Desk, stop: &StopSignal, sockets: &mut Vec<TcpStream>) -> Result<bool, SessionError> {
    let buffer = if order.reverse { ByteCount::ZERO } else { ByteCount::new(order.window) };
    let listener = icdc_tcp::listen(None, order.ports, Family::Any, buffer)
        .map_err(|error| SessionError::Local(error.to_string()))?;
    if order.reverse && !order.congestion.is_empty() {
        icdc_tcp::set_congestion(&listener, &order.congestion).map_err(|error| {
            SessionError::Refused(Refusal { kind: RefusalKind::NotAllowed, reason: error.to_string() })
        })?;
    }
    let port = listener.local_addr().map_err(|error| local("getsockname", error))?.port();
    let tokens = admission::tokens(order.streams)?;
    desk.tell(Message::Accepted);
    desk.say(Word::Ready { port, tokens: tokens.clone() });
    *sockets = admission::admit(listener, &tokens, desk.ended())?;
    if order.reverse { send(order, sockets, desk) } else { receive(order, sockets, port, desk, stop) }
}

fn receive(
    order: &Order,
    sockets: &[TcpStream],
    port: u16,
    desk: &Desk,
    stop: &StopSignal,
) -> Result<bool, SessionError> {
    let mut harvest = receiving::run(order, sockets, port, desk, &mut |_| {})?;
    if stop.is_requested() {
        harvest.received.errors.push("the far end was stopped".to_owned());
    }
    desk.say(Word::Received(harvest.received));
    for bins in harvest.bins.chunks(MAX_ARRIVALS) {
        desk.say(Word::Arrivals(bins.to_vec()));
    }
    Ok(harvest.interrupted)
}

fn send(order: &Order, sockets: &[TcpStream], desk: &Desk) -> Result<bool, SessionError> {
    for socket in sockets {
        sending::prepare(order, socket).map_err(SessionError::Local)?;
    }
    desk.go(GO_PATIENCE)?;
    let mut batch: Vec<Sample> = Vec::new();
    let outcome = sending::run(order, sockets, desk, &mut |samples| {
        batch.extend(samples);
        if batch.len() >= TICKS_PER_MESSAGE * sockets.len() {
            desk.say(Word::Samples(std::mem::take(&mut batch)));
        }
    })?;
    desk.say(Word::Samples(batch));
    desk.say(Word::Sent(outcome.sent));
    Ok(outcome.interrupted)
}
