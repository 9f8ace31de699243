//! Extra items of a mirror: names that a directory of the destination has and the one of the source
//! has not, from the announcements until they are deleted.
//!
//! ```text
//! Entries, LeftOut ─► names of each open directory      DirEnd ─► ListExtras: other names there
//! everything done, nothing failed ─► CountExtras ─► within the limit ─► DeleteExtras ─► Ended
//! ```
//!
//! What is kept of an announced name is a hash of 64 bits. Two names of one hash make one item that
//! stays though it is extra; none is deleted that the source has.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::mem;
use std::sync::Arc;

use icdc_protocol::limits::MAX_EXTRAS;
use icdc_protocol::message::{Deletion, Entry, EntryId, EntryKind, LeftOut, MaxDelete, Message, Parent, SourceKind};
use icdc_protocol::validate::clip;

use super::Book;
use super::action::{Action, Answer, DirectoryExtras, ListedExtras, Notification, Target};
use super::item::{DirectoryId, DirectoryPlace};
use super::levels::DirectoryState;
use super::state::SessionStage;
use crate::{ById, Failure, SessionError};

/// Names of one directory that its source has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceNames {
    hashes: Vec<u64>,
}

impl SourceNames {
    fn insert(&mut self, name: &[u8]) {
        self.hashes.push(hash(name));
    }

    /// Sorts the names, for [`contains`](Self::contains).
    fn sorted(mut self) -> Self {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        self
    }

    /// Whether the source has this name, or one with the same hash.
    #[must_use]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.hashes.binary_search(&hash(name)).is_ok()
    }
}

/// The part of a path below its first component; empty if there is none.
fn beneath_first(path: &[u8]) -> &[u8] {
    path.iter().position(|byte| *byte == b'/').map_or(&[], |slash| &path[slash + 1..])
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name);
    hasher.finish()
}

/// Names that the source has in a directory whose children are being announced.
#[derive(Debug, Default)]
struct Announcing {
    names: SourceNames,
    /// Whether the sender has not read the directory, so that nothing in it is extra.
    is_unread: bool,
    /// Whether the directory is a source itself.
    is_source: bool,
}

/// Progress of a deletion.
#[derive(Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Items are announced and copied.
    #[default]
    Collecting,
    /// The extra items are being counted.
    Counting,
    /// The extra items are being deleted.
    Deleting,
    /// Nothing more is deleted.
    Ended,
}

/// Extra items that were found so far, and what is known to decide on their deletion.
#[derive(Debug, Default)]
pub(super) struct Extras {
    open: ById<Announcing>,
    /// Number of names kept of the open directories.
    names: usize,
    /// The extra items of each directory that was listed, even if it has none: another source may
    /// go into the same directory, and only what neither has is extra.
    found: HashMap<DirectoryPlace, DirectoryExtras>,
    /// Places and names of the sources that are not contents of a directory, which other sources may
    /// lead to as well.
    sources: Vec<(DirectoryPlace, Vec<u8>)>,
    /// Number of items in all listed directories.
    listed: u64,
    /// Number of extra items in `found`.
    count: usize,
    /// Why nothing may be deleted: the first reason found.
    refusal: Option<String>,
    stage: Stage,
}

impl Extras {
    /// Records an announced entry: a name in its parent, and a directory whose children follow.
    fn on_entry(&mut self, id: EntryId, parent: Parent, name: &[u8], is_directory: bool) {
        if let Parent::Directory(above) = parent
            && let Some(above) = self.open.get_mut(&above)
        {
            above.names.insert(name);
            self.names += 1;
        }
        if is_directory {
            let is_source = matches!(parent, Parent::Source(_));
            self.open.insert(id, Announcing { is_source, ..Announcing::default() });
        }
        if self.names > MAX_EXTRAS {
            self.refuse(|| format!("the source has more than {MAX_EXTRAS} names in directories that are open at once"));
        }
    }

    fn refuse(&mut self, reason: impl FnOnce() -> String) {
        if self.refusal.is_none() {
            self.refusal = Some(reason());
        }
        self.found.clear();
    }

    /// Adds what was found in a directory; of one that was listed before, both listings count.
    fn add(&mut self, mut found: DirectoryExtras, listed: u64) {
        if self.refusal.is_some() {
            return;
        }
        if let Some(before) = self.found.remove(&found.place) {
            self.count -= before.extras.len();
            found.extras.retain(|extra| before.extras.contains(extra));
        } else {
            self.listed += listed;
        }
        self.count += found.extras.len();
        self.found.insert(found.place, found);
        if self.count > MAX_EXTRAS {
            self.refuse(|| format!("the destination has more than {MAX_EXTRAS} items that the source has not"));
        }
    }

