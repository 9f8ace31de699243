//! Obstacles in a mirror: items of another kind that have the names of announced ones. What
//! replaces an obstacle is completed beside it, and both change places when the obstacle is deleted.

use icdc_disk::tree::{Directory, Kind, Name, Stat};
use icdc_protocol::message::{EntryId, EntryKind};
use icdc_session::receiver::book::action::{Extra, NewDirectory};
use icdc_session::receiver::book::item::{DirectoryPlace, ModificationTime};

use super::super::backups::{Backups, KeptState, Old, cannot_be_kept};
use super::super::exchanging::{exchange, has_inode};
use super::super::failure::{self, Failure};
use super::super::placement::place_of;
use super::super::publishing::Staged;
use super::super::spellings::Spelling;
use super::FileExecutor;

impl FileExecutor<'_> {
    /// Whether the item's name belongs to an obstacle: something that a rename cannot replace, and
    /// that the mirror deletes with the extra items.
    pub(super) fn is_item_obstructed(&mut self, id: EntryId) -> bool {
        let place = self.item(id).and_then(|item| {
            let (directory, name) = self.target(item)?;
            let own = match item.entry.kind {
                EntryKind::Special(special) => Some(special.described()),
                _ => None,
            };
            Ok((directory.clone(), name, item.place.directory, own))
        });
        let Ok((directory, name, place, own)) = place else { return false };
        let is_obstacle = |kind| match kind {
            Kind::Directory => true,
            Kind::Other(what) => own != Some(what),
            Kind::File | Kind::Symlink => false,
        };
        self.is_obstructed(id, Spelling { directory: &directory, place, name: &name }, is_obstacle)
    }

    /// Whether a directory's name belongs to an obstacle: something that is no directory, and that
    /// the mirror deletes with the extra items.
    pub(super) fn is_directory_obstructed(&mut self, new: &NewDirectory) -> bool {
        let (Some(name), Ok(parent)) = (&new.name, self.directories.get(new.parent)) else { return false };
        let (Ok(name), Ok(place), parent) = (Name::new(name), place_of(parent), parent.clone()) else { return false };
        let spelling = Spelling { directory: &parent, place, name: &name };
        self.is_obstructed(new.id, spelling, |kind| kind != Kind::Directory)
    }

    /// Whether what has the name is an obstacle that the mirror deletes; if so, tells the book that
    /// the item `id` is to replace it.
    fn is_obstructed(&mut self, id: EntryId, name: Spelling<'_>, is_obstacle: impl Fn(Kind) -> bool) -> bool {
        if self.shared.options.delete.is_none() || self.shared.only_new() {
            return false;
        }
        let Ok(stat) = name.directory.stat(name.name) else { return false };
        if !is_obstacle(stat.kind) || self.spellings.may_be_another(name, &stat).unwrap_or(true) {
            return false;
        }
        if !self.book.on_obstacle(id, name.place, extra(name.name, &stat)) {
            return false;
        }
        self.reached.insert(name.place, name.directory.whereabouts());
        true
    }

    /// Makes a directory under a staging name, beside what has its name.
    pub(super) fn make_aside(&mut self, new: &NewDirectory) -> Result<DirectoryPlace, Failure> {
        let (restore_mode, whose) = (self.shared.options.preserve.mode, self.shared.whose());
        let aside = self.directories.make_aside(new, restore_mode, whose)?;
        let place = aside.place;
        self.aside.insert(new.id, aside);
        Ok(place)
    }

    /// Failure of a directory that could not be made: with the advice to copy with `--delete` if
    /// something else has its name, otherwise `failure`.
    pub(super) fn cannot_be_made(&self, new: &NewDirectory, failure: Failure) -> Failure {
        let (Some(name), Ok(parent)) = (&new.name, self.directories.get(new.parent)) else { return failure };
        let Ok(name) = Name::new(name) else { return failure };
        match parent.stat(&name) {
            Ok(Stat { kind, .. }) if kind != Kind::Directory && self.shared.options.delete.is_none() => {
                let (shown, found) = (parent.path_of(&name), kind.described());
                format!(
                    "{shown}: is {found}, not a directory; remove it, or copy with --delete, which replaces it at the end"
                )
                .into()
            }
            _ => failure,
        }
    }

    /// Gives what is complete beside an obstacle its name, and removes the obstacle, an empty
    /// directory or a file. Returns the modification time of what has the name then, if it is a file.
    pub(super) fn replace(
        &mut self,
        id: EntryId,
        directory: &Directory,
        (name, obstacle): (&Name, &Stat),
        keeping: Option<&mut (Backups, Directory)>,
    ) -> Result<Option<ModificationTime>, Failure> {
        let staged = self.staged.get(&id);
        let staging = match (staged, self.aside.get(&id)) {
            (Some(staged), _) => staged.own_name()?,
            (None, Some(aside)) if has_inode(directory, &aside.staging, (aside.place.device, aside.place.inode)) => {
                &aside.staging
            }
            (None, Some(_)) => return Err("was replaced or removed by another program".into()),
            (None, None) => return Err("it is not staged".into()),
        };
        let before = match keeping {
            Some((backups, start)) => {
                self.keep_obstacle(backups, Old { start, directory, name }, (obstacle, staging))?
            }
            None => None,
        };
        match before {
            Some(KeptState::Unlinked(_, above, backup)) => directory
                .rename(name, &above, &backup)
                .and_then(|()| directory.rename_new(staging, directory, name))
                .map_err(|error| failure::of_tree(&error))?,
            _ => take_place(directory, staging, (name, obstacle))?,
        }
        let shown = staged.and_then(Staged::identity).map(|file| file.modified());
        if staged.is_some_and(|staged| !staged.is_durable()) {
            self.staged.remove(&id);
        }
        self.aside.remove(&id);
        Ok(shown.map(|time| ModificationTime { seconds: time.seconds, nanos: time.nanos }))
    }

    /// Keeps an obstacle, an empty directory or a file, that what is complete under a staging name is to
    /// replace.
    fn keep_obstacle(
        &self,
        backups: &mut Backups,
        old: Old<'_>,
        (obstacle, staging): (&Stat, &Name),
    ) -> Result<Option<KeptState>, Failure> {
        match obstacle.kind {
            Kind::Directory => backups.keep_directory(old, obstacle).map(|()| None),
            Kind::Other(what) => Err(cannot_be_kept(&old.directory.path_of(old.name), what)),
            Kind::File | Kind::Symlink => {
                let before = backups.keep(old, staging)?;
                let flushed = self.directories.flush(&backups.take_unflushed());
                flushed.map(|()| Some(before)).map_err(|error| failure::of_tree(&error))
            }
        }
    }
}

/// Lets what has a staging name replace an obstacle, which is removed. There is always one of them
/// under the name, where the file system can exchange names and the obstacle is no device or pipe.
fn take_place(directory: &Directory, staging: &Name, (name, obstacle): (&Name, &Stat)) -> Result<(), Failure> {
    // What confines the session (Landlock) does not let it give names to devices and pipes.
    if !matches!(obstacle.kind, Kind::Other(_)) && exchange(directory, staging, (name, obstacle))? {
        return Ok(());
    }
    let removed = match obstacle.kind {
        Kind::Directory => directory.remove_directory(name),
        _ => directory.remove_file(name),
    };
    removed.and_then(|()| directory.rename_new(staging, directory, name)).map_err(|error| failure::of_tree(&error))
}

/// The item `name` of a directory as an extra item.
pub(super) fn extra(name: &Name, stat: &Stat) -> Extra {
    let is_directory = stat.kind == Kind::Directory;
    Extra { name: name.as_bytes().to_vec(), device: stat.dev, inode: stat.ino, is_directory, replaced_by: None }
}
