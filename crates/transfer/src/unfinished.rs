//! Unfinished files of any run below a directory, and directories with a staging name: listed, and
//! removed where no run holds them.
//!
//! Two spellings of a destination are two jobs, so a run does not find what one with the other
//! spelling has left, and nothing else searches for it. [`search`] does.
//!
//! A run in progress holds the lock of its journal, which is in the directory of its first source,
//! and those of large unfinished files. Small ones have no lock: they count as held while the
//! journal of a run there, or in a directory above, is held. A copy of a single small file has no
//! journal: what may be its unfinished file is kept for a while. A directory has no lock either, and
//! its run always has a journal.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use icdc_disk::tree::{
    Directory, Holder, Kind, Metadata, Name, RunState, StagingKind, StagingName, Stat, Tree, TreeError, Visitor,
    WalkFailure, WalkItem, file_user, walk,
};
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_units::ByteCount;

use crate::path_text;
use crate::receiver::in_place_journals;
use crate::tree_remover::TreeRemover;

/// A file or directory that an unfinished copy has left: an item's data, the journal of a file or of a
/// run, or a snapshot.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// Path of the file, printable.
    pub path: String,
    /// Content of the file.
    pub content: Content,
    /// Disk space that the file takes; of a directory, what it alone takes: not files that have names
    /// elsewhere, too.
    pub space: ByteCount,
    /// Time of the last change of the file, in seconds since 1970.
    pub changed: i64,
    /// Holder of the file, or its end.
    pub fate: Fate,
}

/// Kind of contents of an unfinished file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data of an item, as far as it was received.
    Data,
    /// Journal of the durable blocks of a file.
    FileJournal,
    /// Journal of an existing file that is written at its place, and marked by it as inconsistent.
    Mark {
        /// Path of that file, printable.
        file: String,
    },
    /// Journal of a run: the items that it has published.
    RunJournal,
    /// Directory of a snapshot that is not complete, or that is being removed.
    Snapshot,
    /// Directory that was to replace another item of a mirror, or one that was replaced.
    Replacement,
}

/// State of an unfinished file in a search: held by a process, changed recently, left behind,
/// removed, or not removed for a reason.
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
    /// It is unknown whether a process holds the file, it is a mark, or it could not be removed; the reason.
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
/// reports each. With `remove`, those that no process holds are removed, except marks of files that are written at
/// their place ([`Content::Mark`]), other users' ([`Found::Foreign`]; root removes them as well) and small ones changed within 10 minutes before
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

/// Seconds for which a small unfinished file without the journal of a run counts as that of a copy
/// at work.
const RECENT: i64 = 600;

