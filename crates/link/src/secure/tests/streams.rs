//! Links between two honest ends.

use std::panic::{AssertUnwindSafe, catch_unwind};

use icdc_disk::pool::{BLOCK_SIZE, BlockPool};
use icdc_protocol::Message;
use icdc_tcp::clock;
use icdc_trust::{Identity, ServerPin, client_config, server_config};
use icdc_units::{Rate, Span};

use super::{Sniffer, configs, handshake, pair, pause, proxied, settings, sockets};
use crate::secure::{SecureSettings, secure_client_with, secure_server_with};
use crate::tests::{length, receive_all, send_all, spawn, whole_block};
use crate::{LinkError, Parcel};

#[test]
fn gigabytes_arrive_as_they_were_sent_in_both_directions_at_once() {
    let (client, server) = pair();
    let there = spawn(move || send_all(client.outlet, 256, whole_block));
    let back = spawn(move || send_all(server.outlet, 500, length));
    let answer = spawn(move || receive_all(client.inlet, length));
    assert!(matches!(receive_all(server.inlet, whole_block), (256, LinkError::Closed)));
    assert!(matches!(answer.join().unwrap(), (500, LinkError::Closed)));
    there.join().unwrap().unwrap();
    back.join().unwrap().unwrap();
    let times = client.control.send_times();
    assert!(times.encrypt > Span::ZERO && times.socket > Span::ZERO, "{times:?}");
}

#[test]
fn each_end_knows_the_other_and_the_control_sees_the_connection() {
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let (client, server) = (client_config(&alice, ServerPin::Exact(bob.public())), server_config(&bob, |_| true));
    let (client, server) = handshake(client, server);
    let (client, server) = (client.unwrap(), server.join().unwrap().unwrap());
    assert_eq!(client.control.peer_key(), Some(bob.public()));
    assert_eq!(server.control.peer_key(), Some(alice.public()));
    assert_eq!(client.control.cipher(), server.control.cipher());
    assert!(client.control.peer().starts_with("127.0.0.1:"), "{}", client.control.peer());
    assert!(client.control.tcp_info().is_some());
    client.control.set_rate(Some(Rate::from_bits_per_second(123_000_000)));
    let limit = client.control.tcp_info().unwrap().max_pacing_rate;
    assert_eq!(limit, Some(Rate::from_bits_per_second(123_000_000)));
}

#[test]
fn small_messages_do_not_wait_for_each_other() {
    let (mut client, mut server) = pair();
    let echo = spawn(move || {
        let pool = BlockPool::new(1).unwrap();
        while let Ok(parcel) = server.inlet.receive(&pool) {
            server.outlet.send(parcel).unwrap();
            server.outlet.flush().unwrap();
        }
    });
    let pool = BlockPool::new(1).unwrap();
    let start = clock::now();
    const ROUNDS: u64 = 500;
    for _ in 0..ROUNDS {
        client.outlet.send(Message::Ping.into()).unwrap();
        client.outlet.flush().unwrap();
        assert_eq!(client.inlet.receive(&pool).unwrap().message, Message::Ping);
    }
    // One delayed acknowledgement (40 ms) per round would be 20 s.
    let elapsed = clock::now() - start;
    assert!(elapsed < Span::from_millis(4 * ROUNDS), "{ROUNDS} round trips took {elapsed}");
    drop(client);
    echo.join().unwrap();
}

#[test]
fn messages_wait_for_the_flush_and_payloads_do_not() {
    let sniffer = Sniffer::default();
    let (mut client, mut server) = proxied(settings(), sniffer.tamper());
    let pool = BlockPool::new(2).unwrap();
    for _ in 0..100 {
        client.outlet.send(Message::Ping.into()).unwrap();
    }
    pause(50);
    assert_eq!(sniffer.count(900), 0, "messages are collected");
    client.outlet.flush().unwrap();
    assert_eq!(server.inlet.receive(&pool).unwrap().message, Message::Ping);
    assert_eq!(sniffer.count(900), 1, "messages that were collected share a record");
    client.outlet.send(crate::tests::block(0, BLOCK_SIZE, &pool)).unwrap();
    for _ in 1..100 {
        server.inlet.receive(&pool).unwrap();
    }
    let Parcel { payload, .. } = server.inlet.receive(&pool).unwrap();
    assert_eq!(payload.map(|payload| payload.len()), Some(BLOCK_SIZE));
}

