//! The ciphers of TLS 1.3, each by the library that is faster on this machine.
//!
//! `aws-lc-rs` has AES-GCM for AVX-512, and decrypts from one buffer into another. `ring` has it
//! for VAES with AVX2, which `aws-lc-rs` lacks, and works in place only.

use aws_lc_rs::aead as aws_lc;
use ring::aead as ring;
use serde::{Deserialize, Serialize};

use crate::error::RecordError;
use crate::format::{HEADER, TAG};

/// Cipher (AEAD) of a TLS 1.3 cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cipher {
    /// AES-GCM with a key of 16 bytes.
    Aes128Gcm,
    /// AES-GCM with a key of 32 bytes.
    Aes256Gcm,
    /// ChaCha20-Poly1305, with a key of 32 bytes.
    Chacha20Poly1305,
}

/// Cryptographic library that implements a cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    AwsLc,
    Ring,
}

impl Library {
    /// Library that is the faster one for the cipher on this machine.
    fn of(cipher: Cipher) -> Self {
        match cipher {
            Cipher::Aes128Gcm | Cipher::Aes256Gcm if has_avx512_aes() => Self::AwsLc,
            _ => Self::Ring,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx512_aes() -> bool {
    use std::arch::is_x86_feature_detected as has;
    let has_avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
    has_avx512 && has!("vaes") && has!("vpclmulqdq")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512_aes() -> bool {
    false
}

/// Nonce and header of a record, with which its content is sealed or opened. The nonce differs for
/// each record of a key; the header is authenticated.
#[derive(Clone, Copy)]
pub(crate) struct RecordHead<'a> {
    /// Nonce of the record, made of its number.
    pub(crate) nonce: [u8; 12],
    /// Header of the record, which is authenticated with it.
    pub(crate) header: &'a [u8; HEADER],
}

/// A key of a cipher, in the form of the library that is used for it.
pub(crate) enum Aead {
    AwsLc(Box<aws_lc::LessSafeKey>),
    Ring(Box<ring::LessSafeKey>),
}

impl Aead {
    /// Key with these bytes; `None` if they are too few or too many for the cipher.
    pub(crate) fn new(cipher: Cipher, key: &[u8]) -> Option<Self> {
        Self::by(Library::of(cipher), cipher, key)
    }

    /// Key of this cipher in one of the libraries; `None` if the library has no such cipher, or the
    /// key has another length.
    pub(crate) fn by(library: Library, cipher: Cipher, key: &[u8]) -> Option<Self> {
        Some(match library {
            Library::AwsLc => {
                let algorithm = match cipher {
                    Cipher::Aes128Gcm => &aws_lc::AES_128_GCM,
                    Cipher::Aes256Gcm => &aws_lc::AES_256_GCM,
                    Cipher::Chacha20Poly1305 => &aws_lc::CHACHA20_POLY1305,
                };
                Self::AwsLc(Box::new(aws_lc::LessSafeKey::new(aws_lc::UnboundKey::new(algorithm, key).ok()?)))
            }
            Library::Ring => {
                let algorithm = match cipher {
                    Cipher::Aes128Gcm => &ring::AES_128_GCM,
                    Cipher::Aes256Gcm => &ring::AES_256_GCM,
                    Cipher::Chacha20Poly1305 => &ring::CHACHA20_POLY1305,
                };
                Self::Ring(Box::new(ring::LessSafeKey::new(ring::UnboundKey::new(algorithm, key).ok()?)))
            }
        })
    }

    /// Encrypts `front` and then the byte `last` into `out`, which has room for exactly these and the
    /// tag of [`TAG`] bytes.
    pub(crate) fn seal(&self, RecordHead { nonce, header }: RecordHead<'_>, front: &[u8], last: u8, out: &mut [u8]) {
        const WITHIN: &str = "lengths are within the limits of every suite";
        match self {
            Self::AwsLc(key) => {
                let nonce = aws_lc::Nonce::assume_unique_for_key(nonce);
                let (out, rest) = out.split_at_mut(front.len());
                let sealed = key.seal_out_of_place_scatter(nonce, aws_lc::Aad::from(header), front, out, &[last], rest);
                sealed.expect(WITHIN);
            }
            Self::Ring(key) => {
                let nonce = ring::Nonce::assume_unique_for_key(nonce);
                let (inner, tag) = out.split_at_mut(front.len() + 1);
                inner[..front.len()].copy_from_slice(front);
                inner[front.len()] = last;
                let made = key.seal_in_place_separate_tag(nonce, ring::Aad::from(header), inner);
                tag.copy_from_slice(made.expect(WITHIN).as_ref());
            }
        }
    }

    /// Decrypts and authenticates a record into `out`, which is as long as the `encrypted` part.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub(crate) fn open(
        &self,
        RecordHead { nonce, header }: RecordHead<'_>,
        encrypted: &[u8],
        tag: &[u8; TAG],
        out: &mut [u8],
    ) -> Result<(), RecordError> {
        let opened = match self {
            Self::AwsLc(key) => {
                let nonce = aws_lc::Nonce::assume_unique_for_key(nonce);
                key.open_separate_gather(nonce, aws_lc::Aad::from(header), encrypted, tag, out).is_ok()
            }
            Self::Ring(key) => {
                let nonce = ring::Nonce::assume_unique_for_key(nonce);
                out.copy_from_slice(encrypted);
                let tag = ring::Tag::from(*tag);
                key.open_in_place_separate_tag(nonce, ring::Aad::from(header), tag, out, 0..).is_ok()
            }
        };
        if opened { Ok(()) } else { Err(RecordError::Forged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_opens_what_the_other_seals_and_nothing_that_was_changed() {
        let header = [23, 3, 3, 0, 7];
        for (cipher, length) in [(Cipher::Aes128Gcm, 16), (Cipher::Aes256Gcm, 32), (Cipher::Chacha20Poly1305, 32)] {
            let key = |library| Aead::by(library, cipher, &vec![5; length]).unwrap();
            for (sealer, opener) in [(Library::AwsLc, Library::Ring), (Library::Ring, Library::AwsLc)] {
                for size in [1, 16, 17, 1000, 16385] {
                    let plaintext: Vec<u8> = (0..size).map(|at| at as u8).collect();
                    let (last, front) = plaintext.split_last().unwrap();
                    let mut sealed = vec![0; size + TAG];
                    key(sealer).seal(RecordHead { nonce: [3; 12], header: &header }, front, *last, &mut sealed);
                    let (inner, tag) = sealed.split_last_chunk::<TAG>().unwrap();
                    let (mut inner, tag) = (inner.to_vec(), *tag);
                    let mut out = vec![0; size];
                    let mut open = |nonce, header: &[u8; HEADER], inner: &[u8], tag: &[u8; TAG]| {
                        key(opener).open(RecordHead { nonce, header }, inner, tag, &mut out).map(|()| out.clone())
                    };
                    let forged = Err(RecordError::Forged);
                    assert_eq!(open([3; 12], &header, &inner, &tag), Ok(plaintext));
                    assert_eq!(open([4; 12], &header, &inner, &tag), forged);
                    assert_eq!(open([3; 12], &[23, 3, 3, 0, 8], &inner, &tag), forged);
                    let mut changed = tag;
                    changed[15] ^= 1;
                    assert_eq!(open([3; 12], &header, &inner, &changed), forged);
                    inner[size / 2] ^= 0x80;
                    assert_eq!(open([3; 12], &header, &inner, &tag), forged);
                }
            }
        }
    }
}
