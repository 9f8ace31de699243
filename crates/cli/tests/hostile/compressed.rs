//! Compressed payloads that are not what they say, to a real daemon and to a real client: the session ends with a
//! sentence, nothing of them is written under a final name, and memory stays bounded.

use std::fs;
use std::path::Path;

use icdc_protocol::compression::Compressor;
use icdc_protocol::digest::block_value;
use icdc_protocol::limits::{BLOCK_SIZE, MAX_PAYLOAD};
use icdc_protocol::message::{
    BlockHeader, Compressed, Compressible, EntryKind, FileEnd, PackItem, Parent, ReceiveOptions, Request, SourceKind,
    Transfer,
};
use icdc_protocol::{Features, Message};

use crate::peer::{Peer, Server, begin, digest, entry, file, transfer};
use crate::support::daemon::{Daemon, location};
use crate::support::process::eventually;
use crate::support::{KIB, MIB, Site, Start, assert_same, data};

/// More than a daemon could expand within its memory.
const BOMB: usize = 512 << 20;
/// Most memory of a daemon that has been offered one, in bytes.
const MOST: u64 = 450 * MIB;

/// A daemon that receives, and a file of one block and a bit, which compresses well.
struct Scene {
    site: Site,
    daemon: Daemon,
    contents: Vec<u8>,
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        let root = site.directory("root");
        site.directory("root/in");
        let daemon = Daemon::with_one_arena(&site, &root, "rw");
        let contents = (0..).flat_map(|line: u32| format!("line {line}\n").into_bytes()).take(5 << 20).collect();
        Self { site, daemon, contents }
    }

    fn block(&self, index: usize) -> &[u8] {
        self.contents.chunks(BLOCK_SIZE).nth(index).unwrap()
    }

    fn header(&self, index: usize) -> BlockHeader {
        let value = block_value((index * BLOCK_SIZE) as u64, self.block(index), self.contents.len() as u64);
        BlockHeader { id: 1, index: index as u32, value, ranges: Vec::new() }
    }

    /// A session of these features in which the file, with id 1, is wanted.
    fn push(&self, features: Features) -> Peer {
        let mut peer = Peer::connect(&self.site, &self.daemon);
        let job = Transfer::Receive { destination: b"in".to_vec(), options: ReceiveOptions::default() };
        peer.say(Message::Request(Request { transfer: transfer(), features, job: job.into() }));
        peer.say(begin(b"top", SourceKind::Directory));
        peer.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
        let parent = Parent::Directory(0);
        peer.say(Message::Entries(vec![
            entry(0, Parent::Source(0), b"", EntryKind::Directory),
            entry(1, parent, b"file", file(self.contents.len() as u64)),
            entry(2, parent, b"small", file(5000)),
        ]));
        peer.hear_wanted(1);
        peer
    }

    /// Says this, in a session of its own, and checks the sentence with which the daemon ends it.
    #[track_caller]
    fn refused(&self, words: &str, compressed: Compressed, payload: &[u8]) {
        self.refused_by(Features::OURS, words, compressed, payload);
    }

    #[track_caller]
    fn refused_by(&self, features: Features, words: &str, compressed: Compressed, payload: &[u8]) {
        let seen = self.daemon.run().stderr().len();
        let mut peer = self.push(features);
        peer.say_with(compressed.into(), payload);
        peer.hear_end();
        let said = eventually(|| self.daemon.run().stderr()[seen..].contains("failed: "));
        let log = self.daemon.run().stderr();
        assert!(said && log[seen..].contains(words), "{words:?} is not in {:?}", &log[seen..]);
        assert_eq!(published(&self.site.path("root/in")), Vec::<String>::new());
    }
}

/// Names below `directory` that neither are directories nor are kept for a resumed run.
fn published(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(published(&entry.path()));
        } else if !name.starts_with(".icdc-") {
            found.push(name);
        }
    }
    found
}

/// The most memory that the daemon ever had, in bytes.
fn peak_memory(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.run().pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * KIB
}

fn frame(plain: &[u8]) -> Vec<u8> {
    Compressor::default().compress(plain, 1).expect("it shrinks").to_vec()
}

