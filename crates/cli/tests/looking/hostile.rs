//! Ends that do not keep to the rules of a listing: the other one ends in bounded time, with a
//! sentence.

use icdc_protocol::Message;
use icdc_protocol::limits::MAX_LISTED;
use icdc_protocol::message::{
    Job, ListDetail, ListMessage, ListReach, ListRequest, Listed, ListedItem, ListedKind, Refusal, RefusalKind,
};

use crate::peer::{Peer, Server, run_against, transfer};
use crate::support::daemon::Daemon;
use crate::support::{Ended, Site, Start};

fn item(rest: &[u8], kind: ListedKind) -> Listed {
    Listed::Item(ListedItem { shared: 0, rest: rest.to_vec(), kind, metadata: None })
}

fn list(records: Vec<Listed>) -> Message {
    Message::List(ListMessage::Listed(records))
}

/// Lists while the server does as it likes.
fn looked(words: &[&str], attack: impl FnOnce(&mut Peer) + Send) -> Ended {
    run_against(words, Server::accept, attack)
}

#[test]
fn records_out_of_their_course_end_the_listing() {
    let root = || item(b"", ListedKind::Open);
    let cases: [(Vec<Listed>, &str); 6] = [
        (vec![root(), item(b"b", ListedKind::Pipe), item(b"a", ListedKind::Pipe)], "ascending order"),
        (vec![root(), item(b"..", ListedKind::Pipe)], "one component"),
        (vec![root(), item(b"a/b", ListedKind::Pipe)], "one component"),
        (vec![Listed::Leave], "not open"),
        (vec![root(), Listed::Leave, item(b"x", ListedKind::Pipe)], "after the end"),
        (vec![root(), item(&[b'x'; 256], ListedKind::Pipe)], "a name too long"),
    ];
    for (records, words) in cases {
        let ended = looked(&["ls", "-R"], |peer| assert!(peer.say(list(records))));
        assert_eq!(ended.code, Some(1), "{ended}");
        assert!(ended.stderr.contains("broke the protocol") && ended.stderr.contains(words), "{ended}");
    }
}

#[test]
fn directories_without_end_are_not_followed() {
    let ended = looked(&["du"], |peer| {
        let mut records = vec![item(b"", ListedKind::Open)];
        records.extend((1..MAX_LISTED).map(|_| item(b"d", ListedKind::Open)));
        for _ in 0..10 {
            if !peer.say(list(records.clone())) {
                break;
            }
            records[0] = item(b"d", ListedKind::Open);
        }
    });
    assert!(ended.code == Some(1) && ended.stderr.contains("nested too deeply"), "{ended}");
}

#[test]
fn an_end_before_the_listing_is_complete_is_not_success() {
    let begun = || list(vec![item(b"", ListedKind::Open), item(b"a", ListedKind::Pipe)]);
    let ended = looked(&["ls"], |peer| {
        peer.say(begun());
        peer.say(Message::List(ListMessage::End));
    });
    assert!(ended.code == Some(1) && ended.stderr.contains("before it is complete"), "{ended}");
    let ended = looked(&["ls"], |peer| {
        peer.say(begun());
        peer.cut();
    });
    assert!(ended.code == Some(3) && ended.stderr.contains("connection lost"), "{ended}");
    let ended = looked(&["ls"], |peer| {
        let refusal = Refusal::new(RefusalKind::Internal, "no\u{1b}[2J memory");
        peer.say(Message::Abort(refusal));
    });
    assert!(ended.code == Some(1) && !ended.stderr.contains('\u{1b}'), "{ended}");
}

#[test]
fn an_older_end_is_told_to_be_upgraded() {
    let ended = run_against(&["ls"], Server::accept_request, |peer| {
        peer.say(Message::Refused(Refusal::new(RefusalKind::Protocol, "the head of the frame is not a message")));
    });
    assert!(ended.stderr.contains("cannot list what is there; upgrade icdc there"), "{ended}");
    assert_eq!(ended.code, Some(3), "{ended}");
}

#[test]
fn a_daemon_sends_no_more_than_is_taken_and_outlives_who_asks() {
    let site = Site::new();
    let top = site.directory("top");
    (0..5000).for_each(|number| std::fs::write(top.join(format!("f{number}")), "").unwrap());
    let daemon = Daemon::start(&site, site.root(), "r");
    let request = |path: &[u8]| ListRequest {
        path: path.to_vec(),
        reach: ListReach::Tree,
        detail: ListDetail::Names,
        rules: Vec::new(),
    };
    // One that claims to have used what was never sent.
    let mut peer = Peer::connect(&site, &daemon);
    peer.ask(transfer(), Job::List(request(b"top")));
    for _ in 0..100 {
        peer.say(Message::List(ListMessage::Used { weight: 1 << 20 }));
    }
    peer.close();
    // One that says something else.
    let mut peer = Peer::connect(&site, &daemon);
    peer.ask(transfer(), Job::List(request(b"top")));
    peer.say(Message::End);
    peer.hear_end();
    // One that leaves at once.
    let mut peer = Peer::connect(&site, &daemon);
    peer.ask(transfer(), Job::List(request(b"top")));
    peer.cut();
    let ended = site.icdc(&["ls", &daemon.location("top")]).run().expect_code(0);
    assert_eq!(ended.text.lines().count(), 5000);
}
