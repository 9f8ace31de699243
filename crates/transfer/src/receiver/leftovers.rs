//! Files that an interrupted run leaves behind, and how the next run finds them.
//!
//! Beside a large file: `.icdc-ID.part` (its data so far) and `.icdc-ID.blocks` (which blocks of it
//! are durable); `ID` is derived from the final name, and from the user where another user holds
//! that name (`staging.rs`), so that any later run finds it. The items that a run has published so
//! far are in its journal (`run_log.rs`).
//!
//! Whoever writes a part file of more than one block, or a run's journal, holds its lock until the
//! file has its last name. A session that ends slowly and the one that continues after it may be
//! two processes: the later one waits, and then checks again whether the name still refers to the
//! file whose lock it got.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use icdc_disk::sparse;
use icdc_disk::tree::{Directory, Name, StagingKind, Stat, TreeError, file_user, try_lock, unlock};
use icdc_protocol::block_journal::{self, BlockJournal, Header};
use icdc_protocol::block_map::{BlockMap, block_offset};
use icdc_protocol::message::Digest;
use icdc_units::Span;

use super::failure::{self, Failure};
use super::holder::{Holder, holder};
use super::staging::{Purpose, Staging, Whose, make_under, remove_if_there};
use super::waiting::WaitPolicy;
use crate::clock;

/// Maximum number of attempts to take a lock when the file is replaced by another while its lock
/// is waited for.
pub(super) const CLAIMS: u32 = 3;
/// Kinds of staging files that lie beside an unfinished item.
const BESIDE: [StagingKind; 2] = [StagingKind::Part, StagingKind::Blocks];
/// Number of records of a journal that are read at a time.
const RECORDS_AT_A_TIME: usize = 4096;

/// Interval of the attempts to take a lock. A thread that waits in `flock` itself can be woken by a
/// signal only, and no event reports a released lock on every file system.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Takes the lock of a file that another session may hold; returns true if it had to wait.
pub(super) fn lock(file: &File, what: &str, waits: &dyn WaitPolicy) -> io::Result<bool> {
    let begun = clock::now();
    let mut has_waited = false;
    while !try_lock(file)? {
        if !waits.keep_waiting(file, what, clock::now() - begun) {
            waits.ends();
            return Err(io::Error::new(io::ErrorKind::WouldBlock, busy(what, holder(file))));
        }
        has_waited = true;
        #[expect(clippy::disallowed_methods, reason = "no event tells of a lock that another process has let go")]
        std::thread::sleep(RETRY_INTERVAL);
    }
    if has_waited {
        waits.ends();
    }
    Ok(has_waited)
}

/// Text for the user that says that another process holds the lock of `what`.
pub(super) fn busy(what: &str, holder: Option<Holder>) -> String {
    let who = holder.map_or(String::new(), |holder| format!(" ({holder})"));
    format!("{what}: another icdc{who} is writing it; wait for its end or stop it")
}

/// Outcome of claiming a file that an earlier session has left under a staging name: it is locked,
/// or is gone, or was waited for.
pub(super) struct Claimed {
    /// The file, locked; `None` if there is none, or none any more.
    pub(super) file: Option<File>,
    /// Whether an earlier session has held the file until just now.
    pub(super) has_waited: bool,
    /// The file that was waited for, unlocked, if it lost its name during the wait and was trusted
    /// before.
    pub(super) ended: Option<File>,
}

/// Locks the file with the staging name `name`, if it exists, once its earlier holder has ended,
/// and returns it. It is shown to the user as `what`.
pub(super) fn claim(directory: &Directory, name: &Name, what: &str, waits: &dyn WaitPolicy) -> Result<Claimed, String> {
    let failed = |error: io::Error| format!("{what}: {error}");
    let mut claimed = Claimed { file: None, has_waited: false, ended: None };
    let mut at_once = 0;
    while at_once < CLAIMS {
        let (file, stat, is_writable) = match directory.reopen_file(name) {
            Ok((file, stat)) => (file, stat, true),
            Err(_) => match opened_held(directory, name) {
                Some((file, stat)) => (file, stat, false),
                None => return Ok(claimed),
            },
        };
        let is_free = try_lock(&file).map_err(failed)?;
        // Afterwards it may have no name any more, by which it is believed.
        let is_believed = !is_free && is_believed(directory, name, &stat);
        let has_waited = lock(&file, what, waits).map_err(|error| error.to_string())?;
        claimed.has_waited |= has_waited;
        let stat = Stat::of(&file).map_err(|error| format!("{what}: its size and time cannot be read: {error}"))?;
        if is_still_named(directory, name, &stat) {
            if is_writable {
                claimed.file = Some(file);
                return Ok(claimed);
            }
            // Its writer has ended, and it may be opened for writing now.
            at_once += 1;
            continue;
        }
        // Published or removed while the lock was waited for; others may wait for it, too.
        unlock(&file).map_err(failed)?;
        claimed.ended = is_believed.then_some(file);
        at_once += u32::from(!has_waited);
    }
    Err(busy(what, None))
}

