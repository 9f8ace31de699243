//! Files that change while they are read.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use crossbeam_channel::unbounded;
use icdc_disk::BlockPool;
use icdc_disk::tree::{Name, Tree};
use icdc_link::memory_pair;
use icdc_protocol::message::{Begin, EntryKind, Parent, SendOptions, Source, SourceKind, Want, Wants};
use icdc_session::sender::Found;

use super::*;
use crate::event::EventSink;

#[test]
fn a_block_that_is_read_once_more_is_not_sent_if_the_file_changes_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("source");
    let contents = File::create(&path).unwrap();
    contents.set_len(3 * BLOCK_SIZE as u64).unwrap();
    let tree = Tree::open(directory.path()).unwrap();
    let name = Name::new(b"source").unwrap();
    let stat = tree.root().stat(&name).unwrap();

    let source = Source { name: b"source".to_vec(), kind: SourceKind::Item };
    let begin = Begin { job: [1; 32], sources: vec![source] };
    let options = SendOptions { buffered: true, ..SendOptions::default() };
    let events: EventSink = Arc::new(|_| {});
    let (link, _far) = memory_pair();
    let pool = BlockPool::new(8).unwrap();
    let (executor, _queues) = Executor::new(begin, false, &options, pool, link.control, None, &events);
    let found = Found {
        parent: Parent::Source(0),
        name: Vec::new(),
        kind: EntryKind::File { size: stat.size, version: version(&stat), sparse: false, linked: false },
        mode: 0o644,
        mtime: (0, 0),
        owner: None,
        xattrs: Vec::new(),
        path: b"source".to_vec(),
    };
    let id = executor.announce(found, tree.root(), name);
    let wants = Message::Wants(Wants { first: id, answers: vec![Want::All] });
    executor.with(|machine| machine.on_message(crate::clock::now(), wants));

    let (steps, read) = unbounded();
    let engine = open_engine(DEPTH, EngineKind::Auto).unwrap();
    let mut reader = Reader {
        executor: &executor,
        steps: &steps,
        engine,
        depth: 1,
        queue: VecDeque::new(),
        next_tag: 0,
        failed: false,
    };
    assert!(reader.read_again(id, 1).is_ok() && reader.drain().is_ok());
    assert!(matches!(read.try_recv(), Ok(Step::Again { index: 1, .. })));

    assert!(reader.read_again(id, 2).is_ok(), "the read is on its way");
    contents.write_all_at(b"new", 2 * BLOCK_SIZE as u64).unwrap();
    assert!(reader.drain().is_ok());
    assert!(read.try_recv().is_err(), "it may be of the new version");
    assert!(!executor.is_pending(id), "the receiver is told that the file has changed");
}
