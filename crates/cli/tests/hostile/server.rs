//! Servers with the right key and bad intentions, against a real `icdc copy icdc://…`: the client ends in bounded time with
//! a code that is not 0 and a sentence, and makes nothing but what was asked for.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use icdc_protocol::Message;
use icdc_protocol::message::{
    Done, Entry, EntryKind, FileDigest, FileEnd, Goodbye, Held, PackItem, Parent, Ready, Refusal, RefusalKind,
    SourceKind, Want, Wants,
};

use crate::peer::{Peer, Server, begin, digest, entry, evil_names, file, sparse_file, symlink};
use crate::support::daemon::location;
use crate::support::{Ended, MIB, Signal, Site, Start, data};

/// Longest time that a client may spend on a server that breaks the rules.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client's place: a destination, and something beside it that must stay as it is.
fn scene() -> Site {
    let site = Site::new();
    site.directory("in");
    fs::write(site.directory("outside").join("precious"), "precious").unwrap();
    site
}

#[track_caller]
fn assert_untouched(site: &Site) {
    let names = |path: &str| -> Vec<String> {
        let entries = fs::read_dir(site.path(path)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with(".icdc-"));
        names.sort();
        names
    };
    assert_eq!(names("outside"), ["precious"]);
    assert_eq!(fs::read(site.path("outside/precious")).unwrap(), b"precious");
    assert_eq!(names(""), ["home", "in", "outside"]);
    let made = names("in");
    assert!(made.is_empty() || made == ["top"] && names("in/top").is_empty(), "{made:?}");
}

/// Pulls `path` into the destination while the server does as it likes.
fn pull(site: &Site, path: &str, attack: impl FnOnce(&mut Peer) + Send) -> Ended {
    let server = Server::new(site);
    let started = Instant::now();
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = server.accept();
            attack(&mut peer);
            peer.hear_end();
        });
        site.copy(&[]).arg(location(server.port(), path)).arg("in/").run()
    });
    assert!(started.elapsed() < PATIENCE, "{:?}: {ended}", started.elapsed());
    ended
}

/// Pulls a directory of which the server announces these.
#[track_caller]
fn refused(words: &str, entries: Vec<Entry>) {
    let site = scene();
    let ended = pull(&site, "top", |peer| {
        peer.say(begin(b"top", SourceKind::Directory));
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
        peer.say(Message::Entries(entries));
    });
    assert_failed(&ended, words);
    assert_untouched(&site);
}

#[track_caller]
fn assert_failed(ended: &Ended, words: &str) {
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.to_string().contains(words), "{words:?} is not said: {ended}");
}

#[test]
fn names_cannot_escape() {
    for name in evil_names() {
        refused("not one component of a path", vec![entry(1, Parent::Directory(0), &name, file(3))]);
    }
    // The link may be made; nothing is made through it.
    let site = scene();
    let ended = pull(&site, "top", |peer| {
        peer.say(begin(b"top", SourceKind::Directory));
        let link = entry(1, Parent::Directory(0), b"link", symlink(Path::new("../../outside")));
        let evil = entry(2, Parent::Directory(1), b"evil", file(3));
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory), link, evil]));
    });
    assert_failed(&ended, "no open parent");
    let _ = fs::remove_file(site.path("in/top/link"));
    assert_untouched(&site);
    refused("entry 7 came where 1 was due", vec![entry(7, Parent::Directory(0), b"file", file(3))]);
    refused("a file too large", vec![entry(1, Parent::Directory(0), b"file", sparse_file(1 << 60))]);
    refused("names no source", vec![entry(1, Parent::Source(3), b"", file(3))]);
}

#[test]
fn only_what_was_asked_for_is_made() {
    let offers: [(&str, &[u8], SourceKind); 9] = [
        ("*.nc", b"asked.sh", SourceKind::Item),
        ("*", b".bashrc", SourceKind::Item),
        ("*/asked", b"other", SourceKind::Item),
        ("asked", b".bashrc", SourceKind::Item),
        ("directory/asked", b"directory", SourceKind::Directory),
        ("asked", b"asked", SourceKind::Contents),
        ("asked/", b"other", SourceKind::Item),
        (".", b"other", SourceKind::Directory),
        ("asked", b"..", SourceKind::Item),
    ];
    for (path, name, kind) in offers {
        let site = scene();
        let ended = pull(&site, path, |peer| {
            peer.say(begin(name, kind));
            peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(0))]));
            let item = PackItem { id: 0, length: 0, digest: *blake3::hash(b"").as_bytes() };
            peer.say(Message::Pack(vec![item]));
            peer.say(Message::End);
        });
        assert_failed(&ended, if name == b".." { "not one component" } else { "not asked for" });
        assert_untouched(&site);
    }
}

