//! Clients with a good key and bad intentions, against a real `icdc serve`: what they do is refused by name in bounded
//! time and memory, touches nothing outside the destination, and the daemon goes on serving others.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use icdc_protocol::Message;
use icdc_protocol::digest::block_value;
use icdc_protocol::limits::{
    BLOCK_SIZE, MAX_DEPTH, MAX_ENTRIES, MAX_FILE_SIZE, MAX_NAMES_TOLD, MAX_PARTS, MAX_PENDING, MAX_PENDING_BYTES,
    MAX_XATTR_BYTES, PART_SIZE,
};
use icdc_protocol::message::{
    BlockHeader, DeviceNumber, Entry, EntryKind, FileDigest, FileEnd, Goodbye, ListedNames, OwnerMapping, OwnerNames,
    PackItem, Parent, Part, Preserve, ReceiveOptions, Request, SendOptions, SourceKind, Special, Transfer, Want, Wants,
};
use icdc_protocol::owners::{NamedOwner, OwnersBy};
use icdc_trust::{Identity, PublicKey, ServerPin, client_config, server_name};

use crate::peer::{Peer, begin, digest, entry, evil_names, file, sparse_file, symlink, transfer};
use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{HERE, KIB, MIB, Site, Start, assert_same, data, succeed};

/// A daemon with a directory to receive into, and things beside it that must stay as they are.
struct Scene {
    site: Site,
    daemon: Daemon,
    /// How much of the daemon's log earlier attacks account for.
    seen: AtomicUsize,
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        let root = site.directory("root");
        site.directory("root/in");
        for outside in ["outside", "root/beside"] {
            fs::write(site.directory(outside).join("precious"), "precious").unwrap();
        }
        let daemon = Daemon::with_one_arena(&site, &root, "rw");
        Self { site, daemon, seen: AtomicUsize::new(0) }
    }

    fn push(&self) -> Peer {
        Peer::push(&self.site, &self.daemon, "in")
    }

    fn push_into_directory(&self) -> Peer {
        Peer::push_into_directory(&self.site, &self.daemon, "in")
    }

    /// A session in which a file of this size, with id 1, is wanted.
    fn push_file(&self, size: u64) -> Peer {
        let mut peer = self.push_into_directory();
        peer.say(Message::Entries(vec![entry(1, Parent::Directory(0), b"file", file(size))]));
        peer.hear_wanted(1);
        peer
    }

    /// Runs one attack and checks the words with which it is refused.
    #[track_caller]
    fn refused(&self, words: &str, attack: impl FnOnce(&mut Peer)) {
        let mut peer = self.push_into_directory();
        attack(&mut peer);
        self.assert_refused(peer, words);
    }

    /// The daemon ends the session, and its log says why. The peer itself may see no more than a cut.
    #[track_caller]
    fn assert_refused(&self, mut peer: Peer, words: &str) {
        peer.hear_end();
        let seen = self.seen.load(Ordering::Relaxed);
        let said = eventually(|| self.daemon.run().stderr()[seen..].contains("failed: "));
        let log = self.daemon.run().stderr();
        self.seen.store(log.len(), Ordering::Relaxed);
        assert!(said && log[seen..].contains(words), "{words:?} is not in {:?}", &log[seen..]);
        self.assert_untouched();
    }

    /// Nothing was made or changed outside of the destination, and nothing is under a final name within but directories.
    #[track_caller]
    fn assert_untouched(&self) {
        for outside in ["outside", "root/beside"] {
            assert_eq!(names(&self.site.path(outside)), ["precious"]);
            assert_eq!(fs::read(self.site.path(outside).join("precious")).unwrap(), b"precious");
        }
        assert_eq!(names(&self.site.path("root")), ["beside", "in"]);
        assert_eq!(names(self.site.root()), ["daemon", "home", "outside", "root"]);
        assert_eq!(published(&self.site.path("root/in")), Vec::<String>::new());
    }

    /// The daemon lives, has stayed small, and serves a good client.
    #[track_caller]
    fn assert_well(self) {
        let used = peak_memory(&self.daemon);
        assert!(used < 600 * MIB, "the daemon came to {} MiB", used / MIB);
        let source = data::file(&self.site.path("good"), 5 * MIB + 1, 1);
        let ended = self.site.copy(&[]).arg(&source).arg(self.daemon.location("in/good")).run().expect_code(0);
        assert_eq!(ended.summary()["verified"], true, "{ended}");
        assert_same(&source, &self.site.path("root/in/good"));
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::thread::sleep(Duration::from_millis(300));
            eprintln!("{}", self.daemon.run().stderr());
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Everything below `directory` that is neither a directory nor kept for a resumed run.
fn published(directory: &Path) -> Vec<String> {
    // Deeper than paths can tell.
    let mut find = Command::new("find");
    let found = succeed(find.arg(directory).args(["!", "-type", "d", "!", "-name", ".icdc-*", "-printf", "%f\\n"]));
    found.lines().map(str::to_owned).collect()
}

/// The most memory that the daemon ever had, in bytes.
fn peak_memory(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.run().pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * KIB
}

fn child(id: u32, name: &[u8], kind: EntryKind) -> Message {
    Message::Entries(vec![entry(id, Parent::Directory(0), name, kind)])
}

#[test]
fn names_cannot_escape() {
    let scene = Scene::new();
    for name in evil_names() {
        for kind in [file(3), EntryKind::Directory, symlink(Path::new("/etc"))] {
            scene.refused("not one component of a path", |peer| {
                peer.say(child(1, &name, kind));
            });
        }
        let mut peer = scene.push();
        peer.say(begin(&name, SourceKind::Item));
        scene.assert_refused(peer, "not one component");
    }
    scene.assert_well();
}

#[test]
fn special_items_that_were_not_asked_for_are_not_made() {
    let scene = Scene::new();
    let device = Special::CharacterDevice(DeviceNumber { major: 1, minor: 3 });
    let asked = |specials| {
        let preserve = Preserve { specials, ..Preserve::default() };
        Peer::push_with(&scene.site, &scene.daemon, "in", ReceiveOptions { preserve, ..ReceiveOptions::default() })
    };
    for (specials, special, words) in [
        (false, Special::Pipe, "a named pipe is not copied"),
        (false, device, "a character device is not copied"),
        (true, device, "without its owner"),
    ] {
        let mut peer = asked(specials);
        peer.say(child(1, b"special", EntryKind::Special(special)));
        let reason = peer.hear_failed(1);
        assert!(reason.contains(words), "{reason}");
        peer.close();
        scene.assert_untouched();
    }
    let mut peer = asked(true);
    let beyond = DeviceNumber { major: 1 << 12, minor: 0 };
    peer.say(child(1, b"special", EntryKind::Special(Special::BlockDevice(beyond))));
    scene.assert_refused(peer, "a device number that Linux does not have");
    scene.refused("an access control list that is none", |peer| {
        let xattrs = vec![(b"system.posix_acl_access".to_vec(), vec![2, 0, 0, 0, 1, 0])];
        peer.say(Message::Entries(vec![Entry { xattrs, ..entry(1, Parent::Directory(0), b"file", file(3)) }]));
    });
    scene.assert_well();
}

#[test]
fn names_of_owners_are_told_once_and_to_those_who_asked() {
    let scene = Scene::new();
    let names = |names: &[&str]| {
        let named = |(id, name): (u32, &&str)| NamedOwner { id, name: name.as_bytes().to_vec() };
        Message::OwnerNames(OwnerNames { users: (7..).zip(names).map(named).collect(), groups: Vec::new() })
    };
    scene.refused("tells names of owners, and was not asked for them", |peer| {
        peer.say(names(&["daemon"]));
    });
    let asked = || {
        let preserve = Preserve { acl: true, ..Preserve::default() };
        let owners = OwnerMapping { by: OwnersBy::Names, ..OwnerMapping::default() };
        let options = ReceiveOptions { preserve, owners: owners.into(), ..ReceiveOptions::default() };
        Peer::push_with(&scene.site, &scene.daemon, "in", options)
    };
    for (words, told) in [
        ("tells the name of an owner twice", vec![names(&["daemon"]), names(&["daemon"])]),
        ("a name that no user or group has", vec![names(&["a:b"])]),
        ("too many names", vec![names(&vec!["a"; MAX_NAMES_TOLD + 1])]),
    ] {
        let mut peer = asked();
        for message in told {
            peer.say(message);
        }
        scene.assert_refused(peer, words);
    }
    scene.assert_well();
}

#[test]
fn lists_of_names_keep_to_their_rules() {
    let scene = Scene::new();
    scene.refused("asks for a list of names, and there is none", |peer| {
        peer.say(Message::NamesWanted { pass: 0 });
    });
    let ask = |listed| {
        let mut peer = Peer::connect(&scene.site, &scene.daemon);
        let options = SendOptions { listed, ..SendOptions::default() };
        peer.ask(transfer(), Transfer::Send { sources: vec![b"beside/".to_vec()], options });
        peer
    };
    let lists: [(&str, u32, &[&str]); 5] = [
        ("no path below a source", 1, &["../outside/precious"]),
        ("no path below a source", 1, &["/etc/passwd"]),
        ("no name, although the list goes on", 1, &[]),
        ("in no order", 1, &["b", "a"]),
        ("than were asked for", 100, &["a"]),
    ];
    for (words, parts, names) in lists {
        let mut peer = ask(Some([1; 32]));
        let pass = peer.hear_of(|message| match message {
            Message::NamesWanted { pass } => Some(*pass),
            _ => None,
        });
        let names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        for _ in 0..parts {
            peer.say(Message::Names(ListedNames { pass, names: names.clone(), ended: false }));
        }
        scene.assert_refused(peer, words);
    }
    let mut peer = ask(None);
    peer.say(Message::Names(ListedNames { pass: 0, names: vec![b"a".to_vec()], ended: true }));
    scene.assert_refused(peer, "listed names came that were not asked for");
    scene.assert_well();
}

#[test]
fn names_of_unfinished_files_are_kept() {
    let scene = Scene::new();
    for name in [".icdc-0123456789abcdef.part", ".icdc-0123456789abcdef.blocks", ".icdc-0123456789abcdef.run"] {
        let mut peer = scene.push_into_directory();
        peer.say(child(1, name.as_bytes(), file(3)));
        assert!(peer.hear_failed(1).contains("unfinished"), "{name}");
        let mut peer = scene.push();
        peer.say(begin(name.as_bytes(), SourceKind::Item));
        scene.assert_refused(peer, "unfinished");
    }
    scene.assert_well();
}

#[test]
fn destinations_cannot_escape() {
    let scene = Scene::new();
    let link = scene.site.path("root/in/link");
    std::os::unix::fs::symlink(scene.site.path("outside"), &link).unwrap();
    for destination in ["../outside/", "in/../../outside/", "in/link/", "in/link/deeper", "in/\0"] {
        let mut peer = Peer::push(&scene.site, &scene.daemon, destination);
        peer.say(begin(b"evil", SourceKind::Item));
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(0))]));
        let error = peer.hear_end();
        assert!(!scene.site.path("outside/evil").exists(), "{destination}: {error}");
        assert_eq!(names(&scene.site.path("outside")), ["precious"], "{destination}");
    }
    fs::remove_file(&link).unwrap();
    scene.assert_untouched();
    scene.assert_well();
}

