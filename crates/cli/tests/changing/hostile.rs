//! Ends that do not keep to the rules of a change: the other one ends in bounded time, with a
//! sentence, and nothing is removed that nobody has agreed to.

use icdc_protocol::Message;
use icdc_protocol::message::{ChangeCount, ChangeMessage, ChangeRequest, ChangedItem, Job, Refusal, RefusalKind};

use crate::peer::{Peer, Server, run_against, transfer};
use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{Ended, Site};

/// Removes while the server does as it likes.
fn removed(attack: impl FnOnce(&mut Peer) + Send) -> Ended {
    run_against(&["rm", "-r", "--yes", "-v"], Server::accept, attack)
}

fn change(message: ChangeMessage) -> Message {
    Message::Change(message)
}

#[test]
fn messages_out_of_place_end_the_change() {
    let count = ChangeCount { items: 1, directories: 0, bytes: 0 };
    let cases: [(Vec<ChangeMessage>, &str); 4] = [
        (vec![ChangeMessage::Counted(count), ChangeMessage::Counted(count)], "out of place"),
        (vec![ChangeMessage::Proceed], "out of place"),
        (vec![ChangeMessage::Used { weight: 1 }], "out of place"),
        (vec![ChangeMessage::End(ChangeCount { items: 0, directories: 1, bytes: 0 })], "more directories than items"),
    ];
    for (messages, words) in cases {
        let ended = removed(|peer| messages.into_iter().map(change).for_each(|message| assert!(peer.say(message))));
        assert_eq!(ended.code, Some(1), "{ended}");
        assert!(ended.stderr.contains("broke the protocol") && ended.stderr.contains(words), "{ended}");
    }
}

#[test]
fn an_end_before_the_last_message_is_not_success() {
    let item = ChangedItem { path: b"top\x1b[2J".to_vec(), is_directory: false };
    let ended = removed(|peer| {
        peer.say(change(ChangeMessage::Changed(vec![item])));
        peer.say(change(ChangeMessage::Failed { path: b"x".to_vec(), reason: "no\u{1b}[2J".into() }));
        peer.cut();
    });
    assert!(ended.code == Some(3) && ended.stderr.contains("connection lost"), "{ended}");
    assert!(!ended.stderr.contains('\u{1b}') && !ended.text.contains('\u{1b}'), "{ended}");
}

#[test]
fn an_older_end_is_told_to_be_upgraded() {
    let ended = run_against(&["mkdir"], Server::accept_request, |peer| {
        peer.say(Message::Refused(Refusal::new(RefusalKind::Protocol, "the head of the frame is not a message")));
    });
    assert!(ended.stderr.contains("cannot make, remove and rename items; upgrade icdc there"), "{ended}");
    assert_eq!(ended.code, Some(3), "{ended}");
}

#[test]
fn a_daemon_removes_nothing_before_the_other_end_agrees() {
    let site = Site::new();
    let top = site.directory("top");
    (0..2000).for_each(|number| std::fs::write(top.join(format!("f{number}")), "").unwrap());
    let daemon = Daemon::start(&site, site.root(), "rw");
    let request = || {
        Job::Change(ChangeRequest::Remove {
            paths: vec![b"top".to_vec()],
            recursive: true,
            dry_run: false,
            names: true,
        })
    };
    let counted = |message: &Message| matches!(message, Message::Change(ChangeMessage::Counted(_))).then_some(());
    // One that leaves at the count, and one that claims to have used what was never sent.
    for last in [None, Some(ChangeMessage::Used { weight: 1 << 20 })] {
        let mut peer = Peer::connect(&site, &daemon);
        peer.ask(transfer(), request());
        peer.hear_of(counted);
        match last {
            None => peer.close(),
            Some(message) => {
                peer.say(change(message));
                peer.hear_end();
            }
        }
        assert_eq!(std::fs::read_dir(&top).unwrap().count(), 2000);
    }
    // What came after the count is not among what was agreed to.
    let mut peer = Peer::connect(&site, &daemon);
    peer.ask(transfer(), request());
    peer.hear_of(counted);
    std::fs::write(top.join("late"), "late").unwrap();
    peer.say(change(ChangeMessage::Proceed));
    peer.hear_of(|message| matches!(message, Message::Change(ChangeMessage::Failed { .. })).then_some(()));
    peer.close();
    assert!(eventually(|| top.is_dir()), "one item more than was counted: the directory stays");
}
