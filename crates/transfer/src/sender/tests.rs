//! Both ends of a session in one process, with connections that fail.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::{Arc, Mutex};

use crossbeam_channel::unbounded;
use icdc_disk::tree::Tree;
use icdc_link::memory_pair;
use icdc_protocol::Features;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{Preserve, ReceiveOptions};
use icdc_tcp::Privileges;

use super::*;
use crate::account::Account;
use crate::event::{Event, EventSink};
use crate::receiver;

#[test]
fn what_goes_over_a_connection_that_the_receiver_never_had_goes_over_another() {
    let directory = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(directory.path().join("source")).unwrap();
    file.set_len(16 * BLOCK_SIZE as u64 + 1).unwrap();
    let tree = Tree::open(directory.path()).unwrap();
    let preserve = Preserve { sparse: false, ..Preserve::default() };
    let send = SendOptions { streams: Some(2), preserve, ..SendOptions::default() };
    let receive = ReceiveOptions::default();
    let (near, far) = memory_pair();
    let (lost, _) = memory_pair();
    let (join, joined) = unbounded();
    join.send(FurtherLink { number: 1, link: lost }).unwrap();
    let (_, nobody) = unbounded();
    let told = Arc::new(Mutex::new(Vec::new()));
    let events: EventSink = {
        let told = told.clone();
        Arc::new(move |event| {
            if let Event::Notice { text } = event {
                told.lock().unwrap().push(text);
            }
        })
    };
    let silent: EventSink = Arc::new(|_| {});
    let (sending, receiving) = (Account::new(clock::now()), Account::new(clock::now()));
    let stop = StopSignal::new();
    let (sending, receiving) = (
        Run { account: &sending, events: &events, stop: &stop, ceiling: None },
        Run { account: &receiving, events: &silent, stop: &stop, ceiling: None },
    );
    let order = receiver::ReceiveRequest {
        transfer: [1; 16],
        tree: &tree,
        destination: b"copy",
        asked: None,
        ends_here: false,
        listed: None,
        options: &receive,
        output: None,
        allowed: receiver::Allowed::default(),
        peer: Features::OURS,
        notary: None,
    };
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| receiver::run(far, Joining { joined: &nobody, wanted: None }, &order, receiving).unwrap());
        let sources = find_sources(&tree, &[b"source".to_vec()], &send, &[0; 16]);
        run(
            SendingLink { link: near, tuned: None, peer: Features::OURS, privileges: Privileges::own() },
            Joining { joined: &joined, wanted: None },
            sources,
            &send,
            sending,
        )
        .unwrap()
    });
    assert_eq!((sent.counts.files_done, sent.counts.failed), (1, 0));
    let told = told.lock().unwrap();
    assert!(
        told.iter().any(|text| text.contains("connection 1 was lost (the connection with this process was cut)")),
        "{told:?}"
    );
    let copied = std::fs::metadata(directory.path().join("copy")).unwrap();
    assert_eq!(copied.len(), file.metadata().unwrap().len());
}
