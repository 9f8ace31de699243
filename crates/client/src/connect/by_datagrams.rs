//! Streams over datagrams to the port of a far end: one connection for all links of a session, which finds the rate of a path
//! that loses packets without any privilege. They carry the sessions that the user has them carry; and, where that is left to
//! icdc, those after one over TCP whose sender has found that losses are more than TCP bears ([`Choice`]).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use icdc_datagram::{Algorithm, DatagramError, Dialed};
use icdc_link::{Carrier, OverDatagrams, OwnConnection};
use icdc_stop::StopSignal;
use icdc_tcp::{Family, Patience};
use icdc_trust::{Identity, ServerPin, client_config};

use super::error::ConnectError;
use super::machine::Machine;
use super::reach::CONNECT_TIMEOUT;
use crate::known_losses::{self, Datagrams};
use crate::options::{CopyOptions, Via};

/// Time limit for each address of a name that has several.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connection over datagrams of a session; clones share it.
#[derive(Clone, Default)]
pub(super) struct ByDatagrams(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The connection, and the address that it leads to.
    connection: Option<Reached>,
    /// True if it was made for the session that begins next.
    is_fresh: bool,
}

type Reached = (Arc<Dialed>, SocketAddr);

impl ByDatagrams {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another session, with a connection of its own, or the one that [`Self::reach`] has made for it.
    pub(super) fn begin_anew(&self) {
        let before = {
            let mut state = self.lock();
            match std::mem::take(&mut state.is_fresh) {
                true => None,
                false => state.connection.take(),
            }
        };
        // It waits for what it still carries, and others need not wait with it.
        drop(before);
    }

    /// Makes the connection that the next session is to have; false if the port does not answer.
    pub(super) fn reach(
        &self,
        (host, port): (&str, u16),
        (machine, family): (&Machine, Family),
        stop: &StopSignal,
    ) -> bool {
        let unanswered = |reason| ConnectError::DataPort { host: host.to_owned(), port, reason };
        match connect((host, port), (machine, family), stop, unanswered) {
            Ok(made) => {
                *self.lock() = State { connection: Some(made), is_fresh: true };
                true
            }
            Err(error) => {
                tracing::debug!(%error, "datagrams do not arrive");
                false
            }
        }
    }

    /// Opens a stream to the port of a far end; the first one makes the connection. `unanswered` makes the error from the
    /// reason if the port does not answer. Who the far end is, the stream's own handshake tells.
    pub(super) fn stream(
        &self,
        place: (&str, u16),
        (machine, family): (&Machine, Family),
        stop: &StopSignal,
        unanswered: impl Fn(String) -> ConnectError,
    ) -> Result<Carrier, ConnectError> {
        let mut state = self.lock();
        let (dialed, peer) = match &state.connection {
            Some((dialed, peer)) if !dialed.has_ended() => (Arc::clone(dialed), *peer),
            _ => {
                let (dialed, peer) = connect(place, (machine, family), stop, &unanswered)?;
                state.connection = Some((Arc::clone(&dialed), peer));
                (dialed, peer)
            }
        };
        drop(state);
        let socket = dialed.open().map_err(|error| unanswered(error.to_string()))?;
        Ok(OverDatagrams::new(socket, peer, OwnConnection::Dialed(dialed)).into())
    }
}

/// Decision between TCP and datagrams for a run's sessions, by what one of them has found, or an earlier run.
pub(super) struct Choice {
    /// The far end, as it is remembered.
    place: String,
    /// True if the user leaves the decision to icdc, and datagrams are not known to be of no use there.
    may: bool,
    /// Reason for datagrams; `None` if TCP carries the sessions.
    reason: Option<&'static str>,
}

impl Choice {
    /// Begins with what is known of the far end `place`, if the user leaves the decision to icdc and wants nothing that datagrams do
    /// not have.
    pub(super) fn new(place: String, options: &CopyOptions) -> Self {
        let send = &options.send;
        let is_free = options.via == Via::Auto
            && options.egresses.is_empty()
            && options.marker.is_none()
            && !send.background
            && send.congestion.is_none()
            && send.streams.is_none();
        let known = if is_free { known_losses::recall(&place) } else { None };
        let reason = (known == Some(Datagrams::Carry)).then_some("TCP has not borne this path's losses before");
        Self { place, may: is_free && known != Some(Datagrams::Useless), reason }
    }

    /// True if sessions go over TCP and may go over datagrams.
    pub(super) fn is_open(&self) -> bool {
        self.may && self.reason.is_none()
    }

    /// Reason for which sessions go over datagrams; `None` if they do not.
    pub(super) fn reason(&self) -> Option<&'static str> {
        self.reason
    }

    /// Has sessions go over datagrams, which reach the far end.
    pub(super) fn take(&mut self) {
        self.reason = Some("more packets are lost than TCP bears");
        known_losses::remember(&self.place, Datagrams::Carry);
    }

    /// Has none go over datagrams, which do not arrive there, or carry less than TCP.
    pub(super) fn leave(&mut self) {
        (self.may, self.reason) = (false, None);
        known_losses::remember(&self.place, Datagrams::Useless);
    }
}

impl std::fmt::Debug for ByDatagrams {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ByDatagrams")
    }
}

/// Connects to the first address of the machine that answers.
fn connect(
    place: (&str, u16),
    (machine, family): (&Machine, Family),
    stop: &StopSignal,
    unanswered: impl FnOnce(String) -> ConnectError,
) -> Result<Reached, ConnectError> {
    let addresses = match machine.addresses(place, family, Patience::from(CONNECT_TIMEOUT)) {
        Ok(addresses) => addresses,
        Err(error) => return Err(ConnectError::no_answer(error, unanswered)),
    };
    let mut failure = DatagramError::NoAnswer { timeout: PATIENCE.into() };
    for address in addresses {
        // With a key that is made for this: who is who, the streams' handshakes tell, and only to those who are known.
        let tls = client_config(&Identity::generate(), ServerPin::Verify(Box::new(|_| Ok(()))));
        match Dialed::connect(address, tls, Algorithm::default(), PATIENCE, || stop.is_requested()) {
            Ok(dialed) => {
                machine.note_reached(Some(address));
                return Ok((Arc::new(dialed), address));
            }
            Err(DatagramError::GivenUp) => return Err(ConnectError::Interrupted),
            Err(error) => failure = error,
        }
    }
    machine.note_reached(None);
    Err(unanswered(failure.to_string()))
}
