//! State of one item at the destination.

use icdc_disk::tree::{Directory, FileTime, Kind, Name, Stat as Found, file_user};
use icdc_protocol::block_journal::Header;
use icdc_protocol::block_map::{BlockMap, block_count};
use icdc_protocol::limits::MAX_FILE_SIZE;
use icdc_protocol::message::{EntryId, EntryKind, FileDigest, Preserve, Special};
use icdc_protocol::run_journal::ItemKey;
use icdc_session::receiver::book::item::{Item, ModificationTime};
use icdc_session::receiver::book::resume::facts::{Facts, Kind as StatKind, Lookup, PublishedBy, Stat};
use icdc_units::ByteCount;

use super::super::candidates::FoundFile;
use super::super::failure::{self, Failure};
use super::super::file_identity::FileIdentity;
use super::super::in_place;
use super::super::kept_times::KeptTimes;
use super::super::large_file::{Claimed, Continued};
use super::super::leftovers::{self, FileJournal};
use super::super::renames::Renames;
use super::super::run_log::RunLog;
use super::super::staging::{Purpose, Whose};
use super::super::waiting::WaitPolicy;
use crate::attribute_kinds::restored;
use crate::special;

/// Answers the book's questions about one item from the file system, when they are asked.
pub(super) struct Examiner<'a> {
    item: &'a Item,
    directory: &'a Directory,
    name: &'a Name,
    run: Option<&'a RunLog>,
    whose: Whose,
    waits: &'a dyn WaitPolicy,
    kept_times: &'a KeptTimes,
    preserve: Preserve,
    /// Directories in which the item's counterparts may be.
    references: &'a [Option<Directory>],
    /// Files that may have become the item; `None` where none is looked for.
    renames: Option<&'a Renames>,
    /// The file that has the item's name, as it was when its contents were compared.
    compared: Option<Found>,
    /// The file that is left alone and of which the item is a further name.
    first: Option<(EntryId, FileIdentity)>,
    ended: Option<BlockMap>,
    stat: Option<Option<Stat>>,
    /// Description of the item that has the name, if the file system was asked.
    pub(super) found: Option<Found>,
    /// Counterparts in reference directories, by the number of the directory.
    pub(super) counterparts: Vec<(usize, Found)>,
    /// The files that may have become the item; `None` if they are not known.
    pub(super) candidates: Option<Vec<FoundFile>>,
    /// Whether files at the destination may be described to the sender.
    describes_files: bool,
    /// Whether the sender finds content that has moved.
    finds_moved: bool,
    /// Whether the user has named a basis of the item.
    named_basis: bool,
    /// Size of the device into which the item is written; `None` where files are written.
    device: Option<ByteCount>,
    /// Place from which the sender continues a stream; `None` where streams are not kept unfinished.
    stream_from: Option<ByteCount>,
    /// Unfinished file of an earlier run that was claimed, or the existing file that is written at its place.
    pub(super) claimed: Option<Claimed>,
}

