//! The other end, in the words of RFC 8446 section 5.2 and by nothing but `ring`.

use icdc_record::Cipher;
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::Keys;

/// One direction of it.
pub(super) struct Peer {
    cipher: Cipher,
    generation: u8,
    sequence: u64,
}

impl Peer {
    pub(super) fn new(keys: Keys) -> Self {
        Self { cipher: keys.cipher, generation: 0, sequence: 0 }
    }

    pub(super) fn next_generation(&mut self) {
        self.generation += 1;
        self.sequence = 0;
    }

    /// The record of a `TLSInnerPlaintext`.
    pub(super) fn seal(&mut self, inner: &[u8]) -> Vec<u8> {
        let length = u16::try_from(inner.len() + 16).expect("a length of 16 bits");
        let header = [&[23, 3, 3][..], &length.to_be_bytes()].concat();
        let mut body = inner.to_vec();
        let (key, nonce) = self.key_and_nonce();
        key.seal_in_place_append_tag(nonce, Aad::from(&header), &mut body).expect("a short record");
        [header, body].concat()
    }

    /// The `TLSInnerPlaintext` of the record at the front of `wire`, which it takes.
    pub(super) fn open(&mut self, wire: &mut &[u8]) -> Vec<u8> {
        let (header, rest) = wire.split_at(5);
        assert_eq!(header[..3], [23, 3, 3]);
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        assert!(length <= (1 << 14) + 256, "RFC 8446 section 5.2");
        let (body, rest) = rest.split_at(length);
        *wire = rest;
        let mut body = body.to_vec();
        let (key, nonce) = self.key_and_nonce();
        let inner = key.open_in_place(nonce, Aad::from(header), &mut body);
        inner.expect("what was sealed can be opened").to_vec()
    }

    fn key_and_nonce(&mut self) -> (LessSafeKey, Nonce) {
        let (key, mut nonce) = Keys::secret(self.generation);
        let algorithm = match self.cipher {
            Cipher::Chacha20Poly1305 => &CHACHA20_POLY1305,
            _ => &AES_256_GCM,
        };
        let padded = u128::from(self.sequence).to_be_bytes();
        nonce.iter_mut().zip(&padded[4..]).for_each(|(byte, part)| *byte ^= part);
        self.sequence += 1;
        let key = UnboundKey::new(algorithm, &key).expect("32 bytes");
        (LessSafeKey::new(key), Nonce::assume_unique_for_key(nonce))
    }
}
