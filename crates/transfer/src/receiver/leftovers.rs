//! What an interrupted run leaves behind, and how the next one finds it.
//!
//! Beside a large file: `.icdc-ID.part` (its data so far) and `.icdc-ID.blocks` (which blocks of it
//! are durable); `ID` follows from the final name, and from the user where somebody else holds that
//! one (`staging.rs`), so a later run of any kind finds it. In the directory where the first source
//! lands: `.icdc-ID.run`, what the run has published so far.
//!
//! Who writes a part file of more than one block or a run's journal holds its lock until the file
//! has its last name. A session that ends slowly and the one that goes on after it may be two
//! processes: whoever comes later waits, and looks again whether the name still means the file
//! whose lock it got.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use icdc_disk::sparse;
use icdc_disk::tree::{Directory, Metadata, Name, StagingKind, Stat, TreeError, file_user, try_lock};
use icdc_protocol::block_journal::{self, BlockJournal, Header};
use icdc_protocol::block_map::{BlockMap, block_offset};
use icdc_protocol::message::{Digest, FileDigest, TransferId};
use icdc_protocol::run_journal::{Published, Record, RunJournal, SLOT_LENGTH};
use icdc_session::receiver::book::resume::PublishedBy;
use icdc_units::Span;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use super::failure::{self, Failure};
use super::holder::{Holder, holder};
use super::staging::{Purpose, Staging, Whose, make_under, short};
use crate::clock;

/// How long a lock of an earlier session that is coming to its end is waited for.
const LOCK_PATIENCE: Span = Span::from_secs(30);
/// How often a file may be replaced while its lock is waited for.
const CLAIMS: u32 = 3;
/// What lies beside an unfinished item.
const BESIDE: [StagingKind; 2] = [StagingKind::Part, StagingKind::Blocks];

/// How often it is looked whether a lock is free. A thread that waits in `flock` itself can be woken
/// by nothing but a signal, and no other event tells of a lock that is free on every file system.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Tells whether the session has failed, so that nothing is worth waiting for.
pub(super) type HasFailed<'a> = &'a dyn Fn() -> bool;

/// Takes the lock of a file that an earlier session may still hold for a moment. True if it had to
/// wait.
pub(super) fn lock(file: &File, what: &str, has_failed: HasFailed<'_>) -> io::Result<bool> {
    let deadline = clock::now() + LOCK_PATIENCE;
    let mut has_waited = false;
    while !try_lock(file)? {
        if clock::now() >= deadline || has_failed() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, busy(what, holder(file))));
        }
        has_waited = true;
        std::thread::park_timeout(LOOK_AGAIN);
    }
    Ok(has_waited)
}

fn busy(what: &str, holder: Option<Holder>) -> String {
    let who = holder.map_or(String::new(), |holder| format!(" ({holder})"));
    format!("{what}: another icdc{who} is writing it; wait for its end or stop it")
}

/// What an earlier session has left under a name.
pub(super) struct Claimed {
    /// Locked; `None` if there is nothing, or nothing any more.
    pub(super) file: Option<File>,
    /// An earlier session has held it until just now.
    pub(super) has_waited: bool,
}

/// Takes the file with the staging name `name`, if there is one: its earlier holder has come to its
/// end.
pub(super) fn claim(
    directory: &Directory,
    name: &Name,
    what: &str,
    has_failed: HasFailed<'_>,
) -> Result<Claimed, String> {
    let mut has_waited = false;
    for _ in 0..CLAIMS {
        let Ok((file, _)) = directory.reopen_file(name) else { return Ok(Claimed { file: None, has_waited }) };
        has_waited |= lock(&file, what, has_failed).map_err(|error| error.to_string())?;
        let claimed = Stat::of(&file).map_err(|error| format!("{what}: its size and time cannot be read: {error}"))?;
        if is_still_named(directory, name, &claimed) {
            return Ok(Claimed { file: Some(file), has_waited });
        }
        // Published or removed while the lock was waited for.
    }
    Err(busy(what, None))
}

/// Whether the name means this file.
fn is_still_named(directory: &Directory, name: &Name, file: &Stat) -> bool {
    directory.stat(name).is_ok_and(|stat| (stat.dev, stat.ino) == (file.dev, file.ino))
}

