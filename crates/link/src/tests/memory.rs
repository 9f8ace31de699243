//! Links within one process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use icdc_disk::pool::BlockPool;
use icdc_protocol::Message;

use super::{length, receive_all, send_all, spawn};
use crate::{LinkError, Parcel, memory_pair};

#[test]
fn carries_both_directions_and_closes_in_order() {
    let (a, b) = memory_pair();
    let there = spawn(move || send_all(a.outlet, 100, length));
    let back = spawn(move || send_all(b.outlet, 50, length));
    let answer = spawn(move || receive_all(a.inlet, length));
    let (count, end) = receive_all(b.inlet, length);
    assert!(matches!((count, end), (100, LinkError::Closed)));
    assert!(matches!(answer.join().unwrap(), (50, LinkError::Closed)));
    there.join().unwrap().unwrap();
    back.join().unwrap().unwrap();
}

#[test]
fn payloads_are_moved_not_copied() {
    let (mut a, mut b) = memory_pair();
    let pool = BlockPool::new(1).unwrap();
    let parcel = super::block(0, 100, &pool);
    let address = parcel.payload.as_ref().map(|payload| payload.as_ptr());
    a.outlet.send(parcel).unwrap();
    let parcel = b.inlet.receive(&BlockPool::new(1).unwrap()).unwrap();
    assert_eq!(parcel.payload.as_ref().map(|payload| payload.as_ptr()), address);
    assert_eq!(pool.in_use(), 1);
    drop(parcel);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn shutdown_wakes_a_waiting_sender_and_a_waiting_receiver() {
    let (mut a, mut b) = memory_pair();
    let control = a.control.clone();
    let inlet = spawn(move || receive_all(a.inlet, length));
    let outlet = spawn(move || {
        loop {
            if let Err(error) = a.outlet.send(Message::Ping.into()) {
                return error;
            }
        }
    });
    control.shutdown();
    assert!(matches!(inlet.join().unwrap(), (0, LinkError::Stopped)));
    assert!(matches!(outlet.join().unwrap(), LinkError::Stopped));
    let pool = BlockPool::new(1).unwrap();
    let end = std::iter::repeat_with(|| b.inlet.receive(&pool)).find_map(Result::err);
    assert!(matches!(end, Some(LinkError::Cut { .. })));
}

#[test]
fn what_was_sent_before_a_shutdown_arrives_before_its_end() {
    let (mut a, mut b) = memory_pair();
    let pool = BlockPool::new(3).unwrap();
    for number in 0..3 {
        a.outlet.send(super::block(number, 100, &pool)).unwrap();
    }
    b.outlet.send(Message::Ping.into()).unwrap();
    a.control.shutdown();
    for number in 0..3 {
        let Parcel { message, .. } = b.inlet.receive(&pool).unwrap();
        assert!(matches!(message, Message::Block(header) if header.index == number));
    }
    assert!(matches!(b.inlet.receive(&pool), Err(LinkError::Cut { .. })));
    assert!(matches!(a.inlet.receive(&pool), Err(LinkError::Stopped)), "its own end waits for nothing");
}

#[test]
fn a_peer_that_is_gone_is_a_cut_and_so_is_one_that_panics() {
    let (mut a, b) = memory_pair();
    drop(b);
    assert!(matches!(a.outlet.send(Message::Ping.into()), Err(LinkError::Cut { .. })));

    let (a, b) = memory_pair();
    let outlet = AssertUnwindSafe(a.outlet);
    let _ = catch_unwind(move || {
        let _outlet = outlet;
        panic!("the sending thread fails");
    });
    assert!(matches!(receive_all(b.inlet, length), (0, LinkError::Cut { .. })));
}
