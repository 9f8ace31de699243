//! One traffic key: seals or opens single records, each under a nonce of its own (RFC 8446 section
//! 5.3).
//!
//! ```text
//! nonce = iv XOR sequence number of the record under its key (64 bits, big endian, in the last 8 bytes)
//! ```

use std::fmt;

use crate::cipher::{Aead, Cipher, RecordHead};
use crate::error::RecordError;
use crate::format::{self, HEADER, Kind, MAX_CONTENT, TAG};

/// Maximum number of records under one key, in either direction, whatever the peer does: AES-GCM
/// is safe for 2^24.5 full records (RFC 8446 section 5.5).
const RECORDS_PER_KEY: u64 = 1 << 24;

/// Key schedule of one direction: a function that returns the key after the next key update.
pub type NextKey = Box<dyn FnMut() -> Result<RecordKey, RecordError> + Send>;

/// Record key of one direction between two key updates, with the number of records that it has
/// sealed or opened.
pub struct RecordKey {
    key: Aead,
    iv: [u8; 12],
    sequence: u64,
}

impl RecordKey {
    /// Key with these bytes, for the record number `sequence` next; `None` if they are too few or
    /// too many.
    #[must_use]
    pub fn new(cipher: Cipher, key: &[u8], iv: [u8; 12], sequence: u64) -> Option<Self> {
        Some(Self { key: Aead::new(cipher, key)?, iv, sequence })
    }