#[test]
fn a_list_that_there_is_not_cannot_be_asked_for() {
    let site = scene();
    let ended = pull(&site, "top", |peer| {
        peer.say(begin(b"top", SourceKind::Directory));
        peer.say(Message::NamesWanted { pass: 0 });
    });
    assert_failed(&ended, "asks for a list of names, and there is none");
    assert_untouched(&site);
}

#[test]
fn leaving_early_is_not_success() {
    let site = scene();
    let goodbye = || Message::Goodbye(Goodbye::default());
    assert_failed(
        &pull(&site, "top", |peer| {
            peer.say(goodbye());
        }),
        "goodbye",
    );
    for ended in [false, true] {
        let outcome = pull(&site, "top", |peer| {
            peer.say(begin(b"top", SourceKind::Item));
            peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(5))]));
            peer.hear_wanted(0);
            if ended {
                peer.say(Message::End);
            }
            peer.say(goodbye());
        });
        assert_failed(&outcome, "goodbye");
    }
    assert_untouched(&site);
}

#[test]
fn contents_are_what_they_say() {
    let site = scene();
    let outcome = pull(&site, "top", |peer| {
        peer.say(begin(b"top", SourceKind::Item));
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(5))]));
        peer.hear_wanted(0);
        let item = PackItem { id: 0, length: 5, digest: *blake3::hash(b"other").as_bytes() };
        peer.say_with(Message::Pack(vec![item]), b"12345");
    });
    assert_failed(&outcome, "does not match its digest");
    let outcome = pull(&site, "top", |peer| {
        peer.say(begin(b"top", SourceKind::Item));
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(9 * MIB))]));
        peer.hear_wanted(0);
        peer.say(Message::FileEnd(FileEnd { id: 0, blocks: 0, outcome: Ok(FileDigest::Blake3([1; 32])) }));
        peer.hear_failed(0);
        peer.say(Message::End);
        peer.say(Message::Goodbye(Goodbye::default()));
    });
    assert_failed(&outcome, "digests differ");
    assert_untouched(&site);
}

#[test]
fn silence_and_garbage_are_named() {
    let site = scene();
    let server = Server::new(&site);
    let start = || site.copy(&[]).arg(location(server.port(), "top")).arg("in/").start();

    let run = start();
    let mut stream = server.accept_silently();
    let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
    let ended = run.finish().expect_code(3);
    assert!(ended.stderr.contains("does not speak TLS"), "{ended}");

    let started = Instant::now();
    let run = start();
    let silent = server.accept_silently();
    run.finish().expect_code(3);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    drop(silent);

    // The session is resumable: it connects again, until somebody stops it.
    let run = start();
    let silent = server.accept();
    assert!(run.wait_for(|event| event["type"] == "reconnecting"), "{}", run.stderr());
    run.signal(Signal::INT);
    run.finish().expect_code(4);
    drop(silent);
    assert_untouched(&site);
}

/// Pushes a small and a large file while the receiver does as it likes.
fn push(attack: impl FnOnce(&mut Peer) + Send) -> Ended {
    let site = Site::new();
    let server = Server::new(&site);
    let source = site.directory("source");
    data::file(&source.join("large"), 9 * MIB, 1);
    fs::write(source.join("small"), "small").unwrap();
    let started = Instant::now();
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = server.accept();
            peer.say(Message::Ready(Ready { resuming: false, ring_blocks: 16 }));
            peer.hear_of(|message| match message {
                Message::Entries(entries) => entries.iter().any(|entry| entry.id == 2).then_some(()),
                _ => None,
            });
            attack(&mut peer);
            peer.hear_end();
        });
        site.copy(&[]).arg(&source).arg(location(server.port(), "in")).run()
    });
    assert!(started.elapsed() < PATIENCE, "{:?}: {ended}", started.elapsed());
    ended
}

