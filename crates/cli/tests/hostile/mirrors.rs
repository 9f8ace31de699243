//! Ends of a mirror that lie: senders that would have more deleted or renamed than their key and their announcements
//! allow, and receivers that ask about what is none of theirs. Nothing is deleted, and nothing outside is touched.

use std::fs;
use std::os::unix::fs::symlink as make_symlink;

use icdc_filter::{Effect, Rule};
use icdc_protocol::Message;
use icdc_protocol::message::{
    Backup, CandidateAnswer, CandidatePlace, Candidates, ChangedItem, Delete, Deletion, EntryKind, FileDigest, FileEnd,
    Goodbye, LeftOut, MaxDelete, Mirrored, PackItem, Parent, Ready, ReceiveOptions, SendOptions, SourceKind, Transfer,
    Want,
};
use icdc_trust::Identity;

use crate::peer::{Peer, Server, begin, digest, entry, evil_names, file, transfer};
use crate::support::daemon::{Daemon, location, with_user};
use crate::support::process::eventually;
use crate::support::{Site, Start};

/// What the destination has before each attack, and must have after it; `old` is 5 bytes long and of 1970.
const THERE: [&str; 4] = ["d", "d/inside", "link", "old"];

/// A daemon with a mirror's destination `root/in/top`, and things beside it.
struct Scene {
    site: Site,
    daemon: Daemon,
}

impl Scene {
    fn new(rights: &str) -> Self {
        let site = Site::new();
        let top = site.directory("root/in/top");
        fs::create_dir(top.join("d")).unwrap();
        for (path, contents) in
            [("old", "12345"), ("d/inside", "in"), ("../beside", "beside"), ("../../../outside", "12345678")]
        {
            let path = top.join(path);
            fs::write(&path, contents).unwrap();
            fs::File::open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        fs::create_dir(site.path("elsewhere")).unwrap();
        fs::rename(site.path("outside"), site.path("elsewhere/precious")).unwrap();
        make_symlink(site.path("elsewhere"), top.join("link")).unwrap();
        let daemon = Daemon::start(&site, &site.path("root"), rights);
        Self { site, daemon }
    }

    fn options() -> ReceiveOptions {
        ReceiveOptions { resume: true, delete: Some(Delete::default()), ..ReceiveOptions::default() }
    }

    /// A session of a mirror with these options, up to its directory `top`, which has id 0.
    fn mirror(&self, options: ReceiveOptions) -> Peer {
        let mut peer = Peer::connect(&self.site, &self.daemon);
        peer.ask(transfer(), Transfer::Receive { destination: b"in".to_vec(), options });
        peer.say(begin(b"top", SourceKind::Directory));
        // An earlier session of the same run may still be ending.
        peer.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
        peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
        peer
    }

    fn log(&self) -> String {
        self.daemon.run().stderr()
    }

    /// The session ends, the log says why, and everything is as it was.
    #[track_caller]
    fn assert_refused(&self, mut peer: Peer, words: &str) {
        peer.hear_end();
        assert!(eventually(|| self.log().contains(words)), "{words:?} is not in {}", self.log());
        self.assert_untouched();
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let log = || self.log();
        assert_eq!(listing(&self.site.path("root/in/top")), THERE, "{}", log());
        assert_eq!(listing(&self.site.path("elsewhere")), ["precious"], "{}", log());
        assert_eq!(fs::read(self.site.path("elsewhere/precious")).unwrap(), b"12345678");
        assert_eq!(fs::read(self.site.path("root/in/top/old")).unwrap(), b"12345");
        assert!(self.site.path("root/in/beside").exists());
    }
}

/// All paths below a directory but those of unfinished files, sorted; links are not followed.
fn listing(directory: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with(".icdc-") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
            found.push(entry.path().strip_prefix(directory).unwrap().display().to_string());
        }
    }
    found.sort();
    found
}

fn child(id: u32, name: &[u8], size: u64) -> Message {
    Message::Entries(vec![entry(id, Parent::Directory(0), name, file(size))])
}

