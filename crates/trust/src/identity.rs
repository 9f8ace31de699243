//! Identities: a private key and its file, or the agent that holds it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::aws_lc_rs::sign;
use rustls::sign::SigningKey;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use ssh_key::PrivateKey;

use crate::agent::AgentKey;
use crate::safe_file::KeyFile;
use crate::{PublicKey, TrustError, safe_file};

/// First bytes of a PEM block.
const BEGIN: &[u8] = b"-----BEGIN ";
/// First bytes of OpenSSH's private keys.
const OPENSSH: &[u8] = b"-----BEGIN OPENSSH PRIVATE KEY-----";

/// An Ed25519 key pair, by which a party is identified.
pub struct Identity {
    private: Private,
    public: PublicKey,
}

/// Private half of a key: in memory, or with an agent.
enum Private {
    /// The key pair in this process's memory.
    Here(Ed25519KeyPair),
    /// The key in an ssh-agent, which signs with it.
    InAgent(AgentKey),
}

/// Contents of a key file.
enum Found {
    /// A private key that can be used, with its public key.
    Pair(Ed25519KeyPair),
    /// OpenSSH's private key, encrypted with a passphrase; only its public half is known.
    Encrypted(PublicKey),
    /// A public key only.
    Public(PublicKey),
}

impl Identity {
    /// Generates a new key pair from the system's random numbers.
    ///
    /// # Panics
    /// If the operating system has no random numbers.
    #[must_use]
    pub fn generate() -> Self {
        Self::new(Ed25519KeyPair::generate().expect("the operating system provides random numbers"))
    }

    /// Reads a private key: PKCS#8 PEM as [`Identity::save`] or `openssl genpkey -algorithm
    /// ed25519` writes it, or OpenSSH's form without a passphrase.
    ///
    /// # Errors
    /// A file that other users can read or own, or that is not such a key.
    pub fn load(path: &Path) -> Result<Self, TrustError> {
        let wrong = |what: &str| TrustError::NotAnIdentity { path: path.to_owned(), what: what.to_owned() };
        match Found::read(path)? {
            Found::Pair(pair) => Ok(Self::new(pair)),
            Found::Encrypted(_) => Err(wrong("it is encrypted with a passphrase, for which nobody could be asked")),
            Found::Public(_) => Err(wrong("it holds a public key")),
        }
    }

    /// The public key of a file that holds a key, private or public, with a passphrase or without.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn public_of(path: &Path) -> Result<PublicKey, TrustError> {
        Ok(match Found::read(path)? {
            Found::Pair(pair) => Self::new(pair).public,
            Found::Encrypted(public) | Found::Public(public) => public,
        })
    }

    /// Loads a key as [`load`](Self::load); for a public key, or a private one behind a
    /// passphrase, uses the private half held by the user's ssh-agent.
    ///
    /// # Errors
    /// As [`load`](Self::load); an agent that does not have the key, or does not answer.
    pub fn load_with_agent(path: &Path) -> Result<Self, TrustError> {
        let (public, what) = match Found::read(path)? {
            Found::Pair(pair) => return Ok(Self::new(pair)),
            Found::Encrypted(public) => (public, "is encrypted with a passphrase"),
            Found::Public(public) => (public, "holds a public key"),
        };
        let agent = AgentKey::find(public).map_err(|error| TrustError::Agent {
            path: path.to_owned(),
            what,
            reason: error.to_string(),
        })?;
        Ok(Self { private: Private::InAgent(agent), public })
    }

    /// Writes the private key as PKCS#8 PEM, mode 0600, into a directory that is made (0700) if it
    /// is missing.
    ///
    /// # Errors
    /// [`TrustError::Exists`] rather than overwriting anything; [`TrustError::NotAnIdentity`] if
    /// the private key is in an ssh-agent, where it stays; else the system call that failed.
    pub fn save(&self, path: &Path) -> Result<(), TrustError> {
        let Private::Here(pair) = &self.private else {
            let what = "the private key is in an ssh-agent".to_owned();
            return Err(TrustError::NotAnIdentity { path: path.to_owned(), what });
        };
        safe_file::create_private(path, to_pem(pair).as_bytes())
    }

    /// Public key of the identity.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Key that signs TLS handshakes.
    pub(crate) fn signing_key(&self) -> Arc<dyn SigningKey> {
        match &self.private {
            Private::Here(pair) => sign::any_eddsa_type(&to_pkcs8(pair)).expect("an identity is an Ed25519 key"),
            Private::InAgent(key) => Arc::new(key.clone()),
        }
    }

    /// Signs a message that says itself what it is for: see [`crate::FileSignature`].
    ///
    /// # Errors
    /// See [`TrustError`].
    pub(crate) fn sign(&self, message: &[u8]) -> Result<[u8; 64], TrustError> {
        let not_signed = |reason: String| TrustError::NotSigned { reason };
        let bytes = match &self.private {
            Private::Here(pair) => pair.sign(message).as_ref().to_vec(),
            Private::InAgent(key) => key.signature(message).map_err(|error| not_signed(error.to_string()))?,
        };
        bytes.try_into().map_err(|_| not_signed("the signature has not 64 bytes".to_owned()))
    }

    /// Identity whose key pair is in memory.
    fn new(pair: Ed25519KeyPair) -> Self {
        let bytes = pair.public_key().as_ref().try_into().expect("Ed25519 public keys have 32 bytes");
        Self { public: PublicKey::from_bytes(bytes), private: Private::Here(pair) }
    }
}

