//! Placement of the sources at the destination.
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

use icdc_disk::tree::{Directory, Kind, Located, Metadata, Name, Tree, TreeError, resembles_staging};
use icdc_protocol::message::{Begin, Refusal, RefusalKind, Source, SourceKind, SourcePosition};
use icdc_session::SessionError;
use icdc_session::receiver::book::item::DirectoryPlace;
use icdc_session::receiver::book::resume::verdict::{cannot_replace, name_exists};

use super::run_log::RunLog;
use super::staging::Whose;
use crate::path_text;

/// Place of one source at the destination: under a name in a directory, or its contents in a
/// directory.
#[derive(Clone, Debug)]
pub(super) enum Landing {
    /// The source gets this name in this directory.
    Named(Directory, Name),
    /// The contents of the source go into this directory.
    Contents(Directory),
    /// The source goes into a directory that a dry run does not make.
    Imagined,
}

/// Placement of all sources at the destination.
#[derive(Debug)]
pub(super) struct Placement {
    sources: Vec<Source>,
    destination: Destination,
}

/// Treatment of missing directories on the way to the destination; the destination itself
/// is not one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parents {
    /// The directories must exist.
    Needed,
    /// The directories may be missing; nothing is made (dry run).
    Imagined,
    /// Missing directories are made first.
    Made,
}

/// Form of the destination: a directory, existing or new, that the sources go into, or the name
/// that the only source takes.
#[derive(Debug)]
enum Destination {
    /// The sources are placed in this directory.
    Inside(Directory),
    /// The sources are placed in a directory that does not exist yet.
    InsideNew(Located),
    /// The only source takes this name in this directory.
    Named(Directory, Name),
}

/// Options for the choice of a destination, besides what exists there.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) parents: Parents,
    /// Place that an earlier session of the run has given the source.
    pub(super) place: Option<SourcePosition>,
    /// Whether a single directory keeps its name in a destination that does not exist yet.
    pub(super) keeps_name: bool,
    /// Whether the destination is a directory in any case.
    pub(super) is_directory: bool,
}

impl Destination {
    /// Form of a destination whose name the only source takes, in place of what may have that name.
    ///
    /// # Errors
    /// The item cannot be replaced; for a `drop_box` the reason does not reveal what exists.
    fn of_named(located: Located, begin: &Begin, is_drop_box: bool) -> Result<Self, SessionError> {
        let name = located.name.clone().ok_or_else(|| refusal("the destination has no name".into()))?;
        if let (false, Some(Kind::Other(what))) = (is_drop_box, located.stat.map(|stat| stat.kind)) {
            return Err(refusal(cannot_replace(&located.path(), what).into_reason()));
        }
        if let (Some(source), Some(stat)) = (begin.sources.first(), located.stat)
            && source.kind == SourceKind::Directory
            && (stat.kind == Kind::File || is_drop_box && stat.kind != Kind::Directory)
        {
            let (path, source) = (located.path(), path_text(&source.name));
            let reason = format!("{path} is a file; the directory {source} cannot replace it");
            return Err(refusal(if is_drop_box { name_exists(&path).into_reason() } else { reason }));
        }
        Ok(Self::Named(located.directory, name))
    }
}

