//! The near end of a measurement: reaches the far end, makes the data connections, sends or receives, and puts
//! together what both ends know.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use icdc_protocol::Message;
use icdc_protocol::measure::{ControlMessage, Order, Token};
use icdc_protocol::message::{Job, Request};
use icdc_tcp::algorithm::choose_in_advance;
use icdc_tcp::{Beginning, Family, Patience};
use icdc_units::{ByteCount, Span};

use super::control_link::{ControlLink, Incoming};
use super::sending::Prepared;
use super::{MeasureError, MeasureEvent, MeasureOptions, MeasureSink, Measurement, receive_buffer, receiving, sending};
use crate::clock;
use crate::connect::{CONNECT_PATIENCE, ConnectError, Far};
use crate::copy::new_transfer;
use crate::error::SessionError;
use crate::event::{Event, EventSink};
use crate::location::Location;
use crate::options::CopyOptions;
use crate::stop::StopSignal;

/// How long the far end may take for each step that is not the measurement itself.
const PATIENCE: Span = Span::from_secs(60);
/// Ten segments of 1400 bytes with the token: as many may be on their way at once (RFC 6928), so that they do not come later
/// than the token alone.
const RUN_UP: u16 = 14_000 - 34;
/// How long the last messages may take to arrive.
const FAREWELL: Span = Span::from_secs(10);

/// Measures between this process and the far end at `target`, which must not be local; its path means nothing.
/// Of `connection`, what concerns reaching the far end counts.
///
/// # Errors
/// See [`MeasureError`]. A measurement that the user interrupts is none, once data has flowed.
pub fn measure(
    target: &Location,
    options: &MeasureOptions,
    connection: &CopyOptions,
    events: &MeasureSink,
    stop: &StopSignal,
) -> Result<Measurement, MeasureError> {
    icdc_tcp::raise_descriptor_limit();
    let order = Order {
        reverse: options.reverse,
        nanos: options.time.as_nanos(),
        bytes: options.bytes,
        streams: options.streams,
        rate: options.rate,
        congestion: options.congestion.clone(),
        window: options.window,
        ports: connection.ports,
    };
    let notices: EventSink = {
        let events = Arc::clone(events);
        Arc::new(move |event| {
            if let Event::Notice { text } = event {
                events(MeasureEvent::Notice(text));
            }
        })
    };
    // It must not end before the measurement: ssh holds the far end.
    let mut far = Far::open(target, connection, &notices, stop)
        // What ssh says of a Ctrl-C that reached it as well is not the reason.
        .map_err(|error| if stop.is_requested() { ConnectError::Interrupted } else { error })?;
    let link = far.link()?;
    let host = data_host(&link.control.peer()).unwrap_or_else(|| far.name());
    let control = ControlLink::open(link, stop)
        .map_err(|error| MeasureError::Failed(format!("cannot start a thread: {error}")))?;
    let transfer = new_transfer().map_err(|error| MeasureError::Failed(error.to_string()))?;
    control.send_message(Message::Request(Request { transfer, job: Job::Measure(order.clone()) }));
    let (port, tokens) = ready(&order, &control)?;
    let (sockets, prepared) = connect(&order, &host, port, &tokens, stop)?;
    if let Some(text) = prepared.iter().find_map(|prepared| prepared.chosen.instead.clone()) {
        events(MeasureEvent::Notice(text));
    }
    let measurement = match order.reverse {
        true => receive(&order, &sockets, port, &control, events),
        false => send(&order, &sockets, &prepared, &control, events),
    };
    control.close(FAREWELL);
    Ok(measurement?)
}

/// The address of the control link, which the data shall reach as well.
fn data_host(peer: &str) -> Option<String> {
    match peer.parse().ok()? {
        SocketAddr::V6(address) if address.scope_id() != 0 => Some(format!("{}%{}", address.ip(), address.scope_id())),
        address => Some(address.ip().to_string()),
    }
}

fn ready(order: &Order, control: &ControlLink) -> Result<(u16, Vec<Token>), SessionError> {
    match control.receive("answer", PATIENCE)? {
        Incoming::Accepted => {}
        other => return Err(other.unexpected("Accepted")),
    }
    match control.receive_control("Ready", PATIENCE)? {
        ControlMessage::Ready { port, tokens } if tokens.len() == usize::from(order.streams) => Ok((port, tokens)),
        _ => Err(SessionError::Protocol("no token for each connection".into())),
    }
}

