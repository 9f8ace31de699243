//! TLS 1.3 record protection (RFC 8446 section 5.2), for records after the handshake.
//!
//! ```text
//!  header, 5 bytes               body
//! ┌────┬───────┬───────────┐┌───────────────────────────┬──────┬─────────┬────────┐
//! │ 23 │ 03 03 │ length of ││ content, 0..=2^14 bytes   │ kind │ padding │ tag    │
//! │    │       │ the body  ││                           │ 1    │ zeros   │ 16     │
//! └────┴───────┴───────────┘└───────────────────────────┴──────┴─────────┴────────┘
//!   authenticated                encrypted and authenticated
//! nonce = iv XOR sequence number of the record under its key (64 bits, big endian, in the last 8 bytes)
//! ```
//!
//! Each record is copied (within the first-level caches) and then worked on in place: `ring` has the vectorized AES-GCM for
//! machines with VAES but without AVX-512, at twice the speed of what rustls' provider does there, and only in place.

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use rustls::ConnectionTrafficSecrets;

/// Longest content of a record.
pub(super) const MAX_CONTENT: usize = 1 << 14;
/// Length of the header.
pub(super) const HEADER: usize = 5;
/// Length of the authentication tag, in all suites.
const TAG: usize = 16;
/// What a record adds to its content.
pub(super) const OVERHEAD: usize = HEADER + 1 + TAG;
/// Longest record.
pub(super) const MAX_RECORD: usize = MAX_CONTENT + OVERHEAD;
/// No key is used for more records, in either direction, whatever the peer thinks of it: AES-GCM is safe for 2^24.5
/// full records (RFC 8446 section 5.5).
const RECORDS_PER_KEY: u64 = 1 << 24;

/// Outer type of every protected record.
const OPAQUE: u8 = 23;
/// Version field of every record.
const LEGACY_VERSION: [u8; 2] = [3, 3];

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Alert,
    Handshake,
    Data,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::Data => 23,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            21 => Some(Self::Alert),
            22 => Some(Self::Handshake),
            23 => Some(Self::Data),
            _ => None,
        }
    }
}

/// Why a record is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    #[error("a record of type {outer} and version {version:02x?} where encrypted ones are due")]
    Header { outer: u8, version: [u8; 2] },
    #[error("a record of {length} bytes: the limits are {min} and {max}", min = TAG + 1, max = MAX_CONTENT + 1 + TAG)]
    Length { length: usize },
    #[error("a record does not decrypt")]
    Forged,
    #[error("a record of unknown content type {0}")]
    Kind(u8),
    #[error("a record without a content type")]
    NoKind,
    #[error("more than {RECORDS_PER_KEY} records under one key")]
    KeyWornOut,
}

/// Reads a header; the length of the body that follows.
pub(super) fn parse_header(header: &[u8; HEADER]) -> Result<usize, RecordError> {
    let [outer, major, minor, high, low] = *header;
    let version = [major, minor];
    if outer != OPAQUE || version != LEGACY_VERSION {
        return Err(RecordError::Header { outer, version });
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if !(TAG + 1..=MAX_CONTENT + 1 + TAG).contains(&length) {
        return Err(RecordError::Length { length });
    }
    Ok(length)
}

/// Length of the plaintext of a body: content, kind and padding.
pub(super) const fn inner_length(body: usize) -> usize {
    body - TAG
}

/// The key of one direction between two key updates, with the number of records that it has seen.
pub(super) struct RecordKey {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl RecordKey {
    /// The key in `secrets`, for the record number `sequence` next.
    pub(super) fn new(secrets: &ConnectionTrafficSecrets, sequence: u64) -> Result<Self, rustls::Error> {
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(rustls::Error::General("a cipher suite that icdc does not know was agreed upon".into())),
        };
        let unfit = |_| rustls::Error::General("a traffic secret does not fit its cipher suite".into());
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(unfit)?;
        let iv = iv.as_ref().try_into().expect("TLS 1.3 suites have nonces of 12 bytes");
        Ok(Self { key: LessSafeKey::new(key), iv, sequence })
    }

    /// Records seen.
    pub(super) fn records(&self) -> u64 {
        self.sequence
    }

    /// Writes a record with this content to the front of `out`; returns its length, `content.len() + OVERHEAD`.
    ///
    /// # Panics
    /// If the content is too long or `out` too short.
    pub(super) fn seal(&mut self, kind: Kind, content: &[u8], out: &mut [u8]) -> Result<usize, RecordError> {
        self.seal_padded(kind, content, 0, out)
    }

    /// Writes a record of data that carries nothing and is as long as any, [`MAX_RECORD`].
    ///
    /// # Panics
    /// If `out` is too short.
    pub(super) fn seal_padding(&mut self, out: &mut [u8]) -> Result<usize, RecordError> {
        self.seal_padded(Kind::Data, &[], MAX_CONTENT, out)
    }

    fn seal_padded(
        &mut self,
        kind: Kind,
        content: &[u8],
        padding: usize,
        out: &mut [u8],
    ) -> Result<usize, RecordError> {
        assert!(content.len() + padding <= MAX_CONTENT, "the caller splits what it sends");
        let inner = content.len() + 1 + padding;
        let body = inner + TAG;
        let (header, rest) = out.split_at_mut(HEADER);
        let [high, low] = (body as u16).to_be_bytes();
        header.copy_from_slice(&[OPAQUE, LEGACY_VERSION[0], LEGACY_VERSION[1], high, low]);
        let (inner, tag) = rest[..body].split_at_mut(inner);
        inner[..content.len()].copy_from_slice(content);
        inner[content.len()] = kind.code();
        inner[content.len() + 1..].fill(0);
        let nonce = self.next_nonce()?;
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), inner);
        tag.copy_from_slice(sealed.expect("lengths are within the limits of every suite").as_ref());
        Ok(HEADER + body)
    }

    /// Decrypts a body into the front of `out`, of which it overwrites [`inner_length`] bytes; returns the kind and
    /// the length of the content. On error the bytes mean nothing.
    pub(super) fn open(
        &mut self,
        header: &[u8; HEADER],
        body: &[u8],
        out: &mut [u8],
    ) -> Result<(Kind, usize), RecordError> {
        let nonce = self.next_nonce()?;
        let (encrypted, tag) = body.split_at(inner_length(body.len()));
        let tag = Tag::try_from(tag).map_err(|_| RecordError::Forged)?;
        let inner = &mut out[..encrypted.len()];
        inner.copy_from_slice(encrypted);
        self.key
            .open_in_place_separate_tag(nonce, Aad::from(header), tag, inner, 0..)
            .map_err(|_| RecordError::Forged)?;
        let length = inner.iter().rposition(|&byte| byte != 0).ok_or(RecordError::NoKind)?;
        let kind = Kind::from_code(inner[length]).ok_or(RecordError::Kind(inner[length]))?;
        Ok((kind, length))
    }

    fn next_nonce(&mut self) -> Result<Nonce, RecordError> {
        if self.sequence >= RECORDS_PER_KEY {
            return Err(RecordError::KeyWornOut);
        }
        let mut nonce = self.iv;
        for (byte, part) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= part;
        }
        self.sequence += 1;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