#[test]
fn keys_are_renewed_in_both_directions_within_a_stream() {
    let sniffer = Sniffer::default();
    let few = SecureSettings { records_per_key: 3, ..settings() };
    let (client, server) = proxied(few, sniffer.tamper());
    let there = spawn(move || send_all(client.outlet, 60, length));
    let back = spawn(move || send_all(server.outlet, 60, length));
    let answer = spawn(move || receive_all(client.inlet, length));
    assert!(matches!(receive_all(server.inlet, length), (60, LinkError::Closed)));
    assert!(matches!(answer.join().unwrap(), (60, LinkError::Closed)));
    there.join().unwrap().unwrap();
    back.join().unwrap().unwrap();
    // A key update is a handshake record of 5 bytes, and no frame is that short.
    let (updates, full) = (sniffer.count(5), sniffer.count(1 << 14));
    assert!(full > 4000 && updates >= full / 3, "{updates} key updates for more than {full} records");
}

#[test]
fn shutdown_wakes_both_halves_and_cuts_the_peer() {
    let (mut client, server) = pair();
    let control = client.control.clone();
    let inlet = spawn(move || receive_all(client.inlet, length));
    let outlet = spawn(move || {
        let pool = BlockPool::new(1).unwrap();
        loop {
            // Nobody reads, so it ends up waiting for the socket.
            if let Err(error) = client.outlet.send(crate::tests::block(0, BLOCK_SIZE, &pool)) {
                return error;
            }
        }
    });
    pause(100);
    control.shutdown();
    assert!(matches!(inlet.join().unwrap(), (0, LinkError::Stopped)));
    assert!(matches!(outlet.join().unwrap(), LinkError::Stopped));
    let pool = BlockPool::new(1).unwrap();
    let mut inlet = server.inlet;
    let end = loop {
        if let Err(error) = inlet.receive(&pool) {
            break error;
        }
    };
    assert!(matches!(end, LinkError::Cut { .. }), "{end}");
}

#[test]
fn closing_the_pool_stops_a_receive_that_waits_for_a_block() {
    let (mut client, mut server) = pair();
    client.outlet.send(crate::tests::block(0, 100, &BlockPool::new(1).unwrap())).unwrap();
    let pool = BlockPool::new(1).unwrap();
    let held = pool.take().unwrap();
    let receiving = {
        let pool = pool.clone();
        spawn(move || server.inlet.receive(&pool).map(drop))
    };
    pause(50);
    pool.close();
    assert!(matches!(receiving.join().unwrap(), Err(LinkError::Stopped)));
    drop(held);
}

#[test]
fn the_farewell_arrives_though_the_closing_end_has_not_read_everything() {
    let (mut client, mut server) = pair();
    let pool = BlockPool::new(1).unwrap();
    for _ in 0..1000 {
        server.outlet.send(Message::Relay(vec![0; 1000]).into()).unwrap();
    }
    server.outlet.flush().unwrap();
    client.outlet.send(Message::End.into()).unwrap();
    let closing = spawn(move || drop(client));
    pause(100);
    assert_eq!(server.inlet.receive(&pool).unwrap().message, Message::End);
    assert!(matches!(server.inlet.receive(&pool), Err(LinkError::Closed)));
    drop(server);
    closing.join().unwrap();
}

#[test]
fn a_sender_that_panics_does_not_look_like_one_that_is_done() {
    let (client, server) = pair();
    let outlet = AssertUnwindSafe(client.outlet);
    let _ = catch_unwind(move || {
        let _outlet = outlet;
        panic!("the sending thread fails");
    });
    assert!(matches!(receive_all(server.inlet, length), (0, LinkError::Cut { .. })));
}

#[test]
fn a_silent_peer_is_given_up_in_time() {
    let patience = SecureSettings { dead_after: Span::from_millis(200), ..settings() };
    let sockets = sockets();
    let (client, server) = configs();
    let accepting = spawn(move || secure_server_with(sockets.1, server, super::DEADLINE, patience));
    let _client = secure_client_with(sockets.0, client, super::DEADLINE, settings()).unwrap();
    let server = accepting.join().unwrap().unwrap();
    let start = clock::now();
    let control = server.control.clone();
    assert_eq!(control.silence(), Span::ZERO);
    assert!(matches!(receive_all(server.inlet, length), (0, LinkError::Silent { .. })));
    assert!(control.silence() > Span::from_millis(150), "{}", control.silence());
    let elapsed = clock::now() - start;
    assert!(elapsed >= Span::from_millis(190) && elapsed < Span::from_secs(2), "{elapsed}");
}
