//! Names that exist and are not announced, as a receiver that deletes extra items is told of them.

use icdc_protocol::limits::{MAX_DELETED, MAX_DELETED_BYTES, MAX_NAME};
use icdc_protocol::message::{EntryId, LeftOut, Parent};
use icdc_session::sender::Need;

use super::children::Children;
use super::entered::Entered;
use super::{Level, Scan};

/// Most names that are left out in one message.
const NAMES_LEFT_OUT: usize = 1024;
const _: () = assert!(NAMES_LEFT_OUT <= MAX_DELETED && NAMES_LEFT_OUT * MAX_NAME <= MAX_DELETED_BYTES);

impl Scan<'_> {
    /// Records that this name in the last of `levels` exists and is not announced, because a rule
    /// excludes it.
    pub(super) fn note_excluded(&mut self, levels: &mut [Level], name: &[u8]) {
        let (Some(left_out), false) = (&mut self.left_out, self.deletes_excluded) else { return };
        match levels.last_mut().map(|level| &mut level.entered) {
            Some(Entered::Announced(id)) => left_out.entry(*id).or_default().push(name.to_vec()),
            Some(Entered::Waiting(waiting)) => waiting.excluded.push(name.to_vec()),
            None => {}
        }
    }

    /// Records that this name exists in the directory `parent` and is not announced, so that the
    /// receiver does not delete it.
    pub(super) fn note_left_out(&mut self, parent: Parent, name: &[u8]) {
        if let (Some(left_out), Parent::Directory(id)) = (&mut self.left_out, parent) {
            left_out.entry(id).or_default().push(name.to_vec());
        }
    }

    /// Tells the receiver what is left out of a directory with the entry `directory`, all of which
    /// has been announced. `None` when the session is over.
    pub(super) fn tell_left_out(&mut self, level: &Level, directory: EntryId) -> Option<()> {
        if self.left_out.is_some() && matches!(level.children, Children::Kept(_)) {
            self.await_need(Need::Problem)?;
            self.executor.with(|machine| machine.on_left_out(directory, LeftOut::Unread));
        }
        let names = self.left_out.as_mut().and_then(|left_out| left_out.remove(&directory)).unwrap_or_default();
        for names in names.chunks(NAMES_LEFT_OUT) {
            self.await_need(Need::Problem)?;
            self.executor.with(|machine| machine.on_left_out(directory, LeftOut::Names(names.to_vec())));
        }
        Some(())
    }
}
