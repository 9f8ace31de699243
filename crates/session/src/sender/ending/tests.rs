//! Every way for a sending session to end.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_protocol::message::{Refusal, RefusalKind};

use super::*;

const NOW: Time = Time::from_nanos(5_000_000_000);

fn cut() -> SessionError {
    SessionError::Cut("the cable".into())
}

fn refused() -> SessionError {
    SessionError::Refused(Refusal { kind: RefusalKind::Path, reason: "no such directory".into() })
}

fn local() -> SessionError {
    SessionError::Local("no memory".into())
}

fn running() -> Ending {
    Ending::Open(Outgoing::Open)
}

#[test]
fn a_complete_session_ends_once_its_goodbye_is_sent() {
    let mut ending = running();
    assert_eq!(ending.complete(NOW, false), Step::Leave(None));
    assert_eq!(ending.complete(NOW, false), Step::Nothing);
    assert_eq!(ending.fail(NOW, local()), Step::Nothing, "what is complete does not fail any more");
    assert_eq!(ending.sent(NOW), Step::End(Ok(())));
    assert_eq!(ending, Ending::Closed);
}

#[test]
fn one_whose_receiver_has_a_journal_ends_once_that_has_closed() {
    for first_closed in [false, true] {
        let mut ending = running();
        assert_eq!(ending.complete(NOW, true), Step::Leave(None));
        let (first, second) = if first_closed {
            (ending.receive_ended(NOW, cut()), ending.sent(NOW))
        } else {
            (ending.sent(NOW), ending.receive_ended(NOW, cut()))
        };
        assert_eq!((first, second), (Step::Nothing, Step::End(Ok(()))));
    }
}

#[test]
fn nobody_waits_for_the_last_words_longer_than_the_patience() {
    let mut ending = running();
    ending.complete(NOW, true);
    let later = NOW + Span::from_millis(700);
    ending.sent(later);
    assert_eq!(ending.next_deadline(), Some(later + LAST_WORDS_PATIENCE), "each has its own patience");
    assert_eq!(ending.time(NOW + LAST_WORDS_PATIENCE), Step::Nothing);
    assert_eq!(ending.time(later + LAST_WORDS_PATIENCE), Step::End(Ok(())));
    assert_eq!((ending.time(later + LAST_WORDS_PATIENCE), ending.next_deadline()), (Step::Nothing, None));
}

#[test]
fn a_failure_is_told_and_the_first_reason_counts() {
    let mut ending = running();
    assert_eq!(ending.fail(NOW, local()), Step::Leave(Some(local())));
    assert_eq!(ending.fail(NOW, refused()), Step::Nothing);
    assert_eq!(ending.sent(NOW), Step::End(Err(local())));
}

#[test]
fn after_a_cut_nobody_is_told() {
    let mut ending = running();
    assert_eq!(ending.receive_ended(NOW, cut()), Step::LeaveAndEnd(Err(cut())));
}

#[test]
fn the_receivers_reason_counts_more_than_the_broken_connection() {
    let mut ending = running();
    assert_eq!(ending.send_failed(NOW, cut()), Step::Nothing);
    assert_eq!(ending.receive_ended(NOW, refused()), Step::LeaveAndEnd(Err(refused())));

    let mut ending = running();
    ending.send_failed(NOW, cut());
    assert_eq!(ending.next_deadline(), Some(NOW + REASON_PATIENCE));
    assert_eq!(ending.time(NOW), Step::Nothing);
    assert_eq!(ending.time(NOW + REASON_PATIENCE), Step::LeaveAndEnd(Err(cut())));
}

#[test]
fn an_interrupted_session_waits_for_the_receiver_with_patience() {
    for broken in [false, true] {
        let mut ending = running();
        if broken {
            ending.send_failed(NOW, cut());
        }
        assert!(ending.interrupt(NOW) && !ending.interrupt(NOW));
        if broken {
            assert_eq!(ending.time(NOW + REASON_PATIENCE), Step::LeaveAndEnd(Err(SessionError::Interrupted)));
            continue;
        }
        assert_eq!(ending.time(NOW + REASON_PATIENCE), Step::Nothing);
        assert_eq!(ending.time(NOW + INTERRUPT_PATIENCE), Step::Leave(None));
        assert_eq!(ending.sent(NOW), Step::End(Err(SessionError::Interrupted)));
    }
}

#[test]
fn however_an_interrupted_session_fails_it_was_interrupted() {
    let mut ending = running();
    ending.interrupt(NOW);
    assert_eq!(ending.receive_ended(NOW, cut()), Step::LeaveAndEnd(Err(SessionError::Interrupted)));
    let mut ending = running();
    ending.interrupt(NOW);
    assert_eq!(ending.silent(NOW), Step::LeaveAndEnd(Err(SessionError::Interrupted)));
    let mut ending = running();
    ending.interrupt(NOW);
    assert_eq!(ending.complete(NOW, false), Step::Leave(None), "unless it was complete by then");
    assert_eq!(ending.sent(NOW), Step::End(Ok(())));
}

#[test]
fn silence_ends_only_what_waits_for_the_other_end() {
    let mut ending = running();
    assert_eq!(ending.silent(NOW), Step::Nothing);
    ending.complete(NOW, true);
    assert_eq!(ending.silent(NOW), Step::Nothing);
    assert_eq!(ending.next_deadline(), Some(NOW + LAST_WORDS_PATIENCE), "its close may still come");
    let mut ending = running();
    ending.fail(NOW, local());
    assert_eq!(ending.silent(NOW), Step::End(Err(local())));
}
