//! Directories that are announced only with the first item in them that is none (rsync's
//! `--prune-empty-dirs`).
//!
//! Those that wait are always the innermost of the directories being walked: whatever is announced
//! has all directories above it announced first.

use icdc_protocol::message::{EntryId, Parent};

use super::entered::{Entered, Waiting};
use super::{Level, Scan};

impl Scan<'_> {
    /// Announces those of the directories being walked that wait, and returns the entry of the
    /// innermost. `None` when the session is over.
    pub(super) fn announce_waiting(&mut self, levels: &mut [Level]) -> Option<EntryId> {
        if let Some(id) = levels.last().and_then(|level| level.entered.id()) {
            return Some(id);
        }
        let mut above = None;
        for level in levels {
            if let Entered::Waiting(_) = level.entered {
                self.await_room()?;
            }
            above = Some(match &mut level.entered {
                Entered::Announced(id) => *id,
                Entered::Waiting(waiting) => {
                    let Waiting { found, leaving, excluded } = waiting.as_mut();
                    if let Some(above) = above {
                        found.parent = Parent::Directory(above);
                    }
                    let id = self.executor.announce_directory(found.clone(), leaving.take());
                    if let (Some(left_out), false) = (&mut self.left_out, excluded.is_empty()) {
                        left_out.insert(id, std::mem::take(excluded));
                    }
                    level.entered = Entered::Announced(id);
                    id
                }
            });
        }
        above
    }
}
