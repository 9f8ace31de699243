//! Signatures over files, in OpenSSH's format: `ssh-keygen -Y verify` checks them.
//!
//! ```text
//! signed = "SSHSIG" ‖ string(namespace) ‖ string("") ‖ string("sha512") ‖ string(SHA-512(file))
//! ```
//!
//! A string is preceded by its length in 4 bytes, the most significant first. The namespace says
//! what is signed: a signature of one namespace is none of another. No signature of a TLS handshake is
//! one of these, nor the reverse, although the same key makes both: what TLS 1.3 signs begins with 64
//! spaces (RFC 8446, section 4.4.3).
//!
//! Source: `PROTOCOL.sshsig` in the sources of OpenSSH.

use std::fmt;

use aws_lc_rs::digest::{Context, SHA512};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use ssh_key::public::{Ed25519PublicKey, KeyData};
use ssh_key::{Algorithm, HashAlg, LineEnding, Signature, SshSig};

use crate::{Identity, PublicKey, TrustError};

/// First bytes of what is signed.
const PREAMBLE: &[u8; 6] = b"SSHSIG";
/// Name of the digest of the file.
const HASH: &str = "sha512";
/// Longest text of a signature that is read, in bytes; one has some 300.
const LONGEST: usize = 16 << 10;

/// Digest (SHA-512) of a file that is to be signed or verified, while its bytes come one after the
/// other.
#[derive(Clone)]
pub struct FileHash(Context);

impl Default for FileHash {
    fn default() -> Self {
        Self(Context::new(&SHA512))
    }
}

impl FileHash {
    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Bytes that are signed in this namespace.
    fn into_signed_bytes(self, namespace: &str) -> Vec<u8> {
        let digest = self.0.finish();
        let mut signed = PREAMBLE.to_vec();
        for string in [namespace.as_bytes(), b"", HASH.as_bytes(), digest.as_ref()] {
            signed.extend((string.len() as u32).to_be_bytes());
            signed.extend(string);
        }
        signed
    }
}

impl fmt::Debug for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileHash").finish_non_exhaustive()
    }
}

/// Signature of an Ed25519 key over a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSignature {
    /// The key that has signed, as the signature says.
    pub key: PublicKey,
    /// The 64 bytes of the signature.
    pub bytes: [u8; 64],
}

/// Reason for which a text is no signature of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASignature {
    /// The text is not in OpenSSH's format.
    #[error("it is no signature as ssh-keygen -Y sign writes it: {0}")]
    Malformed(String),
    /// The signature is of another kind.
    #[error("it is a signature of {found}, not of {expected}")]
    OtherKind {
        /// Kind of the signature that was found.
        found: String,
        /// Kind of the signature that is expected.
        expected: String,
    },
}

impl FileSignature {
    /// Signs a file in a namespace with this identity.
    ///
    /// # Errors
    /// The ssh-agent that holds the private key does not sign.
    pub fn sign(identity: &Identity, namespace: &str, file: FileHash) -> Result<Self, TrustError> {
        let bytes = identity.sign(&file.into_signed_bytes(namespace))?;
        Ok(Self { key: identity.public(), bytes })
    }

