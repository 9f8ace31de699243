//! Unfinished files of any run below a directory: listed, and removed where no run holds them.
//!
//! Two spellings of a destination are two jobs, so a run does not find what one with the other
//! spelling has left, and nothing else searches for it. [`search`] does.
//!
//! A run in progress holds the lock of its journal, which is in the directory of its first source,
//! and those of large unfinished files. Small ones have no lock: they count as held while the
//! journal of a run there, or in a directory above, is held. A copy of a single small file has no
//! journal: what may be its unfinished file is kept for a while.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use icdc_disk::tree::{
    Directory, Kind, Metadata, Name, StagingKind, StagingName, Stat, Tree, TreeError, file_user, try_lock,
};
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_units::ByteCount;

use crate::path_text;

/// A file that an unfinished copy has left: an item's data, or the journal of a file or of a run.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// Path of the file, printable.
    pub path: String,
    /// What the file contains.
    pub content: Content,
    /// Disk space that the file takes.
    pub space: ByteCount,
    /// Time of the last change of the file, in seconds since 1970.
    pub changed: i64,
    /// What holds the file, or what became of it.
    pub fate: Fate,
}

/// Kind of contents of an unfinished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data of an item, as far as it was received.
    Data,
    /// Journal of the durable blocks of a file.
    FileJournal,
    /// Journal of a run: the items that it has published.
    RunJournal,
}

/// What holds an unfinished file, or what became of it in a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A running icdc process holds the file.
    Held,
    /// The file was changed recently, and may belong to a copy in progress: the copy of a single
    /// small file holds no lock.
    Recent,
    /// No process holds the file.
    Left,
    /// No process held the file, and it was removed.
    Removed,
    /// It is unknown whether a process holds the file, or it could not be removed; the reason.
    Stays(String),
}

/// Result reported by a search for unfinished files.
#[derive(Clone, Debug)]
pub enum Found {
    /// An unfinished file of this user; for root, of any user.
    Unfinished(Unfinished),
    /// An unfinished file of another user, which is left alone.
    Foreign,
    /// A directory that could not be read; the reason.
    Unread(String),
}

/// Searches for unfinished files in the directory `place` and below, without following links, and
/// reports each. With `remove`, those that no process holds are removed, except other users'
/// ([`Found::Foreign`]; root removes them as well) and small ones changed within 10 minutes before
/// `now` where no run has left a journal ([`Fate::Recent`]). `now` is in seconds since 1970.
///
/// # Errors
/// `place` cannot be opened. Directories below that cannot be read are reported
/// ([`Found::Unread`]).
pub fn search(place: &Path, remove: bool, now: i64, report: &mut dyn FnMut(Found)) -> Result<(), TreeError> {
    let top = Tree::open(place)?.root().clone();
    let named = path_text(place.as_os_str().as_bytes()).trim_end_matches('/').to_owned();
    let above = std::fs::canonicalize(place).unwrap_or_default();
    let above = above.ancestors().skip(1).map(Path::to_owned).collect();
    let search = Search { place: named, remove, now, above };
    let mut examine = |opened: Result<Directory, TreeError>, parent| {
        match opened.and_then(|directory| search.examine(Chain { directory, parent }, report)) {
            Ok(below) => return below,
            // It was renamed or removed.
            Err(error) if error.is_missing() => {}
            Err(error) => report(Found::Unread(search.message_of(&error))),
        }
        Vec::new()
    };
    let mut waiting = examine(Ok(top), None);
    while let Some(PendingDirectory { parent, name }) = waiting.pop() {
        waiting.extend(examine(parent.directory.open_directory(&name), Some(parent)));
    }
    Ok(())
}

/// A directory that the search has yet to examine.
struct PendingDirectory {
    parent: Rc<Chain>,
    name: Name,
}

/// An open directory of the search, linked to its ancestors up to the one where the search began.
struct Chain {
    directory: Directory,
    parent: Option<Rc<Chain>>,
}

/// State of a run whose journal was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Run {
    /// The run was interrupted.
    Ended,
    /// The run is in progress.
    Held,
}

/// State of the run that has its journal in this directory; of several, one in progress. `None` if
/// there is no journal.
fn run_in(directory: &Directory) -> Option<Run> {
    directory.entries().ok()?.iter().filter_map(|entry| run_of(directory, entry.name)).max()
}

/// State of the run whose journal has this name; `None` if the file is no such journal. Any user
/// may make a file of that name where others may make files: it counts as an ended run only if it
/// is this user's, or for root, whose searches are for all users.
fn run_of(directory: &Directory, name: &[u8]) -> Option<Run> {
    StagingName::parse(name).filter(|staging| staging.kind == StagingKind::Run)?;
    match Hold::of(directory, &Name::new(name).ok()?).ok()? {
        Hold::Another => Some(Run::Held),
        Hold::Own { locked: Some((_, stat)) } => (stat.uid == file_user() || file_user() == 0).then_some(Run::Ended),
        Hold::Own { locked: None } => None,
    }
}

/// Seconds for which a small unfinished file without the journal of a run counts as that of a copy
/// at work.
const RECENT: i64 = 600;

