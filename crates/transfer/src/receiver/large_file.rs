//! The files of one large item: its data and its journal, open and locked; or the device that it is
//! written into.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use icdc_disk::tree::{Directory, Metadata, Name, umask};
use icdc_disk::{DiskFile, sparse};
use icdc_protocol::Features;
use icdc_protocol::block_journal::Header;
use icdc_protocol::block_map::{block_count, block_offset};
use icdc_protocol::limits::{BLOCK_SIZE, LEAF_SIZE, MAX_FILE_SIZE};
use icdc_protocol::message::{Digest, Entry, EntryId, EntryKind, Message, ReceiveOptions, Streamed};
use icdc_session::SessionError;
use icdc_session::receiver::files::{Length, Opened};
use icdc_units::ByteCount;

use super::bases::OwnContents;
use super::differing::{Piece, differing};
use super::failure::{self, Failure};
use super::file_identity::Occupant;
use super::in_place::{FoundInPlace, MarkedFile, Writing, clear_holes};
use super::leftovers::{self, FileJournal, MadeFiles};
use super::publishing::Made;
use super::restored_metadata::{metadata, restore};
use super::shared::Shared;
use super::staging::{Purpose, Staging};
use super::waiting::{LockWait, Locked};
use crate::event::Event;
use crate::path_text;

/// File that an examination has claimed for a large item.
pub(super) enum Claimed {
    /// An unfinished file of an earlier run.
    Part(Continued),
    /// The existing file into which it is written.
    InPlace(FoundInPlace),
}

/// Part file and journal that an earlier run has left of an item, locked.
pub(super) struct Continued {
    pub(super) staging: Staging,
    pub(super) file: File,
    pub(super) journal: FileJournal,
}

/// Plan for receiving a large file, before any of its files is opened.
pub(super) struct Plan {
    pub(super) id: EntryId,
    entry: Entry,
    directory: Directory,
    name: Name,
    header: Header,
    locked: Locked,
    /// Occupant of the name when the contents were requested.
    found: Occupant,
    continued: Option<Continued>,
    in_place: Option<InPlace>,
}

/// Plan for writing a large file into the existing one that has its name.
struct InPlace {
    found: FoundInPlace,
    /// Path of the item below the destination.
    path: Vec<u8>,
    /// Whether blocks that an earlier run has left are kept.
    continues: bool,
}

impl Plan {
    /// Plan for the file `name` in `directory`, described by `entry`, whose contents are about to be
    /// requested; `locked` is the extent of its lock.
    pub(super) fn new(entry: Entry, directory: Directory, name: Name, header: Header, locked: Locked) -> Self {
        let found = Occupant::of(&directory, &name);
        Self { id: entry.id, entry, directory, name, header, locked, found, continued: None, in_place: None }
    }

    /// Makes the plan continue the part file that an earlier run left.
    pub(super) fn continue_with(&mut self, continued: Continued) {
        self.continued = Some(continued);
    }

    /// Makes the plan write into the existing file that was found, the item at `path` below the destination;
    /// `continues`: blocks that an earlier run has left there are kept.
    pub(super) fn write_in_place(&mut self, found: FoundInPlace, path: Vec<u8>, continues: bool) {
        self.in_place = Some(InPlace { found, path, continues });
    }

    /// Whether the file is written into what has its name: a file, or a device.
    pub(super) fn is_in_place(&self, shared: &Shared<'_>) -> bool {
        self.in_place.is_some() || shared.device.get().is_some()
    }

    /// Whether an unfinished file is there, or its journal, that would be replaced.
    pub(super) fn has_remains(&self, shared: &Shared<'_>) -> bool {
        let is_there = |name: Name| self.directory.stat(&name).is_ok();
        let stagings = Purpose::item(&self.name, shared.whose()).found_again();
        self.in_place.is_none() && stagings.into_iter().any(|of| is_there(of.part()) || is_there(of.blocks()))
    }

    /// Length of the complete file.
    pub(super) fn length(&self) -> Length {
        match self.entry.kind {
            EntryKind::Stream => Length::Stream,
            _ => Length::Known(ByteCount::new(self.header.size)),
        }
    }

    /// Whether the file may have holes.
    pub(super) fn is_sparse(&self) -> bool {
        matches!(self.entry.kind, EntryKind::File { sparse: true, .. })
    }

    /// Final path of the file, printable, for messages.
    pub(super) fn path(&self) -> String {
        self.directory.path_of(&self.name)
    }

