//! Journal of a run, in the directory of its first source: `.icdc-ID.run`, the items that the run
//! has published so far.
//!
//! Of several equal runs at the same time, the first to lock the journal continues. The others
//! wait, and take over what it has published: each has the journal open, so it stays readable when
//! the finished run removes it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use icdc_disk::tree::{Directory, Metadata, Name, StagingKind, Stat, try_lock};
use icdc_protocol::message::{Digest, FileDigest, TransferId};
use icdc_protocol::run_journal::{NamedSnapshot, Published, Record, RunJournal, SLOT_LENGTH};
use icdc_session::receiver::book::resume::facts::PublishedBy;
use icdc_units::Span;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use super::failure::{self, Failure};
use super::leftovers::{claim, feed, is_believed, is_still_named, remove_unfinished};
use super::staging::{Purpose, Staging, Whose, make_under, short};
use super::waiting::{LOCK_PATIENCE, WaitPolicy};

/// Identity of the run that a journal belongs to.
#[derive(Clone, Copy)]
pub(super) struct RunId<'a> {
    /// Digest of sources and destination, by which an interrupted run of them is recognized.
    pub(super) job: &'a Digest,
    /// Name of the first target; `None` where it has no name of its own.
    pub(super) target: Option<&'a Name>,
    /// Id of the run itself, with all its sessions.
    pub(super) transfer: &'a TransferId,
    /// Owner of the journal.
    pub(super) whose: Whose,
}

/// Outcome of claiming the journal of an earlier run: one that was interrupted, or one that ended
/// while it was waited for.
struct OfRun {
    /// Journal that an earlier run of this user has left, locked; it is empty if another run has just made
    /// it and not locked it yet.
    file: Option<File>,
    /// Journal of a run that ended while it was waited for.
    ended: Option<File>,
}

/// Wait policy for the journal of a run that does not treat an earlier session of the same run as
/// another process.
struct WithoutOwn<'a> {
    waits: &'a dyn WaitPolicy,
    codec: &'a RunJournal,
    transfer: &'a TransferId,
    /// Result for the file that was checked last, and which file that was. Another file may have
    /// its name now, and another run may have taken over an earlier file of this run, and may be
    /// writing to it.
    is_own: Cell<Option<(Stat, bool)>>,
}

impl WithoutOwn<'_> {
    /// Whether the present run has written to this journal last, in an earlier session; the answer
    /// is remembered.
    fn is_own(&self, file: &File) -> bool {
        let Ok(stat) = Stat::of(file) else { return false };
        let holds = |(known, is_own): &(Stat, bool)| {
            let is_same = (known.dev, known.ino) == (stat.dev, stat.ino);
            is_same && (!is_own || (known.size, known.mtime) == (stat.size, stat.mtime))
        };
        if let Some((_, is_own)) = self.is_own.get().filter(holds) {
            return is_own;
        }
        let mut reader = self.codec.reader();
        let fed = feed(file, u64::MAX, |bytes| {
            reader.feed(bytes);
            Ok(())
        });
        let is_own = fed.is_ok() && reader.finish().last_run == Some(*self.transfer);
        self.is_own.set(Some((stat, is_own)));
        is_own
    }
}

impl WaitPolicy for WithoutOwn<'_> {
    fn keep_waiting(&self, file: &File, what: &str, waited: Span) -> bool {
        if self.is_own(file) {
            return waited < LOCK_PATIENCE && self.waits.keep_waiting(file, what, Span::ZERO);
        }
        self.waits.keep_waiting(file, what, waited)
    }

    fn ends(&self) {
        self.waits.ends();
    }
}

/// Space that is reserved for the journal of a run ahead of what is written, in bytes: at least
/// half of it is free, which holds 2,000 files. So the files that arrived while a disk became full
/// need not be retransmitted.
const RESERVED: u64 = 256 << 10;
/// Largest share of the free space that is reserved, as its reciprocal: what would have fitted
/// without the reservation still fits.
const RESERVED_SHARE: u64 = 1024;

