//! Backups: items that are replaced or deleted at the destination, kept in a directory beside it under
//! their paths from there, or in their own directories under names with a suffix.
//!
//! ```text
//! replaced   the backup becomes a further name of the old file; when that name is flushed, the old and
//!            the new file change places, and the old one loses its name
//! deleted    the old file is renamed to its backup
//! ```
//!
//! At every moment an old file has its own name, or that of its backup, or both. An older backup is
//! replaced, unless what is replaced now equals what replaces it: an interrupted run has replaced the
//! old file then, and that is the backup.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use icdc_disk::tree::{Directory, Kind, Metadata, Name, Stat, Tree, TreeError, resembles_staging};
use icdc_protocol::message::{Backup, ReceiveOptions};
use icdc_session::receiver::book::item::DirectoryPlace;
use icdc_session::{ById, SessionError};

use super::beside::path_beside;
use super::exchanging::{has_inode, replaced_meanwhile};
use super::failure::{self, Failure};
use super::leftovers;
use super::onto_itself::SourcesHere;
use super::placement::{Placement, place_of, refusal, refuse};
use super::staging::Whose;
use crate::path_text;

/// Bytes of two files that are read and compared at a time.
const PIECE: usize = 1 << 20;

/// Backups of a session's replaced and deleted items (`--backup-dir`, `--suffix`): the directory
/// that keeps them under their paths, or none if each is kept in its own.
pub(super) struct Backups {
    /// The directory for them; `None` where each is kept in its own.
    root: Option<Root>,
    suffix: Vec<u8>,
    /// Whether the first name on the way from the directory in which the only source is placed is
    /// that of the destination.
    is_of_source: bool,
    /// The backup of the directory that was asked for last, and its device.
    last: Option<(DirectoryPlace, Option<(Directory, u64)>)>,
    /// Devices on which backups were linked that are not durable.
    unflushed: BTreeSet<u64>,
}

/// Directory of `--backup-dir`: one that exists, or one that is made for the first backup.
enum Root {
    There(Directory),
    /// It is made for the first backup, under this name.
    Missing(Directory, Name),
}

/// An existing item of the destination that is to be replaced or deleted, and of which a backup is
/// made.
#[derive(Clone, Copy)]
pub(super) struct Old<'a> {
    /// The directory in which its source is placed.
    pub(super) start: &'a Directory,
    /// The directory that it is in, which was reached from there.
    pub(super) directory: &'a Directory,
    pub(super) name: &'a Name,
}

/// State of the existing item before another gets its name: none, not replaceable, kept as a
/// backup, or to be renamed to its backup.
#[derive(Clone)]
pub(super) enum KeptState {
    /// Nothing.
    Nothing,
    /// A directory, a device, a pipe or a socket, which is not replaced by a rename.
    Irreplaceable,
    /// This file or link: it has a backup, or needs none.
    Kept(Stat),
    /// This file or link, of which there can be no further name: it is renamed to its backup when it is
    /// replaced.
    Unlinked(Stat, Directory, Name),
}

/// Existing items that a batch is about to replace, by the id of each replacing item: kept in this
/// form, or the reason why not.
pub(super) type Kept = ById<Result<KeptState, Failure>>;

impl Backups {
    /// Finds the directory for backups of a copy to `destination`; `None` if the user wants no
    /// backups.
    ///
    /// # Errors
    /// The directory lies in the destination or in a source, the destination lies in it, or it is on another
    /// file system; several sources go into one directory.
    pub(super) fn open(
        tree: &Tree,
        destination: &[u8],
        options: &ReceiveOptions,
        placement: &Placement,
        sources: Option<&SourcesHere>,
    ) -> Result<Option<Self>, SessionError> {
        let Some(Backup { directory, suffix }) = options.backup.as_deref() else { return Ok(None) };
        if placement.merges() {
            return Err(refusal(
                "--backup-dir, --suffix: of several sources, each must arrive under its own name (a b, not a/ b/), as an \
                 item that replaced one of an earlier source would replace its backup, too; copy them one after the other"
                    .into(),
            ));
        }
        let root = match directory {
            Some(path) => Some(find((tree, destination), path, placement, sources)?),
            None => None,
        };
        Ok(Some(Self {
            root,
            suffix: suffix.clone(),
            is_of_source: placement.is_source_named(),
            last: None,
            unflushed: BTreeSet::new(),
        }))
    }

