//! Directories of a session by their numbers, and how those that are finished were reached.

use std::collections::{HashMap, HashSet};

use icdc_disk::tree::{Directory, FileSystem, Name, StagingKind, TreeError, Whereabouts, file_user};
use icdc_protocol::message::{EntryId, Preserve};
use icdc_session::ById;
use icdc_session::receiver::book::action::{FirstName, NewDirectory, Target};
use icdc_session::receiver::book::item::{DirectoryId, DirectoryPlace};
use icdc_session::receiver::book::resume::verdict::name_exists;

use super::super::failure::{self, Failure};
use super::super::placement::{Landing, let_owner_in, place_of};
use super::super::spellings::Spellings;
use super::super::staging::{Purpose, Staging, Whose, make_under};

/// A directory that is filled under a staging name, because something else has its own.
pub(super) struct Aside {
    pub(super) staging: Name,
    pub(super) place: DirectoryPlace,
}

/// Directories of the destination that are in use.
#[derive(Default)]
pub(super) struct Directories {
    open: ById<Directory, DirectoryId>,
    /// Each file system that is written to, by its device number; a directory on it where the file
    /// system itself could not be opened.
    file_systems: HashMap<u64, Result<FileSystem, Directory>>,
    /// Places of the finished directories that hold the first name of a file with several.
    finished: ById<Whereabouts>,
    /// Directories that existed before, in a session that may not change existing items.
    untouchable: HashSet<EntryId>,
}

impl Directories {
    /// Registers the directories where the sources are placed; returns the target of each source.
    pub(super) fn land(&mut self, landings: Vec<Landing>) -> Result<Vec<Target>, TreeError> {
        (0..).zip(landings).map(|(number, landing)| self.target(number, landing)).collect()
    }

    /// Registers the directory in which source number `number` is placed; returns the source's
    /// target.
    fn target(&mut self, number: u32, landing: Landing) -> Result<Target, TreeError> {
        let (directory, name) = match landing {
            Landing::Named(directory, name) => (directory, Some(name)),
            Landing::Contents(directory) => (directory, None),
            Landing::Imagined => return Ok(Target::Imagined),
        };
        let place = self.insert(DirectoryId::Source(number), directory)?;
        Ok(match name {
            Some(name) => Target::Named { directory: place, name: name.as_bytes().to_vec() },
            None => Target::Contents(place),
        })
    }

    /// Registers an open directory under this id, and its file system for flushing; returns its
    /// device and inode.
    fn insert(&mut self, id: DirectoryId, directory: Directory) -> Result<DirectoryPlace, TreeError> {
        let place = place_of(&directory)?;
        if !matches!(self.file_systems.get(&place.device), Some(Ok(_))) {
            let opened = directory.file_system().map_err(|_| directory.clone());
            self.file_systems.insert(place.device, opened);
        }
        self.open.insert(id, directory);
        Ok(place)
    }

    /// Makes a directory or opens the existing one, in which names may be made, but nothing else
    /// of it may be changed; with `new_destination` the directory of a source's contents counts as
    /// new.
    pub(super) fn make_only_new(
        &mut self,
        new: &NewDirectory,
        new_destination: bool,
        spellings: &mut Spellings,
    ) -> Result<DirectoryPlace, Failure> {
        let parent = self.get(new.parent)?;
        let (directory, is_new) = match &new.name {
            None => (parent.clone(), new_destination),
            Some(name) => {
                let name = Name::new(name).map_err(|error| error.to_string())?;
                let shown = parent.path_of(&name);
                let made = parent.make_or_open_directory(&name, 0o777);
                let (directory, is_new) = made.map_err(|error| match error {
                    TreeError::NotADirectory { .. } => name_exists(&shown),
                    error => failure::of_tree(&error),
                })?;
                spellings.take_directory(parent, &name, (&directory, is_new))?;
                check_renames(&directory, is_new)?;
                (directory, is_new)
            }
        };
        if !is_new {
            self.untouchable.insert(new.id);
        }
        self.insert(DirectoryId::Entry(new.id), directory).map_err(|error| failure::of_tree(&error))
    }

