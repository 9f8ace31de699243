//! Texts of a message that a user reads: the host of their origin, and their length.

use std::borrow::Cow;

use crate::limits::MAX_SHOWN_PATH;
use crate::measure::ControlMessage;
use crate::message::{
    ChangeMessage, Congestion, FileEnd, ListMessage, Listed, ListedItem, ListedKind, Message, PassedReceipt, Problem,
    ReceiptPart, Refusal,
};
use crate::validate::clip;

impl Message {
    /// This message as received from an end on `host`, whose name is put before every reason and
    /// sentence in it.
    #[must_use]
    pub fn told_by(mut self, host: &str) -> Self {
        match &mut self {
            // A notice begins with the path.
            Self::Problem(Problem { path, error: false, .. }) => {
                path.splice(..0, format!("{host}: ").into_bytes());
            }
            // It becomes a part of a sentence that names the host.
            Self::NotConnected { .. } => {}
            message => texts(message, &mut |text| begin(text, host)),
        }
        self
    }

    /// This message with texts and paths for people that are no longer than another end takes: the
    /// name of an item in the text of its error may have any length.
    pub(crate) fn within_limits(&self) -> Cow<'_, Self> {
        // Most messages have none, and are not copied.
        let is_for_people = match self {
            Self::Done(done) => done.iter().any(|done| done.outcome.is_err()),
            Self::FileEnd(end) => end.outcome.is_err(),
            Self::Refused(_)
            | Self::Abort(_)
            | Self::Problem(_)
            | Self::NotConnected { .. }
            | Self::Congestion(_)
            | Self::Measure(ControlMessage::Sent(_) | ControlMessage::Received(_))
            | Self::Notice(_)
            | Self::Change(ChangeMessage::Failed { .. })
            | Self::Running(Some(_))
            | Self::Receipt(ReceiptPart::Refused(_))
            | Self::PassedReceipt(PassedReceipt::NoKey(_) | PassedReceipt::Refused(_)) => true,
            Self::List(ListMessage::Listed(records)) => records.iter().any(has_reason),
            _ => false,
        };
        if !is_for_people {
            return Cow::Borrowed(self);
        }
        let mut message = self.clone();
        match &mut message {
            Self::Notice(notice) => notice.first.iter_mut().for_each(|path| path.truncate(MAX_SHOWN_PATH)),
            Self::Running(Some(running)) => running.path.truncate(MAX_SHOWN_PATH),
            message => texts(message, &mut |text| *text = clip(std::mem::take(text))),
        }
        Cow::Owned(message)
    }
}

/// Applies `act` to every reason and sentence of a message.
fn texts(message: &mut Message, act: &mut dyn FnMut(&mut String)) {
    match message {
        Message::Refused(Refusal { reason, .. })
        | Message::Abort(Refusal { reason, .. })
        | Message::NotConnected { reason, .. }
        | Message::Problem(Problem { reason, .. }) => act(reason),
        Message::FileEnd(FileEnd { outcome: Err(given_up), .. }) => act(&mut given_up.reason),
        Message::Done(done) => done.iter_mut().filter_map(|done| done.outcome.as_mut().err()).for_each(act),
        Message::Congestion(Congestion { instead, .. }) if !instead.is_empty() => act(instead),
        Message::Receipt(ReceiptPart::Refused(reason))
        | Message::PassedReceipt(PassedReceipt::NoKey(reason) | PassedReceipt::Refused(reason)) => act(reason),
        Message::Measure(ControlMessage::Sent(sent)) => {
            sent.errors.iter_mut().chain(&mut sent.notices).for_each(act);
        }
        Message::Measure(ControlMessage::Received(received)) => {
            received.errors.iter_mut().chain(&mut received.notices).for_each(act);
        }
        Message::Change(ChangeMessage::Failed { reason, .. }) => act(reason),
        Message::List(ListMessage::Listed(records)) => records.iter_mut().filter_map(reason).for_each(act),
        _ => {}
    }
}

/// Whether a record of a listing has a reason for people.
fn has_reason(record: &Listed) -> bool {
    match record {
        Listed::Unread(_) => true,
        Listed::Item(item) => {
            matches!(item.kind, ListedKind::File { digest: Some(Err(_)) } | ListedKind::Unexamined(_))
        }
        Listed::Leave => false,
    }
}

/// The reason in a record of a listing; `None` if it has none.
fn reason(record: &mut Listed) -> Option<&mut String> {
    match record {
        Listed::Unread(reason)
        | Listed::Item(ListedItem {
            kind: ListedKind::File { digest: Some(Err(reason)) } | ListedKind::Unexamined(reason),
            ..
        }) => Some(reason),
        _ => None,
    }
}

/// Puts the host's name before a text, and shortens the result to the limit.
fn begin(text: &mut String, host: &str) {
    // It may be forwarded to the other end.
    *text = clip(format!("{host}: {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::limits::MAX_TEXT;
    use crate::measure::{Received, Sent};
    use crate::message::{Done, GivenUp, RefusalKind};

    /// Every message with a text that begins with the name of the host that sent it.
    fn messages(reason: &str) -> [Message; 11] {
        let text = || reason.to_owned();
        let refusal = || Refusal::new(RefusalKind::Path, text());
        let problem = Problem { path: b"x".to_vec(), reason: text(), error: true };
        let given_up = GivenUp { reason: text(), same_version: true };
        [
            Message::Refused(refusal()),
            Message::Abort(refusal()),
            Message::Problem(problem),
            Message::FileEnd(FileEnd { id: 1, blocks: 0, outcome: Err(given_up) }),
            Message::Done(vec![Done { id: 1, outcome: Ok(None) }, Done { id: 2, outcome: Err(text()) }]),
            Message::Congestion(Congestion { name: "cubic".into(), instead: text() }),
            Message::Measure(ControlMessage::Sent(Sent { errors: vec![text()], ..Sent::default() })),
            Message::Measure(ControlMessage::Received(Received { notices: vec![text()], ..Received::default() })),
            Message::Receipt(ReceiptPart::Refused(text())),
            Message::PassedReceipt(PassedReceipt::NoKey(text())),
            Message::PassedReceipt(PassedReceipt::Refused(text())),
        ]
    }

    #[test]
    fn every_reason_of_another_end_begins_with_its_host() {
        let named = messages("x: permission denied").map(|message| message.told_by("far"));
        assert_eq!(named, messages("far: x: permission denied"));
    }

    #[test]
    fn what_is_left_out_is_told_with_its_host_and_path() {
        let problem = |path: &str| Problem { path: path.into(), reason: "a socket".into(), error: false };
        assert_eq!(Message::Problem(problem("x")).told_by("far"), Message::Problem(problem("far: x")));
    }

    #[test]
    fn nothing_is_told_where_nothing_was_said() {
        let congestion = Message::Congestion(Congestion { name: "cubic".into(), instead: String::new() });
        assert_eq!(congestion.clone().told_by("far"), congestion);
    }

    #[test]
    fn a_text_of_any_length_reaches_the_other_end_and_goes_back() {
        let long = "\u{e4}".repeat(MAX_TEXT);
        let arrived = |message: &Message| {
            let mut bytes = Vec::new();
            frame::encode(message, 0, &mut bytes).unwrap();
            frame::decode_head(&bytes[frame::PREFIX_LENGTH..], 0).unwrap()
        };
        for message in messages(&long).into_iter().chain([Message::NotConnected { number: 1, reason: long.clone() }]) {
            arrived(&arrived(&message).told_by("far"));
        }
    }
}
