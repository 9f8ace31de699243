//! Sessions that get to begin only after their client has gone: a newer run of the same command may be complete by then,
//! and nothing may be changed beneath it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use icdc_protocol::Message;
use icdc_protocol::digest::block_value;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::{BlockHeader, EntryKind, FileEnd, PackItem, Parent, SourceKind};
use rustix::process::{Signal, kill_process};

use crate::peer::{Peer, begin, digest, entry, file, symlink};
use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{Site, leftovers};

struct Scene {
    site: Site,
    daemon: Daemon,
}

/// Whether a socket of this host has an open connection to this port of the other end (proc(5)).
fn is_established_to(port: u16) -> bool {
    let sockets = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let (port, established) = (format!(":{port:04X}"), "01");
    sockets.iter().flat_map(|sockets| sockets.lines()).any(|socket| {
        let fields: Vec<_> = socket.split_whitespace().collect();
        fields.len() > 3 && fields[2].ends_with(&port) && fields[3] == established
    })
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        site.directory("root/in");
        let daemon = Daemon::start(&site, &site.path("root"), "rw");
        Self { site, daemon }
    }

    /// A session of the command that all of these repeat, which has the lock of its run.
    fn begun(&self) -> Peer {
        let mut peer = Peer::push(&self.site, &self.daemon, "in");
        peer.say(begin(b"top", SourceKind::Directory));
        peer.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
        peer
    }

    /// A session of the same command whose request is accepted.
    fn accepted(&self) -> Peer {
        let mut peer = Peer::push(&self.site, &self.daemon, "in");
        peer.hear_of(|message| matches!(message, Message::Accepted(_)).then_some(()));
        peer
    }

    fn link(&self) -> PathBuf {
        self.site.path("root/in/top/link")
    }

    /// A session that has the lock of the only file of its run.
    fn holds_file(&self) -> Peer {
        let mut peer = self.accepted();
        send_block(&mut peer);
        let part = || leftovers(&self.site.path("root")).len() == 1;
        assert!(eventually(part), "no file is being written");
        peer
    }

    fn has_file(&self) -> bool {
        self.site.path("root/in/only").exists()
    }

    fn has_link(&self) -> bool {
        self.link().symlink_metadata().is_ok()
    }

    /// Lets `last` be said by a client that goes while the daemon is stopped.
    fn goes_unseen(&self, mut peer: Peer, last: impl FnOnce(&mut Peer)) {
        let daemon = self.daemon.run().pid();
        kill_process(daemon, Signal::STOP).unwrap();
        last(&mut peer);
        let port = peer.port();
        drop(peer);
        assert!(eventually(|| !is_established_to(port)), "the end of the connection does not arrive");
        kill_process(daemon, Signal::CONT).unwrap();
    }

    /// Waits until so many sessions have ended.
    fn await_ends(&self, count: usize) {
        let ended = || self.daemon.run().stderr().matches(" seconds=").count() >= count;
        assert!(eventually(ended), "{}", self.daemon.run().stderr());
    }
}

/// Waits until the session has told that it waits for the lock of another one.
fn hear_that_it_waits(peer: &mut Peer) {
    peer.hear_of(|message| matches!(message, Message::Running(Some(_))).then_some(()));
}

/// A file of one block.
const CONTENTS: &[u8] = &[7; 1 << 20];

/// Announces the only source of a run, a file, until it is wanted.
fn announce_file(peer: &mut Peer) {
    peer.say(begin(b"only", SourceKind::Item));
    peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(CONTENTS.len() as u64))]));
    peer.hear_wanted(0);
}

/// The only source of a run is a file. Sends its data where it is wanted, and nothing more.
fn send_block(peer: &mut Peer) {
    announce_file(peer);
    send_contents(peer);
}

/// Sends the data of a file that is wanted.
fn send_contents(peer: &mut Peer) {
    let value = block_value(0, CONTENTS, CONTENTS.len() as u64);
    peer.say_with(Message::Block(BlockHeader { id: 0, index: 0, value, ranges: Vec::new() }), CONTENTS);
}

/// Ends the file that [`send_block`] has begun.
fn end_file(peer: &mut Peer) {
    peer.say(Message::FileEnd(FileEnd { id: 0, blocks: 1, outcome: Ok(digest(CONTENTS)) }));
    peer.say(Message::End);
}

/// Announces a directory with a symbolic link, which is made without a further question.
fn announce(peer: &mut Peer) {
    peer.say(begin(b"top", SourceKind::Directory));
    peer.say(Message::Entries(vec![
        entry(0, Parent::Source(0), b"", EntryKind::Directory),
        entry(1, Parent::Directory(0), b"link", symlink("target".as_ref())),
    ]));
    peer.say(Message::DirEnd { id: 0 });
    peer.say(Message::End);
}

#[test]
fn who_has_gone_while_an_earlier_run_was_waited_for_changes_nothing() {
    let scene = Scene::new();
    let first = scene.begun();
    let mut second = scene.accepted();
    announce(&mut second);
    hear_that_it_waits(&mut second);
    drop(second);
    drop(first);
    scene.await_ends(2);
    assert!(!scene.has_link(), "a session without a client has published something");
}

#[test]
fn who_has_gone_before_a_slow_daemon_begins_changes_nothing() {
    let scene = Scene::new();
    scene.goes_unseen(scene.accepted(), announce);
    scene.await_ends(1);
    assert!(!scene.has_link(), "a session without a client has published something");
    assert_eq!(leftovers(&scene.site.path("root")), Vec::<PathBuf>::new());
}

