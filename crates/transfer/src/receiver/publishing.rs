//! Items that lie complete under a staging name, until they have their final one.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use icdc_disk::DiskFile;
use icdc_disk::tree::{Directory, Kind, Metadata, Name, Stat, TreeError};
use icdc_protocol::limits::PACK_FILE_LIMIT;
use icdc_protocol::message::{Entry, EntryKind, FileDigest, ReceiveOptions};
use icdc_session::receiver::book::action::Apart;
use icdc_session::receiver::book::item::Item;
use icdc_session::receiver::book::resume::verdict::{cannot_replace, is_in_the_way, name_exists};
use icdc_units::ByteCount;

use super::backups::{KeptState, unmoved};
use super::exchanging::{exchange, has_inode, replaced_meanwhile};
use super::failure::{self, Failure};
use super::file_identity::FileIdentity;
use super::restored_metadata::{metadata, restore};
use super::spellings::{Spelling, Spellings};
use super::staging::{self, Staging, Whose};
use super::{in_place, leftovers};
use crate::special;

/// A large file whose contents and metadata are durable, and which only lacks its final name.
struct Durable {
    _file: Arc<DiskFile>,
    /// Name of the journal of its blocks; `None` where no later run would find it.
    journal: Option<Name>,
}

/// An item that is complete under a staging name, with what is needed to publish it.
pub(super) struct Made {
    staging: Name,
    /// The file, if its contents and metadata are durable already. It stays open
    /// until it is renamed, because its lock keeps others away from the name.
    durable: Option<Durable>,
    bytes: ByteCount,
    /// Identity of the file, for items that must not be mixed up with those of another copy to the
    /// same place.
    identity: Option<FileIdentity>,
    /// Whether the mode of the item could not be set.
    lacks_mode: bool,
    form: Form,
}

/// Form in which an item lies under its staging name: as an item of its own, as a further name of a
/// file, or not at all because it is in place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A file or another item of its own.
    Own,
    /// A further name of a file that has others.
    FurtherName,
    /// Nothing: the staging name is the final one, which is a further name of the file already, or
    /// that of the device or the file into which its contents were written.
    InPlace,
}

impl Made {
    /// Item without contents of its own to flush, such as a link.
    fn unsynced(staging: Name) -> Self {
        Self { staging, durable: None, bytes: ByteCount::ZERO, identity: None, lacks_mode: false, form: Form::Own }
    }

    /// The regular file `file`, of which `bytes` bytes are not durable.
    pub(super) fn file(staging: Name, file: &File, bytes: ByteCount) -> Result<Self, String> {
        let stat = Stat::of(file).map_err(|error| format!("its size and time cannot be read: {error}"))?;
        Ok(Self { bytes, identity: Some(FileIdentity::of(&stat)), ..Self::unsynced(staging) })
    }

    /// The regular file `file`, which is durable and has a journal of blocks where a later run
    /// finds one.
    pub(super) fn durable(staging: Staging, file: Arc<DiskFile>) -> Result<Self, String> {
        let made = Self::file(staging.part(), file.as_file(), ByteCount::ZERO)?;
        let journal = staging.is_found_again().then(|| staging.blocks());
        Ok(Self { durable: Some(Durable { _file: file, journal }), ..made })
    }

    /// A file that is durable in the device with this name, in which it stays.
    pub(super) fn in_device(name: Name, disk: Arc<DiskFile>) -> Self {
        let durable = Some(Durable { _file: disk, journal: None });
        Self { durable, form: Form::InPlace, ..Self::unsynced(name) }
    }

    /// The regular file `file` of this name, which was written at its place and is durable, with its journal.
    pub(super) fn in_place(name: Name, journal: Name, file: Arc<DiskFile>) -> Result<Self, String> {
        let made = Self::file(name, file.as_file(), ByteCount::ZERO)?;
        Ok(Self { durable: Some(Durable { _file: file, journal: Some(journal) }), form: Form::InPlace, ..made })
    }

    /// Records whether the item's mode could be set.
    pub(super) fn with_mode(self, has_mode: bool) -> Self {
        Self { lacks_mode: !has_mode, ..self }
    }

    /// Whether the item is durable already and needs no flush.
    pub(super) fn is_durable(&self) -> bool {
        self.durable.is_some()
    }

    /// Number of bytes of the item that are not durable.
    pub(super) fn bytes(&self) -> ByteCount {
        self.bytes
    }
}

