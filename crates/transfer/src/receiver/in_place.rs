//! Existing files that are written at their place (`--in-place`).
//!
//! ```text
//! name ── opened, no link followed ──► regular, of one name, of this user ── locked ──► still the one of the name
//!   ──► marked by the journal beside it ──► what differs ──► durable ──► cut to its length, attributes ──► journal removed
//! ```
//!
//! From the mark until its journal is removed, such a file may have parts of its old and of its new contents,
//! whatever its size and times are. The name of the journal is derived from the name of the file and its inode, so that
//! it says nothing of another file that has the name later.

use std::fs::File;
use std::io;
use std::ops::Range;

use icdc_disk::DiskFile;
use icdc_disk::tree::{Directory, Metadata, Name, StagingKind, Stat, file_user, set_time, try_lock};
use icdc_protocol::block_journal::Header;
use icdc_protocol::block_map::{BlockMap, block_offset};
use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_units::ByteCount;

use super::differing::clear;
use super::failure::{self, Failure};
use super::leftovers::{CLAIMS, FileJournal, busy, is_still_named, lock};
use super::staging::{Purpose, Staging, make_under};
use super::waiting::WaitPolicy;

/// A file that may be written at its place: its name, and the owner that it is to have.
pub(super) struct Target<'a> {
    pub(super) directory: &'a Directory,
    pub(super) name: &'a Name,
    /// Numeric user id of the owner that the file gets; `None` if it keeps its own.
    pub(super) owner: Option<u32>,
}

/// File that an examination has found fit to be written at its place.
pub(super) struct FoundInPlace {
    stat: Stat,
    /// Remains of an earlier run of this version of the source; `None` if there is nothing to continue.
    left: Option<Left>,
}

/// File in which an earlier run has made blocks durable, open and locked, with its journal.
struct Left {
    file: File,
    journal: FileJournal,
    staging: Staging,
}

/// Parameters of writing a file at its place.
pub(super) struct Writing<'a> {
    pub(super) directory: &'a Directory,
    pub(super) name: &'a Name,
    pub(super) header: &'a Header,
    /// Mode that the file gets at the end; `None` if it keeps its own.
    pub(super) mode: Option<u16>,
    /// Whether the blocks that an earlier run has left are kept.
    pub(super) continues: bool,
}

/// A file that is being written at its place, marked as inconsistent by its journal.
pub(super) struct MarkedFile {
    staging: Staging,
    journal: FileJournal,
    /// The file as it was before this run; `None` if an earlier one has left it inconsistent.
    before: Option<Stat>,
    /// Length that it had then.
    length: ByteCount,
    /// Whether its contents may have been changed by this session.
    is_changed: bool,
}

impl Target<'_> {
    /// Opens the file and checks that it may be written at its place.
    fn open(&self) -> Result<File, Failure> {
        let opened = self.directory.open_to_change(self.name);
        let (file, stat) = opened.map_err(|error| {
            failure::of_tree(&error)
                .map_reason(|reason| format!("{reason} (with --in-place, the file itself is written)"))
        })?;
        self.check(&stat)?;
        Ok(file)
    }

    /// Checks that nobody else sees, through other names or as its owner, what is written into the file.
    fn check(&self, stat: &Stat) -> Result<(), Failure> {
        let (path, user) = (self.directory.path_of(self.name), file_user());
        if stat.nlink > 1 {
            return Err(format!(
                "{path}: has {} names (hard links), and the contents of all of them would change; remove the others, or copy it \
                 without --in-place, which gives this name a file of its own",
                stat.nlink
            )
            .into());
        }
        let becomes_owner = || user == 0 && self.owner == Some(stat.uid);
        let is_in_safe_hands = || user == 0 && self.directory.is_anothers(stat).is_ok_and(|is_anothers| !is_anothers);
        if stat.uid == user || becomes_owner() || is_in_safe_hands() {
            return Ok(());
        }
        Err(format!(
            "{path}: belongs to user {}, who could read and change what is written into it; have it removed, or copy it without \
             --in-place, which replaces it",
            stat.uid
        )
        .into())
    }
}

