//! The unfinished files that lie below a directory, of whatever runs: listed, and removed where no
//! run holds them.
//!
//! Two spellings of a destination are two jobs, so a run does not find what one with the other
//! spelling has left; nor does anything else ever look for it. [`search`] does.
//!
//! A run that is at work holds the lock of its journal, which is in the directory where its first
//! source lands, and those of large unfinished files. Small ones have none: they count as held
//! while the journal of a run there, or in a directory above, is.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use icdc_disk::tree::{
    Directory, Kind, Metadata, Name, StagingKind, StagingName, Stat, Tree, TreeError, file_user, try_lock,
};
use icdc_units::ByteCount;

use crate::path_text;

/// An unfinished file, or the journal of a file or of a run.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// Its path, printable.
    pub path: String,
    /// What it holds.
    pub content: Content,
    /// Space that it takes on the disk.
    pub space: ByteCount,
    /// When it was changed last, in seconds since 1970.
    pub changed: i64,
    /// What became of it.
    pub fate: Fate,
}

/// The contents of an unfinished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data of an item.
    Data,
    /// Which blocks of a file are durable.
    FileJournal,
    /// Items that a run has published.
    RunJournal,
}

/// Fate of an unfinished file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A running icdc holds it.
    Held,
    /// Nobody holds it.
    Left,
    /// Nobody held it, and it is removed.
    Removed,
    /// It could not be told whether somebody holds it, or it could not be removed; the reason.
    Stays(String),
}

/// Something that a search comes upon.
#[derive(Clone, Debug)]
pub enum Found {
    /// An unfinished file of this user; as root, of anybody.
    Unfinished(Unfinished),
    /// One of another user, which is left alone.
    Foreign,
    /// A directory that could not be read; the reason.
    Unread(String),
}

/// Looks for unfinished files in the directory `place` and below, without following links.
/// With `remove`, those that nobody holds are removed.
///
/// # Errors
/// `place` cannot be opened.
pub fn search(place: &Path, remove: bool, tell: &mut dyn FnMut(Found)) -> Result<(), TreeError> {
    let top = Tree::open(place)?.root().clone();
    let named = path_text(place.as_os_str().as_bytes()).trim_end_matches('/').to_owned();
    let search = Search { place: named, remove };
    let held_above = std::fs::canonicalize(place).is_ok_and(|whole| whole.ancestors().skip(1).any(has_run));
    let mut waiting = vec![Waiting { directory: top, below: None, held_above }];
    while let Some(Waiting { directory, below, held_above }) = waiting.pop() {
        let opened = match below {
            None => Ok(directory),
            Some(name) => directory.open_directory(&name),
        };
        match opened.and_then(|directory| search.look(&directory, held_above, tell)) {
            Ok(found) => waiting.extend(found),
            // It was renamed or removed meanwhile.
            Err(error) if error.is_missing() => {}
            Err(error) => tell(Found::Unread(search.told(&error))),
        }
    }
    Ok(())
}

/// A directory that is looked at later: `below` in `directory`, or that one itself.
struct Waiting {
    directory: Directory,
    below: Option<Name>,
    /// A run that is at work has its journal above.
    held_above: bool,
}

/// True if a run that is at work has its journal in this directory.
fn has_run(place: &Path) -> bool {
    let Ok(tree) = Tree::open(place) else { return false };
    let Ok(listing) = tree.root().entries() else { return false };
    listing.iter().any(|entry| is_held_run(tree.root(), entry.name))
}

fn is_held_run(directory: &Directory, name: &[u8]) -> bool {
    StagingName::parse(name).is_some_and(|staging| staging.kind == StagingKind::Run)
        && Name::new(name).is_ok_and(|name| matches!(Hold::of(directory, &name), Ok(Hold::Another)))
}

/// What is looked for, and where.
struct Search {
    /// As the user has named it; paths of the tree begin after it.
    place: String,
    remove: bool,
}