fn left_out(directory: u32, name: &[u8]) -> Message {
    Message::LeftOut { directory, what: LeftOut::Names(vec![name.to_vec()]) }
}

/// Why nothing was deleted.
#[track_caller]
fn hear_that_nothing_is_deleted(peer: &mut Peer) -> String {
    peer.hear_of(|message| match message {
        Message::Deletion(Deletion::Refused(reason)) => Some(reason.clone()),
        Message::Deletion(other) => panic!("{other:?}"),
        _ => None,
    })
}

#[test]
fn keys_without_the_right_delete_nothing() {
    let scene = Scene::new("drop-box");
    let reader = Identity::generate();
    let list = scene.site.path("daemon/authorized_keys");
    let options = with_user(&format!("root=\"{}\",rights=r", scene.site.path("root").display()));
    let lines = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{}\n{options} {} reader\n", lines.trim_end(), reader.public())).unwrap();
    let box_key = Identity::load(&scene.site.path("home/.config/icdc/identity")).unwrap();
    let limited = Delete { max: Some(MaxDelete::Items(1)), allow_empty_source: true, ..Delete::default() };
    let backup = Box::new(Backup { directory: Some(b"kept".to_vec()), suffix: Vec::new() });
    for (delete, backup) in [(Some(Delete::default()), None), (Some(limited), None), (None, Some(backup))] {
        let options = ReceiveOptions { delete, backup, ..ReceiveOptions::default() };
        let job = || Transfer::Receive { destination: b"in".to_vec(), options: options.clone() };
        for (key, words) in [(&box_key, "drop box"), (&reader, "this key may not write")] {
            let mut peer = Peer::connect_as(key, &scene.daemon);
            peer.ask(transfer(), job());
            // It does not wait for an answer.
            peer.say(begin(b"top", SourceKind::Contents));
            peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
            peer.say(Message::DirEnd { id: 0 });
            peer.say(Message::End);
            let refusal = peer.hear_refusal();
            assert!(refusal.reason.contains(words), "{refusal:?}");
            scene.assert_untouched();
        }
    }
    assert!(!scene.site.path("root/kept").exists());
}

#[test]
fn only_a_mirror_that_was_asked_for_deletes() {
    let scene = Scene::new("rw");
    let plain = || scene.mirror(ReceiveOptions { delete: None, ..Scene::options() });
    let mut peer = plain();
    peer.say(left_out(0, b"x"));
    scene.assert_refused(peer, "it tells what it leaves out, and was not asked to");
    let mut peer = plain();
    peer.say(Message::DirEnd { id: 0 });
    peer.say(Message::End);
    peer.hear_of(|message| matches!(message, Message::Done(_)).then_some(()));
    peer.say(Message::Goodbye(Goodbye::default()));
    peer.hear_end();
    scene.assert_untouched();
    // What a sender says that a receiver would say of itself.
    for message in [
        Message::Deletion(Deletion::Deleted(vec![ChangedItem { path: b"old".to_vec(), is_directory: false }])),
        Message::Deletion(Deletion::Ended),
        Message::Candidates(Candidates { id: 0, places: vec![CandidatePlace { source: 0, path: b"old".to_vec() }] }),
    ] {
        let mut peer = scene.mirror(Scene::options());
        peer.say(message);
        scene.assert_refused(peer, "only a receiver");
    }
    // Of what is removed at the source, only a move tells.
    let mut peer = scene.mirror(Scene::options());
    peer.say(Message::Removed(vec![ChangedItem { path: b"old".to_vec(), is_directory: false }]));
    peer.say(Message::DirEnd { id: 9 });
    scene.assert_refused(peer, "is not open");
}