/// Parameters of a search for unfinished files.
struct Search {
    /// Path as the user has named it; paths of the tree are appended to it.
    place: String,
    remove: bool,
    now: i64,
    /// Directories above the place that is searched.
    above: Vec<PathBuf>,
}

impl Search {
    /// Handles the contents of one directory; returns its subdirectories, the first one last.
    fn examine(&self, chain: Chain, report: &mut dyn FnMut(Found)) -> Result<Vec<PendingDirectory>, TreeError> {
        let chain = Rc::new(chain);
        let directory = &chain.directory;
        let listing = directory.entries()?;
        let mut below = Vec::new();
        let mut groups: BTreeMap<[u8; 8], Vec<(StagingName, Name)>> = BTreeMap::new();
        for entry in listing.iter() {
            let Ok(name) = Name::new(entry.name) else { continue };
            let is_directory = match entry.hint {
                Some(kind) => kind == Kind::Directory,
                None => directory.stat(&name).is_ok_and(|stat| stat.kind == Kind::Directory),
            };
            match StagingName::parse(entry.name) {
                _ if is_directory => below.push(PendingDirectory { parent: Rc::clone(&chain), name }),
                Some(staging) => groups.entry(staging.id).or_default().push((staging, name)),
                None => {}
            }
        }
        below.reverse();
        if !groups.is_empty() {
            let before = directory.own_stat()?;
            // Not earlier: a run may have been taken up again since the directories above were
            // looked at.
            let run = self.run_above(&chain);
            let found: Vec<_> = groups.into_values().flat_map(|group| self.deal_with(directory, group, run)).collect();
            // The directory was finished, its time included, when these were still in it.
            if self.remove && directory.own_stat().is_ok_and(|after| after.mtime != before.mtime) {
                let _ = directory.set_own_metadata(&Metadata { mtime: Some(before.mtime), ..Metadata::default() });
            }
            found.into_iter().for_each(report);
        }
        Ok(below)
    }

    /// State of the run that has its journal in this directory or in one above; of several, one in
    /// progress.
    fn run_above(&self, chain: &Chain) -> Option<Run> {
        let found = std::iter::successors(Some(chain), |chain| chain.parent.as_deref());
        let within = found.filter_map(|chain| run_in(&chain.directory)).max();
        let above = self.above.iter().filter_map(|place| run_in(Tree::open(place).ok()?.root())).max();
        within.max(above)
    }

    /// Whether a small unfinished file was changed so recently that it may belong to a copy in
    /// progress.
    fn is_recent(&self, stat: &Stat) -> bool {
        self.now.saturating_sub(stat.ctime.seconds) < RECENT
    }

    /// Determines the fate of an unfinished file and of its journal, which has no lock of its own;
    /// removes them if the search removes.
    fn deal_with(&self, directory: &Directory, group: Vec<(StagingName, Name)>, run: Option<Run>) -> Vec<Found> {
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
        let is_held = run == Some(Run::Held) || own.iter().any(|(_, hold, ..)| matches!(hold, Ok(Hold::Another)));
        // The copy of a large file locks it, and a run that was interrupted has left its journal.
        let is_small = |(staging, _, _, stat): &(StagingName, _, _, Stat)| {
            staging.kind == StagingKind::Part && stat.size <= BLOCK_SIZE as u64
        };
        let is_unprotected = run.is_none() && own.iter().all(is_small);
        for (staging, hold, name, stat) in &own {
            let fate = match hold {
                _ if is_held => Fate::Held,
                Err(error) => Fate::Stays(self.message_of(error)),
                Ok(_) if is_unprotected && self.is_recent(stat) => Fate::Recent,
                Ok(_) if !self.remove => Fate::Left,
                Ok(_) => self.remove_same(directory, name, stat),
            };
            found.push(Found::Unfinished(Unfinished {
                path: self.path_of(directory, name),
                content: match staging.kind {
                    StagingKind::Part | StagingKind::Snapshot => Content::Data,
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

    /// Removes the examined file, unless its name refers to another one now.
    fn remove_same(&self, directory: &Directory, name: &Name, seen: &Stat) -> Fate {
        match directory.stat(name) {
            Ok(now) if (now.dev, now.ino) == (seen.dev, seen.ino) => match directory.remove_file(name) {
                Ok(()) => Fate::Removed,
                Err(error) => Fate::Stays(self.message_of(&error)),
            },
            Ok(_) => Fate::Stays(format!("{}: it was replaced meanwhile", self.path_of(directory, name))),
            Err(error) if error.is_missing() => Fate::Removed,
            Err(error) => Fate::Stays(self.message_of(&error)),
        }
    }

    fn path_of(&self, directory: &Directory, name: &Name) -> String {
        format!("{}{}", self.place, directory.path_of(name))
    }

    /// Error message that begins with a path below the place that is searched.
    fn message_of(&self, error: &TreeError) -> String {
        format!("{}{error}", self.place)
    }
}

/// Which process holds an unfinished file.
enum Hold {
    /// Another process holds the file.
    Another,
    /// This process holds the file, as long as this value lives. Links and devices cannot be
    /// locked.
    Own { locked: Option<(File, Stat)> },
}

impl Hold {
    /// Tries to lock a file and returns its holder; fails where the holder cannot be determined.
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
