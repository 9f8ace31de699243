//! Each way in which a session ends.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use icdc_protocol::message::Refusal;

use super::*;

const START: Time = Time::from_nanos(1_000_000_000);

fn actions(ending: &mut Ending) -> Vec<Action> {
    std::iter::from_fn(|| ending.poll()).collect()
}

fn goodbye() -> Goodbye {
    Goodbye { bytes_sent: 7, ..Goodbye::default() }
}

fn local() -> SessionError {
    SessionError::Local("no disk".into())
}

fn abort(kind: RefusalKind, reason: &str) -> Action {
    say(Message::Abort(Refusal { kind, reason: reason.into() }))
}

fn cut() -> LinkEnd {
    LinkEnd::Failed(SessionError::Cut("reset".into()))
}

/// Ends everything behind the connections, and completes the last messages.
fn through(mut ending: Ending) -> (Vec<Action>, Result<Option<Goodbye>, SessionError>) {
    assert!(ending.is_draining());
    ending.on_drained(START);
    let mut done = actions(&mut ending);
    ending.on_closed();
    done.extend(actions(&mut ending));
    assert!(ending.has_ended() && ending.next_deadline().is_none());
    (done, ending.into_outcome())
}

#[test]
fn a_goodbye_parts_whether_it_comes_before_or_after_the_last_item() {
    for goodbye_first in [false, true] {
        let mut ending = Ending::default();
        if goodbye_first {
            ending.on_goodbye(goodbye());
            assert!(!ending.is_agreed() && !ending.is_complete());
            ending.on_complete();
        } else {
            ending.on_complete();
            assert!(!ending.is_agreed() && ending.is_complete());
            ending.on_goodbye(goodbye());
        }
        assert!(ending.is_agreed() && ending.is_draining());
        assert_eq!(actions(&mut ending), [Action::CutFurther]);
        let (done, outcome) = through(ending);
        assert_eq!((done, outcome), (vec![Action::Close, Action::Cut], Ok(Some(goodbye()))));
    }
}

#[test]
fn a_sender_that_has_seen_everything_done_may_leave_without_a_word() {
    let mut ending = Ending::default();
    ending.on_complete();
    ending.on_link_ended(LinkEnd::Closed);
    assert!(ending.is_agreed());
    actions(&mut ending);
    assert_eq!(through(ending).1, Ok(None));
}

#[test]
fn a_user_who_stops_after_the_last_item_waits_for_the_goodbye() {
    let mut ending = Ending::default();
    ending.on_complete();
    ending.on_interrupt(START);
    assert_eq!(actions(&mut ending), []);
    ending.on_goodbye(goodbye());
    assert!(ending.is_agreed() && ending.failure().is_none());
    actions(&mut ending);
    assert_eq!(through(ending).1, Ok(Some(goodbye())));
}

#[test]
fn a_user_who_stops_after_the_last_item_is_not_told_of_success_without_a_goodbye() {
    let mut ending = Ending::default();
    ending.on_complete();
    ending.on_interrupt(START);
    assert_eq!(ending.next_deadline(), Some(START + LAST_WORDS_PATIENCE));
    ending.on_time(START + LAST_WORDS_PATIENCE);
    assert_eq!(actions(&mut ending), [Action::Cut]);
    ending.on_link_ended(cut());
    assert!(!ending.is_agreed());
    assert_eq!(actions(&mut ending), [Action::CutFurther]);
    assert_eq!(through(ending).1, Err(SessionError::Interrupted));
}

#[test]
fn a_connection_that_breaks_after_the_last_item_does_not_part() {
    let mut ending = Ending::default();
    ending.on_complete();
    ending.on_link_ended(cut());
    assert!(ending.is_complete() && !ending.is_agreed() && ending.failure().is_none());
    actions(&mut ending);
    assert_eq!(through(ending).1, Ok(None));
}

#[test]
fn a_goodbye_before_everything_is_done_breaks_the_protocol() {
    let mut ending = Ending::default();
    ending.on_goodbye(goodbye());
    actions(&mut ending);
    let reason = "it said goodbye before everything was done";
    let error = SessionError::Protocol(reason.into());
    let (done, outcome) = through(ending);
    assert_eq!(done, [abort(RefusalKind::Protocol, &error.to_string()), Action::Close, Action::Cut]);
    assert_eq!(outcome, Err(error));
}

#[test]
fn the_reason_is_said_before_the_link_is_cut_and_only_the_first_counts() {
    let mut ending = Ending::default();
    ending.on_failure(START, local());
    ending.on_failure(START, SessionError::Cut("later".into()));
    assert_eq!(actions(&mut ending), [abort(RefusalKind::Internal, "no disk"), Action::Flush]);
    assert_eq!(ending.next_deadline(), Some(START + CLOSING_PATIENCE));
    ending.on_flushed();
    assert_eq!(actions(&mut ending), [Action::Cut]);
    ending.on_complete();
    ending.on_link_ended(cut());
    assert_eq!(actions(&mut ending), [Action::CutFurther]);
    assert_eq!(through(ending), (vec![Action::Close, Action::Cut], Err(local())));
}

