//! Reference directories: trees beside the destination, most often older copies, from which a file
//! that is unchanged there is linked instead of being sent. Nothing in them is ever changed.

use std::fs::File;
use std::sync::Arc;

use icdc_disk::local_copy::copy_contents;
use icdc_disk::tree::{Directory, Name, Stat, Tree};
use icdc_protocol::message::{Entry, EntryId, ReceiveOptions};
use icdc_session::SessionError;
use icdc_session::receiver::book::item::DirectoryId;
use icdc_units::ByteCount;

use super::beside::path_beside;
use super::candidates::Location;
use super::failure::{self, Failure};
use super::leftovers;
use super::placement::{Placement, place_of, refusal, refuse};
use super::publishing::Made;
use super::restored_metadata::{metadata, restore};
use super::staging::Whose;
use crate::path_text;

/// Reference directories of a session (`--link-dest`, an older snapshot), from which unchanged
/// files are linked or copied instead of being sent.
pub(super) struct References {
    roots: Vec<Directory>,
    /// The newest complete snapshot, which is the first of them; `None` if there is none.
    snapshot: Option<Directory>,
    /// Whether each is the counterpart of the only source's directory, and not of that in which it
    /// has its name.
    is_of_source: bool,
    /// Counterparts of the directory that was asked for last.
    last: Option<(DirectoryId, Arc<[Option<Directory>]>)>,
}

impl References {
    /// Opens the reference directories of a copy to `destination`.
    ///
    /// # Errors
    /// One is missing, lies in the destination or on another file system.
    pub(super) fn open(
        tree: &Tree,
        destination: &[u8],
        options: &ReceiveOptions,
        placement: &Placement,
    ) -> Result<Self, SessionError> {
        let above = placement.existing();
        let own = match placement.destination() {
            Some(directory) => Some(place_of(&directory).map_err(refuse)?),
            None => None,
        };
        let device = above.own_stat().map_err(refuse)?.dev;
        let open = |path: &Vec<u8>| {
            let shown = path_text(path);
            let located = tree.resolve(&path_beside(destination, path)).map_err(|error| missing(&shown, &error))?;
            let directory = located.open_directory().map_err(|error| missing(&shown, &error))?;
            if directory.own_stat().map_err(refuse)?.dev != device {
                return Err(refusal(format!(
                    "--link-dest {shown}: is not on the file system of {}, and no file can be linked from there; name a \
                     directory on the same one",
                    above.path()
                )));
            }
            if own.is_some_and(|own| directory.lineage().contains(&(own.device, own.inode))) {
                return Err(refusal(format!(
                    "--link-dest {shown}: is the destination, or lies in it; name another copy of the source"
                )));
            }
            Ok(directory)
        };
        let roots = options.link_dest.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { roots, snapshot: None, is_of_source: placement.is_source_named(), last: None })
    }

    /// No reference directories.
    pub(super) fn none() -> Self {
        Self { roots: Vec::new(), snapshot: None, is_of_source: false, last: None }
    }

    /// Directories that the user has named as bases, wherever they are.
    pub(super) fn of_bases(roots: Vec<Directory>, placement: &Placement) -> Self {
        Self { roots, snapshot: None, is_of_source: placement.is_source_named(), last: None }
    }

    /// Puts `root`, the newest complete snapshot, before the other reference directories.
    pub(super) fn put_first(&mut self, root: Directory) {
        self.snapshot = Some(root.clone());
        self.roots.insert(0, root);
    }

    /// The newest complete snapshot; `None` if none is made, or this is the first.
    pub(super) fn newest_snapshot(&self) -> Option<&Directory> {
        self.snapshot.as_ref()
    }

    /// Counterparts of the directory `id`, which was reached from `start`, the directory in which
    /// its source is placed; `None` for each that does not exist.
    pub(super) fn beside(
        &mut self,
        id: DirectoryId,
        start: &Directory,
        directory: &Directory,
    ) -> Arc<[Option<Directory>]> {
        match &self.last {
            Some((last, found)) if *last == id => Arc::clone(found),
            _ => {
                let names = directory.names_from(start).unwrap_or_default();
                let names = if self.is_of_source { names.get(1..).unwrap_or_default() } else { &names[..] };
                let enter = |directory: Directory, name: &Name| directory.open_directory_on_mount(name);
                let counterpart = |root: &Directory| names.iter().try_fold(root.clone(), enter).ok();
                let found: Arc<[_]> = self.roots.iter().map(counterpart).collect();
                self.last = Some((id, Arc::clone(&found)));
                found
            }
        }
    }
}

/// Error for a directory of `--link-dest` that cannot be opened.
fn missing(shown: &str, error: &dyn std::fmt::Display) -> SessionError {
    refusal(format!(
        "--link-dest {shown}: {error}; name a directory that exists (one that is not absolute is looked for beside the \
         destination)"
    ))
}

/// A file in a reference directory, or one that had another name, as it was when it was examined.
#[derive(Clone)]
pub(super) struct Counterpart {
    pub(super) location: Location,
    pub(super) found: Stat,
}

