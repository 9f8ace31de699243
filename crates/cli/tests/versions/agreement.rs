//! Ends with other ranges of versions, over real connections to the real binary.

use icdc_link::LinkError;
use icdc_protocol::message::{Message, ReceiveOptions, Refusal, RefusalKind, Request, Transfer};
use icdc_protocol::{Features, VERSION, Versions};
use icdc_trust::Identity;

use crate::peer::{Peer, Server, transfer};
use crate::support::daemon::{Daemon, location};
use crate::support::{Ended, Site, Start, assert_same};
use crate::wire::Wire;

fn versions(lowest: u32, highest: u32) -> Versions {
    Versions::new(lowest, highest).unwrap()
}

/// A daemon, and who may connect to it.
fn daemon() -> (Site, Daemon, Identity) {
    let site = Site::new();
    let root = site.directory("root");
    crate::support::open_to_all(&root);
    let daemon = Daemon::start(&site, &root, "rw");
    let identity = Identity::load(&site.path("home/.config/icdc/identity")).unwrap();
    (site, daemon, identity)
}

#[test]
fn a_daemon_takes_the_highest_version_that_both_have() {
    let (site, daemon, identity) = daemon();
    for (lowest, highest) in [(VERSION, VERSION), (VERSION, VERSION + 7), (1, VERSION + 1)] {
        let mut peer = Peer::offer(&identity, &daemon, versions(lowest, highest)).unwrap();
        assert_eq!(peer.version(), Some(VERSION));
        let job = Transfer::Receive { destination: b"x".to_vec(), options: ReceiveOptions::default() };
        let features = Features::from_bits(u64::MAX);
        peer.say(Message::Request(Request { transfer: transfer(), features, job: job.into() }));
        assert_eq!(peer.hear().unwrap(), Message::Accepted(Features::OURS));
    }
    drop(site);
}

#[test]
fn a_daemon_and_a_client_without_a_common_version_tell_each_other_so() {
    let (site, daemon, identity) = daemon();
    let newer = versions(VERSION + 1, VERSION + 2);
    match Peer::offer(&identity, &daemon, newer).err() {
        Some(LinkError::OtherVersions { theirs, ours, .. }) => assert_eq!((theirs, ours), (Versions::OURS, newer)),
        other => panic!("{other:?}"),
    }
    assert!(daemon.run().wait_for_words("another protocol"), "{}", daemon.run().stderr());
    let log = daemon.run().stderr();
    for words in [newer.to_string(), Versions::OURS.to_string(), "upgrade icdc on this host".to_owned()] {
        assert!(log.contains(&words), "{words}: {log}");
    }
    // Strangers, who are told as much as that their keys are unknown, cannot fill the log.
    for _ in 0..30 {
        let stranger = Peer::offer(&Identity::generate(), &daemon, newer).err();
        assert!(matches!(stranger, Some(LinkError::OtherVersions { .. })), "{stranger:?}");
    }
    // The daemon goes on.
    std::fs::write(site.path("file"), "contents").unwrap();
    site.copy(&["file"]).arg(daemon.location("file")).run().expect_code(0);
    assert_same(&site.path("file"), &site.path("root/file"));
    let lines = daemon.run().stderr().matches("another protocol").count();
    assert!((1..31).contains(&lines), "{lines} lines");
}

/// What a client is told by a server that offers `theirs`.
fn client_meets(theirs: Versions) -> Ended {
    let site = Site::new();
    let server = Server::new(&site);
    std::fs::write(site.path("file"), "contents").unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| match server.accept_offering(theirs) {
            Ok(mut peer) => {
                let version = peer.version();
                peer.hear_of(|message| matches!(message, Message::Request(_)).then_some(()));
                peer.say(Message::Refused(Refusal::new(RefusalKind::NotAllowed, "as far as this")));
                peer.hear_end();
                version
            }
            Err(_) => None,
        });
        let ended = site.copy(&["file"]).arg(location(server.port(), "file")).run();
        let expected = Versions::OURS.common(theirs);
        assert_eq!(served.join().unwrap(), expected);
        ended
    })
}

#[test]
fn a_client_takes_the_version_that_a_newer_server_chooses() {
    for theirs in [versions(VERSION, VERSION + 9), versions(1, VERSION + 1)] {
        let ended = client_meets(theirs);
        assert!(ended.to_string().contains("as far as this"), "{ended}");
    }
}

#[test]
fn a_client_tells_both_versions_and_which_end_to_upgrade() {
    for (theirs, remedy) in [
        (versions(VERSION + 1, VERSION + 2), "upgrade icdc on this host"),
        (versions(1, VERSION - 1), "upgrade icdc there"),
    ] {
        let ended = client_meets(theirs).expect_code(3);
        for words in ["another protocol", &theirs.to_string(), &Versions::OURS.to_string(), remedy] {
            assert!(ended.to_string().contains(words), "{words}: {ended}");
        }
    }
}

#[test]
fn what_is_no_range_of_versions_is_not_believed() {
    for said in [&b"ICDC-VERSIONS 9-3\n"[..], b"ICDC-VERSIONS 1-9999\n", b"\n", &[b'x'; 5000], b""] {
        let site = Site::new();
        let server = Server::new(&site);
        std::fs::write(site.path("file"), "contents").unwrap();
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut wire = Wire::accept_offering(&server, versions(VERSION + 1, VERSION + 1));
                assert_eq!(wire.version(), "icdc");
                wire.send(said);
                wire.say_farewell();
            });
            site.copy(&["file"]).arg(location(server.port(), "file")).run().expect_code(3)
        });
        let words = ["does not tell which versions", "no version of the protocol in common"];
        assert!(words.iter().any(|words| ended.to_string().contains(words)), "{ended}");
    }
}