    /// Takes what no source has, by directory in the order of their paths.
    fn take(&mut self) -> Vec<DirectoryExtras> {
        let mut found = mem::take(&mut self.found);
        for (place, name) in &self.sources {
            if let Some(found) = found.get_mut(place) {
                found.extras.retain(|extra| extra.name != *name);
            }
        }
        let mut found: Vec<_> = found.into_values().filter(|found| !found.extras.is_empty()).collect();
        found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        found
    }

    /// Most items that may be deleted; `None` for no limit. `all` items are at the destination.
    fn limit(max: Option<MaxDelete>, all: u64) -> Option<u64> {
        max.map(|max| match max {
            MaxDelete::Items(items) => items,
            MaxDelete::Percent(percent) => u64::try_from(u128::from(all) * u128::from(percent) / 100).unwrap_or(all),
        })
    }
}

impl<P> Book<P> {
    fn deletes(&self) -> bool {
        self.settings.options.delete.is_some()
    }

    /// Records the name of an announced entry.
    pub(super) fn note_source_name(&mut self, entry: &Entry) {
        if !self.deletes() {
            return;
        }
        if let (Parent::Source(number), SessionStage::Running(run)) = (entry.parent, &self.stage)
            && let Some(Target::Named { directory, name }) = run.targets.get(number as usize)
        {
            self.extras.sources.push((*directory, name.clone()));
        }
        let is_directory = matches!(entry.kind, EntryKind::Directory);
        self.extras.on_entry(entry.id, entry.parent, &entry.name, is_directory);
    }

    /// Records names that the source has and that are not announced.
    pub(super) fn left_out(&mut self, directory: EntryId, what: LeftOut) -> Result<(), SessionError> {
        let open = self.extras.open.get_mut(&directory);
        let open = open.ok_or_else(|| SessionError::Protocol("names are left out of no open directory".into()))?;
        match what {
            LeftOut::Names(names) => {
                names.iter().for_each(|name| open.names.insert(name));
                self.extras.names += names.len();
            }
            LeftOut::Unread => open.is_unread = true,
        }
        Ok(())
    }

    /// Requests the listing of a directory whose children are all announced.
    pub(super) fn list_extras(&mut self, id: EntryId) {
        let Some(Announcing { names, is_unread, is_source }) = self.extras.open.remove(&id) else { return };
        self.extras.names -= names.hashes.len();
        let Some(level) = self.levels.get_mut(id) else { return };
        let (shown, source) = (level.path.clone(), level.source);
        let DirectoryState::Exists(place) = level.state else { return };
        let source_path = self.source_path(source, &shown);
        let path = self.destination_path(source, shown);
        let found = DirectoryExtras { source, place, path, source_path, extras: Vec::new() };
        if is_unread {
            return self.extras.add(found, 0);
        }
        let allows_empty = self.settings.options.delete.as_ref().is_some_and(|delete| delete.allow_empty_source);
        if is_source && names.hashes.is_empty() && !allows_empty {
            let shown = if found.path.is_empty() { b".".to_vec() } else { found.path };
            self.extras.refuse(|| {
                format!(
                    "{}: its source is an empty directory, as that of a file system that is not mounted; if everything \
                     at the destination is to go, add --yes-empty",
                    shown.escape_ascii()
                )
            });
            return;
        }
        if self.extras.refusal.is_none() {
            self.ask(Action::ListExtras { directory: DirectoryId::Entry(id), found, names: names.sorted() });
        }
    }

    /// Path from the transfer root of a directory with this path at the destination.
    fn source_path(&self, source: u32, path: &[u8]) -> Vec<u8> {
        let SessionStage::Running(run) = &self.stage else { return path.to_vec() };
        let Some(named) = run.sources.get(source as usize) else { return path.to_vec() };
        let is_contents = named.kind == SourceKind::Contents;
        if is_contents && !self.settings.options.dry_run {
            return path.to_vec();
        }
        match beneath_first(path) {
            beneath if is_contents => beneath.to_vec(),
            b"" => named.name.clone(),
            beneath => [&named.name, beneath].join(&b'/'),
        }
    }

    /// Path below the destination of a directory with this path; in a dry run paths begin with the
    /// source's name.
    fn destination_path(&self, source: u32, path: Vec<u8>) -> Vec<u8> {
        let SessionStage::Running(run) = &self.stage else { return path };
        if !self.settings.options.dry_run {
            return path;
        }
        let beneath = beneath_first(&path);
        match run.targets.get(source as usize) {
            Some(Target::Named { name, .. }) if beneath.is_empty() => name.clone(),
            Some(Target::Named { name, .. }) => [name, beneath].join(&b'/'),
            _ => beneath.to_vec(),
        }
    }

