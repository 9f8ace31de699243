//! Receipts between ends of which one has bad intentions: a daemon signs nothing but what it has stored, and
//! a client takes nothing for a receipt but what it knows.

use std::fs;
use std::sync::Arc;

use icdc_protocol::message::{
    Listening, PackItem, Parent, PassedReceipt, Ready, ReceiptPart, ReceiveOptions, SourceKind, Transfer, Want, Wants,
};
use icdc_protocol::receipt::NAMESPACE;
use icdc_protocol::receipt::facts::{self, Facts};
use icdc_protocol::{Features, Message};
use icdc_transfer::{Event, KeyNotary, Notary as _, Parties, SignedReceipt};
use icdc_trust::{FileHash, FileSignature, Identity};

use crate::peer::{Peer, Server, begin, entry, file, transfer};
use crate::support::daemon::{Daemon, location};
use crate::support::process::eventually;
use crate::support::{Ended, Site, Start};

/// A session at a daemon that has begun a receipt: `top`, a directory, is open. Gives the facts above
/// the lines of items.
fn session(site: &Site, daemon: &Daemon, run: [u8; 16]) -> (Peer, Vec<u8>) {
    let mut peer = Peer::connect(site, daemon);
    let options = ReceiveOptions { resume: true, receipt: true, ..ReceiveOptions::default() };
    peer.ask(run, Transfer::Receive { destination: b"in".to_vec(), options });
    peer.say(begin(b"top", SourceKind::Directory));
    let head = peer.hear_of(|message| match message {
        Message::Receipt(ReceiptPart::Begun { facts, name: None }) => Some(facts.clone()),
        _ => None,
    });
    peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", icdc_protocol::message::EntryKind::Directory)]));
    (peer, head)
}

/// Says that everything is sent; what the daemon tells of the receipt.
fn end(peer: &mut Peer) -> ReceiptPart {
    peer.say(Message::DirEnd { id: 0 });
    peer.say(Message::End);
    peer.hear_of(|message| match message {
        Message::Receipt(part) => Some(part.clone()),
        _ => None,
    })
}

#[test]
fn a_daemon_signs_what_it_has_stored_and_who_has_sent_it_and_nothing_else() {
    let site = Site::new();
    site.directory("root/in");
    let daemon = Daemon::start(&site, &site.path("root"), "rw");
    let run = transfer();
    let (mut peer, head) = session(&site, &daemon, run);
    let name = b"x\n\nended: never\nstored file 5 0.000000000 -  forged";
    peer.say(Message::Entries(vec![entry(1, Parent::Directory(0), name, file(5))]));
    peer.hear_wanted(1);
    let digest = *blake3::hash(b"hello").as_bytes();
    peer.say_with(Message::Pack(vec![PackItem { id: 1, length: 5, digest }]), b"hello");
    let ReceiptPart::Signed { facts: foot, key, signature } = end(&mut peer) else { panic!("there is no receipt") };

    let daemon_key = Identity::load(&site.path("daemon/identity")).unwrap().public();
    let client_key = Identity::load(&site.path("home/.config/icdc/identity")).unwrap().public();
    assert_eq!(&key, daemon_key.as_bytes());
    let facts = facts::head(&head).unwrap();
    let fact = |name| facts::value(&facts, name).unwrap();
    assert_eq!(fact("signed-by"), daemon_key.ssh_line());
    assert!(fact("sent-by").starts_with(&client_key.ssh_line()), "{}", fact("sent-by"));
    let hexadecimal: String = run.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(fact("run"), hexadecimal);
    let lines = format!(
        "stored directory 0 0.000000000 -  top\nstored file 5 0.000000000 \\{}  top/x\\n\\nended: never\\nstored file 5 \
         0.000000000 -  forged\n",
        blake3::hash(b"hello")
    );
    let mut hash = FileHash::default();
    [&head[..], lines.as_bytes(), &foot].into_iter().for_each(|part| hash.update(part));
    let mut bytes = [0; 64];
    bytes.copy_from_slice(signature.as_flattened());
    assert!(FileSignature { key: daemon_key, bytes }.is_of(NAMESPACE, hash), "it signs another text");
}

