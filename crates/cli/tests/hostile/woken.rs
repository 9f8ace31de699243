//! Receivers that are stopped with all of a file in their socket's buffer while a newer run of the same command
//! completes. Their sender has gone by a cut of which their host does not know: the connection stands.

use std::fs;

use icdc_protocol::Message;
use icdc_protocol::digest::block_value;
use icdc_protocol::limits::{BLOCK_SIZE, PACK_FILE_LIMIT};
use icdc_protocol::message::{BlockHeader, FileEnd, PackItem, Parent, SourceKind};
use rustix::process::{Pid, Signal, kill_process};

use crate::peer::{Peer, begin, digest, entry, file, symlink};
use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{Site, Start, leftovers};

/// Lengths of files that arrive in a pack, as a block that is flushed with small files, and as blocks with a journal.
const LENGTHS: [usize; 3] = [5, PACK_FILE_LIMIT as usize + 1, 2 * BLOCK_SIZE];

struct Scene {
    site: Site,
    daemon: Daemon,
}

fn is_stopped(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| stat.contains(") T"))
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        site.directory("root/in");
        let daemon = Daemon::start(&site, &site.path("root"), "rw");
        Self { site, daemon }
    }

    /// A session whose only item is wanted, and whose client answers no question from then on.
    fn wanted(&self, length: usize) -> Peer {
        let mut peer = Peer::push(&self.site, &self.daemon, "in");
        peer.say(begin(b"only", SourceKind::Item));
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(length as u64))]));
        peer.hear_wanted(0);
        peer.confirms = false;
        peer
    }

    /// Does something while the daemon is stopped.
    fn while_stopped(&self, what: impl FnOnce()) {
        let daemon = self.daemon.run().pid();
        kill_process(daemon, Signal::STOP).unwrap();
        assert!(eventually(|| is_stopped(daemon)), "it does not stop");
        what();
        kill_process(daemon, Signal::CONT).unwrap();
    }

    /// Does something while the daemon is stopped and a file of `length` bytes is sent to it.
    fn while_it_sends(&self, peer: &mut Peer, length: usize, what: impl FnOnce()) {
        std::thread::scope(|threads| {
            self.while_stopped(|| {
                // No buffer needs to be as large as the file.
                threads.spawn(|| send(peer, &vec![7; length]));
                what();
            });
        });
    }

    /// Another process copies a newer version of the item, twice: the inode of the first is free by then.
    fn newer_runs_complete(&self) {
        for version in ["newer", "newest"] {
            fs::write(self.site.path("only"), version).unwrap();
            self.site.copy(&[]).arg(self.site.path("only")).arg(self.site.path("root/in")).run().expect_code(0);
        }
    }

    fn contents(&self) -> Vec<u8> {
        fs::read(self.site.path("root/in/only")).unwrap()
    }

    /// Waits until the session has ended.
    fn await_end(&self) {
        let ended = || self.daemon.run().stderr().contains(" seconds=");
        assert!(eventually(ended), "{}", self.daemon.run().stderr());
    }
}

/// Sends all of a file.
fn send(peer: &mut Peer, contents: &[u8]) {
    if contents.len() as u64 <= PACK_FILE_LIMIT {
        let digest = *blake3::hash(contents).as_bytes();
        peer.say_with(Message::Pack(vec![PackItem { id: 0, length: contents.len() as u32, digest }]), contents);
    } else {
        let size = contents.len() as u64;
        for (index, block) in (0..).zip(contents.chunks(BLOCK_SIZE)) {
            let value = block_value(u64::from(index) * BLOCK_SIZE as u64, block, size);
            peer.say_with(Message::Block(BlockHeader { id: 0, index, value, ranges: Vec::new() }), block);
        }
        let blocks = contents.len().div_ceil(BLOCK_SIZE) as u32;
        peer.say(Message::FileEnd(FileEnd { id: 0, blocks, outcome: Ok(digest(contents)) }));
    }
    peer.say(Message::End);
}

/// Waits until the receiver asks whether its sender is still connected.
fn hear_question(peer: &mut Peer) {
    peer.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
}

fn hear_done(peer: &mut Peer) {
    peer.hear_of(|message| match message {
        Message::Done(done) => done.iter().any(|done| done.id == 0 && done.outcome.is_ok()).then_some(()),
        _ => None,
    });
}

#[test]
fn what_newer_runs_have_published_stays_when_the_sender_does_not_answer() {
    for length in LENGTHS {
        let scene = Scene::new();
        let mut peer = scene.wanted(length);
        scene.while_it_sends(&mut peer, length, || scene.newer_runs_complete());
        hear_question(&mut peer);
        drop(peer);
        scene.await_end();
        assert_eq!(scene.contents(), b"newest", "{length} bytes");
    }
}

#[test]
fn what_another_program_has_put_there_meanwhile_is_replaced_when_the_sender_answers() {
    for length in LENGTHS {
        let scene = Scene::new();
        let mut peer = scene.wanted(length);
        scene.while_it_sends(&mut peer, length, || fs::write(scene.site.path("root/in/only"), "other").unwrap());
        hear_question(&mut peer);
        peer.say(Message::Confirmed);
        // Of one that is flushed with small files it asks again before that gets its name.
        peer.confirms = true;
        hear_done(&mut peer);
        assert_eq!(scene.contents(), vec![7; length], "{length} bytes");
        assert_eq!(leftovers(&scene.site.path("root")).len(), 0, "{length} bytes");
    }
}

/// Nothing comes from the sender once the link is announced, and what it replaces is looked at when that is newer.
#[test]
fn a_link_that_newer_runs_have_made_stays_when_the_sender_does_not_answer() {
    let scene = Scene::new();
    let mut peer = Peer::push(&scene.site, &scene.daemon, "in");
    peer.say(begin(b"only", SourceKind::Item));
    hear_question(&mut peer);
    peer.confirms = false;
    scene.while_stopped(|| {
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", symlink("old".as_ref()))]));
        peer.say(Message::End);
        std::os::unix::fs::symlink("new", scene.site.path("root/in/only")).unwrap();
    });
    hear_question(&mut peer);
    drop(peer);
    scene.await_end();
    assert_eq!(fs::read_link(scene.site.path("root/in/only")).unwrap().to_str(), Some("new"));
    assert_eq!(leftovers(&scene.site.path("root")).len(), 0);
}
