//! Handshakes between the configurations of this crate, in memory.

#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::sync::Arc;

use icdc_trust::{Identity, PublicKey, ServerPin, client_config, explain, peer_key, server_config, server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection};

/// Moves bytes between the two ends until both are done or one fails; the error and who had it.
fn shake(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> Result<(Connection, Connection), (&'static str, Error)> {
    let mut client = Connection::from(ClientConnection::new(client.clone(), server_name()).unwrap());
    let mut server = Connection::from(ServerConnection::new(server.clone()).unwrap());
    for _ in 0..10 {
        carry(&mut client, &mut server).map_err(|error| ("server", error))?;
        carry(&mut server, &mut client).map_err(|error| ("client", error))?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking(), "the handshake stalled");
    Ok((client, server))
}

fn carry(from: &mut Connection, to: &mut Connection) -> Result<(), Error> {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).unwrap();
    }
    let mut wire = wire.as_slice();
    while !wire.is_empty() {
        to.read_tls(&mut wire).unwrap();
        to.process_new_packets()?;
    }
    Ok(())
}

fn only(key: PublicKey) -> impl Fn(&PublicKey) -> bool + Send + Sync + 'static {
    move |shown| *shown == key
}

#[test]
fn both_ends_learn_the_other_key_over_tls_1_3_without_tickets() {
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let client = client_config(&alice, ServerPin::Exact(bob.public()));
    let (client, server) = shake(&client, &server_config(&bob, only(alice.public()))).unwrap();
    assert_eq!(peer_key(&client), Some(bob.public()));
    assert_eq!(peer_key(&server), Some(alice.public()));
    assert_eq!(client.alpn_protocol(), Some(&b"icdc/2"[..]));
    assert_eq!(server.alpn_protocol(), client.alpn_protocol());
    assert_eq!(client.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    assert_eq!(client.handshake_kind(), Some(rustls::HandshakeKind::Full));
    let group = client.negotiated_key_exchange_group().unwrap().name();
    assert_eq!(group, rustls::NamedGroup::X25519MLKEM768);
    let suite = client.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite.as_str().unwrap(), icdc_trust::suite_names()[0]);
    let Connection::Client(client) = client else { unreachable!() };
    assert_eq!(client.tls13_tickets_received(), 0);
}

#[test]
fn a_stranger_is_refused_by_the_server() {
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let client = client_config(&Identity::generate(), ServerPin::Exact(bob.public()));
    let (who, error) = shake(&client, &server_config(&bob, only(alice.public()))).unwrap_err();
    assert_eq!(who, "server");
    assert!(explain(&error).contains("authorized keys"), "{error}");
}

#[test]
fn another_server_is_refused_by_the_client_which_names_both_keys() {
    let (alice, bob, mallory) = (Identity::generate(), Identity::generate(), Identity::generate());
    let client = client_config(&alice, ServerPin::Exact(bob.public()));
    let (who, error) = shake(&client, &server_config(&mallory, |_| true)).unwrap_err();
    assert_eq!(who, "client");
    let text = explain(&error);
    assert!(text.contains(&bob.public().fingerprint()) && text.contains(&mallory.public().fingerprint()), "{text}");
}

#[test]
fn the_callers_verdict_counts_and_its_reason_is_kept() {
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let expected = bob.public();
    let pin = |verdict: Result<(), String>| {
        ServerPin::Verify(Box::new(move |key| {
            assert_eq!(*key, expected);
            verdict.clone()
        }))
    };
    let server = server_config(&bob, only(alice.public()));
    shake(&client_config(&alice, pin(Ok(()))), &server).unwrap();
    let (who, error) = shake(&client_config(&alice, pin(Err("line 7 differs".into()))), &server).unwrap_err();
    assert_eq!(who, "client");
    assert!(explain(&error).contains("line 7 differs"), "{error}");
}

/// A client that is not built by this crate, with this proof of identity (or none).
fn foreign_client(server: PublicKey, adjust: impl FnOnce(&mut ClientConfig)) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&client_config(&Identity::generate(), ServerPin::Exact(server)));
    adjust(&mut config);
    Arc::new(config)
}

#[test]
fn a_client_without_a_key_is_refused() {
    #[derive(Debug)]
    struct NoKey;
    impl rustls::client::ResolvesClientCert for NoKey {
        fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
            None
        }
        fn only_raw_public_keys(&self) -> bool {
            true
        }
        fn has_certs(&self) -> bool {
            false
        }
    }
    let bob = Identity::generate();
    let client = foreign_client(bob.public(), |config| config.client_auth_cert_resolver = Arc::new(NoKey));
    let (who, error) = shake(&client, &server_config(&bob, |_| true)).unwrap_err();
    assert_eq!((who, error), ("server", Error::NoCertificatesPresented));
}

#[test]
fn a_client_that_shows_a_key_it_does_not_hold_is_refused() {
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("identity");
    Identity::generate().save(&path).unwrap();
    let pem = std::fs::read(&path).unwrap();
    let other = <PrivatePkcs8KeyDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(&pem).unwrap();
    let signing = aws_lc_rs::default_provider().key_provider.load_private_key(PrivateKeyDer::Pkcs8(other)).unwrap();
    // Alice's public key with somebody else's private key.
    let mut spki = signing.public_key().unwrap().to_vec();
    spki[12..].copy_from_slice(alice.public().as_bytes());
    let forged = Arc::new(rustls::sign::CertifiedKey::new(vec![spki.into()], signing));
    let client = foreign_client(bob.public(), |config| {
        config.client_auth_cert_resolver = Arc::new(rustls::client::AlwaysResolvesClientRawPublicKeys::new(forged));
    });
    let (who, error) = shake(&client, &server_config(&bob, only(alice.public()))).unwrap_err();
    assert_eq!(who, "server");
    assert!(matches!(error, Error::InvalidCertificate(rustls::CertificateError::BadSignature)), "{error}");
}

#[test]
fn another_protocol_is_refused() {
    let bob = Identity::generate();
    let client = foreign_client(bob.public(), |config| config.alpn_protocols = vec![b"h2".to_vec()]);
    let (who, error) = shake(&client, &server_config(&bob, |_| true)).unwrap_err();
    assert_eq!((who, &error), ("server", &Error::NoApplicationProtocol));
    assert!(explain(&error).contains("icdc/2"));
}

#[test]
fn the_server_takes_the_highest_version_that_both_offer() {
    let bob = Identity::generate();
    let agreed = |theirs: &[&str]| {
        let names = theirs.iter().map(|name| name.as_bytes().to_vec()).collect();
        let client = foreign_client(bob.public(), |config| config.alpn_protocols = names);
        let (client, server) = shake(&client, &server_config(&bob, |_| true)).unwrap();
        assert_eq!(client.alpn_protocol(), server.alpn_protocol());
        String::from_utf8(client.alpn_protocol().unwrap().to_vec()).unwrap()
    };
    assert_eq!(agreed(&["icdc/4", "icdc/3", "icdc/2", "icdc"]), "icdc/2");
    assert_eq!(agreed(&["icdc", "icdc/2"]), "icdc/2", "the server's order counts");
    assert_eq!(agreed(&["icdc/4", "icdc/3", "icdc"]), "icdc", "they tell each other their versions");
}

#[test]
fn a_client_that_wants_certificates_is_refused() {
    let bob = Identity::generate();
    let provider: CryptoProvider = aws_lc_rs::default_provider();
    let client = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let (who, _) = shake(&Arc::new(client), &server_config(&bob, |_| true)).unwrap_err();
    assert_eq!(who, "server");
}