/// Opens a read-only file of this user, which has its last mode already, for reading, if another
/// session holds it; `None` otherwise.
fn opened_held(directory: &Directory, name: &Name) -> Option<(File, Stat)> {
    let (file, stat) = directory.open_file(name).ok()?;
    (stat.uid == file_user() && stat.nlink == 1 && !try_lock(&file).unwrap_or(true)).then_some((file, stat))
}

/// Whether the name still refers to this file.
pub(super) fn is_still_named(directory: &Directory, name: &Name, file: &Stat) -> bool {
    directory.stat(name).is_ok_and(|stat| (stat.dev, stat.ino) == (file.dev, file.ino))
}

/// Whether the journal `stat`, found as `name`, can be trusted: it belongs to this user, others
/// may not write to it, and the directory lists exactly this name. Under another name that the
/// file system treats as equal it may be a file that was copied here by someone who may not make a
/// journal.
pub(super) fn is_believed(directory: &Directory, name: &Name, stat: &Stat) -> bool {
    let of_others = stat.mode & 0o022;
    // Where all modes are alike, as on file systems without them, whoever may write the journal may
    // also replace the files that it describes.
    let is_open = |directory: &Stat| directory.mode & 0o1022 == of_others;
    stat.uid == file_user()
        && (of_others == 0 || directory.own_stat().is_ok_and(|directory| is_open(&directory)))
        // In a directory that must not be listed, the name that was opened is trusted.
        && directory.lists(name).unwrap_or(true)
}

/// Opens a journal if its contents can be trusted ([`is_believed`]); `None` otherwise.
fn open_believed(directory: &Directory, name: &Name) -> Option<File> {
    let (file, stat) = directory.reopen_file(name).ok()?;
    is_believed(directory, name, &stat).then_some(file)
}

/// Journal of the durable blocks of one file.
pub(super) struct FileJournal {
    codec: BlockJournal,
    file: File,
    length: u64,
}

impl FileJournal {
    /// Finds the journal beside an item, with its block map; `None` unless it is about this
    /// version of the source.
    pub(super) fn find(directory: &Directory, staging: Staging, header: &Header) -> Option<(Self, BlockMap)> {
        Self::read(open_believed(directory, &staging.blocks())?, header)
    }

