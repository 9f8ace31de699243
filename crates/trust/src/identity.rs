//! Identities: a private key and its file.

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;

use crate::{PublicKey, TrustError, safe_file};

/// An identity file is 119 bytes; anything much longer is something else.
const MAX_FILE: u64 = 4096;

/// An Ed25519 key pair: what a party proves to be.
pub struct Identity {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl Identity {
    /// A new key from the system's random numbers.
    ///
    /// # Panics
    /// If the operating system has no random numbers.
    #[must_use]
    pub fn generate() -> Self {
        Self::new(Ed25519KeyPair::generate().expect("the operating system provides random numbers"))
    }

    /// Reads a PKCS#8 PEM file as [`Identity::save`] or `openssl genpkey -algorithm ed25519` writes
    /// it.
    ///
    /// # Errors
    /// A file that other users can read or own, or that is not such a key.
    pub fn load(path: &Path) -> Result<Self, TrustError> {
        let file = safe_file::open_private(path)?;
        let mut text = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut text).map_err(|error| TrustError::io(path, "read", error))?;
        let wrong = |what: String| TrustError::NotAnIdentity { path: path.to_owned(), what };
        let der = PrivatePkcs8KeyDer::from_pem_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let pair = Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| wrong(error.to_string()))?;
        Ok(Self::new(pair))
    }

    /// Writes the private key as PKCS#8 PEM, mode 0600, into a directory that is made (0700) if it
    /// is missing.
    ///
    /// # Errors
    /// [`TrustError::Exists`] rather than overwriting anything; else the system call that failed.
    pub fn save(&self, path: &Path) -> Result<(), TrustError> {
        safe_file::create_private(path, self.to_pem().as_bytes())
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn to_pkcs8(&self) -> PrivatePkcs8KeyDer<'static> {
        let document = self.pair.to_pkcs8v1().expect("a key pair in memory can be encoded");
        PrivatePkcs8KeyDer::from(document.as_ref().to_vec())
    }

    fn new(pair: Ed25519KeyPair) -> Self {
        let bytes = pair.public_key().as_ref().try_into().expect("Ed25519 public keys have 32 bytes");
        Self { public: PublicKey::from_bytes(bytes), pair }
    }

    fn to_pem(&self) -> String {
        // 48 bytes of DER are 64 characters: one line.
        let body = STANDARD.encode(self.to_pkcs8().secret_pkcs8_der());
        format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
    }
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
        assert_eq!(identity.to_pem(), text);
        assert_eq!(identity.public().to_string(), "icdc-ed25519 Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=");
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