/// Messages that this end sends after the handshake.
pub(super) mod message {
    /// Handshake message type: key update.
    pub(crate) const KEY_UPDATE: u8 = 24;
    /// Handshake message type: session ticket.
    pub(crate) const NEW_SESSION_TICKET: u8 = 4;
    /// `KeyUpdate { update_not_requested }`.
    pub(crate) const KEY_UPDATE_MESSAGE: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];
    /// Alert `close_notify`, level warning.
    pub(crate) const CLOSE_NOTIFY: [u8; 2] = [1, 0];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same key for both directions of a test.
    fn pair() -> (RecordKey, RecordKey) {
        let make = || RecordKey {
            key: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).unwrap()),
            iv: [9; 12],
            sequence: 0,
        };
        (make(), make())
    }

    fn sealed(key: &mut RecordKey, kind: Kind, content: &[u8]) -> Vec<u8> {
        let mut out = vec![0; content.len() + OVERHEAD];
        assert_eq!(key.seal(kind, content, &mut out), Ok(out.len()));
        out
    }

    fn opened(key: &mut RecordKey, record: &[u8]) -> Result<(Kind, Vec<u8>), RecordError> {
        let header = record.first_chunk().unwrap();
        let body = &record[HEADER..];
        assert_eq!(parse_header(header), Ok(body.len()));
        let mut out = vec![0; inner_length(body.len())];
        let (kind, length) = key.open(header, body, &mut out)?;
        out.truncate(length);
        Ok((kind, out))
    }

    #[test]
    fn padding_is_a_record_that_carries_nothing() {
        let (mut sender, mut receiver) = pair();
        let mut out = vec![7; MAX_RECORD];
        assert_eq!(sender.seal_padding(&mut out), Ok(MAX_RECORD));
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
        // A record with kind and padding by hand: content ++ 23 ++ zeros, where seal would put the kind last.
        let mut forge = |inner: &[u8]| {
            let body = inner.len() + TAG;
            let header = [OPAQUE, 3, 3, (body >> 8) as u8, body as u8];
            let mut encrypted = inner.to_vec();
            let nonce = sender.next_nonce().unwrap();
            let tag = sender.key.seal_in_place_separate_tag(nonce, Aad::from(header), &mut encrypted).unwrap();
            [&header[..], &encrypted, tag.as_ref()].concat()
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
    fn headers_out_of_bounds_are_refused() {
        let (min, max) = (TAG + 1, MAX_CONTENT + 1 + TAG);
        let header = |outer, minor, length: usize| [outer, 3, minor, (length >> 8) as u8, length as u8];
        assert_eq!(parse_header(&header(23, 3, min)), Ok(min));
        assert_eq!(parse_header(&header(23, 3, max)), Ok(max));
        for length in [0, TAG, max + 1, 0xffff] {
            assert_eq!(parse_header(&header(23, 3, length)), Err(RecordError::Length { length }));
        }
        for (outer, minor) in [(20, 3), (21, 3), (22, 3), (24, 3), (23, 1), (23, 4)] {
            let version = [3, minor];
            assert_eq!(parse_header(&header(outer, minor, 100)), Err(RecordError::Header { outer, version }));
        }
    }

    #[test]
    fn a_key_is_not_used_beyond_its_limit() {
        let (mut sender, mut receiver) = pair();
        sender.sequence = RECORDS_PER_KEY - 1;
        receiver.sequence = RECORDS_PER_KEY;
        let last = sealed(&mut sender, Kind::Data, b"last");
        assert_eq!(sender.seal(Kind::Data, b"", &mut [0; OVERHEAD]), Err(RecordError::KeyWornOut));
        assert_eq!(opened(&mut receiver, &last), Err(RecordError::KeyWornOut));
    }
}