    /// Makes the part file and its journal, replacing what has their names. The bool is true if
    /// another session's lock was waited for, or if the sender has gone: a newer run may have
    /// completed the file by then, even where no lock shows it.
    fn begin(&self, shared: &Shared<'_>) -> Result<(Unfinished, bool), Failure> {
        let Self { directory, name, header, locked, .. } = self;
        let shown = self.path();
        let is_found_again = match self.length() {
            Length::Known(size) => size > ByteCount::from(BLOCK_SIZE),
            Length::Stream => shared.stream_from.get().is_some(),
        };
        let is_journaled = is_found_again && shared.options.diskless.is_none() && shared.order.output.is_none();
        let mut has_waited = false;
        for _ in 0..leftovers::CLAIMS {
            // One that another process is writing must not be taken away from it.
            let waiting = LockWait::of(shared, *locked);
            let left = leftovers::find_part(directory, name, shared.whose(), header, &waiting)?;
            has_waited |= left.has_waited;
            // What has these names may be a newer run's by now, which continues with it.
            if (has_waited || left.part.is_some()) && shared.link.is_hung_up() {
                return Err(abandoned(
                    shared,
                    &shown,
                    "the sender closed the connection before the file was begun anew",
                ));
            }
            let part = left.part.as_ref().map(|(_, file)| file);
            let made = leftovers::make_files(directory, name, shared.whose(), part, is_journaled)
                .map_err(|failure| failure::of_removed(directory, &shown).unwrap_or(failure))?;
            let Some(MadeFiles { file, journal, staging }) = made else {
                has_waited = true;
                continue;
            };
            let journal = journal.map(|file| FileJournal::begin(file, header, &shown)).transpose();
            let journal = journal.inspect_err(|_| leftovers::discard(directory, staging))?;
            if journal.is_some() && self.length() == Length::Stream {
                directory.sync().map_err(|error| Failure::Passing(error.to_string()))?;
            }
            return Ok((Unfinished { staging, file, journal }, has_waited || shared.link.is_hung_up()));
        }
        Err(leftovers::busy(&shown, None).into())
    }
}

/// Ends the session, whose sender has gone, for this reason; the failure of the item at `path`, which was not
/// begun.
fn abandoned(shared: &Shared<'_>, path: &str, reason: &str) -> Failure {
    shared.fail(SessionError::Cut(reason.to_owned()));
    Failure::Passing(format!("{path}: {reason}"))
}

/// Part file of an unfinished item, with its journal.
struct Unfinished {
    staging: Staging,
    file: File,
    journal: Option<FileJournal>,
}

/// Where the data of a large file are until it is complete.
enum Place {
    /// In a part file, beside which there may be a journal.
    Part { staging: Staging, journal: Option<FileJournal>, origin: Origin },
    /// Where they stay: in the device that is the destination.
    Device,
    /// Where they stay: in the existing file that has the name.
    File(MarkedFile),
}

/// Origin of a part file: what it has where nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// It was made: it has zeros.
    Made,
    /// It is a clone of the file that is replaced, whose contents, of this length, it has.
    Cloned { length: ByteCount },
    /// An earlier run has left it: it may have been a clone.
    Continued,
}

/// A large file that is received: where its data are, and its final name.
pub(super) struct LargeFile {
    entry: Entry,
    directory: Directory,
    name: Name,
    place: Place,
    /// Length of the complete file; zero of a stream that has not ended.
    size: ByteCount,
    disk: Arc<DiskFile>,
}

impl LargeFile {
    /// Opens or makes the part file and its journal, and reserves the space; takes the device where the
    /// file is written into one.
    pub(super) fn open(mut plan: Plan, shared: &Shared<'_>) -> Result<(Self, Opened), Failure> {
        match (shared.device.get(), plan.in_place.take()) {
            (Some(device), _) => Self::in_device(plan, device.disk().clone()),
            (None, Some(in_place)) => Self::in_file(plan, in_place, shared),
            (None, None) => Self::open_part(plan, shared),
        }
    }