impl Placement {
    /// Decides by the kinds of the sources and what exists at `destination`; by its `place` if an
    /// earlier session of the run has decided already. Makes nothing but missing `parents`. For the
    /// `drop_box` of a key, only new items are made, and the client does not learn what exists.
    pub(super) fn find(
        tree: &Tree,
        destination: &[u8],
        begin: &Begin,
        Wanted { parents, place, keeps_name, is_directory }: Wanted,
        drop_box: Option<[u8; 32]>,
    ) -> Result<Self, SessionError> {
        if destination.split(|byte| *byte == b'/').any(resembles_staging) {
            return Err(refuse_staging(destination));
        }
        let unresolved = |error| if drop_box.is_some() { refuse_hidden(destination, error) } else { refuse(error) };
        let single = begin.sources.len() == 1;
        let located = match tree.resolve(destination) {
            Err(error) if error.is_missing() && parents != Parents::Needed => {
                let ends_in_directory = [&b"/"[..], b"/.", b"/.."].iter().any(|end| destination.ends_with(end));
                let is_named = single && !ends_in_directory && !is_directory;
                if !(is_named && begin.sources.iter().all(|source| source.kind == SourceKind::Stream)) {
                    refuse_names(&begin.sources)?;
                }
                match make_parents(tree, destination, parents).map_err(unresolved)? {
                    None => tree.resolve(destination).map_err(unresolved)?,
                    Some(missing) => return Ok(Self::new(begin, Destination::InsideNew(missing))),
                }
            }
            Err(error) if error.is_missing() && drop_box.is_none() => return Err(refuse_missing(&error)),
            resolved => resolved.map_err(unresolved)?,
        };
        let contents = begin.sources.iter().any(|source| source.kind == SourceKind::Contents);
        let is_itself = !keeps_name
            && !is_directory
            && may_be_the_copy(&located, begin)
            && match place {
                Some(place) => place == SourcePosition::Named,
                None => RunLog::is_there(&located.directory, &begin.job, located.name.as_ref(), Whose(drop_box)),
            };
        let existing = if is_itself { None } else { existing_directory(&located, drop_box.is_some())? };
        let keeps_name = keeps_name && begin.sources.iter().any(|source| source.kind == SourceKind::Directory);
        let is_inside = contents || !single || located.trailing_slash || keeps_name || is_directory;
        if existing.is_some() || is_inside {
            refuse_names(&begin.sources)?;
        }
        let destination = match existing {
            Some(directory) => Destination::Inside(directory),
            None if is_inside => {
                if let Some(stat) = located.stat
                    && stat.kind != Kind::Symlink
                {
                    let what = format!("{} is {}, not a directory", located.path(), stat.kind.described());
                    return Err(refusal(if drop_box.is_some() {
                        name_exists(&located.path()).into_reason()
                    } else {
                        what
                    }));
                }
                Destination::InsideNew(located)
            }
            None => Destination::of_named(located, begin, drop_box.is_some())?,
        };
        Ok(Self::new(begin, destination))
    }

    /// Placement of the only source, a file, in what has this name in a directory: a device.
    ///
    /// # Errors
    /// There are several sources, or the only one is a directory or a stream.
    pub(super) fn in_device(begin: &Begin, directory: Directory, name: Name) -> Result<Self, SessionError> {
        match begin.sources.as_slice() {
            [source] if source.kind == SourceKind::Item => {
                Ok(Self::new(begin, Destination::Named(directory, name)))
            }
            _ => Err(refusal(
                "--write-device writes one file into a device, and this is a directory, a stream or several: name one file".into(),
            )),
        }
    }

    fn new(begin: &Begin, destination: Destination) -> Self {
        Self { sources: begin.sources.clone(), destination }
    }

    /// Directory that holds the first target, the place of the run's journal; `None` if it does
    /// not exist yet.
    pub(super) fn base(&self) -> Option<&Directory> {
        match &self.destination {
            Destination::Inside(directory) | Destination::Named(directory, _) => Some(directory),
            Destination::InsideNew(_) => None,
        }
    }

    /// Existing directory that holds the targets, or in which the destination directory is made.
    pub(super) fn existing(&self) -> &Directory {
        match &self.destination {
            Destination::Inside(directory) | Destination::Named(directory, _) => directory,
            Destination::InsideNew(located) => &located.directory,
        }
    }

    /// The destination directory, if it exists: in which the sources are placed, or that the only
    /// source becomes.
    pub(super) fn destination(&self) -> Option<Directory> {
        match &self.destination {
            Destination::Inside(directory) => Some(directory.clone()),
            Destination::Named(directory, name) => directory.open_directory(name).ok(),
            Destination::InsideNew(_) => None,
        }
    }

    /// Path of the directory that the sources are placed in, printable.
    pub(super) fn path(&self) -> String {
        match &self.destination {
            Destination::Inside(directory) | Destination::Named(directory, _) => directory.path(),
            Destination::InsideNew(located) => located.path(),
        }
    }

