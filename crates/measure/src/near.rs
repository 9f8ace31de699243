//! The near end of a measurement: makes the data connections, sends or receives, and combines the
//! results of both ends.

use std::cell::Cell;
use std::error::Error;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use icdc_link::Link;
use icdc_protocol::measure::{ControlMessage, DATA_MAGIC, MeasureRequest, Token, proof};
use icdc_protocol::message::{Job, Request, TransferId};
use icdc_protocol::{Message, Ports};
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_tcp::congestion::choose_in_advance;
use icdc_tcp::{Egresses, Family, Patience, Privileges, SocketSettings, clock};
use icdc_tuning::Tuned;
use icdc_units::Span;

use crate::control_link::{ControlLink, Incoming};
use crate::measurement::{MeasureEvent, MeasureSink, Measurement};
use crate::sockets::{receive_buffer, set_receive_buffers};
use crate::{receiving, sending};

/// Time limit for each step of the far end except the measurement itself.
const TIMEOUT: Span = Span::from_secs(60);
/// Number of round trips after which the far end's own port is given up, but not before
/// [`LEAST_TIMEOUT`]: a lost SYN is retransmitted after a second.
const ROUND_TRIPS: u64 = 3;
/// Least time limit for the answer of the far end's own port.
const LEAST_TIMEOUT: Span = Span::from_secs(2);
/// Length of the run-up in bytes: with the proof, ten segments of 1400 bytes, which fit into the
/// initial window (RFC 6928) and so arrive as early as the proof alone.
const RUN_UP: u16 = 14_000 - 34;
/// Lowest port that is not reserved for services (`ip_unprivileged_port_start`).
const FIRST_UNPRIVILEGED: u16 = 1024;
/// Time limit for the last messages to arrive.
const CLOSE_TIMEOUT: Span = Span::from_secs(10);

/// Function that makes a connection to the port of the control link, by the control link's route.
/// The connection's number, from 0, determines its egress.
pub type Dial<'a> = dyn Fn(u8, &StopSignal) -> Result<TcpStream, Box<dyn Error + Send + Sync>> + 'a;

/// The far end of a measurement, connected by a control link.
pub struct FarSide<'a> {
    /// Control link to the far end.
    pub link: Link,
    /// Name of the host, where the link does not tell its address.
    pub name: String,
    /// Identifier of this measurement.
    pub transfer: TransferId,
    /// Egresses of data connections that are not made by `dial`.
    pub egresses: &'a Egresses,
    /// Function that makes data connections.
    pub dial: &'a Dial<'a>,
}

/// Reason why a measurement has no result.
#[derive(Debug)]
pub enum NoMeasurement {
    /// The request is invalid here.
    Usage(String),
    /// A data connection could not be made.
    NotConnected(Box<dyn Error + Send + Sync>),
    /// Sending over a data connection failed.
    NotSent {
        /// Name or address of the far end's host.
        host: String,
        /// TCP port of the data connection.
        port: u16,
        /// The cause.
        cause: io::Error,
    },
    /// Something failed at this end before the far end was asked.
    Failed(String),
    /// The session over the control link ended.
    Session(SessionError),
}

