//! `icdc measure`: reaches the far end, and measures over the link to it.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use icdc_link::Carrier;
use icdc_measure::{FarSide, MeasureEvent, MeasureOptions, MeasureSink, Measurement, NoMeasurement};
use icdc_protocol::message::Refusal;
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_tcp::clock;
use icdc_transfer::{Event, EventSink, Via as Route};
use icdc_units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connect::ssh::SshFar;
use crate::connect::{ConnectError, Far, Need};
use crate::failure_kind::FailureKind;
use crate::forward;
use crate::location::Location;
use crate::options::CopyOptions;
use crate::transfer_id::new_transfer;

/// Time limit for accepting a connection that this program makes to itself, behind those of other
/// programs.
const OWN_TIMEOUT: Span = Span::from_secs(5);

/// Measures between this process and the far end at `target`, which must not be local; its path is
/// ignored. Of `connection`, the options for reaching the far end are used.
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
    let notices = notices(events);
    // Dropped only after the measurement: the far end ends with its ssh.
    let mut far = Far::open(target, connection, &notices, stop)
        // A Ctrl-C also reaches ssh, whose error is then not the cause.
        .map_err(|error| if stop.is_requested() { ConnectError::Interrupted } else { error })?;
    let link = far.link()?;
    let (route, dial) = far.dial();
    if let Some(text) = tcp_notice(route) {
        events(MeasureEvent::Notice(text.to_owned()));
    }
    let handshake = link.control.handshake_time();
    let dial = |number, stop: &StopSignal| -> Result<_, Box<dyn Error + Send + Sync>> {
        Ok(as_tcp(dial(number, stop)?, stop)?)
    };
    let transfer = new_transfer().map_err(MeasureError::Failed)?;
    let side = FarSide { link, name: far.name(), transfer, egresses: &connection.egresses, dial: &dial };
    let own_port = (route == Route::Direct && options.needs_own_port()).then_some(connection.ports);
    let mut measurement = icdc_measure::measure(side, &options.order(own_port), events, stop)?;
    if route == Route::Ssh {
        // TCP's own figure is the round trip to the ssh process on the same host.
        measurement.sent.min_rtt_nanos = handshake.unwrap_or_default().as_nanos();
    }
    Ok(measurement)
}

/// Event sink for connecting that passes on notices to the user, and drops other events.
fn notices(events: &MeasureSink) -> EventSink {
    let events = Arc::clone(events);
    Arc::new(move |event| {
        if let Event::Notice { text } = event {
            events(MeasureEvent::Notice(text));
        }
    })
}

/// Tries each data route to the far end at `target`, which ssh reaches; only the first login may
/// ask the user. Returns for each route `None` if it works, otherwise the obstacle.
///
/// # Errors
/// See [`MeasureError`].
pub fn try_routes(
    target: &Location,
    connection: &CopyOptions,
    events: &MeasureSink,
    stop: &StopSignal,
) -> Result<Vec<(Route, Option<String>)>, MeasureError> {
    let Location::Ssh { host, .. } = target else { return Ok(Vec::new()) };
    let far = SshFar::open(host, Need::ONE, connection, &notices(events), stop)
        .map_err(|error| if stop.is_requested() { ConnectError::Interrupted } else { error })?;
    let tried = far.try_each();
    if stop.is_requested() { Err(MeasureError::Interrupted) } else { Ok(tried) }
}

/// Notice about what TCP's statistics mean on this route; `None` if they describe the whole path.
fn tcp_notice(route: Route) -> Option<&'static str> {
    match route {
        Route::Direct | Route::Udp | Route::Back => None,
        Route::Ssh => Some(
            "the data goes through ssh: the rate is what its connection carries, at most 2 MiB per round trip; windows and \
             retransmissions are those of the connections to ssh on each host",
        ),
        Route::Relay | Route::Socks5 => Some(
            "the data goes by way of a proxy: what TCP tells of round trips, windows and retransmissions is about the \
             path to the proxy",
        ),
    }
}

