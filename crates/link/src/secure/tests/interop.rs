//! Links whose peer is rustls' own connection: the record layer of this crate is TLS 1.3, not only
//! its own mirror image.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::DerefMut;
use std::sync::Arc;

use icdc_disk::pool::BlockPool;
use icdc_protocol::Message;
use icdc_protocol::frame::{self, Prefix};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ServerSessionMemoryCache;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SideData, SignatureScheme, StreamOwned,
};

use super::{DEADLINE, configs, settings, sockets};
use crate::secure::{SecureSettings, secure_client_with, secure_server_with};
use crate::tests::{block, length, noise, spawn};
use crate::{Link, LinkError, Parcel};

/// The bytes of a block's frame.
fn block_frame(index: u32, length: usize) -> Vec<u8> {
    let parcel = block(index, length, &BlockPool::new(1).unwrap());
    let mut bytes = Vec::new();
    frame::encode(&parcel.message, length, &mut bytes).unwrap();
    bytes.extend_from_slice(&noise(index)[..length]);
    bytes
}

fn read_frame(stream: &mut impl Read) -> (Message, Vec<u8>) {
    let mut prefix = [0; 8];
    stream.read_exact(&mut prefix).unwrap();
    let Prefix { head, payload } = Prefix::parse(&prefix).unwrap();
    let mut bytes = vec![0; head + payload];
    stream.read_exact(&mut bytes).unwrap();
    let data = bytes.split_off(head);
    (frame::decode_head(&bytes, payload).unwrap(), data)
}

type Stream<C> = StreamOwned<C, TcpStream>;

/// rustls' connecting end, and the link that listened.
fn with_rustls_client(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    settings: SecureSettings,
) -> (Stream<ClientConnection>, Link) {
    let (near, far) = sockets();
    let accepting = spawn(move || secure_server_with(far, server, DEADLINE, settings));
    let connection = ClientConnection::new(client, icdc_trust::server_name()).unwrap();
    let mut stream = StreamOwned::new(connection, near);
    stream.conn.complete_io(&mut stream.sock).unwrap();
    (stream, accepting.join().unwrap().unwrap())
}

/// rustls' listening end, and the link that connected.
fn with_rustls_server(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    settings: SecureSettings,
) -> (Stream<ServerConnection>, Link) {
    let (near, far) = sockets();
    let accepting = spawn(move || {
        let mut stream = StreamOwned::new(ServerConnection::new(server).unwrap(), far);
        stream.conn.complete_io(&mut stream.sock).unwrap();
        stream
    });
    let link = secure_client_with(near, client, DEADLINE, settings).unwrap();
    (accepting.join().unwrap(), link)
}

#[test]
fn rustls_and_the_link_understand_each_other_through_key_updates_of_both() {
    let (client, server) = configs();
    let few = SecureSettings { records_per_key: 5, ..settings() };
    converse(with_rustls_client(Arc::clone(&client), Arc::clone(&server), few));
    converse(with_rustls_server(client, server, few));
}

fn converse<C, S>((mut rustls, mut link): (Stream<C>, Link))
where
    C: DerefMut<Target = ConnectionCommon<S>> + Send + 'static,
    S: SideData,
{
    let pool = BlockPool::new(2).unwrap();
    for index in 0..20 {
        let length = length(index);
        // rustls puts heads and payloads into the same records, at any offset.
        let sending = {
            let frames = block_frame(index, length);
            spawn(move || {
                rustls.write_all(&frames).unwrap();
                // Its key update asks for one of the link, which precedes the link's next data.
                rustls.conn.refresh_traffic_keys().unwrap();
                rustls.flush().unwrap();
                rustls
            })
        };
        let Parcel { payload, .. } = link.inlet.receive(&pool).unwrap();
        assert!(*payload.unwrap() == noise(index)[..length], "block {index} differs");
        rustls = sending.join().unwrap();

        let parcel = block(index, length, &pool);
        let mut outlet = link.outlet;
        let answering = spawn(move || {
            // Padding carries nothing, but the key update that is owed precedes it too.
            outlet.fill().unwrap();
            outlet.send(parcel).unwrap();
            outlet
        });
        let (message, data) = read_frame(&mut rustls);
        assert!(matches!(message, Message::Block(_)));
        assert!(data == noise(index)[..length], "answer {index} differs");
        link.outlet = answering.join().unwrap();
    }
    rustls.conn.send_close_notify();
    rustls.flush().unwrap();
    assert!(matches!(link.inlet.receive(&pool), Err(LinkError::Closed)));
    drop(link);
    assert_eq!(rustls.read(&mut [0; 16]).unwrap(), 0, "the link's farewell is a close_notify");
}

