//! Files and directories at the destination's host that the user has named as bases (`--basis`): content of
//! large files that is in them is not sent. Nothing in them is ever changed.

use std::fs::File;
use std::sync::Arc;

use icdc_disk::tree::{Directory, Followed, Kind, Tree, TreeError};
use icdc_protocol::message::ReceiveOptions;
use icdc_session::SessionError;

use super::beside::path_beside;
use super::placement::{Placement, refusal};
use super::references::References;
use crate::path_text;

/// The bases that the user has named, open for the session.
pub(super) struct NamedBases {
    /// Bases of every large file.
    files: Vec<Arc<File>>,
    /// Directories of which each has a basis for the file of the same path in it.
    pub(super) directories: References,
}

/// A basis that the user has named, opened.
pub(super) enum NamedBasis {
    /// A regular file.
    File(File),
    /// A directory.
    Directory(Directory),
}

impl NamedBases {
    /// Opens the bases of a copy to `destination`.
    ///
    /// # Errors
    /// One cannot be opened, or is neither a file nor a directory.
    pub(super) fn open(
        tree: &Tree,
        destination: &[u8],
        options: &ReceiveOptions,
        placement: &Placement,
    ) -> Result<Self, SessionError> {
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for path in &options.bases {
            match find(tree, destination, path) {
                Ok(NamedBasis::File(file)) => files.push(Arc::new(file)),
                Ok(NamedBasis::Directory(directory)) => directories.push(directory),
                Err(error) => {
                    return Err(refusal(format!(
                        "--basis {}: {error}; name a file or a directory that exists (one that is not absolute is looked for \
                         beside the destination)",
                        path_text(path)
                    )));
                }
            }
        }
        Ok(Self { files, directories: References::of_bases(directories, placement) })
    }

    /// The files that are bases of every large file.
    pub(super) fn files(&self) -> &[Arc<File>] {
        &self.files
    }
}

/// Opens what is at `path`, which is relative to the parent of `destination` unless it is absolute.
pub(super) fn find(tree: &Tree, destination: &[u8], path: &[u8]) -> Result<NamedBasis, TreeError> {
    let located = tree.resolve(&path_beside(destination, path))?;
    let Some(name) = &located.name else { return Ok(NamedBasis::Directory(located.directory)) };
    match located.stat.map(|stat| stat.kind) {
        Some(Kind::Symlink) => Ok(match located.directory.follow(name)? {
            Followed::Directory(directory) => NamedBasis::Directory(directory),
            Followed::File(file, _) => NamedBasis::File(file),
        }),
        Some(Kind::Directory) => Ok(NamedBasis::Directory(located.directory.open_directory(name)?)),
        // What is missing has this error, too. Opening a device may have effects.
        Some(Kind::File) | None => Ok(NamedBasis::File(located.directory.open_file(name)?.0)),
        Some(other) => {
            let path = located.directory.path_of(name);
            Err(TreeError::NotAFile { path, found: other.described(), call: "openat2" })
        }
    }
}