/// Extent of what an item may replace when it gets its final name.
#[derive(Clone, Copy)]
pub(super) enum Replaced<'a> {
    /// Nothing: the name must be free.
    Nothing,
    /// Any file or symbolic link, and what is of the same kind as the item.
    FilesAndLinks,
    /// Everything but directories.
    AllButDirectories,
    /// This, which is kept, and nothing that has taken the name since.
    Kept(&'a KeptState),
}

/// Returns an error if the name belongs to something that is neither a file nor a directory nor a
/// link, unless the item is of this kind, too.
fn refuse_special(directory: &Directory, name: &Name, item: &Item) -> Result<(), Failure> {
    let own = match item.entry.kind {
        EntryKind::Special(special) => Some(special.described()),
        _ => None,
    };
    match directory.stat(name) {
        Ok(Stat { kind: Kind::Other(what), .. }) if own != Some(what) => {
            Err(cannot_replace(&directory.path_of(name), what))
        }
        _ => Ok(()),
    }
}

/// Sets the attributes that an existing special item lacks, if it is still the one that was looked
/// at. Returns true: something was different.
pub(super) fn amend_special(
    directory: &Directory,
    name: &Name,
    looked_at: Option<FileIdentity>,
    wanted: &Metadata<'_>,
) -> Result<bool, Failure> {
    let stat = directory.stat(name).map_err(|error| failure::of_tree(&error))?;
    if looked_at != Some(FileIdentity::of(&stat)) {
        return Err("is another item by now".into());
    }
    directory.set_special_metadata(name, &stat, wanted).map_err(|error| failure::of_tree(&error))?;
    Ok(true)
}

/// A complete item under its staging name, ready to get its final name.
pub(super) struct Staged {
    directory: Directory,
    name: Name,
    made: Made,
}

impl Staged {
    /// An item made in `directory` that will get the final name `name`.
    pub(super) fn new(directory: &Directory, name: Name, made: Made) -> Self {
        Self { directory: directory.clone(), name, made }
    }

    /// Writes a small file under a staging name; `name` is the one that it gets when it is
    /// published.
    pub(super) fn small(
        directory: &Directory,
        name: Name,
        entry: &Entry,
        contents: &[u8],
        (options, whose): (&ReceiveOptions, Whose),
    ) -> Result<Self, Failure> {
        let wanted = metadata(entry, options);
        let mode = wanted.mode.map_or(0o666, |mode| mode & 0o777);
        let (file, staging) = leftovers::make_part(directory, &name, whose, |part| directory.create_file(part, mode))?;
        let written = file
            .write_all_at(contents, 0)
            .map_err(|error| failure::of_disk(&directory.path_of(&name), "write", &error));
        let written = written.and_then(|()| {
            restore(&wanted, |wanted| directory.set_metadata(&staging, &file, wanted))
                .map_err(|error| failure::of_tree(&error))
        });
        let has_mode = written.inspect_err(|_| {
            let _ = directory.remove_file(&staging);
        })?;
        let made = Made::file(staging, &file, ByteCount::from(contents.len()))?;
        Ok(Self::new(directory, name, made.with_mode(has_mode)))
    }

    /// Makes a symbolic link under a staging name; `name` is the one that it gets when it is
    /// published.
    pub(super) fn stage_symlink(
        directory: &Directory,
        name: Name,
        entry: &Entry,
        (options, whose): (&ReceiveOptions, Whose),
    ) -> Result<Self, Failure> {
        let EntryKind::Symlink { target } = &entry.kind else { return Err("is not a symbolic link".into()) };
        let ((), staging) = leftovers::make_part(directory, &name, whose, |part| directory.make_symlink(target, part))?;
        let wanted = Metadata { mode: None, ..metadata(entry, options) };
        match directory.set_link_metadata(&staging, &wanted) {
            Ok(()) => {
                let identity = directory.stat(&staging).ok().map(|stat| FileIdentity::of(&stat));
                Ok(Self::new(directory, name, Made { identity, ..Made::unsynced(staging) }))
            }
            Err(error) => {
                let _ = directory.remove_file(&staging);
                Err(failure::of_tree(&error))
            }
        }
    }

