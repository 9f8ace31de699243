//! Items whose contents decide whether the existing file counts as equal, from the decision until it
//! is left alone or replaced.
//!
//! ```text
//! Verdict::SameSize ─► Candidates, of no file ─► the sender's digest ─► CompareExisting ─┬─ equal ─► Examine: attributes
//!                                               └─ none: Examine: contents              └─ not ───► Examine: contents
//! ```

use icdc_protocol::message::{Candidates, EntryId, FileDigest, Message};

use super::Book;
use super::action::{Action, Examination, Question};
use super::links::Progress;
use super::state::ItemState;

impl<P> Book<P> {
    /// Asks the sender for the digest of an item.
    pub(super) fn ask_digest(&mut self, id: EntryId) {
        self.remember(id, Progress::Coming);
        self.set_state(id, ItemState::AskedDigest);
        self.reply(Message::Candidates(Candidates { id, places: Vec::new() }));
    }

    /// Handles the digest of an item; `None`: the sender could not read it.
    pub(super) fn digest_told(&mut self, id: EntryId, digest: Option<FileDigest>) {
        match digest {
            _ if !self.phase.is_open() => {}
            Some(digest) => {
                self.set_state(id, ItemState::ComparingContents);
                self.ask(Action::CompareExisting { id, digest });
            }
            None => self.want_after_all(id),
        }
    }

    /// Handles the comparison of the existing file with the digest of its item.
    pub(super) fn contents_compared(&mut self, id: EntryId, same: bool) {
        if same {
            self.set_state(id, ItemState::Examined);
            self.ask(Action::Examine(vec![Examination { id, question: Question::Attributes }]));
        } else {
            self.want_after_all(id);
        }
    }
}