    /// Makes a directory or opens the existing one, so that it can be filled; returns its device
    /// and inode.
    pub(super) fn make(
        &mut self,
        new: &NewDirectory,
        preserve: Preserve,
        spellings: &mut Spellings,
    ) -> Result<DirectoryPlace, Failure> {
        let parent = self.get(new.parent)?;
        let directory = match &new.name {
            None => parent.clone(),
            Some(name) => {
                let name = Name::new(name).map_err(|error| error.to_string())?;
                make_directory(parent, &name, preserve.mode, spellings)?
            }
        };
        self.insert(DirectoryId::Entry(new.id), directory).map_err(|error| failure::of_tree(&error))
    }

    /// Opens the existing directory, so that it can be filled; `None` if there is none.
    pub(super) fn open(
        &mut self,
        new: &NewDirectory,
        preserve: Preserve,
        spellings: &mut Spellings,
    ) -> Result<Option<DirectoryPlace>, Failure> {
        let parent = self.get(new.parent)?;
        let directory = match &new.name {
            None => parent.clone(),
            Some(name) => {
                let name = Name::new(name).map_err(|error| error.to_string())?;
                let directory = match parent.open_directory(&name) {
                    Err(error) if error.is_missing() => return Ok(None),
                    opened => opened.map_err(|error| failure::of_tree(&error))?,
                };
                prepare(parent, &name, (directory, false), preserve.mode, spellings)?
            }
        };
        self.insert(DirectoryId::Entry(new.id), directory).map(Some).map_err(|error| failure::of_tree(&error))
    }

    /// Registers an existing directory under the number of an announced one, and, if it `is_filled`,
    /// checks that it can be.
    pub(super) fn enter(
        &mut self,
        new: &NewDirectory,
        directory: Directory,
        is_filled: bool,
        restore_mode: bool,
    ) -> Result<DirectoryPlace, Failure> {
        if is_filled {
            let_in(&directory, false, restore_mode)?;
        }
        self.insert(DirectoryId::Entry(new.id), directory).map_err(|error| failure::of_tree(&error))
    }

    /// Makes a directory under a staging name, because its own belongs to something else, or opens
    /// the one that an earlier run of this user has made.
    pub(super) fn make_aside(
        &mut self,
        new: &NewDirectory,
        restore_mode: bool,
        whose: Whose,
    ) -> Result<Aside, Failure> {
        let parent = self.get(new.parent)?;
        let name = Name::new(new.name.as_deref().unwrap_or_default()).map_err(|error| error.to_string())?;
        let mode = if restore_mode { 0o700 } else { 0o777 };
        let make = |staging: Staging| {
            let part = staging.part();
            let (directory, is_new) = parent.make_or_open_directory(&part, mode).map_err(|error| match error {
                TreeError::NotADirectory { path, call, .. } => TreeError::Exists { path, call },
                error => error,
            })?;
            match is_new || directory.own_stat()?.uid == file_user() {
                true => Ok(directory),
                false => Err(TreeError::Exists { path: directory.path(), call: "mkdirat" }),
            }
        };
        let kinds = [StagingKind::Part, StagingKind::Blocks];
        let (directory, staging) = make_under(parent, &Purpose::item(&name, whose), &kinds, make)?;
        if restore_mode {
            let_owner_in(&directory).map_err(|error| failure::of_tree(&error))?;
        }
        let place = self.insert(DirectoryId::Entry(new.id), directory).map_err(|error| failure::of_tree(&error))?;
        Ok(Aside { staging: staging.part(), place })
    }

    /// Opens the existing directory, for a dry run; `None` if there is none.
    pub(super) fn find_existing(&mut self, new: &NewDirectory) -> Option<DirectoryPlace> {
        let parent = self.open.get(&new.parent)?;
        let directory = match &new.name {
            None => parent.clone(),
            Some(name) => parent.open_directory(&Name::new(name).ok()?).ok()?,
        };
        self.insert(DirectoryId::Entry(new.id), directory).ok()
    }

    /// The open directory with this id.
    pub(super) fn get(&self, id: DirectoryId) -> Result<&Directory, Failure> {
        self.open.get(&id).ok_or_else(|| "its directory is not there".into())
    }

