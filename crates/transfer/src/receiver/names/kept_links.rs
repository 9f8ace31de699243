//! Symbolic links that have the name of a directory of the source and are kept: the directory that the
//! link leads to is filled in its place.

use icdc_disk::tree::Name;
use icdc_session::receiver::book::action::NewDirectory;
use icdc_session::receiver::book::item::DirectoryPlace;

use super::super::failure::{self, Failure};
use super::super::placement::place_of;
use super::super::spellings::Spelling;
use super::FileExecutor;

impl FileExecutor<'_> {
    /// Opens the directory to which a link leads that has the name of the announced directory
    /// `new`; `None` if there is no such link, or links are not followed.
    ///
    /// # Errors
    /// The link leads where it may not.
    pub(super) fn follow_kept_link(&mut self, new: &NewDirectory) -> Result<Option<DirectoryPlace>, Failure> {
        let (Some(targets), Some(name)) = (&mut self.link_targets, &new.name) else { return Ok(None) };
        let parent = self.directories.get(new.parent)?.clone();
        let name = Name::new(name).map_err(|error| error.to_string())?;
        let Some((directory, link)) = targets.follow(&parent, &name, self.sources.as_deref())? else { return Ok(None) };
        let place = place_of(&parent).map_err(|error| failure::of_tree(&error))?;
        self.spellings.take_found(Spelling { directory: &parent, place, name: &name }, &link)?;
        let options = self.shared.options;
        let is_filled = !options.dry_run;
        self.directories.enter(new, directory, is_filled, options.preserve.mode).map(Some)
    }
}
