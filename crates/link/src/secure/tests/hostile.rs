//! Links whose path or peer does what it must not.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use icdc_disk::pool::BlockPool;
use icdc_protocol::Message;
use icdc_protocol::frame;
use icdc_record::format::{self, CLOSE_NOTIFY, HEADER, KEY_UPDATE, Kind, OVERHEAD, message};
use icdc_record::{NextKey, RecordKey};
use icdc_tcp::clock;
use icdc_trust::{Identity, ServerPin, client_config, server_config};
use icdc_units::Span;

use super::{DEADLINE, carrier, configs, handshake, listen, pair, pause, proxied, settings, sockets};
use crate::secure::handshake::{self as raw, Established};
use crate::secure::{secure_client, secure_server, secure_server_with};
use crate::tests::{length, receive_all, send_all, spawn, whole_block};
use crate::{Link, LinkError};

#[test]
fn a_bit_changed_on_the_way_is_an_error_and_never_data() {
    // Bytes of the stream behind the handshake: in the middle of records, and through some header's
    // five.
    let somewhere = [20_000_u64, 30_001, 1_234_567, 9_000_000];
    let within_a_record = (16_406 * 100..16_406 * 100 + 16_406).step_by(3001);
    let headers = 16_406 * 200 + 1_500..16_406 * 200 + 3_500;
    for position in somewhere.into_iter().chain(within_a_record).chain(headers.step_by(97)) {
        let flip = move |offset: u64, bytes: &mut [u8]| {
            if let Some(byte) = position.checked_sub(offset).and_then(|at| bytes.get_mut(at as usize)) {
                *byte ^= 4;
            }
            bytes.len()
        };
        let (client, server) = proxied(settings(), Box::new(flip));
        let sending = spawn(move || send_all(client.outlet, 3, whole_block));
        // receive_all compares everything that is handed on before the error.
        let (count, end) = receive_all(server.inlet, whole_block);
        assert!(matches!(end, LinkError::Corrupt { .. } | LinkError::Cut { .. }), "byte {position}: {end}");
        assert_eq!(u64::from(count), position / (4 << 20), "byte {position}");
        drop((server.outlet, server.control));
        let _ = sending.join().unwrap();
    }
}

#[test]
fn a_stream_that_ends_without_farewell_is_cut_wherever_it_ends() {
    for position in [5_000, 5_001, 16_406 * 10, 4_200_000, 5_000_000] {
        let cut = move |offset: u64, bytes: &mut [u8]| bytes.len().min((position - offset) as usize);
        let (client, server) = proxied(settings(), Box::new(cut));
        let sending = spawn(move || send_all(client.outlet, 3, whole_block));
        let (_, end) = receive_all(server.inlet, whole_block);
        assert!(matches!(end, LinkError::Cut { .. }), "byte {position}: {end}");
        drop((server.outlet, server.control));
        let _ = sending.join().unwrap();
    }
}

#[test]
fn a_reset_is_a_cut_for_both_halves() {
    let (listener, address) = listen();
    let stream = TcpStream::connect(address).unwrap();
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    let (client, server) = configs();
    let accepting = spawn(move || secure_server(listener.accept().unwrap().0, server, DEADLINE));
    let established = raw::client(&carrier(&stream), "peer", client, DEADLINE).unwrap();
    let mut server = accepting.join().unwrap().unwrap();
    drop((established, stream));
    assert!(matches!(receive_all(server.inlet, length), (0, LinkError::Cut { .. })));
    let pool = BlockPool::new(1).unwrap();
    let error = server.outlet.send(crate::tests::block(0, 100, &pool)).unwrap_err();
    assert!(matches!(error, LinkError::Cut { .. }), "{error}");
    assert!(matches!(server.outlet.flush(), Err(LinkError::Broken)));
}