    /// The open directory of this entry, if its own attributes may be set.
    pub(super) fn changeable(&self, id: EntryId) -> Option<&Directory> {
        self.open.get(&DirectoryId::Entry(id)).filter(|_| !self.untouchable.contains(&id))
    }

    /// Removes a finished directory from those in use, and returns it if its own attributes may be
    /// set; how it was reached stays known if it is to be `remembered`.
    pub(super) fn close(&mut self, id: EntryId, remembered: bool) -> Option<Directory> {
        let directory = self.open.remove(&DirectoryId::Entry(id))?;
        if remembered {
            self.finished.insert(id, directory.whereabouts());
        }
        (!self.untouchable.remove(&id)).then_some(directory)
    }

    /// Directory that holds the first name of a file with several.
    pub(super) fn of_first(&self, first: &FirstName, name: &Name) -> Result<Directory, Failure> {
        if let Some(directory) = self.open.get(&first.directory) {
            return Ok(directory.clone());
        }
        let finished = match first.directory {
            DirectoryId::Entry(id) => self.finished.get(&id),
            DirectoryId::Source(_) => None,
        };
        let start = self.open.get(&DirectoryId::Source(first.source));
        let (start, finished) = start.zip(finished).ok_or("the file it is a further name of has no place here")?;
        let directory = start.reopen(finished).map_err(|error| error.to_string())?;
        match place_of(&directory) {
            Ok(place) if place == first.place => Ok(directory),
            Ok(_) => Err(format!(
                "{}: the directory was replaced during the copy; run the same command again",
                directory.path_of(name)
            )
            .into()),
            Err(error) => Err(error.to_string().into()),
        }
    }

    /// Makes durable what was written to the file systems with these device numbers.
    pub(super) fn flush(&self, file_systems: &[u64]) -> Result<(), TreeError> {
        file_systems.iter().try_for_each(|device| match self.file_systems.get(device) {
            Some(Ok(file_system)) => file_system.sync(),
            Some(Err(directory)) => directory.file_system()?.sync(),
            None => Ok(()),
        })
    }

    /// Makes the names in these directories durable.
    pub(super) fn flush_names(&self, directories: &[DirectoryId]) -> Result<(), TreeError> {
        directories.iter().filter_map(|id| self.open.get(id)).try_for_each(|directory| {
            if directory.sync_itself()? { Ok(()) } else { self.flush(&[place_of(directory)?.device]) }
        })
    }
}

/// Makes the directory `name`, or opens the existing one, so that it can be filled: only by its
/// owner, if `restore_mode` says that it gets its mode later.
fn make_directory(
    above: &Directory,
    name: &Name,
    restore_mode: bool,
    spellings: &mut Spellings,
) -> Result<Directory, Failure> {
    // Private while it is filled.
    let mode = if restore_mode { 0o700 } else { 0o777 };
    let made = above.make_or_open_directory(name, mode).map_err(|error| failure::of_tree(&error))?;
    prepare(above, name, made, restore_mode, spellings)
}

/// Checks a directory that was made or opened, with whether it is new, and lets its owner fill it.
fn prepare(
    above: &Directory,
    name: &Name,
    (directory, is_new): (Directory, bool),
    restore_mode: bool,
    spellings: &mut Spellings,
) -> Result<Directory, Failure> {
    spellings.take_directory(above, name, (&directory, is_new))?;
    let_in(&directory, is_new, restore_mode)?;
    Ok(directory)
}

/// Checks that names in a directory can be changed, and lets its owner fill it.
fn let_in(directory: &Directory, is_new: bool, restore_mode: bool) -> Result<(), Failure> {
    check_renames(directory, is_new)?;
    if restore_mode {
        // An existing one may lack the owner's right to write, as one does whose source is
        // read-only and whose filling was interrupted.
        let_owner_in(directory).map_err(|error| failure::of_tree(&error))?;
    }
    Ok(())
}

/// Returns an error for a directory that existed before in which unfinished files could neither
/// get their names nor be removed.
fn check_renames(directory: &Directory, is_new: bool) -> Result<(), Failure> {
    if is_new { Ok(()) } else { directory.permits_renames().map_err(|error| failure::of_tree(&error)) }
}