#[test]
fn a_cut_is_told_from_a_farewell_by_rustls_and_by_the_link() {
    let (client, server) = configs();
    is_cut(with_rustls_client(Arc::clone(&client), Arc::clone(&server), settings()));
    is_cut(with_rustls_server(Arc::clone(&client), Arc::clone(&server), settings()));
    cuts(with_rustls_client(Arc::clone(&client), Arc::clone(&server), settings()));
    cuts(with_rustls_server(client, server, settings()));
}

/// rustls is gone within a frame.
fn is_cut<C, S>((mut rustls, mut link): (Stream<C>, Link))
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    rustls.write_all(&block_frame(1, 100_000)[..50_000]).unwrap();
    drop(rustls);
    let end = link.inlet.receive(&BlockPool::new(1).unwrap()).map(drop);
    assert!(matches!(end, Err(LinkError::Cut { .. })), "{end:?}");
}

/// The link is shut down behind a frame.
fn cuts<C, S>((mut rustls, mut link): (Stream<C>, Link))
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    link.outlet.send(block(1, 100_000, &BlockPool::new(1).unwrap())).unwrap();
    assert!(read_frame(&mut rustls).1 == noise(1)[..100_000]);
    link.control.shutdown();
    drop(link);
    let end = rustls.read(&mut [0; 16]).map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::UnexpectedEof));
}

#[test]
fn both_suites_work() {
    for suite in [cipher_suite::TLS13_AES_128_GCM_SHA256, cipher_suite::TLS13_CHACHA20_POLY1305_SHA256] {
        let (client, server) = configs();
        let provider = CryptoProvider { cipher_suites: vec![suite], ..aws_lc_rs::default_provider() };
        let builder = ClientConfig::builder_with_provider(provider.into()).with_protocol_versions(&[&TLS13]).unwrap();
        let verifier = Arc::new(AnyServer(aws_lc_rs::default_provider().signature_verification_algorithms));
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut only = builder.with_client_cert_resolver(client.client_auth_cert_resolver.clone());
        only.alpn_protocols.clone_from(&client.alpn_protocols);
        let (mut rustls, mut link) = with_rustls_client(Arc::new(only), server, settings());
        assert_eq!(link.control.cipher(), suite.suite().as_str());
        let pool = BlockPool::new(1).unwrap();
        rustls.write_all(&block_frame(1, 100_000)).unwrap();
        rustls.flush().unwrap();
        assert_eq!(link.inlet.receive(&pool).unwrap().payload_length(), 100_000);
        link.outlet.send(block(1, 100_000, &pool)).unwrap();
        assert!(read_frame(&mut rustls).1 == noise(1)[..100_000]);
    }
}

#[test]
fn session_tickets_are_ignored() {
    let (client, server) = configs();
    let mut generous = ServerConfig::clone(&server);
    generous.send_tls13_tickets = 3;
    generous.session_storage = ServerSessionMemoryCache::new(10);
    let (near, far) = sockets();
    let accepting = spawn(move || secure_server_with(far, Arc::new(generous), DEADLINE, settings()).unwrap());
    let mut link = secure_client_with(near, client, DEADLINE, settings()).unwrap();
    let mut server = accepting.join().unwrap();
    server.outlet.send(Message::Ping.into()).unwrap();
    server.outlet.flush().unwrap();
    assert_eq!(link.inlet.receive(&BlockPool::new(1).unwrap()).unwrap().message, Message::Ping);
}

#[test]
fn a_peer_without_our_protocol_name_is_refused() {
    let (client, server) = configs();
    let mut nameless = ClientConfig::clone(&client);
    nameless.alpn_protocols.clear();
    let (near, far) = sockets();
    let accepting = spawn(move || secure_server_with(far, server, DEADLINE, settings()));
    let client = secure_client_with(near, Arc::new(nameless), DEADLINE, settings());
    assert!(matches!(client, Err(LinkError::Handshake { .. })), "{client:?}");
    assert!(accepting.join().unwrap().is_err());
}

/// Takes any server, as long as it holds the key that it shows.
#[derive(Debug)]
struct AnyServer(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        unreachable!("TLS 1.3 only")
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature_with_raw_key(message, &cert.as_ref().into(), dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