/// True if what the journal `stat`, found as `name`, says may be believed: it belongs to this user, others
/// may not write to it, and it has exactly this name. By another one that the file system takes for the same
/// it may be what somebody has copied here who may make no journal.
fn is_believed(directory: &Directory, name: &Name, stat: &Stat) -> bool {
    let of_others = stat.mode & 0o022;
    // Where all modes are alike, as on file systems without them, who may write the journal may as well
    // replace what it tells of.
    let is_open = |directory: &Stat| directory.mode & 0o1022 == of_others;
    stat.uid == file_user()
        && (of_others == 0 || directory.own_stat().is_ok_and(|directory| is_open(&directory)))
        // One that must not be read is believed by the name that was asked for.
        && directory.lists(name).unwrap_or(true)
}

/// Journal of the durable blocks of one file.
pub(super) struct FileJournal {
    codec: BlockJournal,
    file: File,
    length: u64,
}

impl FileJournal {
    /// What the journal beside an item has, if it is about this version of the source.
    pub(super) fn find(directory: &Directory, staging: Staging, header: &Header) -> Option<(Self, BlockMap)> {
        let name = staging.blocks();
        let (file, stat) = directory.reopen_file(&name).ok()?;
        if !is_believed(directory, &name, &stat) {
            return None;
        }
        let codec = BlockJournal::new(header);
        let mut reader = codec.reader();
        feed(&file, stat.size.min(codec.longest()), |bytes| reader.feed(bytes)).ok()?;
        if reader.is_foreign() {
            return None;
        }
        let parsed = reader.finish();
        if parsed.blocks.is_empty() {
            return None;
        }
        Some((Self { codec, file, length: parsed.valid_length }, parsed.blocks))
    }

    /// Begins a new journal in an empty file; `path` is that of the item.
    pub(super) fn begin(file: File, header: &Header, path: &str) -> Result<Self, Failure> {
        let codec = BlockJournal::new(header);
        file.write_all_at(codec.header(), 0).map_err(|error| failure::of_disk(path, "write", &error))?;
        Ok(Self { codec, file, length: block_journal::HEADER_LENGTH as u64 })
    }

