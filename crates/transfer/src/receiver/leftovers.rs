//! What an interrupted run leaves behind, and how the next one finds it.
//!
//! Beside a large file: `.icdc-ID.part` (its data so far) and `.icdc-ID.blocks` (which blocks of it
//! are durable); `ID` follows from the final name, and from the user where somebody else holds that
//! one (`staging.rs`), so a later run of any kind finds it. What a run has published so far is in its
//! journal (`run_log.rs`).
//!
//! Who writes a part file of more than one block or a run's journal holds its lock until the file
//! has its last name. A session that ends slowly and the one that goes on after it may be two
//! processes: whoever comes later waits, and looks again whether the name still means the file
//! whose lock it got.

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
use super::staging::{Purpose, Staging, Whose, make_under};
use super::waiting::Waits;
use crate::clock;

/// Most times that a file may be replaced at once while its lock is waited for.
const CLAIMS: u32 = 3;
/// What lies beside an unfinished item.
const BESIDE: [StagingKind; 2] = [StagingKind::Part, StagingKind::Blocks];

/// Interval at which it is looked whether a lock is free. A thread that waits in `flock` itself can be woken
/// by nothing but a signal, and no other event tells of a lock that is free on every file system.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Takes the lock of a file that another session may hold. True if it had to wait.
pub(super) fn lock(file: &File, what: &str, waits: &dyn Waits) -> io::Result<bool> {
    let begun = clock::now();
    let mut has_waited = false;
    while !try_lock(file)? {
        if !waits.goes_on(file, what, clock::now() - begun) {
            waits.ends();
            return Err(io::Error::new(io::ErrorKind::WouldBlock, busy(what, holder(file))));
        }
        has_waited = true;
        std::thread::park_timeout(LOOK_AGAIN);
    }
    if has_waited {
        waits.ends();
    }
    Ok(has_waited)
}

fn busy(what: &str, holder: Option<Holder>) -> String {
    let who = holder.map_or(String::new(), |holder| format!(" ({holder})"));
    format!("{what}: another icdc{who} is writing it; wait for its end or stop it")
}

/// File that an earlier session has left under a name.
pub(super) struct Claimed {
    /// Locked; `None` if there is nothing, or nothing any more.
    pub(super) file: Option<File>,
    /// An earlier session has held it until just now.
    pub(super) has_waited: bool,
    /// File that was waited for, unlocked, where it lost its name meanwhile and was a file to be believed before.
    pub(super) ended: Option<File>,
}

/// Takes the file with the staging name `name`, if there is one: its earlier holder has come to its
/// end. The user knows it as `what`.
pub(super) fn claim(directory: &Directory, name: &Name, what: &str, waits: &dyn Waits) -> Result<Claimed, String> {
    let failed = |error: io::Error| format!("{what}: {error}");
    let mut claimed = Claimed { file: None, has_waited: false, ended: None };
    let mut at_once = 0;
    while at_once < CLAIMS {
        let Ok((file, stat)) = directory.reopen_file(name) else { return Ok(claimed) };
        let is_free = try_lock(&file).map_err(failed)?;
        // Afterwards it may have no name any more, by which it is believed.
        let is_believed = !is_free && is_believed(directory, name, &stat);
        let has_waited = lock(&file, what, waits).map_err(|error| error.to_string())?;
        claimed.has_waited |= has_waited;
        let stat = Stat::of(&file).map_err(|error| format!("{what}: its size and time cannot be read: {error}"))?;
        if is_still_named(directory, name, &stat) {
            claimed.file = Some(file);
            return Ok(claimed);
        }
        // Published or removed while the lock was waited for; others may wait for it, too.
        unlock(&file).map_err(failed)?;
        claimed.ended = is_believed.then_some(file);
        at_once += u32::from(!has_waited);
    }
    Err(busy(what, None))
}

/// Whether the name means this file.
pub(super) fn is_still_named(directory: &Directory, name: &Name, file: &Stat) -> bool {
    directory.stat(name).is_ok_and(|stat| (stat.dev, stat.ino) == (file.dev, file.ino))
}

/// True if what the journal `stat`, found as `name`, says may be believed: it belongs to this user, others
/// may not write to it, and it has exactly this name. By another one that the file system takes for the same
/// it may be what somebody has copied here who may make no journal.
pub(super) fn is_believed(directory: &Directory, name: &Name, stat: &Stat) -> bool {
    let of_others = stat.mode & 0o022;
    // Where all modes are alike, as on file systems without them, who may write the journal may as well
    // replace what it tells of.
    let is_open = |directory: &Stat| directory.mode & 0o1022 == of_others;
    stat.uid == file_user()
        && (of_others == 0 || directory.own_stat().is_ok_and(|directory| is_open(&directory)))
        // One that must not be read is believed by the name that was asked for.
        && directory.lists(name).unwrap_or(true)
}

/// Opens a journal if what it says may be believed.
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
    /// What the journal beside an item has, if it is about this version of the source.
    pub(super) fn find(directory: &Directory, staging: Staging, header: &Header) -> Option<(Self, BlockMap)> {
        Self::read(open_believed(directory, &staging.blocks())?, header)
    }

    /// Blocks that this journal has, if it is about this version of the source.
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

/// Gives what a file has, up to `limit` bytes, piece by piece.
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

/// Files that an earlier session has left of an item.
pub(super) struct LeftPart {
    /// The unfinished file, locked; `None` if there is none, or none any more.
    pub(super) part: Option<(Staging, File)>,
    /// An earlier session has held it until just now.
    pub(super) has_waited: bool,
    /// Durable blocks by the journal of one that was waited for and is gone, if it is about this version
    /// of the source.
    pub(super) ended: Option<BlockMap>,
}

/// Waits for an unfinished file with a hand on its journal, which goes with it.
struct WithJournal<'a> {
    waits: &'a dyn Waits,
    directory: &'a Directory,
    name: Name,
    journal: OnceCell<Option<File>>,
}

impl Waits for WithJournal<'_> {
    fn goes_on(&self, file: &File, what: &str, waited: Span) -> bool {
        self.journal.get_or_init(|| open_believed(self.directory, &self.name));
        self.waits.goes_on(file, what, waited)
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
    waits: &dyn Waits,
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

#[cfg(test)]
mod tests {
    use icdc_disk::tree::Tree;

    use super::*;

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
