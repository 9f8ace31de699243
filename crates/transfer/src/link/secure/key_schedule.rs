//! The key schedule of one connection, kept by rustls: the next key of either direction on demand.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::kernel::KernelConnection;
use rustls::{ConnectionTrafficSecrets, Error};

use super::record::RecordKey;

/// Shared by both halves; asked once per key update.
pub(super) struct KeySchedule(Mutex<Box<dyn Ratchet>>);

impl KeySchedule {
    pub(super) fn new<Data: Send + 'static>(connection: KernelConnection<Data>) -> Self {
        Self(Mutex::new(Box::new(connection)))
    }

    /// The key for what this end sends after its key update.
    pub(super) fn next_transmit(&self) -> Result<RecordKey, Error> {
        let (sequence, secrets) = self.ratchet().transmit()?;
        RecordKey::new(&secrets, sequence)
    }

    /// The key for what arrives after the peer's key update.
    pub(super) fn next_receive(&self) -> Result<RecordKey, Error> {
        let (sequence, secrets) = self.ratchet().receive()?;
        RecordKey::new(&secrets, sequence)
    }

    fn ratchet(&self) -> MutexGuard<'_, Box<dyn Ratchet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`KernelConnection`] without the role of this end.
trait Ratchet: Send {
    fn transmit(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error>;
    fn receive(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error>;
}

impl<Data: Send> Ratchet for KernelConnection<Data> {
    fn transmit(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        self.update_tx_secret()
    }

    fn receive(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        self.update_rx_secret()
    }
}
