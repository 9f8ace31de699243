//! The announcement of a directory that is being walked, which may wait.

use icdc_protocol::message::EntryId;
use icdc_session::sender::Found;

use crate::sender::moved::ItemToRemove;

/// State of the announcement of a directory that is being walked.
pub(super) enum Entered {
    /// It has been announced, as this entry.
    Announced(EntryId),
    /// It waits for an item in it that is no directory.
    Waiting(Box<Waiting>),
}

/// A directory that is not announced yet.
pub(super) struct Waiting {
    /// Item that is announced; the parent is that of a source's directory, and otherwise set when
    /// it is.
    pub(super) found: Found,
    pub(super) leaving: Option<ItemToRemove>,
    /// Names in it that rules exclude, noted for a receiver that deletes what the source has not.
    pub(super) excluded: Vec<Vec<u8>>,
}

impl Entered {
    /// The entry of the directory; `None` if it is not announced.
    pub(super) fn id(&self) -> Option<EntryId> {
        match self {
            Self::Announced(id) => Some(*id),
            Self::Waiting(_) => None,
        }
    }
}
