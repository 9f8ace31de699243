//! Deletion of extra items, which are reported as they go.

use icdc_disk::tree::{Directory, Metadata, Stat, TreeError};
use icdc_protocol::message::{ChangedItem, Deletion, Message};
use icdc_protocol::validate::clip;
use icdc_session::ItemBatch;
use icdc_session::receiver::book::action::{DirectoryExtras, Notification};
use icdc_units::ByteCount;

use super::super::super::backups::{Backups, Old};
use super::super::super::failure::{self, Failure};
use super::super::super::placement::let_owner_in;
use super::super::super::protection::Item;
use super::super::super::shared::Shared;
use super::walk::Visitor;

/// Visitor of a walk that deletes items and reports them, until as many are deleted as were counted
/// or the session ends.
pub(super) struct Deleter<'a> {
    shared: &'a Shared<'a>,
    /// Number of items that may still be deleted.
    left: u64,
    /// Deleted items that are not reported to the sender yet.
    report: ItemBatch,
    /// Path of the first item that could not be deleted.
    failed: Option<Vec<u8>>,
    /// Place where the items are kept, with the directory in which the source is placed that has
    /// not those which are being deleted; `None` if they are not kept.
    pub(super) keeping: Option<(Backups, Directory)>,
}

impl<'a> Deleter<'a> {
    /// A deletion of at most `count` items.
    pub(super) fn new(shared: &'a Shared<'a>, count: u64) -> Self {
        Self { shared, left: count, report: ItemBatch::default(), failed: None, keeping: None }
    }

    /// Gives the owner of a directory that stays the right to change it; returns the directory's
    /// attributes before, for [`restore`](Self::restore).
    pub(super) fn open_up(&self, directory: &Directory) -> Option<Stat> {
        let before = directory.own_stat().ok();
        if !self.shared.options.dry_run
            && let Err(error) = let_owner_in(directory)
        {
            tracing::debug!(%error, "the permissions of its owner cannot be set");
        }
        before
    }

    /// Gives a directory that stays the attributes again that it had `before` the deletion, which
    /// has changed them.
    pub(super) fn restore(&mut self, directory: &Directory, before: Option<Stat>, found: &DirectoryExtras) {
        let Some(before) = before.filter(|_| !self.shared.options.dry_run) else { return };
        let mode = (before.mode & 0o700 != 0o700).then_some(before.mode);
        let mtime = self.shared.options.preserve.times.then_some(before.mtime);
        if let Err(error) = directory.set_own_metadata(&Metadata { mode, mtime, ..Metadata::default() }) {
            self.report_failure(&found.path, failure::of_tree(&error));
        }
    }

    /// Removes an item from a directory; whether the directory has nothing of it any more.
    fn remove(&mut self, above: &Directory, item: &Item) -> bool {
        let removed = match (self.shared.options.dry_run, item.is_directory()) {
            (true, _) => Ok(true),
            (false, true) => self.remove_directory(above, item),
            (false, false) => self.remove_file(above, item),
        };
        match removed {
            Ok(true) => self.deleted(item),
            Ok(false) => {}
            Err(failure) => {
                self.report_failure(&item.path, failure);
                return false;
            }
        }
        // Its backup may lie in the directory.
        item.is_directory() || self.keeping.as_ref().is_none_or(|(backups, _)| !backups.are_beside())
    }

    /// Removes an empty directory; false if it is gone already.
    fn remove_directory(&mut self, above: &Directory, item: &Item) -> Result<bool, Failure> {
        if let Some((backups, start)) = &mut self.keeping {
            backups.keep_directory(Old { start, directory: above, name: &item.name }, &item.stat)?;
        }
        match above.remove_directory(&item.name) {
            Ok(()) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) if error.is_existing() => {
                let shown = above.path_of(&item.name);
                Err(format!("{shown}: is not empty; something came into it while it was deleted").into())
            }
            Err(error) => Err(failure::of_tree(&error)),
        }
    }

    /// Removes an item that is no directory, or renames it to its backup; false if it is gone already.
    fn remove_file(&mut self, above: &Directory, item: &Item) -> Result<bool, Failure> {
        if let Some((backups, start)) = &mut self.keeping {
            return backups.take(Old { start, directory: above, name: &item.name }, &item.stat);
        }
        match above.remove_file(&item.name) {
            Ok(()) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(failure::of_tree(&error)),
        }
    }

    /// Counts an item that is gone, and reports it.
    pub(super) fn deleted(&mut self, item: &Item) {
        let (path, is_directory) = (item.path.clone(), item.is_directory());
        self.left -= 1;
        self.shared.notify(Notification::Deleted { path: path.clone(), is_directory });
        if let Some(items) = self.report.push(ChangedItem { path, is_directory }) {
            self.shared.reply(Message::Deletion(Deletion::Deleted(items)));
        }
    }

    /// Reports an item that cannot be deleted; the path is empty for the destination itself.
    pub(super) fn report_failure(&mut self, path: &[u8], failure: Failure) {
        self.report();
        let path = if path.is_empty() { b".".to_vec() } else { path.to_vec() };
        self.failed.get_or_insert_with(|| path.clone());
        let reason = failure.into_reason();
        self.shared.notify(Notification::Failed { path: path.clone(), size: ByteCount::ZERO, reason: reason.clone() });
        self.shared.reply(Message::Deletion(Deletion::Failed { path, reason: clip(reason) }));
    }

    /// Path of the first item that could not be deleted.
    pub(super) fn first_failed(self) -> Option<Vec<u8>> {
        self.failed
    }

    /// Tells the sender which items were deleted since the last report.
    pub(super) fn report(&mut self) {
        if let Some(items) = self.report.take() {
            self.shared.reply(Message::Deletion(Deletion::Deleted(items)));
        }
    }
}

impl Visitor for Deleter<'_> {
    fn enter(&mut self, directory: &Directory) -> Result<(), TreeError> {
        if self.shared.options.dry_run { Ok(()) } else { let_owner_in(directory) }
    }

    fn visit(&mut self, above: &Directory, item: &Item) -> Result<bool, Failure> {
        Ok(!self.is_over() && self.remove(above, item))
    }

    fn failed(&mut self, path: &[u8], failure: Failure) -> Result<(), Failure> {
        self.report_failure(path, failure);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.left == 0 || self.shared.has_failed()
    }
}

/// Visitor of a walk that deletes everything in an item, and not the item itself.
pub(super) struct Emptier<'a, 'b> {
    pub(super) deleter: &'a mut Deleter<'b>,
    /// Path of the item below the destination.
    pub(super) top: &'a [u8],
}

impl Visitor for Emptier<'_, '_> {
    fn enter(&mut self, directory: &Directory) -> Result<(), TreeError> {
        self.deleter.enter(directory)
    }

    fn visit(&mut self, above: &Directory, item: &Item) -> Result<bool, Failure> {
        if item.path == self.top { Ok(true) } else { self.deleter.visit(above, item) }
    }

    fn failed(&mut self, path: &[u8], failure: Failure) -> Result<(), Failure> {
        self.deleter.failed(path, failure)
    }

    fn is_over(&self) -> bool {
        self.deleter.is_over()
    }
}