#[test]
fn names_in_announcements_of_a_mirror_cannot_escape() {
    let scene = Scene::new("rw");
    for name in evil_names() {
        let mut peer = scene.mirror(Scene::options());
        peer.say(left_out(0, &name));
        scene.assert_refused(peer, "not one component of a path");
        let mut peer = scene.mirror(Scene::options());
        peer.say(Message::Entries(vec![entry(1, Parent::Directory(0), &name, EntryKind::Directory)]));
        peer.say(Message::DirEnd { id: 1 });
        scene.assert_refused(peer, "not one component of a path");
    }
    for directory in [1, 7, u32::MAX] {
        let mut peer = scene.mirror(Scene::options());
        peer.say(left_out(directory, b"x"));
        scene.assert_refused(peer, "names are left out of no open directory");
    }
    // Neither before a directory is announced nor after its end.
    let mut peer = scene.mirror(Scene::options());
    peer.say(child(1, b"old", 5));
    peer.say(Message::DirEnd { id: 0 });
    peer.say(left_out(0, b"d"));
    scene.assert_refused(peer, "names are left out of no open directory");
    // The link leads out; a directory of its name is announced, which would be emptied.
    let mut peer = scene.mirror(Scene::options());
    peer.say(Message::Entries(vec![
        entry(1, Parent::Directory(0), b"link", EntryKind::Directory),
        entry(2, Parent::Directory(1), b"evil", file(9)),
    ]));
    peer.say(Message::DirEnd { id: 1 });
    peer.say(Message::DirEnd { id: 0 });
    peer.hear_wanted(2);
    peer.say(Message::End);
    peer.say(Message::Goodbye(Goodbye::default()));
    scene.assert_refused(peer, "goodbye");
}

#[test]
fn nothing_is_deleted_before_everything_is_there() {
    let scene = Scene::new("rw");
    // The directory ends, and so does the sender, before what is wanted has come.
    for says_end in [false, true] {
        let mut peer = scene.mirror(Scene::options());
        peer.say(child(1, b"new", 9));
        peer.say(Message::DirEnd { id: 0 });
        peer.hear_wanted(1);
        if says_end {
            peer.say(Message::End);
        }
        peer.say(Message::Goodbye(Goodbye::default()));
        scene.assert_refused(peer, "goodbye");
        let mut peer = scene.mirror(Scene::options());
        peer.say(child(1, b"new", 9));
        peer.say(Message::DirEnd { id: 0 });
        peer.hear_wanted(1);
        if says_end {
            peer.say(Message::End);
        }
        peer.cut();
        peer.hear_end();
        scene.assert_untouched();
    }
    // A file that is not what it says is a failure, after which nothing is deleted.
    let mut peer = scene.mirror(Scene::options());
    peer.say(child(1, b"new", 9 << 20));
    peer.hear_wanted(1);
    let end = FileEnd { id: 1, blocks: 0, outcome: Ok(FileDigest::Blake3([1; 32])) };
    peer.say(Message::FileEnd(end));
    peer.say(Message::DirEnd { id: 0 });
    peer.say(Message::End);
    let reason = hear_that_nothing_is_deleted(&mut peer);
    assert!(reason.contains("new: it was not copied"), "{reason}");
    peer.say(Message::Goodbye(Goodbye::default()));
    peer.hear_end();
    scene.assert_untouched();
    // A sender that has nothing, and one that would have more deleted than may be.
    let limited = Delete { max: Some(MaxDelete::Items(1)), allow_empty_source: true, ..Delete::default() };
    for (delete, words) in [(Delete::default(), "--yes-empty"), (limited, "--max-delete allows 1")] {
        let mut peer = scene.mirror(ReceiveOptions { delete: Some(delete), ..Scene::options() });
        peer.say(Message::DirEnd { id: 0 });
        peer.say(Message::End);
        let reason = hear_that_nothing_is_deleted(&mut peer);
        assert!(reason.contains(words), "{reason}");
        peer.say(Message::Goodbye(Goodbye::default()));
        peer.hear_end();
        scene.assert_untouched();
    }
}

