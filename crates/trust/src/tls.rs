//! TLS 1.3 with raw public keys on both sides.
//!
//! The handshake proves possession of both private keys (the signatures are verified, Ed25519
//! only); the verifiers below only decide whether a key is welcome. Key exchange is X25519 with
//! ML-KEM-768 where both sides have it, so that recorded traffic stays closed to later quantum
//! computers. The configurations let the owner of a connection take its traffic secrets, because
//! `transfer` runs its own record layer after the handshake.

use std::fmt;
use std::sync::Arc;

use icdc_protocol::Versions;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, CommonState, DigitallySignedStruct, DistinguishedName, Error,
    OtherError, PeerIncompatible, ServerConfig, SignatureScheme, SupportedCipherSuite,
};
use rustls_pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};

use crate::{Identity, PublicKey};

/// Check of the server's key by a client.
pub enum ServerPin {
    /// Accepts this key only.
    Exact(PublicKey),
    /// Accepts any key that this function accepts; its error says why not, and what to do.
    Verify(VerifyServer),
}

/// Function that decides about the key of a server during the handshake.
pub type VerifyServer = Box<dyn Fn(&PublicKey) -> Result<(), String> + Send + Sync>;

/// Error: this end did not accept the other end's key.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the other end's key {fingerprint} is not accepted: {reason}")]
pub struct KeyRejected {
    /// Fingerprint of the key that was shown.
    pub fingerprint: String,
    /// Reason, and what the user can do.
    pub reason: String,
}

/// TLS configuration of a connecting end, which shows the key of `identity` and accepts only a
/// server whose key passes the check `expected`.
#[must_use]
pub fn client_config(identity: &Identity, expected: ServerPin) -> Arc<ClientConfig> {
    let provider = Arc::new(provider());
    let verifier = Verifier::new(&provider, move |key| match &expected {
        ServerPin::Exact(pinned) if pinned == key => Ok(()),
        ServerPin::Exact(pinned) => Err(format!("{} was expected", pinned.fingerprint())),
        ServerPin::Verify(verify) => verify(key),
    });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3 suites")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified_key(identity))));
    config.alpn_protocols = Versions::OURS.names();
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_secret_extraction = true;
    Arc::new(config)
}

/// TLS configuration of a listening end that admits the keys for which `accept` is true.
#[must_use]
pub fn server_config(
    identity: &Identity,
    accept: impl Fn(&PublicKey) -> bool + Send + Sync + 'static,
) -> Arc<ServerConfig> {
    let provider = Arc::new(provider());
    let verifier = Verifier::new(&provider, move |key| match accept(key) {
        true => Ok(()),
        false => Err("it is not among the authorized keys".into()),
    });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has TLS 1.3 suites")
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified_key(identity))));
    config.alpn_protocols = Versions::OURS.names();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.enable_secret_extraction = true;
    Arc::new(config)
}

/// Placeholder for the server's name, which `rustls` requires at the client; it is neither sent
/// nor checked.
#[must_use]
pub fn server_name() -> ServerName<'static> {
    ServerName::try_from("icdc.invalid").expect("a valid DNS name")
}

/// Public key that the other end has proved to hold; `None` before the handshake has come that
/// far.
#[must_use]
pub fn peer_key(connection: &CommonState) -> Option<PublicKey> {
    PublicKey::from_spki(connection.peer_certificates()?.first()?)
}

/// Names of the TLS cipher suites in the order of preference on this machine.
#[must_use]
pub fn suite_names() -> Vec<String> {
    suites().iter().filter_map(|suite| suite.suite().as_str()).map(str::to_owned).collect()
}

/// Text of a failed handshake's error for the user, with the remedy.
#[must_use]
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(reason))) => reason.to_string(),
        Error::AlertReceived(AlertDescription::AccessDenied | AlertDescription::CertificateUnknown) => {
            "the other end does not accept this key: have its public key added to the authorized_keys there".into()
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) | Error::NoApplicationProtocol => {
            let ours = Versions::OURS;
            format!("the other end does not speak {ours}: is it another service, or another release of icdc?")
        }
        Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension)
        | Error::NoCertificatesPresented => "the other end showed no raw public key: it is not icdc".into(),
        // An agent that has not signed.
        Error::General(reason) => reason.clone(),
        Error::InvalidMessage(_) => "the other end does not speak TLS 1.3: is it another service?".into(),
        other => other.to_string(),
    }
}

/// Cryptography for all TLS connections: cipher suites, and key exchange with ML-KEM-768 or
/// without.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: suites(),
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
        ..default_provider()
    }
}

/// TLS cipher suites in the order of preference: AES first where the processor has instructions for
/// it.
fn suites() -> Vec<SupportedCipherSuite> {
    let (aes, chacha) = (cipher_suite::TLS13_AES_128_GCM_SHA256, cipher_suite::TLS13_CHACHA20_POLY1305_SHA256);
    if has_aes() { vec![aes, chacha] } else { vec![chacha, aes] }
}

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

/// The identity as `rustls` shows it in handshakes: a raw public key, and the key that signs.
fn certified_key(identity: &Identity) -> Arc<CertifiedKey> {
    let shown = CertificateDer::from(identity.public().to_spki());
    Arc::new(CertifiedKey::new(vec![shown], identity.signing_key()))
}

/// Certificate verifier: checks the other end's key by `judge`, and the signature that proves its
/// possession.
struct Verifier<F> {
    judge: F,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<F: Fn(&PublicKey) -> Result<(), String>> Verifier<F> {
    fn new(provider: &CryptoProvider, judge: F) -> Self {
        Self { judge, algorithms: provider.signature_verification_algorithms }
    }

    /// Checks the key that the other end shows; an error unless it is a single Ed25519 key that
    /// `judge` accepts.
    fn verify_key(&self, shown: &CertificateDer<'_>, more: &[CertificateDer<'_>]) -> Result<(), Error> {
        let key = PublicKey::from_spki(shown).filter(|_| more.is_empty());
        let key = key.ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        (self.judge)(&key).map_err(|reason| {
            let rejected = KeyRejected { fingerprint: key.fingerprint(), reason };
            CertificateError::Other(OtherError(Arc::new(rejected))).into()
        })
    }

    /// Verifies the other end's signature of the handshake, which must be one of Ed25519.
    fn verify_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if signature.scheme != SignatureScheme::ED25519 {
            return Err(Error::InvalidCertificate(CertificateError::BadSignature));
        }
        let spki = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &spki, signature, &self.algorithms)
    }
}

impl<F> fmt::Debug for Verifier<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl<F: Fn(&PublicKey) -> Result<(), String> + Send + Sync> ServerCertVerifier for Verifier<F> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify_key(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl<F: Fn(&PublicKey) -> Result<(), String> + Send + Sync> ClientCertVerifier for Verifier<F> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify_key(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
