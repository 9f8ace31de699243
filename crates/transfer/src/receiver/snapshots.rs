//! The snapshots of a destination: directories that are named by time, the unfinished one, and the
//! symbolic link to the newest.
//!
//! The unfinished snapshot has a staging name that is derived from the job, so that the next run of
//! it goes on there. It is opened under the lock of the run's journal, which is beside it, and gets
//! its name by a rename that replaces nothing.

use icdc_disk::tree::{Directory, Kind, Name, StagingKind, TreeError, WalkItem, walk};
use icdc_protocol::message::{Digest, Snapshot, SnapshotTime};
use icdc_protocol::run_journal::NamedSnapshot;
use icdc_protocol::snapshot::{CLOCK_TOLERANCE, LATEST};
use icdc_session::SessionError;
use icdc_session::receiver::book::action::MadeSnapshot;

use super::failure::{self, Failure};
use super::placement::{let_owner_in, place_of, refusal, refuse};
use super::same_tree::same_tree;
use super::staging::{Purpose, Staging, Whose, make_under};
use crate::tree_remover::TreeRemover;

/// Directory with the snapshots of one destination, and the unfinished one of a run.
pub(super) struct Snapshots {
    pub(super) directory: Directory,
    /// The unfinished snapshot, by its name; `None` in a dry run.
    unfinished: Option<(Name, Directory)>,
    /// The snapshot that an earlier session of the run has completed.
    made: Option<(SnapshotTime, Directory)>,
    snapshot: Snapshot,
}

/// Run to which an unfinished snapshot belongs, and the snapshot that its earlier sessions have
/// named.
#[derive(Clone, Copy)]
pub(super) struct SnapshotRun<'a> {
    /// Digest of sources and destination.
    pub(super) job: &'a Digest,
    /// The snapshot to which an earlier session of the run has given a name, or was about to.
    pub(super) named: Option<NamedSnapshot>,
}

/// Snapshots of a destination, with the directory for the sources and the one they are compared
/// with.
pub(super) struct Opened {
    pub(super) snapshots: Snapshots,
    /// The unfinished snapshot; in a dry run without one, the newest complete one. `None` if
    /// nothing is made and neither exists.
    pub(super) inside: Option<Directory>,
    /// The newest complete snapshot.
    pub(super) newest: Option<Directory>,
}

/// Way in which the unfinished snapshot of a run is opened.
#[derive(Clone, Copy)]
pub(super) enum Opening {
    /// An existing one is opened, and none is made (dry run).
    Existing,
    /// One that is missing is made with this mode, less the umask.
    Make(u16),
}

impl Snapshots {
    /// Opens the unfinished snapshot of the run in `directory`, and the newest complete one.
    ///
    /// # Errors
    /// Those of [`check_latest`]; another user has the names that are needed.
    pub(super) fn open(
        directory: &Directory,
        snapshot: Snapshot,
        SnapshotRun { job, named }: SnapshotRun<'_>,
        opening: Opening,
    ) -> Result<Opened, SessionError> {
        let newest = check_latest(directory)?.last().copied();
        let newest = newest.and_then(|time| directory.open_directory_on_mount(&name_of(time)).ok());
        let unfinished = open_unfinished(directory, job, opening).map_err(refuse)?;
        let inside = match opening {
            Opening::Existing => unfinished.as_ref().map(|(_, unfinished)| unfinished).or(newest.as_ref()).cloned(),
            Opening::Make(_) => match &unfinished {
                Some((_, unfinished)) => Some(unfinished.clone()),
                None => {
                    return Err(refusal(format!(
                        "{}: other users have the names that an unfinished snapshot would have; have them removed, or \
                         choose a directory in which others cannot make files",
                        directory.path()
                    )));
                }
            },
        };
        let unfinished = unfinished.filter(|_| matches!(opening, Opening::Make(_)));
        let made = named.and_then(|named| made_before(directory, &named));
        let snapshots = Self { directory: directory.clone(), unfinished, made, snapshot };
        Ok(Opened { snapshots, inside, newest })
    }