fn connect(
    order: &Order,
    host: &str,
    port: u16,
    tokens: &[Token],
    stop: &StopSignal,
) -> Result<(Vec<TcpStream>, Vec<Prepared>), MeasureError> {
    let named = order.congestion.as_deref().filter(|_| !order.reverse);
    let first = named.map(choose_in_advance).transpose().map_err(|error| MeasureError::Usage(error.to_string()))?;
    let beginning = Beginning {
        receive_buffer: if order.reverse { receive_buffer(order) } else { ByteCount::ZERO },
        congestion: first.as_ref().map(|chosen| chosen.name.as_str()),
    };
    let cancel = stop.descriptor().map_err(|error| MeasureError::Failed(error.to_string()))?;
    let patience = Patience { timeout: CONNECT_PATIENCE, cancel: Some(cancel.as_fd()) };
    let (mut sockets, mut all) = (Vec::new(), Vec::new());
    for token in tokens {
        let unreachable = |reason| ConnectError::Unreachable { host: host.to_owned(), port, reason };
        let mut socket = icdc_tcp::connect_with(host, port, Family::Any, patience, &beginning)
            .map_err(|error| ConnectError::no_answer(error, unreachable))?;
        let prepared = match order.reverse {
            true => None,
            false => Some(sending::prepare(order, &socket).map_err(MeasureError::Usage)?),
        };
        let run_up = if prepared.as_ref().is_some_and(Prepared::gains_by_run_up) { RUN_UP } else { 0 };
        let mut opening = [token, &run_up.to_be_bytes()[..]].concat();
        opening.resize(opening.len() + usize::from(run_up), 0);
        socket.write_all(&opening).map_err(|error| unreachable(format!("send: {error}")))?;
        sockets.push(socket);
        all.extend(prepared);
    }
    Ok((sockets, all))
}

fn send(
    order: &Order,
    sockets: &[TcpStream],
    prepared: &[Prepared],
    control: &ControlLink,
    events: &MeasureSink,
) -> Result<Measurement, SessionError> {
    control.await_start(PATIENCE)?;
    let known = prepared.first().and_then(|prepared| prepared.known);
    let has_run_up = prepared.iter().all(Prepared::gains_by_run_up);
    let outcome = sending::run(order, sockets, known, has_run_up, control, &mut |samples| {
        events(MeasureEvent::Samples(samples))
    })?;
    let expected = outcome.received.bins as usize;
    let mut arrivals = Vec::new();
    let since = clock::now();
    while arrivals.len() < expected {
        match control.receive_since("arrivals", PATIENCE, since)? {
            Incoming::Control(ControlMessage::Arrivals(bins)) => arrivals.extend(bins),
            Incoming::Stop => {}
            other => return Err(other.unexpected("Arrivals")),
        }
    }
    arrivals.truncate(expected);
    let interrupted = outcome.interrupted;
    Ok(Measurement { received: outcome.received, arrivals, sent: outcome.sent, interrupted })
}

fn receive(
    order: &Order,
    sockets: &[TcpStream],
    port: u16,
    control: &ControlLink,
    events: &MeasureSink,
) -> Result<Measurement, SessionError> {
    let harvest = receiving::run(order, sockets, port, control, &mut |samples| events(MeasureEvent::Samples(samples)))?;
    control.send(ControlMessage::Received(harvest.received.clone()));
    let since = clock::now();
    let sent = loop {
        match control.receive_since("last message of the sender", PATIENCE, since)? {
            Incoming::Control(ControlMessage::Samples(samples)) => events(MeasureEvent::Samples(samples)),
            Incoming::Control(ControlMessage::Sent(sent)) => break sent,
            // It is over already.
            Incoming::Stop | Incoming::Interrupt => {}
            other => return Err(other.unexpected("Sent")),
        }
    };
    Ok(Measurement { received: harvest.received, arrivals: harvest.bins, sent, interrupted: harvest.interrupted })
}