    /// Whether the only source, a directory, becomes the destination itself, under the
    /// destination's name.
    pub(super) fn is_source_named(&self) -> bool {
        self.only_name().is_some() && self.sources.iter().any(|source| source.kind == SourceKind::Directory)
    }

    /// Whether the destination does not exist, and it, or the first of the directories above it that are
    /// to be made, gets this name in this directory.
    ///
    /// # Errors
    /// Errors of `fstat`.
    pub(super) fn is_missing_at(&self, directory: &Directory, name: &Name) -> Result<bool, TreeError> {
        let (above, own) = match &self.destination {
            Destination::Inside(_) => return Ok(false),
            Destination::InsideNew(located) => (&located.directory, located.name.as_ref()),
            Destination::Named(above, own) => (above, Some(own)),
        };
        Ok(own == Some(name) && place_of(above)? == place_of(directory)?)
    }

    /// Refuses a destination that does not exist, in a run that makes nothing new.
    pub(super) fn refuse_new(&self) -> Result<(), SessionError> {
        let missing = match &self.destination {
            Destination::InsideNew(located) => located.path(),
            Destination::Named(directory, name)
                if self.placing_of_directory().is_some()
                    && directory.stat(name).is_err_and(|error| error.is_missing()) =>
            {
                directory.path_of(name)
            }
            Destination::Inside(_) | Destination::Named(..) => return Ok(()),
        };
        Err(refusal(format!(
            "{missing} does not exist, and with --existing nothing new is made; name a directory that exists"
        )))
    }

    /// Directory and name that a source will have where an item exists or may exist; `None` if it
    /// goes into a directory as contents, or into a new one.
    pub(super) fn target_of(&self, source: &Source) -> Option<(&Directory, Name)> {
        match &self.destination {
            Destination::Named(directory, name) => Some((directory, name.clone())),
            Destination::Inside(directory) if source.kind != SourceKind::Contents => {
                Some((directory, name_of(source).ok()?))
            }
            Destination::Inside(_) | Destination::InsideNew(_) => None,
        }
    }

    /// Whether the only source, a directory, becomes the destination or goes into it, as later
    /// sessions of the run are to repeat; `None` for other sources, and for a destination that is
    /// yet to be made.
    pub(super) fn placing_of_directory(&self) -> Option<SourcePosition> {
        let [Source { kind: SourceKind::Directory, .. }] = self.sources.as_slice() else { return None };
        match &self.destination {
            Destination::Named(..) => Some(SourcePosition::Named),
            Destination::Inside(_) => Some(SourcePosition::Inside),
            Destination::InsideNew(_) => None,
        }
    }

    /// Name of the only target, where it is not inside of the destination but the destination
    /// itself.
    pub(super) fn only_name(&self) -> Option<&Name> {
        match &self.destination {
            Destination::Named(_, name) => Some(name),
            Destination::Inside(_) | Destination::InsideNew(_) => None,
        }
    }

    /// Makes the destination directory if it is missing; true if it was made here. With `only_new`
    /// errors do not reveal what exists instead.
    pub(super) fn make(&mut self, only_new: bool) -> Result<bool, SessionError> {
        let mut is_new = false;
        if let Destination::InsideNew(located) = &self.destination {
            let made = match &located.name {
                Some(name) => located.directory.make_or_open_directory(name, 0o777),
                None => located.open_directory().map(|directory| (directory, false)),
            };
            let (directory, made_here) = made.map_err(|error| match error {
                error if only_new && reveals_contents(&error) => refusal(name_exists(&located.path()).into_reason()),
                error => refuse(error),
            })?;
            is_new = made_here;
            // Large files are flushed one by one, and an empty directory not at all.
            if let Err(error) = located.directory.sync() {
                tracing::warn!(%error, "the destination may not survive a power cut");
            }
            self.destination = Destination::Inside(directory);
        }
        Ok(is_new)
    }

    /// Checks that this user can make files in the destination; an error otherwise. One that is
    /// part of the copy is made accessible to its owner if `may_let_in`, until it gets the mode of
    /// its source, as those below it do.
    pub(super) fn check_rights(&self, may_let_in: bool) -> Result<(), SessionError> {
        let Some(base) = self.base() else { return Ok(()) };
        let is_copied = self.has_contents();
        match base.permits_changes() {
            Err(TreeError::Denied { .. }) if may_let_in && is_copied && let_owner_in(base).is_ok() => {
                base.permits_changes()
            }
            checked => checked,
        }
        .map_err(refuse)
    }

