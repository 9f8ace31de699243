//! Links that leave the process that made them. The other process is this one, too: what goes to it
//! goes by bytes and a descriptor all the same.

use std::io::Read as _;
use std::net::TcpStream;

use icdc_disk::pool::BlockPool;
use icdc_protocol::{Message, VERSION};

use super::{DEADLINE, configs, settings, sockets};
use crate::secure::{HandedOver, LinkState, SecureSettings, secure_client_with, secure_server_with};
use crate::tests::{length, receive_all, send_all, spawn};
use crate::{Link, LinkError};

/// A client that takes new keys often, and its server.
fn pair() -> (Link, Link) {
    let ((client, server), (near, far)) = (configs(), sockets());
    let accepting = spawn(move || secure_server_with(far, server, DEADLINE, settings()));
    let often = SecureSettings { records_per_key: 4, ..settings() };
    (secure_client_with(near, client, DEADLINE, often).unwrap(), accepting.join().unwrap().unwrap())
}

fn receive_pings(link: &mut Link, count: usize) {
    let pool = BlockPool::new(1).unwrap();
    for _ in 0..count {
        assert_eq!(link.inlet.receive(&pool).unwrap().message, Message::Ping);
    }
}

fn send_pings(link: &mut Link, count: usize) {
    for _ in 0..count {
        link.outlet.send(Message::Ping.into()).unwrap();
        link.outlet.flush().unwrap();
    }
}

/// State of a link as it arrives at the other process.
fn travelled(state: &LinkState) -> LinkState {
    postcard::from_bytes(&postcard::to_allocvec(state).unwrap()).unwrap()
}

#[test]
fn a_link_goes_on_in_another_process_with_all_that_was_under_way() {
    let (mut client, mut server) = pair();
    // Key updates before, and behind; two messages in one record of which one has been taken.
    send_pings(&mut client, 30);
    client.outlet.send(Message::Ping.into()).unwrap();
    client.outlet.send(Message::Ping.into()).unwrap();
    client.outlet.flush().unwrap();
    receive_pings(&mut server, 31);
    send_pings(&mut server, 3);
    let peer = server.control.peer_key();
    let there = spawn(move || send_all(client.outlet, 40, length));
    let HandedOver { state, socket, control } = server.hand_over().unwrap();
    let mut server = Link::take_over(travelled(&state), socket).unwrap();
    assert_eq!((server.control.peer_key(), server.control.cipher()), (peer, control.cipher()));
    assert_eq!(server.control.peer(), control.peer());
    assert_eq!((server.control.version(), control.version()), (Some(VERSION), Some(VERSION)));
    receive_pings(&mut server, 1);
    let back = spawn(move || send_all(server.outlet, 40, length));
    let pool = BlockPool::new(1).unwrap();
    for _ in 0..3 {
        assert_eq!(client.inlet.receive(&pool).unwrap().message, Message::Ping);
    }
    let answer = spawn(move || receive_all(client.inlet, length));
    let (count, end) = receive_all(server.inlet, length);
    assert!(count == 40 && matches!(end, LinkError::Closed), "{count}: {end}");
    let (count, end) = answer.join().unwrap();
    assert!(count == 40 && matches!(end, LinkError::Closed), "{count}: {end}");
    there.join().unwrap().unwrap();
    back.join().unwrap().unwrap();
}

#[test]
fn the_control_that_stayed_ends_the_connection_wherever_the_link_is() {
    let (client, server) = pair();
    let HandedOver { state, socket, control } = server.hand_over().unwrap();
    let mut server = Link::take_over(travelled(&state), socket).unwrap();
    control.shutdown();
    let pool = BlockPool::new(1).unwrap();
    assert!(matches!(server.inlet.receive(&pool), Err(LinkError::Cut { .. })));
    assert!(matches!(receive_all(client.inlet, length), (0, LinkError::Cut { .. })));
}

#[test]
fn what_is_handed_over_and_taken_by_nobody_ends_without_a_farewell() {
    let (client, server) = pair();
    drop(server.hand_over().unwrap());
    assert!(matches!(receive_all(client.inlet, length), (0, LinkError::Cut { .. })));
}

#[test]
fn a_link_that_cannot_leave_is_not_handed_over() {
    let (near, _far) = crate::memory_pair();
    assert!(near.hand_over().is_err());
    // In the middle of a frame: what was taken of it would be lost.
    let (mut client, mut server) = pair();
    client.outlet.send(Message::Relay(vec![b'x'; 30_000]).into()).unwrap();
    client.outlet.flush().unwrap();
    let pool = BlockPool::new(1).unwrap();
    assert!(server.inlet.receive(&pool).is_ok());
    server.outlet.send(Message::Ping.into()).unwrap();
    assert!(server.hand_over().is_err(), "a message waits for the flush");
}

#[test]
fn a_state_that_makes_no_sense_is_refused() {
    let (_client, server) = pair();
    let HandedOver { mut state, socket, .. } = server.hand_over().unwrap();
    state.inlet.unopened = vec![0; (1 << 20) + 1];
    let socket = TcpStream::from(socket);
    assert!(Link::take_over(travelled(&state), socket.try_clone().unwrap().into()).is_err());
    state.inlet.unopened.clear();
    state.inlet.clear = vec![0; 1 << 20];
    assert!(Link::take_over(travelled(&state), socket.try_clone().unwrap().into()).is_err());
    socket.set_nonblocking(true).unwrap();
    assert!((&socket).read(&mut [0; 1]).is_err(), "nothing was sent or ended");
    // As much as one read takes is none too much.
    (state.inlet.clear, state.inlet.unopened) = (Vec::new(), vec![0; 1 << 20]);
    assert!(Link::take_over(state, socket.into()).is_ok());
}