    /// Gives the unfinished snapshot, which is complete and durable, its name; then lets the
    /// symbolic link lead there. In a dry run, only chooses the name. `note` makes durable which name
    /// it is about to get: if the other end is lost before it is told, the next session of the run
    /// finds that its snapshot is complete, and makes no second one of the same contents.
    pub(super) fn publish(
        &self,
        note: &mut dyn FnMut(NamedSnapshot) -> Result<(), Failure>,
    ) -> Result<MadeSnapshot, Failure> {
        let of_tree = |error| failure::of_tree(&error);
        let all = times(&self.directory).map_err(of_tree)?;
        let mut time = self.free_time(&all)?;
        let Some((unfinished, opened)) = &self.unfinished else { return Ok(MadeSnapshot { time, all }) };
        let place = place_of(opened).map_err(of_tree)?;
        let found = self.directory.stat(unfinished).map_err(of_tree)?;
        if (found.dev, found.ino) != (place.device, place.inode) {
            return Err(format!(
                "{}: was replaced by another program; run the same command again",
                self.directory.path_of(unfinished)
            )
            .into());
        }
        if let Some((made, before)) = &self.made
            && same_tree(opened, before).map_err(of_tree)?
        {
            let item = WalkItem { name: unfinished.clone(), stat: found, path: unfinished.as_bytes().to_vec() };
            walk(&self.directory, item, &mut TreeRemover).map_err(|failure| Failure::from(failure.reason))?;
            self.move_latest(*made)?;
            self.directory.sync().map_err(of_tree)?;
            return Ok(MadeSnapshot { time: *made, all });
        }
        let last = time.seconds() + CLOCK_TOLERANCE;
        loop {
            note(NamedSnapshot { time, device: place.device, inode: place.inode })?;
            let renamed = self.directory.rename_directory_new(unfinished, &self.directory, &name_of(time));
            let Err(error) = renamed else { break };
            let next = time.next().filter(|next| error.is_existing() && next.seconds() <= last);
            time = next.ok_or_else(|| failure::of_tree(&error))?;
        }
        self.directory.sync().map_err(of_tree)?;
        self.move_latest(time)?;
        self.directory.sync().map_err(of_tree)?;
        Ok(MadeSnapshot { time, all })
    }

    /// Time by which the new snapshot is named: that of the run or, if there are snapshots of that
    /// second or soon after it, the second after the last of them, so that names are in the order
    /// of the snapshots.
    fn free_time(&self, all: &[SnapshotTime]) -> Result<SnapshotTime, Failure> {
        let time = self.snapshot.time;
        let soon = time.seconds() + CLOCK_TOLERANCE;
        match all.iter().rev().find(|other| other.seconds() <= soon) {
            Some(last) if *last >= time => last.next().ok_or_else(|| "there is no later time for a name".into()),
            _ => Ok(time),
        }
    }

    /// Lets the symbolic link `latest` lead to the snapshot of this time, in place of an older one.
    fn move_latest(&self, time: SnapshotTime) -> Result<(), Failure> {
        let (directory, latest) = (&self.directory, latest());
        let target = time.name();
        let make = |staging: Staging| directory.make_symlink(target.as_bytes(), &staging.part());
        let purpose = Purpose::item(&latest, Whose::default());
        let ((), staging) = make_under(directory, &purpose, &[StagingKind::Part], make)?;
        let part = staging.part();
        let moved = exchange_latest(directory, &part);
        // What is under the staging name now is a symbolic link, the older or the unneeded one.
        if directory.stat(&part).is_ok_and(|stat| stat.kind == Kind::Symlink) {
            let _ = directory.remove_file(&part);
        }
        moved.map_err(|failure| {
            let made = directory.path_of(&name_of(time));
            Failure::from(format!("{made} is complete, but {LATEST_SHOWN} cannot be moved: {}", failure.into_reason()))
        })
    }

    /// Time of the snapshot that the symbolic link `latest` leads to; `None` if it leads to none.
    pub(super) fn latest(&self) -> Option<SnapshotTime> {
        target(&self.directory, &latest())
    }
}

/// Snapshot that an earlier session of the run has named, with its open directory; `None` if the
/// directory of that name is another one, or there is none.
fn made_before(directory: &Directory, named: &NamedSnapshot) -> Option<(SnapshotTime, Directory)> {
    let made = directory.open_directory_on_mount(&name_of(named.time)).ok()?;
    let place = place_of(&made).ok()?;
    ((place.device, place.inode) == (named.device, named.inode)).then_some((named.time, made))
}

/// Name of the symbolic link to the newest snapshot, as messages show it.
const LATEST_SHOWN: &str = "latest";

/// Name of the symbolic link to the newest snapshot.
pub(super) fn latest() -> Name {
    Name::new(LATEST).expect("a constant that is one component of a path")
}

/// Name of the snapshot of this time.
pub(super) fn name_of(time: SnapshotTime) -> Name {
    Name::new(time.name().as_bytes()).expect("digits, signs and letters are one component of a path")
}

