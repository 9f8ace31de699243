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
use super::action::{Action, Notification, Reference};
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

    /// Handles the end of [`Action::TakeReference`] or [`Action::TakeCandidate`]: the number of bytes that are not durable, or
    /// `None` if the item could not be made and its contents are wanted after all.
    pub fn on_reference_taken(&mut self, now: Time, id: EntryId, taken: Option<ByteCount>) {
        self.last = now;
        let state = self.items.get(&id).map(|tracked| tracked.state);
        match (state, taken) {
            (Some(ItemState::Referencing | ItemState::Renaming(_)), Some(bytes)) => self.staged(id, bytes, false),
            (Some(ItemState::Referencing | ItemState::Renaming(_)), None) if self.phase.is_open() => {
                self.wanted -= 1;
                self.want_after_all(id);
            }
            (Some(ItemState::Referencing | ItemState::Renaming(_)), None) => {
                self.fail(id, Failure::Passing("was not linked, and is to be sent".into()));
            }
            (_, Some(_)) => self.ask(Action::Discard(id)),
            (_, None) => {}
        }
        self.proceed();
    }
}
