//! Texts of a message that a user reads, with the host that they come from.

use crate::measure::ControlMessage;
use crate::message::{Congestion, Done, FileEnd, Message, Problem, Refusal};

impl Message {
    /// This message as it came from an end on `host`, which begins every reason and sentence in it.
    #[must_use]
    pub fn told_by(mut self, host: &str) -> Self {
        match &mut self {
            // A notice begins with the path.
            Self::Problem(Problem { path, error: false, .. }) => {
                path.splice(..0, format!("{host}: ").into_bytes());
            }
            Self::Refused(Refusal { reason, .. })
            | Self::Abort(Refusal { reason, .. })
            | Self::Problem(Problem { reason, .. }) => begin(reason, host),
            Self::FileEnd(FileEnd { outcome: Err(given_up), .. }) => begin(&mut given_up.reason, host),
            Self::Done(done) => {
                for Done { outcome, .. } in done {
                    if let Err(reason) = outcome {
                        begin(reason, host);
                    }
                }
            }
            Self::Congestion(Congestion { instead, .. }) if !instead.is_empty() => begin(instead, host),
            Self::Measure(ControlMessage::Sent(sent)) => all(&mut sent.errors, &mut sent.notices, host),
            Self::Measure(ControlMessage::Received(received)) => {
                all(&mut received.errors, &mut received.notices, host);
            }
            _ => {}
        }
        self
    }
}

fn all(errors: &mut [String], notices: &mut [String], host: &str) {
    errors.iter_mut().chain(notices).for_each(|text| begin(text, host));
}

fn begin(text: &mut String, host: &str) {
    text.insert_str(0, &format!("{host}: "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Received, Sent};
    use crate::message::{GivenUp, RefusalKind};

    #[test]
    fn every_reason_of_another_end_begins_with_its_host() {
        let (reason, told) = ("x: permission denied".to_owned(), "far: x: permission denied".to_owned());
        let refusal = |reason: &String| Refusal::new(RefusalKind::Path, reason.clone());
        let problem = |reason: &String| Problem { path: b"x".to_vec(), reason: reason.clone(), error: true };
        let given_up = |reason: &String| GivenUp { reason: reason.clone(), same_version: true };
        let messages = |reason: &String| {
            [
                Message::Refused(refusal(reason)),
                Message::Abort(refusal(reason)),
                Message::Problem(problem(reason)),
                Message::FileEnd(FileEnd { id: 1, blocks: 0, outcome: Err(given_up(reason)) }),
                Message::Done(vec![Done { id: 1, outcome: Ok(None) }, Done { id: 2, outcome: Err(reason.clone()) }]),
                Message::Congestion(Congestion { name: "cubic".into(), instead: reason.clone() }),
                Message::Measure(ControlMessage::Sent(Sent { errors: vec![reason.clone()], ..Sent::default() })),
                Message::Measure(ControlMessage::Received(Received {
                    notices: vec![reason.clone()],
                    ..Received::default()
                })),
            ]
        };
        let named = messages(&reason).map(|message| message.told_by("far"));
        assert_eq!(named, messages(&told));
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
}