    /// The file as it is written into the existing one, which is marked as inconsistent from then on; tells the
    /// user so.
    fn in_file(plan: Plan, in_place: InPlace, shared: &Shared<'_>) -> Result<(Self, Opened), Failure> {
        let (path, sparse) = (plan.path(), plan.is_sparse());
        let Plan { id, entry, directory, name, header, .. } = plan;
        let InPlace { found, path: below, continues } = in_place;
        if shared.link.is_hung_up() {
            // A newer run may have completed it by now.
            return Err(abandoned(shared, &path, "the sender closed the connection before the file was begun"));
        }
        let mode = metadata(&entry, shared.options).mode;
        let (file, marked) =
            found.begin(&Writing { directory: &directory, name: &name, header: &header, mode, continues })?;
        let present = marked.length();
        let disk = for_writing(file, shared.options)?;
        let size = ByteCount::new(header.size);
        let file = Self { entry, directory, name, place: Place::File(marked), size, disk };
        if continues {
            // What an earlier run has left counts only as far as the medium has it.
            file.disk.forget_cache();
        }
        if present < size && !sparse {
            file.reserve(present, false).inspect_err(|_| file.close(true))?;
        }
        (shared.events)(Event::InPlace { path: path_text(&below) });
        if shared.peer().has(Features::IN_PLACE) {
            shared.reply(Message::InPlace { id });
        }
        Ok((file, Opened { journaled: true, needs_sender: false }))
    }

    /// The file as it is written into a device, which was claimed when the session began.
    fn in_device(plan: Plan, disk: Arc<DiskFile>) -> Result<(Self, Opened), Failure> {
        let Length::Known(size) = plan.length() else {
            return Err(format!("{}: a stream cannot be written into a device", plan.path()).into());
        };
        let Plan { entry, directory, name, .. } = plan;
        let file = Self { entry, directory, name, place: Place::Device, size, disk };
        Ok((file, Opened { journaled: false, needs_sender: false }))
    }

    /// Opens or makes the part file and its journal, and reserves the space.
    fn open_part(mut plan: Plan, shared: &Shared<'_>) -> Result<(Self, Opened), Failure> {
        let continued = plan.continued.take();
        let is_continued = continued.is_some();
        let (unfinished, has_waited) = match continued {
            Some(Continued { staging, file, journal }) => (Unfinished { staging, file, journal: Some(journal) }, false),
            None => plan.begin(shared)?,
        };
        let (length, sparse) = (plan.length(), plan.is_sparse());
        // The lock keeps newer runs from the name from now on, but one may have given it to a newer version.
        let needs_sender = has_waited || Occupant::of(&plan.directory, &plan.name) != plan.found;
        let Plan { id, entry, directory, name, .. } = plan;
        let Unfinished { staging, file, journal } = unfinished;
        let disk = for_writing(file, shared.options)?;
        let size = match length {
            Length::Known(size) => size,
            Length::Stream => ByteCount::ZERO,
        };
        let journaled = journal.is_some();
        let is_filled = shared.options.diskless.is_none() && shared.order.output.is_none();
        let origin = if is_continued {
            Origin::Continued
        } else {
            let cloned = if is_filled { shared.bases.clone_into(id, disk.as_file()) } else { Ok(None) };
            let cloned = cloned.map_err(|error| failure::of_disk(&directory.path_of(&name), "clone", &error));
            let cloned = cloned.inspect_err(|_| leftovers::discard(&directory, staging))?;
            cloned.map_or(Origin::Made, |length| Origin::Cloned { length })
        };
        let file = Self { entry, directory, name, place: Place::Part { staging, journal, origin }, size, disk };
        if is_continued {
            // What an earlier run has left counts only as far as the medium has it.
            file.disk.forget_cache();
        }
        let present = match origin {
            // Only what is behind a clone needs room for certain.
            Origin::Cloned { length } => length,
            Origin::Made | Origin::Continued => ByteCount::ZERO,
        };
        file.reserve(present, sparse || !is_filled).inspect_err(|_| file.close(is_continued))?;
        Ok((file, Opened { journaled, needs_sender }))
    }

    /// Sets the length of the file, and reserves disk space behind the `present` bytes that it has, unless it is to
    /// be made `with_holes`.
    fn reserve(&self, present: ByteCount, with_holes: bool) -> Result<(), Failure> {
        let size = self.size.as_u64();
        let reserved = match with_holes || present > self.size {
            true => self.disk.set_len(size),
            false => self.disk.preallocate(present.as_u64()..size).map(drop),
        };
        reserved.map_err(|error| {
            if error.is_out_of_space() {
                let (path, size) = (self.path(), self.size.as_u64());
                Failure::Passing(format!(
                    "{path}: no room for its {size} bytes; make room and run the same command again"
                ))
            } else {
                Failure::Passing(error.to_string())
            }
        })
    }

    /// Length of the complete file; of a stream that has not ended, the most that it may have.
    pub(super) fn size(&self) -> ByteCount {
        if self.entry.kind == EntryKind::Stream { ByteCount::new(MAX_FILE_SIZE) } else { self.size }
    }

    /// Final path of the file, printable, for messages.
    pub(super) fn path(&self) -> String {
        self.directory.path_of(&self.name)
    }

