//! Holders of keys that reach for more than their line gives them, against a real `icdc serve`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use icdc_protocol::limits::MAX_RING_BYTES;
use icdc_protocol::message::{
    EntryKind, Job, Parent, Preserve, Ready, ReceiveOptions, RefusalKind, Request, SendOptions, SourceKind, Transfer,
    Want, Wants,
};
use icdc_protocol::{Features, Message};
use icdc_trust::{Identity, PublicKey};
use icdc_units::ByteCount;

use crate::peer::{Peer, begin, entry, file, transfer};
use crate::support::daemon::{Daemon, with_user};
use crate::support::{MIB, Site, Start, data, is_root, skip};

/// Enough for a session to end that is ended within a second, and far less than a silent one would be given.
const SOON: Duration = Duration::from_secs(6);

/// A daemon with a writer's key, which is the site's client, and a reader's.
struct Scene {
    site: Site,
    daemon: Daemon,
    reader: Identity,
}

impl Scene {
    fn new() -> Self {
        let site = Site::new();
        site.directory("root/in");
        fs::write(site.path("root/file"), "file").unwrap();
        let daemon = Daemon::start(&site, &site.path("root"), "rw");
        let scene = Self { site, daemon, reader: Identity::generate() };
        scene.add_line("rights=r", scene.reader.public());
        scene
    }

    fn list(&self) -> String {
        fs::read_to_string(self.site.path("daemon/authorized_keys")).unwrap()
    }

    fn write_list(&self, lines: &str) {
        fs::write(self.site.path("daemon/authorized_keys"), lines).unwrap();
    }

    fn add_line(&self, rights: &str, key: PublicKey) {
        let options = with_user(&format!("root=\"{}\",{rights}", self.site.path("root").display()));
        self.write_list(&format!("{}\n{options} {key} added\n", self.list().trim_end()));
    }

    /// Takes away the line of `key`.
    fn remove_line(&self, key: PublicKey) {
        let lines: Vec<String> =
            self.list().lines().filter(|line| !line.contains(&key.to_string())).map(str::to_owned).collect();
        self.write_list(&lines.join("\n"));
    }

    fn writer(&self) -> PublicKey {
        Identity::load(&self.site.path("home/.config/icdc/identity")).unwrap().public()
    }

    /// Has the daemon admit `key` for a job, by the holder of `by`; answers whether it did, or why not.
    fn admit(&self, by: &Identity, key: PublicKey, transfer: [u8; 16], job: Transfer) -> Result<(), String> {
        let mut peer = Peer::connect_as(by, &self.daemon);
        peer.ask(transfer, Job::Admit { key: *key.as_bytes(), job: Box::new(job) });
        match peer.hear().unwrap() {
            Message::Accepted(_) => Ok(()),
            Message::Refused(refusal) => Err(refusal.reason),
            other => panic!("{other:?}"),
        }
    }

    fn push(&self) -> i32 {
        fs::write(self.site.path("push"), "pushed").unwrap();
        self.site.copy(&["push"]).arg(self.daemon.location("in/pushed")).run().code.unwrap()
    }
}

fn send_job() -> Transfer {
    let options = SendOptions { streams: Some(1), ..SendOptions::default() };
    Transfer::Send { sources: vec![b"file".to_vec()], options }
}

fn receive_job(destination: &str) -> Transfer {
    let options = ReceiveOptions { resume: true, ..ReceiveOptions::default() };
    Transfer::Receive { destination: destination.into(), options }
}

/// A session of this job that has an open file.
fn open_session(peer: &mut Peer, transfer: [u8; 16], job: Transfer) {
    peer.ask(transfer, job);
    peer.say(begin(b"top", SourceKind::Directory));
    peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
    peer.say(Message::Entries(vec![entry(1, Parent::Directory(0), b"file", file(9 * MIB))]));
    peer.hear_wanted(1);
}

#[test]
fn no_key_takes_the_place_of_another() {
    let scene = Scene::new();
    let refused = scene.admit(&scene.reader, scene.writer(), transfer(), send_job()).unwrap_err();
    assert!(refused.contains("authorized keys"), "{refused}");
    assert_eq!(scene.push(), 0, "the writer still is who it was");
    // Nor that of one that is admitted for a transfer.
    let temporary = Identity::generate();
    let id = transfer();
    scene.add_line("rights=rw", Identity::generate().public());
    let other = Identity::load(&scene.site.path("home/.config/icdc/identity")).unwrap();
    scene.admit(&other, temporary.public(), id, receive_job("in")).unwrap();
    scene.admit(&scene.reader, temporary.public(), transfer(), send_job()).unwrap_err();
    open_session(&mut Peer::connect_as(&temporary, &scene.daemon), id, receive_job("in"));
}

