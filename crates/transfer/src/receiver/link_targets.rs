//! Symbolic links at the destination that are kept where the source has a directory: the directories
//! to which they may lead.
//!
//! A link is followed once. What is open then is compared: it, or a directory above it, has to be one
//! of the roots, which are held open, so that no other directory gets their numbers. From there on
//! everything is done by descriptor, as in any directory.

use std::collections::HashSet;
use std::sync::Arc;

use icdc_disk::tree::{Directory, Kind, Name, Stat, Tree, TreeError, printable};
use icdc_protocol::message::DirectoryLinks;
use icdc_session::SessionError;
use icdc_session::receiver::book::item::DirectoryPlace;

use super::beside::path_beside;
use super::failure::{self, Failure};
use super::onto_itself::SourcesHere;
use super::placement::{place_of, refusal, refuse};
use crate::path_text;

/// Links at the destination that are kept in place of directories (`--keep-dirlinks`): the
/// directories into which they may lead, and those to which they do.
pub(super) struct LinkTargets {
    /// The destination, and the directories outside of it that were named.
    roots: Vec<(Directory, DirectoryPlace)>,
    /// Directories to which a kept link leads. A mirror does not delete them.
    reached: Arc<HashSet<DirectoryPlace>>,
    /// Whether the other end must not learn where a link leads.
    conceals: bool,
}

impl LinkTargets {
    /// Opens the directories outside of the destination that `--dirlinks-into` names; the
    /// destination itself is added later.
    ///
    /// # Errors
    /// One does not exist.
    pub(super) fn open(
        tree: &Tree,
        destination: &[u8],
        links: &DirectoryLinks,
        conceals: bool,
    ) -> Result<Self, SessionError> {
        let mut targets = Self { roots: Vec::new(), reached: Arc::default(), conceals };
        for path in &links.into {
            let located = tree.resolve(&path_beside(destination, path));
            let directory = located.and_then(|located| located.open_directory()).map_err(|error| {
                let shown = path_text(path);
                refusal(format!(
                    "--dirlinks-into {shown}: {error}; name a directory that exists (one that is not absolute is \
                     looked for beside the destination)"
                ))
            })?;
            targets.allow(directory).map_err(refuse)?;
        }
        Ok(targets)
    }

    /// Lets links lead into this directory.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub(super) fn allow(&mut self, root: Directory) -> Result<(), TreeError> {
        let place = place_of(&root)?;
        self.roots.push((root, place));
        Ok(())
    }

    /// The directory to which the link `name` leads, and the link itself; `None` if there is no link of
    /// that name, or it leads to no directory.
    ///
    /// # Errors
    /// It leads out of the roots, or into one of the `sources`.
    pub(super) fn follow(
        &mut self,
        above: &Directory,
        name: &Name,
        sources: Option<&SourcesHere>,
    ) -> Result<Option<(Directory, Stat)>, Failure> {
        let link = match above.stat(name) {
            Ok(stat) if stat.kind == Kind::Symlink => stat,
            // Whatever fails here fails when the directory is made, too.
            Ok(_) | Err(_) => return Ok(None),
        };
        let directory = match above.open_linked(name) {
            Ok(directory) => directory,
            Err(TreeError::Missing { .. } | TreeError::NotADirectory { .. } | TreeError::Link { .. }) => {
                return Ok(None);
            }
            Err(TreeError::Escapes { .. }) => return Err(self.leads_out(above, name)),
            Err(error) => return Err(failure::of_tree(&error)),
        };
        let lineage = directory.lineage();
        let is_within = |(_, root): &(Directory, DirectoryPlace)| lineage.contains(&(root.device, root.inode));
        if !self.roots.iter().any(is_within) {
            return Err(self.leads_out(above, name));
        }
        if sources.is_some_and(|sources| sources.hold(&directory)) {
            let shown = above.path_of(name);
            return Err(format!(
                "{shown}: is a symbolic link into a source of this copy; remove the link, or leave the directory out"
            )
            .into());
        }
        let place = place_of(&directory).map_err(|error| failure::of_tree(&error))?;
        Arc::make_mut(&mut self.reached).insert(place);
        Ok(Some((directory, link)))
    }

    /// The directories to which kept links lead, as far as these were followed.
    pub(super) fn reached(&self) -> Arc<HashSet<DirectoryPlace>> {
        Arc::clone(&self.reached)
    }

    /// The failure of a directory whose name a link has that leads out of the roots.
    fn leads_out(&self, above: &Directory, name: &Name) -> Failure {
        let shown = above.path_of(name);
        let target = match above.read_link(name) {
            Ok(target) if !self.conceals => format!(" to {}", printable(&target)),
            _ => String::new(),
        };
        format!(
            "{shown}: is a symbolic link{target}, out of the destination; name the directory that it leads into with \
             --dirlinks-into, or remove the link"
        )
        .into()
    }
}