#[test]
fn links_made_during_the_run_lead_nowhere() {
    let scene = Scene::new();
    let outside = scene.site.path("outside");
    let mut peer = scene.push_into_directory();
    peer.say(child(1, b"link", symlink(&outside)));
    peer.say(Message::Entries(vec![entry(2, Parent::Directory(1), b"evil", file(0))]));
    peer.hear_end();
    drop(peer);
    assert!(scene.daemon.run().wait_for_words("no open parent"));
    assert_eq!(names(&outside), ["precious"]);

    // The link is there when a directory of its name is announced.
    let mut peer = scene.push_into_directory();
    peer.say(child(1, b"link", symlink(&outside)));
    peer.hear_of(|message| match message {
        Message::Done(done) => done.iter().any(|done| done.id == 1 && done.outcome.is_ok()).then_some(()),
        _ => None,
    });
    peer.say(child(2, b"link", EntryKind::Directory));
    peer.say(Message::Entries(vec![entry(3, Parent::Directory(2), b"evil", file(0))]));
    let reason = peer.hear_failed(3);
    assert!(reason.contains("symbolic link"), "{reason}");
    drop(peer);
    assert_eq!(names(&outside), ["precious"]);

    // A hard link to the link is no way either, nor one to a directory or to something never announced.
    for (to, words) in [(1, "hard link"), (0, "hard link"), (2, "hard link")] {
        let mut peer = scene.push_into_directory();
        peer.say(child(1, b"link", symlink(&outside)));
        peer.say(child(2, b"directory", EntryKind::Directory));
        let link = EntryKind::HardLink { to, size: 1, version: [0; 16], sparse: false };
        peer.say(child(3, b"name", link));
        let answer = peer.hear_of(|message| match message {
            Message::Done(done) => done.iter().find(|done| done.id == 3).map(|done| done.outcome.clone()),
            _ => None,
        });
        assert!(answer.is_err(), "{words} to {to}: {answer:?}");
    }
    assert_eq!(names(&outside), ["precious"]);
    fs::remove_dir_all(scene.site.path("root/in/top")).unwrap();
    scene.assert_untouched();
    scene.assert_well();
}

