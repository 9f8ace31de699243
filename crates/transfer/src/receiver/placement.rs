//! Where each source lands.
//!
//! ```text
//! source      destination                 lands as
//! a, dir      existing directory          DST/name
//! a, dir      missing                     DST
//! a, dir      missing, trailing slash     DST/name, DST is made
//! a           existing file               DST, replaced
//! dir/        directory or missing        its contents in DST
//! several     directory or missing        DST/name each
//! dir         existing file               refused
//! ```

use std::collections::HashSet;

use icdc_disk::tree::{Directory, Kind, Located, Name, Tree, TreeError, is_staging};
use icdc_protocol::message::{Begin, Entry, EntryKind, Refusal, RefusalKind, Source, SourceKind};

use super::resume::RunLog;
use crate::error::SessionError;
use crate::path_text;

/// Where one source lands.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Under this name.
    Named(Directory, Name),
    /// Its contents in this directory.
    Contents(Directory),
    /// In a directory that a dry run does not make.
    Imagined,
}

/// Where all sources land.
#[derive(Debug)]
pub(super) struct Placement {
    pub(super) targets: Vec<Target>,
    /// What lands there, as announced.
    pub(super) sources: Vec<Source>,
    /// Directory that holds the first target: the place of the run's journal.
    pub(super) base: Option<Directory>,
    /// Name of the only target, where it is not inside of DST but DST itself.
    pub(super) first: Option<Name>,
}

