//! Items of a move: removed at the source once the receiver has published them durably.

use icdc_protocol::message::{ChangedItem, EntryId, EntryKind, Message, Problem};
use icdc_units::Time;

use super::super::action::{Action, Fate};
use super::super::ledger::Settlement;
use super::super::removal::{AtEnd, Removal, Removed};
use super::Sender;

impl Sender {
    /// Settles an item that the receiver has durably; one that is to be removed at the source is
    /// removed first.
    pub(super) fn settle_durable(&mut self, id: EntryId, how: Settlement, fate: Fate) {
        let Some(item) = self.ledger.pending(id) else { return };
        match item.removal {
            Removal::Never => self.settle(id, &how, fate),
            _ if self.settings.dry_run => {
                let path = item.path.clone();
                self.settle(id, &how, fate);
                self.tell_removed(path, false);
            }
            Removal::WhenPublished => {
                self.ledger.leave(id, how, fate);
                self.actions.push_back(Action::Remove { id });
            }
            Removal::AtEnd => {
                let path = item.path.clone();
                self.remove_at_end(id, path);
                self.settle(id, &how, fate);
            }
        }
    }

    /// Settles an item whose copy was not compared with its contents. Of a link the target was, and a
    /// special item has none: a file has equal size and time, and stays at the source.
    pub(super) fn settle_alike(&mut self, id: EntryId, how: Settlement, fate: Fate) {
        let Some(item) = self.ledger.pending(id) else { return };
        if matches!(item.entry.kind, EntryKind::Symlink { .. } | EntryKind::Special(_)) {
            return self.settle_durable(id, how, fate);
        }
        if item.removal != Removal::Never {
            self.removals.keep(&item.path);
        }
        self.settle(id, &how, fate);
    }

    /// Ends a directory that the receiver has finished; one that is to be removed at the source is
    /// removed first.
    pub(super) fn end_directory(&mut self, id: EntryId) {
        match self.ledger.directory_removal(id) {
            Some((Removal::WhenPublished, path)) if !self.settings.dry_run => {
                let path = path.to_vec();
                if self.ledger.leave_finished_directory(id) {
                    self.actions.push_back(Action::RemoveDirectory { id, path });
                }
            }
            Some((Removal::AtEnd, path)) if !self.settings.dry_run => {
                let path = path.to_vec();
                self.remove_at_end(id, path);
                self.ledger.directory_done(id, false);
            }
            _ => drop(self.ledger.directory_done(id, false)),
        }
    }

    /// Requests that an item or directory be kept, to be removed at the source after all others.
    fn remove_at_end(&mut self, id: EntryId, path: Vec<u8>) {
        self.removals.at_end = AtEnd::Waiting;
        self.actions.push_back(Action::RemoveAtEnd { id, path });
    }

    /// Handles the outcome of [`Action::Remove`].
    pub fn on_removed(&mut self, now: Time, id: EntryId, outcome: Removed) {
        let Some((how, fate)) = self.ledger.take_leaving(id) else { return };
        let Some(item) = self.ledger.settle(id, &how) else { return };
        let bytes = item.size();
        self.actions.push_back(Action::Settled { id, path: item.path.clone(), bytes, fate });
        self.note_outcome(item.path, false, outcome);
        self.proceed(now);
    }

    /// Handles the outcome of [`Action::RemoveDirectory`].
    pub fn on_directory_removed(&mut self, now: Time, id: EntryId, outcome: Removed) {
        if let Some(path) = self.ledger.directory_done(id, false) {
            self.note_outcome(path, true, outcome);
        }
        self.proceed(now);
    }

    /// Handles the outcome of removing an item that was kept for the end.
    pub fn on_removed_at_end(&mut self, path: Vec<u8>, is_directory: bool, outcome: Removed) {
        self.note_outcome(path, is_directory, outcome);
    }

    /// Handles that all items that were kept for the end are removed, or stay.
    pub fn on_rest_removed(&mut self, now: Time) {
        self.removals.at_end = AtEnd::Through;
        self.proceed(now);
    }

    /// Records that a directory that stays for now is to be removed at the end, if it is empty
    /// then.
    pub fn on_directory_kept(&mut self, now: Time, id: EntryId) {
        self.removals.at_end = AtEnd::Waiting;
        self.ledger.directory_done(id, false);
        self.proceed(now);
    }

    /// Counts and reports the outcome of removing an item at the source; a failure is a problem.
    fn note_outcome(&mut self, path: Vec<u8>, is_directory: bool, outcome: Removed) {
        match outcome {
            Removed::Gone => self.tell_removed(path, is_directory),
            Removed::Stays => {}
            Removed::Failed(reason) => self.on_problem(Problem { path, reason, error: true }),
        }
    }

    /// Counts an item that is removed at the source, and tells the user and the receiver.
    fn tell_removed(&mut self, path: Vec<u8>, is_directory: bool) {
        self.ledger.count_removed();
        let item = ChangedItem { path, is_directory };
        self.actions.push_back(Action::Removed(item.clone()));
        if let Some(items) = self.removals.push(item) {
            self.queue(Message::Removed(items));
        }
    }

    /// Whether nothing is left to be removed, now that everything else is done. Begins to remove
    /// what was kept for the end, and reports what was removed, and what was not.
    pub(super) fn has_removed_all(&mut self) -> bool {
        match self.removals.at_end {
            AtEnd::Waiting => {
                self.removals.at_end = AtEnd::UnderWay;
                self.actions.push_back(Action::RemoveRest);
                return false;
            }
            AtEnd::UnderWay => return false,
            AtEnd::Nothing | AtEnd::Through => {}
        }
        if let Some(items) = self.removals.take() {
            self.queue(Message::Removed(items));
        }
        if let Some(notice) = self.removals.take_kept() {
            self.actions.push_back(Action::Noticed(notice.clone()));
            self.queue(Message::Notice(notice));
        }
        true
    }

    /// Whether what was kept for the end is being removed: everything is durable then, and the
    /// session succeeds even if the receiver is not heard any more.
    pub(super) fn removes_rest(&self) -> bool {
        self.removals.at_end == AtEnd::UnderWay
    }
}