    /// Number of records that the key has sealed or opened.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.sequence
    }

    /// Encrypts a record with this content and `padding` zeros to the front of `out`; returns its
    /// length, `content.len() + padding + OVERHEAD`.
    ///
    /// # Errors
    /// If the key has seen as many records as it may.
    ///
    /// # Panics
    /// If content and padding are longer than [`MAX_CONTENT`] or `out` is too short.
    pub fn seal(&mut self, kind: Kind, content: &[u8], padding: usize, out: &mut [u8]) -> Result<usize, RecordError> {
        assert!(content.len() + padding <= MAX_CONTENT, "the caller splits what it sends");
        let body = content.len() + 1 + padding + TAG;
        let header = format::header(body);
        let (front, rest) = out.split_at_mut(HEADER);
        front.copy_from_slice(&header);
        let head = RecordHead { nonce: self.next_nonce()?, header: &header };
        let out = &mut rest[..body];
        if padding == 0 {
            self.key.seal(head, content, kind.code(), out);
        } else {
            let zeros = std::iter::repeat_n(0, padding - 1);
            let front: Vec<u8> = content.iter().copied().chain([kind.code()]).chain(zeros).collect();
            self.key.seal(head, &front, 0, out);
        }
        Ok(HEADER + body)
    }

    /// Decrypts a body of [`MIN_BODY`](crate::format::MIN_BODY) bytes or more into the front of
    /// `out`, of which it overwrites [`plaintext_length`](format::plaintext_length) bytes; returns
    /// the kind and the length of the content. On error the bytes mean nothing.
    ///
    /// # Errors
    /// If the record was not sealed under this key as the next one, has no known kind, or the key
    /// has seen as many records as it may.
    ///
    /// # Panics
    /// If the body or `out` is too short.
    pub fn open(&mut self, header: &[u8; HEADER], body: &[u8], out: &mut [u8]) -> Result<(Kind, usize), RecordError> {
        let head = RecordHead { nonce: self.next_nonce()?, header };
        let (encrypted, tag) = body.split_last_chunk().expect("the caller has read the header");
        let inner = &mut out[..encrypted.len()];
        self.key.open(head, encrypted, tag, inner)?;
        let length = inner.iter().rposition(|&byte| byte != 0).ok_or(RecordError::NoKind)?;
        let kind = Kind::from_code(inner[length]).ok_or(RecordError::Kind(inner[length]))?;
        Ok((kind, length))
    }

    /// Nonce of the next record, which counts as sealed or opened from then on; an error once the
    /// key has been used for as many records as it may.
    fn next_nonce(&mut self) -> Result<[u8; 12], RecordError> {
        if self.sequence >= RECORDS_PER_KEY {
            return Err(RecordError::KeyWornOut);
        }
        let mut nonce = self.iv;
        for (byte, part) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= part;
        }
        self.sequence += 1;
        Ok(nonce)
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKey").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{MAX_RECORD, OVERHEAD, parse_header, plaintext_length};

    /// One key for both directions of a test, twice.
    fn pair() -> (RecordKey, RecordKey) {
        let make = || RecordKey::new(Cipher::Aes128Gcm, &[7; 16], [9; 12], 0).unwrap();
        (make(), make())
    }

    fn sealed(key: &mut RecordKey, kind: Kind, content: &[u8]) -> Vec<u8> {
        let mut out = vec![0; content.len() + OVERHEAD];
        assert_eq!(key.seal(kind, content, 0, &mut out), Ok(out.len()));
        out
    }

    fn opened(key: &mut RecordKey, record: &[u8]) -> Result<(Kind, Vec<u8>), RecordError> {
        let header = record.first_chunk().unwrap();
        let body = &record[HEADER..];
        assert_eq!(parse_header(header), Ok(body.len()));
        let mut out = vec![0; plaintext_length(body.len())];
        let (kind, length) = key.open(header, body, &mut out)?;
        out.truncate(length);
        Ok((kind, out))
    }

    #[test]
    fn keys_have_the_length_of_their_cipher() {
        for (cipher, length) in [(Cipher::Aes128Gcm, 16), (Cipher::Aes256Gcm, 32), (Cipher::Chacha20Poly1305, 32)] {
            for given in [0, 15, 16, 17, 31, 32, 33] {
                let key = RecordKey::new(cipher, &vec![1; given], [0; 12], 0);
                assert_eq!(key.is_some(), given == length, "{cipher:?}: {given} bytes");
            }
        }
    }

    #[test]
    fn padding_is_a_record_that_carries_nothing() {
        let (mut sender, mut receiver) = pair();
        let mut out = vec![7; MAX_RECORD];
        assert_eq!(sender.seal(Kind::Data, &[], MAX_CONTENT, &mut out), Ok(MAX_RECORD));
        assert_eq!(opened(&mut receiver, &out), Ok((Kind::Data, vec![])));
    }

    #[test]
    fn records_of_every_length_and_kind_come_back() {
        let (mut sender, mut receiver) = pair();
        for length in [0, 1, 15, 16, 17, 4095, MAX_CONTENT - 1, MAX_CONTENT] {
            for kind in [Kind::Alert, Kind::Handshake, Kind::Data] {
                // Zeros at the end are content, not padding.
                let content: Vec<u8> = (0..length).map(|i| if i * 2 > length { 0 } else { i as u8 }).collect();
                let record = sealed(&mut sender, kind, &content);
                assert_eq!(opened(&mut receiver, &record), Ok((kind, content)));
            }
        }
    }

    #[test]
    fn padding_is_stripped_and_must_not_be_all() {
        let (mut sender, mut receiver) = pair();
        // Plaintexts that seal would not make.
        let mut forge = |inner: &[u8]| {
            let header = format::header(inner.len() + TAG);
            let head = RecordHead { nonce: sender.next_nonce().unwrap(), header: &header };
            let (last, front) = inner.split_last().unwrap();
            let mut encrypted = vec![0; inner.len() + TAG];
            sender.key.seal(head, front, *last, &mut encrypted);
            [&header[..], &encrypted].concat()
        };
        let padded = forge(&[1, 2, 3, 23, 0, 0, 0]);
        let bare = forge(&[0, 0, 0]);
        let unknown = forge(&[1, 2, 20, 0]);
        assert_eq!(opened(&mut receiver, &padded), Ok((Kind::Data, vec![1, 2, 3])));
        assert_eq!(opened(&mut receiver, &bare), Err(RecordError::NoKind));
        assert_eq!(opened(&mut receiver, &unknown), Err(RecordError::Kind(20)));
    }

    #[test]
    fn any_flipped_bit_replay_or_swap_is_refused() {
        let (mut sender, mut receiver) = pair();
        let first = sealed(&mut sender, Kind::Data, b"first");
        let second = sealed(&mut sender, Kind::Data, b"other");
        for bit in HEADER * 8..first.len() * 8 {
            let mut changed = first.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let (_, mut fresh) = pair();
            assert_eq!(opened(&mut fresh, &changed), Err(RecordError::Forged), "bit {bit}");
        }
        assert_eq!(opened(&mut receiver, &second), Err(RecordError::Forged), "out of order");
        let (_, mut receiver) = pair();
        assert!(opened(&mut receiver, &first).is_ok());
        assert_eq!(opened(&mut receiver, &first), Err(RecordError::Forged), "replayed");
    }

    #[test]
    fn a_key_is_not_used_beyond_its_limit() {
        let (mut sender, mut receiver) = pair();
        sender.sequence = RECORDS_PER_KEY - 1;
        receiver.sequence = RECORDS_PER_KEY;
        let last = sealed(&mut sender, Kind::Data, b"last");
        assert_eq!(sender.seal(Kind::Data, b"", 0, &mut [0; OVERHEAD]), Err(RecordError::KeyWornOut));
        assert_eq!(opened(&mut receiver, &last), Err(RecordError::KeyWornOut));
    }
}