/// Journal of a run: begun before anything is made, removed with the end of the run.
pub(super) struct RunLog {
    codec: RunJournal,
    directory: Directory,
    /// Directory that the paths of items begin at: that of the journal, unless they are placed in
    /// another one.
    items: Directory,
    name: Name,
    file: Option<File>,
    /// A journal that was found and cannot be used, locked; it is overwritten from its beginning.
    unusable: Option<File>,
    published: Published,
    /// Whether the last session that has written to the journal was one of the present run.
    continues: bool,
    /// Journal of a run that ended while it was waited for, and its usable length in bytes: the new
    /// journal begins with it.
    inherited: Option<(File, u64)>,
    /// Paths of items whose unfinished files an earlier run left, by their key.
    left_behind: HashMap<[u8; 8], Vec<u8>>,
    /// The snapshot to which the last run has given a name, or was about to.
    named: Option<NamedSnapshot>,
    pending: Vec<u8>,
    /// Whether an interrupted run was found.
    pub(super) resuming: bool,
    /// Whether a session of the same job has held the journal until just now.
    pub(super) has_waited: bool,
    purpose: Purpose,
    whose: Whose,
    /// Valid length of the journal in bytes; what follows was torn by a kill or a full disk.
    length: u64,
    /// Bytes that are to stay reserved on the disk behind the written part; 0 for none.
    room: u64,
    /// End of the reserved space, in bytes.
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

    /// Looks in `directory` for the journal of an earlier run like `id`, and locks other runs of
    /// the job out. Changes nothing before [`begin`](Self::begin).
    pub(super) fn find(
        directory: &Directory,
        id: RunId<'_>,
        resume: bool,
        waits: &dyn WaitPolicy,
    ) -> Result<Self, String> {
        let codec = RunJournal::new(id.job);
        let purpose = Purpose::run(id.job, id.target, id.whose);
        let mut log = Self {
            directory: directory.clone(),
            items: directory.clone(),
            name: purpose.found_again()[0].name(StagingKind::Run),
            file: None,
            unusable: None,
            published: codec.parse(&[]).published,
            codec,
            continues: false,
            inherited: None,
            left_behind: HashMap::new(),
            named: None,
            pending: Vec::new(),
            resuming: false,
            has_waited: false,
            purpose,
            whose: id.whose,
            length: 0,
            room: 0,
            reserved: 0,
        };
        let OfRun { file, ended } = log.claim(id, waits)?;
        if let Some(file) = &file
            && resume
            && Stat::of(file).is_ok_and(|stat| is_believed(directory, &log.name, &stat))
            && let length @ 1.. = log.take_in(file, id.transfer)?
        {
            (log.length, log.resuming) = (length, true);
        } else if let Some(ended) = ended.filter(|_| resume)
            && let length @ 1.. = log.take_in(&ended, id.transfer)?
        {
            log.inherited = Some((ended, length));
        }
        if log.resuming {
            log.file = file;
        } else {
            log.unusable = file;
        }
        Ok(log)
    }

    /// Sets the directory that the paths of items begin at.
    pub(super) fn place_items(&mut self, items: Directory) {
        self.items = items;
    }

    /// Whether an earlier session of the present run has begun, as its journal shows.
    pub(super) fn is_begun(&self) -> bool {
        self.continues
    }

    /// This journal; if nothing usable was found for it, with what `before` has of the run that was
    /// waited for: a third run has taken the lock since, and has ended and removed its own journal, or has not
    /// begun it.
    pub(super) fn or_as_waited_for(self, before: Option<Self>) -> Self {
        match before {
            Some(Self { published, continues, inherited: Some(inherited), left_behind, .. })
                if self.file.is_none() && self.inherited.is_none() =>
            {
                Self { published, continues, inherited: Some(inherited), left_behind, ..self }
            }
            _ => self,
        }
    }

    /// Reads a journal and takes over what it records: published items, unfinished files, a
    /// snapshot. Returns its usable length in bytes, 0 for none.
    fn take_in(&mut self, file: &File, transfer: &TransferId) -> Result<u64, String> {
        let mut reader = self.codec.reader();
        let fed = feed(file, u64::MAX, |bytes| {
            reader.feed(bytes);
            Ok(())
        });
        fed.map_err(|error| self.failed("read", &error))?;
        let parsed = reader.finish();
        if parsed.valid_length > 0 {
            self.published = parsed.published;
            self.continues = parsed.last_run == Some(*transfer);
            self.left_behind = parsed.staged;
            self.named = parsed.snapshot;
        }
        Ok(parsed.valid_length)
    }

    /// Takes and locks the journal that an earlier run of this user has left.
    fn claim(&mut self, id: RunId<'_>, waits: &dyn WaitPolicy) -> Result<OfRun, String> {
        let shown = id.target.map_or_else(|| self.directory.path(), |target| self.directory.path_of(target));
        let waits = WithoutOwn { waits, codec: &self.codec, transfer: id.transfer, is_own: Cell::new(None) };
        let mut found = OfRun { file: None, ended: None };
        for staging in self.purpose.found_again() {
            let name = staging.name(StagingKind::Run);
            if !staging.is_free(&self.directory, &[StagingKind::Run]) {
                continue;
            }
            let claimed = claim(&self.directory, &name, &shown, &waits)?;
            self.has_waited |= claimed.has_waited;
            found.ended = claimed.ended.or(found.ended);
            if claimed.file.is_some() {
                self.name = name;
                found.file = claimed.file;
                break;
            }
        }
        Ok(found)
    }

