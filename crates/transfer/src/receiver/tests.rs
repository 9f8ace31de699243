//! The receiving end, against a sender that each test speaks for, over links in memory.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::Path;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

use crossbeam_channel::{Sender as Channel, unbounded};
use icdc_disk::tree::Tree;
use icdc_link::{LinkError, Parcel, memory_pair};
use icdc_protocol::digest::block_value;
use icdc_protocol::limits::PART_SIZE;
use icdc_protocol::message::{
    Begin, BlockHeader, Done, Entry, EntryKind, FileDigest, FileEnd, Parent, Part, Source, SourceKind, Want,
};
use icdc_stop::StopSignal;

use super::*;
use crate::event::EventSink;
use crate::further_links::FurtherLink;

/// Two blocks and a byte: more than goes in one, and a last block that is short.
const SIZE: usize = 2 * BLOCK_SIZE + 1;
const BLOCKS: u32 = 3;

/// Contents of the file that is sent.
fn contents() -> Vec<u8> {
    (0..SIZE).map(|offset| (offset / 1000 % 251) as u8).collect()
}

/// The block of this number, and its header.
fn block(contents: &[u8], index: u32) -> (BlockHeader, &[u8]) {
    let offset = index as usize * BLOCK_SIZE;
    let data = &contents[offset..SIZE.min(offset + BLOCK_SIZE)];
    (BlockHeader { id: 0, index, value: block_value(offset as u64, data, SIZE as u64), ranges: Vec::new() }, data)
}

/// A receiving session that runs, with the sender's ends of its links.
struct Session<'scope> {
    near: Link,
    pool: BlockPool,
    join: Channel<FurtherLink>,
    stop: StopSignal,
    receiver: ScopedJoinHandle<'scope, Result<Received, SessionError>>,
}

impl<'scope> Session<'scope> {
    /// A session that receives into `directory`, of a run of one file that it has just been offered.
    fn begin(scope: &'scope Scope<'scope, '_>, directory: &'scope Path) -> Self {
        let (near, far) = memory_pair();
        let (join, joined) = unbounded();
        let stop = StopSignal::new();
        let asked = stop.clone();
        let receiver = scope.spawn(move || {
            let tree = Tree::open(directory).unwrap();
            let options = ReceiveOptions { resume: true, ..ReceiveOptions::default() };
            let request = ReceiveRequest {
                transfer: [1; 16],
                tree: &tree,
                destination: b"copy",
                asked: None,
                ends_here: false,
                listed: None,
                options: &options,
                output: None,
                allowed: Allowed::default(),
                peer: icdc_protocol::Features::NONE,
                notary: None,
            };
            let silent: EventSink = Arc::new(|_| {});
            let account = Account::new(clock::now());
            let run = Run { account: &account, events: &silent, stop: &asked, ceiling: None };
            super::run(far, Joining { joined: &joined, wanted: None }, &request, run)
        });
        let mut session = Self { near, pool: BlockPool::new(4).unwrap(), join, stop, receiver };
        let source = Source { name: b"source".to_vec(), kind: SourceKind::Item, identity: None };
        session.say(Message::Begin(Begin { job: [7; 32], sources: vec![source] }));
        let kind = EntryKind::File { size: SIZE as u64, version: [3; 16], sparse: false, linked: false };
        session.say(Message::Entries(vec![Entry {
            id: 0,
            parent: Parent::Source(0),
            name: Vec::new(),
            kind,
            mode: 0o644,
            mtime_seconds: 0,
            mtime_nanos: 0,
            owner: None,
            xattrs: Vec::new(),
        }]));
        session.say(Message::End);
        session
    }

    fn say(&mut self, message: Message) {
        self.near.outlet.send(message.into()).unwrap();
        self.near.outlet.flush().unwrap();
    }

    /// Messages of the receiver until one fits; panics if it breaks off before.
    fn hear<T>(&mut self, fits: impl Fn(&Message) -> Option<T>) -> T {
        loop {
            let message = self.near.inlet.receive(&self.pool).unwrap().message;
            if let Message::Ready(_) = &message {
                self.say(Message::Confirmed);
            }
            if let Some(found) = fits(&message) {
                return found;
            }
        }
    }

    /// The receiver's request for blocks of the file.
    fn want(&mut self) -> Want {
        self.hear(|message| match message {
            Message::Wants(wants) => wants.answers.first().copied(),
            _ => None,
        })
    }

    fn parcel(&self, message: Message, data: &[u8]) -> Parcel {
        let mut block = self.pool.take().unwrap();
        block[..data.len()].copy_from_slice(data);
        Parcel { message, payload: Some((block, data.len()).into()) }
    }

    /// Sends a block over the first connection.
    fn send(&mut self, header: BlockHeader, data: &[u8]) {
        let parcel = self.parcel(Message::Block(header), data);
        self.near.outlet.send(parcel).unwrap();
    }

    /// Ends the file, of which this session has sent `blocks`, and says goodbye once it is
    /// done.
    fn finish(mut self, contents: &[u8], blocks: u32) -> Result<Received, SessionError> {
        let digest = FileDigest::Blake3(*blake3::hash(contents).as_bytes());
        self.say(Message::FileEnd(FileEnd { id: 0, blocks, outcome: Ok(digest) }));
        let done = self.hear(|message| match message {
            Message::Done(done) => done.first().cloned(),
            _ => None,
        });
        assert_eq!(done, Done { id: 0, outcome: Ok(Some(digest)) });
        self.say(Message::Goodbye(Goodbye {
            tree: [0; 32],
            bytes_sent: SIZE as u64,
            retransmitted_segments: 0,
            failed: 0,
            limited_by: Vec::new(),
            uncompressed: None,
        }));
        self.receiver.join().unwrap()
    }
}

