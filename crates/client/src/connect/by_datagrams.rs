//! Streams over datagrams to the port of a far end: one connection for all links of a session, which finds the rate of a path
//! that loses packets without any privilege.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use icdc_datagram::{Algorithm, DatagramError, Dialed};
use icdc_link::{Carrier, OverDatagrams, OwnConnection};
use icdc_stop::StopSignal;
use icdc_tcp::{Family, Patience};
use icdc_trust::{Identity, ServerPin, client_config};

use super::error::ConnectError;
use super::machine::Machine;
use super::reach::CONNECT_TIMEOUT;

/// Time limit for each address of a name that has several.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connection over datagrams of a session; clones share it.
#[derive(Clone, Default)]
pub(super) struct ByDatagrams(Arc<Mutex<Option<Reached>>>);

/// A connection over datagrams, and the address that it leads to.
type Reached = (Arc<Dialed>, SocketAddr);

impl ByDatagrams {
    /// Begins another session, with a connection of its own.
    pub(super) fn begin_anew(&self) {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It waits for what it still carries, and others need not wait with it.
        drop(before);
    }

    /// Opens a stream to the port of a far end; the first one makes the connection. `unanswered` makes the error from the
    /// reason if the port does not answer. Who the far end is, the stream's own handshake tells.
    pub(super) fn stream(
        &self,
        (host, port): (&str, u16),
        (machine, family): (&Machine, Family),
        stop: &StopSignal,
        unanswered: impl FnOnce(String) -> ConnectError,
    ) -> Result<Carrier, ConnectError> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (dialed, peer) = match &*connection {
            Some((dialed, peer)) if !dialed.has_ended() => (Arc::clone(dialed), *peer),
            _ => {
                let patience = Patience::from(CONNECT_TIMEOUT);
                let addresses = match machine.addresses((host, port), family, patience) {
                    Ok(addresses) => addresses,
                    Err(error) => return Err(ConnectError::no_answer(error, unanswered)),
                };
                let (dialed, peer) = match connect(&addresses, stop) {
                    Ok(made) => made,
                    Err(DatagramError::GivenUp) => return Err(ConnectError::Interrupted),
                    Err(error) => {
                        machine.note_reached(None);
                        return Err(unanswered(error.to_string()));
                    }
                };
                machine.note_reached(Some(peer));
                *connection = Some((Arc::clone(&dialed), peer));
                (dialed, peer)
            }
        };
        drop(connection);
        let socket = dialed.open().map_err(|error| unanswered(error.to_string()))?;
        Ok(OverDatagrams::new(socket, peer, OwnConnection::Dialed(dialed)).into())
    }
}

impl std::fmt::Debug for ByDatagrams {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ByDatagrams")
    }
}

/// Connects to the first address that answers.
fn connect(addresses: &[SocketAddr], stop: &StopSignal) -> Result<Reached, DatagramError> {
    let mut failure = DatagramError::NoAnswer { timeout: PATIENCE.into() };
    for &address in addresses {
        // With a key that is made for this: who is who, the streams' handshakes tell, and only to those who are known.
        let tls = client_config(&Identity::generate(), ServerPin::Verify(Box::new(|_| Ok(()))));
        match Dialed::connect(address, tls, Algorithm::default(), PATIENCE, || stop.is_requested()) {
            Ok(dialed) => return Ok((Arc::new(dialed), address)),
            Err(error @ DatagramError::GivenUp) => return Err(error),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