#[test]
fn entries_keep_to_their_order() {
    let scene = Scene::new();
    scene.refused("entry 5 came where 1 was due", |peer| {
        peer.say(child(5, b"file", file(1)));
    });
    scene.refused("not consecutive", |peer| {
        let parent = Parent::Directory(0);
        let entries = vec![entry(1, parent, b"a", file(1)), entry(3, parent, b"b", file(1))];
        peer.say(Message::Entries(entries));
    });
    scene.refused("entry 0 came where 1 was due", |peer| {
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
    });
    scene.refused("comes after its child", |peer| {
        peer.say(Message::Entries(vec![entry(1, Parent::Directory(9), b"file", file(1))]));
    });
    scene.refused("no open parent", |peer| {
        peer.say(child(1, b"file", file(1)));
        peer.say(Message::Entries(vec![entry(2, Parent::Directory(1), b"file", file(1))]));
    });
    scene.refused("no open parent", |peer| {
        peer.say(Message::DirEnd { id: 0 });
        peer.say(child(1, b"file", file(1)));
    });
    scene.refused("names no source", |peer| {
        peer.say(Message::Entries(vec![entry(1, Parent::Source(1), b"", file(1))]));
    });
    scene.refused("a source number out of bounds", |peer| {
        peer.say(Message::Entries(vec![entry(1, Parent::Source(u32::MAX), b"", file(1))]));
    });
    scene.refused("is not open", |peer| {
        peer.say(Message::DirEnd { id: 77 });
    });
    scene.refused("began twice", |peer| {
        peer.say(begin(b"other", SourceKind::Item));
    });
    scene.refused("only a receiver", |peer| {
        peer.say(Message::Wants(Wants { first: 0, answers: vec![Want::All] }));
    });
    scene.refused("broke the protocol", |peer| {
        let job = Transfer::Receive { destination: b"../outside".to_vec(), options: ReceiveOptions::default() };
        peer.say(Message::Request(Request::new(transfer(), job)));
    });

    let mut peer = scene.push();
    peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(1))]));
    scene.assert_refused(peer, "came before Begin");
    let mut peer = Peer::connect(&scene.site, &scene.daemon);
    peer.say(begin(b"no request", SourceKind::Item));
    peer.hear_end();
    scene.assert_untouched();
    scene.assert_well();
}

