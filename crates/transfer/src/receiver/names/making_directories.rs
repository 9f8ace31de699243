//! Directories that are made or opened, and their attributes, which are restored when everything
//! in them is done.

use icdc_protocol::message::{Entry, Missing, NoticeKind};
use icdc_session::receiver::book::action::{NewDirectory, NotFinished};
use icdc_session::receiver::book::item::DirectoryPlace;

use super::super::failure::{self, Failure};
use super::super::kept_times::is_far_off;
use super::super::restored_metadata::{metadata, restore};
use super::FileExecutor;

impl FileExecutor<'_> {
    /// Makes or opens a directory; `None` if it is missing in a dry run, or where nothing new is
    /// made.
    pub(super) fn make_directory(&mut self, new: &NewDirectory) -> Result<Option<DirectoryPlace>, Failure> {
        if let Some(place) = self.follow_kept_link(new)? {
            return Ok(Some(place));
        }
        if self.shared.options.dry_run {
            let found = self.directories.find_existing(new);
            if found.is_none() {
                self.is_directory_obstructed(new);
            }
            return Ok(found);
        }
        if self.shared.only_new() {
            return self.directories.make_only_new(new, self.new_destination, &mut self.spellings).map(Some);
        }
        let preserve = self.shared.options.preserve;
        if self.shared.options.missing == Missing::LeaveOut {
            let opened = self.directories.open(new, preserve, &mut self.spellings);
            return opened.map_err(|failure| self.cannot_be_made(new, failure));
        }
        match self.directories.make(new, preserve, &mut self.spellings) {
            Ok(place) => {
                // A mirror that was killed has left what it replaced by the directory.
                if let Some(name) = new.name.as_deref().filter(|_| self.is_resuming()) {
                    self.remove_leftovers(new.parent, name, true);
                }
                Ok(place)
            }
            Err(_) if self.is_directory_obstructed(new) => self.make_aside(new),
            Err(failure) => Err(self.cannot_be_made(new, failure)),
        }
        .map(Some)
    }

    /// Closes a directory and sets its own attributes.
    ///
    /// # Errors
    /// If they cannot be set, or are to be changed and may not.
    pub(super) fn finish_directory(
        &mut self,
        entry: &Entry,
        remembered: bool,
        may_change: bool,
    ) -> Result<(), NotFinished> {
        let is_dry_run = self.shared.options.dry_run;
        let wanted = metadata(entry, self.shared.options);
        if !may_change
            && !is_dry_run
            && let Some(directory) = self.directories.changeable(entry.id)
            && !directory.has_own_metadata(&wanted)
        {
            return Err(NotFinished::Differs);
        }
        let Some(directory) = self.directories.close(entry.id, remembered) else { return Ok(()) };
        if is_dry_run {
            return Ok(());
        }
        let restored = restore(&wanted, |wanted| directory.set_own_metadata(wanted));
        if !restored.map_err(|error| failure::of_tree(&error))? {
            self.shared.notice(NoticeKind::ModeNotKept, directory.path().as_bytes());
        }
        if wanted.mtime.is_some() && directory.own_stat().is_ok_and(|stat| is_far_off(wanted.mtime, stat.mtime)) {
            self.shared.notice(NoticeKind::TimeNotKept, directory.path().as_bytes());
        }
        Ok(())
    }
}
