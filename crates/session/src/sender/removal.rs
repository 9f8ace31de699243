//! Removal of moved items at the source.

use icdc_protocol::limits::MAX_NOTICED;
use icdc_protocol::message::{ChangedItem, Notice, NoticeKind};

use crate::item_batch::ItemBatch;

/// Time at which an item is removed at the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removal {
    /// The item stays.
    #[default]
    Never,
    /// The item is removed once the receiver has published it durably.
    WhenPublished,
    /// The item is removed likewise, and after everything else: a session that follows a lost
    /// connection has to find the sources that were named, and a name of a file with several cannot
    /// be removed without changing the file under its other names.
    AtEnd,
}

/// Result of removing an item at the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The item is removed.
    Gone,
    /// The item stays, which is no failure: a directory that is not empty, or a name that somebody
    /// else has removed.
    Stays,
    /// The item stays, for this reason, as a sentence for the user.
    Failed(String),
}

/// Progress of the items of a move that are removed at the source after all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// There is none.
    #[default]
    Nothing,
    /// They wait for the others.
    Waiting,
    /// They are being removed.
    UnderWay,
    /// They are removed.
    Through,
}

/// Progress of the removal at the source, and what is to be reported of it.
#[derive(Debug, Default)]
pub(super) struct Removals {
    pub(super) at_end: AtEnd,
    /// Removed items that the receiver has not been told of.
    told_next: ItemBatch,
    /// Files that stay because their contents were not compared; `None` if there are none.
    kept: Option<Notice>,
}

impl Removals {
    /// Records a removed item; returns those to be told in one message, if they are enough.
    pub(super) fn push(&mut self, item: ChangedItem) -> Option<Vec<ChangedItem>> {
        self.told_next.push(item)
    }

    /// Takes the removed items that the receiver has not been told of; `None` if there are none.
    pub(super) fn take(&mut self) -> Option<Vec<ChangedItem>> {
        self.told_next.take()
    }

    /// Counts a file that is equal at the receiver by size and time alone and hence stays at the
    /// source.
    pub(super) fn keep(&mut self, path: &[u8]) {
        let new = || Notice { kind: NoticeKind::KeptAtSource, count: 0, first: Vec::new() };
        let kept = self.kept.get_or_insert_with(new);
        kept.count += 1;
        if kept.first.len() < MAX_NOTICED {
            kept.first.push(path.to_vec());
        }
    }

    /// Takes the notice about files that stay.
    pub(super) fn take_kept(&mut self) -> Option<Notice> {
        self.kept.take()
    }
}