#[test]
fn a_client_that_dribbles_does_not_stretch_the_deadline() {
    let (mut client, server) = sockets();
    let dribbling = spawn(move || {
        // A ClientHello of 512 bytes, for which this pace would take a minute.
        let hello = [&[22, 3, 1, 2, 0][..], &[1; 512]].concat();
        hello
            .chunks(1)
            .take_while(|byte| {
                pause(20);
                client.write_all(byte).is_ok()
            })
            .count()
    });
    let start = clock::now();
    let result = secure_server(server, configs().1, Span::from_millis(300));
    let elapsed = clock::now() - start;
    assert!(matches!(result, Err(LinkError::Late { .. })), "{result:?}");
    assert!(elapsed >= Span::from_millis(290) && elapsed < Span::from_millis(1500), "{elapsed}");
    assert!(dribbling.join().unwrap() < 517);
}

#[test]
fn a_server_that_says_nothing_is_late_and_one_that_is_gone_is_cut() {
    let (client, server) = sockets();
    let result = secure_client(client, configs().0, Span::from_millis(100));
    assert!(matches!(result, Err(LinkError::Late { .. })), "{result:?}");
    drop(server);
    let (client, server) = sockets();
    drop(server);
    assert!(matches!(secure_client(client, configs().0, DEADLINE), Err(LinkError::Cut { .. })));
}

#[test]
fn what_is_not_tls_is_refused_at_once() {
    for greeting in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.9\r\n", &[0; 64], &[255; 64]] {
        let (mut client, server) = sockets();
        client.write_all(greeting).unwrap();
        let result = secure_server(server, configs().1, DEADLINE);
        assert!(matches!(result, Err(LinkError::Handshake { .. })), "{greeting:?}: {result:?}");
    }
}

#[test]
fn a_client_whose_key_is_not_admitted_learns_why() {
    let bob = Identity::generate();
    let client = client_config(&Identity::generate(), ServerPin::Exact(bob.public()));
    let (client, server) = handshake(client, server_config(&bob, |_| false));
    let refused = server.join().unwrap();
    assert!(
        matches!(&refused, Err(LinkError::Handshake { reason, .. }) if reason.contains("authorized")),
        "{refused:?}"
    );
    let (count, end) = receive_all(client.unwrap().inlet, length);
    assert!(matches!((count, &end), (0, LinkError::KeyRefused { .. })), "{end}");
}

#[test]
fn a_server_with_another_key_is_refused_and_both_keys_are_named() {
    let (alice, bob, mallory) = (Identity::generate(), Identity::generate(), Identity::generate());
    let client = client_config(&alice, ServerPin::Exact(bob.public()));
    let (client, server) = handshake(client, server_config(&mallory, |_| true));
    let error = client.unwrap_err().to_string();
    assert!(error.contains(&bob.public().fingerprint()), "{error}");
    assert!(error.contains(&mallory.public().fingerprint()), "{error}");
    let error = server.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("does not accept this key"), "{error}");
}

/// A link and a peer that can send it any record.
struct Rogue {
    stream: TcpStream,
    transmit: RecordKey,
    receive: RecordKey,
    next_transmit: NextKey,
    next_receive: NextKey,
    link: Link,
}

impl Rogue {
    fn new() -> Self {
        let (stream, accepted) = sockets();
        let (client, server) = configs();
        let accepting = spawn(move || secure_server_with(accepted, server, DEADLINE, settings()));
        let established = raw::client(&carrier(&stream), "peer", client, DEADLINE).unwrap();
        let Established { transmit, receive, .. } = established;
        let (next_transmit, next_receive) = (transmit.next_keys(), receive.next_keys());
        let (transmit, receive) = (transmit.record_key().unwrap(), receive.record_key().unwrap());
        Self { stream, transmit, receive, next_transmit, next_receive, link: accepting.join().unwrap().unwrap() }
    }

    fn record(&mut self, kind: Kind, content: &[u8]) {
        let mut record = vec![0; content.len() + OVERHEAD];
        self.transmit.seal(kind, content, 0, &mut record).unwrap();
        // The link may have given up before.
        let _ = self.stream.write_all(&record);
    }