    /// Whether backups lie in the items' own directories, under names with a suffix.
    pub(super) fn are_beside(&self) -> bool {
        self.root.is_none()
    }

    /// Makes the backup of the file or link `old`, as a further name of it, before what is complete
    /// under the name `new` replaces it; returns its state.
    ///
    /// # Errors
    /// It cannot be kept, and must not be replaced.
    pub(super) fn keep(&mut self, old: Old<'_>, new: &Name) -> Result<KeptState, Failure> {
        let Old { directory, name, .. } = old;
        let stat = match directory.stat(name) {
            Ok(Stat { kind: Kind::Directory | Kind::Other(_), .. }) => return Ok(KeptState::Irreplaceable),
            Ok(stat) => stat,
            Err(error) if error.is_missing() => return Ok(KeptState::Nothing),
            Err(error) => return Err(failure::of_tree(&error)),
        };
        let inode = (stat.dev, stat.ino);
        // Nothing is lost with it.
        if has_inode(directory, new, inode) || stat.kind == Kind::Symlink && are_equal(directory, name, new) {
            return Ok(KeptState::Kept(stat));
        }
        let Some((above, backup)) = self.place(old, &stat)? else { return Ok(KeptState::Kept(stat)) };
        match is_older(&above, &backup, inode)? {
            Some(true) if are_equal(directory, name, new) => return Ok(KeptState::Kept(stat)),
            // A session that was killed has linked it, and may not have flushed that.
            Some(false) => {}
            Some(true) | None if link(old, &stat, (&above, &backup))? => {}
            Some(true) | None => return Ok(KeptState::Unlinked(stat, above, backup)),
        }
        self.unflushed.insert(stat.dev);
        Ok(KeptState::Kept(stat))
    }