    pub(super) fn disk_file(&self) -> &Arc<DiskFile> {
        &self.disk
    }

    /// Appends durable blocks (index and digest) to the file's journal, if it has one.
    pub(super) fn note(&mut self, blocks: &[(u32, Digest)]) -> Result<(), Failure> {
        let journal = match &mut self.place {
            Place::Part { journal: Some(journal), .. } => journal,
            Place::File(marked) => marked.journal(),
            Place::Part { journal: None, .. } | Place::Device => return Ok(()),
        };
        let noted = journal.append(blocks).and_then(|()| match self.entry.kind {
            // A producer begins where the journal says: what it has is a promise.
            EntryKind::Stream => journal.sync(),
            _ => Ok(()),
        });
        noted.map_err(|error| failure::of_disk(&self.path(), "write", &error))
    }

    /// Part of a block, whose data are in these ranges, that is to be written. What is equal in the existing file into
    /// which it is written, or in a clone of it, stays as it is, unless files travel whole, and what that has in
    /// holes of the source is cleared.
    pub(super) fn prepare_write(
        &mut self,
        index: u32,
        (data, ranges, gaps): (&[u8], Vec<(u32, u32)>, Gaps),
        options: &ReceiveOptions,
    ) -> Result<ToWrite, Failure> {
        if gaps == Gaps::Kept && ranges.is_empty() {
            return Ok(ToWrite::Nothing);
        }
        if let Place::File(marked) = &mut self.place {
            marked.changes();
        }
        let compares = match (&self.place, gaps) {
            (_, Gaps::Kept) | (Place::Part { origin: Origin::Made, .. }, _) => return Ok(ToWrite::Ranges(ranges)),
            // Zeros between the ranges are written, too: old contents must not show.
            (Place::Device, _) => return Ok(ToWrite::Ranges(Vec::new())),
            // What travels whole was not compared, or differs.
            (Place::Part { .. }, _) => gaps == Gaps::Filled,
            (Place::File(_), _) => !options.whole_files,
        };
        let piece = Piece { offset: block_offset(index), data, ranges: &ranges };
        let found = differing(&self.disk, &piece, compares);
        let found = found.map_err(|error| failure::of_disk(&self.path(), "clear holes", &error))?;
        Ok(if found.is_empty() { ToWrite::Nothing } else { ToWrite::Ranges(found) })
    }

    /// Contents that the file has where nothing was written, if it is compared with them.
    pub(super) fn own_contents(&self) -> Option<OwnContents> {
        let length = match &self.place {
            Place::Part { origin: Origin::Cloned { length }, .. } => *length,
            Place::Part { origin: Origin::Made | Origin::Continued, .. } => return None,
            Place::File(marked) => marked.length(),
            Place::Device => self.size,
        };
        Some(OwnContents { disk: self.disk.clone(), length })
    }

    /// Sets length and metadata of the file, those of a stream as it has `streamed` them; false if it could
    /// not be given its mode. What it may have in the `holes` of the source, from before it was written, is cleared
    /// first.
    pub(super) fn finish(
        &mut self,
        streamed: Option<Streamed>,
        holes: &[Range<u32>],
        options: &ReceiveOptions,
    ) -> Result<bool, Failure> {
        if let Some(streamed) = streamed {
            streamed.describe(&mut self.entry);
            self.size = ByteCount::new(streamed.size);
        }
        let (staging, origin) = match &mut self.place {
            // A device has its own length and attributes.
            Place::Device => return Ok(true),
            Place::File(marked) => {
                marked.changes();
                return self.finish_in_place(holes, options);
            }
            Place::Part { staging, origin, .. } => (*staging, *origin),
        };
        if origin != Origin::Made {
            clear_holes(&self.disk, holes, self.size.as_u64())
                .map_err(|error| failure::of_disk(&self.path(), "clear holes", &error))?;
        }
        self.disk.set_len(self.size.as_u64()).map_err(|error| Failure::Passing(error.to_string()))?;
        let wanted = metadata(&self.entry, options);
        let (name, file) = (staging.part(), self.disk.as_file());
        let set = |wanted: &Metadata<'_>| restore(wanted, |wanted| self.directory.set_metadata(&name, file, wanted));
        // It was made for this user alone.
        let made = match wanted.mode {
            Some(_) => Ok(true),
            None => set(&Metadata { mode: Some(self.directory.new_file_mode(umask())), ..Metadata::default() }),
        };
        made.and_then(|has_mode| Ok(set(&wanted)? && has_mode)).map_err(|error| failure::of_tree(&error))
    }