/// Task of making an item as a copy of its counterpart.
pub(super) struct CopyJob {
    pub(super) id: EntryId,
    pub(super) directory: Directory,
    pub(super) name: Name,
    pub(super) entry: Entry,
    pub(super) counterpart: Counterpart,
}

/// Copies a counterpart under the staging name of its item, with the item's attributes, as long as
/// `goes_on`.
///
/// # Errors
/// The counterpart is not as it was when it was examined.
pub(super) fn copy(
    job: &CopyJob,
    (options, whose): (&ReceiveOptions, Whose),
    goes_on: impl Fn() -> bool,
) -> Result<Made, Failure> {
    let CopyJob { directory, name, entry, counterpart, .. } = job;
    let tree = |error| failure::of_tree(&error);
    let (above, counterpart_name) = counterpart.location.open().map_err(tree)?;
    let (from, stat) = above.open_file(&counterpart_name).map_err(tree)?;
    let is_unchanged = |stat: &Stat| stat.same_version(&counterpart.found);
    if !is_unchanged(&stat) {
        return Err("its counterpart is another file by now".into());
    }
    let wanted = metadata(entry, options);
    let mode = wanted.mode.map_or(0o666, |mode| mode & 0o777);
    let make = |part: &Name| directory.create_file(part, mode);
    let (file, staging) = leftovers::make_part(directory, name, whose, make)?;
    let fill = |file: &File| {
        let shown = directory.path_of(name);
        let copied = copy_contents(&from, file, stat.size, &goes_on);
        copied.map_err(|error| failure::of_disk(&shown, "copy", &error))?;
        let after = Stat::of(&from).map_err(|error| failure::of_disk(&shown, "stat", &error))?;
        if !is_unchanged(&after) {
            return Err("its counterpart was changed meanwhile".into());
        }
        let has_mode = restore(&wanted, |wanted| directory.set_metadata(&staging, file, wanted)).map_err(tree)?;
        Ok((Made::file(staging.clone(), file, ByteCount::new(stat.size))?, has_mode))
    };
    match fill(&file) {
        Ok((made, has_mode)) => Ok(made.with_mode(has_mode)),
        Err(failure) => {
            let _ = directory.remove_file(&staging);
            Err(failure)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use std::fs;
    use std::path::Path;

    use icdc_protocol::message::{EntryKind, Parent};

    use super::*;

    /// Writes other contents of equal size to a file, which has the modification time that it had; its
    /// change time is another one then.
    fn write_unnoticed(path: &Path, contents: &str) {
        let before = fs::metadata(path).unwrap();
        for _ in 0..1_000_000 {
            fs::write(path, contents).unwrap();
            fs::File::options().write(true).open(path).unwrap().set_modified(before.modified().unwrap()).unwrap();
            let after = fs::metadata(path).unwrap();
            assert_eq!((after.len(), after.modified().unwrap()), (before.len(), before.modified().unwrap()));
            let changed = |stat: &fs::Metadata| {
                use std::os::unix::fs::MetadataExt;
                (stat.ctime(), stat.ctime_nsec())
            };
            if changed(&after) != changed(&before) {
                return;
            }
        }
        panic!("the change time of {} stays", path.display());
    }

    #[test]
    fn what_is_written_to_while_its_copy_waits_is_not_taken_though_size_and_time_are_equal() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        fs::create_dir_all(root.join("old")).unwrap();
        fs::write(root.join("old/name"), "before").unwrap();
        let directory = Tree::open(root).unwrap().root().clone();
        let above = directory.open_directory(&Name::new(b"old").unwrap()).unwrap();
        let [from, to] = [b"name", b"item"].map(|name| Name::new(name).unwrap());
        let found = above.stat(&from).unwrap();
        let location = Location::In(above, from);
        let entry = Entry {
            id: 1,
            parent: Parent::Source(0),
            name: b"item".to_vec(),
            kind: EntryKind::File { size: 6, version: [0; 16], sparse: false, linked: false },
            mode: 0o600,
            mtime_seconds: 7,
            mtime_nanos: 0,
            owner: None,
            xattrs: Vec::new(),
        };
        let counterpart = Counterpart { location: location.clone(), found };
        let job = CopyJob { id: 1, directory, name: to, entry, counterpart };
        let copy = || copy(&job, (&ReceiveOptions::default(), Whose::default()), || true);
        let items = || fs::read_dir(root).unwrap().count();
        assert!(copy().is_ok() && location.open_unchanged(&found).is_ok());
        assert_eq!(items(), 2, "it is there under its staging name");
        let staged =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file()).unwrap();
        assert_eq!(fs::read_to_string(&staged).unwrap(), "before");
        fs::remove_file(staged).unwrap();

        write_unnoticed(&root.join("old/name"), "behind");
        let failed = copy().err().map(Failure::into_reason);
        assert_eq!(failed.as_deref(), Some("its counterpart is another file by now"));
        let failed = location.open_unchanged(&found).err().map(Failure::into_reason);
        assert_eq!(failed.as_deref(), Some("its candidate was changed meanwhile"), "nor is it linked");
        assert_eq!(items(), 1, "nothing is left of it");
    }
}