    /// Reads a journal and the map of durable blocks in it; `None` unless it is about this version
    /// of the source.
    fn read(file: File, header: &Header) -> Option<(Self, BlockMap)> {
        let codec = BlockJournal::new(header);
        let mut reader = codec.reader();
        let length = Stat::of(&file).ok()?.size.min(codec.longest());
        let fed = feed(&file, length, |bytes| {
            reader.feed(bytes);
            Ok(())
        });
        fed.ok()?;
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

    /// Drops the records of all blocks but the first `count` from the journal, durably: the others are about
    /// to be replaced. Those that stay are not touched, whatever interrupts it.
    pub(super) fn keep_first(&self, count: u32) -> io::Result<()> {
        let mut records = vec![0; RECORDS_AT_A_TIME * block_journal::RECORD_LENGTH];
        let mut at = block_journal::HEADER_LENGTH as u64;
        while at < self.length {
            let length = records.len().min((self.length - at) as usize);
            self.file.read_exact_at(&mut records[..length], at)?;
            for record in records[..length].chunks(block_journal::RECORD_LENGTH) {
                let index = record.first_chunk().map(|index| u32::from_le_bytes(*index));
                if index.is_none_or(|index| index >= count) {
                    self.file.write_all_at(&[0; block_journal::RECORD_LENGTH][..record.len()], at)?;
                }
                at += record.len() as u64;
            }
        }
        self.sync()
    }

    /// Takes the journal's lock, where no other file of the item has one; false if another process has it.
    pub(super) fn lock(&self) -> io::Result<bool> {
        try_lock(&self.file)
    }

    /// Makes what was appended durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Appends durable blocks (index and digest) to the journal.
    pub(super) fn append(&mut self, blocks: &[(u32, Digest)]) -> io::Result<()> {
        let bytes: Vec<u8> = blocks.iter().flat_map(|(index, value)| self.codec.record(*index, value)).collect();
        self.file.write_all_at(&bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Makes every block of an unfinished file read as zero except those in `held`: other data, of an
/// earlier run or of another process, would show through the holes of the file. False if the file
/// system cannot do that.
pub(super) fn punch_missing_blocks(file: &File, held: &BlockMap) -> io::Result<bool> {
    for gap in held.missing() {
        if !sparse::punch(file, block_offset(gap.start)..block_offset(gap.end))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Passes the contents of a file, up to `limit` bytes, to `take`, piece by piece.
pub(super) fn feed(file: &File, limit: u64, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut position = 0;
    while position < limit {
        let most = buffer.len().min(usize::try_from(limit - position).unwrap_or(usize::MAX));
        let read = file.read_at(&mut buffer[..most], position)?;
        if read == 0 {
            break;
        }
        take(&buffer[..read])?;
        position += read as u64;
    }
    Ok(())
}

/// Makes something under a staging name by `make`, in place of what an earlier run of this user
/// left of the item with the final name `name`, its journal included. Returns it with its staging
/// name.
pub(super) fn make_part<T>(
    directory: &Directory,
    name: &Name,
    whose: Whose,
    make: impl Fn(&Name) -> Result<T, TreeError>,
) -> Result<(T, Name), Failure> {
    let (made, staging) = make_under(directory, &Purpose::item(name, whose), &BESIDE, |staging| make(&staging.part()))?;
    Ok((made, staging.part()))
}

/// Files made for a large item; the one for its data is locked.
pub(super) struct MadeFiles {
    pub(super) file: File,
    /// Journal of the item; `None` where it is to have none, or no later run would find it.
    pub(super) journal: Option<File>,
    pub(super) staging: Staging,
}

/// Makes the files of the large item with the final name `name`, for its data and, if it is to be
/// `journaled`, for its journal, in place of the locked file `left` of an earlier session. `None`
/// if another session has come first since that was looked for: it is to be looked for again.
pub(super) fn make_files(
    directory: &Directory,
    name: &Name,
    whose: Whose,
    left: Option<&File>,
    journaled: bool,
) -> Result<Option<MadeFiles>, Failure> {
    let left = left.and_then(|file| Stat::of(file).ok()).map(|stat| (stat.dev, stat.ino));
    let is_of_another = |staging: Staging| {
        staging.is_free(directory, &BESIDE)
            && match directory.reopen_file(&staging.part()) {
                Ok((_, stat)) => Some((stat.dev, stat.ino)) != left,
                Err(error) => error.is_missing() || opened_held(directory, &staging.part()).is_some(),
            }
    };
    let make = |staging: Staging| {
        // A journal without its file must never be beside the one that is made, however this is
        // interrupted: it would be taken for that one's.
        if directory.stat(&staging.part()).is_err_and(|error| error.is_missing()) {
            staging.remove(directory, &[StagingKind::Blocks])?;
        }
        let file = match directory.create_file(&staging.part(), 0o600) {
            Err(error) if error.is_existing() && is_of_another(staging) => return Ok(None),
            made => made?,
        };
        // Before it was locked, another session may have found it and taken it for one that was
        // left.
        let journal = match hold(directory, &staging.part(), &file) {
            Ok(true) if journaled && staging.is_found_again() => make_journal(directory, staging).map(Some),
            Ok(true) => Ok(None),
            Ok(false) => return Ok(None),
            Err(error) => Err(error),
        };
        let journal = journal.inspect_err(|_| {
            let _ = directory.remove_file(&staging.part());
        })?;
        Ok(Some((file, journal)))
    };
    let (made, staging) = make_under(directory, &Purpose::item(name, whose), &BESIDE, make)?;
    Ok(made.map(|(file, journal)| MadeFiles { file, journal, staging }))
}

/// Locks the new file `name`; false if another session has taken it.
fn hold(directory: &Directory, name: &Name, file: &File) -> Result<bool, TreeError> {
    let failed = |call| move |cause| TreeError::System { path: directory.path_of(name), call, cause };
    Ok(try_lock(file).map_err(failed("flock"))?
        && is_still_named(directory, name, &Stat::of(file).map_err(failed("fstat"))?))
}

/// Makes the journal beside a file that this session has made and locked, in place of one without a
/// file.
fn make_journal(directory: &Directory, staging: Staging) -> Result<File, TreeError> {
    match directory.create_file(&staging.blocks(), 0o600) {
        Err(error) if error.is_existing() => {
            staging.remove(directory, &[StagingKind::Blocks])?;
            directory.create_file(&staging.blocks(), 0o600)
        }
        made => made,
    }
}

/// Unfinished file that an earlier session has left of an item, or what is known of one that is
/// gone.
pub(super) struct LeftPart {
    /// The unfinished file, locked; `None` if there is none, or none any more.
    pub(super) part: Option<(Staging, File)>,
    /// Whether an earlier session has held the file until just now.
    pub(super) has_waited: bool,
    /// Durable blocks by the journal of a file that was waited for and has been removed, if it is
    /// about this version of the source.
    pub(super) ended: Option<BlockMap>,
}

/// Wait policy for the lock of an unfinished file, which keeps its journal open, as that is
/// removed with the file.
struct WithJournal<'a> {
    waits: &'a dyn WaitPolicy,
    directory: &'a Directory,
    name: Name,
    journal: OnceCell<Option<File>>,
}

impl WaitPolicy for WithJournal<'_> {
    fn keep_waiting(&self, file: &File, what: &str, waited: Span) -> bool {
        self.journal.get_or_init(|| open_believed(self.directory, &self.name));
        self.waits.keep_waiting(file, what, waited)
    }

    fn ends(&self) {
        self.waits.ends();
    }
}

/// Looks for the unfinished file that an earlier run of this user has left of the item with the
/// final name `name`.
pub(super) fn find_part(
    directory: &Directory,
    name: &Name,
    whose: Whose,
    header: &Header,
    waits: &dyn WaitPolicy,
) -> Result<LeftPart, String> {
    let mut left = LeftPart { part: None, has_waited: false, ended: None };
    for staging in own(directory, name, whose, &BESIDE) {
        let waits = WithJournal { waits, directory, name: staging.blocks(), journal: OnceCell::new() };
        let claimed = claim(directory, &staging.part(), &directory.path_of(name), &waits)?;
        left.has_waited |= claimed.has_waited;
        if let Some(file) = claimed.file {
            left.part = Some((staging, file));
            break;
        }
        let journal = waits.journal.into_inner().flatten();
        let held = journal.and_then(|journal| FileJournal::read(journal, header)).map(|(_, held)| held);
        left.ended = held.or(left.ended);
    }
    Ok(left)
}

/// Removes the files of an unfinished item, as far as they exist.
pub(super) fn discard(directory: &Directory, staging: Staging) {
    // Whoever finds the unfinished file gone makes both again.
    let _ = directory.remove_file(&staging.blocks());
    let _ = directory.remove_file(&staging.part());
}

/// Removes the journals of the published item with the final name `name`.
///
/// # Errors
/// One of them is still there.
pub(super) fn remove_journals(directory: &Directory, name: &Name, whose: Whose) -> Result<(), TreeError> {
    let mut outcome = Ok(());
    for staging in own(directory, name, whose, &[StagingKind::Blocks]) {
        // Beside an unfinished file it is that of another item of this name, which comes later.
        if directory.stat(&staging.part()).is_err() {
            outcome = outcome.and(remove_if_there(directory, &staging.blocks()));
        }
    }
    outcome
}

/// Removes all files that an earlier session of this user has left of the item with the final name
/// `name`, of which nothing more comes.
///
/// # Errors
/// One of them is still there.
pub(super) fn remove_unfinished(directory: &Directory, name: &Name, whose: Whose) -> Result<(), TreeError> {
    let mut outcome = Ok(());
    for staging in Purpose::item(name, whose).found_again() {
        outcome = outcome.and(staging.remove(directory, &BESIDE));
    }
    outcome
}

/// Staging names under which this user may have left files of the item with the final name `name`.
fn own(directory: &Directory, name: &Name, whose: Whose, kinds: &[StagingKind]) -> impl Iterator<Item = Staging> {
    Purpose::item(name, whose).found_again().into_iter().filter(move |staging| staging.is_free(directory, kinds))
}

#[cfg(test)]
mod tests {
    use icdc_disk::tree::Tree;

    use super::super::waiting::Never;
    use super::*;

    /// An empty directory, and the name of a file in it.
    fn place() -> (tempfile::TempDir, Directory, Name) {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Tree::open(temporary.path()).unwrap().root().clone();
        (temporary, directory, Name::new(b"file").unwrap())
    }

    #[test]
    fn of_two_sessions_that_find_no_file_the_first_to_make_one_keeps_it() {
        let (_temporary, directory, name) = place();
        let whose = Whose::default();
        let header = Header { version: [1; 16], size: 1 << 30, path: [1; 32] };
        let find = || find_part(&directory, &name, whose, &header, &Never);
        let make = |left| make_files(&directory, &name, whose, left, true).unwrap();
        // An earlier session's journal without a file goes.
        let staging = Purpose::item(&name, whose).found_again()[0];
        drop(directory.create_file(&staging.blocks(), 0o600).unwrap());
        assert!(find().unwrap().part.is_none());
        let first = make(None).unwrap();
        let made = Stat::of(&first.file).unwrap();
        assert!(make(None).is_none(), "it was looked for before the first one made it");
        assert!(is_still_named(&directory, &first.staging.part(), &made), "it was taken from who made it");
        assert!(find().is_err(), "it is locked");

        // What an ended one has left is taken, and nothing else.
        drop(first);
        let (_, left) = find().unwrap().part.unwrap();
        let second = make(Some(&left)).unwrap();
        assert!(!is_still_named(&directory, &second.staging.part(), &made));
        assert!(make(Some(&left)).is_none());
    }

    #[test]
    fn a_journal_without_its_file_is_never_beside_a_new_one() {
        let (_temporary, directory, name) = place();
        let whose = Whose::default();
        let staging = Purpose::item(&name, whose).found_again()[0];
        for journaled in [false, true] {
            let left = directory.create_file(&staging.blocks(), 0o600).unwrap();
            let made = make_files(&directory, &name, whose, None, journaled).unwrap().unwrap();
            let there = directory.stat(&staging.blocks()).ok().map(|stat| stat.ino);
            assert_ne!(there, Some(Stat::of(&left).unwrap().ino), "journaled: {journaled}");
            assert_eq!(there.is_some(), journaled);
            discard(&directory, made.staging);
        }
    }

    #[test]
    fn records_behind_the_first_blocks_are_dropped_and_the_others_stay_where_they_are() {
        let (_temporary, directory, name) = place();
        let header = Header { version: [1; 16], size: 1 << 30, path: [1; 32] };
        let file = directory.create_file(&name, 0o600).unwrap();
        let mut journal = FileJournal::begin(file.try_clone().unwrap(), &header, "file").unwrap();
        journal.append(&[3, 0, 2, 1, 4].map(|index| (index, [index as u8; 32]))).unwrap();
        let contents = || {
            let mut contents = Vec::new();
            feed(&file, u64::MAX, |piece| {
                contents.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
            contents
        };
        let before = contents();
        journal.keep_first(2).unwrap();
        let place = |number: usize| {
            let at = block_journal::HEADER_LENGTH + number * block_journal::RECORD_LENGTH;
            at..at + block_journal::RECORD_LENGTH
        };
        let after = contents();
        assert_eq!(after.len(), before.len());
        for (number, stays) in [(0, false), (1, true), (2, false), (3, true), (4, false)] {
            assert_eq!(after[place(number)] == before[place(number)], stays, "record {number}");
        }
        let held: Vec<_> = FileJournal::read(file, &header).unwrap().1.iter().collect();
        assert_eq!(held, [(0, [0; 32]), (1, [1; 32])]);
    }

    #[test]
    fn a_new_file_that_another_session_has_taken_is_not_held() {
        let (_temporary, directory, name) = place();
        let name = Purpose::item(&name, Whose::default()).found_again()[0].part();
        let file = directory.create_file(&name, 0o600).unwrap();
        let (other, _) = directory.reopen_file(&name).unwrap();
        assert!(try_lock(&other).unwrap());
        assert!(!hold(&directory, &name, &file).unwrap());
        directory.remove_file(&name).unwrap();
        drop(directory.create_file(&name, 0o600).unwrap());
        drop(other);
        assert!(!hold(&directory, &name, &file).unwrap(), "the name means another one");
    }

    #[test]
    fn a_journal_stays_with_the_unfinished_file_that_it_is_about() {
        let (_temporary, directory, name) = place();
        let whose = Whose::default();
        let staging = make_files(&directory, &name, whose, None, true).unwrap().unwrap().staging;
        remove_journals(&directory, &name, Whose(Some([1; 32]))).unwrap();
        remove_unfinished(&directory, &name, Whose(Some([1; 32]))).unwrap();
        assert!(directory.stat(&staging.part()).is_ok(), "it is another's");
        remove_journals(&directory, &name, whose).unwrap();
        assert!(directory.stat(&staging.blocks()).is_ok(), "its unfinished file is still there");
        directory.remove_file(&staging.part()).unwrap();
        remove_journals(&directory, &name, whose).unwrap();
        assert!(directory.stat(&staging.blocks()).is_err());
    }
}
