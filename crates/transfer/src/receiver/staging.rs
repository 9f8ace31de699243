//! Names of the files of an unfinished item or run.
//!
//! The first choice is derived from the purpose alone, so that any later run finds it. Where others
//! may make files, too, another user may hold that name. The next choice is derived from the user
//! as well; the last ones are unpredictable, and are not found again. Only files of this user are
//! trusted or removed.

use icdc_disk::tree::{Directory, Kind, Name, StagingKind, StagingName, Stat, TreeError, file_user, try_lock};

use super::failure::{self, Failure};

/// Number of unpredictable names that are tried.
const UNPREDICTABLE: usize = 6;
/// Number of times that a name is cleared before another one is tried.
const ATTEMPTS: u32 = 8;

/// Owner of unfinished files, where they are kept apart from those of others who act as the same
/// user; by default they are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whose(pub(super) Option<[u8; 32]>);

/// Purpose of files, as far as it decides their names.
#[derive(Clone)]
pub(super) struct Purpose(blake3::Hasher);

impl Whose {
    /// Hasher for names with this purpose. An owner's names cannot be derived without its key.
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
    /// The item with this final name.
    pub(super) fn item(name: &Name, whose: Whose) -> Self {
        let mut hasher = whose.hasher("icdc staging name 1");
        hasher.update(name.as_bytes());
        Self(hasher)
    }

    /// A run of `job` whose only target, where it is not inside of the destination, is `target`.
    pub(super) fn run(job: &[u8], target: Option<&Name>, whose: Whose) -> Self {
        let mut hasher = whose.hasher("icdc run name 1");
        hasher.update(job).update(target.map_or(b"", Name::as_bytes));
        Self(hasher)
    }

    /// A file for trying what the file system does, which loses its name at once.
    pub(super) fn trial() -> Self {
        Self(Whose::default().hasher("icdc trial name 1"))
    }

    /// The choices that a later run makes as well.
    pub(super) fn found_again(&self) -> [Staging; 2] {
        let mut own = self.0.clone();
        own.update(&[0]).update(&file_user().to_le_bytes());
        [&self.0, &own].map(|hasher| Staging { id: short(&hasher.finalize()), is_found_again: true })
    }

    /// All choices, in order.
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
    /// A later run finds what lies under these names.
    is_found_again: bool,
}

impl Staging {
    pub(super) fn name(self, kind: StagingKind) -> Name {
        StagingName::new(kind, self.id).name()
    }

    /// Whether a later run finds the files under these names: only those are worth keeping.
    pub(super) fn is_found_again(self) -> bool {
        self.is_found_again
    }

    /// Data of an unfinished item.
    pub(super) fn part(self) -> Name {
        self.name(StagingKind::Part)
    }

    /// Journal of the durable blocks of an unfinished file.
    pub(super) fn blocks(self) -> Name {
        self.name(StagingKind::Blocks)
    }

    /// Whether the names of these kinds are held by no other user. Changes nothing.
    pub(super) fn is_free(self, directory: &Directory, kinds: &[StagingKind]) -> bool {
        kinds.iter().all(|kind| Obstruction::of(directory, self.name(*kind)).is_none())
    }

    /// Removes this user's files under the names of these kinds, as far as possible.
    pub(super) fn remove(self, directory: &Directory, kinds: &[StagingKind]) {
        let _ = self.clear(directory, kinds);
    }

    /// Removes this user's files under the names of these kinds. Returns what is in the way, if
    /// something is.
    fn clear(self, directory: &Directory, kinds: &[StagingKind]) -> Option<Obstruction> {
        for kind in kinds {
            let name = self.name(*kind);
            match Obstruction::of(directory, name.clone()) {
                None => {
                    let _ = directory.remove_file(&name);
                }
                // Only data gets an owner; journals stay with the user who writes them.
                Some(_) if *kind == StagingKind::Part && cleared_by_root(directory, &name) => {}
                Some(holder) => return Some(holder),
            }
        }
        None
    }
}

/// Makes a file by `make` under the first choice for `purpose` that no other user holds, replacing
/// this user's files under the names of these kinds.
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
            if let Some(holder) = staging.clear(directory, kinds) {
                last = Some(holder.failure(directory));
                break;
            }
        }
    }
    Err(last.unwrap_or_else(|| Failure::from("no name is free beside it")))
}

/// A file that keeps this user from a name.
struct Obstruction {
    name: Name,
    stat: Stat,
}

impl Obstruction {
    /// The holder of `name`: an item of another user, or a directory.
    fn of(directory: &Directory, name: Name) -> Option<Self> {
        let stat = directory.stat(&name).ok()?;
        let holds = stat.kind == Kind::Directory || directory.is_anothers(&stat).unwrap_or(true);
        holds.then_some(Self { name, stat })
    }

    fn failure(&self, directory: &Directory) -> Failure {
        let (path, found, user) = (directory.path_of(&self.name), self.stat.kind.described(), self.stat.uid);
        Failure::Final(format!(
            "{path}: {found} of user {user} has this name, which is needed for an unfinished file; have it removed, or \
             choose a directory in which others cannot make files"
        ))
    }
}

/// Removes a file that root may have given away itself (`--preserve owner`), unless it is locked by
/// a writer.
fn cleared_by_root(directory: &Directory, name: &Name) -> bool {
    file_user() == 0
        && directory.open_file(name).is_ok_and(|(file, _)| try_lock(&file).unwrap_or(false))
        && directory.remove_file(name).is_ok()
}

/// The first 8 bytes of a digest.
pub(super) fn short(hash: &blake3::Hash) -> [u8; 8] {
    let mut id = [0; 8];
    id.copy_from_slice(&hash.as_bytes()[..8]);
    id
}
