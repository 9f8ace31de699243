//! The keys of one direction, each after a key update (RFC 8446 section 7.2).
//!
//! ```text
//! traffic secret N ─┬─ "key", "iv" ──► record key N
//!                   └─ "traffic upd" ► traffic secret N + 1
//! ```
//!
//! rustls runs the handshake and tells the first traffic secrets, as it would to a key log. From
//! them on both directions go on by themselves, in this process or in another one that the link was
//! [handed over](super::handed_over) to. A key update is decided where records are:
//! `icdc_record::Sealer` asks for the next key when one is due, `icdc_record::Opener` when the
//! peer's has arrived; `inlet.rs` passes a peer's request for one on to `outlet.rs`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::hkdf::{self, HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use icdc_record::{Cipher, NextKey, RecordError, RecordKey};
use rustls::{CipherSuite, Error, KeyLog};
use serde::{Deserialize, Serialize};

/// Traffic secret of one direction at present (TLS 1.3).
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct TrafficSecret {
    cipher: Cipher,
    secret: Vec<u8>,
}

/// Record cipher of a TLS 1.3 cipher suite; `None` for a suite that is not supported.
pub(super) fn cipher_of(suite: CipherSuite) -> Option<Cipher> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(Cipher::Aes128Gcm),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(Cipher::Aes256Gcm),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Cipher::Chacha20Poly1305),
        _ => None,
    }
}

/// Name of the cipher suite with this cipher (RFC 8446 section B.4).
fn suite_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Gcm => "TLS13_AES_128_GCM_SHA256",
        Cipher::Aes256Gcm => "TLS13_AES_256_GCM_SHA384",
        Cipher::Chacha20Poly1305 => "TLS13_CHACHA20_POLY1305_SHA256",
    }
}

/// Hash function of the cipher suite, for HKDF.
fn hash_of(cipher: Cipher) -> hkdf::Algorithm {
    match cipher {
        Cipher::Aes128Gcm | Cipher::Chacha20Poly1305 => HKDF_SHA256,
        Cipher::Aes256Gcm => HKDF_SHA384,
    }
}

/// Length of the cipher's keys, in bytes.
fn key_length(cipher: Cipher) -> usize {
    match cipher {
        Cipher::Aes128Gcm => 16,
        Cipher::Aes256Gcm | Cipher::Chacha20Poly1305 => 32,
    }
}

impl TrafficSecret {
    pub(super) fn new(cipher: Cipher, secret: Vec<u8>) -> Self {
        Self { cipher, secret }
    }

    /// Record key under this secret, for the record number `sequence` next.
    pub(super) fn record_key(&self, sequence: u64) -> Result<RecordKey, RecordError> {
        let iv = self.expand("iv", 12)?.try_into().map_err(|_| no_key("the IV has another length"))?;
        let key = self.expand("key", key_length(self.cipher))?;
        let key = RecordKey::new(self.cipher, &key, iv, sequence);
        key.ok_or_else(|| no_key("the key has another length"))
    }

    /// Replaces the secret by the one after the next key update.
    fn advance(&mut self) -> Result<(), RecordError> {
        self.secret = self.expand("traffic upd", hash_of(self.cipher).len())?;
        Ok(())
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446 section 7.1).
    fn expand(&self, label: &str, length: usize) -> Result<Vec<u8>, RecordError> {
        let (count, label_length) = (length.to_be_bytes(), [b"tls13 ".len() as u8 + label.len() as u8]);
        let info = [&count[count.len() - 2..], &label_length, b"tls13 ", label.as_bytes(), &[0]];
        let mut out = vec![0; length];
        let secret = Prk::new_less_safe(hash_of(self.cipher), &self.secret);
        let filled = secret.expand(&info, Length(length)).and_then(|material| material.fill(&mut out));
        filled.map_err(|_| no_key("it cannot be derived"))?;
        Ok(out)
    }
}

impl fmt::Debug for TrafficSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrafficSecret").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

fn no_key(why: &str) -> RecordError {
    RecordError::NextKey(why.to_owned())
}

/// Output length of HKDF, in bytes.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Keys of one direction: its traffic secret, shared by its half and by what derives its next
/// keys, and the number of records so far under the first key.
pub(super) struct Direction {
    secret: Arc<Mutex<TrafficSecret>>,
    sequence: u64,
}

impl Direction {
    pub(super) fn new(secret: TrafficSecret, sequence: u64) -> Self {
        Self { secret: Arc::new(Mutex::new(secret)), sequence }
    }

    /// First record key of the direction.
    pub(super) fn record_key(&self) -> Result<RecordKey, RecordError> {
        lock(&self.secret).record_key(self.sequence)
    }

    /// Function that derives the keys after each key update.
    pub(super) fn next_keys(&self) -> NextKey {
        let secret = Arc::clone(&self.secret);
        Box::new(move || {
            let mut secret = lock(&secret);
            secret.advance()?;
            secret.record_key(0)
        })
    }

    /// Name of the cipher suite.
    pub(super) fn suite(&self) -> &'static str {
        suite_name(lock(&self.secret).cipher)
    }

    /// Traffic secret that is used at present.
    pub(super) fn secret(&self) -> TrafficSecret {
        lock(&self.secret).clone()
    }
}

fn lock(secret: &Mutex<TrafficSecret>) -> MutexGuard<'_, TrafficSecret> {
    secret.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Key log of one TLS handshake, which keeps the first application traffic secret of each direction
/// (`CLIENT_TRAFFIC_SECRET_0`, `SERVER_TRAFFIC_SECRET_0`) and ignores all others.
#[derive(Default)]
pub(super) struct FirstSecrets(Mutex<Heard>);

/// First traffic secrets of both directions, as far as the handshake has told them.
#[derive(Default)]
struct Heard {
    client: Option<Vec<u8>>,
    server: Option<Vec<u8>>,
}

impl FirstSecrets {
    /// Takes the first traffic secrets, of the client's and of the server's direction; an error if
    /// the handshake has not told both.
    pub(super) fn take(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let both = heard.client.take().zip(heard.server.take());
        both.ok_or_else(|| Error::General("the handshake told no traffic secrets".into()))
    }
}

impl KeyLog for FirstSecrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match label {
            "CLIENT_TRAFFIC_SECRET_0" => heard.client = Some(secret.to_vec()),
            "SERVER_TRAFFIC_SECRET_0" => heard.server = Some(secret.to_vec()),
            _ => {}
        }
    }
}

impl fmt::Debug for FirstSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstSecrets")
    }
}
