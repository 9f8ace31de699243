//! The removal of moved items at the source: when it happens, and how they are found then.

use icdc_disk::tree::{Directory, Name, Stat};
use icdc_protocol::message::Parent;
use icdc_session::sender::Removal;

use super::super::moved::ItemToRemove;
use super::{Level, Moving, Scan};

impl Scan<'_> {
    /// Time of removal at the source of an item that is no directory, and the way to find it then.
    pub(super) fn removal(
        &self,
        directory: &Directory,
        name: &Name,
        parent: Parent,
        stat: &Stat,
    ) -> (Removal, Option<ItemToRemove>) {
        let Some(Moving { root: Some((root, _)) }) = &self.moving else { return (Removal::Never, None) };
        let (root, directory) = (root.clone(), directory.whereabouts());
        let is_inner = matches!(parent, Parent::Directory(_));
        let leaving = ItemToRemove { root, directory, name: name.clone(), stat: *stat, is_inner };
        let is_last = !is_inner || stat.nlink > 1;
        (if is_last { Removal::AtEnd } else { Removal::WhenPublished }, Some(leaving))
    }

    /// Way to find a directory that is to be removed at the source, `name` in the directory
    /// `above`; `None` if it stays.
    pub(super) fn leaving_directory(
        &self,
        above: Option<&Level>,
        directory: &Directory,
        name: &[u8],
    ) -> Option<ItemToRemove> {
        let Some(Moving { root: Some((root, named)) }) = &self.moving else { return None };
        if self.following.is_some() {
            // Somebody writes in it.
            return None;
        }
        let is_inner = above.is_some();
        let (above, name) = match above {
            Some(level) => (&level.directory, Name::new(name).ok()?),
            None => (root, named.clone()?),
        };
        let stat = directory.own_stat().ok()?;
        Some(ItemToRemove { root: root.clone(), directory: above.whereabouts(), name, stat, is_inner })
    }
}
