//! Removal of a directory with a staging name, with everything in it.

use icdc_disk::tree::{Directory, Metadata, TreeError, Visitor, WalkFailure, WalkItem};

/// Visitor of a walk that removes every item, a directory after everything in it.
pub(crate) struct TreeRemover;

impl Visitor for TreeRemover {
    type Error = WalkFailure;

    /// A directory of a copy may have the mode of its source already.
    fn enter(&mut self, directory: &Directory) -> Result<(), TreeError> {
        let mode = directory.own_stat()?.mode;
        if mode & 0o700 == 0o700 {
            return Ok(());
        }
        directory.set_own_metadata(&Metadata { mode: Some(mode | 0o700), ..Metadata::default() })
    }

    fn visit(&mut self, above: &Directory, item: &WalkItem) -> Result<(), WalkFailure> {
        let removed = match item.is_directory() {
            true => above.remove_directory(&item.name),
            false => above.remove_file(&item.name),
        };
        match removed {
            Err(error) if !error.is_missing() => Err(item.failed(error)),
            _ => Ok(()),
        }
    }
}
