//! Links over pipes.

use std::io::{PipeReader, PipeWriter, Write as _, pipe};

use icdc_disk::pool::BlockPool;
use icdc_protocol::Message;
use icdc_protocol::frame;
use icdc_protocol::limits::MAX_HEAD;
use icdc_units::Span;

use super::{block, length, receive_all, spawn};
use crate::{Link, LinkError, stdio_link};

/// A link whose far ends of the pipes are in the test's hands.
fn bare() -> (Link, PipeWriter, PipeReader) {
    let (reader, feed) = pipe().unwrap();
    let (drain, writer) = pipe().unwrap();
    (stdio_link(reader, writer, "the far side", None).unwrap(), feed, drain)
}

fn pair() -> (Link, Link) {
    let (first_reader, first_writer) = pipe().unwrap();
    let (second_reader, second_writer) = pipe().unwrap();
    let link = |reader, writer| stdio_link(reader, writer, "the far side", None).unwrap();
    (link(first_reader, second_writer), link(second_reader, first_writer))
}

#[test]
fn messages_larger_than_the_pipe_go_both_ways_and_the_end_is_orderly() {
    let (mut a, mut b) = pair();
    let pool = BlockPool::new(1).unwrap();
    let texts: Vec<_> = [0, 1, 4096, 65_536, 1_000_000].map(|length| Message::Relay(vec![9; length])).into();
    let sent = texts.clone();
    let sending = spawn(move || {
        for message in sent {
            a.outlet.send(message.into()).unwrap();
        }
        a.outlet.flush().unwrap();
        a.inlet
    });
    for expected in &texts {
        assert_eq!(b.inlet.receive(&pool).unwrap().message, *expected);
    }
    assert!(matches!(b.inlet.receive(&pool), Err(LinkError::Closed)));
    let mut back = sending.join().unwrap();
    b.outlet.send(Message::Ping.into()).unwrap();
    drop(b);
    assert_eq!(back.receive(&pool).unwrap().message, Message::Ping, "what waits is sent when the outlet is dropped");
    assert!(matches!(back.receive(&pool), Err(LinkError::Closed)));
}

#[test]
fn an_end_within_a_frame_is_a_cut() {
    let (link, mut feed, _drain) = bare();
    let mut bytes = Vec::new();
    frame::encode(&Message::Relay(vec![1; 100]), 0, &mut bytes).unwrap();
    feed.write_all(&bytes[..50]).unwrap();
    drop(feed);
    assert!(matches!(receive_all(link.inlet, length), (0, LinkError::Cut { .. })));
}

#[test]
fn payloads_are_refused_both_ways_and_so_is_garbage() {
    let (mut link, mut feed, _drain) = bare();
    let pool = BlockPool::new(1).unwrap();
    assert!(matches!(link.outlet.send(block(0, 10, &pool)), Err(LinkError::Protocol(_))));
    let mut bytes = Vec::new();
    frame::encode(&block(0, 10, &pool).message, 10, &mut bytes).unwrap();
    feed.write_all(&bytes).unwrap();
    feed.write_all(&[0; 10]).unwrap();
    assert!(matches!(receive_all(link.inlet, length), (0, LinkError::Protocol(_))));

    let (link, mut feed, _drain) = bare();
    feed.write_all(b"Last login: Monday\r\nbash: icdc: command not found\r\n").unwrap();
    assert!(matches!(receive_all(link.inlet, length), (0, LinkError::Protocol(_))));
}

#[test]
fn a_message_that_fits_in_no_frame_is_not_sent() {
    let (mut link, _feed, _drain) = bare();
    let too_long = Message::Relay(vec![0; MAX_HEAD + 1]);
    assert!(matches!(link.outlet.send(too_long.into()), Err(LinkError::Unsendable(_))));
}

#[test]
fn shutdown_wakes_a_waiting_sender_and_a_waiting_receiver() {
    let (mut link, _feed, _drain) = bare();
    let control = link.control.clone();
    let inlet = spawn(move || receive_all(link.inlet, length));
    let outlet = spawn(move || {
        loop {
            if let Err(error) = link.outlet.send(Message::Relay(vec![0; 10_000]).into()) {
                return error;
            }
        }
    });
    control.shutdown();
    assert!(matches!(inlet.join().unwrap(), (0, LinkError::Stopped)));
    assert!(matches!(outlet.join().unwrap(), LinkError::Stopped));
}

#[test]
fn silence_beyond_the_limit_is_told() {
    let (reader, _feed) = pipe().unwrap();
    let (_drain, writer) = pipe().unwrap();
    let link = stdio_link(reader, writer, "the far side", Some(Span::from_millis(50))).unwrap();
    assert!(matches!(receive_all(link.inlet, length), (0, LinkError::Silent { .. })));
}