impl Search {
    /// Deals with what is in one directory; gives the directories in it, the first one last.
    fn look(
        &self,
        directory: &Directory,
        held_above: bool,
        tell: &mut dyn FnMut(Found),
    ) -> Result<Vec<Waiting>, TreeError> {
        let listing = directory.entries()?;
        let held_above = held_above || listing.iter().any(|entry| is_held_run(directory, entry.name));
        let mut below = Vec::new();
        let mut groups: BTreeMap<[u8; 8], Vec<(StagingName, Name)>> = BTreeMap::new();
        for entry in listing.iter() {
            let Ok(name) = Name::new(entry.name) else { continue };
            let is_directory = match entry.hint {
                Some(kind) => kind == Kind::Directory,
                None => directory.stat(&name).is_ok_and(|stat| stat.kind == Kind::Directory),
            };
            match StagingName::parse(entry.name) {
                _ if is_directory => {
                    below.push(Waiting { directory: directory.clone(), below: Some(name), held_above })
                }
                Some(staging) => groups.entry(staging.id).or_default().push((staging, name)),
                None => {}
            }
        }
        let before = directory.own_stat()?;
        let found: Vec<_> =
            groups.into_values().flat_map(|group| self.deal_with(directory, group, held_above)).collect();
        // The directory was finished, its time included, when these were still in it.
        if self.remove && directory.own_stat().is_ok_and(|after| after.mtime != before.mtime) {
            let _ = directory.set_own_metadata(&Metadata { mtime: Some(before.mtime), ..Metadata::default() });
        }
        found.into_iter().for_each(tell);
        below.reverse();
        Ok(below)
    }

    /// Deals with an unfinished file and its journal, which has no lock of its own.
    fn deal_with(&self, directory: &Directory, group: Vec<(StagingName, Name)>, held_above: bool) -> Vec<Found> {
        let mut found = Vec::new();
        let mut own = Vec::new();
        for (staging, name) in group {
            let hold = Hold::of(directory, &name);
            let stat = match &hold {
                Ok(Hold::Own { locked: Some((_, stat)) }) => Ok(*stat),
                _ => directory.stat(&name),
            };
            match stat {
                Ok(stat) if stat.uid != file_user() && file_user() != 0 => found.push(Found::Foreign),
                Ok(stat) => own.push((staging, hold, name, stat)),
                // It got its final name, or was removed.
                Err(_) => {}
            }
        }
        let is_held = held_above || own.iter().any(|(_, hold, ..)| matches!(hold, Ok(Hold::Another)));
        for (staging, hold, name, stat) in &own {
            let fate = match hold {
                _ if is_held => Fate::Held,
                Err(error) => Fate::Stays(self.told(error)),
                Ok(_) if !self.remove => Fate::Left,
                Ok(_) => self.remove_same(directory, name, stat),
            };
            found.push(Found::Unfinished(Unfinished {
                path: self.path_of(directory, name),
                content: match staging.kind {
                    StagingKind::Part => Content::Data,
                    StagingKind::Blocks => Content::FileJournal,
                    StagingKind::Run => Content::RunJournal,
                },
                space: ByteCount::new(stat.blocks.saturating_mul(512)),
                changed: stat.ctime.seconds,
                fate,
            }));
        }
        found
    }

    /// Removes what was looked at, unless something else has its name by now.
    fn remove_same(&self, directory: &Directory, name: &Name, seen: &Stat) -> Fate {
        match directory.stat(name) {
            Ok(now) if (now.dev, now.ino) == (seen.dev, seen.ino) => match directory.remove_file(name) {
                Ok(()) => Fate::Removed,
                Err(error) => Fate::Stays(self.told(&error)),
            },
            Ok(_) => Fate::Stays(format!("{}: it was replaced meanwhile", self.path_of(directory, name))),
            Err(error) if error.is_missing() => Fate::Removed,
            Err(error) => Fate::Stays(self.told(&error)),
        }
    }

    fn path_of(&self, directory: &Directory, name: &Name) -> String {
        format!("{}{}", self.place, directory.path_of(name))
    }

    /// An error begins with a path below the place.
    fn told(&self, error: &TreeError) -> String {
        format!("{}{error}", self.place)
    }
}

/// Who holds an unfinished file.
enum Hold {
    /// Another process.
    Another,
    /// This one, as long as this lives. Links and devices cannot be locked.
    Own { locked: Option<(File, Stat)> },
}

impl Hold {
    /// Tries to lock a file; fails where it cannot be told who holds it.
    fn of(directory: &Directory, name: &Name) -> Result<Self, TreeError> {
        match directory.open_file(name) {
            Ok((file, stat)) => match try_lock(&file) {
                Ok(true) => Ok(Self::Own { locked: Some((file, stat)) }),
                Ok(false) => Ok(Self::Another),
                Err(cause) => Err(TreeError::System { path: directory.path_of(name), call: "flock", cause }),
            },
            Err(TreeError::NotAFile { .. }) => Ok(Self::Own { locked: None }),
            Err(error) => Err(error),
        }
    }
}
