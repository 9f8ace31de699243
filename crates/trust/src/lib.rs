//! Trust between parties: identities, lists of trusted keys, and the TLS configurations made of
//! them.
//!
//! A party is its Ed25519 public key; there are no names, certificates or authorities. TLS 1.3 runs
//! with raw public keys (RFC 7250) on both sides, and each side says which keys it accepts: one
//! exact key (ssh mode, where ssh carried it), what `known_hosts` holds (client of a daemon), or
//! what `authorized_keys` holds (daemon). Keys of OpenSSH are the same keys, and an ssh-agent may
//! sign with them. There is no anonymous mode, no resumption and no early
//! data.
//!
//! Neighbours: `transfer` runs the handshakes and the daemon, `cli` makes identities; `protocol`
//! below says which protocol a handshake is for.
//!
//! ```
//! use icdc_trust::{Identity, ServerPin, client_config, server_config};
//!
//! let (server, client) = (Identity::generate(), Identity::generate());
//! let admitted = client.public();
//! let listening = server_config(&server, move |key| *key == admitted);
//! let connecting = client_config(&client, ServerPin::Exact(server.public()));
//! # let _ = (listening, connecting);
//! ```

#![forbid(unsafe_code)]

mod agent;
mod authorized_keys;
mod error;
mod identity;
mod known_hosts;
mod paths;
mod public_key;
mod safe_file;
mod sshsig;
mod tls;

pub use authorized_keys::{Access, AuthorizedKeys, Grant, Limits, Owner, Sources};
pub use error::TrustError;
pub use identity::Identity;
pub use known_hosts::{DEFAULT_PORT, HostKey, KnownHosts};
pub use paths::Paths;
pub use public_key::PublicKey;
pub use safe_file::{is_own, open_settings};
pub use sshsig::{FileHash, FileSignature, NotASignature};
pub use tls::{
    KeyRejected, ServerPin, VerifyServer, client_config, explain, peer_key, server_config, server_name, suite_names,
};
