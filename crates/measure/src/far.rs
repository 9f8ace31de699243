//! The far end of a measurement: waits for the data connections, and sends or receives as
//! requested.

use std::net::TcpStream;
use std::sync::Arc;

use icdc_link::Link;
use icdc_protocol::limits::MAX_ARRIVALS;
use icdc_protocol::measure::{ControlMessage, MeasureRequest, Sample};
use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_protocol::validate::clip;
use icdc_protocol::{Features, Message};
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_tcp::congestion::{choose, choose_in_advance};
use icdc_tcp::{Family, Privileges};
use icdc_tuning::Tuned;
use icdc_units::{ByteCount, Span};

use crate::control_link::ControlLink;
use crate::expected::Expected;
use crate::sockets::{local, receive_buffer, set_receive_buffers};
use crate::{admission, receiving, sending};

/// Time limit for the near end to get ready to receive.
const GO_TIMEOUT: Span = Span::from_secs(60);
/// Time limit for the near end to close the link.
const CLOSE_TIMEOUT: Span = Span::from_secs(10);
/// Number of sampling intervals per message: a tenth of a second.
const TICKS_PER_MESSAGE: usize = 10;

/// Outcome of a measurement that the far end has served without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The measurement is complete, as requested.
    Complete,
    /// A user or an operator stopped it.
    Interrupted,
}

/// Serves one measurement at the far end. The listener for control links delivers data connections
/// by `expected`; their sockets are tuned with these privileges.
///
/// # Errors
/// The error by which its session ended.
pub fn answer(
    link: Link,
    order: &MeasureRequest,
    (expected, privileges): (&Expected, &Privileges),
    stop: &StopSignal,
) -> Result<Completion, SessionError> {
    let control = ControlLink::open(link, stop).map_err(|error| local("clone", error))?;
    // The data connections stay open until the near end has gone: one that closes early looks
    // broken to the sender.
    let mut sockets = Vec::new();
    let outcome = serve(order, &control, (expected, privileges), stop, &mut sockets);
    if let Err(error) = &outcome
        && let Some(refusal) = refusal_for(error)
    {
        control.send_message(Message::Abort(refusal));
    }
    control.close(CLOSE_TIMEOUT);
    outcome.map(|interrupted| if interrupted { Completion::Interrupted } else { Completion::Complete })
}

/// Message that reports an error to the near end, which does not know of a broken data connection
/// or an exceeded time limit; `None` for other errors.
fn refusal_for(error: &SessionError) -> Option<Refusal> {
    match error {
        SessionError::Cut(reason) => Some(Refusal { kind: RefusalKind::Internal, reason: reason.clone() }),
        SessionError::Refused(refusal) => Some(refusal.clone()),
        error => error.refusal(),
    }
}

/// Agrees on the data connections with the near end, then sends or receives as requested. The
/// connections stay open in `sockets`. True if the measurement was interrupted.
fn serve(
    order: &MeasureRequest,
    control: &ControlLink,
    (expected, privileges): (&Expected, &Privileges),
    stop: &StopSignal,
    sockets: &mut Vec<Arc<TcpStream>>,
) -> Result<bool, SessionError> {
    let buffer = if order.reverse { ByteCount::ZERO } else { receive_buffer(order) };
    let listen = |ports| icdc_tcp::listen(None, ports, Family::Any, buffer);
    // Without a port of its own, the control link's is used.
    let listener = order.ports.and_then(|ports| {
        listen(ports.range()).inspect_err(|error| tracing::info!("no data port of its own: {error}")).ok()
    });
    // Chosen before connections are made, so that an unavailable algorithm is refused at once.
    // Connections to the own port inherit it.
    let chosen = match (order.congestion.as_deref(), &listener) {
        (Some(name), Some(listener)) if order.reverse => Some(choose(listener, name, privileges)),
        (Some(name), None) if order.reverse => Some(choose_in_advance(name, privileges)),
        _ => None,
    };
    let chosen = chosen
        .transpose()
        .map_err(|error| SessionError::Refused(Refusal { kind: RefusalKind::NotAllowed, reason: error.to_string() }))?;
    let port = listener.as_ref().map_or(Ok(0), |listener| listener.local_addr().map(|address| address.port()));
    let port = port.map_err(|error| local("getsockname", error))?;
    let tokens = admission::tokens(order.streams)?;
    let awaited = expected.register_all(&tokens).map_err(|error| local("eventfd", error))?;
    control.send_message(Message::Accepted(Features::OURS));
    control.send(ControlMessage::Ready { port, tokens: tokens.clone() });
    let admitted = admission::admit(listener.as_ref(), &tokens, &awaited, control.ended())?;
    drop((listener, awaited));
    *sockets = admitted.into_iter().map(Arc::new).collect();
    // Keeps the loaded algorithm until the connections use it.
    let _chosen = chosen;
    if order.reverse { send(order, sockets, control, privileges) } else { receive(order, sockets, control, stop) }
}

/// Receives the data and sends the results; true if the measurement was interrupted.
fn receive(
    order: &MeasureRequest,
    sockets: &[Arc<TcpStream>],
    control: &ControlLink,
    stop: &StopSignal,
) -> Result<bool, SessionError> {
    set_receive_buffers(order, sockets);
    let mut harvest = receiving::run(order, sockets, control, &mut |_| {})?;
    if stop.is_requested() {
        harvest.received.errors.push("the far end was stopped".to_owned());
    }
    control.send(ControlMessage::Received(harvest.received));
    for bins in harvest.bins.chunks(MAX_ARRIVALS) {
        control.send(ControlMessage::Arrivals(bins.to_vec()));
    }
    Ok(harvest.interrupted)
}

/// Sends the data, and then the sender's figures, with samples of the connections' state in
/// between; true if the measurement was interrupted.
fn send(
    order: &MeasureRequest,
    sockets: &[Arc<TcpStream>],
    control: &ControlLink,
    privileges: &Privileges,
) -> Result<bool, SessionError> {
    let prepared = sockets.iter().map(|socket| sending::prepare(order, Arc::clone(socket), privileges));
    let connections = prepared.collect::<Result<Vec<Tuned>, String>>().map_err(SessionError::Local)?;
    control.await_start(GO_TIMEOUT)?;
    let mut batch: Vec<Sample> = Vec::new();
    let mut outcome = sending::run(order, &connections, false, control, &mut |samples| {
        batch.extend(samples);
        if batch.len() >= TICKS_PER_MESSAGE * sockets.len() {
            control.send(ControlMessage::Samples(std::mem::take(&mut batch)));
        }
    })?;
    control.send(ControlMessage::Samples(batch));
    let instead = connections.last().and_then(Tuned::instead);
    outcome.sent.notices.extend(instead.map(|text| clip(text.to_owned())));
    control.send(ControlMessage::Sent(outcome.sent));
    Ok(outcome.interrupted)
}