impl From<SessionError> for NoMeasurement {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

/// Measures between this process and a far end, as requested.
///
/// # Errors
/// See [`NoMeasurement`]. A measurement that the user interrupts while data flows is no error, but
/// [`Measurement::interrupted`].
pub fn measure(
    far: FarSide<'_>,
    order: &MeasureRequest,
    events: &MeasureSink,
    stop: &StopSignal,
) -> Result<Measurement, NoMeasurement> {
    let FarSide { link, name, transfer, egresses, dial } = far;
    let round_trip = link.control.tcp_info().map_or(Span::ZERO, |info| info.min_rtt);
    let patience = (round_trip * ROUND_TRIPS).max(LEAST_TIMEOUT);
    let host = data_host(&link.control.peer()).unwrap_or(name);
    let control = ControlLink::open(link, stop)
        .map_err(|error| NoMeasurement::Failed(format!("cannot start a thread: {error}")))?;
    control.send_message(Message::Request(Request::new(transfer, Job::Measure(order.clone()))));
    let (port, tokens) = ready(order, &control)?;
    let own_port = Cell::new(Some(port).filter(|port| *port != 0));
    let connecting = Connecting { order, host: &host, own_port, patience, egresses, dial, stop };
    // The data connections stay open until the far end has gone: one that closes early looks
    // broken.
    match order.reverse {
        true => {
            let sockets = connecting.receiving(&tokens)?;
            let measurement = receive(order, &sockets, &control, events);
            control.close(CLOSE_TIMEOUT);
            Ok(measurement?)
        }
        false => {
            let connections = connecting.sending(&tokens)?;
            if let Some(text) = connections.iter().find_map(Tuned::instead) {
                events(MeasureEvent::Notice(text.to_owned()));
            }
            let measurement = send(order, &connections, &control, events);
            control.close(CLOSE_TIMEOUT);
            Ok(measurement?)
        }
    }
}

/// Address of the control link's peer, to which the data connections are made; `None` if `peer` is
/// no address.
fn data_host(peer: &str) -> Option<String> {
    match peer.parse().ok()? {
        SocketAddr::V6(address) if address.scope_id() != 0 => Some(format!("{}%{}", address.ip(), address.scope_id())),
        address => Some(address.ip().to_string()),
    }
}

/// Waits until the far end has accepted the request and is ready. Returns its data port, 0 if it
/// has none of its own, and a token for each connection.
fn ready(order: &MeasureRequest, control: &ControlLink) -> Result<(u16, Vec<Token>), SessionError> {
    match control.receive("answer", TIMEOUT)? {
        Incoming::Accepted => {}
        other => return Err(other.unexpected("Accepted")),
    }
    take_ready(order, control.receive_control("Ready", TIMEOUT)?)
}

/// Checks the far end's `Ready`: its port is one that was requested, or 0, and there is a token for
/// each connection. Returns both.
fn take_ready(order: &MeasureRequest, said: ControlMessage) -> Result<(u16, Vec<Token>), SessionError> {
    match said {
        // Otherwise the far end could make this one connect to any port: behind a proxy, even on
        // this host.
        ControlMessage::Ready { port, .. } if port != 0 && !order.ports.is_some_and(|ports| admits(ports, port)) => {
            Err(SessionError::Protocol(format!("port {port}, which was not asked for")))
        }
        ControlMessage::Ready { port, tokens } if tokens.len() == usize::from(order.streams) => Ok((port, tokens)),
        _ => Err(SessionError::Protocol("no token for each connection".into())),
    }
}

/// Whether a port is one of those that were requested. A port that the system chooses is never one
/// of its services'.
fn admits(ports: Ports, port: u16) -> bool {
    ports.range().map_or(port >= FIRST_UNPRIVILEGED, |range| range.contains(&port))
}

/// Maker of this end's data connections.
struct Connecting<'a> {
    order: &'a MeasureRequest,
    host: &'a str,
    /// The far end's own data port; `None` if there is none or it does not answer.
    own_port: Cell<Option<u16>>,
    /// Time limit for the answer of the far end's own port.
    patience: Span,
    egresses: &'a Egresses,
    dial: &'a Dial<'a>,
    stop: &'a StopSignal,
}

impl Connecting<'_> {
    /// Makes one connection that receives per token.
    fn receiving(&self, tokens: &[Token]) -> Result<Vec<Arc<TcpStream>>, NoMeasurement> {
        let settings = SocketSettings { receive_buffer: receive_buffer(self.order), ..SocketSettings::default() };
        let connect = |(number, token)| {
            let (socket, magic) = self.connect(number, &settings)?;
            self.open(&socket, magic, token, 0)?;
            Ok(Arc::new(socket))
        };
        let sockets = (0..).zip(tokens).map(connect).collect::<Result<Vec<_>, NoMeasurement>>()?;
        set_receive_buffers(self.order, &sockets);
        Ok(sockets)
    }

    /// Makes one connection that sends per token, and tunes its socket.
    fn sending(&self, tokens: &[Token]) -> Result<Vec<Tuned>, NoMeasurement> {
        let privileges = &Privileges::own();
        let named = self.order.congestion.as_deref().map(|name| choose_in_advance(name, privileges));
        let first = named.transpose().map_err(|error| NoMeasurement::Usage(error.to_string()))?;
        let congestion = first.as_ref().map(|chosen| chosen.name.as_str());
        let settings = SocketSettings { congestion, ..SocketSettings::default() };
        let connect = |(number, token)| {
            let (socket, magic) = self.connect(number, &settings)?;
            let socket = Arc::new(socket);
            let tuned = sending::prepare(self.order, Arc::clone(&socket), privileges).map_err(NoMeasurement::Usage)?;
            self.open(&socket, magic, token, if tuned.gains_by_run_up() { RUN_UP } else { 0 })?;
            Ok(tuned)
        };
        (0..).zip(tokens).map(connect).collect()
    }

    /// Makes the connection `number`; returns it with the magic bytes that its port expects first.
    fn connect(&self, number: u8, settings: &SocketSettings<'_>) -> Result<(TcpStream, &'static [u8]), NoMeasurement> {
        if let Some(port) = self.own_port.get() {
            let cancel = self.stop.descriptor().map_err(|error| NoMeasurement::Failed(error.to_string()))?;
            let patience = Patience { timeout: self.patience, cancel: Some(cancel.as_fd()) };
            let settings = SocketSettings { egress: self.egresses.of(number), ..*settings };
            match icdc_tcp::connect_with(self.host, port, Family::Any, patience, &settings) {
                Ok(stream) => return Ok((stream, &[])),
                Err(error) => tracing::info!("data goes to the port of the control link: {error}"),
            }
            self.own_port.set(None);
        }
        (self.dial)(number, self.stop).map(|stream| (stream, &DATA_MAGIC[..])).map_err(NoMeasurement::NotConnected)
    }

    /// Sends the proof of the token, the length of the run-up, and the run-up.
    fn open(&self, mut socket: &TcpStream, magic: &[u8], token: &Token, run_up: u16) -> Result<(), NoMeasurement> {
        let mut opening = [magic, &proof(token), &run_up.to_be_bytes()].concat();
        opening.resize(opening.len() + usize::from(run_up), 0);
        let port = socket.peer_addr().map_or(0, |address| address.port());
        let sent = socket.write_all(&opening);
        sent.map_err(|cause| NoMeasurement::NotSent { host: self.host.to_owned(), port, cause })
    }
}