    /// Makes what was written into an existing file durable, cuts what it has behind the end, and sets its
    /// metadata; false if it could not be given its mode.
    fn finish_in_place(&self, holes: &[Range<u32>], options: &ReceiveOptions) -> Result<bool, Failure> {
        let (size, file) = (self.size.as_u64(), self.disk.as_file());
        let failed = |call: &'static str| move |error: io::Error| failure::of_disk(&self.path(), call, &error);
        clear_holes(&self.disk, holes, size).map_err(failed("clear holes"))?;
        // Nothing of the old contents goes, and no time says that all is there, before it is.
        file.sync_data().map_err(failed("flush"))?;
        self.disk.set_len(size).map_err(|error| Failure::Passing(error.to_string()))?;
        let wanted = metadata(&self.entry, options);
        let amend = |wanted: &Metadata<'_>| self.directory.amend(&self.name, file, wanted).map(drop);
        restore(&wanted, amend).map_err(|error| failure::of_tree(&error))
    }

    /// Drops clean pages from the page cache, so that reads go to the medium; returns the ranges
    /// of blocks that may hold data (outside of them the medium holds nothing).
    pub(super) fn find_data(&self) -> Result<Vec<Range<u32>>, Failure> {
        self.disk.forget_cache();
        if self.is_in_device() {
            return Ok(std::iter::once(0..block_count(self.size.as_u64())).collect());
        }
        let block = BLOCK_SIZE as u64;
        let blocks = |(offset, length): (u64, u64)| (offset / block) as u32..(offset + length).div_ceil(block) as u32;
        let data = sparse::data_ranges(self.disk.as_file(), self.size.as_u64()).map(|range| range.map(blocks));
        data.collect::<Result<_, _>>().map_err(|error| failure::of_disk(&self.path(), "read", &error))
    }

    /// The complete file, ready to be published, of which `unsynced` bytes are not durable.
    pub(super) fn made(&self, unsynced: ByteCount) -> Result<Made, Failure> {
        let made = match &self.place {
            Place::Device => Ok(Made::in_device(self.name.clone(), self.disk.clone())),
            Place::File(marked) => Made::in_place(self.name.clone(), marked.staging().blocks(), self.disk.clone()),
            Place::Part { staging, .. } if self.size > ByteCount::from(BLOCK_SIZE) => {
                Made::durable(*staging, self.disk.clone())
            }
            Place::Part { staging, .. } => Made::file(staging.part(), self.disk.as_file(), unsynced),
        };
        made.map_err(Failure::from)
    }

    /// Closes the file: leaves it on the disk if `keep`, and removes it otherwise. An existing file into which it
    /// was written stays.
    pub(super) fn close(&self, keep: bool) {
        match (&self.place, keep) {
            (Place::Part { staging, .. }, false) => leftovers::discard(&self.directory, *staging),
            (Place::File(marked), _) => marked.leave(&self.directory, self.disk.as_file()),
            (Place::Part { .. }, true) | (Place::Device, _) => {}
        }
    }

    /// Whether the file is written into a device.
    pub(super) fn is_in_device(&self) -> bool {
        matches!(self.place, Place::Device)
    }

    /// This failure of the file, with what is inconsistent now.
    pub(super) fn inconsistent(&self, failure: Failure) -> Failure {
        match &self.place {
            Place::Device => failure::inconsistent(failure, "device"),
            Place::File(marked) if marked.is_inconsistent() => failure::inconsistent(failure, "file"),
            Place::File(_) | Place::Part { .. } => failure,
        }
    }
}

/// A file in which blocks, or leaves of them, are written.
fn for_writing(file: File, options: &ReceiveOptions) -> Result<Arc<DiskFile>, Failure> {
    let disk = DiskFile::for_writing(file).map_err(|error| error.to_string())?;
    // What is beside a leaf that is written stays.
    let is_coarse = disk.alignment().is_some_and(|alignment| alignment > LEAF_SIZE);
    Ok(Arc::new(disk.through_page_cache(options.buffered || is_coarse)))
}

/// Contents of a block between its data ranges, and where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gaps {
    /// Holes: zeros.
    Holes,
    /// None: it has no gaps, and was put together from a file at the destination.
    Filled,
    /// Contents that the file into which it is written has there, in whole leaves; in memory, anything.
    Kept,
}

/// Part of a block that is to be written to its file.
pub(super) enum ToWrite {
    /// Nothing: the file has all of it.
    Nothing,
    /// These ranges (offset, length); all of it if there are none.
    Ranges(Vec<(u32, u32)>),
}