impl Found {
    /// Reads a key file. A file with a private key must not be readable by other users.
    fn read(path: &Path) -> Result<Self, TrustError> {
        let file = KeyFile::read(path)?;
        let wrong = |what: String| TrustError::NotAnIdentity { path: path.to_owned(), what };
        let text = file.content.trim_ascii_start();
        if text.starts_with(OPENSSH) {
            file.check_private(path)?;
            return Self::of_openssh(text).map_err(wrong);
        }
        // Anything may stand before a PEM block.
        if !text.windows(BEGIN.len()).any(|window| window == BEGIN) {
            let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let public = std::str::from_utf8(line).map_err(|_| wrong("it is no text".to_owned()))?;
            return public.parse().map(Self::Public).map_err(|error: TrustError| wrong(error.to_string()));
        }
        file.check_private(path)?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(text).map_err(|error| wrong(error.to_string()))?;
        let pair = Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| wrong(error.to_string()))?;
        Ok(Self::Pair(pair))
    }

    /// Parses a private key in OpenSSH's form; of an encrypted one, the public half.
    fn of_openssh(text: &[u8]) -> Result<Self, String> {
        let key = PrivateKey::from_openssh(text).map_err(|error| error.to_string())?;
        let Some(public) = key.public_key().key_data().ed25519() else {
            return Err(format!("it is a key of type {}, only Ed25519 is used", key.algorithm()));
        };
        if key.is_encrypted() {
            return Ok(Self::Encrypted(PublicKey::from_bytes(public.0)));
        }
        let pair = key.key_data().ed25519().ok_or("its two halves are of different types")?;
        let pair = Ed25519KeyPair::from_seed_and_public_key(pair.private.as_ref(), pair.public.as_ref());
        pair.map(Self::Pair).map_err(|_| "its two halves do not belong together".to_owned())
    }
}

fn to_pkcs8(pair: &Ed25519KeyPair) -> PrivatePkcs8KeyDer<'static> {
    let document = pair.to_pkcs8v1().expect("a key pair in memory can be encoded");
    PrivatePkcs8KeyDer::from(document.as_ref().to_vec())
}