#[test]
fn answers_about_renames_move_nothing_by_themselves() {
    let scene = Scene::new("rw");
    // Of what was never announced.
    let mut peer = scene.mirror(Scene::options());
    peer.say(Message::CandidateAnswer(CandidateAnswer { id: 9, gone: 1, digest: Some(digest(b"12345")) }));
    scene.assert_refused(peer, "answers for item 9, which it has not announced");

    let asked = |options: ReceiveOptions, size: u64| {
        let mut peer = scene.mirror(options);
        // Nobody has asked about it yet, nor about the directory.
        peer.say(Message::CandidateAnswer(CandidateAnswer { id: 0, gone: u32::MAX, digest: Some(digest(b"12345")) }));
        peer.say(child(1, b"new", size));
        peer
    };
    let hear_places = |peer: &mut Peer| {
        peer.hear_of(|message| match message {
            Message::Candidates(asked) => Some(asked.places.clone()),
            _ => None,
        })
    };
    for (gone, digest) in [
        (0, Some(digest(b"12345"))),
        (1, None),
        (1, Some(digest(b"54321"))),
        (1, Some(FileDigest::SparseMap([0; 32]))),
        // There is one candidate, and no other bit stands for anything.
        (!1, Some(digest(b"12345"))),
    ] {
        let mut peer = asked(Scene::options(), 5);
        assert_eq!(hear_places(&mut peer), [CandidatePlace { source: 0, path: b"old".to_vec() }]);
        for _ in 0..2 {
            peer.say(Message::CandidateAnswer(CandidateAnswer { id: 1, gone, digest }));
        }
        peer.hear_wanted(1);
        // Once more, when its contents are wanted.
        peer.say(Message::CandidateAnswer(CandidateAnswer {
            id: 1,
            gone: 1,
            digest: Some(crate::peer::digest(b"12345")),
        }));
        peer.say(Message::Goodbye(Goodbye::default()));
        scene.assert_refused(peer, "goodbye");
    }
    // One that is taken, as the sender has told its digest, is there under both names until everything is done.
    let mut peer = asked(Scene::options(), 5);
    hear_places(&mut peer);
    peer.say(Message::CandidateAnswer(CandidateAnswer { id: 1, gone: 1, digest: Some(digest(b"12345")) }));
    peer.hear_of(|message| match message {
        Message::Wants(wants) => wants.answers.iter().any(|want| matches!(want, Want::Renamed(_))).then_some(()),
        _ => None,
    });
    peer.say(Message::Goodbye(Goodbye::default()));
    peer.hear_end();
    fs::remove_file(scene.site.path("root/in/top/new")).unwrap();
    scene.assert_untouched();
    // Neither what a rule keeps nor what lies behind a link is ever asked about.
    let rule = Rule { effect: Effect::Exclude, pattern: b"old".to_vec() };
    let kept = ReceiveOptions { delete: Some(Delete { rules: vec![rule], ..Delete::default() }), ..Scene::options() };
    for (options, size) in [(kept, 5), (Scene::options(), 8)] {
        let mut peer = asked(options, size);
        peer.say(Message::CandidateAnswer(CandidateAnswer {
            id: 1,
            gone: u32::MAX,
            digest: Some(digest(b"12345678")),
        }));
        peer.hear_of(|message| match message {
            Message::Candidates(asked) => panic!("{asked:?}"),
            Message::Wants(wants) if wants.first <= 1 => {
                let answer = wants.answers.get((1 - wants.first) as usize);
                matches!(answer, Some(Want::All)).then_some(())
            }
            _ => None,
        });
        peer.say(Message::Goodbye(Goodbye::default()));
        peer.hear_end();
        scene.assert_untouched();
    }
}