#[test]
fn leaving_early_is_not_success() {
    let scene = Scene::new();
    let mut peer = scene.push_file(9 * MIB);
    peer.say(Message::End);
    peer.say(Message::Goodbye(Goodbye::default()));
    scene.assert_refused(peer, "goodbye");
    scene.assert_well();
}

#[test]
fn blocks_are_what_they_say() {
    const SIZE: u64 = 9 * MIB;
    let scene = Scene::new();
    let block = vec![5; BLOCK_SIZE];
    let value = block_value(0, &block, SIZE);
    let header = BlockHeader { id: 1, index: 0, value, ranges: Vec::new() };
    let refused = |words: &str, header: BlockHeader, payload: &[u8]| {
        let mut peer = scene.push_file(SIZE);
        peer.say_with(Message::Block(header), payload);
        scene.assert_refused(peer, words);
    };
    refused("beyond its end", BlockHeader { index: 3, ..header.clone() }, &block);
    refused("beyond its end", BlockHeader { index: u32::MAX - 1, ..header.clone() }, &block);
    refused("no file reaches", BlockHeader { index: u32::MAX, ..header.clone() }, &block);
    refused("bytes in place of", header.clone(), &block[1..]);
    refused("bytes in place of", BlockHeader { index: 2, ..header.clone() }, &block);
    refused("does not match its digest", BlockHeader { value: [0; 32], ..header.clone() }, &block);
    refused("does not match its digest", BlockHeader { index: 1, ..header.clone() }, &block);
    let with = |ranges: &[(u32, u32)]| BlockHeader { ranges: ranges.to_vec(), ..header.clone() };
    refused("overlap", with(&[(0, 8), (4, 8)]), &block[..16]);
    refused("beyond the end", with(&[(u32::MAX, 8)]), &block[..8]);
    refused("add up", with(&[(0, 8)]), &block[..9]);
    refused("an empty data range", with(&[(0, 8), (9, 0)]), &block[..8]);
    refused("too many data ranges", with(&[(0, 1); 300]), &block[..300]);
    refused("beyond its end", BlockHeader { index: 2, ..with(&[(2 << 20, 8)]) }, &block[..8]);

    // What is known of no file is let go by; what is sent twice counts once.
    let mut peer = scene.push_file(SIZE);
    for id in [0, 2, u32::MAX] {
        peer.say_with(Message::Block(BlockHeader { id, ..header.clone() }), &block);
        peer.say(Message::FileEnd(FileEnd { id, blocks: 1, outcome: Ok(FileDigest::Blake3([1; 32])) }));
    }
    for _ in 0..3 {
        peer.say_with(Message::Block(header.clone()), &block);
    }
    peer.say(Message::FileEnd(FileEnd { id: 1, blocks: 3, outcome: Ok(FileDigest::Blake3([1; 32])) }));
    peer.say(Message::End);
    peer.say(Message::Goodbye(Goodbye::default()));
    scene.assert_refused(peer, "goodbye");
    scene.assert_well();
}