    /// Digest under which the item with this key was published before this session, and by which
    /// run; `None` if it was not.
    pub(super) fn published(&self, key: &[u8; 16]) -> Option<(FileDigest, PublishedBy)> {
        let ours = self.continues && self.published.is_of_last_run(key);
        let by = if ours { PublishedBy::ThisRun } else { PublishedBy::AnEarlierRun };
        self.published.get(key).map(|digest| (digest, by))
    }

    /// The snapshot to which an earlier session of the present run has given a name, or was about to.
    pub(super) fn named_snapshot(&self) -> Option<NamedSnapshot> {
        self.named.filter(|_| self.continues)
    }

    /// Notes that an unfinished file is about to be made for the item at `path` below the base.
    pub(super) fn staged(&mut self, path: &[u8]) {
        let staging = short(&blake3::hash(path));
        self.left_behind.remove(&staging);
        self.note(&Record::Staged { staging, directory: path });
    }

    /// Notes that the unfinished file of an item has been removed.
    pub(super) fn released(&mut self, path: &[u8]) {
        self.note(&Record::Released { staging: short(&blake3::hash(path)) });
    }

    /// Queues a record for the journal; [`write`](Self::write) puts it on the disk.
    pub(super) fn note(&mut self, record: &Record<'_>) {
        self.codec.encode(record, &mut self.pending);
    }

    /// Appends the queued records to the journal; what could not be written waits for the next
    /// time.
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