#[test]
fn a_receiver_learns_nothing_of_what_is_outside_of_the_sources() {
    let site = Site::new();
    let root = site.directory("root");
    fs::create_dir(root.join("source")).unwrap();
    for path in ["source/here", "beside"] {
        fs::write(root.join(path), "12345").unwrap();
    }
    make_symlink("..", root.join("source/up")).unwrap();
    let daemon = Daemon::start(&site, &root, "r");
    let ask = |mirrored, paths: &[&[u8]]| {
        let mut peer = Peer::connect(&site, &daemon);
        let options = SendOptions { mirrored, ..SendOptions::default() };
        peer.ask(transfer(), Transfer::Send { sources: vec![b"source/".to_vec()], options });
        peer.hear_of(|message| matches!(message, Message::Begin(_)).then_some(()));
        peer.say(Message::Ready(Ready { resuming: false, ring_blocks: 64 }));
        let id = peer.hear_of(|message| match message {
            Message::Entries(entries) => entries.iter().find(|entry| entry.name == b"here").map(|entry| entry.id),
            _ => None,
        });
        let places = paths.iter().map(|path| CandidatePlace { source: 0, path: path.to_vec() }).collect();
        peer.say(Message::Candidates(Candidates { id, places }));
        peer
    };
    let answer = |peer: &mut Peer| {
        peer.hear_of(|message| match message {
            Message::CandidateAnswer(answer) => Some(answer.gone),
            _ => None,
        })
    };
    // A name that the source has, one that it has not, and one behind a link, which is none of the source's directories.
    assert_eq!(answer(&mut ask(Mirrored::KeepingExcluded, &[b"here", b"gone", b"up/beside"])), 0b110);
    let refusal = ask(Mirrored::No, &[b"gone"]).hear_refusal();
    assert!(refusal.reason.contains("which is not to be compared"), "it is no mirror: {refusal:?}");
    for path in [&b"../beside"[..], b"../missing", b"/etc/passwd", b"./here", b""] {
        let mut peer = ask(Mirrored::KeepingExcluded, &[path]);
        // It is refused, or not known to be gone.
        loop {
            match peer.hear() {
                Ok(Message::CandidateAnswer(answer)) => {
                    assert_eq!((answer.gone, answer.digest), (0, None), "{}", path.escape_ascii());
                    break;
                }
                Ok(Message::Abort(_)) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }
}

#[test]
fn a_server_that_lies_has_nothing_deleted_at_a_client_either() {
    type Attack<'a> = &'a (dyn Fn(&mut Peer) + Sync);
    let attacks: [(&str, Attack<'_>); 4] = [
        ("not one component of a path", &|peer| {
            peer.say(left_out(0, b"../outside"));
        }),
        ("goodbye", &|peer| {
            peer.say(child(1, b"new", 9));
            peer.say(Message::DirEnd { id: 0 });
            peer.hear_wanted(1);
            peer.say(Message::End);
            peer.say(Message::Goodbye(Goodbye::default()));
        }),
        ("answers for item 7, which it has not announced", &|peer| {
            peer.say(Message::CandidateAnswer(CandidateAnswer { id: 7, gone: 1, digest: Some(digest(b"12345")) }));
        }),
        ("does not match its digest", &|peer| {
            peer.say(child(1, b"new", 5));
            peer.hear_of(|message| matches!(message, Message::Candidates(_)).then_some(()));
            peer.say(Message::CandidateAnswer(CandidateAnswer { id: 1, gone: 1, digest: Some(digest(b"other")) }));
            peer.hear_wanted(1);
            let item = PackItem { id: 1, length: 5, digest: *blake3::hash(b"other").as_bytes() };
            peer.say_with(Message::Pack(vec![item]), b"12345");
        }),
    ];
    for (words, attack) in attacks {
        let site = Site::new();
        let top = site.directory("in/top");
        fs::write(top.join("old"), "12345").unwrap();
        fs::File::open(top.join("old")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        fs::write(site.path("outside"), "12345").unwrap();
        let server = Server::new(&site);
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut peer = server.accept();
                peer.say(begin(b"top", SourceKind::Directory));
                peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
                attack(&mut peer);
                peer.hear_end();
            });
            site.copy(&["--delete", "--yes-empty"]).arg(location(server.port(), "top")).arg("in/").run()
        });
        assert_eq!(ended.code, Some(1), "{ended}");
        assert!(ended.to_string().contains(words), "{words:?} is not said: {ended}");
        assert_eq!(listing(&site.path("in")), ["top", "top/old"], "{ended}");
        assert!(site.path("outside").exists());
    }
}