    /// Takes the device numbers of the file systems on which backups were linked since the last
    /// call, and which have to be flushed.
    pub(super) fn take_unflushed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.unflushed).into_iter().collect()
    }

    /// Renames an item that is to be deleted, and is no directory, to its backup; false if it is gone
    /// already.
    ///
    /// # Errors
    /// It cannot be kept, and stays.
    pub(super) fn take(&mut self, old: Old<'_>, stat: &Stat) -> Result<bool, Failure> {
        let Old { directory, name, .. } = old;
        if let Kind::Other(what) = stat.kind {
            return Err(cannot_be_kept(&directory.path_of(name), what));
        }
        let moved = match self.place(old, stat)? {
            None => directory.remove_file(name),
            Some((above, backup)) => match is_older(&above, &backup, (stat.dev, stat.ino))? {
                Some(false) => above.sync().and_then(|()| directory.remove_file(name)),
                Some(true) | None => match directory.rename(name, &above, &backup) {
                    Err(error) if !error.is_missing() => {
                        return Err(unmoved((directory, name), (&above, &backup), &error));
                    }
                    moved => moved,
                },
            },
        };
        match moved {
            Ok(()) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(failure::of_tree(&error)),
        }
    }

    /// Makes the directory of the backups for a directory that is to be deleted and had these
    /// attributes, unless it exists. Does nothing where backups lie in the items' own directories.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn keep_directory(&mut self, old: Old<'_>, stat: &Stat) -> Result<(), Failure> {
        if self.root.is_none() {
            return Ok(());
        }
        let Some((above, _)) = self.directory(old)? else { return Ok(()) };
        let made = enter(&above, old.name, || old.directory.open_directory(old.name))?;
        if let Err(error) = made.set_own_metadata(&Metadata { mtime: Some(stat.mtime), ..Metadata::default() }) {
            tracing::debug!(%error, "the time of a backup's directory is that of its making");
        }
        Ok(())
    }

    /// Directory and name of the backup of an item; `None` for one that has never been at the
    /// destination, in a directory that is not complete.
    fn place(&mut self, old: Old<'_>, stat: &Stat) -> Result<Option<(Directory, Name)>, Failure> {
        let Some((above, device)) = self.directory(old)? else { return Ok(None) };
        let shown = || old.directory.path_of(old.name);
        if stat.dev != device {
            return Err(format!(
                "{}: is on another file system than its backup would be ({}), and stays; leave it out, or copy it by itself",
                shown(),
                above.path()
            )
            .into());
        }
        let bytes = [old.name.as_bytes(), &self.suffix].concat();
        let name = Name::new(&bytes).map_err(|error| format!("{}: no backup can be made: {error}", shown()))?;
        if resembles_staging(&bytes) {
            return Err(format!(
                "{}: its backup would have a name that icdc keeps for unfinished files; choose another --suffix",
                shown()
            )
            .into());
        }
        Ok(Some((above, name)))
    }

    /// Directory for the backups of `old` and the other items of its directory, made if need be,
    /// with its device number; `None` for a directory that is not complete. The last one is
    /// remembered.
    fn directory(&mut self, old: Old<'_>) -> Result<Option<(Directory, u64)>, Failure> {
        let place = place_of(old.directory).map_err(|error| failure::of_tree(&error))?;
        if let Some((last, found)) = &self.last
            && *last == place
        {
            return Ok(found.clone());
        }
        let found = match self.open_beside(old)? {
            Some(directory) => {
                let device = directory.own_stat().map_err(|error| failure::of_tree(&error))?.dev;
                Some((directory, device))
            }
            None => None,
        };
        self.last = Some((place, found.clone()));
        Ok(found)
    }

    /// Opens or makes the directory for the backups of an item's directory: that itself, or its
    /// counterpart below the directory of `--backup-dir`. `None` if the item is in a directory with
    /// a staging name.
    fn open_beside(&mut self, Old { start, directory, name }: Old<'_>) -> Result<Option<Directory>, Failure> {
        let names = directory.names_from(start);
        let names = names.ok_or_else(|| format!("{}: was not reached from its source", directory.path_of(name)))?;
        if names.iter().any(|name| resembles_staging(name.as_bytes())) {
            return Ok(None);
        }
        let place = directory.whereabouts();
        let original = |end: usize| start.reopen_part(&place, end);
        let first = usize::from(self.is_of_source).min(names.len());
        let mut backup = match &self.root {
            None => return Ok(Some(directory.clone())),
            Some(Root::There(root)) => root.clone(),
            Some(Root::Missing(above, name)) => {
                let made = enter(above, name, || original(first))?;
                let is_destination = original(first).and_then(|copied| Ok(place_of(&copied)? == place_of(&made)?));
                if is_destination.map_err(|error| failure::of_tree(&error))? {
                    return Err(
                        format!("{}: is the destination by now; choose another --backup-dir", made.path()).into()
                    );
                }
                self.root = Some(Root::There(made.clone()));
                made
            }
        };
        for (at, name) in names.iter().enumerate().skip(first) {
            backup = enter(&backup, name, || original(at + 1))?;
        }
        Ok(Some(backup))
    }
}

/// Failure of an item at the path `shown` that would be replaced or deleted and is `what`, such as
/// a device, of which no backup can be made.
pub(super) fn cannot_be_kept(shown: &str, what: &str) -> Failure {
    format!("{shown}: is {what}, of which no backup can be made; remove it by hand").into()
}

/// Failure of an item that could not be renamed to its backup, for this `error`; it stays.
pub(super) fn unmoved(
    (directory, name): (&Directory, &Name),
    (above, backup): (&Directory, &Name),
    error: &TreeError,
) -> Failure {
    if !matches!(error, TreeError::NotPermitted { .. }) {
        return failure::of_tree(error);
    }
    // The error names the backup, and it is the item most of the time.
    let (shown, backup) = (directory.path_of(name), above.path_of(backup));
    format!(
        "{shown}: may not be moved to {backup}, where it would be kept, and stays: one of both is immutable or in an \
         append-only directory (lsattr, lsattr -d show it) or, in a sticky directory, another user's"
    )
    .into()
}