#[test]
fn a_carrier_that_takes_nothing_holds_nobody_up() {
    let mut ending = Ending::default();
    ending.on_interrupt(START);
    assert_eq!(actions(&mut ending), [say(Message::Interrupt), Action::Flush]);
    ending.on_time(START + CLOSING_PATIENCE - Span::from_nanos(1));
    assert!(actions(&mut ending).is_empty());
    ending.on_time(START + CLOSING_PATIENCE);
    assert_eq!(actions(&mut ending), [Action::Cut]);
    ending.on_link_ended(cut());
    ending.on_drained(START);
    actions(&mut ending);
    assert_eq!(ending.next_deadline(), Some(START + LAST_WORDS_PATIENCE));
    ending.on_flushed();
    assert!(!ending.has_ended(), "an answer that is too late is none to the last words");
    ending.on_time(START + LAST_WORDS_PATIENCE);
    assert_eq!(actions(&mut ending), [Action::Cut]);
    assert!(ending.has_ended());
}

#[test]
fn a_sender_that_interrupts_is_answered_when_everything_is_durable() {
    let mut ending = Ending::default();
    ending.on_link_ended(LinkEnd::Failed(SessionError::Interrupted));
    assert_eq!(actions(&mut ending), [Action::CutFurther]);
    let (done, outcome) = through(ending);
    assert_eq!(done, [say(Message::Interrupt), Action::Close, Action::Cut]);
    assert_eq!(outcome, Err(SessionError::Interrupted));
}

#[test]
fn a_sender_that_breaks_the_protocol_hears_of_it_at_once() {
    let mut ending = Ending::default();
    let error = SessionError::Protocol("x".into());
    ending.on_link_ended(LinkEnd::Failed(error.clone()));
    let reason = abort(RefusalKind::Protocol, &error.to_string());
    assert_eq!(actions(&mut ending), [reason, Action::CutFurther]);
    assert_eq!(through(ending), (vec![Action::Close, Action::Cut], Err(error)));
}

#[test]
fn what_fails_while_the_rest_is_drained_is_said_at_the_end() {
    let mut ending = Ending::default();
    ending.on_goodbye(goodbye());
    ending.on_failure(START, local());
    actions(&mut ending);
    let (done, outcome) = through(ending);
    assert_eq!(done, [abort(RefusalKind::Internal, "no disk"), Action::Close, Action::Cut]);
    assert_eq!(outcome, Err(local()));
}

#[test]
fn what_breaks_the_protocol_on_a_further_connection_ends_the_session_unless_everything_is_done() {
    let error = SessionError::Protocol("x".into());
    let mut ending = Ending::default();
    ending.on_failure(START, error.clone());
    assert!(ending.is_over());
    assert_eq!(ending.failure(), Some(&error));
    let reason = abort(RefusalKind::Protocol, &error.to_string());
    assert_eq!(actions(&mut ending), [reason, Action::Flush]);
    let mut ending = Ending::default();
    ending.on_complete();
    ending.on_failure(START, error);
    assert!(ending.failure().is_none() && !ending.is_agreed() && actions(&mut ending).is_empty());
}

#[test]
fn nothing_fails_once_everything_is_done() {
    let mut ending = Ending::default();
    ending.on_complete();
    ending.on_failure(START, local());
    assert!(ending.failure().is_none());
    ending.on_link_ended(cut());
    actions(&mut ending);
    assert_eq!(through(ending).1, Ok(None));
}

#[test]
fn a_destination_that_is_no_good_is_told_and_other_refusals_came_from_there() {
    for (kind, said) in [(RefusalKind::Path, 2), (RefusalKind::Busy, 1)] {
        let mut ending = Ending::default();
        ending.on_failure(START, SessionError::Refused(Refusal { kind, reason: "no".into() }));
        assert_eq!(actions(&mut ending).len(), said);
    }
}

#[test]
fn a_reply_that_cannot_be_sent_fails_the_session_only_if_the_sender_tells_no_more() {
    let error = || SessionError::Cut("broken pipe".into());
    let mut ending = Ending::default();
    ending.on_send_failed(START, error());
    assert_eq!((actions(&mut ending), ending.next_deadline()), (vec![], Some(START + REASON_PATIENCE)));
    ending.on_goodbye(goodbye());
    ending.on_complete();
    ending.on_time(START + REASON_PATIENCE);
    assert!(ending.is_agreed() && ending.failure().is_none());

    let mut ending = Ending::default();
    ending.on_goodbye(goodbye());
    ending.on_send_failed(START, error());
    assert_eq!(ending.next_deadline(), None, "behind a goodbye nobody waits for an answer");

    let mut ending = Ending::default();
    ending.on_send_failed(START, error());
    ending.on_time(START + REASON_PATIENCE);
    assert_eq!(ending.failure(), Some(&error()));
}