fn done(id: u32, digest: Option<FileDigest>) -> Message {
    Message::Done(vec![Done { id, outcome: Ok(digest) }])
}

#[test]
fn a_receiver_cannot_claim_what_it_does_not_have() {
    for digest in [None, Some(digest(b"other"))] {
        let ended = push(|peer| {
            peer.say(Message::Wants(Wants { first: 0, answers: vec![Want::All; 3] }));
            peer.say(done(1, digest));
        });
        assert_failed(&ended, "another digest than was sent");
    }
    // Blocks beyond the end, of the small file, of a directory and of items that were never announced.
    for (id, first) in [(1, 3), (1, u32::MAX - 2), (2, 7), (0, 0), (77, 0), (u32::MAX, 0)] {
        let ended = push(|peer| {
            peer.say(Message::Held(Held { id, first, values: vec![[1; 32]] }));
        });
        assert_failed(&ended, "that it does not have");
    }
}

#[test]
fn a_receiver_cannot_ask_for_what_is_not_there() {
    let asked = |message: Message| {
        push(|peer| {
            peer.say(Message::Wants(Wants { first: 3, answers: vec![Want::All; 2000] }));
            peer.say(Message::Wants(Wants { first: u32::MAX, answers: vec![Want::Rest] }));
            peer.say(Message::Resend { id: u32::MAX, index: 0 });
            peer.say(Message::Wants(Wants { first: 0, answers: vec![Want::All; 3] }));
            peer.say(message);
            peer.say(Message::Begin(icdc_protocol::message::Begin { job: [0; 32], sources: Vec::new() }));
        })
    };
    for index in [3, u32::MAX - 1, u32::MAX] {
        let ended = asked(Message::Resend { id: 1, index });
        assert_failed(&ended, "broke the protocol");
        assert_eq!(ended.stderr.matches("broke the protocol").count(), 1, "{ended}");
        assert!(!ended.to_string().contains("panicked"), "{ended}");
    }
}

/// Pulls from a server that cuts the first `cuts` connections and refuses the others, each by the next of `kinds`; answers
/// how many came.
fn pull_refused(cuts: usize, kinds: &[RefusalKind]) -> (Ended, usize) {
    let site = scene();
    let server = Server::new(&site);
    let came = AtomicUsize::new(0);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..cuts + kinds.len() {
                let mut peer = server.accept_request();
                came.fetch_add(1, Ordering::SeqCst);
                if let Some(kind) = number.checked_sub(cuts).and_then(|number| kinds.get(number)) {
                    let reason = format!("refusal number {number}");
                    peer.say(Message::Refused(Refusal { kind: *kind, reason }));
                    peer.hear_end();
                }
            }
        });
        let ended = site.copy(&["--retry-for", "60s"]).arg(location(server.port(), "x")).arg("in/").run();
        // Those whom the server still expects.
        for _ in came.load(Ordering::SeqCst)..cuts + kinds.len() {
            let mut late = site.copy(&["--retry-for", "1ms"]);
            late.arg(location(server.port(), "x")).arg("in/").run();
        }
        ended
    });
    let words = ended.stderr.matches("refusal number").count();
    (ended, words)
}

#[test]
fn a_refusal_ends_the_run_at_once_in_its_words() {
    for kind in
        [RefusalKind::NotAllowed, RefusalKind::Path, RefusalKind::Protocol, RefusalKind::Internal, RefusalKind::Busy]
    {
        let (ended, words) = pull_refused(0, &[kind]);
        assert!(ended.code != Some(0) && words == 1 && ended.all("reconnecting").count() == 0, "{kind:?}: {ended}");
    }
}

#[test]
fn a_far_end_that_is_busy_with_an_earlier_connection_is_waited_for() {
    let (ended, words) = pull_refused(1, &[RefusalKind::Busy, RefusalKind::NotAllowed]);
    assert_eq!(ended.code, Some(3), "{ended}");
    assert_eq!(ended.all("reconnecting").count(), 2, "{ended}");
    assert_eq!(words, 2, "each is told: {ended}");
}
