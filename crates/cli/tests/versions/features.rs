//! What the other end cannot do is not asked of it, and told.

use icdc_protocol::Features;
use icdc_protocol::message::{Message, Parent, Ready, Refusal, RefusalKind, SourceKind, Want, Wants};
use icdc_units::Rate;

use crate::peer::{Server, begin, entry, file};
use crate::support::daemon::location;
use crate::support::process::eventually;
use crate::support::{HERE, Site, Start};

/// Asserts that a copy with these words, of `image` or of `tree/`, is refused for this reason by an end with these
/// features.
fn assert_refused(features: Features, words: &[&str], destination: &str, reason: &str) {
    let site = Site::new();
    let server = Server::new(&site);
    std::fs::create_dir(site.path("tree")).unwrap();
    std::fs::write(site.path("image"), "contents").unwrap();
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = server.accept_request();
            peer.say(Message::Accepted(features));
            peer.hear_end();
        });
        site.copy(words).arg(location(server.port(), destination)).run()
    })
    .expect_code(3);
    assert!(ended.to_string().contains(reason), "{ended}");
}

#[test]
fn links_are_not_kept_by_an_end_that_does_not_follow_them() {
    let without = Features::from_bits(!Features::DIRECTORY_LINKS.bits());
    let reason = "does not follow links to directories; upgrade icdc there";
    assert_refused(without, &["--keep-dirlinks", "tree/"], "copy", reason);
}

#[test]
fn no_device_is_written_by_an_end_that_does_not_do_so() {
    let without = Features::from_bits(Features::OURS.bits() & !Features::DEVICES.bits());
    let reason = "does not read or write block devices; upgrade icdc there";
    assert_refused(without, &["--write-device", "image"], "dev/sdz", reason);
}

#[test]
fn no_file_is_written_in_place_by_an_end_that_does_not_do_so() {
    let without = Features::from_bits(Features::OURS.bits() & !Features::IN_PLACE.bits());
    assert_refused(without, &["--in-place", "image"], "image", "does not write files in place; upgrade icdc there");
}

#[test]
fn moved_content_is_not_looked_for_by_an_end_that_does_not_find_it() {
    let without = Features::from_bits(Features::OURS.bits() & !Features::DELTA.bits());
    for pulls in [true, false] {
        let site = Site::new();
        let server = Server::new(&site);
        std::fs::write(site.path("file"), vec![7; 1 << 20]).unwrap();
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut peer = server.accept_request();
                peer.say(Message::Accepted(without));
                if pulls {
                    peer.say(begin(b"file", SourceKind::Item));
                    peer.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", file(1 << 20))]));
                    let answer = peer.hear_of(|message| match message {
                        Message::Wants(wants) => wants.answers.first().copied(),
                        _ => None,
                    });
                    assert_eq!(answer, Want::Difference);
                } else {
                    peer.say(Message::Ready(Ready { resuming: false, ring_blocks: 16 }));
                }
                peer.say(Message::Abort(Refusal::new(RefusalKind::NotAllowed, "as far as this")));
                peer.hear_end();
            });
            let far = location(server.port(), "file");
            match pulls {
                true => site.copy(&["--delta"]).arg(far).arg("file").run(),
                false => site.copy(&["--delta", "file"]).arg(far).run(),
            }
        });
        for words in ["as far as this", "does not find content that has moved"] {
            assert!(ended.to_string().contains(words), "{words}: {ended}");
        }
    }
}

/// Copies to a receiver that lacks a feature, and takes what comes as an older release does.
#[test]
fn data_is_not_compressed_for_an_end_that_does_not_expand_it() {
    for words in [&[][..], &["--compress", "3"]] {
        let site = Site::new();
        let server = Server::new(&site);
        let text = b"a line that repeats\n".repeat(5000);
        std::fs::write(site.path("text"), &text).unwrap();
        let without = Features::from_bits(Features::OURS.bits() & !Features::COMPRESSION.bits());
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut peer = server.accept_request();
                peer.say(Message::Accepted(without));
                peer.say(Message::Ready(Ready { resuming: false, ring_blocks: 16 }));
                peer.hear_of(|message| matches!(message, Message::Entries(_)).then_some(()));
                peer.say(Message::Wants(Wants { first: 0, answers: vec![Want::All] }));
                let items = peer.hear_of(|message| match message {
                    Message::Pack(items) => Some(Ok(items.clone())),
                    Message::Compressed(_) => Some(Err("it is compressed")),
                    _ => None,
                });
                assert_eq!(items.unwrap()[0].length as usize, text.len());
                peer.say(Message::Abort(Refusal::new(RefusalKind::NotAllowed, "as far as this")));
                peer.hear_end();
            });
            site.copy(words).arg("text").arg(location(server.port(), "copy")).run()
        });
        assert!(ended.to_string().contains("as far as this"), "{ended}");
    }
}

#[test]
fn a_copy_without_disks_is_not_measured_with_an_end_that_has_none() {
    for direction in [&[][..], &["--reverse"]] {
        let site = Site::new();
        let server = Server::new(&site);
        let target = format!("icdc://{HERE}:{}", server.port());
        let without = Features::from_bits(!Features::DISKLESS.bits());
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut peer = server.accept_request();
                peer.say(Message::Accepted(without));
                if !direction.is_empty() {
                    peer.say(begin(b"zeros", icdc_protocol::message::SourceKind::Item));
                }
                peer.hear_end();
            });
            let words = ["measure", "--secure", "--bytes", "50MB"];
            site.icdc(&words).args(direction).arg(&target).run()
        })
        .expect_code(3);
        assert!(ended.to_string().contains("cannot copy without its disks; upgrade icdc there"), "{ended}");
    }
}

#[test]
fn the_rate_of_a_pull_is_not_changed_where_the_sender_takes_no_changes() {
    let site = Site::new();
    let server = Server::new(&site);
    let without = Features::from_bits(Features::OURS.bits() & !Features::USER_CEILING.bits());
    std::thread::scope(|scope| {
        let run = site.copy(&[]).arg(location(server.port(), "tree")).arg("copy").start();
        let (begun, beginning) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let mut peer = server.accept_request();
            peer.say(Message::Accepted(without));
            peer.say(begin(b"tree", SourceKind::Item));
            let _ = begun.send(());
            peer.hear_end();
        });
        beginning.recv().unwrap();
        let pid = run.pid().as_raw_nonzero().to_string();
        let ctl = |word: &str| site.icdc(&["ctl", &pid, word]).run();
        assert!(eventually(|| ctl("pause").code == Some(1)), "a pause is accepted\n{}", run.stderr());
        let refused = ctl("pause");
        assert!(
            refused.stderr.contains("older icdc, which takes no changes of the rate; update it there"),
            "{refused}"
        );
        ctl("status").expect_code(0);
        ctl("stop").expect_code(0);
        run.finish().expect_code(4);
    });
}

#[test]
fn a_receiver_does_not_set_the_rate_of_a_push() {
    let site = Site::new();
    let server = Server::new(&site);
    std::fs::write(site.path("file"), "contents").unwrap();
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = server.accept_request();
            peer.say(Message::Accepted(Features::OURS));
            peer.say(Message::UserCeiling(Some(Rate::ZERO)));
            peer.hear_end();
        });
        site.copy(&["--retry-for", "0s", "file"]).arg(location(server.port(), "copy")).run()
    });
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.to_string().contains("sets the rate of a user of this end"), "{ended}");
}
