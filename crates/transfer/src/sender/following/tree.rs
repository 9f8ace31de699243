//! The trees that are followed, and what of them is chosen.

use icdc_disk::has_writers;
use icdc_disk::tree::{Directory, Kind, Name, Stat, TreeError};
use icdc_watch::Place;

use super::super::chosen::Chosen;
use super::super::examination::beneath;
use super::super::sources::Root;
use crate::path_text;

/// A source directory that is followed, open from the beginning of the run.
pub(super) struct FollowedTree {
    /// Number of the source.
    pub(super) number: u32,
    pub(super) root: Directory,
    /// Device of the root.
    pub(super) device: u64,
    /// Path of the root, for messages.
    pub(super) text: String,
    /// Name of the source, with which the paths of its items begin.
    name: Vec<u8>,
    /// Bytes at the start of these paths that are above the transfer root.
    above_root: usize,
}

impl FollowedTree {
    /// Opens the source number `number`, a directory that is to be followed.
    ///
    /// # Errors
    /// It is no directory or cannot be opened; a sentence for the user.
    pub(super) fn of(number: u32, source: &Root) -> Result<Self, String> {
        let root = match &source.name {
            None => source.directory.clone(),
            Some(name) if source.stat.kind == Kind::Directory => {
                source.directory.open_directory(name).map_err(|error| error.to_string())?
            }
            Some(name) => {
                return Err(format!(
                    "{}: is no directory, and --follow follows directories: name the one that it is in, with --include and \
                     --exclude",
                    source.directory.path_of(name)
                ));
            }
        };
        let stat = root.own_stat().map_err(|error| error.to_string())?;
        let (name, above_root) = (source.source.name.clone(), source.above_transfer_root());
        let text = path_text(root.path().as_bytes());
        Ok(Self { number, root, device: stat.dev, text, name, above_root })
    }

    /// Whether rules exclude what is at this place.
    pub(super) fn is_excluded(&self, chosen: &Chosen, place: &Place, is_directory: bool) -> bool {
        let path = self.path_from_root(place);
        !path.is_empty() && chosen.excludes(&path, is_directory)
    }

    /// Path of a place from the transfer root, to which patterns are compared.
    pub(super) fn path_from_root(&self, place: &Place) -> Vec<u8> {
        let mut path = self.path_of(place);
        path.drain(..self.above_root.min(path.len()));
        path
    }

    /// Path of a place from the source's parent.
    pub(super) fn path_of(&self, place: &Place) -> Vec<u8> {
        match place.path.as_slice() {
            b"" => self.name.clone(),
            path => beneath(&self.name, path),
        }
    }

    /// Opens the directory at a place, component by component, no link followed.
    pub(super) fn open(&self, place: &Place) -> Result<Directory, TreeError> {
        let mut directory = self.root.clone();
        for component in components(&place.path) {
            directory = match Name::new(component) {
                Ok(name) => directory.open_directory(&name)?,
                Err(_) => return Err(missing(&directory, component)),
            };
        }
        Ok(directory)
    }

    /// Present attributes of what is at a place; no link is followed.
    pub(super) fn stat(&self, place: &Place) -> Result<Stat, TreeError> {
        match self.split(place)? {
            Some((above, name)) => above.stat(&name),
            None => self.root.own_stat(),
        }
    }

    /// Whether a program has the regular file at a place open for writing; `None` where that cannot be told.
    pub(super) fn has_writers(&self, place: &Place) -> Option<bool> {
        let (above, name) = self.split(place).ok()??;
        let (file, _) = above.open_file(&name).ok()?;
        has_writers(&file)
    }

    /// Directory in which a place is, opened, and its name there; `None` for the root.
    fn split(&self, place: &Place) -> Result<Option<(Directory, Name)>, TreeError> {
        let Some((above, last)) = place.split() else { return Ok(None) };
        let directory = self.open(&above)?;
        match Name::new(last) {
            Ok(name) => Ok(Some((directory, name))),
            Err(_) => Err(missing(&directory, last)),
        }
    }
}

/// Components of a path; empty ones are left out.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|component| !component.is_empty())
}

/// The error for a name that no item can have.
fn missing(directory: &Directory, name: &[u8]) -> TreeError {
    TreeError::Missing { path: format!("{}/{}", directory.path(), path_text(name)), call: "openat" }
}
