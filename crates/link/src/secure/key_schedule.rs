//! The key schedule of one connection, kept by rustls: the next key of either direction on demand.
//!
//! A key update is decided where records are: `icdc_record::Sealer` asks for the next key when one
//! is due, `icdc_record::Opener` when the peer's has arrived; `inlet.rs` passes a peer's request for
//! one on to `outlet.rs`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use icdc_record::{Cipher, NextKey, RecordError, RecordKey};
use rustls::kernel::KernelConnection;
use rustls::{ConnectionTrafficSecrets, Error};

/// Secrets of one direction, and the number of the next record under them.
pub(super) type Secrets = (u64, ConnectionTrafficSecrets);

/// Shared by both halves; asked once per key update.
pub(super) struct KeySchedule(Mutex<Box<dyn Ratchet>>);

impl KeySchedule {
    pub(super) fn new<Data: Send + 'static>(connection: KernelConnection<Data>) -> Self {
        Self(Mutex::new(Box::new(connection)))
    }

    /// Secrets of what this end sends after its key update.
    pub(super) fn next_transmit(&self) -> Result<Secrets, Error> {
        self.ratchet().transmit()
    }

    /// Secrets of what arrives after the peer's key update.
    pub(super) fn next_receive(&self) -> Result<Secrets, Error> {
        self.ratchet().receive()
    }

    fn ratchet(&self) -> MutexGuard<'_, Box<dyn Ratchet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key in these secrets.
pub(super) fn record_key((sequence, secrets): &Secrets) -> Result<RecordKey, Error> {
    let (cipher, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Cipher::Chacha20Poly1305, key, iv),
        _ => return Err(Error::General("a cipher suite that icdc does not know was agreed upon".into())),
    };
    let iv = iv.as_ref().try_into().expect("TLS 1.3 suites have nonces of 12 bytes");
    let unfit = || Error::General("a traffic secret does not fit its cipher suite".into());
    RecordKey::new(cipher, key.as_ref(), iv, *sequence).ok_or_else(unfit)
}

/// The keys of one direction, each after a key update.
pub(super) fn next_key(schedule: &Arc<KeySchedule>, next: fn(&KeySchedule) -> Result<Secrets, Error>) -> NextKey {
    let schedule = Arc::clone(schedule);
    Box::new(move || {
        let key = next(&schedule).and_then(|secrets| record_key(&secrets));
        key.map_err(|error| RecordError::NextKey(error.to_string()))
    })
}

/// [`KernelConnection`] without the role of this end.
trait Ratchet: Send {
    fn transmit(&mut self) -> Result<Secrets, Error>;
    fn receive(&mut self) -> Result<Secrets, Error>;
}

impl<Data: Send> Ratchet for KernelConnection<Data> {
    fn transmit(&mut self) -> Result<Secrets, Error> {
        self.update_tx_secret()
    }

    fn receive(&mut self) -> Result<Secrets, Error> {
        self.update_rx_secret()
    }
}