fn to_pem(pair: &Ed25519KeyPair) -> String {
    // 48 bytes of DER are 64 characters: one line.
    let body = STANDARD.encode(to_pkcs8(pair).secret_pkcs8_der());
    format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn survives_its_file_with_private_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/identity");
        let identity = Identity::generate();
        identity.save(&path).unwrap();
        assert_eq!(Identity::load(&path).unwrap().public(), identity.public());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o7777, 0o700);
    }

    #[test]
    fn never_overwrites() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity");
        let first = Identity::generate();
        first.save(&path).unwrap();
        assert!(matches!(Identity::generate().save(&path), Err(TrustError::Exists { .. })));
        assert_eq!(Identity::load(&path).unwrap().public(), first.public());
    }

    #[test]
    fn refuses_a_key_that_others_can_read_and_says_chmod() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity");
        Identity::generate().save(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Identity::load(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn refuses_a_key_that_belongs_to_somebody_else() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: giving a file away needs root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity");
        Identity::generate().save(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let error = Identity::load(&path).unwrap_err().to_string();
        assert!(error.contains("12345") && error.contains("keygen"), "{error}");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        Identity::load(&path).unwrap();
    }

    #[test]
    fn reads_what_openssl_writes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity");
        // Example of RFC 8410 section 10.3.
        let text = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
        safe_file::create_private(&path, text.as_bytes()).unwrap();
        let identity = Identity::load(&path).unwrap();
        let again = directory.path().join("again");
        identity.save(&again).unwrap();
        assert_eq!(fs::read_to_string(again).unwrap(), text);
        assert_eq!(identity.public().to_string(), "icdc-ed25519 Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=");
    }

    /// Made by `ssh-keygen -t ed25519`, the second one with a passphrase.
    const SSH_PRIVATE: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\nQyNTUxOQAAACAhcrr3QHiHcL9ftzIp8qrxrYa6R9qHN/Lm8uF7aOLbpwAAAJgNuvxXDbr8\nVwAAAAtzc2gtZWQyNTUxOQAAACAhcrr3QHiHcL9ftzIp8qrxrYa6R9qHN/Lm8uF7aOLbpw\nAAAECwA0zwsF7uCdyZTGVFXHeToyYodQSPn2fNbEFFC7v3PCFyuvdAeIdwv1+3MinyqvGt\nhrpH2oc38uby4Xto4tunAAAAD3NvbWVvbmVAZXhhbXBsZQECAwQFBg==\n-----END OPENSSH PRIVATE KEY-----\n";
    const SSH_PUBLIC: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICFyuvdAeIdwv1+3MinyqvGthrpH2oc38uby4Xto4tun someone@example";
    const SSH_ENCRYPTED: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABAmm8qQ2x\n/oSsbM4K83iXcbAAAAEAAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIIWeiVOGH1jG5cv/\n/XMNV0LPm4OMKR3uwrT/DfhSYC+cAAAAkKwIbCZE0+Lsa9ek4nSN34shVxpVj2kR6eD3mL\nF9tVMumhvttOfPQ+kJWCLtpUamtCfuWZja/8EOVZ0oGHH7kFZ0H143RL0X6T1LhrnUXnqE\n2CsYl7SY5VPmHGxngvVRi2GE52r+zZ/wVF6lvO+QOYLkqWWTx+uFnwiVItUJl9sW99KHfg\nIYdMLQGmJrwvkxyg==\n-----END OPENSSH PRIVATE KEY-----\n";

    #[test]
    fn reads_what_ssh_keygen_writes_unless_it_is_encrypted_or_only_public() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            safe_file::create_private(&path, text.as_bytes()).unwrap();
            path
        };
        let path = file("id", SSH_PRIVATE);
        let identity = Identity::load(&path).unwrap();
        assert_eq!(identity.public(), SSH_PUBLIC.parse().unwrap());
        assert_eq!(Identity::load_with_agent(&path).unwrap().public(), identity.public());
        // What TLS signs with is the key that the file has.
        let again = directory.path().join("again");
        identity.save(&again).unwrap();
        assert_eq!(Identity::load(&again).unwrap().public(), identity.public());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Identity::load(&path), Err(TrustError::Exposed { .. })));
        assert!(matches!(Identity::load_with_agent(&path), Err(TrustError::Exposed { .. })));
        let refused = |name: &str, text: &str| Identity::load(&file(name, text)).unwrap_err().to_string();
        assert!(refused("encrypted", SSH_ENCRYPTED).contains("passphrase"));
        assert!(refused("public", SSH_PUBLIC).contains("a public key"));
        let half = SSH_PRIVATE.len() / 2;
        assert!(refused("half", &SSH_PRIVATE[..half]).contains("OpenSSH form"));
    }

    #[test]
    fn refuses_what_is_not_a_key() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("empty", ""),
            ("text", "hello"),
            ("pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        ] {
            let path = directory.path().join(name);
            safe_file::create_private(&path, text.as_bytes()).unwrap();
            assert!(matches!(Identity::load(&path), Err(TrustError::NotAnIdentity { .. })), "{name}");
        }
        assert!(matches!(Identity::load(&directory.path().join("none")), Err(TrustError::Io { .. })));
    }
}