    /// Notes blocks that are durable.
    pub(super) fn append(&mut self, blocks: &[(u32, Digest)]) -> io::Result<()> {
        let bytes: Vec<u8> = blocks.iter().flat_map(|(index, value)| self.codec.record(*index, value)).collect();
        self.file.write_all_at(&bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Makes everything of an unfinished file read as zero but the blocks `held`: whatever else an
/// earlier run or anybody has written there would show through the holes of the file. False if the
/// file system cannot do that.
pub(super) fn clear_beside(file: &File, held: &BlockMap) -> io::Result<bool> {
    for gap in held.missing() {
        if !sparse::punch(file, block_offset(gap.start)..block_offset(gap.end))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn feed(mut file: &File, limit: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut left = limit;
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = file.read(&mut buffer[..most])?;
        if read == 0 {
            break;
        }
        take(&buffer[..read]);
        left -= read as u64;
    }
    Ok(())
}

/// Makes something in place of what an earlier run of this user left of the item with the final
/// name `name`, its journal included. Gives the name under which it lies.
pub(super) fn make_part<T>(
    directory: &Directory,
    name: &Name,
    whose: Whose,
    make: impl Fn(&Name) -> Result<T, TreeError>,
) -> Result<(T, Name), Failure> {
    let (made, staging) = make_under(directory, &Purpose::item(name, whose), &BESIDE, |staging| make(&staging.part()))?;
    Ok((made, staging.part()))
}

/// Makes the files of the large item with the final name `name`: for its data, and for its journal
/// where it is to have one and a later run can find it.
pub(super) fn make_files(
    directory: &Directory,
    name: &Name,
    whose: Whose,
    journaled: bool,
) -> Result<(File, Option<File>, Staging), Failure> {
    let make = |staging: Staging| {
        let file = directory.create_file(&staging.part(), 0o600)?;
        let found_again = journaled && staging.is_found_again();
        let journal = found_again.then(|| directory.create_file(&staging.blocks(), 0o600)).transpose();
        let journal = journal.inspect_err(|_| {
            let _ = directory.remove_file(&staging.part());
        })?;
        Ok((file, journal))
    };
    let ((file, journal), staging) = make_under(directory, &Purpose::item(name, whose), &BESIDE, make)?;
    Ok((file, journal, staging))
}

/// What an earlier session has left of an item.
pub(super) struct LeftPart {
    /// The unfinished file, locked; `None` if there is none, or none any more.
    pub(super) part: Option<(Staging, File)>,
    /// An earlier session has held it until just now.
    pub(super) has_waited: bool,
}

/// Looks for the unfinished file that an earlier run of this user has left of the item with the
/// final name `name`.
pub(super) fn find_part(
    directory: &Directory,
    name: &Name,
    whose: Whose,
    what: &str,
    has_failed: HasFailed<'_>,
) -> Result<LeftPart, String> {
    let mut left = LeftPart { part: None, has_waited: false };
    for staging in own(directory, name, whose, &BESIDE) {
        let claimed = claim(directory, &staging.part(), what, has_failed)?;
        left.has_waited |= claimed.has_waited;
        if let Some(file) = claimed.file {
            left.part = Some((staging, file));
            break;
        }
    }
    Ok(left)
}

/// Removes what is there of an unfinished item.
pub(super) fn discard(directory: &Directory, staging: Staging) {
    let _ = directory.remove_file(&staging.part());
    let _ = directory.remove_file(&staging.blocks());
}

/// Removes the journals of the published item with the final name `name`.
pub(super) fn remove_journals(directory: &Directory, name: &Name, whose: Whose) {
    for staging in own(directory, name, whose, &[StagingKind::Blocks]) {
        // Beside an unfinished file it is that of another item of this name, which comes later.
        if directory.stat(&staging.part()).is_err() {
            let _ = directory.remove_file(&staging.blocks());
        }
    }
}

/// Removes all that an earlier session of this user has left of the item with the final name `name`,
/// of which nothing more comes.
pub(super) fn remove_unfinished(directory: &Directory, name: &Name, whose: Whose) {
    Purpose::item(name, whose).found_again().into_iter().for_each(|staging| staging.remove(directory, &BESIDE));
}

/// Under which names this user may have left something of the item with the final name `name`.
fn own(directory: &Directory, name: &Name, whose: Whose, kinds: &[StagingKind]) -> impl Iterator<Item = Staging> {
    Purpose::item(name, whose).found_again().into_iter().filter(move |staging| staging.is_free(directory, kinds))
}

/// Which run a journal is of.
#[derive(Clone, Copy)]
pub(super) struct RunId<'a> {
    /// Sources and destination; an interrupted run of them is known again.
    pub(super) job: &'a Digest,
    /// Name of the first target, if it is one.
    pub(super) target: Option<&'a Name>,
    /// The run itself, with all its sessions.
    pub(super) transfer: &'a TransferId,
    /// Whose it is.
    pub(super) whose: Whose,
}

/// Room that the disk keeps for the journal of a run, ahead of what is written: at least half of
/// this, which tells of 2,000 files. So those that arrived while a disk became full are not sent again.
const ROOM: u64 = 256 << 10;
/// It is at most one in so many of what is free when the run begins: what would have fitted without
/// it has room.
const SPARED: u64 = 1024;

/// Journal of a run: begun before anything is made, removed with the end of the run.
pub(super) struct RunLog {
    codec: RunJournal,
    directory: Directory,
    name: Name,
    file: Option<File>,
    /// One that was found and is of no use, locked; it is begun anew.
    spent: Option<File>,
    published: Published,
    /// The last session that has written to it was one of the present run.
    continues: bool,
    /// Paths of items whose unfinished files an earlier run left, by their key.
    left_behind: HashMap<[u8; 8], Vec<u8>>,
    pending: Vec<u8>,
    /// An interrupted run was found.
    pub(super) resuming: bool,
    /// A session of the same job has held the journal until just now.
    pub(super) has_waited: bool,
    purpose: Purpose,
    whose: Whose,
    /// Bytes of the journal that stand; what follows them was torn by a kill or a full disk.
    length: u64,
    /// Room that the disk is to keep ahead of that; 0 for none.
    room: u64,
    /// The disk keeps room for it up to here.
    reserved: u64,
}

impl RunLog {
    /// Whether an interrupted run of `job` by this user, whose first target is `target` in
    /// `directory`, has left its journal. Changes nothing.
    pub(super) fn is_there(directory: &Directory, job: &Digest, target: Option<&Name>, whose: Whose) -> bool {
        let codec = RunJournal::new(job);
        Purpose::run(job, target, whose).found_again().into_iter().any(|staging| {
            let (mut header, name) = ([0; SLOT_LENGTH], staging.name(StagingKind::Run));
            directory.open_file(&name).is_ok_and(|(file, stat)| {
                let is_journal = file.read_exact_at(&mut header, 0).is_ok() && header == *codec.header();
                stat.nlink == 1 && is_journal && is_believed(directory, &name, &stat)
            })
        })
    }

    /// Looks in `directory` for the journal of an earlier run like `id`, and keeps other runs of
    /// the job from it. Changes nothing before [`begin`](Self::begin).
    pub(super) fn find(
        directory: &Directory,
        id: RunId<'_>,
        resume: bool,
        has_failed: HasFailed<'_>,
    ) -> Result<Self, String> {
        let codec = RunJournal::new(id.job);
        let purpose = Purpose::run(id.job, id.target, id.whose);
        let mut log = Self {
            directory: directory.clone(),
            name: purpose.found_again()[0].name(StagingKind::Run),
            file: None,
            spent: None,
            published: codec.parse(&[]).published,
            codec,
            continues: false,
            left_behind: HashMap::new(),
            pending: Vec::new(),
            resuming: false,
            has_waited: false,
            purpose,
            whose: id.whose,
            length: 0,
            room: 0,
            reserved: 0,
        };
        let Some(file) = log.claim(has_failed)? else { return Ok(log) };
        if resume && Stat::of(&file).is_ok_and(|stat| is_believed(directory, &log.name, &stat)) {
            let mut reader = log.codec.reader();
            feed(&file, u64::MAX, |bytes| reader.feed(bytes)).map_err(|error| log.failed("read", &error))?;
            let parsed = reader.finish();
            if parsed.valid_length > 0 {
                log.length = parsed.valid_length;
                log.published = parsed.published;
                log.continues = parsed.last_run == Some(*id.transfer);
                log.left_behind = parsed.staged;
                log.resuming = true;
                log.file = Some(file);
                return Ok(log);
            }
        }
        log.spent = Some(file);
        Ok(log)
    }

    /// The journal that an earlier run of this user has left, locked.
    fn claim(&mut self, has_failed: HasFailed<'_>) -> Result<Option<File>, String> {
        for staging in self.purpose.found_again() {
            let name = staging.name(StagingKind::Run);
            if !staging.is_free(&self.directory, &[StagingKind::Run]) {
                continue;
            }
            let claimed = claim(&self.directory, &name, &self.directory.path_of(&name), has_failed)?;
            self.has_waited |= claimed.has_waited;
            if let Some(file) = claimed.file {
                self.name = name;
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Digest under which this item was published before this session, and by which run.
    pub(super) fn published(&self, key: &[u8; 16]) -> Option<(FileDigest, PublishedBy)> {
        let ours = self.continues && self.published.is_of_last_run(key);
        let by = if ours { PublishedBy::ThisRun } else { PublishedBy::AnEarlierRun };
        self.published.get(key).map(|digest| (digest, by))
    }

    /// Notes that an unfinished file is about to be made for the item at `path` below the base.
    pub(super) fn staged(&mut self, path: &[u8]) {
        let staging = short(&blake3::hash(path));
        self.left_behind.remove(&staging);
        self.note(&Record::Staged { staging, directory: path });
    }

    /// Notes that the unfinished file of an item is gone.
    pub(super) fn released(&mut self, path: &[u8]) {
        self.note(&Record::Released { staging: short(&blake3::hash(path)) });
    }

    /// Notes something; [`write`](Self::write) puts it on the disk.
    pub(super) fn note(&mut self, record: &Record<'_>) {
        self.codec.encode(record, &mut self.pending);
    }

    /// Appends what was noted; what could not be written waits for the next time.
    pub(super) fn write(&mut self) -> Result<(), String> {
        if let Some(file) = &self.file {
            let end = self.length + self.pending.len() as u64;
            if self.room > 0 && self.reserved < end + self.room / 2 {
                match reserve(file, self.reserved.max(self.length), end + self.room) {
                    Some(reserved) => self.reserved = reserved,
                    None => self.room = 0,
                }
            }
            file.write_all_at(&self.pending, self.length).map_err(|error| self.failed("write", &error))?;
            self.length = end;
        }
        self.pending.clear();
        Ok(())
    }

    /// Begins the run `transfer`, or goes on with it, in the journal that was found or a new one. False
    /// if another run of the job has come first since this one looked: it has to look again.
    pub(super) fn begin(&mut self, transfer: TransferId) -> Result<bool, String> {
        match (&self.file, self.spent.take()) {
            (Some(file), _) => {
                file.set_len(self.length).map_err(|error| self.failed("truncate", &error))?;
                self.reserved = self.length;
            }
            (None, Some(spent)) => {
                spent.set_len(0).map_err(|error| self.failed("truncate", &error))?;
                self.head(spent)?;
            }
            (None, None) => {
                if !self.create()? {
                    return Ok(false);
                }
            }
        }
        self.room = self.file.as_ref().map_or(0, room);
        self.note(&Record::Session { transfer });
        self.write()?;
        Ok(true)
    }

    /// Makes a new journal, in place of whatever cannot be one. False if another run has made one.
    fn create(&mut self) -> Result<bool, String> {
        let create = |staging: Staging| {
            let name = staging.name(StagingKind::Run);
            match self.directory.create_file(&name, 0o600) {
                Err(error) if error.is_existing() && self.directory.reopen_file(&name).is_ok() => Ok(None),
                made => made.map(Some),
            }
        };
        let made = make_under(&self.directory, &self.purpose, &[StagingKind::Run], create);
        let (file, staging) = made.map_err(Failure::into_reason)?;
        let Some(file) = file else { return Ok(false) };
        self.name = staging.name(StagingKind::Run);
        if !staging.is_found_again() {
            // No later run could go on with it.
            let _ = self.directory.remove_file(&self.name);
            return Ok(true);
        }
        // Another run may have found it before it was locked, and be through by now.
        let is_locked = try_lock(&file).map_err(|error| self.failed("lock", &error))?;
        let stat = Stat::of(&file).map_err(|error| self.failed("stat", &error))?;
        if !is_locked || stat.size > 0 || !is_still_named(&self.directory, &self.name, &stat) {
            return Ok(false);
        }
        self.head(file)?;
        Ok(true)
    }

    /// Makes an empty file, which is locked, the journal of this run.
    fn head(&mut self, file: File) -> Result<(), String> {
        // By it alone the next run knows that what this one makes is its own, even after a power
        // cut.
        file.write_all_at(self.codec.header(), 0).map_err(|error| self.failed("write", &error))?;
        self.length = self.codec.header().len() as u64;
        if let Err(error) = file.sync_data() {
            let reason = self.failed("flush", &error);
            tracing::warn!(%reason, "an interrupted run may not be continued after a power cut");
        }
        self.file = Some(file);
        Ok(())
    }

    /// The session is over: what was noted is written, where it can be by now, and the room that was
    /// kept is given back.
    pub(super) fn rest(&mut self) {
        self.room = 0;
        if let Err(reason) = self.write() {
            tracing::warn!(%reason, "the next run will not know all that has arrived");
        }
        if let Some(file) = &self.file {
            let _ = file.set_len(self.length);
        }
    }

    fn failed(&self, call: &str, error: &io::Error) -> String {
        failure::of_disk(&self.directory.path_of(&self.name), call, error).into_reason()
    }

    /// The run is complete: what earlier attempts left of items that are no longer part of it goes,
    /// too.
    pub(super) fn remove(&mut self) {
        for path in std::mem::take(&mut self.left_behind).into_values() {
            remove_left_behind(&self.directory, &path, self.whose);
        }
        if let Some(locked) = self.file.take() {
            let _ = self.directory.remove_file(&self.name);
            // Not before: whoever waits for it finds that it is gone, and begins one of its own.
            drop(locked);
        }
    }
}

/// How much room the disk is to keep for this journal.
fn room(file: &File) -> u64 {
    let free = fstatvfs(file).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    (free / SPARED).min(ROOM)
}

/// Has the disk keep room for a file between these two places, or for as much of that as it has;
/// gives where that room ends, or `None` where the file system cannot keep any.
fn reserve(file: &File, from: u64, to: u64) -> Option<u64> {
    let mut room = to.saturating_sub(from);
    while room > 0 {
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, room) {
            Ok(()) => break,
            Err(Errno::NOSPC | Errno::DQUOT) => room /= 2,
            Err(_) => return None,
        }
    }
    Some(from + room)
}

fn remove_left_behind(base: &Directory, path: &[u8], whose: Whose) {
    let mut components = path.split(|byte| *byte == b'/').filter(|component| !component.is_empty());
    let Some(Ok(name)) = components.next_back().map(Name::new) else { return };
    let directory = components
        .try_fold(base.clone(), |directory, component| directory.open_directory(&Name::new(component).ok()?).ok());
    let Some(directory) = directory else { return };
    let before = directory.own_stat();
    remove_unfinished(&directory, &name, whose);
    // The directory was finished, its time included, when this was still in it.
    if let (Ok(before), Ok(after)) = (before, directory.own_stat())
        && before.mtime != after.mtime
    {
        let _ = directory.set_own_metadata(&Metadata { mtime: Some(before.mtime), ..Metadata::default() });
    }
}

#[cfg(test)]
mod tests {
    use icdc_disk::tree::Tree;

    use super::*;

    #[test]
    fn of_two_runs_that_find_no_journal_the_first_to_make_one_keeps_it() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Tree::open(temporary.path()).unwrap().root().clone();
        let find = || {
            let id = RunId { job: &[1; 32], target: None, transfer: &[2; 16], whose: Whose::default() };
            RunLog::find(&directory, id, true, &|| false).unwrap()
        };
        let (mut first, mut second) = (find(), find());
        assert!(first.begin([2; 16]).unwrap());
        assert!(!second.begin([3; 16]).unwrap());
        let kept = first.file.as_ref().map(|file| Stat::of(file).unwrap()).unwrap();
        assert!(is_still_named(&directory, &first.name, &kept), "the journal was taken from the run that made it");
        first.remove();
        let mut third = find();
        assert!(third.begin([3; 16]).unwrap() && !third.resuming);

        // One without a use is begun anew by whoever has locked it.
        let name = third.name.clone();
        third.remove();
        drop(directory.create_file(&name, 0o600).unwrap());
        let (mut fourth, inode) = (find(), directory.stat(&name).unwrap().ino);
        assert!(fourth.begin([4; 16]).unwrap());
        assert_eq!(directory.stat(&name).unwrap().ino, inode);
        drop(fourth);
        assert!(find().resuming);
    }

    #[test]
    fn a_journal_stays_with_the_unfinished_file_that_it_is_about() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Tree::open(temporary.path()).unwrap().root().clone();
        let name = Name::new(b"file").unwrap();
        let whose = Whose::default();
        let (_, _, staging) = make_files(&directory, &name, whose, true).unwrap();
        remove_journals(&directory, &name, Whose(Some([1; 32])));
        remove_unfinished(&directory, &name, Whose(Some([1; 32])));
        assert!(directory.stat(&staging.part()).is_ok(), "it is another's");
        remove_journals(&directory, &name, whose);
        assert!(directory.stat(&staging.blocks()).is_ok(), "its unfinished file is still there");
        directory.remove_file(&staging.part()).unwrap();
        remove_journals(&directory, &name, whose);
        assert!(directory.stat(&staging.blocks()).is_err());
    }
}
