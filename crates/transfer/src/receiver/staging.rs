//! Names of the files of an unfinished item or run.
//!
//! The first choice is derived from the purpose alone, so that any later run finds it. Where others
//! may make files, too, another user may hold that name. The next choice is derived from the user
//! as well; the last ones are unpredictable, and are not found again. Only files of this user are
//! trusted or removed.

use icdc_disk::tree::{Directory, Kind, Name, StagingKind, StagingName, Stat, TreeError, file_user, try_lock};

use super::failure::{self, Failure};

/// Number of unpredictable names that are tried before giving up.
const UNPREDICTABLE: usize = 6;
/// Number of times that a name is cleared of an earlier file before another name is tried.
const ATTEMPTS: u32 = 8;

/// Owner of unfinished files: a key where they are kept apart from those of others who act as the
/// same user; `None` (the default) where they are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whose(pub(super) Option<[u8; 32]>);

/// Purpose of staging files (an item, a run's journal, a snapshot), as a hash from which their
/// names are derived.
#[derive(Clone)]
pub(super) struct Purpose(blake3::Hasher);

impl Whose {
    /// Hasher that derives names for this purpose. An owner's names cannot be derived without its
    /// key.
    fn hasher(self, purpose: &'static str) -> blake3::Hasher {
        match self.0 {
            None => blake3::Hasher::new_derive_key(purpose),
            Some(key) => {
                let own = blake3::derive_key(purpose, &key);
                blake3::Hasher::new_keyed(&own)
            }
        }
    }
}

impl Purpose {
    /// Makes the purpose of the staging files of an unfinished item from the item's final
    /// name and the owner of the files. No file is made.
    pub(super) fn item(name: &Name, whose: Whose) -> Self {
        let mut hasher = whose.hasher("icdc staging name 1");
        hasher.update(name.as_bytes());
        Self(hasher)
    }

    /// Purpose: the journal of the existing file with this name and inode number, which is written at its
    /// place. It means nothing to another file that gets the name.
    pub(super) fn in_place(name: &Name, inode: u64) -> Self {
        let mut hasher = Whose::default().hasher("icdc in-place journal name 1");
        hasher.update(&inode.to_le_bytes()).update(name.as_bytes());
        Self(hasher)
    }

    /// Purpose: the journal of a run, where `job` is the digest of its job. `target` is the name of
    /// the destination where the copy itself gets that name, `None` where the sources are put
    /// inside it.
    pub(super) fn run(job: &[u8], target: Option<&Name>, whose: Whose) -> Self {
        let mut hasher = whose.hasher("icdc run name 1");
        hasher.update(job).update(target.map_or(b"", Name::as_bytes));
        Self(hasher)
    }

    /// Purpose: the unfinished snapshot of the run of `job`.
    pub(super) fn snapshot(job: &[u8]) -> Self {
        let mut hasher = Whose::default().hasher("icdc snapshot name 1");
        hasher.update(job);
        Self(hasher)
    }

    /// Purpose: a snapshot that is being removed.
    pub(super) fn removed_snapshot() -> Self {
        Self(Whose::default().hasher("icdc removed snapshot name 1"))
    }

    /// Purpose: a file for probing the file system, which loses its name at once.
    pub(super) fn trial() -> Self {
        Self(Whose::default().hasher("icdc trial name 1"))
    }

    /// Both names for this purpose that a later run derives as well: one from the purpose alone,
    /// and one from the user, too.
    pub(super) fn found_again(&self) -> [Staging; 2] {
        let mut own = self.0.clone();
        own.update(&[0]).update(&file_user().to_le_bytes());
        [&self.0, &own].map(|hasher| Staging { id: short(&hasher.finalize()), is_found_again: true })
    }

    /// All names that are tried for this purpose, in order.
    fn choices(&self) -> impl Iterator<Item = Staging> {
        let unpredictable = std::iter::repeat_with(|| {
            let mut id = [0; 8];
            getrandom::fill(&mut id).ok().map(|()| Staging { id, is_found_again: false })
        });
        self.found_again().into_iter().chain(unpredictable.take(UNPREDICTABLE).flatten())
    }
}

/// Common part of the names of the files for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Staging {
    id: [u8; 8],
    /// Whether a later run finds the files under these names.
    is_found_again: bool,
}

impl Staging {
    /// Name of the file of this kind.
    pub(super) fn name(self, kind: StagingKind) -> Name {
        StagingName::new(kind, self.id).name()
    }

    /// Id in the names.
    pub(super) fn id(self) -> [u8; 8] {
        self.id
    }

    /// Whether a later run finds the files under these names: only those are worth keeping.
    pub(super) fn is_found_again(self) -> bool {
        self.is_found_again
    }