    /// Whether this is the signature of its key over this file in this namespace.
    #[must_use]
    pub fn is_of(&self, namespace: &str, file: FileHash) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.key.as_bytes());
        key.verify(&file.into_signed_bytes(namespace), &self.bytes).is_ok()
    }

    /// The signature as `ssh-keygen -Y sign` writes it.
    ///
    /// # Panics
    /// If `namespace` is empty.
    #[must_use]
    pub fn to_text(&self, namespace: &str) -> String {
        let key = KeyData::Ed25519(Ed25519PublicKey(*self.key.as_bytes()));
        let signature = Signature::new(Algorithm::Ed25519, self.bytes.to_vec());
        let encoded = signature.and_then(|signature| SshSig::new(key, namespace, HashAlg::Sha512, signature));
        encoded.and_then(|encoded| encoded.to_pem(LineEnding::LF)).expect("a signature of a namespace can be encoded")
    }

    /// Parses what [`to_text`](Self::to_text) or `ssh-keygen -Y sign` has written for this
    /// namespace. Whether the signature is right, [`is_of`](Self::is_of) says.
    ///
    /// # Errors
    /// See [`NotASignature`].
    pub fn parse(text: &[u8], namespace: &str) -> Result<Self, NotASignature> {
        let malformed = |error: &dyn fmt::Display| NotASignature::Malformed(error.to_string());
        if text.len() > LONGEST {
            return Err(malformed(&format!("it has {} bytes", text.len())));
        }
        let found = SshSig::from_pem(text).map_err(|error| malformed(&error))?;
        let other = |found: String, expected: &str| NotASignature::OtherKind { found, expected: expected.to_owned() };
        if found.namespace() != namespace {
            return Err(other(format!("the namespace {:?}", found.namespace()), &format!("{namespace:?}")));
        }
        let Some(key) = found.public_key().ed25519() else {
            return Err(other(format!("a key of type {}", found.public_key().algorithm()), "an Ed25519 key"));
        };
        if found.version() != SshSig::VERSION {
            return Err(malformed(&format!("it has version {}", found.version())));
        }
        if found.hash_alg() != HashAlg::Sha512 || !found.reserved().is_empty() {
            return Err(other(format!("the digest {}", found.hash_alg()), HASH));
        }
        let bytes = <[u8; 64]>::try_from(found.signature_bytes()).map_err(|error| malformed(&error))?;
        let parsed = Self { key: PublicKey::from_bytes(key.0), bytes };
        // Lengths that do not fit would be read as well.
        if parsed.to_text(namespace).trim_end().as_bytes() != text.trim_ascii_end() {
            return Err(malformed(&"its bytes are not in the form in which they are written"));
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMESPACE: &str = "icdc-receipt";

    fn hash(text: &[u8]) -> FileHash {
        let mut hash = FileHash::default();
        text.chunks(3).for_each(|part| hash.update(part));
        hash
    }

    #[test]
    fn a_signature_survives_its_text_and_is_of_one_file_key_and_namespace() {
        let identity = Identity::generate();
        let signature = FileSignature::sign(&identity, NAMESPACE, hash(b"delivered")).unwrap();
        let text = signature.to_text(NAMESPACE);
        assert!(text.starts_with("-----BEGIN SSH SIGNATURE-----\n"), "{text}");
        assert_eq!(FileSignature::parse(text.as_bytes(), NAMESPACE).unwrap(), signature);
        assert!(signature.is_of(NAMESPACE, hash(b"delivered")));
        assert!(!signature.is_of(NAMESPACE, hash(b"delivere")) && !signature.is_of("file", hash(b"delivered")));
        let other = FileSignature { key: Identity::generate().public(), ..signature };
        assert!(!other.is_of(NAMESPACE, hash(b"delivered")));
        let error = FileSignature::parse(text.as_bytes(), "file").unwrap_err().to_string();
        assert!(error.contains("icdc-receipt") && error.contains("\"file\""), "{error}");
    }

    #[test]
    fn what_is_no_signature_is_refused_and_never_panics() {
        let identity = Identity::generate();
        let text = FileSignature::sign(&identity, NAMESPACE, hash(b"x")).unwrap().to_text(NAMESPACE).into_bytes();
        assert!(FileSignature::parse(b"", NAMESPACE).is_err());
        assert!(FileSignature::parse(&vec![b'A'; LONGEST + 1], NAMESPACE).is_err());
        for end in 0..text.len() {
            // What is left may still be whole: the last bytes are dashes and a newline.
            if let Ok(parsed) = FileSignature::parse(&text[..end], NAMESPACE) {
                assert!(parsed.is_of(NAMESPACE, hash(b"x")), "{end}");
            }
        }
        for position in 30..text.len() - 30 {
            let mut changed = text.clone();
            changed[position] ^= 1;
            if let Ok(parsed) = FileSignature::parse(&changed, NAMESPACE) {
                assert!(!parsed.is_of(NAMESPACE, hash(b"x")), "byte {position} means nothing");
            }
        }
    }

    #[test]
    fn what_openssh_has_signed_is_parsed() {
        // printf hello | ssh-keygen -Y sign -f KEY -n icdc-receipt
        let text = include_bytes!("../tests/data/hello.sig");
        let signature = FileSignature::parse(text, NAMESPACE).unwrap();
        assert!(signature.is_of(NAMESPACE, hash(b"hello")) && !signature.is_of(NAMESPACE, hash(b"hallo")));
    }
}
