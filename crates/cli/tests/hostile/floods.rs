//! Receivers that ask for more than there is, again and again: the sender's memory stays bounded and it says why it
//! breaks off.

use std::fs;

use icdc_protocol::Message;
use icdc_protocol::message::{Held, Ready, Want, Wants};

use crate::peer::{Peer, Server};
use crate::support::daemon::location;
use crate::support::process::Run;
use crate::support::{Ended, MIB, Site, Start, data};

/// Peak of resident memory in bytes, as long as the process is there.
fn peak_memory(run: &Run) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", run.pid().as_raw_nonzero())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Pushes a file of three blocks to a receiver that does as it likes. Answers the peak of memory, too.
fn push(attack: impl FnOnce(&mut Peer) + Send) -> (Ended, u64) {
    let site = Site::new();
    let server = Server::new(&site);
    data::file(&site.path("large"), 9 * MIB, 1);
    let run = site.copy(&["large"]).arg(location(server.port(), "in")).start();
    let memory = std::thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            let mut peer = server.accept();
            peer.say(Message::Ready(Ready { resuming: false, ring_blocks: 16 }));
            peer.hear_of(|message| matches!(message, Message::Entries(_)).then_some(()));
            attack(&mut peer);
            let memory = peak_memory(&run);
            peer.hear_end();
            memory
        });
        flooding.join().unwrap()
    });
    (run.finish(), memory)
}

fn assert_refused((ended, memory): (Ended, u64), words: &str) {
    let ended = ended.expect_code(1);
    assert!(ended.stderr.contains(words), "{words:?} is not said: {ended}");
    assert!(memory < 200 * MIB, "{memory} bytes");
}

/// Says the messages in turn until the other end breaks off, but not for ever.
fn flood(peer: &mut Peer, messages: &[Message]) {
    let mut rounds = 0;
    while rounds < 300_000 && messages.iter().all(|message| peer.say(message.clone())) {
        rounds += 1;
    }
}

fn all_of_it() -> Message {
    Message::Wants(Wants { first: 0, answers: vec![Want::All] })
}

#[test]
fn asking_twice_is_refused() {
    assert_refused(push(|peer| flood(peer, &[all_of_it()])), "asks twice for item 0");
    let rest = Message::Wants(Wants { first: 0, answers: vec![Want::Rest] });
    assert_refused(push(|peer| flood(peer, &[rest])), "asks twice for item 0");
}

#[test]
fn what_is_not_held_is_not_sent_again() {
    let resend = |index| Message::Resend { id: 0, index };
    assert_refused(push(|peer| flood(peer, &[resend(0)])), "which it does not hold");
    let held = Message::Held(Held { id: 0, first: 1, values: vec![[1; 32]; 2] });
    for (again, words) in [
        (vec![resend(1), resend(2)], "which it does not hold"),
        (vec![resend(3)], "asks again for block 3"),
        (vec![resend(u32::MAX - 1)], "asks again for block"),
    ] {
        let claims = push(|peer| {
            peer.say(held.clone());
            peer.say(all_of_it());
            flood(peer, &again);
        });
        assert_refused(claims, words);
    }
}

#[test]
fn claims_of_blocks_end_with_the_answer() {
    let held = Message::Held(Held { id: 0, first: 0, values: vec![[1; 32]; 3] });
    let claims = push(|peer| {
        peer.say(all_of_it());
        flood(peer, &[held]);
    });
    assert_refused(claims, "that it does not have");
}