/// Number of parts of a whole block.
const PARTS: u8 = MAX_PARTS as u8;

#[test]
fn parts_of_blocks_are_what_they_say() {
    const SIZE: u64 = 1000 * MIB;
    let scene = Scene::new();
    let block = vec![5; BLOCK_SIZE];
    let length = BLOCK_SIZE as u32;
    let part = Part { id: 1, index: 0, value: block_value(0, &block, SIZE), length, number: 0 };
    let refused = |words: &str, parts: &[Part], payload: &[u8]| {
        let mut peer = scene.push_file(SIZE);
        for part in parts {
            peer.say_with(Message::Part(*part), payload);
        }
        scene.assert_refused(peer, words);
    };
    let data = &block[..PART_SIZE];
    refused("not that of the part", &[part], &data[1..]);
    refused("not that of the part", &[Part { number: PARTS, ..part }], data);
    refused("more data than a block holds", &[Part { length: length + 1, ..part }], data);
    refused("no file reaches", &[Part { index: u32::MAX, ..part }], data);
    refused("different things", &[part, Part { value: [0; 32], number: 1, ..part }], data);
    // The ring has room for half as many as it has blocks.
    let many: Vec<Part> = (0..200).map(|index| Part { index, ..part }).collect();
    refused("more blocks are on their way in parts", &many, data);
    let whole: Vec<Part> = (0..PARTS).map(|number| Part { number, ..part }).collect();
    refused(
        "does not match its digest",
        &whole.iter().map(|part| Part { index: 1, ..*part }).collect::<Vec<_>>(),
        data,
    );
    refused("beyond its end", &whole.iter().map(|part| Part { index: 250, ..*part }).collect::<Vec<_>>(), data);

    // In any order, beside the whole block, and once more: it counts once.
    let contents = vec![5; BLOCK_SIZE + 1];
    let size = contents.len() as u64;
    let mut peer = scene.push_file(size);
    let value = |index: u32| {
        let start = index as usize * BLOCK_SIZE;
        block_value(start as u64, &contents[start..contents.len().min(start + BLOCK_SIZE)], size)
    };
    let [first, second] = [0, 1].map(|index| Part { index, value: value(index), ..part });
    let second = Part { length: 1, ..second };
    for number in (3..PARTS).rev().chain(0..3).chain(7..9) {
        peer.say_with(Message::Part(Part { number, ..first }), data);
    }
    peer.say_with(Message::Part(second), &data[..1]);
    let header = BlockHeader { id: 1, index: 1, value: second.value, ranges: Vec::new() };
    peer.say_with(Message::Block(header), &data[..1]);
    peer.say(Message::FileEnd(FileEnd { id: 1, blocks: 2, outcome: Ok(digest(&contents)) }));
    peer.say(Message::DirEnd { id: 0 });
    peer.hear_of(|message| match message {
        Message::Done(done) => done.iter().any(|done| done.id == 1 && done.outcome.is_ok()).then_some(()),
        _ => None,
    });
    assert!(fs::read(scene.site.path("root/in/top/file")).unwrap() == contents);
    peer.cut();
}

