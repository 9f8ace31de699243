//! Ends of connections after everything is done: a run's journal is put away only when the sender
//! knows that, for it comes again otherwise and has to be recognized.

use std::path::PathBuf;
use std::time::Duration;

use icdc_protocol::Message;
use icdc_protocol::message::{EntryKind, Goodbye, Job, Parent, ReceiveOptions, SourceKind, Transfer};

use crate::peer::{Peer, begin, entry, transfer};
use crate::support::daemon::Daemon;
use crate::support::process::eventually;
use crate::support::{Site, leftovers};

/// How a session ends of which everything is done.
#[derive(Debug)]
enum End {
    /// The first connection by a goodbye.
    Goodbye,
    /// The first one in order, without a word.
    Closed,
    /// The further one in order, then the first one breaks.
    FurtherClosed,
    /// The further one by a goodbye, then the first one breaks.
    FurtherGoodbye,
    /// The first one breaks.
    Cut,
}

/// What is left of unfinished work after a session of two connections that ends so.
fn left_by(end: &End) -> Vec<PathBuf> {
    let site = Site::new();
    site.directory("root/in");
    let daemon = Daemon::start(&site, &site.path("root"), "rw");
    let id = transfer();
    let mut first = Peer::connect(&site, &daemon);
    let options = ReceiveOptions { resume: true, ..ReceiveOptions::default() };
    first.ask(id, Transfer::Receive { destination: b"in".to_vec(), options });
    first.say(begin(b"top", SourceKind::Directory));
    first.hear_of(|message| matches!(message, Message::Ready(_)).then_some(()));
    let mut further = Peer::connect(&site, &daemon);
    further.ask(id, Job::Join { stream: 1 });
    // It is taken in.
    std::thread::sleep(Duration::from_millis(200));
    first.say(Message::Entries(vec![entry(0, Parent::Source(0), b"", EntryKind::Directory)]));
    first.say(Message::DirEnd { id: 0 });
    first.say(Message::End);
    first.hear_of(|message| match message {
        Message::Done(done) => done.iter().any(|done| done.id == 0 && done.outcome.is_ok()).then_some(()),
        _ => None,
    });
    assert_eq!(leftovers(&site.path("root")).len(), 1, "the journal");
    // The new name is made durable.
    std::thread::sleep(Duration::from_millis(500));
    match end {
        End::Goodbye => drop(first.say(Message::Goodbye(Goodbye::default()))),
        End::Closed => first.close(),
        End::FurtherClosed | End::FurtherGoodbye | End::Cut => {
            match end {
                End::FurtherClosed => further.close(),
                End::FurtherGoodbye => drop(further.say(Message::Goodbye(Goodbye::default()))),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(200));
            first.cut();
        }
    }
    assert!(eventually(|| daemon.run().stderr().contains(" seconds=")), "{}", daemon.run().stderr());
    leftovers(&site.path("root"))
}

#[test]
fn a_session_whose_sender_knows_that_all_is_done_leaves_nothing() {
    for end in [End::Goodbye, End::Closed] {
        assert_eq!(left_by(&end), Vec::<PathBuf>::new(), "{end:?}");
    }
}

#[test]
fn nothing_but_the_end_of_the_first_connection_tells_that_the_sender_knows() {
    for end in [End::FurtherClosed, End::FurtherGoodbye, End::Cut] {
        assert_eq!(left_by(&end).len(), 1, "the journal stays: {end:?}");
    }
}
