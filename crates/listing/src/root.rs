//! The item that is listed.

use icdc_disk::tree::{Directory, Kind, Name, Stat, Tree, TreeError};

/// The item at the requested path, at which a listing begins.
pub(crate) enum Root {
    /// A directory, whose items are listed.
    Directory(Directory),
    /// Anything else, in its directory.
    Item(Directory, Name, Stat),
}

impl Root {
    /// Finds the item at `path`. A symbolic link is followed if it leads to a directory.
    ///
    /// # Errors
    /// There is nothing, or it is outside of the tree.
    pub(crate) fn find(tree: &Tree, path: &[u8]) -> Result<Self, TreeError> {
        let located = tree.resolve(path)?;
        let Some(name) = located.name.clone() else { return Ok(Self::Directory(located.directory)) };
        let Some(stat) = located.stat else {
            return Err(TreeError::Missing { path: located.path(), call: "fstatat" });
        };
        let is_directory = stat.kind == Kind::Directory;
        if !is_directory && !located.trailing_slash && stat.kind != Kind::Symlink {
            return Ok(Self::Item(located.directory, name, stat));
        }
        match located.open_directory() {
            Ok(directory) => Ok(Self::Directory(directory)),
            Err(error) if is_directory || located.trailing_slash => Err(error),
            // A link to something else, or to nothing.
            Err(_) => Ok(Self::Item(located.directory, name, stat)),
        }
    }
}
