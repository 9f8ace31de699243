//! Steps that are taken once the sender has confirmed that it is connected.
//!
//! A session that was stopped, or had to wait, may be that of a client gone long ago. Its connection
//! need not show that: the path may have failed, or the client's host be gone. Where no lock keeps a newer
//! run away, what this session is about to replace may be newer than what it has. A run with a journal has
//! a lock, but what the sender has announced may have arrived late: a newer run may have been before the lock
//! was taken. Nothing that needs no data from the sender is replaced before it has answered once.

use icdc_protocol::message::Ready;

use super::Book;
use super::action::{Action, Answer};
use super::questions::Step;
use crate::Failure;

impl<P> Book<P> {
    /// Asks the sender by a `Ready` whether it is connected; `resuming`: an interrupted run is
    /// continued. `step` is taken once it has answered.
    pub(super) fn ready(&mut self, resuming: bool, step: Step) {
        self.questions.add(step);
        let ring_blocks = self.settings.ring_blocks;
        self.ask(Action::Ask(Ready { resuming, ring_blocks }));
    }

    /// Takes `step` once the sender has confirmed that it is connected; gives it up where the link has
    /// ended.
    pub(super) fn ask_before(&mut self, step: Step) {
        if self.phase.is_open() {
            self.ready(false, step);
        } else {
            self.give_up(step);
        }
    }

    /// Whether the sender is known to have been connected when this session had the lock of the run's
    /// journal; true for a run without one.
    pub(super) fn has_heard(&self) -> bool {
        !self.is_journaled || self.questions.has_answer()
    }

    /// Handles the outcome of [`Action::Ask`]: the number of this question, from 1, of all that the
    /// session sends, whoever asks. The sender answers each of them, in their order.
    pub fn on_asked(&mut self, number: u64) {
        self.answered(Answer::Asked);
        self.questions.on_sent(number);
        self.take_confirmed();
        self.proceed();
    }

    /// Handles the sender's answer to a `Ready`: it is connected, so that steps that waited are
    /// taken.
    pub(super) fn confirmed(&mut self) {
        self.questions.on_answer();
        self.finish_differing();
        self.take_confirmed();
    }

    /// Takes the steps that have waited for the sender's confirmation and have it now.
    fn take_confirmed(&mut self) {
        while let Some(step) = self.questions.next() {
            match step {
                Step::Nothing => {}
                Step::Begin => self.begin_confirmed(),
                Step::Amend(ids) => self.ask(Action::Amend(ids)),
                Step::Publish(ids) => self.publish_again(ids),
            }
        }
    }

    /// Gives up what waits for answers: the link has ended.
    pub(super) fn give_up_questions(&mut self) {
        self.questions.take_waiting().into_iter().for_each(|step| self.give_up(step));
    }

    /// Gives up a step that waits for the sender's confirmation: an item that was to be published
    /// fails, as one that a later run can continue; any other step is dropped.
    fn give_up(&mut self, step: Step) {
        let Step::Publish(ids) = step else { return };
        for id in ids {
            self.ask(Action::Discard(id));
            self.fail(id, Failure::Passing("the sender closed the connection before it was through".into()));
        }
    }
}