/// Finds the directory `path` of `--backup-dir`, and checks that it is on the destination's file
/// system, and neither in the destination or a source nor above the destination.
fn find(
    (tree, destination): (&Tree, &[u8]),
    path: &[u8],
    placement: &Placement,
    sources: Option<&SourcesHere>,
) -> Result<Root, SessionError> {
    let shown = path_text(path);
    let refused = |why: String| refusal(format!("--backup-dir {shown}: {why}"));
    if path.split(|byte| *byte == b'/').any(resembles_staging) {
        return Err(refused("its name is one that icdc keeps for unfinished files".into()));
    }
    let missing = |error: TreeError| {
        refused(format!(
            "{error}; the directories above it must exist (a path that is not absolute begins beside the destination)"
        ))
    };
    let located = tree.resolve(&path_beside(destination, path)).map_err(missing)?;
    let there = match located.stat {
        Some(_) => Some(located.open_directory().map_err(missing)?),
        None if located.name.is_none() => Some(located.directory.clone()),
        None => None,
    };
    let nearest = there.as_ref().unwrap_or(&located.directory);
    let own = placement.destination();
    let copied = own.as_ref().unwrap_or_else(|| placement.existing());
    let lineage = nearest.lineage();
    let inside = match &own {
        Some(own) => {
            let DirectoryPlace { device, inode } = place_of(own).map_err(refuse)?;
            lineage.contains(&(device, inode))
        }
        None => false,
    };
    let is_destination = match (&there, &located.name) {
        (None, Some(name)) => placement.is_missing_at(&located.directory, name).map_err(refuse)?,
        _ => false,
    };
    if inside || is_destination {
        return Err(refused("is the destination, or lies in it; name a directory beside the destination".into()));
    }
    if sources.is_some_and(|sources| sources.hold(nearest)) {
        return Err(refused("is a source of this copy, or lies in one; name another directory".into()));
    }
    let place = place_of(nearest).map_err(refuse)?;
    if there.is_some() && copied.lineage().contains(&(place.device, place.inode)) {
        return Err(refused("the destination lies in it; name a directory beside the destination".into()));
    }
    if place.device != place_of(copied).map_err(refuse)?.device {
        return Err(refused(format!(
            "is not on the file system of {}, from which files are moved there; name a directory on the same one",
            copied.path()
        )));
    }
    match (there, located.name) {
        (None, Some(name)) => Ok(Root::Missing(located.directory, name)),
        (there, _) => Ok(Root::There(there.unwrap_or(located.directory))),
    }
}

/// Opens the directory `name` of the backups, or makes it with the permissions of `original`, whose
/// backup it is.
fn enter(
    above: &Directory,
    name: &Name,
    original: impl FnOnce() -> Result<Directory, TreeError>,
) -> Result<Directory, Failure> {
    let of_tree = |error| failure::of_tree(&error);
    match above.open_directory_on_mount(name) {
        Err(error) if error.is_missing() => {}
        opened => return opened.map_err(of_tree),
    }
    let (made, is_new) = above.make_or_open_directory(name, 0o700).map_err(of_tree)?;
    if is_new {
        let alike = original().and_then(|original| make_alike(&made, &original.own_stat()?));
        if let Err(error) = alike {
            tracing::debug!(%error, "a backup's directory is open to its owner only");
        }
    }
    Ok(made)
}

/// Gives a new directory the owner and permissions of `original`; if the owner cannot be set,
/// permissions for its own owner only.
fn make_alike(made: &Directory, original: &Stat) -> Result<(), TreeError> {
    let own = made.own_stat()?;
    let owner = (original.uid, original.gid);
    let is_alike = (own.uid, own.gid) == owner
        || made.set_own_metadata(&Metadata { owner: Some(owner), ..Metadata::default() }).is_ok();
    let mode = if is_alike { original.mode & 0o777 | 0o700 } else { 0o700 };
    made.set_own_metadata(&Metadata { mode: Some(mode), ..Metadata::default() })
}