    /// The next record that the link sends.
    fn receive(&mut self) -> (Kind, Vec<u8>) {
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header).unwrap();
        let mut body = vec![0; format::parse_header(&header).unwrap()];
        self.stream.read_exact(&mut body).unwrap();
        let mut inner = vec![0; format::plaintext_length(body.len())];
        let (kind, length) = self.receive.open(&header, &body, &mut inner).unwrap();
        inner.truncate(length);
        (kind, inner)
    }

    fn end(self) -> LinkError {
        receive_all(self.link.inlet, length).1
    }
}

/// Kind and content.
type Record<'a> = (Kind, &'a [u8]);

/// Error of a link that receives these records.
fn verdict(records: &[Record<'_>]) -> LinkError {
    let mut rogue = Rogue::new();
    for (kind, content) in records {
        rogue.record(*kind, content);
    }
    rogue.end()
}

#[test]
fn records_that_break_the_rules_end_the_link() {
    let update = &KEY_UPDATE[..];
    let cases: [(&str, Vec<Record<'_>>); 10] = [
        ("empty handshake record", vec![(Kind::Handshake, b"")]),
        ("handshake message in pieces", vec![(Kind::Handshake, &update[..4])]),
        ("cut message header", vec![(Kind::Handshake, &update[..2])]),
        ("key update with another behind it", vec![(Kind::Handshake, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0])]),
        ("key update of another value", vec![(Kind::Handshake, &[24, 0, 0, 1, 2])]),
        ("session ticket to a server", vec![(Kind::Handshake, &[4, 0, 0, 1, 0])]),
        ("client hello", vec![(Kind::Handshake, &[1, 0, 0, 1, 0])]),
        ("alert of one byte", vec![(Kind::Alert, &[0])]),
        ("empty records without end", vec![(Kind::Data, b""); 40]),
        ("farewell within a frame", vec![(Kind::Data, &[9, 0, 0]), (Kind::Alert, &CLOSE_NOTIFY)]),
    ];
    for (name, records) in cases {
        let end = verdict(&records);
        assert!(matches!(end, LinkError::Protocol(_)), "{name}: {end:?}");
    }
}

#[test]
fn a_key_update_that_asks_for_another_is_answered_before_the_next_data_and_only_once() {
    let mut rogue = Rogue::new();
    let pool = BlockPool::new(1).unwrap();
    let mut ping = Vec::new();
    frame::encode(&Message::Ping, 0, &mut ping).unwrap();
    rogue.record(Kind::Handshake, &[message::KEY_UPDATE, 0, 0, 1, 1]);
    rogue.transmit = (rogue.next_transmit)().unwrap();
    rogue.record(Kind::Data, &ping);
    assert_eq!(rogue.link.inlet.receive(&pool).unwrap().message, Message::Ping);
    for _ in 0..2 {
        rogue.link.outlet.send(Message::Ping.into()).unwrap();
        rogue.link.outlet.flush().unwrap();
    }
    assert_eq!(rogue.receive(), (Kind::Handshake, KEY_UPDATE.to_vec()));
    rogue.receive = (rogue.next_receive)().unwrap();
    assert_eq!(rogue.receive(), (Kind::Data, ping.clone()));
    assert_eq!(rogue.receive(), (Kind::Data, ping));
}

#[test]
fn padding_is_data_before_which_a_key_update_is_answered() {
    let mut rogue = Rogue::new();
    let mut ping = Vec::new();
    frame::encode(&Message::Ping, 0, &mut ping).unwrap();
    rogue.record(Kind::Handshake, &[message::KEY_UPDATE, 0, 0, 1, 1]);
    rogue.transmit = (rogue.next_transmit)().unwrap();
    rogue.record(Kind::Data, &ping);
    assert_eq!(rogue.link.inlet.receive(&BlockPool::new(1).unwrap()).unwrap().message, Message::Ping);
    rogue.link.outlet.fill().unwrap();
    assert_eq!(rogue.receive(), (Kind::Handshake, KEY_UPDATE.to_vec()));
    rogue.receive = (rogue.next_receive)().unwrap();
    assert_eq!(rogue.receive(), (Kind::Data, vec![]));
}

#[test]
fn alerts_are_told_apart() {
    assert!(matches!(verdict(&[(Kind::Alert, &CLOSE_NOTIFY)]), LinkError::Closed));
    assert!(matches!(verdict(&[(Kind::Alert, &[2, 0])]), LinkError::Closed), "the level means nothing");
    let end = verdict(&[(Kind::Alert, &[2, 80])]);
    assert!(end.to_string().contains("InternalError"), "{end}");
    assert!(matches!(verdict(&[(Kind::Alert, &[2, 49])]), LinkError::KeyRefused { .. }));
}

#[test]
fn frames_that_break_the_protocol_end_the_link() {
    let huge_head = [0xff; 8];
    let mut no_payload_allowed = Vec::new();
    frame::encode(&Message::Ping, 100, &mut no_payload_allowed).unwrap();
    let garbage = [8, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    for content in [&huge_head[..], &no_payload_allowed, &garbage] {
        let end = verdict(&[(Kind::Data, content)]);
        assert!(end.breaks_protocol(), "{content:?}: {end:?}");
        assert!(end.to_string().matches("broke the protocol").count() <= 1, "{content:?}: {end}");
    }
}

#[test]
fn clear_records_after_the_handshake_are_not_believed() {
    // A farewell, a change of cipher and data, all without encryption.
    for record in [
        &[21, 3, 3, 0, 2, 1, 0][..],
        &[20, 3, 3, 0, 1, 1],
        &[23, 3, 3, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let mut rogue = Rogue::new();
        rogue.stream.write_all(record).unwrap();
        let end = rogue.end();
        assert!(matches!(end, LinkError::Corrupt { .. }), "{record:?}: {end:?}");
    }
}

#[test]
fn a_link_that_fails_lets_the_peer_know_at_once() {
    let mut rogue = Rogue::new();
    // A record that nobody has sealed.
    rogue.stream.write_all(&[&[23, 3, 3, 0, 64][..], &[0; 64]].concat()).unwrap();
    let mut inlet = rogue.link.inlet;
    let error = inlet.receive(&BlockPool::new(1).unwrap()).map(|_| ()).unwrap_err();
    assert!(matches!(error, LinkError::Corrupt { .. }), "{error}");
    // The halves are still there; only the socket is shut.
    rogue.stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    assert!(matches!(rogue.stream.read(&mut [0; 16]), Ok(0) | Err(_)));
    let error = rogue.stream.read(&mut [0; 16]).err().map(|error| error.kind());
    assert_ne!(error, Some(std::io::ErrorKind::WouldBlock), "the peer still waits");
}

#[test]
fn a_peer_that_breaks_a_rule_can_be_told_which() {
    let mut rogue = Rogue::new();
    rogue.record(Kind::Handshake, b"");
    let error = rogue.link.inlet.receive(&BlockPool::new(1).unwrap()).map(|_| ()).unwrap_err();
    assert!(matches!(error, LinkError::Protocol(_)), "{error}");
    rogue.link.outlet.send(Message::Ping.into()).unwrap();
    rogue.link.outlet.flush().unwrap();
    assert_eq!(rogue.receive().0, Kind::Data);
}

#[test]
fn a_peer_that_never_reads_does_not_keep_an_outlet_from_being_dropped() {
    let (mut client, _server) = pair();
    client.outlet.send(Message::Ping.into()).unwrap();
    let pool = BlockPool::new(1).unwrap();
    let control = client.control.clone();
    let sending = spawn(move || {
        while client.outlet.send(crate::tests::block(0, 4 << 20, &pool)).is_ok() {}
        drop(client);
    });
    pause(100);
    control.shutdown();
    sending.join().unwrap();
}
