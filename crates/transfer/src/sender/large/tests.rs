//! Files that change while they are read.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use crossbeam_channel::unbounded;
use icdc_disk::BlockPool;
use icdc_disk::tree::{Name, Tree};
use icdc_link::{Link, Parcel, memory_pair};
use icdc_protocol::Features;
use icdc_protocol::chunking::Chunking;
use icdc_protocol::limits::{BLOCK_SIZE, PART_SIZE};
use icdc_protocol::message::{
    Begin, Chunks, EntryKind, Message, Parent, Part, SendOptions, Source, SourceKind, Want, Wants,
};
use icdc_session::sender::{Found, Removal, Sender, Settings, Window};
use icdc_tcp::Privileges;
use icdc_units::ByteCount;

use super::*;
use crate::event::EventSink;
use crate::known_digests::KnownDigests;
use crate::sender::executor::{Outgoing, PendingItem};
use crate::sender::hashing;
use crate::sender::sending_link::FirstConnection;
use crate::sender::steering::controller;

const BLOCKS: u32 = 3;
/// Nothing here takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session that sends one file, which the receiver wants.
struct Sending {
    executor: Executor<'static>,
    outgoing: Outgoing,
    id: EntryId,
    contents: File,
    _directory: tempfile::TempDir,
    _far: Link,
}

impl Sending {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("source");
        let contents = File::create(&path).unwrap();
        contents.set_len(u64::from(BLOCKS) * BLOCK_SIZE as u64).unwrap();
        let tree = Tree::open(directory.path()).unwrap();
        let name = Name::new(b"source").unwrap();
        let stat = tree.root().stat(&name).unwrap();

        let source = Source { name: b"source".to_vec(), kind: SourceKind::Item, identity: None };
        let begin = Begin { job: [1; 32], sources: vec![source] };
        let options = SendOptions { buffered: true, ..SendOptions::default() };
        let events: EventSink = Arc::new(|_| {});
        let events: &'static EventSink = Box::leak(Box::new(events));
        let (link, far) = memory_pair();
        let pool = BlockPool::new(8).unwrap();
        let first = FirstConnection {
            controller: controller(&link.control, None, &options, None),
            control: link.control,
            tuned: None,
            peer: Features::OURS,
            privileges: Privileges::own(),
        };
        let (window, needs) = (Window::default(), options.needs());
        let settings = Settings {
            dry_run: false,
            keeps_journal: false,
            window,
            keeps_digests: false,
            needs,
            awaits_deletion: false,
            awaits_receipt: false,
            follows: false,
        };
        let machine = Sender::new(settings, begin);
        let digests: &'static KnownDigests = Box::leak(Box::default());
        let (executor, queues) = Executor::new(first, machine, (&options, digests), pool, events);
        let found = Found {
            parent: Parent::Source(0),
            name: Vec::new(),
            kind: EntryKind::File { size: stat.size, version: version(&stat), sparse: false, linked: false },
            mode: 0o644,
            mtime: (0, 0),
            owner: None,
            xattrs: Vec::new(),
            path: b"source".to_vec(),
            above: 0,
            first: None,
            held: 0,
            removal: Removal::Never,
        };
        let place = PendingItem {
            directory: tree.root().clone(),
            name,
            device: 0,
            held: None,
            leaving: None,
            followed: None,
            block_device: None,
        };
        let id = executor.announce(found, place);
        let wants = Message::Wants(Wants { first: id, answers: vec![Want::All] });
        executor.with(|machine| machine.on_message(crate::clock::now(), wants));
        Self { executor, outgoing: queues.outgoing, id, contents, _directory: directory, _far: far }
    }
}

#[test]
fn a_block_that_is_read_once_more_is_not_sent_if_the_file_changes_meanwhile() {
    let Sending { executor, id, contents, .. } = &Sending::new();
    let (steps, read) = unbounded();
    let engine = open_engine(DEPTH, diskless::engine(None)).unwrap();
    let mut reader = Reader::new(executor, &steps, engine);
    assert!(reader.read_again(*id, 1).is_ok() && reader.drain().is_ok());
    assert!(matches!(read.try_recv(), Ok(Step::Again { index: 1, .. })));

    assert!(reader.read_again(*id, 2).is_ok(), "the read is on its way");
    contents.write_all_at(b"new", 2 * BLOCK_SIZE as u64).unwrap();
    assert!(reader.drain().is_ok());
    assert!(read.try_recv().is_err(), "it may be of the new version");
    assert!(!executor.is_pending(*id), "the receiver is told that the file has changed");
}

#[test]
fn a_file_that_is_settled_while_it_is_looked_up_is_ended_and_has_no_digest() {
    let Sending { executor, id, .. } = &Sending::new();
    let (steps, read) = unbounded();
    let engine = open_engine(DEPTH, diskless::engine(None)).unwrap();
    let mut reader = Reader::new(executor, &steps, engine);
    reader.await_descriptions(*id, None, true);
    let chunking = Chunking::for_bytes(ByteCount::ZERO);
    let told = Chunks { id: *id, chunking, basis: 0, offset: 0, chunks: Vec::new(), covered: 0, complete: true };
    assert!(reader.read_matched(&told).is_ok(), "its blocks are on their way");
    reader.lookups.clear();
    assert!(reader.drain().is_ok());
    let steps: Vec<_> = read.try_iter().collect();
    let ended = matches!(&steps[..], [.., Step::End { steps: handed, outcome: Err(_), .. }] if *handed as usize == steps.len() - 1);
    assert!(ended && steps.len() < 3, "{} steps", steps.len());
}

#[test]
fn a_block_that_is_read_once_more_goes_whole_whatever_its_parts_were() {
    let Sending { executor, outgoing, id, .. } = &Sending::new();
    let (further, _far) = memory_pair();
    executor.further.add(1, further.control);
    executor.controller.lock().unwrap().on_joined(1, 0);
    executor.feedback.lock().unwrap().ring_blocks = 64;
    executor.with(|machine| machine.on_scanned(crate::clock::now()));
    let (id, length, size) = (*id, BLOCK_SIZE, u64::from(BLOCKS) * BLOCK_SIZE as u64);
    let block = || executor.pool.take().unwrap();
    let file = Arc::new(Hashing::new(id, size, false, Purpose::Send));
    let data = |index| Step::Data { file: file.clone(), index, extent: Extent::Whole, block: block(), length };
    let (steps, read) = unbounded();
    let send = |step| steps.send(step).unwrap();
    (0..BLOCKS).for_each(|index| send(data(index)));
    send(Step::Again { id, size, index: BLOCKS - 1, block: block(), length });
    drop(steps);

    let (blocks, parts) = thread::scope(|scope| {
        let parts = scope.spawn(|| {
            (0..BLOCK_SIZE / PART_SIZE).map(|_| outgoing.parts.recv_timeout(PATIENCE).unwrap()).collect::<Vec<_>>()
        });
        let blocks =
            scope.spawn(|| (0..BLOCKS).map(|_| outgoing.data.recv_timeout(PATIENCE).unwrap()).collect::<Vec<_>>());
        hashing::run(executor, &read);
        (blocks.join().unwrap(), parts.join().unwrap())
    });
    let is_part = |parcel: &Parcel| matches!(parcel.message, Message::Part(Part { index: 2, .. }));
    assert!(parts.iter().all(is_part), "{parts:?}");
    let index = |parcel: &Parcel| if let Message::Block(header) = &parcel.message { Some(header.index) } else { None };
    assert_eq!(blocks.iter().map(index).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    assert!(outgoing.data.is_empty() && outgoing.parts.is_empty());
}