    /// Begins the run `transfer`, or continues it, in the journal that was found or a new one.
    /// False if another run of the job has taken the journal since `find`: then it has to be found
    /// again.
    pub(super) fn begin(&mut self, transfer: TransferId) -> Result<bool, String> {
        match (&self.file, self.unusable.take()) {
            (Some(file), _) => {
                file.set_len(self.length).map_err(|error| self.failed("truncate", &error))?;
                self.reserved = self.length;
            }
            (None, Some(unusable)) => {
                unusable.set_len(0).map_err(|error| self.failed("truncate", &error))?;
                self.head(unusable)?;
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
            // No later run could continue it.
            let _ = self.directory.remove_file(&self.name);
            return Ok(true);
        }
        // Another run may have found it before it was locked, and may have ended since.
        let is_locked = try_lock(&file).map_err(|error| self.failed("lock", &error))?;
        let stat = Stat::of(&file).map_err(|error| self.failed("stat", &error))?;
        if !is_locked || stat.size > 0 || !is_still_named(&self.directory, &self.name, &stat) {
            return Ok(false);
        }
        self.head(file)?;
        Ok(true)
    }

    /// Writes the head of this run's journal into an empty, locked file.
    fn head(&mut self, file: File) -> Result<(), String> {
        // By it alone the next run knows that what this one makes is its own, even after a power
        // cut.
        if let Some((old, length)) = self.inherited.take() {
            self.length = 0;
            let copied = feed(&old, length, |bytes| {
                file.write_all_at(bytes, self.length)?;
                self.length += bytes.len() as u64;
                Ok(())
            });
            copied.map_err(|error| self.failed("write", &error))?;
        } else {
            file.write_all_at(self.codec.header(), 0).map_err(|error| self.failed("write", &error))?;
            self.length = self.codec.header().len() as u64;
        }
        if let Err(error) = file.sync_data() {
            let reason = self.failed("flush", &error);
            tracing::warn!(%reason, "an interrupted run may not be continued after a power cut");
        }
        self.file = Some(file);
        Ok(())
    }

    /// Ends the journal with the session: writes what was noted, as far as possible, and releases
    /// the reserved space.
    pub(super) fn close(&mut self) {
        self.room = 0;
        if let Err(reason) = self.write() {
            tracing::warn!(%reason, "the next run will not know all that has arrived");
        }
        if let Some(file) = &self.file {
            let _ = file.set_len(self.length);
        }
    }

    /// Message for the user that the system call `call` has failed on the journal.
    fn failed(&self, call: &str, error: &io::Error) -> String {
        failure::of_disk(&self.directory.path_of(&self.name), call, error).into_reason()
    }

    /// Removes the journal because the run is complete, with what earlier attempts left of items
    /// that are no longer part of it.
    pub(super) fn remove(&mut self) {
        for path in std::mem::take(&mut self.left_behind).into_values() {
            remove_left_behind(&self.items, &path, self.whose);
        }
        if let Some(locked) = self.file.take() {
            let _ = self.directory.remove_file(&self.name);
            // Only now: a waiting run finds that the journal was removed, and begins one of its
            // own.
            drop(locked);
        }
    }
}

/// Space to keep reserved on the disk for this journal, in bytes.
fn room(file: &File) -> u64 {
    let free = fstatvfs(file).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    (free / RESERVED_SHARE).min(RESERVED)
}

/// Reserves space for a file between two offsets, or as much of it as there is; returns the offset
/// where the reserved space ends, or `None` where the file system cannot reserve any.
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

/// Removes the unfinished files of the item at `path` below `base`, and restores the modification
/// time of its directory.
fn remove_left_behind(base: &Directory, path: &[u8], whose: Whose) {
    let mut components = path.split(|byte| *byte == b'/').filter(|component| !component.is_empty());
    let Some(Ok(name)) = components.next_back().map(Name::new) else { return };
    let directory = components
        .try_fold(base.clone(), |directory, component| directory.open_directory(&Name::new(component).ok()?).ok());
    let Some(directory) = directory else { return };
    let before = directory.own_stat();
    // What stays is removed with the item itself, or with what the source has no more.
    let _ = remove_unfinished(&directory, &name, whose);
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

    use super::super::waiting::Never;
    use super::*;

    /// Waits as long as it takes, and tells that it does.
    struct Always(std::sync::mpsc::Sender<()>);

    impl WaitPolicy for Always {
        fn keep_waiting(&self, _: &File, _: &str, _: Span) -> bool {
            let _ = self.0.send(());
            true
        }

        fn ends(&self) {}
    }

    #[test]
    fn an_empty_journal_of_another_run_does_not_hide_the_one_that_was_waited_for() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Tree::open(temporary.path()).unwrap().root().clone();
        let id = |transfer| RunId { job: &[1; 32], target: None, transfer, whose: Whose::default() };
        let mut first = RunLog::find(&directory, id(&[2; 16]), true, &Never).unwrap();
        assert!(first.begin([2; 16]).unwrap());
        let (key, digest) = ([7; 16], FileDigest::Blake3([8; 32]));
        first.note(&Record::Published { key, digest });
        first.write().unwrap();
        let (told, waits) = std::sync::mpsc::channel();
        let mut second = std::thread::scope(|scope| {
            let second = scope.spawn(|| RunLog::find(&directory, id(&[3; 16]), true, &Always(told)));
            waits.recv().unwrap();
            // A third run has made its journal, and is about to lock it.
            directory.remove_file(&first.name).unwrap();
            drop(directory.create_file(&first.name, 0o600).unwrap());
            drop(first.file.take());
            second.join().unwrap().unwrap()
        });
        assert_eq!(second.published(&key), Some((digest, PublishedBy::AnEarlierRun)));
        assert!(second.begin([3; 16]).unwrap());
        drop(second);
        let third = RunLog::find(&directory, id(&[4; 16]), true, &Never).unwrap();
        assert_eq!(third.published(&key), Some((digest, PublishedBy::AnEarlierRun)));
    }

    #[test]
    fn of_two_runs_that_find_no_journal_the_first_to_make_one_keeps_it() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Tree::open(temporary.path()).unwrap().root().clone();
        let find = || {
            let id = RunId { job: &[1; 32], target: None, transfer: &[2; 16], whose: Whose::default() };
            RunLog::find(&directory, id, true, &Never).unwrap()
        };
        let (mut first, mut second) = (find(), find());
        assert!(first.begin([2; 16]).unwrap());
        assert!(!second.begin([3; 16]).unwrap());
        let kept = first.file.as_ref().map(|file| Stat::of(file).unwrap()).unwrap();
        assert!(is_still_named(&directory, &first.name, &kept), "the journal was taken from the run that made it");
        first.remove();
        let mut third = find();
        assert!(third.begin([3; 16]).unwrap() && !third.resuming);

        // A journal that cannot be used is started from its beginning by whoever has locked it.
        let name = third.name.clone();
        third.remove();
        drop(directory.create_file(&name, 0o600).unwrap());
        let (mut fourth, inode) = (find(), directory.stat(&name).unwrap().ino);
        assert!(fourth.begin([4; 16]).unwrap());
        assert_eq!(directory.stat(&name).unwrap().ino, inode);
        drop(fourth);
        assert!(find().resuming);
    }
}