#[test]
fn a_client_that_has_failed_items_or_dictates_gets_no_signature() {
    let site = Site::new();
    site.directory("root/in");
    let daemon = Daemon::start(&site, &site.path("root"), "rw");
    let (mut peer, _) = session(&site, &daemon, transfer());
    peer.say(Message::Entries(vec![entry(1, Parent::Directory(0), b".icdc-0123456789abcdef.part", file(5))]));
    peer.hear_failed(1);
    match end(&mut peer) {
        ReceiptPart::Refused(reason) => assert!(reason.contains("is not delivered"), "{reason}"),
        other => panic!("{other:?}"),
    }
    drop(peer);
    for dictated in [
        ReceiptPart::Begun { facts: Facts::of_head().with("received-by", "root").into_head(), name: None },
        ReceiptPart::Signed {
            facts: Facts::of_foot().with("items", "1").into_foot(),
            key: [1; 32],
            signature: [[2; 32]; 2],
        },
    ] {
        let seen = daemon.run().stderr().len();
        let (mut peer, _) = session(&site, &daemon, transfer());
        peer.say(Message::Receipt(dictated));
        peer.hear_end();
        let refused = eventually(|| daemon.run().stderr()[seen..].contains("only a receiver may send"));
        assert!(refused, "{}", &daemon.run().stderr()[seen..]);
    }
}

/// Pushes a file with a receipt while the receiver does as it likes.
fn push(features: Features, attack: impl FnOnce(&mut Peer, &Identity) + Send) -> (Site, Ended) {
    let site = Site::new();
    fs::write(site.path("small"), "small").unwrap();
    let server = Server::new(&site);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = server.accept_request();
            peer.say(Message::Accepted(features));
            if features == Features::OURS {
                // What is answered before it is announced is nothing.
                peer.hear_of(|message| matches!(message, Message::Entries(_)).then_some(()));
            }
            attack(&mut peer, server.identity());
            let _ = peer.hear_end();
        });
        site.copy(&["--receipt", "receipt", "small"]).arg(location(server.port(), "in")).run()
    });
    (site, ended)
}

fn assert_none(site: &Site) {
    let names: Vec<String> =
        fs::read_dir(site.root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("receipt")), "{names:?}");
}

#[test]
fn a_far_end_that_cannot_sign_is_named_before_anything_is_sent() {
    let features = Features::from_bits(Features::OURS.bits() & !Features::RECEIPT.bits());
    let (site, ended) = push(features, |_, _| {});
    assert_eq!(ended.code, Some(3), "{ended}");
    assert!(ended.stderr.contains("cannot sign receipts; upgrade icdc there"), "{ended}");
    assert_none(&site);
}

#[test]
fn what_a_far_end_has_not_signed_as_it_is_known_here_is_no_receipt() {
    let begun = |peer: &mut Peer, head: Facts| {
        peer.say(Message::Receipt(ReceiptPart::Begun { facts: head.into_head(), name: None }));
        peer.say(Message::Ready(Ready { resuming: false, ring_blocks: 64 }));
        peer.say(Message::Wants(Wants { first: 0, answers: vec![Want::Skip] }));
    };
    let signed = |peer: &mut Peer, key: [u8; 32]| {
        let facts = Facts::of_foot().with("items", "1").into_foot();
        peer.say(Message::Receipt(ReceiptPart::Signed { facts, key, signature: [[2; 32]; 2] }));
    };
    let (site, ended) = push(Features::OURS, |peer, identity| {
        begun(peer, Facts::of_head().with("signed-by", &identity.public().ssh_line()));
        signed(peer, *identity.public().as_bytes());
    });
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("there is no receipt") && ended.stderr.contains("something else"), "{ended}");
    assert_none(&site);

    let (site, ended) = push(Features::OURS, |peer, _| {
        let other = Identity::generate();
        begun(peer, Facts::of_head().with("signed-by", &other.public().ssh_line()));
        signed(peer, *other.public().as_bytes());
    });
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("with a key that is not its own"), "{ended}");
    assert_none(&site);

    // An answer before the receipt has begun, and two beginnings.
    let (site, ended) = push(Features::OURS, |peer, _| {
        peer.say(Message::Ready(Ready { resuming: false, ring_blocks: 64 }));
        peer.say(Message::Wants(Wants { first: 0, answers: vec![Want::Skip] }));
    });
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("answers before it has begun the receipt"), "{ended}");
    assert_none(&site);
    let (_, ended) = push(Features::OURS, |peer, _| {
        begun(peer, Facts::of_head().with("a", "b"));
        begun(peer, Facts::of_head().with("a", "b"));
    });
    assert!(ended.stderr.contains("begins a receipt twice"), "{ended}");
}