#[test]
fn blocks_and_parts_that_come_over_two_connections_in_any_order_become_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let contents = contents();
    let received = std::thread::scope(|scope| {
        let mut session = Session::begin(scope, directory.path());
        assert_eq!(session.want(), Want::All);
        let (mut near, link) = memory_pair();
        session.join.send(FurtherLink { number: 1, link }).unwrap();
        let (header, data) = block(&contents, 1);
        let parts = (0..BLOCK_SIZE / PART_SIZE).rev().map(|number| {
            let (id, index, value) = (header.id, header.index, header.value);
            Part { id, index, value, length: BLOCK_SIZE as u32, number: number as u8 }
        });
        for (turn, part) in parts.enumerate() {
            let parcel = session.parcel(Message::Part(part), &data[part.range()]);
            let outlet = if turn % 2 == 0 { &mut near.outlet } else { &mut session.near.outlet };
            outlet.send(parcel).unwrap();
        }
        let (header, data) = block(&contents, 2);
        near.outlet.send(session.parcel(Message::Block(header), data)).unwrap();
        let (header, data) = block(&contents, 0);
        session.send(header, data);
        session.finish(&contents, BLOCKS).unwrap()
    });
    assert!(std::fs::read(directory.path().join("copy")).unwrap() == contents, "the copy differs");
    let Tally { files, bytes, durable, failed, resumed, .. } = received.tally;
    assert_eq!((files, failed, resumed), (1, 0, ByteCount::ZERO));
    assert_eq!([bytes, durable], [ByteCount::from(SIZE); 2]);
}

#[test]
fn a_block_without_its_digest_ends_the_session_and_nothing_is_published() {
    let directory = tempfile::tempdir().unwrap();
    let contents = contents();
    let (error, refusal) = std::thread::scope(|scope| {
        let mut session = Session::begin(scope, directory.path());
        session.want();
        let (header, data) = block(&contents, 0);
        session.send(BlockHeader { value: [0; 32], ..header }, data);
        session.near.outlet.flush().unwrap();
        let refusal = session.hear(|message| match message {
            Message::Abort(refusal) => Some(refusal.clone()),
            _ => None,
        });
        drop(session.near);
        (session.receiver.join().unwrap().unwrap_err(), refusal)
    });
    let reason = "block 0 of item 0 does not match its digest";
    assert_eq!(error, SessionError::Protocol(reason.to_owned()));
    assert_eq!(refusal.reason, format!("the other end broke the protocol: {reason}"));
    assert!(!directory.path().join("copy").exists());
}

#[test]
fn what_arrived_before_a_cut_is_kept_for_the_next_session() {
    let directory = tempfile::tempdir().unwrap();
    let contents = contents();
    std::thread::scope(|scope| {
        let mut session = Session::begin(scope, directory.path());
        session.want();
        let (header, data) = block(&contents, 1);
        session.send(header, data);
        session.near.outlet.flush().unwrap();
        // What was sent has arrived once the receiver counts it.
        session.hear(|message| match message {
            Message::Feedback(feedback) => (feedback.received >= BLOCK_SIZE as u64).then_some(()),
            _ => None,
        });
        session.near.control.shutdown();
        let error = session.receiver.join().unwrap().unwrap_err();
        assert!(matches!(error, SessionError::Cut(_)), "{error}");
    });
    assert!(!directory.path().join("copy").exists());
    let received = std::thread::scope(|scope| {
        let mut session = Session::begin(scope, directory.path());
        let held = session.hear(|message| match message {
            Message::Held(held) => Some((held.first, held.values.clone())),
            _ => None,
        });
        assert_eq!(held, (1, vec![block(&contents, 1).0.value]));
        assert_eq!(session.want(), Want::Rest);
        for index in [0, 2] {
            let (header, data) = block(&contents, index);
            session.send(header, data);
        }
        session.finish(&contents, 2).unwrap()
    });
    assert!(std::fs::read(directory.path().join("copy")).unwrap() == contents, "the copy differs");
    assert_eq!(received.tally.resumed, ByteCount::from(BLOCK_SIZE));
}

#[test]
fn the_users_stop_ends_the_session_and_the_sender_learns_it() {
    let directory = tempfile::tempdir().unwrap();
    let error = std::thread::scope(|scope| {
        let mut session = Session::begin(scope, directory.path());
        session.want();
        session.stop.request();
        session.hear(|message| matches!(message, Message::Interrupt).then_some(()));
        session.receiver.join().unwrap().unwrap_err()
    });
    assert_eq!(error, SessionError::Interrupted);
}

#[test]
fn a_second_connection_of_a_number_is_not_received_on() {
    let directory = tempfile::tempdir().unwrap();
    let contents = contents();
    std::thread::scope(|scope| {
        let mut session = Session::begin(scope, directory.path());
        session.want();
        let (_first, link) = memory_pair();
        session.join.send(FurtherLink { number: 1, link }).unwrap();
        let (mut second, link) = memory_pair();
        session.join.send(FurtherLink { number: 1, link }).unwrap();
        let end = second.inlet.receive(&session.pool).map(drop).unwrap_err();
        assert!(matches!(end, LinkError::Closed | LinkError::Cut { .. }), "{end}");
        for index in 0..BLOCKS {
            let (header, data) = block(&contents, index);
            session.send(header, data);
        }
        session.finish(&contents, BLOCKS).unwrap();
    });
    assert!(std::fs::read(directory.path().join("copy")).unwrap() == contents, "the copy differs");
}