/// Checks that a file may be written at its place, and waits for another session that does so. Gives the blocks
/// that an earlier run has made durable in it, by its journal, if that is about the version of the source in
/// `header`. With `is_dry`, it is only checked.
///
/// # Errors
/// It may not be written, or another session continues to write it.
pub(super) fn claim(
    target: &Target<'_>,
    header: &Header,
    waits: &dyn WaitPolicy,
    is_dry: bool,
) -> Result<(FoundInPlace, Option<BlockMap>), Failure> {
    let Target { directory, name, .. } = target;
    let path = directory.path_of(name);
    for _ in 0..CLAIMS {
        let file = target.open()?;
        if !is_dry {
            lock(&file, &path, waits).map_err(|error| Failure::Passing(error.to_string()))?;
        }
        let stat = Stat::of(&file).map_err(|error| failure::of_disk(&path, "read", &error))?;
        if !is_still_named(directory, name, &stat) {
            continue;
        }
        if stat.size <= PACK_FILE_LIMIT {
            // Only among larger ones it is looked for what was left inconsistent.
            let reason = "has become small since it was looked at; run the same command again";
            return Err(Failure::Passing(format!("{path}: {reason}")));
        }
        let found = Purpose::in_place(name, stat.ino).found_again().into_iter().find_map(|staging| {
            let (journal, held) = FileJournal::find(directory, staging, header).filter(|_| !is_dry)?;
            Some((staging, journal, held))
        });
        return Ok(match found {
            Some((staging, journal, held)) => {
                (FoundInPlace { stat, left: Some(Left { file, journal, staging }) }, Some(held))
            }
            None => (FoundInPlace { stat, left: None }, None),
        });
    }
    Err(busy(&path, None).into())
}

/// Whether a run that was interrupted has left the file with this name and description inconsistent: its journal
/// is there.
pub(super) fn is_torn(directory: &Directory, name: &Name, file: &Stat) -> bool {
    marks(directory, name, file.ino).next().is_some()
}

/// Ids in the names of the journals that mark the file with this name and inode number as inconsistent.
pub(crate) fn in_place_journals(name: &Name, inode: u64) -> impl Iterator<Item = [u8; 8]> {
    Purpose::in_place(name, inode).found_again().into_iter().map(Staging::id)
}

/// Names of the journals that mark the file with this name and inode number as inconsistent.
pub(super) fn marks(directory: &Directory, name: &Name, inode: u64) -> impl Iterator<Item = Name> {
    let journals = Purpose::in_place(name, inode).found_again().map(Staging::blocks);
    journals.into_iter().filter(move |journal| directory.stat(journal).is_ok())
}

impl FoundInPlace {
    /// Opens the file for writing, and marks it as inconsistent before anything in it is changed. Returns it
    /// locked.
    ///
    /// # Errors
    /// It is not the file that was examined any more, another session writes it, or the system lets nobody write
    /// it; it is as it was then.
    pub(super) fn begin(self, how: &Writing<'_>) -> Result<(File, MarkedFile), Failure> {
        let Writing { directory, name, header, .. } = *how;
        let path = directory.path_of(name);
        let Self { stat, left } = self;
        let was_torn = is_torn(directory, name, &stat);
        let (file, kept) = match left {
            Some(Left { file, journal, staging }) => (file, how.continues.then_some((journal, staging))),
            None => (reopen(directory, name, &stat)?, None),
        };
        // Of a file that is swapped to, only the first change says so.
        file.metadata().and_then(|now| file.set_len(now.len())).map_err(|error| refused(&path, &error))?;
        let marked = match kept {
            Some(kept) => Ok(kept),
            None => mark((directory, name), stat.ino, header),
        };
        let (journal, staging) = marked.inspect_err(|_| drop(set_time(&file, stat.mtime)))?;
        // Whoever removes what was left over leaves it alone then.
        let _ = journal.lock();
        let (before, length) = ((!was_torn).then_some(stat), ByteCount::new(stat.size));
        let marked = MarkedFile { staging, journal, before, length, is_changed: false };
        match restrict(how, &file) {
            Ok(()) => Ok((file, marked)),
            Err(failure) => {
                marked.leave(directory, &file);
                Err(failure)
            }
        }
    }
}

impl MarkedFile {
    /// Names of the files beside it, of which there is the journal.
    pub(super) fn staging(&self) -> Staging {
        self.staging
    }

    /// Length that the file had before this run.
    pub(super) fn length(&self) -> ByteCount {
        self.length
    }

    /// The journal of the file's durable blocks.
    pub(super) fn journal(&mut self) -> &mut FileJournal {
        &mut self.journal
    }

    /// Notes that the file's contents are going to be changed.
    pub(super) fn changes(&mut self) {
        self.is_changed = true;
    }

    /// Whether the file has, or may have, parts of its old and of its new contents.
    pub(super) fn is_inconsistent(&self) -> bool {
        self.is_changed || self.before.is_none()
    }