/// Copies from a daemon that drives as it likes to one that keeps to the rules, with these options.
fn between(options: &[&str], features: Features, attack: impl FnOnce(&mut Peer, [u8; 16]) + Send) -> (Site, Ended) {
    let site = Site::new();
    site.directory("root");
    let daemon = Daemon::start(&site, &site.path("root"), "rw");
    let server = Server::new(&site);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = server.accept_unheard();
            let run = peer.hear_of(|message| match message {
                Message::Request(request) => Some(request.transfer),
                _ => None,
            });
            let key = *Identity::generate().public().as_bytes();
            peer.say(Message::Listening(Listening { features, version: "1".into(), key, port: 0 }));
            attack(&mut peer, run);
            let _ = peer.hear_end();
        });
        let (from, to) = (location(server.port(), "small"), daemon.location("in"));
        site.copy(options).args([from.as_str(), &to]).run()
    });
    (site, ended)
}

/// Passes on a receipt of one file that `signer` has signed, naming itself.
fn pass_on(peer: &mut Peer, run: [u8; 16], signer: Identity) {
    peer.hear_of(|message| matches!(message, Message::Request(_)).then_some(()));
    peer.say(Message::Accepted(Features::OURS));
    let parties = Parties { receiver: "far".into(), sender: "near".into() };
    let options = ReceiveOptions { receipt: true, ..ReceiveOptions::default() };
    let notary = KeyNotary::new(Arc::new(signer), parties, &run, &options);
    let pass = |peer: &mut Peer, part| peer.say(Message::PassedReceipt(part));
    pass(peer, PassedReceipt::Begun(notary.begin("/in").unwrap()));
    let line = b"stored file 5 1.000000000 -  in\n".to_vec();
    notary.add(line.clone());
    pass(peer, PassedReceipt::Items(line));
    let SignedReceipt { facts, key, signature } = notary.sign(None).unwrap();
    pass(peer, PassedReceipt::Signed { facts, key, signature });
    let summary = Event::Summary(Box::default());
    peer.say(Message::Relay(serde_json::to_vec(&summary).unwrap()));
}

#[test]
fn an_end_that_drives_cannot_sign_for_the_one_that_receives() {
    let (site, ended) = between(&["--receipt", "receipt"], Features::OURS, |peer, run| {
        pass_on(peer, run, Identity::generate());
    });
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("with a key that is not its own"), "{ended}");
    assert_none(&site);
}

#[test]
fn a_receipt_that_nobody_has_asked_for_and_a_driving_end_that_passes_none_on_are_refused() {
    let (site, ended) = between(&[], Features::OURS, |peer, run| pass_on(peer, run, Identity::generate()));
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stderr.contains("a receipt that nobody has asked for"), "{ended}");
    assert_none(&site);
    let without = Features::from_bits(Features::OURS.bits() & !Features::PASSED_RECEIPTS.bits());
    let (site, ended) = between(&["--receipt", "receipt"], without, |_, _| {});
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(
        ended.stderr.contains("cannot pass a receipt on") && ended.stderr.contains("upgrade icdc there"),
        "{ended}"
    );
    assert_none(&site);
}