    /// Handles the outcome of [`Action::ListExtras`].
    pub fn on_extras_listed(&mut self, outcome: Result<ListedExtras, Failure>) {
        self.answered(Answer::ExtrasListed);
        match outcome {
            Ok(ListedExtras { found, items }) => self.extras.add(found, items),
            Err(failure) => self.extras.refuse(|| failure.into_reason()),
        }
    }

    /// Begins the deletion once everything else is done; returns whether it has ended. Nothing is
    /// deleted once the sender has gone: it may not have read everything.
    pub(super) fn delete_extras(&mut self) -> bool {
        if !self.deletes() || !self.phase.is_open() {
            return true;
        }
        match self.extras.stage {
            Stage::Ended => return true,
            Stage::Counting | Stage::Deleting => return false,
            Stage::Collecting => {}
        }
        if let Some(path) = &self.first_failed {
            let reason = format!("{}: it was not copied", path.escape_ascii());
            self.extras.refuse(|| reason);
        }
        if let Some(reason) = self.extras.refusal.take() {
            self.refuse_deletion(reason);
            return true;
        }
        let found = self.extras.take();
        if found.is_empty() {
            self.end_deletion();
            return true;
        }
        self.extras.stage = Stage::Counting;
        self.ask(Action::CountExtras(found.into()));
        false
    }

    /// Handles the outcome of [`Action::CountExtras`]: the number of items, those in extra
    /// directories included.
    pub fn on_extras_counted(&mut self, found: Arc<[DirectoryExtras]>, outcome: Result<u64, Failure>) {
        self.answered(Answer::ExtrasCounted);
        let max = self.settings.options.delete.as_ref().and_then(|delete| delete.max);
        let names: usize = found.iter().map(|found| found.extras.len()).sum();
        match outcome {
            Err(failure) => self.refuse_deletion(failure.into_reason()),
            Ok(count) => {
                // What is in extra directories was not listed before.
                let all = self.extras.listed + count.saturating_sub(names as u64);
                match Extras::limit(max, all).filter(|limit| count > *limit) {
                    Some(limit) => self.refuse_deletion(format!(
                        "{count} items of the destination are not at the source, and --max-delete allows {limit} of {all}"
                    )),
                    None => {
                        self.extras.stage = Stage::Deleting;
                        self.ask(Action::DeleteExtras { found, count });
                    }
                }
            }
        }
        self.proceed();
    }

    /// Handles the end of [`Action::DeleteExtras`].
    pub fn on_extras_deleted(&mut self) {
        self.answered(Answer::ExtrasDeleted);
        self.end_deletion();
        self.proceed();
    }

    fn refuse_deletion(&mut self, reason: String) {
        self.notify(Notification::DeletionRefused { reason: reason.clone() });
        self.reply(Message::Deletion(Deletion::Refused(clip(reason))));
        self.end_deletion();
    }

    fn end_deletion(&mut self) {
        self.extras = Extras { stage: Stage::Ended, ..Extras::default() };
        self.reply(Message::Deletion(Deletion::Ended));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::super::action::Extra;
    use super::*;

    fn found(inode: u64, names: &[&str]) -> DirectoryExtras {
        let extra = |name: &&str| Extra { name: name.as_bytes().to_vec(), device: 1, inode: 7, is_directory: false };
        let place = DirectoryPlace { device: 1, inode };
        DirectoryExtras {
            source: 0,
            place,
            path: b"d".to_vec(),
            source_path: Vec::new(),
            extras: names.iter().map(extra).collect(),
        }
    }

    #[test]
    fn a_directory_of_two_sources_keeps_what_either_has() {
        let mut extras = Extras::default();
        extras.add(found(1, &["a", "b"]), 5);
        extras.add(found(2, &["x"]), 1);
        extras.add(found(1, &["b", "c"]), 6);
        let names = |inode| extras.found[&DirectoryPlace { device: 1, inode }].extras.clone();
        assert_eq!(names(1), found(1, &["b"]).extras, "c came with the first source, a is of the second");
        assert_eq!(names(2).len(), 1);
        assert_eq!((extras.count, extras.listed), (2, 6));
    }

    #[test]
    fn names_are_found_by_their_bytes() {
        let mut names = SourceNames::default();
        [&b"b"[..], b"a", b"\xff"].iter().for_each(|name| names.insert(name));
        let names = names.sorted();
        assert!(names.contains(b"a") && names.contains(b"\xff") && !names.contains(b"c") && !names.contains(b"A"));
    }

    #[test]
    fn a_limit_in_percent_counts_of_everything_and_rounds_down() {
        assert_eq!(Extras::limit(Some(MaxDelete::Percent(10)), 99), Some(9));
        assert_eq!(Extras::limit(Some(MaxDelete::Percent(100)), u64::MAX), Some(u64::MAX));
        assert_eq!(Extras::limit(Some(MaxDelete::Items(3)), 1), Some(3));
        assert_eq!(Extras::limit(None, 1), None);
    }
}
