//! The far end of a measurement: listens for the data connections, and sends or receives as ordered.

use std::net::TcpStream;

use icdc_protocol::Message;
use icdc_protocol::limits::MAX_ARRIVALS;
use icdc_protocol::measure::{ControlMessage, Order, Sample};
use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_protocol::validate::clip;
use icdc_tcp::Family;
use icdc_tcp::algorithm::{Chosen, choose};
use icdc_units::{ByteCount, Span};

use super::control_link::ControlLink;
use super::{admission, local, receive_buffer, receiving, sending};
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
    let control = match ControlLink::open(link, stop) {
        Ok(control) => control,
        Err(error) => return Ended::Refused(format!("clone: {error}")),
    };
    // The data connections stay until the near end has gone: one that closes early looks broken to the sender.
    let mut sockets = Vec::new();
    let outcome = serve(order, &control, stop, &mut sockets);
    if let Err(error) = &outcome
        && let Some(refusal) = told(error)
    {
        control.send_message(Message::Abort(refusal));
    }
    control.close(FAREWELL);
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
fn serve(
    order: &Order,
    control: &ControlLink,
    stop: &StopSignal,
    sockets: &mut Vec<TcpStream>,
) -> Result<bool, SessionError> {
    let buffer = if order.reverse { ByteCount::ZERO } else { receive_buffer(order) };
    let listener = icdc_tcp::listen(None, order.ports, Family::Any, buffer)
        .map_err(|error| SessionError::Local(error.to_string()))?;
    // Chosen before anybody connects, so that the near end is refused at once what nobody has. The connections inherit it.
    let chosen = match order.congestion.as_deref() {
        Some(name) if order.reverse => Some(choose(&listener, name).map_err(|error| {
            SessionError::Refused(Refusal { kind: RefusalKind::NotAllowed, reason: error.to_string() })
        })?),
        _ => None,
    };
    let port = listener.local_addr().map_err(|error| local("getsockname", error))?.port();
    let tokens = admission::tokens(order.streams)?;
    control.send_message(Message::Accepted);
    control.send(ControlMessage::Ready { port, tokens: tokens.clone() });
    *sockets = admission::admit(listener, &tokens, control.ended())?;
    if order.reverse { send(order, sockets, control, chosen) } else { receive(order, sockets, port, control, stop) }
}

fn receive(
    order: &Order,
    sockets: &[TcpStream],
    port: u16,
    control: &ControlLink,
    stop: &StopSignal,
) -> Result<bool, SessionError> {
    let mut harvest = receiving::run(order, sockets, port, control, &mut |_| {})?;
    if stop.is_requested() {
        harvest.received.errors.push("the far end was stopped".to_owned());
    }
    control.send(ControlMessage::Received(harvest.received));
    for bins in harvest.bins.chunks(MAX_ARRIVALS) {
        control.send(ControlMessage::Arrivals(bins.to_vec()));
    }
    Ok(harvest.interrupted)
}

fn send(
    order: &Order,
    sockets: &[TcpStream],
    control: &ControlLink,
    mut chosen: Option<Chosen>,
) -> Result<bool, SessionError> {
    let mut known = None;
    for socket in sockets {
        let prepared = sending::prepare(order, socket).map_err(SessionError::Local)?;
        chosen = Some(prepared.chosen);
        known = prepared.known;
    }
    control.await_start(GO_PATIENCE)?;
    let mut batch: Vec<Sample> = Vec::new();
    let mut outcome = sending::run(order, sockets, known, false, control, &mut |samples| {
        batch.extend(samples);
        if batch.len() >= TICKS_PER_MESSAGE * sockets.len() {
            control.send(ControlMessage::Samples(std::mem::take(&mut batch)));
        }
    })?;
    control.send(ControlMessage::Samples(batch));
    let instead = chosen.as_ref().and_then(|chosen| chosen.instead.as_ref());
    outcome.sent.notices.extend(instead.map(|text| clip(format!("the far end says: {text}"))));
    control.send(ControlMessage::Sent(outcome.sent));
    Ok(outcome.interrupted)
}