impl<'a> Examiner<'a> {
    /// Examiner of the item that is to get `name` in `directory`; `run` and `whose` belong to this
    /// session, and `waits` decides how long locks are waited for.
    pub(super) fn of(
        item: &'a Item,
        (directory, name): (&'a Directory, &'a Name),
        (run, whose): (Option<&'a RunLog>, Whose),
        waits: &'a dyn WaitPolicy,
        kept_times: &'a KeptTimes,
    ) -> Self {
        Self {
            item,
            directory,
            name,
            run,
            whose,
            waits,
            kept_times,
            preserve: Preserve::NOTHING,
            references: &[],
            renames: None,
            compared: None,
            first: None,
            ended: None,
            stat: None,
            found: None,
            counterparts: Vec::new(),
            candidates: None,
            claimed: None,
            describes_files: false,
            finds_moved: false,
            named_basis: false,
            device: None,
            stream_from: None,
        }
    }

    /// This examiner with the attributes that are restored.
    pub(super) fn preserving(self, preserve: Preserve) -> Self {
        Self { preserve, ..self }
    }

    /// This examiner with the directories in which the item's counterparts may be.
    pub(super) fn with_references(self, references: &'a [Option<Directory>]) -> Self {
        Self { references, ..self }
    }

    /// This examiner with the files that may have become the item.
    pub(super) fn with_renames(self, renames: &'a Renames) -> Self {
        Self { renames: Some(renames), ..self }
    }

    /// This examiner with the file that is left alone and of which the item is a further name.
    pub(super) fn with_first(self, first: Option<(EntryId, FileIdentity)>) -> Self {
        Self { first, ..self }
    }

    /// This examiner, where files at the destination may be described to the sender.
    pub(super) fn describing_files(self, describes_files: bool) -> Self {
        Self { describes_files, ..self }
    }

    /// This examiner, where the sender finds content that has moved, and the user has named a basis.
    pub(super) fn finding_moved(self, finds_moved: bool, named_basis: bool) -> Self {
        Self { finds_moved, named_basis, ..self }
    }

    /// This examiner, where the item is written into a device of this size.
    pub(super) fn into_device(self, device: Option<ByteCount>) -> Self {
        Self { device, ..self }
    }

    /// This examiner, where the sender continues a stream from this place.
    pub(super) fn continuing(self, stream_from: Option<ByteCount>) -> Self {
        Self { stream_from, ..self }
    }

    /// This examiner with the file that was compared with the item.
    pub(super) fn with_compared(self, compared: Option<Found>) -> Self {
        Self { compared, ..self }
    }
}

/// Converts the attributes of an existing file to the form by which the book decides about an item.
pub(super) fn attributes(found: &Found) -> Stat {
    let kind = match found.kind {
        Kind::File => StatKind::File,
        Kind::Directory => StatKind::Directory,
        Kind::Symlink => StatKind::Symlink,
        Kind::Other(what) => StatKind::Other(what),
    };
    Stat {
        kind,
        size: ByteCount::new(found.size),
        mtime: ModificationTime { seconds: found.mtime.seconds, nanos: found.mtime.nanos },
        mode: found.mode,
        owner: (found.uid, found.gid),
        names: found.nlink,
    }
}

/// Header of the journal of an item's durable blocks: version, size and name of the item.
pub(super) fn header(item: &Item, name: &Name) -> Header {
    let version = match item.entry.kind {
        EntryKind::File { version, .. } => version,
        _ => [0; 16],
    };
    let size = match item.entry.kind {
        EntryKind::Stream => MAX_FILE_SIZE,
        _ => item.size().as_u64(),
    };
    Header { version, size, path: *blake3::hash(name.as_bytes()).as_bytes() }
}

impl Facts for Examiner<'_> {
    fn describes_files(&self) -> bool {
        self.describes_files
    }

    fn finds_moved(&self) -> bool {
        self.finds_moved
    }

    fn has_named_basis(&mut self) -> bool {
        self.named_basis
    }

    fn device(&self) -> Option<ByteCount> {
        self.device
    }

    fn stat(&mut self) -> Option<Stat> {
        *self.stat.get_or_insert_with(|| {
            let found = self.directory.stat(self.name).ok()?;
            self.found = Some(found);
            Some(attributes(&found))
        })
    }

    fn shown_time(&mut self, wanted: ModificationTime) -> ModificationTime {
        let time = |time: ModificationTime| FileTime { seconds: time.seconds, nanos: time.nanos };
        let found = self.stat().map(|stat| time(stat.mtime));
        let place = (self.directory, self.item.place.directory.device);
        let FileTime { seconds, nanos } = self.kept_times.shown(place, time(wanted), found);
        ModificationTime { seconds, nanos }
    }

    fn special(&mut self) -> Option<Special> {
        self.stat()?;
        self.found.as_ref().and_then(special::of)
    }

    fn link_target(&mut self) -> Option<Vec<u8>> {
        self.directory.read_link(self.name).ok()
    }

    fn shown(&self) -> String {
        self.directory.path_of(self.name)
    }

    fn published(&mut self, key: &ItemKey) -> Option<(FileDigest, PublishedBy)> {
        self.run?.published(key)
    }

    fn journals_without_part(&mut self) -> Vec<BlockMap> {
        let header = header(self.item, self.name);
        let left = Purpose::item(self.name, self.whose).found_again().into_iter();
        let renamed = left.filter(|staging| self.directory.stat(&staging.part()).is_err());
        let journals = renamed.filter_map(|staging| FileJournal::find(self.directory, staging, &header));
        journals.map(|(_, held)| held).collect()
    }

    fn claim_part(&mut self, cleared: bool) -> Result<Option<BlockMap>, Failure> {
        let Self { item, directory, name, whose, waits, .. } = self;
        let header = header(item, name);
        let left = leftovers::find_part(directory, name, *whose, &header, *waits)?;
        if left.has_waited {
            self.stat = None;
        }
        self.ended = left.ended;
        let Some((staging, file)) = left.part else {
            return Ok(None);
        };
        let Some((journal, held)) = FileJournal::find(directory, staging, &header) else { return Ok(None) };
        if cleared && !leftovers::punch_missing_blocks(&file, &held).is_ok_and(|cleared| cleared) {
            return Ok(None);
        }
        self.claimed = Some(Claimed::Part(Continued { staging, file, journal }));
        Ok(Some(held))
    }

