//! Questions to the sender whether it is connected, with what waits for the answers.

use std::collections::VecDeque;

use icdc_protocol::message::EntryId;

use super::action::Guard;

/// Number of questions for the sake of an item after which it is renamed whatever has its name: one
/// newer run changes that once, and only another program that goes on as often.
const MOST: u32 = 3;

/// Questions to the sender whether it is connected.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// Questions that are not answered, oldest first.
    open: VecDeque<Question>,
    /// Number of answers so far.
    answers: u64,
    /// Number of questions so far for the sake of an item that no lock protects; a run has one such
    /// item at most.
    about_item: u32,
}

/// A question to the sender whether it is connected, with the step that waits for the answer.
#[derive(Debug)]
struct Question {
    /// Number of the answer that counts; `None` until the question is sent.
    number: Option<u64>,
    step: Step,
}

/// A step that waits until the sender has confirmed that it is connected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing waits.
    Nothing,
    /// The run begins.
    Begin,
    /// Attributes of existing files are set.
    Amend(Vec<EntryId>),
    /// Items that are complete under their staging names get their final ones.
    Publish(Vec<EntryId>),
}

impl Questions {
    /// Adds a question, for whose answer `step` waits.
    pub(super) fn add(&mut self, step: Step) {
        self.about_item += u32::from(matches!(step, Step::Amend(_) | Step::Publish(_)));
        self.open.push_back(Question { number: None, step });
    }

    /// Notes that the first question that was not sent has been sent, and that the answer of this number
    /// counts.
    pub(super) fn on_sent(&mut self, number: u64) {
        if let Some(question) = self.open.iter_mut().find(|question| question.number.is_none()) {
            question.number = Some(number);
        }
    }

    /// Notes an answer of the sender, to whatever question.
    pub(super) fn on_answer(&mut self) {
        self.answers += 1;
    }

    /// Takes the next step whose question is answered.
    pub(super) fn next(&mut self) -> Option<Step> {
        let number = self.open.front()?.number?;
        if self.answers < number {
            return None;
        }
        self.open.pop_front().map(|question| question.step)
    }

    /// Takes all steps that wait: no answer comes any more.
    pub(super) fn take_waiting(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.open).into_iter().map(|question| question.step).collect()
    }

    /// Whether the sender was asked for the sake of an item.
    pub(super) fn has_asked(&self) -> bool {
        self.about_item > 0
    }

    /// Whether the sender has answered any question.
    pub(super) fn has_answer(&self) -> bool {
        self.answers > 0
    }

    /// Guard of the name of an item that no lock protects.
    pub(super) fn guard(&self) -> Guard {
        if self.about_item < MOST { Guard::AsFound } else { Guard::Sender }
    }
}