    /// Ends the writing of a file that is not complete: one that was not changed is as it was, another keeps its
    /// mark.
    pub(super) fn leave(&self, directory: &Directory, file: &File) {
        let (Some(before), false) = (&self.before, self.is_changed) else { return };
        let is_longer = file.metadata().is_ok_and(|now| now.len() > before.size);
        let cut = if is_longer { file.set_len(before.size) } else { Ok(()) };
        let restored = cut.and_then(|()| {
            let mode = Metadata { mode: Some(before.mode), ..Metadata::default() };
            directory.set_metadata(&self.staging.blocks(), file, &mode).map_err(io::Error::other)?;
            set_time(file, before.mtime)
        });
        match restored {
            Ok(_) => drop(directory.remove_file(&self.staging.blocks())),
            Err(error) => tracing::warn!(%error, "a file that was not changed stays marked as inconsistent"),
        }
    }
}

/// Clears what a file has in blocks that are holes of the source; `size` is that of the complete file.
pub(super) fn clear_holes(disk: &DiskFile, holes: &[Range<u32>], size: u64) -> io::Result<()> {
    holes.iter().try_for_each(|hole| clear(disk, block_offset(hole.start)..block_offset(hole.end).min(size)))
}

/// Opens and locks the file again that was examined; fails if it is another one by now, or was changed.
fn reopen(directory: &Directory, name: &Name, examined: &Stat) -> Result<File, Failure> {
    let path = directory.path_of(name);
    let (file, _) = directory.open_to_change(name).map_err(|error| failure::of_tree(&error))?;
    if !try_lock(&file).map_err(|error| failure::of_disk(&path, "lock", &error))? {
        return Err(Failure::Passing(busy(&path, None)));
    }
    let stat = Stat::of(&file).map_err(|error| failure::of_disk(&path, "read", &error))?;
    if !stat.same_version(examined) {
        let reason = "was changed or replaced by another program after it was looked at; run the same command again when that is through";
        return Err(Failure::Passing(format!("{path}: {reason}")));
    }
    Ok(file)
}

/// Makes the journal that marks the file `name` of this inode as inconsistent, durably, in place of what an
/// earlier run has left of it.
fn mark(
    (directory, name): (&Directory, &Name),
    inode: u64,
    header: &Header,
) -> Result<(FileJournal, Staging), Failure> {
    let path = directory.path_of(name);
    let make = |staging: Staging| match directory.create_file(&staging.blocks(), 0o600) {
        // It marks the file already, and must not be missing for a moment.
        Err(error) if error.is_existing() => {
            directory.reopen_file(&staging.blocks()).map(|(file, _)| file).map_err(|_| error)
        }
        made => made,
    };
    let purpose = Purpose::in_place(name, inode);
    let (file, staging) = make_under(directory, &purpose, &[StagingKind::Blocks], make)?;
    if !staging.is_found_again() {
        let _ = directory.remove_file(&staging.blocks());
        return Err(format!(
            "{path}: files of other users have the names by which it would be marked as inconsistent; have them removed (icdc leftovers \
             shows them), or copy without --in-place"
        )
        .into());
    }
    let noted = |error: io::Error| failure::of_disk(&path, "mark", &error);
    file.set_len(0).map_err(noted)?;
    let journal = FileJournal::begin(file, header, &path)?;
    journal.sync().map_err(noted)?;
    directory.sync().map_err(|error| Failure::Passing(error.to_string()))?;
    Ok((journal, staging))
}

/// Takes permissions away that the new contents do not have, until they are complete.
fn restrict(how: &Writing<'_>, file: &File) -> Result<(), Failure> {
    let (Some(wanted), path) = (how.mode, how.directory.path_of(how.name)) else { return Ok(()) };
    let present = Stat::of(file).map_err(|error| failure::of_disk(&path, "read", &error))?.mode;
    // The next run needs to open it, and bits that give rights are not for what is half written.
    let mode = (present & wanted & 0o777) | (present & 0o600);
    let restricted = Metadata { mode: Some(mode), ..Metadata::default() };
    match how.directory.set_metadata(how.name, file, &restricted) {
        Err(error) if !error.is_of_mode() => Err(failure::of_tree(&error)),
        _ => Ok(()),
    }
}

/// Failure of the first change of a file.
fn refused(path: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ExecutableFileBusy => format!(
            "{path}: is a program that is running, or space for swapping, and may not be written while it is in use; end that, or copy \
             without --in-place"
        )
        .into(),
        io::ErrorKind::PermissionDenied => format!(
            "{path}: may not be changed: it is immutable or append-only (lsattr shows it); have that changed, or copy without --in-place"
        )
        .into(),
        _ => failure::of_disk(path, "change", error),
    }
}