/// Checks that nothing else has the name of the link to the newest snapshot; returns the times of
/// the complete ones, in their order.
///
/// # Errors
/// Something else has the name, or the directory cannot be read.
pub(super) fn check_latest(directory: &Directory) -> Result<Vec<SnapshotTime>, SessionError> {
    let link = latest();
    match directory.stat(&link) {
        Err(error) if error.is_missing() => {}
        Err(error) => return Err(refuse(error)),
        Ok(stat) if stat.kind == Kind::Symlink && target(directory, &link).is_some() => {}
        Ok(stat) => return Err(refusal(not_ours(directory, stat.kind))),
    }
    times(directory).map_err(refuse)
}

/// Checks that none of the snapshots is later than one of this time, which is the present.
///
/// # Errors
/// One is, by more than clocks differ.
pub(super) fn check_clock(directory: &Directory, time: SnapshotTime, all: &[SnapshotTime]) -> Result<(), SessionError> {
    if let Some(newest) = all.last().filter(|newest| newest.seconds() > time.seconds() + CLOCK_TOLERANCE) {
        return Err(refusal(format!(
            "{}: is a snapshot of a time that is yet to come (it is {} now by the clock of the host that the copy is run \
             on); set that clock, or rename or remove the snapshot",
            directory.path_of(&name_of(*newest)),
            time.name()
        )));
    }
    Ok(())
}

/// Message for the user that something else has the name of the symbolic link to the newest
/// snapshot.
fn not_ours(directory: &Directory, found: Kind) -> String {
    let what = if found == Kind::Symlink { "a symbolic link to something else" } else { found.described() };
    format!(
        "{}: is {what}, and not the symbolic link to the newest snapshot; rename it, or choose another directory for \
         snapshots",
        directory.path_of(&latest())
    )
}

/// Times of the snapshots in a directory, in their order.
pub(super) fn times(directory: &Directory) -> Result<Vec<SnapshotTime>, TreeError> {
    let listing = directory.entries()?;
    let is_directory =
        |time: &SnapshotTime| directory.stat(&name_of(*time)).is_ok_and(|stat| stat.kind == Kind::Directory);
    // Names of equal length are sorted by time.
    Ok(listing.iter().filter_map(|entry| SnapshotTime::parse(entry.name)).filter(is_directory).collect())
}

/// The snapshot that a symbolic link leads to; `None` if it leads elsewhere, or is none.
fn target(directory: &Directory, link: &Name) -> Option<SnapshotTime> {
    SnapshotTime::parse(&directory.read_link(link).ok()?)
}

/// Opens the unfinished snapshot of a job, which [`Opening::Make`] makes if it is missing; `None`
/// if there is none, or other users have its names.
fn open_unfinished(
    directory: &Directory,
    job: &Digest,
    opening: Opening,
) -> Result<Option<(Name, Directory)>, TreeError> {
    for staging in Purpose::snapshot(job).found_again() {
        let name = staging.name(StagingKind::Snapshot);
        match (directory.stat(&name), opening) {
            (Err(error), Opening::Existing) if error.is_missing() => continue,
            (Err(error), Opening::Make(mode)) if error.is_missing() => {
                directory.make_or_open_directory(&name, mode)?;
                // Large files are flushed one by one, and an empty directory not at all.
                if let Err(error) = directory.sync() {
                    tracing::warn!(%error, "the unfinished snapshot may not survive a power cut");
                }
            }
            (Err(error), _) => return Err(error),
            (Ok(_), _) => {}
        }
        let stat = directory.stat(&name)?;
        if stat.kind != Kind::Directory || directory.is_anothers(&stat)? {
            continue;
        }
        let unfinished = directory.open_directory_on_mount(&name)?;
        if matches!(opening, Opening::Make(_)) {
            let_owner_in(&unfinished)?;
        }
        return Ok(Some((name, unfinished)));
    }
    Ok(None)
}

/// Gives the symbolic link `part` the name of that to the newest snapshot. What has the name is one
/// at every moment; anything else is not replaced.
fn exchange_latest(directory: &Directory, part: &Name) -> Result<(), Failure> {
    let of_tree = |error| failure::of_tree(&error);
    let link = latest();
    match directory.rename_new(part, directory, &link) {
        Err(error) if error.is_existing() => {}
        renamed => return renamed.map_err(of_tree),
    }
    let refused = |name: &Name| match directory.stat(name) {
        Ok(stat) => Failure::from(not_ours(directory, stat.kind)),
        Err(error) => failure::of_tree(&error),
    };
    if target(directory, &link).is_none() {
        return Err(refused(&link));
    }
    if !directory.exchange(part, &link).map_err(of_tree)? {
        return directory.rename(part, directory, &link).map_err(of_tree);
    }
    if target(directory, part).is_some() {
        return Ok(());
    }
    let refused = refused(part);
    directory.exchange(part, &link).map_err(of_tree)?;
    Err(refused)
}