    /// Makes a named pipe, a socket or a device node under a staging name; `name` is the one that it
    /// gets when it is published.
    pub(super) fn stage_special(
        directory: &Directory,
        name: Name,
        entry: &Entry,
        (options, whose): (&ReceiveOptions, Whose),
    ) -> Result<Self, Failure> {
        let EntryKind::Special(item) = entry.kind else { return Err("is no special item".into()) };
        let wanted = metadata(entry, options);
        // A list that the directory passes on gives nobody else anything until it is taken away.
        let mode = wanted.mode.map_or(0o666, |mode| mode & 0o700);
        let make = |part: &Name| directory.make_special(special::to_make(item), part, mode);
        let ((), staging) = leftovers::make_part(directory, &name, whose, make)?;
        let set = |found: &Stat| {
            let set = |wanted: &Metadata<'_>| directory.set_special_metadata(&staging, found, wanted);
            restore(&wanted, set)
        };
        let made = directory.stat(&staging).and_then(|found| Ok((set(&found)?, directory.stat(&staging)?)));
        match made {
            Ok((has_mode, found)) => {
                let identity = Some(FileIdentity::of(&found));
                let made = Made { identity, ..Made::unsynced(staging) };
                Ok(Self::new(directory, name, made.with_mode(has_mode)))
            }
            Err(error) => {
                let _ = directory.remove_file(&staging);
                Err(failure::of_tree(&error))
            }
        }
    }

    /// Makes a further name (hard link) of `file`, one of whose names is `first` in
    /// `first_directory`, or returns the reason why it has to be a separate file.
    pub(super) fn stage_hard_link(
        directory: &Directory,
        name: Name,
        (first_directory, first): (&Directory, &Name),
        file: FileIdentity,
        whose: Whose,
    ) -> Result<Result<Self, Apart>, Failure> {
        let is_first = |stat: &Stat| FileIdentity::of(stat) == file && stat.kind == Kind::File;
        if !first_directory.stat(first).is_ok_and(|stat| is_first(&stat)) {
            return Ok(Err(Apart::Replaced));
        }
        let is_refused = Cell::new(false);
        let link = |part: &Name| {
            let linked = directory.hard_link(first_directory, first, part);
            linked.inspect_err(|error| is_refused.set(error.refuses_link()))
        };
        let ((), staging) = match leftovers::make_part(directory, &name, whose, link) {
            // Removed or replaced since it was looked at.
            Err(_) if !first_directory.stat(first).is_ok_and(|stat| is_first(&stat)) => {
                return Ok(Err(Apart::Replaced));
            }
            Err(_) if is_refused.get() => return Ok(Err(Apart::Refused)),
            made => made?,
        };
        // Only the linked file shows what had the name at that moment.
        let linked = directory.stat(&staging).map_err(|error| {
            let _ = directory.remove_file(&staging);
            failure::of_tree(&error)
        })?;
        if !is_first(&linked) {
            let _ = directory.remove_file(&staging);
            return Ok(Err(Apart::Replaced));
        }
        let made = Made { identity: Some(file), form: Form::FurtherName, ..Made::unsynced(staging) };
        Ok(Ok(Self::new(directory, name, made)))
    }

    /// Item that is in place: `name` is a further name of `file` already and stays; `None` if it is
    /// not.
    pub(super) fn in_place(directory: &Directory, name: &Name, file: FileIdentity) -> Option<Self> {
        let stat = directory.stat(name).ok()?;
        let made = Made { identity: Some(file), form: Form::InPlace, ..Made::unsynced(name.clone()) };
        let is_there = stat.kind == Kind::File && FileIdentity::of(&stat) == file;
        is_there.then(|| Self::new(directory, name.clone(), made))
    }

    /// Staging name of the item, if that is still what this session has made.
    pub(super) fn own_name(&self) -> Result<&Name, Failure> {
        if self.is_ours() { Ok(&self.made.staging) } else { Err(self.not_ours()) }
    }

    /// Directory and staging name of a regular file, and its identity, for further names of it; `None`
    /// unless it is there.
    pub(super) fn as_first(&self) -> Option<((&Directory, &Name), FileIdentity)> {
        let name = self.own_name().ok()?;
        Some(((&self.directory, name), self.identity()?))
    }

    /// Failure of an item that is no longer under its staging name: another program took the name,
    /// or its directory was removed.
    fn not_ours(&self) -> Failure {
        let path = self.path();
        failure::of_removed(&self.directory, &path).unwrap_or_else(|| {
            let reason = "another program has replaced or removed what was written of it; run the same command again when \
                          that is through";
            format!("{path}: {reason}").into()
        })
    }

