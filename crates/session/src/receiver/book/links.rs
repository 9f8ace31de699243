//! Files with several names: the first name is made like any other file, the further ones are links
//! to it.
//!
//! A further name may be announced before the first one is published, and waits for it then; or long
//! after, in another directory, when that of the first is finished.

use icdc_protocol::message::EntryId;

use super::action::FirstName;
use super::item::Item;
use crate::ById;

/// How far the first name of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Coming,
    Published,
    Failed,
}

/// What becomes of a further name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Linking {
    /// It is told when the first one is published.
    Waits,
    /// It can be made now.
    To(FirstName),
    /// It cannot be made.
    Fails(&'static str),
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Links {
    files: ById<LinkedFile>,
}

struct LinkedFile {
    first: FirstName,
    progress: Progress,
    /// Further names that wait for it to be published.
    waiting: Vec<EntryId>,
}

impl Links {
    /// Notes how far the first name of a file with several is.
    pub(super) fn remember(&mut self, item: &Item, progress: Progress) {
        let new = || LinkedFile {
            first: FirstName {
                directory: item.directory,
                place: item.place.directory,
                source: item.source,
                name: item.place.name.clone(),
            },
            waiting: Vec::new(),
            progress,
        };
        self.files.entry(item.entry.id).or_insert_with(new).progress = progress;
    }

    /// What becomes of the item `id`, a further name of the file `to`.
    pub(super) fn link(&mut self, id: EntryId, to: EntryId) -> Linking {
        let Some(file) = self.files.get_mut(&to) else {
            return Linking::Fails("is a further name of a file that is not part of this copy");
        };
        match file.progress {
            Progress::Coming => {
                file.waiting.push(id);
                Linking::Waits
            }
            Progress::Published => Linking::To(file.first.clone()),
            Progress::Failed => Linking::Fails("the file it is a further name of failed"),
        }
    }

    /// The item `id` has come to its end; gives the further names that have waited for it.
    pub(super) fn settle(&mut self, id: EntryId, progress: Progress) -> Vec<EntryId> {
        let Some(file) = self.files.get_mut(&id) else { return Vec::new() };
        file.progress = progress;
        std::mem::take(&mut file.waiting)
    }
}