#[test]
fn files_are_what_they_say() {
    let scene = Scene::new();
    let contents = vec![5; 5 << 20];
    let all = |peer: &mut Peer, blocks: u32, outcome: FileDigest| {
        for (index, block) in contents.chunks(BLOCK_SIZE).enumerate() {
            let value = block_value((index * BLOCK_SIZE) as u64, block, contents.len() as u64);
            let header = BlockHeader { id: 1, index: index as u32, value, ranges: Vec::new() };
            peer.say_with(Message::Block(header), block);
        }
        peer.say(Message::FileEnd(FileEnd { id: 1, blocks, outcome: Ok(outcome) }));
    };
    for outcome in [FileDigest::Blake3([0; 32]), FileDigest::SparseMap([0; 32]), digest(b"other")] {
        let mut peer = scene.push_file(contents.len() as u64);
        all(&mut peer, 2, outcome);
        assert!(peer.hear_failed(1).contains("digests differ"));
        scene.assert_untouched();
    }
    // Fewer blocks than the file has are holes: their digest is not that of the data.
    let mut peer = scene.push_file(contents.len() as u64);
    peer.say(Message::FileEnd(FileEnd { id: 1, blocks: 0, outcome: Ok(digest(&contents)) }));
    assert!(peer.hear_failed(1).contains("digests differ"));
    drop(peer);
    scene.assert_untouched();
    for blocks in [0, 1, 3, u32::MAX] {
        let mut peer = scene.push_file(contents.len() as u64);
        all(&mut peer, blocks, digest(b"other"));
        peer.say(Message::Goodbye(Goodbye::default()));
        peer.hear_end();
        scene.assert_untouched();
    }
    scene.assert_well();
}

#[test]
fn packs_are_what_they_say() {
    let scene = Scene::new();
    let item = |length: u32, contents: &[u8]| PackItem { id: 1, length, digest: *blake3::hash(contents).as_bytes() };
    let refused = |words: &str, items: Vec<PackItem>, payload: &[u8]| {
        let mut peer = scene.push_file(5);
        peer.say_with(Message::Pack(items), payload);
        scene.assert_refused(peer, words);
    };
    refused("does not match its digest", vec![item(5, b"other")], b"12345");
    refused("another length", vec![item(4, b"1234")], b"1234");
    refused("another length", vec![item(6, b"123456")], b"123456");
    refused("add up", vec![item(5, b"12345")], b"1234");
    refused("add up", vec![item(4, b"1234")], b"12345");
    refused("too large to be packed", vec![item(u32::MAX, b"1234")], b"1234");
    refused("no files", Vec::new(), b"1234");
    let mut peer = scene.push_into_directory();
    peer.say(child(1, b"link", symlink(Path::new("target"))));
    peer.say_with(Message::Pack(vec![item(5, b"12345")]), b"12345");
    drop(peer);
    let mut peer = scene.push_file(9 * MIB);
    peer.say_with(Message::Pack(vec![item(5, b"12345")]), b"12345");
    peer.hear_end();
    let _ = fs::remove_file(scene.site.path("root/in/top/link"));
    scene.assert_untouched();
    scene.assert_well();
}