    /// Final path of the item, printable.
    pub(super) fn path(&self) -> String {
        self.directory.path_of(&self.name)
    }

    /// Whether the mode of the item could not be set.
    pub(super) fn lacks_mode(&self) -> bool {
        self.made.lacks_mode
    }

    /// Identity of the file; `None` if the item is not a file or needs none.
    pub(super) fn identity(&self) -> Option<FileIdentity> {
        self.made.identity
    }

    /// Gives the item its final name, in place of what may be `replaced`; `verified` is the digest to
    /// compare the medium with first.
    pub(super) fn rename(
        &self,
        item: &Item,
        verified: Option<FileDigest>,
        replaced: Replaced<'_>,
    ) -> Result<(), Failure> {
        let Self { directory, name, made } = self;
        self.own_name()?;
        if made.form == Form::InPlace {
            return Ok(());
        }
        if let (false, Some(FileDigest::Blake3(digest))) = (made.is_durable(), verified) {
            self.verify(item.size(), &digest)?;
        }
        let marks = self.marks_of_replaced(item);
        let kept_for_later = |failure: Failure| if made.is_durable() { failure.passing() } else { failure };
        if let Replaced::Nothing = replaced {
            // A name that is taken stays so: nothing is gained by keeping what lies beside it.
            return directory.rename_new(&made.staging, directory, name).map_err(|error| match error {
                TreeError::Exists { .. } => name_exists(&directory.path_of(name)),
                error => kept_for_later(failure::of_tree(&error)),
            });
        }
        if !matches!(replaced, Replaced::AllButDirectories) {
            refuse_special(directory, name, item)?;
        }
        let is_special = matches!(item.entry.kind, EntryKind::Special(_));
        let renamed = match replaced {
            // One of its own kind, which has no contents to keep; or a directory, over which it gets no name.
            Replaced::Kept(KeptState::Irreplaceable) if is_special => self.rename_over(),
            Replaced::Kept(before) => self.replace(before),
            Replaced::Nothing | Replaced::FilesAndLinks | Replaced::AllButDirectories => self.rename_over(),
        };
        renamed.map_err(kept_for_later)?;
        marks.iter().for_each(|mark| drop(directory.remove_file(mark)));
        Ok(())
    }

    /// Names of the journals that mark the file which the item replaces as inconsistent: what they are about goes.
    fn marks_of_replaced(&self, item: &Item) -> Vec<Name> {
        let is_large = item.size() > ByteCount::new(PACK_FILE_LIMIT);
        let replaced = if is_large { self.directory.stat(&self.name).ok() } else { None };
        let marks = replaced.map(|replaced| in_place::marks(&self.directory, &self.name, replaced.ino));
        marks.into_iter().flatten().collect()
    }

    /// Gives the item its final name in place of any file or link.
    fn rename_over(&self) -> Result<(), Failure> {
        let Self { directory, name, made } = self;
        directory.rename(&made.staging, directory, name).map_err(|error| match error {
            TreeError::IsADirectory { path, .. } => is_in_the_way(&path, "a directory"),
            error => failure::of_tree(&error),
        })?;
        if made.form == Form::FurtherName {
            // A rename onto a name of the same file does nothing and leaves the staging name
            // behind.
            staging::remove_if_there(directory, &made.staging).map_err(|error| failure::of_tree(&error))?;
        }
        Ok(())
    }

    /// Gives the item its final name in place of nothing but what is known to be kept.
    fn replace(&self, before: &KeptState) -> Result<(), Failure> {
        let Self { directory, name, made } = self;
        let rename_new = || {
            directory.rename_new(&made.staging, directory, name).map_err(|error| match error {
                TreeError::Exists { .. } => replaced_meanwhile(directory, name),
                error => failure::of_tree(&error),
            })
        };
        match before {
            KeptState::Nothing => rename_new(),
            KeptState::Irreplaceable => Err(is_in_the_way(&self.path(), "a directory")),
            KeptState::Kept(stat) => match exchange(directory, &made.staging, (name, stat))? {
                true => Ok(()),
                false => self.rename_over(),
            },
            KeptState::Unlinked(stat, above, backup) => {
                let moved = directory.rename(name, above, backup);
                moved.map_err(|error| unmoved((directory, name), (above, backup), &error))?;
                if !has_inode(above, backup, (stat.dev, stat.ino)) {
                    let _ = above.rename_new(backup, directory, name);
                    return Err(replaced_meanwhile(directory, name));
                }
                rename_new()
            }
        }
    }

