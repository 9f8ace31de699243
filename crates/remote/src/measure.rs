//! `icdc measure`: reaches the far end, and measures over the link to it.

use std::sync::Arc;

use icdc_measure::{FarSide, MeasureEvent, MeasureOptions, MeasureSink, Measurement, NoMeasurement};
use icdc_protocol::message::{Refusal, RefusalKind};
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_transfer::{Event, EventSink};

use crate::connect::{ConnectError, Far};
use crate::location::Location;
use crate::options::CopyOptions;
use crate::transfer_id::new_transfer;

/// Measures between this process and the far end at `target`, which must not be local; its path
/// means nothing. Of `connection`, what concerns reaching the far end counts.
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
    let side = FarSide { link, name: far.name(), transfer: new_transfer().map_err(MeasureError::Failed)? };
    Ok(icdc_measure::measure(side, &options.order(connection.ports), events, stop)?)
}

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The request makes no sense here.
    #[error("{0}")]
    Usage(String),
    /// The other end could not be reached, or did not let us in.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The other end refused.
    #[error("{}", .0.reason)]
    Refused(Refusal),
    /// The user asked to stop before anything was measured.
    #[error("interrupted")]
    Interrupted,
    /// The connection to the other end broke.
    #[error("{0}; nothing was measured to the end, run the same command again")]
    Lost(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl MeasureError {
    /// Exit code of the process: 1 failed, 2 usage, 3 could not connect or was not let in, 4
    /// interrupted.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Connect(ConnectError::Interrupted) => 4,
            Self::Connect(_) => 3,
            Self::Refused(refusal) if matches!(refusal.kind, RefusalKind::NotAllowed | RefusalKind::Busy) => 3,
            Self::Interrupted => 4,
            Self::Refused(_) | Self::Lost(_) | Self::Failed(_) => 1,
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
            NoMeasurement::NotConnected { host, port, cause } => {
                let unreachable = |reason| ConnectError::Unreachable { host, port, reason };
                ConnectError::no_answer(cause, unreachable).into()
            }
            NoMeasurement::NotSent { host, port, cause } => {
                ConnectError::Unreachable { host, port, reason: format!("send: {cause}") }.into()
            }
            NoMeasurement::Failed(reason) => Self::Failed(reason),
            NoMeasurement::Session(error) => error.into(),
        }
    }
}