#[test]
fn claimed_sizes_cost_neither_memory_nor_time() {
    let scene = Scene::new();
    for size in [1 << 60, u64::MAX, MAX_FILE_SIZE + 1] {
        scene.refused("a file too large", |peer| {
            peer.say(child(1, b"file", sparse_file(size)));
        });
    }
    // More than the file system can hold, or so sparse that hashing its zeros would take hours.
    for (size, kind) in
        [(MAX_FILE_SIZE, sparse_file as fn(u64) -> EntryKind), (MAX_FILE_SIZE, file), (15 << 40, sparse_file)]
    {
        let started = Instant::now();
        let mut peer = scene.push_into_directory();
        peer.say(child(1, b"file", kind(size)));
        peer.hear_wanted(1);
        peer.say(Message::FileEnd(FileEnd { id: 1, blocks: 0, outcome: Ok(FileDigest::Blake3([0; 32])) }));
        let reason = peer.hear_failed(1);
        assert!(started.elapsed() < Duration::from_secs(20), "{size}: {:?}, {reason}", started.elapsed());
        scene.assert_untouched();
    }
    scene.assert_well();
}

#[test]
fn a_stream_is_continued_from_one_place_of_whole_blocks() {
    let scene = Scene::new();
    scene.refused("continues a stream from two places", |peer| {
        peer.say(Message::StreamFrom { bytes: 0 });
        peer.say(Message::StreamFrom { bytes: 4 << 20 });
    });
    scene.refused("no whole blocks of a file", |peer| {
        peer.say(Message::StreamFrom { bytes: 5 });
    });
    scene.assert_well();
}

#[test]
fn announced_entries_are_bounded() {
    let scene = Scene::new();
    scene.refused("more entries are announced than may be pending", |peer| {
        let mut id = 1;
        while id as usize <= MAX_PENDING + MAX_ENTRIES {
            let named = |id: u32| entry(id, Parent::Directory(0), format!("{id}").as_bytes(), file(7));
            if !peer.say(Message::Entries((id..id + 1000).map(named).collect())) {
                break;
            }
            id += 1000;
        }
    });
    scene.refused("nested too deep", |peer| {
        for id in 1..=MAX_DEPTH as u32 + 1 {
            peer.say(Message::Entries(vec![entry(id, Parent::Directory(id - 1), b"d", EntryKind::Directory)]));
        }
    });
    scene.assert_well();
}

#[test]
fn what_announced_entries_keep_in_memory_is_bounded() {
    let scene = Scene::new();
    // Files, directories, and files that wait for an earlier one of the same name.
    for (same_name, kind) in [(false, file(7)), (false, EntryKind::Directory), (true, file(7))] {
        let preserve = Preserve { xattr: true, ..Preserve::default() };
        let options = ReceiveOptions { preserve, ..ReceiveOptions::default() };
        let mut peer = Peer::push_with(&scene.site, &scene.daemon, "in", options);
        let attack = |peer: &mut Peer| {
            let heavy = |id: u32| {
                let xattrs = vec![(b"user.heavy".to_vec(), vec![1; MAX_XATTR_BYTES - 10])];
                let name = if same_name { "same".to_owned() } else { id.to_string() };
                Entry { xattrs, ..entry(id, Parent::Directory(0), name.as_bytes(), kind.clone()) }
            };
            // Far fewer than their number would allow.
            let most = (MAX_PENDING_BYTES / MAX_XATTR_BYTES) as u32 + 64;
            (1..most).step_by(4).all(|id| peer.say(Message::Entries((id..id + 4).map(heavy).collect())));
        };
        attack(&mut peer);
        scene.assert_refused(peer, "more entries are announced than may be pending");
    }
    // 256 MiB of attributes, and 21 MiB of everything else: measured with 277 MiB.
    let used = peak_memory(&scene.daemon);
    assert!(used < 400 * MIB, "the daemon came to {} MiB", used / MIB);
    scene.assert_well();
}