    fn is_torn(&mut self) -> bool {
        self.stat();
        self.found.is_some_and(|found| in_place::is_torn(self.directory, self.name, &found))
    }

    fn claim_in_place(&mut self, is_dry: bool) -> Result<Option<BlockMap>, Failure> {
        let header = header(self.item, self.name);
        if !is_dry {
            // What an earlier run was to replace it with takes room, and is not needed.
            let left = leftovers::find_part(self.directory, self.name, self.whose, &header, self.waits)?;
            left.part.iter().for_each(|(staging, _)| leftovers::discard(self.directory, *staging));
        }
        let owner = self.item.entry.owner.filter(|_| self.preserve.owner).map(|(user, _)| user);
        let target = in_place::Target { directory: self.directory, name: self.name, owner };
        let (found, held) = in_place::claim(&target, &header, self.waits, is_dry)?;
        self.claimed = (!is_dry).then_some(Claimed::InPlace(found));
        Ok(held)
    }

    fn claim_stream(&mut self) -> Result<Option<BlockMap>, Failure> {
        let Some(from) = self.stream_from.filter(|from| !from.is_zero()) else { return Ok(None) };
        let held = self.claim_part(false)?;
        let path = self.shown();
        let mut first = BlockMap::new(MAX_FILE_SIZE);
        for (index, value) in held.iter().flat_map(BlockMap::iter).take(block_count(from.as_u64()) as usize) {
            if index != first.count() || first.insert(index, value).is_err() {
                break;
            }
        }
        let (Some(Claimed::Part(claimed)), true) = (&mut self.claimed, first.bytes() == from.as_u64()) else {
            self.claimed = None;
            let from = from.as_u64();
            return Err(Failure::Passing(match first.bytes() {
                0 => format!(
                    "{path}: no unfinished stream is there to be continued from {from}: the one before has ended, and has its name, or \
                     nothing of it was kept; begin anew with --resume-stream 0"
                ),
                there => format!(
                    "{path}: {there} bytes of the unfinished stream are there, and not {from}; continue it from {there}, or begin anew \
                     with --resume-stream 0"
                ),
            }));
        };
        claimed.journal.keep_first(first.count()).map_err(|error| failure::of_disk(&path, "write", &error))?;
        Ok(Some(first))
    }

    fn ended_part(&mut self) -> Option<BlockMap> {
        self.ended.take()
    }

    fn references(&self) -> usize {
        self.references.len()
    }

    fn reference(&mut self, number: usize) -> Option<Stat> {
        let found = self.references.get(number)?.as_ref()?.stat(self.name).ok()?;
        self.counterparts.push((number, found));
        Some(attributes(&found))
    }

    fn has_xattrs(&mut self, reference: Option<usize>) -> bool {
        let directory = match reference {
            Some(number) => self.references.get(number).and_then(Option::as_ref),
            None => Some(self.directory),
        };
        let Some((directory, (file, _))) = directory.and_then(|found| Some((found, found.open_file(self.name).ok()?)))
        else {
            return false;
        };
        let mut wanted = self.item.entry.xattrs.clone();
        wanted.sort();
        let kinds = restored(self.preserve);
        directory.xattrs(self.name, &file, kinds).is_ok_and(|found| found.carried == wanted)
    }

    fn is_further_name(&mut self, first: EntryId) -> bool {
        self.stat();
        let found = self.found.filter(|found| found.kind == Kind::File).as_ref().map(FileIdentity::of);
        found.is_some_and(|found| self.first == Some((first, found)))
    }

    fn is_as_compared(&mut self) -> bool {
        self.stat();
        self.found.zip(self.compared).is_some_and(|(found, compared)| found.same_version(&compared))
    }

    fn user(&self) -> u32 {
        file_user()
    }

    fn candidates(&mut self) -> Lookup {
        let Some(renames) = self.renames else { return Lookup::Nothing };
        let wanted = ModificationTime::of(&self.item.entry);
        let time = |ModificationTime { seconds, nanos }| FileTime { seconds, nanos };
        let times = [wanted, self.shown_time(wanted)].map(time);
        self.candidates = renames.find(self.name, self.item.size().as_u64(), times);
        renames.lookup(self.candidates.as_deref())
    }
}