/// Sends the data once the far end permits it, and combines the results of both ends.
fn send(
    order: &MeasureRequest,
    connections: &[Tuned],
    control: &ControlLink,
    events: &MeasureSink,
) -> Result<Measurement, SessionError> {
    control.await_start(TIMEOUT)?;
    let has_run_up = connections.iter().all(Tuned::gains_by_run_up);
    let outcome =
        sending::run(order, connections, has_run_up, control, &mut |samples| events(MeasureEvent::Samples(samples)))?;
    let expected = outcome.received.bins as usize;
    let mut arrivals = Vec::new();
    let since = clock::now();
    while arrivals.len() < expected {
        match control.receive_since("arrivals", TIMEOUT, since)? {
            Incoming::Control(ControlMessage::Arrivals(bins)) => arrivals.extend(bins),
            Incoming::Stop => {}
            other => return Err(other.unexpected("Arrivals")),
        }
    }
    arrivals.truncate(expected);
    let interrupted = outcome.interrupted;
    Ok(Measurement { received: outcome.received, arrivals, sent: outcome.sent, interrupted })
}

/// Receives the data, reports the result to the far end, and combines it with the sender's.
fn receive(
    order: &MeasureRequest,
    sockets: &[Arc<TcpStream>],
    control: &ControlLink,
    events: &MeasureSink,
) -> Result<Measurement, SessionError> {
    let harvest = receiving::run(order, sockets, control, &mut |samples| events(MeasureEvent::Samples(samples)))?;
    control.send(ControlMessage::Received(harvest.received.clone()));
    let since = clock::now();
    let sent = loop {
        match control.receive_since("last message of the sender", TIMEOUT, since)? {
            Incoming::Control(ControlMessage::Samples(samples)) => events(MeasureEvent::Samples(samples)),
            Incoming::Control(ControlMessage::Sent(sent)) => break sent,
            // The measurement is over already.
            Incoming::Stop | Incoming::Interrupt => {}
            other => return Err(other.unexpected("Sent")),
        }
    };
    Ok(Measurement { received: harvest.received, arrivals: harvest.bins, sent, interrupted: harvest.interrupted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_taken_that_was_not_asked_for() {
        let order = |ports| MeasureRequest {
            reverse: false,
            nanos: 1,
            bytes: None,
            streams: 1,
            rate: None,
            congestion: None,
            window: None,
            ports,
        };
        let ready = |port| ControlMessage::Ready { port, tokens: vec![Token::default()] };
        let taken = |ports, port| match take_ready(&order(ports), ready(port)) {
            Ok(_) => true,
            Err(SessionError::Protocol(_)) => false,
            Err(error) => panic!("{error}"),
        };
        let range = Some(Ports::Range { low: 5000, high: 5001 });
        for ports in [None, Some(Ports::Any), range] {
            assert!(taken(ports, 0), "the control link's will do");
        }
        assert!(!taken(None, 5000));
        assert!(taken(Some(Ports::Any), 5000) && !taken(Some(Ports::Any), 22));
        assert!(taken(range, 5000) && taken(range, 5001) && !taken(range, 4999) && !taken(range, 5002));
        assert!(taken(Some(Ports::Range { low: 80, high: 80 }), 80), "asked for by name");
    }

    #[test]
    fn what_a_data_connection_begins_with_is_not_the_far_ends_choice() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stop = StopSignal::new();
        let order = MeasureRequest { streams: 1, ports: Some(Ports::Any), ..MeasureRequest::default() };
        let own_port = Cell::new(Some(listener.local_addr().unwrap().port()));
        let dial = |_: u8, _: &StopSignal| panic!("the port of its own answers");
        let (patience, egresses) = (Span::from_secs(60), &Egresses::default());
        let connecting =
            Connecting { order: &order, host: "127.0.0.1", own_port, patience, egresses, dial: &dial, stop: &stop };
        let token = *b"DELETE / HTTP/1.1\r\nHost: a.b\r\n\r\n";
        let _sockets = connecting.receiving(&[token]).unwrap();
        let mut said = [0; 34];
        io::Read::read_exact(&mut listener.accept().unwrap().0, &mut said).unwrap();
        assert!(!said.windows(4).any(|bytes| token.windows(4).any(|chosen| chosen == bytes)), "{said:?}");
        assert_eq!(&said, [&proof(&token)[..], &[0, 0]].concat().as_slice());
    }
}
