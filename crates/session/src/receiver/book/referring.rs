//! Items that are made from their counterparts in reference directories, from the decision until the
//! sender is told.
//!
//! ```text
//! Verdict::Reference ─► TakeReference ─┬─ made ─► batch, as what has arrived ─► Wants: Linked
//!                                      └─ not ──► Examine: the contents are wanted
//! ```

use icdc_protocol::message::{EntryId, Want};
use icdc_units::{ByteCount, Time};

use super::Book;
use super::action::{Action, Examination, Notification, Question, Reference};
use super::links::Progress;
use super::state::{ItemState, Tracked};
use crate::Failure;

impl<P> Book<P> {
    /// Begins to make an item from its counterpart; returns the answer, `None` if it is given once
    /// the item is published.
    pub(super) fn refer(&mut self, id: EntryId, reference: Reference) -> Option<Want> {
        let Tracked { item, state } = self.items.get_mut(&id)?;
        if self.settings.options.dry_run {
            let (path, size) = (item.path.clone(), item.size());
            self.notify(Notification::Linked { path, size });
            self.leave(id, Progress::Published);
            return Some(Want::Linked);
        }
        *state = ItemState::Referencing;
        self.wanted += 1;
        self.remember(id, Progress::Coming);
        self.ask(Action::TakeReference { id, reference });
        None
    }

    /// Handles the end of [`Action::TakeReference`]: the number of bytes that are not durable, or
    /// `None` if the item could not be made and its contents are wanted after all.
    pub fn on_reference_taken(&mut self, now: Time, id: EntryId, taken: Option<ByteCount>) {
        self.last = now;
        match (self.items.get_mut(&id), taken) {
            (Some(Tracked { state: ItemState::Referencing, .. }), Some(bytes)) => self.staged(id, bytes, false),
            (Some(Tracked { state: state @ ItemState::Referencing, .. }), None) if self.phase.is_open() => {
                *state = ItemState::Examined;
                self.wanted -= 1;
                self.ask(Action::Examine(vec![Examination { id, question: Question::Contents }]));
            }
            (Some(Tracked { state: ItemState::Referencing, .. }), None) => {
                self.fail(id, Failure::Passing("was not linked, and is to be sent".into()));
            }
            (_, Some(_)) => self.ask(Action::Discard(id)),
            (_, None) => {}
        }
        self.proceed();
    }

    /// Tells the sender of items that are linked and published.
    pub(super) fn answer_linked(&mut self, linked: Vec<EntryId>) {
        let mut answers: Option<(EntryId, Vec<Want>)> = None;
        for id in linked {
            match &mut answers {
                Some((first, wants)) if *first + wants.len() as EntryId == id => wants.push(Want::Linked),
                _ => {
                    let before = answers.replace((id, vec![Want::Linked]));
                    before.into_iter().for_each(|(first, wants)| self.answer(first, wants));
                }
            }
        }
        answers.into_iter().for_each(|(first, wants)| self.answer(first, wants));
    }
}