/// TCP connection that is `carrier` itself, or whose bytes a thread forwards to and from it.
fn as_tcp(carrier: Carrier, stop: &StopSignal) -> io::Result<TcpStream> {
    if let Carrier::Tcp(stream, _) = &carrier {
        return stream.try_clone();
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let other = accept_from(&listener, stream.local_addr()?)?;
    stream.set_nodelay(true)?;
    let (input, output) = (carrier.as_fd().try_clone_to_owned()?, carrier.as_fd().try_clone_to_owned()?);
    let stop = stop.clone();
    std::thread::Builder::new().name("ssh".into()).spawn(move || {
        if let Err(error) = forward::run(input, output, other, &stop) {
            tracing::debug!("a connection to ssh: {error}");
        }
        let _ = carrier.shutdown(Shutdown::Both);
    })?;
    Ok(stream)
}

/// Accepts the connection that was made from `peer`; connections of other programs are dropped.
fn accept_from(listener: &TcpListener, peer: SocketAddr) -> io::Result<TcpStream> {
    let deadline = clock::now() + OWN_TIMEOUT;
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, from)) if from == peer => return Ok(stream),
            Ok((_, stranger)) => tracing::debug!("{stranger} has connected to a port of this program"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = Timespec::try_from(Duration::from(deadline - clock::now())).map_err(io::Error::other)?;
                match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&left)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
        if clock::now() >= deadline {
            return Err(io::Error::other("other programs keep connecting to a port of this one"));
        }
    }
}

/// Reasons why a measurement has no result.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The request is invalid here.
    #[error("{0}")]
    Usage(String),
    /// The other end could not be reached, or did not admit this user.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The other end refused the request.
    #[error("{}", .0.reason)]
    Refused(Refusal),
    /// The user asked to stop before anything was measured.
    #[error("interrupted")]
    Interrupted,
    /// The connection to the other end broke.
    #[error("{0}; nothing was measured to the end, run the same command again")]
    Lost(String),
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

impl MeasureError {
    /// Kind of failure, which decides the exit code.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Usage(_) => FailureKind::Unusable,
            Self::Connect(error) => error.into(),
            Self::Refused(refusal) => refusal.kind.into(),
            Self::Interrupted => FailureKind::Interrupted,
            Self::Lost(_) | Self::Failed(_) => FailureKind::Failed,
        }
    }
}

impl From<SessionError> for MeasureError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Refused(refusal) => Self::Refused(refusal),
            SessionError::Interrupted => Self::Interrupted,
            SessionError::Cut(_) => Self::Lost(error.to_string()),
            SessionError::Protocol(_) | SessionError::Local(_) => Self::Failed(error.to_string()),
        }
    }
}

impl From<NoMeasurement> for MeasureError {
    fn from(error: NoMeasurement) -> Self {
        match error {
            NoMeasurement::Usage(reason) => Self::Usage(reason),
            NoMeasurement::NotConnected(error) => match error.downcast::<ConnectError>() {
                Ok(error) => Self::Connect(*error),
                Err(other) => Self::Failed(format!("a data connection could not be made: {other}")),
            },
            NoMeasurement::NotSent { host, port, cause } => {
                ConnectError::Unreachable { host, port, reason: format!("send: {cause}") }.into()
            }
            NoMeasurement::Failed(reason) => Self::Failed(reason),
            NoMeasurement::Session(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn strangers_who_connect_first_are_not_taken() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _strangers = [connect(), connect()];
        let mut own = connect();
        let taken = accept_from(&listener, own.local_addr().unwrap()).unwrap();
        assert_eq!(taken.peer_addr().unwrap(), own.local_addr().unwrap());
        own.write_all(b"x").unwrap();
        assert_eq!(io::Read::read(&mut &taken, &mut [0]).unwrap(), 1);
    }
}
