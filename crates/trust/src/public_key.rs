//! Public keys: the name of a party.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use crate::TrustError;

/// Word for the type of a key in icdc's text form.
pub(crate) const KEY_TYPE: &str = "icdc-ed25519";
/// Word for the type of a key in OpenSSH's text form.
pub(crate) const SSH_KEY_TYPE: &str = "ssh-ed25519";

/// Bytes before the key in OpenSSH's binary form (RFC 8709 section 4): two strings, each after its
/// length.
const SSH_PREFIX: &[u8; 19] = b"\0\0\0\x0bssh-ed25519\0\0\0\x20";

/// DER bytes before the key in a `SubjectPublicKeyInfo` for Ed25519 (RFC 8410 section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// An Ed25519 public key. Text form: `icdc-ed25519 BASE64` (of the 32 bytes), then perhaps a
/// comment. OpenSSH's `ssh-ed25519 BASE64` is read as well, and means the same key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Public key with these 32 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Fingerprint for people to compare: `SHA256:` and the unpadded base64 of the SHA-256 of the
    /// 32 bytes.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.0);
        format!("SHA256:{}", STANDARD_NO_PAD.encode(hash))
    }

    /// Fingerprint as `ssh-keygen -l` shows it: of OpenSSH's binary form, so that it differs from
    /// [`fingerprint`](Self::fingerprint).
    #[must_use]
    pub fn ssh_fingerprint(&self) -> String {
        let hash = digest::digest(&digest::SHA256, &self.to_ssh());
        format!("SHA256:{}", STANDARD_NO_PAD.encode(hash))
    }

    /// The key in OpenSSH's text form.
    #[must_use]
    pub fn ssh_line(&self) -> String {
        format!("{SSH_KEY_TYPE} {}", STANDARD.encode(self.to_ssh()))
    }

    /// Parses either text form; returns the key and the comment (empty if there is none).
    ///
    /// # Errors
    /// [`TrustError::NotAPublicKey`] says which part is wrong.
    pub fn parse_line(text: &str) -> Result<(Self, &str), TrustError> {
        let wrong = |what: String| TrustError::NotAPublicKey { what };
        let text = text.trim();
        let (kind, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let is_ssh = match kind {
            KEY_TYPE => false,
            SSH_KEY_TYPE => true,
            other if is_other_ssh_type(other) => {
                return Err(wrong(format!("keys of type {other} are not used, only Ed25519")));
            }
            other => return Err(wrong(format!("it begins with {other:?}"))),
        };
        let rest = rest.trim_start();
        let (encoded, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let bytes = STANDARD.decode(encoded).map_err(|error| wrong(format!("base64: {error}")))?;
        let key = if is_ssh {
            Self::from_ssh(&bytes).ok_or_else(|| wrong("its base64 is no Ed25519 key of OpenSSH".to_owned()))?
        } else {
            let bytes = <[u8; 32]>::try_from(bytes.as_slice())
                .map_err(|_| wrong(format!("{} bytes instead of 32", bytes.len())))?;
            Self(bytes)
        };
        Ok((key, comment.trim_start()))
    }

    /// The key in OpenSSH's binary form.
    pub(crate) fn to_ssh(self) -> Vec<u8> {
        [SSH_PREFIX.as_slice(), &self.0].concat()
    }

    /// Parses a key in OpenSSH's binary form; `None` for anything else.
    pub(crate) fn from_ssh(bytes: &[u8]) -> Option<Self> {
        bytes.strip_prefix(SSH_PREFIX)?.try_into().ok().map(Self)
    }

    /// The key as DER `SubjectPublicKeyInfo`, the form in which TLS carries a raw public key.
    pub(crate) fn to_spki(self) -> Vec<u8> {
        [SPKI_PREFIX.as_slice(), &self.0].concat()
    }

    /// Parses the key in a `SubjectPublicKeyInfo`; `None` for anything but Ed25519 in its only DER
    /// form.
    pub(crate) fn from_spki(spki: &[u8]) -> Option<Self> {
        let key = spki.strip_prefix(&SPKI_PREFIX)?;
        key.try_into().ok().map(Self)
    }
}

/// Whether the word names a type of OpenSSH key other than Ed25519: RSA, DSA, ECDSA, security
/// keys, certificates.
pub(crate) fn is_other_ssh_type(word: &str) -> bool {
    word != SSH_KEY_TYPE && ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"].iter().any(|start| word.starts_with(start))
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY_TYPE} {}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

impl FromStr for PublicKey {
    type Err = TrustError;

    fn from_str(text: &str) -> Result<Self, TrustError> {
        Self::parse_line(text).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_keeps_the_comment_apart() {
        let key = PublicKey::from_bytes([7; 32]);
        let text = format!("  {key}   someone at home \n");
        assert_eq!(PublicKey::parse_line(&text).unwrap(), (key, "someone at home"));
        assert_eq!(key.to_string().parse::<PublicKey>().unwrap(), key);
    }

    #[test]
    fn fingerprint_is_sha256_in_unpadded_base64() {
        // printf '\0%.0s' {1..32} | openssl sha256 -binary | base64
        let expected = "SHA256:Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU";
        assert_eq!(PublicKey::from_bytes([0; 32]).fingerprint(), expected);
    }

    #[test]
    fn openssh_means_the_same_key_and_shows_its_own_fingerprint() {
        // Made by `ssh-keygen -t ed25519`; the fingerprint by `ssh-keygen -l`.
        let line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICFyuvdAeIdwv1+3MinyqvGthrpH2oc38uby4Xto4tun";
        let commented = format!("{line} me@home");
        let (key, comment) = PublicKey::parse_line(&commented).unwrap();
        assert_eq!((key.ssh_line().as_str(), comment), (line, "me@home"));
        assert_eq!(key.ssh_fingerprint(), "SHA256:u0K6Jp6F44XKe4EvcTAp4Za0bxUx9MjOLY/XjtL6RQQ");
        assert_eq!(PublicKey::parse_line(&key.to_string()).unwrap().0, key);
        let long = [key.to_ssh(), vec![0]].concat();
        assert!(PublicKey::from_ssh(&long).is_none() && PublicKey::from_ssh(&long[..50]).is_none());
    }

    #[test]
    fn refuses_other_types_lengths_and_alphabets() {
        for text in ["", "ssh-ed25519 AAAA", "icdc-ed25519", "icdc-ed25519 AAAA", "icdc-ed25519 ????"] {
            let error = PublicKey::parse_line(text).unwrap_err().to_string();
            assert!(error.contains("icdc-ed25519 BASE64"), "{text:?}: {error}");
        }
        for kind in ["ssh-rsa", "ecdsa-sha2-nistp256", "sk-ssh-ed25519@openssh.com", "ssh-ed25519-cert-v01@openssh.com"]
        {
            let error = PublicKey::parse_line(&format!("{kind} AAAA")).unwrap_err().to_string();
            assert!(error.contains(kind) && error.contains("only Ed25519"), "{error}");
        }
    }

    #[test]
    fn spki_is_the_der_of_rfc_8410_and_nothing_else() {
        let key = PublicKey::from_bytes([9; 32]);
        let der = key.to_spki();
        assert_eq!(der.len(), 44);
        assert_eq!(PublicKey::from_spki(&der), Some(key));
        assert_eq!(PublicKey::from_spki(&der[..43]), None);
        assert_eq!(PublicKey::from_spki(&[der.as_slice(), &[0]].concat()), None);
        let mut x25519 = der;
        x25519[8] = 0x6e;
        assert_eq!(PublicKey::from_spki(&x25519), None);
    }
}