#[test]
fn who_has_gone_before_a_slow_daemon_opens_a_file_changes_nothing() {
    let scene = Scene::new();
    let mut peer = scene.accepted();
    announce_file(&mut peer);
    scene.goes_unseen(peer, |peer| {
        send_contents(peer);
        end_file(peer);
    });
    scene.await_ends(1);
    assert!(!scene.has_file(), "a session without a client has published something");
    assert_eq!(leftovers(&scene.site.path("root")), Vec::<PathBuf>::new());
}

#[test]
fn who_has_gone_leaves_what_a_newer_run_goes_on_from() {
    let scene = Scene::new();
    let block = vec![7; BLOCK_SIZE];
    let announced = |blocks: u64| {
        let mut peer = scene.accepted();
        peer.say(begin(b"only", SourceKind::Item));
        let size = blocks * BLOCK_SIZE as u64;
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(size))]));
        peer.hear_wanted(0);
        (peer, size)
    };
    let send = |peer: &mut Peer, size| {
        let value = block_value(0, &block, size);
        peer.say_with(Message::Block(BlockHeader { id: 0, index: 0, value, ranges: Vec::new() }), &block);
    };
    let (mut newer, size) = announced(2);
    send(&mut newer, size);
    drop(newer);
    scene.await_ends(1);
    let left = leftovers(&scene.site.path("root"));
    let journal = left.iter().find(|path| path.extension().is_some_and(|kind| kind == "blocks")).expect("a journal");
    let before = std::fs::read(journal).unwrap();
    let (older, size) = announced(3);
    scene.goes_unseen(older, |peer| send(peer, size));
    scene.await_ends(2);
    assert_eq!(std::fs::read(journal).unwrap(), before, "a session without a client has begun the file anew");
}

#[test]
fn who_has_gone_before_a_slow_daemon_stages_a_small_file_changes_nothing() {
    let scene = Scene::new();
    let mut peer = scene.accepted();
    let contents = b"small";
    peer.say(begin(b"only", SourceKind::Item));
    peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(contents.len() as u64))]));
    peer.hear_wanted(0);
    scene.goes_unseen(peer, |peer| {
        let item = PackItem { id: 0, length: contents.len() as u32, digest: *blake3::hash(contents).as_bytes() };
        peer.say_with(Message::Pack(vec![item]), contents);
        peer.say(Message::End);
    });
    scene.await_ends(1);
    assert!(!scene.has_file(), "a session without a client has published something");
    assert_eq!(leftovers(&scene.site.path("root")), Vec::<PathBuf>::new());
}

#[test]
fn who_waited_for_an_earlier_run_begins_once_its_client_answers() {
    let scene = Scene::new();
    let first = scene.begun();
    let mut second = scene.accepted();
    second.confirms = false;
    announce(&mut second);
    hear_that_it_waits(&mut second);
    drop(first);
    second.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
    // A client behind a link that is down says nothing for now.
    for _ in 0..5 {
        second.hear_of(|message| matches!(message, Message::Feedback(_)).then_some(()));
    }
    assert!(!scene.has_link(), "it began before its client had answered");
    second.say(Message::Confirmed);
    second.hear_of(|message| match message {
        Message::Done(done) => done.iter().any(|done| done.id == 1 && done.outcome.is_ok()).then_some(()),
        _ => None,
    });
    assert!(scene.has_link());
}

#[test]
fn who_has_gone_while_a_file_of_an_earlier_run_was_waited_for_changes_nothing() {
    let scene = Scene::new();
    let first = scene.holds_file();
    let mut second = scene.accepted();
    send_block(&mut second);
    end_file(&mut second);
    hear_that_it_waits(&mut second);
    drop(second);
    drop(first);
    scene.await_ends(2);
    assert!(!scene.has_file(), "a session without a client has published something");
    assert_eq!(leftovers(&scene.site.path("root")), Vec::<PathBuf>::new());
}

#[test]
fn who_waited_for_a_file_of_an_earlier_run_ends_once_its_client_answers() {
    let scene = Scene::new();
    let first = scene.holds_file();
    let mut second = scene.accepted();
    send_block(&mut second);
    end_file(&mut second);
    second.confirms = false;
    hear_that_it_waits(&mut second);
    drop(first);
    second.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
    // A client behind a link that is down says nothing for now.
    for _ in 0..5 {
        second.hear_of(|message| matches!(message, Message::Feedback(_)).then_some(()));
    }
    assert!(!scene.has_file(), "it ended before its client had answered");
    second.say(Message::Confirmed);
    second.hear_of(|message| match message {
        Message::Done(done) => done.iter().any(|done| done.id == 0 && done.outcome.is_ok()).then_some(()),
        _ => None,
    });
    assert!(scene.has_file());
}

#[test]
fn attributes_of_a_directory_stay_until_the_sender_has_answered() {
    let scene = Scene::new();
    let top = scene.site.directory("root/in/top");
    fs::set_permissions(&top, Permissions::from_mode(0o700)).unwrap();
    let mode = || fs::metadata(&top).unwrap().mode() & 0o777;
    let mut peer = scene.accepted();
    peer.confirms = false;
    peer.say(begin(b"top", SourceKind::Directory));
    peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
    peer.say(Message::DirEnd { id: 0 });
    peer.say(Message::End);
    peer.hear_of(|message| matches!(message, Message::Wants(_)).then_some(()));
    for _ in 0..5 {
        peer.hear_of(|message| matches!(message, Message::Feedback(_)).then_some(()));
    }
    assert_eq!(mode(), 0o700, "a newer run may have set it");
    peer.say(Message::Confirmed);
    peer.hear_of(|message| match message {
        Message::Done(done) => done.iter().any(|done| done.id == 0 && done.outcome.is_ok()).then_some(()),
        _ => None,
    });
    assert_eq!(mode(), 0o755);
}