#[test]
fn payloads_expand_to_what_they_say_or_end_the_session() {
    let scene = Scene::new();
    let (whole, of) = (frame(scene.block(0)), || Compressible::Block(scene.header(0)));
    let block = |length: usize| Compressed { length: length as u32, of: of() };
    let refused = |words: &str, payload: &[u8]| scene.refused(words, block(BLOCK_SIZE), payload);
    let not_expanded = "block 0 of item 1 cannot be expanded";
    refused(not_expanded, &frame(&scene.block(0)[1..]));
    refused(not_expanded, &frame(&vec![0; BLOCK_SIZE + 1]));
    refused(not_expanded, &frame(&vec![0; BOMB]));
    refused(not_expanded, &whole[..whole.len() - 1]);
    refused(not_expanded, &whole[..5]);
    refused(not_expanded, &[&whole[..], b"x"].concat());
    refused(not_expanded, &[&whole[..], &whole].concat());
    refused(not_expanded, &scene.block(0)[..9999]);
    refused("does not match its digest", &frame(&vec![7; BLOCK_SIZE]));
    // Wherever it is damaged, the frame or the digest says so.
    for at in [4, 9, whole.len() / 2, whole.len() - 9] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        refused("block 0", &damaged);
    }

    let refused = |words: &str, length: usize, payload: &[u8]| scene.refused(words, block(length), payload);
    refused("not shorter", whole.len(), &whole);
    refused("not shorter", BLOCK_SIZE, &[]);
    refused("not shorter", BLOCK_SIZE, scene.block(0));
    refused("more data than a block holds", MAX_PAYLOAD + 1, &whole);
    refused("more data than a block holds", u32::MAX as usize, &whole);
    refused("bytes in place of", BLOCK_SIZE - 1, &frame(&scene.block(0)[1..]));
    let beyond = BlockHeader { index: 3, ..scene.header(0) };
    scene.refused("beyond its end", Compressed { length: BLOCK_SIZE as u32, of: Compressible::Block(beyond) }, &whole);
    let peak = peak_memory(&scene.daemon);
    assert!(peak < MOST, "the daemon came to {} MiB", peak / MIB);

    let source = data::file(&scene.site.path("good"), 5 * MIB + 1, 1);
    scene.site.copy(&[]).arg(&source).arg(scene.daemon.location("in/good")).run().expect_code(0);
    assert_same(&source, &scene.site.path("root/in/good"));
}

#[test]
fn packs_and_differences_are_what_they_say() {
    let scene = Scene::new();
    let small = &scene.contents[..5000];
    let item = |length: u32| PackItem { id: 2, length, digest: *blake3::hash(small).as_bytes() };
    let pack = |length: u32| Compressed { length, of: Compressible::Pack(vec![item(5000)]) };
    scene.refused("a pack cannot be expanded", pack(5000), &frame(&scene.contents[..5001]));
    scene.refused("does not match its digest", pack(5000), &frame(&scene.contents[5000..10_000]));
    scene.refused("add up", pack(5001), &frame(&scene.contents[..5001]));
    let none = Compressed { length: 5000, of: Compressible::Pack(Vec::new()) };
    scene.refused("no files", none, &frame(small));
    let ranges = vec![(0, 5000)];
    let of = Compressible::Difference(BlockHeader { ranges, ..scene.header(0) });
    scene.refused("a difference to nothing", Compressed { length: 5000, of }, &frame(small));
}

#[test]
fn what_is_right_arrives_and_is_not_believed_without_the_feature() {
    let scene = Scene::new();
    let blocks = [0, 1].map(|index| {
        let length = scene.block(index).len() as u32;
        (Compressed { length, of: Compressible::Block(scene.header(index)) }, frame(scene.block(index)))
    });
    let (first, payload) = &blocks[0];
    let without = Features::from_bits(Features::OURS.bits() & !Features::COMPRESSION.bits());
    scene.refused_by(without, "compressed data without that feature", first.clone(), payload);

    let mut peer = scene.push(Features::OURS);
    for (compressed, payload) in blocks {
        peer.say_with(compressed.into(), &payload);
    }
    peer.say(Message::FileEnd(FileEnd { id: 1, blocks: 2, outcome: Ok(digest(&scene.contents)) }));
    let small = &scene.contents[..5000];
    let item = PackItem { id: 2, length: 5000, digest: *blake3::hash(small).as_bytes() };
    peer.say_with(Compressed { length: 5000, of: Compressible::Pack(vec![item]) }.into(), &frame(small));
    peer.say(Message::DirEnd { id: 0 });
    for id in [1, 2] {
        assert!(eventually(|| scene.site.path("root/in/top").join(["file", "small"][id - 1]).exists()), "{id}");
    }
    assert!(fs::read(scene.site.path("root/in/top/file")).unwrap() == scene.contents);
    assert!(fs::read(scene.site.path("root/in/top/small")).unwrap() == small);
    peer.cut();
}

#[test]
fn a_server_that_sends_something_else_fails_the_pull() {
    let contents = b"a line of text\n".repeat(1000);
    let whole = frame(&contents);
    let damaged = [&whole[..whole.len() / 2], &[0xaa; 20]].concat();
    let without = Features::from_bits(Features::OURS.bits() & !Features::COMPRESSION.bits());
    for (features, payload, words) in [
        (Features::OURS, &damaged, "a pack cannot be expanded"),
        (without, &whole, "compressed data without that feature"),
    ] {
        let site = Site::new();
        let server = Server::new(&site);
        site.directory("in");
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut peer = server.accept_request();
                peer.say(Message::Accepted(features));
                peer.say(begin(b"top", SourceKind::Item));
                let size = contents.len() as u64;
                peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(size))]));
                peer.hear_wanted(0);
                let item = PackItem { id: 0, length: size as u32, digest: *blake3::hash(&contents).as_bytes() };
                let compressed = Compressed { length: size as u32, of: Compressible::Pack(vec![item]) };
                peer.say_with(compressed.into(), payload);
                peer.hear_end();
            });
            site.copy(&[]).arg(location(server.port(), "top")).arg("in/").run().expect_code(1)
        });
        assert!(ended.to_string().contains(words), "{words:?} is not said: {ended}");
        assert_eq!(published(&site.path("in")), Vec::<String>::new());
    }
}