/// Whether the name `backup` belongs to another item (true) or to this device and inode already
/// (false); `None` if nothing has the name.
fn is_older(above: &Directory, backup: &Name, inode: (u64, u64)) -> Result<Option<bool>, Failure> {
    match above.stat(backup) {
        Ok(Stat { kind: Kind::Directory, .. }) => {
            let shown = above.path_of(backup);
            Err(format!("{shown}: a directory has the name of a backup; remove it, or choose another --backup-dir")
                .into())
        }
        Ok(stat) => Ok(Some((stat.dev, stat.ino) != inode)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(failure::of_tree(&error)),
    }
}

/// Links an item to its backup, in place of an older one; false if it can have no further name.
fn link(old: Old<'_>, stat: &Stat, (above, backup): (&Directory, &Name)) -> Result<bool, Failure> {
    let Old { directory, name, .. } = old;
    let inode = (stat.dev, stat.ino);
    match above.hard_link(directory, name, backup) {
        Ok(()) if has_inode(above, backup, inode) => return Ok(true),
        Ok(()) => {
            let _ = above.remove_file(backup);
            return Err(replaced_meanwhile(directory, name));
        }
        Err(error) if error.refuses_link() => return Ok(false),
        Err(error) if error.is_existing() => {}
        Err(error) => return Err(failure::of_tree(&error)),
    }
    let make = |part: &Name| above.hard_link(directory, name, part);
    let ((), part) = leftovers::make_part(above, backup, Whose::default(), make)?;
    let named = match has_inode(above, &part, inode) {
        true => above.rename(&part, above, backup).map_err(|error| failure::of_tree(&error)),
        false => Err(replaced_meanwhile(directory, name)),
    };
    named.map(|()| true).inspect_err(|_| {
        let _ = above.remove_file(&part);
    })
}

/// Whether two files in a directory have equal contents, or two links equal targets.
fn are_equal(directory: &Directory, one: &Name, other: &Name) -> bool {
    if let Ok(target) = directory.read_link(one) {
        return directory.read_link(other).is_ok_and(|other| other == target);
    }
    let (Ok((one, found)), Ok((other, stat))) = (directory.open_file(one), directory.open_file(other)) else {
        return false;
    };
    let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
    let mut position = 0;
    while found.size == stat.size && position < stat.size {
        let most = PIECE.min(usize::try_from(stat.size - position).unwrap_or(PIECE));
        let (left, right) = (&mut left[..most], &mut right[..most]);
        let read = one.read_exact_at(left, position).and_then(|()| other.read_exact_at(right, position));
        if read.is_err() || left != right {
            return false;
        }
        position += most as u64;
    }
    found.size == stat.size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_a_killed_session_has_linked_is_flushed_before_the_file_is_replaced() {
        let temporary = tempfile::tempdir().unwrap();
        let place = |name: &str| temporary.path().join(name);
        ["copy", "kept"].iter().for_each(|name| std::fs::create_dir(place(name)).unwrap());
        std::fs::write(place("copy/file"), "old").unwrap();
        std::fs::write(place("copy/new"), "new").unwrap();
        let open = |name: &str| Tree::open(&place(name)).unwrap().root().clone();
        let (copy, [file, new]) = (open("copy"), [&b"file"[..], b"new"].map(|name| Name::new(name).unwrap()));
        for session in 0..2 {
            let mut backups = Backups {
                root: Some(Root::There(open("kept"))),
                suffix: Vec::new(),
                is_of_source: false,
                last: None,
                unflushed: BTreeSet::new(),
            };
            let kept = backups.keep(Old { start: &copy, directory: &copy, name: &file }, &new).unwrap();
            assert!(matches!(kept, KeptState::Kept(_)));
            assert_eq!(backups.take_unflushed().len(), 1, "session {session}");
            assert_eq!(std::fs::read(place("kept/file")).unwrap(), b"old");
        }
    }
}