    /// Final name of the item, with its directory, to be compared with other spellings.
    fn spelling(&self, item: &Item) -> Spelling<'_> {
        Spelling { directory: &self.directory, place: item.place.directory, name: &self.name }
    }

    /// Whether the item's final name may have another spelling in its directory.
    pub(super) fn has_other_spellings(&self, item: &Item, spellings: &mut Spellings) -> bool {
        spellings.may_differ(self.spelling(item), &self.made.staging)
    }

    /// Refuses to replace an item that this run has published or found under another spelling of
    /// the name. Returns the description of what lies under the staging name.
    pub(super) fn check_spelling(&self, item: &Item, spellings: &mut Spellings) -> Result<Stat, Failure> {
        let found = self.directory.stat(&self.name).ok();
        spellings.refuse_other(self.spelling(item), found.as_ref())?;
        self.directory.stat(&self.made.staging).map_err(|error| failure::of_tree(&error))
    }

    /// Notes that the staged item, described by `made`, has its final name.
    pub(super) fn note_spelling(&self, item: &Item, made: &Stat, spellings: &mut Spellings) {
        spellings.note(self.spelling(item), made);
    }

    /// Whether the item under the staging name is still the one that this session made. Another
    /// process that copies to the same place at the same time puts its own unfinished file there:
    /// that one must neither be published nor be removed.
    fn is_ours(&self) -> bool {
        let Some(identity) = self.made.identity else { return true };
        self.directory.stat(&self.made.staging).is_ok_and(|stat| identity.has_inode_of(&stat))
    }

    /// Whether the item has a staging name, and is still the one that this session has made.
    fn is_staged(&self) -> bool {
        self.made.form != Form::InPlace && self.is_ours()
    }

    /// Reads a small file back from the medium and compares it with size and digest.
    fn verify(&self, size: ByteCount, digest: &[u8; 32]) -> Result<(), String> {
        let (file, _) = self.directory.open_file(&self.made.staging).map_err(|error| error.to_string())?;
        let file = DiskFile::for_reading(file).map_err(|error| error.to_string())?;
        // The pages are clean after the flush, so they can be dropped: the read goes to the medium.
        file.forget_cache();
        let mut contents = vec![0; size.as_usize()];
        file.as_file().read_exact_at(&mut contents, 0).map_err(|error| format!("read back: {error}"))?;
        if blake3::hash(&contents).as_bytes() == digest {
            Ok(())
        } else {
            Err("what the medium gives back differs from what was written; check the disk".into())
        }
    }

    /// Whether the contents of the item need no flush and may have a journal.
    pub(super) fn is_durable(&self) -> bool {
        self.made.is_durable()
    }

    /// Removes the journal of the item's blocks, once it has its final name. A journal beside an
    /// unfinished file is that of another session, which has restarted the item meanwhile.
    ///
    /// # Errors
    /// The journal is still there.
    pub(super) fn remove_journal(&self) -> Result<(), TreeError> {
        match &self.made.durable {
            Some(Durable { journal: Some(journal), .. })
                if self.made.form == Form::InPlace || self.directory.stat(&self.made.staging).is_err() =>
            {
                staging::remove_if_there(&self.directory, journal)
            }
            _ => Ok(()),
        }
    }

    /// Removes the item with its journal: no later run can publish it.
    ///
    /// # Errors
    /// One of them is still there.
    pub(super) fn remove(&self) -> Result<(), TreeError> {
        if self.is_staged() {
            staging::remove_if_there(&self.directory, &self.made.staging)?;
            self.remove_journal()?;
        } else if self.made.form == Form::InPlace && !self.is_ours() {
            // What the journal is about is complete, and has this name no more.
            self.remove_journal()?;
        }
        Ok(())
    }

    /// Removes the item, unless a later run can publish it as it is.
    ///
    /// # Errors
    /// It is still there.
    pub(super) fn discard(&self) -> Result<(), TreeError> {
        let is_kept = self.made.durable.as_ref().is_some_and(|durable| durable.journal.is_some());
        match !is_kept && self.is_staged() {
            true => staging::remove_if_there(&self.directory, &self.made.staging),
            false => Ok(()),
        }
    }
}