#[test]
fn one_key_cannot_admit_without_end_nor_at_the_cost_of_others() {
    let scene = Scene::new();
    let admit = || scene.admit(&scene.reader, Identity::generate().public(), transfer(), send_job());
    let refused = (0..200).find_map(|_| admit().err()).expect("there is a limit");
    assert!(refused.contains("limit"), "{refused}");
    let writer = Identity::load(&scene.site.path("home/.config/icdc/identity")).unwrap();
    scene.admit(&writer, Identity::generate().public(), transfer(), receive_job("in")).unwrap();
}

#[test]
fn a_key_that_acts_as_a_user_admits_others_though_the_user_may_not_read_the_list() {
    if !is_root() {
        return skip("acting as another user needs root");
    }
    let scene = Scene::new();
    let options = format!("root=\"{}\",rights=rw,user=nobody", scene.site.path("root").display());
    let daemon = Daemon::named(&scene.site, "acting", &options);
    fs::set_permissions(scene.site.path("acting"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut peer = Peer::connect(&scene.site, &daemon);
    let job = Job::Admit { key: *Identity::generate().public().as_bytes(), job: Box::new(receive_job("in")) };
    peer.ask(transfer(), job);
    assert!(matches!(peer.hear(), Ok(Message::Accepted(_))));
}

#[test]
fn a_temporary_key_goes_with_the_key_that_admitted_it() {
    let scene = Scene::new();
    let holder = Identity::generate();
    scene.add_line("rights=rw", holder.public());
    let (temporary, id) = (Identity::generate(), transfer());
    scene.admit(&holder, temporary.public(), id, receive_job("in")).unwrap();
    let mut peer = Peer::connect_as(&temporary, &scene.daemon);
    open_session(&mut peer, id, receive_job("in"));
    let since = Instant::now();
    scene.remove_line(holder.public());
    peer.hear_end();
    assert!(since.elapsed() < SOON, "it went on for {:?}", since.elapsed());
    let mut again = Peer::connect_as(&temporary, &scene.daemon);
    again.ask(id, receive_job("in"));
    let refusal = again.hear_refusal();
    assert_eq!(refusal.kind, RefusalKind::NotAllowed, "{}", refusal.reason);
    assert_eq!(scene.push(), 0, "others are served");
}

#[test]
fn a_temporary_key_has_no_more_rights_than_its_line_has_now() {
    let scene = Scene::new();
    let holder = Identity::generate();
    scene.add_line("rights=rw", holder.public());
    let (temporary, id) = (Identity::generate(), transfer());
    scene.admit(&holder, temporary.public(), id, receive_job("in")).unwrap();
    scene.remove_line(holder.public());
    scene.add_line("rights=r", holder.public());
    let mut peer = Peer::connect_as(&temporary, &scene.daemon);
    peer.ask(id, receive_job("in"));
    assert!(peer.hear_refusal().reason.contains("may not write"));
}

#[test]
fn a_request_made_before_a_change_of_its_line_counts_for_nothing_after_it() {
    let scene = Scene::new();
    let holder = Identity::generate();
    scene.add_line("rights=rw", holder.public());
    // Let in, and silent while its line goes.
    let mut peer = Peer::connect_as(&holder, &scene.daemon);
    assert!(scene.daemon.run().stderr().contains("listening"));
    std::thread::sleep(Duration::from_millis(300));
    scene.remove_line(holder.public());
    assert!(scene.daemon.run().wait_for_words("the connection ends: its line in authorized_keys has changed"));
    peer.ask(transfer(), receive_job("in/late"));
    peer.say(begin(b"top", SourceKind::Item));
    peer.hear_end();
    assert!(!scene.site.path("root/in/late").exists());
}

#[test]
fn owners_are_not_set_by_a_key_whose_line_does_not_say_so() {
    let scene = Scene::new();
    let options = ReceiveOptions { preserve: Preserve { owner: true, ..Preserve::default() }, ..Default::default() };
    let job = Transfer::Receive { destination: b"in".to_vec(), options };
    let mut peer = Peer::connect(&scene.site, &scene.daemon);
    peer.ask(transfer(), job.clone());
    let refusal = peer.hear_refusal();
    assert!(refusal.kind == RefusalKind::NotAllowed && refusal.reason.contains("owner=keep"), "{}", refusal.reason);
    let writer = Identity::load(&scene.site.path("home/.config/icdc/identity")).unwrap();
    let refused = scene.admit(&writer, Identity::generate().public(), transfer(), job).unwrap_err();
    assert!(refused.contains("owner=keep"), "{refused}");
}

/// A client may say what only a daemon has to say, whose limit of the key holds nevertheless.
#[test]
fn a_key_does_not_lift_the_limit_of_its_own_rate() {
    let scene = Scene::new();
    data::file(&scene.site.path("root/large"), 12 * MIB, 1);
    let limited = Identity::generate();
    scene.add_line("rights=r,max-rate=32mbit", limited.public());
    for lifting in [Message::MaxRate { bytes_per_second: u64::MAX }, Message::KeyCeiling(None)] {
        let mut peer = Peer::connect_as(&limited, &scene.daemon);
        let options = SendOptions { streams: Some(1), ..SendOptions::default() };
        peer.ask(transfer(), Transfer::Send { sources: vec![b"large".to_vec()], options });
        peer.say(lifting);
        peer.say(Message::Ready(Ready { resuming: false, ring_blocks: 16 }));
        peer.hear_of(|message| matches!(message, Message::Entries(_)).then_some(()));
        peer.say(Message::Wants(Wants { first: 0, answers: vec![Want::All] }));
        // What the first block needs is a start, and what sockets hold has left before.
        peer.hear_of(|message| matches!(message, Message::Block(_)).then_some(()));
        let began = Instant::now();
        peer.hear_of(|message| matches!(message, Message::FileEnd(_)).then_some(()));
        let rate = 8.0 * 8.0 * MIB as f64 / began.elapsed().as_secs_f64();
        assert!(rate < 2.0 * 32e6, "{rate} bit/s where 32 Mbit/s are allowed");
    }
}

#[test]
fn an_end_that_takes_no_changes_of_its_limit_is_told_the_highest_and_others_the_present_one() {
    let scene = Scene::new();
    data::file(&scene.site.path("root/large"), MIB, 1);
    let limited = Identity::generate();
    scene.add_line("rights=r,max-rate=\"00:00-24:00=16mbit, else=32mbit\"", limited.public());
    let told = |features| {
        let mut peer = Peer::connect_as(&limited, &scene.daemon);
        let job = Transfer::Send { sources: vec![b"large".to_vec()], options: SendOptions::default() };
        peer.say(Message::Request(Request { features, ..Request::new(transfer(), job) }));
        peer.hear_of(|message| match message {
            Message::MaxRate { .. } | Message::KeyCeiling(_) => Some(message.clone()),
            _ => None,
        })
    };
    // Later ones have a share of it.
    assert_eq!(told(Features::OURS), Message::KeyCeiling("16mbit".parse().ok()));
    let older = Features::OURS.without(Features::KEY_CEILING);
    assert_eq!(told(older), Message::MaxRate { bytes_per_second: 4_000_000 });
}

#[test]
fn a_request_beyond_the_limits_is_answered_with_words() {
    let scene = Scene::new();
    let options = ReceiveOptions { ring: Some(ByteCount::new(MAX_RING_BYTES + 1)), ..ReceiveOptions::default() };
    let too_large = Transfer::Receive { destination: b"in".to_vec(), options };
    for job in
        [too_large.clone().into(), Job::Admit { key: [1; 32], job: Box::new(too_large) }, Job::Join { stream: 255 }]
    {
        let mut peer = Peer::connect(&scene.site, &scene.daemon);
        peer.ask(transfer(), job);
        let refusal = peer.hear_refusal();
        assert_eq!(refusal.kind, RefusalKind::Protocol, "{}", refusal.reason);
    }
    let mut peer = Peer::connect(&scene.site, &scene.daemon);
    peer.say(begin(b"no request", SourceKind::Item));
    assert!(peer.hear_refusal().reason.contains("request"));
    assert_eq!(scene.push(), 0);
}
