//! Blocks that are put together from what the destination has, by a sender that keeps to no rule: the session ends
//! with a sentence, or the block is asked for as a whole.

use std::fs;

use icdc_protocol::delta::{Assembled, CopiedPart};
use icdc_protocol::digest::block_value;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::FileDigest;
use icdc_protocol::message::{
    BlockHeader, EntryKind, FileEnd, Parent, ReceiveOptions, Request, SourceKind, Transfer, Want,
};
use icdc_protocol::{Features, Message};

use crate::peer::{Peer, begin, entry, file, transfer};
use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{Noise, Site};

/// Length of the file that is there, and of the one that is sent.
const LENGTH: usize = 5 << 20;

/// A daemon with a file in it, which is replaced by one that has something new at its start.
struct Scene {
    site: Site,
    daemon: Daemon,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// Number of bytes that are new.
const NEW: usize = 1000;

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        let root = site.directory("root");
        let daemon = Daemon::start(&site, &root, "rw");
        let bytes = Noise::new(5).bytes(LENGTH + NEW);
        let (old, new) = (bytes[NEW..].to_vec(), bytes[..LENGTH].to_vec());
        site.directory("root/in");
        fs::write(root.join("in/file"), &old).unwrap();
        Self { site, daemon, old, new }
    }

    fn block(&self, index: usize) -> &[u8] {
        self.new.chunks(BLOCK_SIZE).nth(index).unwrap()
    }

    fn header(&self, index: usize) -> BlockHeader {
        let value = block_value((index * BLOCK_SIZE) as u64, self.block(index), LENGTH as u64);
        BlockHeader { id: 1, index: index as u32, value, ranges: Vec::new() }
    }

    /// The first block, of which all but what is new is copied, and the payload.
    fn first(&self) -> (Assembled, &[u8]) {
        let copies = vec![CopiedPart { at: NEW as u32, length: (BLOCK_SIZE - NEW) as u32, basis: 0, offset: 0 }];
        (Assembled { header: self.header(0), copies }, &self.new[..NEW])
    }

    /// A session in which the file, with id 1, is described.
    fn push(&self) -> Peer {
        let mut peer = Peer::connect(&self.site, &self.daemon);
        let options = ReceiveOptions { delta: true, ..ReceiveOptions::default() };
        let job = Transfer::Receive { destination: b"in".to_vec(), options };
        peer.say(Message::Request(Request { transfer: transfer(), features: Features::OURS, job: job.into() }));
        peer.say(begin(b"top", SourceKind::Contents));
        peer.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
        peer.say(Message::Entries(vec![
            entry(0, Parent::Source(0), b"", EntryKind::Directory),
            entry(1, Parent::Directory(0), b"file", file(LENGTH as u64)),
        ]));
        peer.hear_of(|message| match message {
            Message::Wants(wants) => wants.answers.contains(&Want::Delta).then_some(()),
            _ => None,
        });
        let described = peer.hear_of(|message| match message {
            Message::Chunks(chunks) => {
                chunks.complete.then(|| chunks.chunks.iter().map(|(length, _)| *length).sum::<u32>())
            }
            _ => None,
        });
        assert_eq!(described as usize, LENGTH);
        peer
    }

    /// Says this twice in a session of its own if it is to be said `again`, and checks the sentence with which the
    /// daemon ends it.
    #[track_caller]
    fn refused(&self, words: &str, assembled: &Assembled, payload: &[u8], again: bool) {
        let seen = self.daemon.run().stderr().len();
        let mut peer = self.push();
        for _ in 0..1 + u32::from(again) {
            peer.say_with(Message::Assembled(assembled.clone()), payload);
        }
        peer.hear_end();
        let said = eventually(|| self.daemon.run().stderr()[seen..].contains("failed: "));
        let log = self.daemon.run().stderr();
        assert!(said && log[seen..].contains(words), "{words:?} is not in {:?}", &log[seen..]);
        assert_eq!(fs::read(self.site.path("root/in/file")).unwrap(), self.old);
    }
}

#[test]
fn what_is_not_described_or_does_not_fit_ends_the_session() {
    let scene = Scene::new();
    let (right, payload) = scene.first();
    let copy = right.copies[0];
    let with = |copy: CopiedPart| Assembled { copies: vec![copy], ..right.clone() };
    let nothing = "put together from what is not described, or twice";
    scene.refused(nothing, &with(CopiedPart { basis: 1, ..copy }), payload, false);
    scene.refused(nothing, &with(CopiedPart { offset: LENGTH as u64, ..copy }), payload, false);
    scene.refused(nothing, &with(CopiedPart { offset: u64::from(u32::MAX), ..copy }), payload, false);
    scene.refused(nothing, &right, payload, true);
    scene.refused("another number of bytes", &right, &payload[1..], false);
    scene.refused("outside of the data", &with(CopiedPart { at: copy.at + 1, ..copy }), payload, false);
    scene.refused("do not add up", &right, &scene.new[..=NEW], false);
    let beyond = Assembled { header: BlockHeader { index: 2, ..scene.header(0) }, ..right.clone() };
    scene.refused("beyond its end", &beyond, payload, false);
    // The last block is a short one.
    let long = Assembled { header: scene.header(1), ..right.clone() };
    scene.refused("beyond its end", &long, payload, false);
}

#[test]
fn a_block_without_its_digest_is_asked_for_and_the_file_arrives() {
    let scene = Scene::new();
    let (right, payload) = scene.first();
    let mut peer = scene.push();
    let elsewhere = CopiedPart { offset: 1, ..right.copies[0] };
    peer.say_with(Message::Assembled(Assembled { copies: vec![elsewhere], ..right }), payload);
    peer.say_with(Message::Block(scene.header(1)), scene.block(1));
    let digest = FileDigest::Blake3(*blake3::hash(&scene.new).as_bytes());
    peer.say(Message::FileEnd(FileEnd { id: 1, blocks: 2, outcome: Ok(digest) }));
    peer.say(Message::DirEnd { id: 0 });
    peer.say(Message::End);
    let asked = peer.hear_of(|message| match message {
        Message::Resend { id, index } => Some((*id, *index)),
        _ => None,
    });
    assert_eq!(asked, (1, 0));
    peer.say_with(Message::Block(scene.header(0)), scene.block(0));
    peer.say(Message::Ping);
    let done = peer.hear_of(|message| match message {
        Message::Done(done) => done.iter().find(|done| done.id == 1).map(|done| done.outcome.clone()),
        _ => None,
    });
    assert_eq!(done, Ok(Some(digest)));
    assert_eq!(fs::read(scene.site.path("root/in/file")).unwrap(), scene.new);
}