/// Parameters of a search for unfinished files below one directory.
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
        let (mut below, mut trees, mut files) = (Vec::new(), Vec::new(), Vec::new());
        let mut groups: BTreeMap<[u8; 8], Vec<(StagingName, Name)>> = BTreeMap::new();
        for entry in listing.iter() {
            let Ok(name) = Name::new(entry.name) else { continue };
            let is_directory = match entry.hint {
                Some(kind) => kind == Kind::Directory,
                None => directory.stat(&name).is_ok_and(|stat| stat.kind == Kind::Directory),
            };
            match StagingName::parse(entry.name) {
                Some(StagingName { kind: kind @ (StagingKind::Part | StagingKind::Snapshot), .. }) if is_directory => {
                    trees.push((kind, name));
                }
                _ if is_directory => below.push(PendingDirectory { parent: Rc::clone(&chain), name }),
                Some(staging) => groups.entry(staging.id).or_default().push((staging, name)),
                None => files.push(name),
            }
        }
        below.reverse();
        if !groups.is_empty() || !trees.is_empty() {
            let before = directory.own_stat()?;
            // Not earlier: a run may have been taken up again since the directories above were
            // looked at.
            let run = self.run_above(&chain);
            let is_alone =
                |group: &Vec<(StagingName, Name)>| group.iter().all(|(of, _)| of.kind == StagingKind::Blocks);
            let marks = if groups.values().any(is_alone) { marks(directory, &files) } else { BTreeMap::new() };
            let deal_with = |(id, group)| self.deal_with(directory, group, run, marks.get(&id));
            let mut found: Vec<_> = groups.into_iter().flat_map(deal_with).collect();
            found.extend(trees.into_iter().filter_map(|(kind, name)| self.deal_with_tree(directory, kind, &name, run)));
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
    fn run_above(&self, chain: &Chain) -> Option<RunState> {
        let found = std::iter::successors(Some(chain), |chain| chain.parent.as_deref());
        let within = found.filter_map(|chain| RunState::of(&chain.directory)).max();
        let above = self.above.iter().filter_map(|place| RunState::of(Tree::open(place).ok()?.root())).max();
        within.max(above)
    }

    /// Whether a small unfinished file was changed so recently that it may belong to a copy in
    /// progress.
    fn is_recent(&self, stat: &Stat) -> bool {
        self.now.saturating_sub(stat.ctime.seconds) < RECENT
    }

    /// Determines the fate of an unfinished file and of its journal, which has no lock of its own;
    /// removes them if the search removes. A journal that marks an existing file stays.
    fn deal_with(
        &self,
        directory: &Directory,
        group: Vec<(StagingName, Name)>,
        run: Option<RunState>,
        marked: Option<&Name>,
    ) -> Vec<Found> {
        let mut found = Vec::new();
        let mut own = Vec::new();
        for (staging, name) in group {
            let hold = Holder::lock(directory, &name);
            let stat = match &hold {
                Ok(Holder::Own { locked: Some((_, stat)) }) => Ok(*stat),
                _ => directory.stat(&name),
            };
            match stat {
                Ok(stat) if stat.uid != file_user() && file_user() != 0 => found.push(Found::Foreign),
                Ok(stat) => own.push((staging, hold, name, stat)),
                // It got its final name, or was removed.
                Err(_) => {}
            }
        }
        let is_held =
            run == Some(RunState::Held) || own.iter().any(|(_, hold, ..)| matches!(hold, Ok(Holder::Another)));
        // The copy of a large file locks it, and a run that was interrupted has left its journal.
        let is_small = |(staging, _, _, stat): &(StagingName, _, _, Stat)| {
            staging.kind == StagingKind::Part && stat.size <= BLOCK_SIZE as u64
        };
        let is_unprotected = run.is_none() && own.iter().all(is_small);
        for (staging, hold, name, stat) in &own {
            let marked = marked.filter(|_| staging.kind == StagingKind::Blocks);
            let marked = marked.map(|marked| self.path_of(directory, marked));
            let fate = match hold {
                _ if is_held => Fate::Held,
                Ok(_)
                    if self.remove
                        && let Some(file) = &marked =>
                {
                    Fate::Stays(format!(
                        "{}: only this tells that {file} is inconsistent: run the copy with --in-place again that was interrupted, or \
                     replace or remove {file}",
                        self.path_of(directory, name)
                    ))
                }
                Err(error) => Fate::Stays(self.message_of(error)),
                Ok(_) if is_unprotected && self.is_recent(stat) => Fate::Recent,
                Ok(_) if !self.remove => Fate::Left,
                Ok(_) => self.remove_same(directory, name, stat),
            };
            found.push(Found::Unfinished(Unfinished {
                path: self.path_of(directory, name),
                content: match staging.kind {
                    // A snapshot is a directory.
                    StagingKind::Part | StagingKind::Snapshot => Content::Data,
                    StagingKind::Blocks => marked.map_or(Content::FileJournal, |file| Content::Mark { file }),
                    StagingKind::Run => Content::RunJournal,
                },
                space: ByteCount::new(stat.blocks.saturating_mul(512)),
                changed: stat.ctime.seconds,
                fate,
            }));
        }
        found
    }

    /// Determines the fate of a directory with a staging name; removes it with everything in it if the
    /// search removes. `None` if it is gone.
    fn deal_with_tree(
        &self,
        directory: &Directory,
        kind: StagingKind,
        name: &Name,
        run: Option<RunState>,
    ) -> Option<Found> {
        let stat = directory.stat(name).ok()?;
        if stat.uid != file_user() && file_user() != 0 {
            return Some(Found::Foreign);
        }
        let item = WalkItem { name: name.clone(), stat, path: name.as_bytes().to_vec() };
        let mut measure = Measure { blocks: 0, is_held: false };
        let measured = walk(directory, item.clone(), &mut measure);
        let stays = |failure: WalkFailure| Fate::Stays(format!("{}{}", self.place, failure.reason));
        let fate = match measured {
            _ if run == Some(RunState::Held) || measure.is_held => Fate::Held,
            Err(failure) => stays(failure),
            Ok(()) if !self.remove => Fate::Left,
            Ok(()) => walk(directory, item, &mut TreeRemover).map_or_else(stays, |()| Fate::Removed),
        };
        Some(Found::Unfinished(Unfinished {
            path: self.path_of(directory, name),
            content: if kind == StagingKind::Snapshot { Content::Snapshot } else { Content::Replacement },
            space: ByteCount::new(measure.blocks.saturating_mul(512)),
            changed: stat.ctime.seconds,
            fate,
        }))
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

    /// Path of an item, which begins with that of the searched directory as the user has named it.
    fn path_of(&self, directory: &Directory, name: &Name) -> String {
        format!("{}{}", self.place, directory.path_of(name))
    }

    /// Error message that begins with a path below the place that is searched.
    fn message_of(&self, error: &TreeError) -> String {
        format!("{}{error}", self.place)
    }
}

/// Files of these names that may be marked as inconsistent while they are written at their place, by the ids of the
/// journals that would mark them.
fn marks(directory: &Directory, names: &[Name]) -> BTreeMap<[u8; 8], Name> {
    let mut marks = BTreeMap::new();
    for name in names {
        let stat = directory.stat(name).ok().filter(|stat| stat.kind == Kind::File);
        let ids = stat.into_iter().flat_map(|stat| in_place_journals(name, stat.ino));
        marks.extend(ids.map(|id| (id, name.clone())));
    }
    marks
}

/// Visitor of a walk that adds up the disk space of a directory with everything in it, and notices
/// files that a process holds.
struct Measure {
    /// Space in use, in units of 512 bytes.
    blocks: u64,
    /// Whether another process holds an unfinished file in it.
    is_held: bool,
}

impl Visitor for Measure {
    type Error = WalkFailure;

    fn visit(&mut self, above: &Directory, item: &WalkItem) -> Result<(), WalkFailure> {
        if item.is_directory() || item.stat.nlink == 1 {
            self.blocks = self.blocks.saturating_add(item.stat.blocks);
        }
        let is_staged = item.stat.kind == Kind::File && StagingName::parse(item.name.as_bytes()).is_some();
        self.is_held |= is_staged && matches!(Holder::lock(above, &item.name), Ok(Holder::Another));
        Ok(())
    }
}
