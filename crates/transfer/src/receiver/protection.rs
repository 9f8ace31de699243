//! Items of the destination of a mirror, and what protects them from being deleted.

use std::collections::HashSet;

use icdc_disk::tree::{Kind, Name, Stat};
use icdc_filter::{Effect, Rules};
use icdc_session::receiver::book::item::DirectoryPlace;

use super::failure::Failure;
use super::onto_itself::SourcesHere;

/// An existing item of a mirror's destination that may be deleted, with its attributes when it was
/// looked at.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) name: Name,
    pub(super) stat: Stat,
    /// Path below the destination.
    pub(super) path: Vec<u8>,
    /// Path that it would have from the transfer root, for rules.
    pub(super) source_path: Vec<u8>,
}

impl Item {
    /// The item `name` of a directory that has these two paths: below the destination, and from the
    /// transfer root.
    pub(super) fn of(name: Name, stat: Stat, path: &[u8], source_path: &[u8]) -> Self {
        let (path, source_path) = (beneath(path, &name), beneath(source_path, &name));
        Self { name, stat, path, source_path }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.stat.kind == Kind::Directory
    }
}

/// Protection of a mirror's items from being deleted: by rules, as sources of this copy, or as
/// directories to which kept links lead.
pub(super) struct Protection<'a> {
    pub(super) rules: &'a Rules,
    pub(super) sources: Option<&'a SourcesHere>,
    /// Directories to which links lead that are kept; `None` if none is.
    pub(super) linked: Option<&'a HashSet<DirectoryPlace>>,
    pub(super) unfinished: Unfinished,
}

/// Treatment of icdc's unfinished files by a mirror that deletes items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// They stay: they are those of other copies.
    Stays,
    /// They are deleted as other items.
    Goes,
}

impl Protection<'_> {
    /// Whether a rule excludes the item, so that it is never deleted.
    pub(super) fn keeps(&self, item: &Item) -> bool {
        self.excludes(&item.source_path, item.is_directory())
    }

    /// Whether a rule excludes what has this path from the transfer root.
    pub(super) fn excludes(&self, source_path: &[u8], is_directory: bool) -> bool {
        self.rules.decide(source_path, is_directory) == Effect::Exclude
    }

    /// Whether a link that is kept leads to what `stat` describes: it has what the source has in the
    /// directory with the name of the link.
    pub(super) fn is_linked(&self, stat: &Stat) -> bool {
        let place = DirectoryPlace { device: stat.dev, inode: stat.ino };
        self.linked.is_some_and(|linked| linked.contains(&place))
    }

    /// Returns an error if the item, which `shown` names, is a source of this copy.
    pub(super) fn refuse_source(&self, stat: &Stat, shown: &str) -> Result<(), Failure> {
        if self.sources.is_none_or(|sources| !sources.has(stat)) {
            return Ok(());
        }
        Err(format!("{shown}: is a source of this copy; choose a destination that has no source in it").into())
    }
}

/// Path of `name` in the directory at the path `above`; only the name if that is empty.
fn beneath(above: &[u8], name: &Name) -> Vec<u8> {
    if above.is_empty() { name.as_bytes().to_vec() } else { [above, name.as_bytes()].join(&b'/') }
}
