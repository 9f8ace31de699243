//! Blocks that are being checked by the hashers, of which there are several. The end of a file must
//! not overtake its blocks: one that reports a failure would discard them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use icdc_protocol::message::{EntryId, FileEnd};

/// Number of blocks of each file that the hashing threads have not finished.
#[derive(Default)]
pub(super) struct UnderCheck(Mutex<HashMap<EntryId, OfFile>>);

#[derive(Default)]
struct OfFile {
    blocks: u32,
    /// End-of-file message, which has arrived behind the blocks and waits for them.
    end: Option<FileEnd>,
}

impl UnderCheck {
    fn lock(&self) -> MutexGuard<'_, HashMap<EntryId, OfFile>> {
        self.0.lock().expect("no panic while blocks are counted")
    }

    /// Notes that a block of the file is handed to the hashing threads.
    pub(super) fn enters(&self, id: EntryId) {
        self.lock().entry(id).or_default().blocks += 1;
    }

    /// Notes that the hashing threads have finished a block of the file; returns the end of the
    /// file if it waited for this block.
    pub(super) fn leaves(&self, id: EntryId) -> Option<FileEnd> {
        let mut files = self.lock();
        let file = files.get_mut(&id)?;
        file.blocks = file.blocks.saturating_sub(1);
        if file.blocks > 0 {
            return None;
        }
        files.remove(&id).and_then(|file| file.end)
    }

    /// Takes the end of a file; returns it unless it has to wait for blocks that are being hashed.
    pub(super) fn ends(&self, end: FileEnd) -> Option<FileEnd> {
        match self.lock().get_mut(&end.id) {
            Some(file) => {
                file.end = Some(end);
                None
            }
            None => Some(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use icdc_protocol::message::GivenUp;

    use super::*;

    fn end(id: EntryId) -> FileEnd {
        FileEnd { id, blocks: 2, outcome: Err(GivenUp { reason: "unreadable".into(), same_version: true }) }
    }

    #[test]
    fn an_end_waits_for_the_blocks_of_its_file_only() {
        let under_check = UnderCheck::default();
        under_check.enters(1);
        under_check.enters(1);
        under_check.enters(2);
        assert_eq!(under_check.ends(end(1)), None);
        assert_eq!(under_check.leaves(1), None);
        assert_eq!(under_check.leaves(2), None);
        assert_eq!(under_check.leaves(1), Some(end(1)));
        assert_eq!(under_check.ends(end(1)), Some(end(1)), "none is left");
    }
}
