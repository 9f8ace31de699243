//! Ends of connections after everything is done: a run's journal is put away only when the sender
//! knows that, for it comes again otherwise and has to be recognized.

use std::path::PathBuf;
use std::time::Duration;

use icdc_protocol::Message;
use icdc_protocol::message::{
    Delete, EntryKind, Equality, Existing, FileDigest, Goodbye, Job, PackItem, Parent, ReceiveOptions, Snapshot,
    SnapshotNews, SnapshotTime, SourceKind, Transfer, Want,
};

use crate::peer::{Peer, begin, digest, entry, symlink, transfer};
use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{Site, leftovers};

/// How a session ends of which everything is done.
#[derive(Debug)]
enum End {
    /// The first connection by a goodbye.
    Goodbye,
    /// The first one in order, without a word.
    Closed,
    /// The further one in order, then the first one breaks.
    FurtherClosed,
    /// The further one by a goodbye, then the first one breaks.
    FurtherGoodbye,
    /// The first one breaks.
    Cut,
}

/// What is left of unfinished work after a session of two connections that ends so.
fn left_by(end: &End) -> Vec<PathBuf> {
    let site = Site::new();
    site.directory("root/in");
    let daemon = Daemon::start(&site, &site.path("root"), "rw");
    let id = transfer();
    let mut first = Peer::connect(&site, &daemon);
    let options = ReceiveOptions { resume: true, ..ReceiveOptions::default() };
    first.ask(id, Transfer::Receive { destination: b"in".to_vec(), options });
    first.say(begin(b"top", SourceKind::Directory));
    first.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
    let mut further = Peer::connect(&site, &daemon);
    further.ask(id, Job::Join { stream: 1 });
    // It is taken in.
    std::thread::sleep(Duration::from_millis(200));
    first.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
    first.say(Message::DirEnd { id: 0 });
    first.say(Message::End);
    first.hear_of(|message| match message {
        Message::Done(done) => done.iter().any(|done| done.id == 0 && done.outcome.is_ok()).then_some(()),
        _ => None,
    });
    assert_eq!(leftovers(&site.path("root")).len(), 1, "the journal");
    // The new name is made durable.
    std::thread::sleep(Duration::from_millis(500));
    match end {
        End::Goodbye => drop(first.say(Message::Goodbye(Goodbye::default()))),
        End::Closed => first.close(),
        End::FurtherClosed | End::FurtherGoodbye | End::Cut => {
            match end {
                End::FurtherClosed => further.close(),
                End::FurtherGoodbye => drop(further.say(Message::Goodbye(Goodbye::default()))),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(200));
            first.cut();
        }
    }
    assert!(eventually(|| daemon.run().stderr().contains(" seconds=")), "{}", daemon.run().stderr());
    leftovers(&site.path("root"))
}

#[test]
fn a_session_whose_sender_knows_that_all_is_done_leaves_nothing() {
    for end in [End::Goodbye, End::Closed] {
        assert_eq!(left_by(&end), Vec::<PathBuf>::new(), "{end:?}");
    }
}

#[test]
fn nothing_but_the_end_of_the_first_connection_tells_that_the_sender_knows() {
    for end in [End::FurtherClosed, End::FurtherGoodbye, End::Cut] {
        assert_eq!(left_by(&end).len(), 1, "the journal stays: {end:?}");
    }
}

/// A session of a snapshot of a file, a link and a directory, up to the word that it is made; then the connection
/// breaks. Returns the time that the snapshot is named by.
fn snapshot_and_cut(site: &Site, daemon: &Daemon, id: [u8; 16], contents: &[u8]) -> SnapshotTime {
    let mut peer = Peer::connect(site, daemon);
    let (time, size) = (SnapshotTime::new(1_600_000_000).unwrap(), contents.len() as u64);
    let options = ReceiveOptions {
        resume: true,
        existing: Existing::SkipEqual(Equality::default()),
        delete: Some(Delete::default()),
        snapshot: Some(Snapshot { time, keep: None }),
        ..ReceiveOptions::default()
    };
    peer.ask(id, Transfer::Receive { destination: b"backup".to_vec(), options });
    peer.say(begin(b"tree", SourceKind::Contents));
    peer.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
    peer.say(Message::Entries(vec![
        entry(0, Parent::Source(0), b"", EntryKind::Directory),
        entry(
            1,
            Parent::Directory(0),
            b"file",
            EntryKind::File { size, version: [size as u8; 16], sparse: false, linked: false },
        ),
        entry(2, Parent::Directory(0), b"link", symlink("file".as_ref())),
        entry(3, Parent::Directory(0), b"inner", EntryKind::Directory),
    ]));
    peer.say(Message::DirEnd { id: 3 });
    peer.say(Message::DirEnd { id: 0 });
    let is_wanted = peer.hear_of(|message| match message {
        Message::Wants(wants) => {
            let answer = 1_u32.checked_sub(wants.first).and_then(|at| wants.answers.get(at as usize))?;
            Some(matches!(answer, Want::All | Want::Rest))
        }
        _ => None,
    });
    if is_wanted {
        let FileDigest::Blake3(digest) = digest(contents) else { panic!("a small file has no holes") };
        peer.say_with(Message::Pack(vec![PackItem { id: 1, length: contents.len() as u32, digest }]), contents);
    }
    peer.say(Message::End);
    let made = peer.hear_of(|message| match message {
        Message::Snapshot(SnapshotNews::Made(time)) => Some(*time),
        _ => None,
    });
    peer.cut();
    made
}

#[test]
fn a_snapshot_that_is_complete_is_not_made_again_by_a_session_that_does_not_know() {
    let site = Site::new();
    let backup = site.directory("backup");
    let daemon = Daemon::start(&site, site.root(), "rw");
    let snapshots = || {
        let names = std::fs::read_dir(&backup).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.ends_with(".run")).collect();
        names.sort();
        names
    };
    let id = transfer();
    let made = snapshot_and_cut(&site, &daemon, id, b"one");
    assert_eq!(snapshots(), [made.name(), "latest".into()]);
    for _ in 0..2 {
        assert_eq!(snapshot_and_cut(&site, &daemon, id, b"one"), made);
        assert_eq!(snapshots(), [made.name(), "latest".into()]);
    }
    // A source that has changed since, and another run, make another one.
    let second = snapshot_and_cut(&site, &daemon, id, b"other");
    assert_eq!(snapshots(), [made.name(), second.name(), "latest".into()]);
    assert_eq!(std::fs::read(backup.join(made.name()).join("file")).unwrap(), b"one");
    let third = snapshot_and_cut(&site, &daemon, [1; 16], b"other");
    assert_eq!(snapshots(), [made.name(), second.name(), third.name(), "latest".into()]);
    assert_eq!(std::fs::read_link(backup.join("latest")).unwrap().to_str(), Some(&*third.name()));
}