    /// Name of the file for the data of an unfinished item.
    pub(super) fn part(self) -> Name {
        self.name(StagingKind::Part)
    }

    /// Name of the journal of the durable blocks of an unfinished file.
    pub(super) fn blocks(self) -> Name {
        self.name(StagingKind::Blocks)
    }

    /// Whether no other user holds the names of these kinds. Changes nothing.
    pub(super) fn is_free(self, directory: &Directory, kinds: &[StagingKind]) -> bool {
        kinds.iter().all(|kind| Obstruction::of(directory, self.name(*kind)).is_none())
    }

    /// Removes this user's files under the names of these kinds, as far as others' leave them alone.
    ///
    /// # Errors
    /// A file of this user is still there.
    pub(super) fn remove(self, directory: &Directory, kinds: &[StagingKind]) -> Result<(), TreeError> {
        self.clear(directory, kinds).map(drop)
    }

    /// Removes this user's files under the names of these kinds. Returns the obstruction if a name
    /// is another user's.
    fn clear(self, directory: &Directory, kinds: &[StagingKind]) -> Result<Option<Obstruction>, TreeError> {
        for kind in kinds {
            let name = self.name(*kind);
            match Obstruction::of(directory, name.clone()) {
                None => remove_if_there(directory, &name)?,
                // Only data gets an owner; journals stay with the user who writes them.
                Some(_) if *kind == StagingKind::Part && cleared_by_root(directory, &name) => {}
                // What a mirror has replaced, and was killed before it could remove it.
                Some(holder) if holder.stat.kind == Kind::Directory && directory.remove_directory(&name).is_ok() => {}
                Some(holder) => return Ok(Some(holder)),
            }
        }
        Ok(None)
    }
}

/// Makes a file by `make` under the first staging name for `purpose` that no other user holds,
/// replacing this user's files under the names of these kinds.
pub(super) fn make_under<T>(
    directory: &Directory,
    purpose: &Purpose,
    kinds: &[StagingKind],
    make: impl Fn(Staging) -> Result<T, TreeError>,
) -> Result<(T, Staging), Failure> {
    let mut last = None;
    for staging in purpose.choices() {
        // Another copy to the same place may remove and make its own just as fast.
        for _ in 0..ATTEMPTS {
            match make(staging) {
                Ok(made) => return Ok((made, staging)),
                Err(error) if !error.is_existing() => return Err(failure::of_tree(&error)),
                Err(error) => last = Some(failure::of_tree(&error)),
            }
            // A file that stays would be found by a later run, or lie in a finished copy.
            if let Some(holder) = staging.clear(directory, kinds).map_err(|error| failure::of_tree(&error))? {
                last = Some(holder.failure(directory));
                break;
            }
        }
    }
    Err(last.unwrap_or_else(|| Failure::from("no name is free beside it")))
}

/// An existing item that keeps this user from using a name.
struct Obstruction {
    name: Name,
    stat: Stat,
}

impl Obstruction {
    /// The obstruction at `name`: an item of another user, or a directory; `None` if there is
    /// none.
    fn of(directory: &Directory, name: Name) -> Option<Self> {
        let stat = directory.stat(&name).ok()?;
        let holds = stat.kind == Kind::Directory || directory.is_anothers(&stat).unwrap_or(true);
        holds.then_some(Self { name, stat })
    }

    /// Failure of an item for which this obstruction leaves no staging name.
    fn failure(&self, directory: &Directory) -> Failure {
        let (path, found, user) = (directory.path_of(&self.name), self.stat.kind.described(), self.stat.uid);
        Failure::Final(format!(
            "{path}: {found} of user {user} has this name, which is needed for an unfinished file; have it removed, or \
             choose a directory in which others cannot make files"
        ))
    }
}

/// Removes the file with this staging name.
///
/// # Errors
/// It is still there.
pub(super) fn remove_if_there(directory: &Directory, name: &Name) -> Result<(), TreeError> {
    match directory.remove_file(name) {
        Err(error) if error.is_missing() => Ok(()),
        removed => removed,
    }
}

/// Removes a file that root itself may have given to another owner (`--preserve owner`), unless a
/// writer has locked it; true if it was removed.
fn cleared_by_root(directory: &Directory, name: &Name) -> bool {
    file_user() == 0
        && directory.open_file(name).is_ok_and(|(file, _)| try_lock(&file).unwrap_or(false))
        && directory.remove_file(name).is_ok()
}

/// The first 8 bytes of a digest, as names of staging files have them.
pub(super) fn short(hash: &blake3::Hash) -> [u8; 8] {
    let mut id = [0; 8];
    id.copy_from_slice(&hash.as_bytes()[..8]);
    id
}