    /// Places of all sources, in their order.
    pub(super) fn landings(&self) -> Result<Vec<Landing>, SessionError> {
        let inside = match &self.destination {
            Destination::Named(directory, name) => return Ok(vec![Landing::Named(directory.clone(), name.clone())]),
            Destination::Inside(directory) => Some(directory),
            Destination::InsideNew(_) => None,
        };
        self.landings_in(inside)
    }

    /// Places of all sources in the directory `inside`; `None` stands for one that a dry run does
    /// not make.
    pub(super) fn landings_in(&self, inside: Option<&Directory>) -> Result<Vec<Landing>, SessionError> {
        self.sources.iter().map(|source| land(source, inside)).collect()
    }

    /// Whether several sources may bring items of one name.
    pub(super) fn merges(&self) -> bool {
        self.sources.len() > 1 && self.has_contents()
    }

    /// Whether the contents of a source go into the destination itself.
    pub(super) fn has_contents(&self) -> bool {
        self.sources.iter().any(|source| source.kind == SourceKind::Contents)
    }
}

/// Gives the owner of a directory the permissions for filling it.
pub(super) fn let_owner_in(directory: &Directory) -> Result<(), TreeError> {
    let mode = directory.own_stat()?.mode;
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    directory.set_own_metadata(&Metadata { mode: Some(mode | 0o700), ..Metadata::default() })
}

/// Device and inode number of a directory.
pub(super) fn place_of(directory: &Directory) -> Result<DirectoryPlace, TreeError> {
    directory.own_stat().map(|stat| DirectoryPlace { device: stat.dev, inode: stat.ino })
}

/// Whether the destination may be the copy itself although it exists: if an interrupted run of the
/// same job has made it, or an earlier session of this one. Otherwise it is the directory to copy
/// into.
fn may_be_the_copy(located: &Located, begin: &Begin) -> bool {
    let [source] = begin.sources.as_slice() else { return false };
    source.kind == SourceKind::Directory && !located.trailing_slash && located.name.is_some()
}

/// Place of one source in the directory `inside`; `None` stands for one that a dry run does not
/// make.
fn land(source: &Source, inside: Option<&Directory>) -> Result<Landing, SessionError> {
    let Some(inside) = inside else { return Ok(Landing::Imagined) };
    if source.kind == SourceKind::Contents {
        return Ok(Landing::Contents(inside.clone()));
    }
    Ok(Landing::Named(inside.clone(), name_of(source)?))
}