impl Placement {
    /// Decides by what the sources are and what is at `destination`; makes DST where it has to be made.
    pub(super) fn find(tree: &Tree, destination: &[u8], begin: &Begin, dry_run: bool) -> Result<Self, SessionError> {
        let located = tree.resolve(destination).map_err(refuse_destination)?;
        let single = begin.sources.len() == 1;
        let contents = begin.sources.iter().any(|source| source.kind == SourceKind::Contents);
        let existing = if continues_here(&located, begin) { None } else { existing_directory(&located)? };
        if existing.is_some() || contents || !single || located.trailing_slash {
            // Before a directory is made for them.
            refuse_names(&begin.sources)?;
        }
        let inside = match existing {
            Some(directory) => Some(Some(directory)),
            None if contents || !single || located.trailing_slash => {
                if let Some(stat) = located.stat
                    && stat.kind != Kind::Symlink
                {
                    return Err(refusal(format!("{} is {}, not a directory", located.path(), stat.kind.described())));
                }
                Some(make(&located, dry_run)?)
            }
            None => None,
        };
        let Some(inside) = inside else {
            let name = located.name.clone().ok_or_else(|| refusal("the destination has no name".into()))?;
            if let (Some(source), Some(stat)) = (begin.sources.first(), located.stat)
                && source.kind == SourceKind::Directory
                && stat.kind == Kind::File
            {
                let reason = format!(
                    "{} is a file; the directory {} cannot replace it",
                    located.path(),
                    path_text(&source.name)
                );
                return Err(refusal(reason));
            }
            let target = Target::Named(located.directory.clone(), name.clone());
            return Ok(Self {
                targets: vec![target],
                sources: begin.sources.clone(),
                base: Some(located.directory),
                first: Some(name),
            });
        };
        let targets = begin.sources.iter().map(|source| place(source, inside.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { targets, sources: begin.sources.clone(), base: inside, first: None })
    }

    /// Where the item, or the directory, goes that is announced as source `number`.
    pub(super) fn place(
        &self,
        entry: &Entry,
        number: u32,
        dry_run: bool,
    ) -> Result<Result<Placed, Unplaced>, SessionError> {
        let target = self.targets.get(number as usize).ok_or_else(|| misplaced(entry, "names no source"))?;
        let announced = || self.sources[number as usize].name.clone();
        let (directory, name) = match target {
            Target::Named(directory, name) => (directory, Some(name.clone())),
            Target::Contents(directory) if matches!(entry.kind, EntryKind::Directory) => (directory, None),
            Target::Contents(_) => return Err(misplaced(entry, "is not the directory that was announced")),
            Target::Imagined => {
                return Ok(Ok(Placed { directory: None, place: (0, 0), name: None, path: announced(), depth: 0 }));
            }
        };
        let path = match &name {
            // A dry run names what there is to send, not where it would arrive.
            _ if dry_run => announced(),
            Some(name) => name.as_bytes().to_vec(),
            None => Vec::new(),
        };
        Ok(match place_of(directory) {
            Ok(place) => Ok(Placed { directory: Some(directory.clone()), place, name, path, depth: 0 }),
            Err(error) => Err(Unplaced { path, reason: error.to_string() }),
        })
    }

    /// The directory that source `number` goes into.
    pub(super) fn directory(&self, number: u32) -> Option<&Directory> {
        match self.targets.get(number as usize)? {
            Target::Named(directory, _) | Target::Contents(directory) => Some(directory),
            Target::Imagined => None,
        }
    }
}

/// Where an entry goes.
pub(super) struct Placed {
    /// `None` where a dry run makes none.
    pub(super) directory: Option<Directory>,
    /// Device and inode of the directory.
    pub(super) place: (u64, u64),
    /// `None` for the contents of the directory itself.
    pub(super) name: Option<Name>,
    pub(super) path: Vec<u8>,
    pub(super) depth: usize,
}

/// Why an entry, and it alone, goes nowhere.
pub(super) struct Unplaced {
    pub(super) path: Vec<u8>,
    pub(super) reason: String,
}

/// Device and inode of a directory.
pub(super) fn place_of(directory: &Directory) -> Result<(u64, u64), TreeError> {
    directory.own_stat().map(|stat| (stat.dev, stat.ino))
}

/// An entry that no sender would announce.
pub(super) fn misplaced(entry: &Entry, what: &str) -> SessionError {
    SessionError::Protocol(format!("entry {}: {what}", entry.id))
}

/// Whether DST exists only because an interrupted run of the same job has made it: then it is still the
/// copy, and not the directory to copy into.
fn continues_here(located: &Located, begin: &Begin) -> bool {
    let [source] = begin.sources.as_slice() else { return false };
    source.kind == SourceKind::Directory
        && !located.trailing_slash
        && located.name.is_some()
        && RunLog::is_there(&located.directory, &begin.job, located.name.as_ref())
}

fn place(source: &Source, inside: Option<&Directory>) -> Result<Target, SessionError> {
    let Some(inside) = inside else { return Ok(Target::Imagined) };
    if source.kind == SourceKind::Contents {
        return Ok(Target::Contents(inside.clone()));
    }
    Ok(Target::Named(inside.clone(), name_of(source)?))
}

fn existing_directory(located: &Located) -> Result<Option<Directory>, SessionError> {
    match located.stat.map(|stat| stat.kind) {
        Some(Kind::Directory) => located.open_directory().map(Some).map_err(refuse),
        // A link to a directory stands for the directory; any other link is an item to replace.
        Some(Kind::Symlink) => Ok(located.open_directory().ok()),
        _ => Ok(None),
    }
}

fn make(located: &Located, dry_run: bool) -> Result<Option<Directory>, SessionError> {
    let Some(name) = &located.name else { return located.open_directory().map(Some).map_err(refuse) };
    if dry_run {
        return Ok(None);
    }
    located.directory.make_directory(name, 0o777).map(Some).map_err(refuse)
}

fn name_of(source: &Source) -> Result<Name, SessionError> {
    let name = Name::new(&source.name).map_err(|error| refusal(error.to_string()))?;
    if is_staging(name.as_bytes()) {
        let shown = path_text(&source.name);
        return Err(refusal(format!("{shown}: its name is one that icdc keeps for unfinished files")));
    }
    Ok(name)
}

/// Names under which sources cannot go into one directory.
fn refuse_names(sources: &[Source]) -> Result<(), SessionError> {
    let mut seen = HashSet::new();
    for source in sources.iter().filter(|source| source.kind != SourceKind::Contents) {
        name_of(source)?;
        if !seen.insert(&source.name) {
            let reason =
                format!("two sources are named {}; copy them into different directories", path_text(&source.name));
            return Err(refusal(reason));
        }
    }
    Ok(())
}

/// A sender that was asked for certain paths does not choose the names at the destination.
pub(super) fn refuse_unasked(sources: &[Source], asked: &[Vec<u8>]) -> Result<(), SessionError> {
    let mut asked = asked.iter();
    match sources.iter().find(|source| !asked.any(|path| is_answer(source, path))) {
        None => Ok(()),
        Some(other) => {
            Err(SessionError::Protocol(format!("it offers {}, which was not asked for", path_text(&other.name))))
        }
    }
}

fn is_answer(source: &Source, path: &[u8]) -> bool {
    let trimmed = &path[..path.iter().rposition(|byte| *byte != b'/').map_or(0, |end| end + 1)];
    let last = trimmed.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    match source.kind {
        // Only the far end knows the name of its user's home.
        _ if trimmed == b"~" => true,
        SourceKind::Contents => trimmed.len() < path.len() || matches!(last, b"" | b"." | b".."),
        SourceKind::Item | SourceKind::Directory => source.name == last,
    }
}

fn refuse_destination(error: TreeError) -> SessionError {
    if error.is_missing() {
        return refusal(format!("{error}; make the directories above the destination first (mkdir -p)"));
    }
    refuse(error)
}

fn refuse(error: TreeError) -> SessionError {
    refusal(error.to_string())
}

fn refusal(reason: String) -> SessionError {
    SessionError::Refused(Refusal { kind: RefusalKind::Path, reason })
}
