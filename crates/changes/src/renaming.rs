//! Renaming of an item within a file system.

use icdc_disk::tree::{Directory, Kind, Name, Stat, Tree, TreeError, printable};
use icdc_protocol::message::{ChangeCount, ChangedItem};

use crate::place::{self, Place, refuse_staging};
use crate::report::{Over, Reporter};

/// Gives the item at `from` the path `to`, or its own name in the directory `to`. With `replace`,
/// an item that has the new path is replaced: a file by a file, an empty directory by a directory.
/// A failure is reported, not returned.
///
/// # Errors
/// See [`Over`].
pub(crate) fn rename(
    tree: &Tree,
    (from, to): (&[u8], &[u8]),
    replace: bool,
    reporter: &mut dyn Reporter,
) -> Result<ChangeCount, Over> {
    let renamed = find(tree, from, to).and_then(|found| found.rename(replace).map(|path| (found, path)));
    match renamed {
        Err(reason) => {
            reporter.failed(from, reason)?;
            Ok(ChangeCount::default())
        }
        Ok((found, path)) => {
            let is_directory = found.item.stat.kind == Kind::Directory;
            let bytes = if found.item.stat.kind == Kind::File { found.item.stat.size } else { 0 };
            reporter.changed(ChangedItem { path, is_directory })?;
            Ok(ChangeCount { items: 1, directories: is_directory.into(), bytes })
        }
    }
}

/// An item to be renamed, with the directory, name and path that it is to get.
struct Found<'a> {
    from: &'a [u8],
    item: Place,
    directory: Directory,
    name: Name,
    /// New path of the item.
    path: Vec<u8>,
}

/// Finds the item at `from` and what `to` means for it: a new path, or an existing directory into
/// which it goes. The error is a sentence for the user.
fn find<'a>(tree: &Tree, from: &'a [u8], to: &[u8]) -> Result<Found<'a>, String> {
    refuse_staging(from)?;
    refuse_staging(to)?;
    let item = place::find(tree, from, &tree.root().lineage(), &mut None)?;
    let located = tree.resolve(to).map_err(|error| error.to_string())?;
    let is_directory = match located.stat.map(|stat| stat.kind) {
        Some(Kind::Directory) => true,
        Some(Kind::Symlink) => located.open_directory().is_ok(),
        _ => false,
    };
    match located.name.clone().filter(|_| !is_directory) {
        Some(_) if located.trailing_slash && item.stat.kind != Kind::Directory => {
            Err(format!("{}: is not a directory, into which an item could be moved", printable(to)))
        }
        Some(name) => Ok(Found { from, item, directory: located.directory, name, path: to.to_vec() }),
        None => {
            let directory = located.open_directory().map_err(|error| error.to_string())?;
            let slash: &[u8] = if to.ends_with(b"/") || to.is_empty() { b"" } else { b"/" };
            let path = [to, slash, item.name.as_bytes()].concat();
            Ok(Found { from, name: item.name.clone(), item, directory, path })
        }
    }
}

impl Found<'_> {
    /// Renames the item; returns its new path.
    fn rename(&self, replace: bool) -> Result<Vec<u8>, String> {
        let Self { from, item, directory, name, path } = self;
        let told = |error: TreeError| self.sentence(&error);
        let is_directory = item.stat.kind == Kind::Directory;
        if is_directory && directory.lineage().contains(&(item.stat.dev, item.stat.ino)) {
            return Err(format!("{}: cannot be moved into itself", printable(from)));
        }
        match (replace, is_directory) {
            (true, _) => item.directory.rename(&item.name, directory, name).map_err(told)?,
            (false, true) => item.directory.rename_directory_new(&item.name, directory, name).map_err(told)?,
            (false, false) => item.directory.rename_new(&item.name, directory, name).map_err(told)?,
        }
        let is_it = |stat: Stat| (stat.dev, stat.ino) == (item.stat.dev, item.stat.ino);
        if !directory.stat(name).is_ok_and(is_it) {
            let (from, to) = (printable(from), printable(path));
            return Err(format!("{from}: was replaced by another item while it was renamed; {to} is that one now"));
        }
        // A file that has both names keeps them, and gets a second one where the file system cannot
        // rename without replacing.
        let is_left = !is_directory && !self.stays() && item.directory.stat(&item.name).is_ok_and(is_it);
        if is_left {
            item.directory.remove_file(&item.name).map_err(told)?;
        }
        for changed in [directory, &item.directory] {
            if let Err(error) = changed.sync() {
                tracing::warn!(%error, "the new name may not survive a power cut");
            }
        }
        Ok(path.clone())
    }

    /// Whether the new directory and name of the item are those that it has.
    fn stays(&self) -> bool {
        let place = |directory: &Directory| directory.own_stat().map(|stat| (stat.dev, stat.ino)).ok();
        self.item.name == self.name && place(&self.item.directory) == place(&self.directory)
    }

    /// The failure of a rename, as a sentence for the user.
    fn sentence(&self, error: &TreeError) -> String {
        let (from, to) = (printable(self.from), printable(&self.path));
        match error {
            TreeError::Exists { .. } => format!("{to}: exists already; remove it, or replace a file by --force"),
            TreeError::OtherFileSystem { .. } => format!(
                "{from}: cannot be renamed to {to}, which is on another file system; icdc copy --move with the same \
                 two paths copies it there and removes it here"
            ),
            // The error names the new path only.
            TreeError::NotPermitted { .. } => format!(
                "{from}: may not be renamed to {to}: one of both is immutable or in an append-only directory (lsattr, \
                 lsattr -d show it) or, in a sticky directory, another user's"
            ),
            error => error.to_string(),
        }
    }
}