/// Opens the destination if it is a directory or a link to one; `None` if it is missing or anything
/// else. A link to a device or pipe is refused, unless `only_new`, where errors must not reveal
/// what exists.
fn existing_directory(located: &Located, only_new: bool) -> Result<Option<Directory>, SessionError> {
    match located.stat.map(|stat| stat.kind) {
        Some(Kind::Directory) => located.open_directory().map(Some).map_err(refuse),
        // A link to a directory is treated as the directory, any other link as an item to replace.
        // A link to a device or a pipe means that, which is not written to.
        Some(Kind::Symlink) => match located.open_directory() {
            Ok(directory) => Ok(Some(directory)),
            Err(TreeError::NotAFile { path, found, .. }) if !only_new => Err(refusal(format!(
                "{path} is a symbolic link to {found}, which is neither written to nor replaced; choose another name"
            ))),
            Err(_) => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Name that a source gets in the destination directory; an error for a stream, which has none, and
/// for a name that icdc keeps for unfinished files.
fn name_of(source: &Source) -> Result<Name, SessionError> {
    if source.kind == SourceKind::Stream {
        let reason =
            "the destination is a directory, and standard input has no name; write the name of the file behind it";
        return Err(refusal(reason.into()));
    }
    let name = Name::new(&source.name).map_err(|error| refusal(error.to_string()))?;
    if resembles_staging(name.as_bytes()) {
        return Err(refuse_staging(&source.name));
    }
    Ok(name)
}

/// Error for a path with a name that icdc keeps for unfinished files.
fn refuse_staging(path: &[u8]) -> SessionError {
    refusal(format!("{}: its name is one that icdc keeps for unfinished files", path_text(path)))
}

/// Returns an error if the names of the sources cannot be placed in one directory.
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

/// Makes the missing directories above the destination, or returns the first that is missing if
/// they are only imagined.
fn make_parents(tree: &Tree, destination: &[u8], parents: Parents) -> Result<Option<Located>, TreeError> {
    let end = destination.iter().rposition(|byte| *byte != b'/').map_or(0, |end| end + 1);
    let slashes = (1..end).filter(|at| destination[*at] == b'/' && destination[at - 1] != b'/');
    for slash in slashes {
        let located = tree.resolve(&destination[..slash])?;
        let (Some(name), None) = (&located.name, located.stat) else { continue };
        if parents == Parents::Imagined {
            return Ok(Some(located));
        }
        located.directory.make_or_open_directory(name, 0o777)?;
        // Large files are flushed one by one, and the directories above them not at all.
        if let Err(error) = located.directory.sync() {
            tracing::warn!(%error, "the destination may not survive a power cut");
        }
    }
    Ok(None)
}

/// Error for a destination above which a directory is missing, with the advice to use `--mkpath`.
fn refuse_missing(error: &TreeError) -> SessionError {
    refusal(format!("{error}; --mkpath makes the directories above the destination"))
}

/// Error that refuses a destination without revealing what exists above it.
fn refuse_hidden(destination: &[u8], error: TreeError) -> SessionError {
    if !reveals_contents(&error) {
        return refuse(error);
    }
    refusal(format!(
        "{}: no directory that this key may use leads there; choose another place, or make it by --mkpath",
        path_text(destination)
    ))
}

/// Whether the error reveals what has a name: that it is missing, a file, or a link and its
/// target.
fn reveals_contents(error: &TreeError) -> bool {
    matches!(
        error,
        TreeError::Missing { .. }
            | TreeError::Escapes { .. }
            | TreeError::Exists { .. }
            | TreeError::NotADirectory { .. }
            | TreeError::NotAFile { .. }
            | TreeError::IsADirectory { .. }
            | TreeError::Link { .. }
    )
}

/// Session error that refuses the destination because of a file system error.
pub(super) fn refuse(error: TreeError) -> SessionError {
    refusal(error.to_string())
}

/// Session error that refuses the destination, for this reason.
pub(super) fn refusal(reason: String) -> SessionError {
    SessionError::Refused(Refusal { kind: RefusalKind::Path, reason })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    fn begin(kinds: &[SourceKind]) -> Begin {
        let names = [b"a".to_vec(), b"b".to_vec()];
        let sources = kinds.iter().zip(names).map(|(kind, name)| Source { name, kind: *kind, identity: None });
        Begin { job: [0; 32], sources: sources.collect() }
    }

    #[test]
    fn the_destination_is_made_when_the_run_begins_and_not_before() {
        let cases: [(&[u8], &[SourceKind], usize); 4] = [
            (b"new", &[SourceKind::Item], 0),
            (b"new/", &[SourceKind::Item], 1),
            (b"new", &[SourceKind::Contents], 1),
            (b"new", &[SourceKind::Item, SourceKind::Directory], 1),
        ];
        for (destination, kinds, made) in cases {
            let temporary = tempfile::tempdir().unwrap();
            let tree = Tree::open(temporary.path()).unwrap();
            let number = || std::fs::read_dir(temporary.path()).unwrap().count();
            let wanted = Wanted { parents: Parents::Needed, place: None, keeps_name: false, is_directory: false };
            let mut placement = Placement::find(&tree, destination, &begin(kinds), wanted, None).unwrap();
            assert_eq!(number(), 0);
            assert_eq!(placement.base().is_none(), made == 1, "where nothing is there is no journal either");
            placement.make(false).unwrap();
            assert_eq!(number(), made);
            assert_eq!(placement.landings().unwrap().len(), kinds.len());
            assert!(placement.base().is_some());
        }
    }
}
