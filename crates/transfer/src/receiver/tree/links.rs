//! The book of files with several names: the first name is made like any other file, the further ones are links to it.
//!
//! A further name may be announced before the first one is published, and waits for it then; or long after, in another
//! directory, for more files than a process can keep directories open.

use std::collections::HashMap;

use icdc_disk::tree::{Directory, Name, Whereabouts};
use icdc_protocol::message::{EntryId, EntryKind};

use super::super::batch::Made;
use super::super::failure::Failure;
use super::super::pending::Pending;
use super::super::placement::{Placement, place_of};
use super::super::resume;

/// How far the first name of a file is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum State {
    Coming,
    Published,
    Failed,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Links {
    files: HashMap<EntryId, LinkedFile>,
}

/// Where the first name of a file is.
struct LinkedFile {
    directory: Whereabouts,
    /// Device and inode of the directory.
    place: (u64, u64),
    source: u32,
    name: Name,
    /// Further names that wait for it to be published.
    waiting: Vec<EntryId>,
    state: State,
}

impl Links {
    /// Notes how far an item is if it is the first name of a file with several.
    pub(super) fn remember(&mut self, pending: &Pending, state: State) {
        if matches!(pending.entry.kind, EntryKind::File { linked: true, .. }) {
            let new = || LinkedFile {
                directory: pending.directory.whereabouts(),
                place: pending.directory_place,
                source: pending.source,
                name: pending.name.clone(),
                waiting: Vec::new(),
                state,
            };
            self.files.entry(pending.entry.id).or_insert_with(new).state = state;
        }
    }

    /// Makes `pending`, a further name of the file `to`, under its staging name; `None` if it has to wait for the
    /// first one.
    pub(super) fn make(
        &mut self,
        pending: &Pending,
        to: EntryId,
        placement: Option<&Placement>,
    ) -> Option<Result<Made, Failure>> {
        let Some(first) = self.files.get_mut(&to) else {
            return Some(Err("is a further name of a file that is not part of this copy".into()));
        };
        match first.state {
            State::Coming => {
                first.waiting.push(pending.entry.id);
                None
            }
            State::Published => Some(first.link(pending, placement)),
            State::Failed => Some(Err("the file it is a further name of failed".into())),
        }
    }

    /// The first name `id` of a file has come to its end; gives the further ones that have waited for it.
    pub(super) fn settle(&mut self, id: EntryId, state: State) -> Vec<EntryId> {
        let Some(first) = self.files.get_mut(&id) else { return Vec::new() };
        first.state = state;
        std::mem::take(&mut first.waiting)
    }
}

impl LinkedFile {
    fn link(&self, pending: &Pending, placement: Option<&Placement>) -> Result<Made, Failure> {
        let Pending { directory, name, .. } = pending;
        let first = self.directory(pending, placement)?;
        let link = |part: &Name| directory.hard_link(&first, &self.name, part);
        let ((), staging) = resume::make_part(directory, name, link)?;
        Ok(Made::unsynced(staging))
    }

    /// The directory that it is in, for `pending`, which may be in the same.
    fn directory(&self, pending: &Pending, placement: Option<&Placement>) -> Result<Directory, String> {
        if self.place == pending.directory_place {
            return Ok(pending.directory.clone());
        }
        let start = placement
            .and_then(|placement| placement.directory(self.source))
            .ok_or("the file it is a further name of has no place here")?;
        let directory = start.reopen(&self.directory).map_err(|error| error.to_string())?;
        match place_of(&directory) {
            Ok(place) if place == self.place => Ok(directory),
            Ok(_) => Err(format!(
                "{}: the directory was replaced during the copy; run the same command again",
                directory.path_of(&self.name)
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}