#[test]
fn frames_and_garbage_are_bounded() {
    let scene = Scene::new();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[22, 3, 1, 255, 255], &[0; 4096], &[255; 4096]] {
        let mut stream = TcpStream::connect((HERE, scene.daemon.port())).unwrap();
        stream.write_all(garbage).unwrap();
        assert_closes(stream, Duration::from_secs(12));
    }
    let identity = Identity::load(&scene.site.path("home/.config/icdc/identity")).unwrap();
    let (key, _) = PublicKey::parse_line(scene.daemon.key()).unwrap();
    let lies = [(u32::MAX, 0), (1 << 30, 0), (16, u32::MAX), (16, 1 << 30), (0, 0), (1 << 20, 0)];
    for (head, payload) in lies {
        let config = client_config(&identity, ServerPin::Exact(key));
        let session = rustls::ClientConnection::new(Arc::clone(&config), server_name()).unwrap();
        let stream = TcpStream::connect((HERE, scene.daemon.port())).unwrap();
        let mut secure = rustls::StreamOwned::new(session, stream);
        let frame: Vec<u8> =
            u32::to_le_bytes(head).into_iter().chain(u32::to_le_bytes(payload)).chain([0xff; 64]).collect();
        secure.write_all(&frame).unwrap();
        secure.flush().unwrap();
        assert_closes(secure.sock, Duration::from_secs(17));
    }
    scene.assert_untouched();
    scene.assert_well();
}

/// Reads until the other end has closed the connection.
#[track_caller]
fn assert_closes(mut stream: TcpStream, within: Duration) {
    let started = Instant::now();
    stream.set_read_timeout(Some(within)).unwrap();
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => assert!(started.elapsed() < within, "it goes on talking"),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("still open after {within:?}"),
            Err(_) => return,
        }
    }
}

#[test]
fn silence_is_not_waited_for() {
    let scene = Scene::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_closes(TcpStream::connect((HERE, scene.daemon.port())).unwrap(), Duration::from_secs(15));
        });
        scope.spawn(|| {
            let started = Instant::now();
            Peer::connect(&scene.site, &scene.daemon).hear_end();
            assert!(started.elapsed() < Duration::from_secs(14), "{:?}", started.elapsed());
        });
        for begun in [false, true] {
            let scene = &scene;
            scope.spawn(move || {
                let started = Instant::now();
                let mut peer = if begun { scene.push_file(9 * MIB) } else { scene.push() };
                peer.hear_end();
                assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
            });
        }
    });
    scene.assert_untouched();
    scene.assert_well();
}

#[test]
fn a_thousand_silent_connections_do_not_slow_a_transfer() {
    let scene = Scene::new();
    let source = data::file(&scene.site.path("source"), 192 * MIB, 2);
    let copy = |name: &str| {
        let started = Instant::now();
        let mut command = scene.site.copy(&["--rate", "800mbit"]);
        command.arg(&source).arg(scene.daemon.location(&format!("in/{name}"))).run().expect_code(0);
        started.elapsed()
    };
    let alone = copy("alone");
    let crowd =
        || -> Vec<TcpStream> { (0..1000).map(|_| TcpStream::connect((HERE, scene.daemon.port())).unwrap()).collect() };
    let (among, silent) = std::thread::scope(|scope| {
        let crowd = scope.spawn(crowd);
        let among = copy("among");
        (among, crowd.join().unwrap())
    });
    let behind = copy("behind");
    assert_eq!(silent.len(), 1000);
    for name in ["alone", "among", "behind"] {
        assert_same(&source, &scene.site.path("root/in").join(name));
        fs::remove_file(scene.site.path("root/in").join(name)).unwrap();
    }
    eprintln!("alone {alone:?}, while a thousand connect {among:?}, while they are there {behind:?}");
    assert!(among < alone * 3 && behind < alone * 3, "{alone:?} became {among:?} and {behind:?}");
    drop(silent);
    scene.assert_well();
}
