//! Compares files that an earlier run has published with the digest under which it did so, and
//! copies files from reference directories. Finds the files of a mirror that may have been renamed,
//! and compares and copies these. Describes files to the sender that are replaced.
//!
//! With `--verify` nothing counts that was not read from the medium. Comparing takes as long as the
//! files are large, so it has a thread and blocks of its own: what is missing arrives meanwhile.

use std::sync::Arc;

use crossbeam_channel::{Receiver as Queue, Sender as Channel, TryRecvError};
use icdc_disk::tree::Stat;
use icdc_disk::{BlockPool, Completion, DiskFile, Engine, EngineKind, Job, open_engine, sparse};
use icdc_protocol::block_map::{BlockMap, block_length, block_offset};
use icdc_protocol::digest;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::FileDigest;
use icdc_session::SessionError;
use icdc_session::receiver::files::digest_like;
use icdc_units::{ByteCount, Span};

use super::bases::Stepped;
use super::jobs::{CompareJob, DiskJob, NameJob, Subject};
use super::references;
use super::shared::Shared;

/// Number of reads in flight.
const DEPTH: usize = 4;

/// Body of the thread that reads files at the destination: compares, copies and finds them until
/// the queue is closed or the session fails. Results go to `names`.
pub(super) fn run(shared: &Shared<'_>, queue: &Queue<DiskJob>, names: &Channel<NameJob>) {
    let mut reader: Option<Reader> = None;
    let mut buffer = Vec::new();
    let mut describes = false;
    loop {
        // Other jobs come first: the comparisons may take as long as the copy.
        let job = match queue.try_recv() {
            Err(TryRecvError::Empty) if describes => DiskJob::Describe,
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => match queue.recv() {
                Ok(job) => job,
                Err(_) => return,
            },
            Ok(job) => job,
        };
        let job = match job {
            DiskJob::Describe => {
                describes = !shared.has_failed() && describe(shared, &mut buffer, names);
                continue;
            }
            DiskJob::Compare(job) => job,
            DiskJob::Copy(job) => {
                let how = (shared.options, shared.whose());
                let copied = references::copy(&job, how, || !shared.has_failed());
                let made = copied.inspect_err(|failure| tracing::debug!(?failure, "a file travels after all")).ok();
                let _ = names.send(NameJob::Referred { id: job.id, made });
                continue;
            }
            DiskJob::Find(search) => {
                let found = search.run(|| !shared.has_failed() && !shared.draining.wait(Span::ZERO));
                let _ = names.send(NameJob::Candidates(found));
                continue;
            }
        };
        if let Some(known) = known(shared, &job) {
            let _ = names.send(NameJob::Compared { id: job.id, same: known == job.digest });
            continue;
        }
        let reader = match &mut reader {
            Some(reader) => reader,
            None => match Reader::new() {
                Ok(new) => reader.insert(new),
                Err(error) => return shared.fail(error),
            },
        };
        // A file that cannot be read is not the one that was published.
        let found = reader.digest(shared, &job).unwrap_or_else(|reason| {
            tracing::warn!(%reason, "a published file cannot be compared; it travels again");
            None
        });
        if shared.has_failed() {
            return;
        }
        let _ = names.send(NameJob::Compared { id: job.id, same: found == Some(job.digest) });
    }
}

/// Takes the next step of describing files to the sender; whether there is another one. A file that is to be
/// opened first is asked for by `names`.
fn describe(shared: &Shared<'_>, buffer: &mut Vec<u8>, names: &Channel<NameJob>) -> bool {
    let by_place = match shared.bases.step(buffer, |basis| shared.reply(basis)) {
        Stepped::On => true,
        Stepped::Waits => false,
        Stepped::Opens(id) => {
            let _ = names.send(NameJob::Open(id));
            false
        }
    };
    let by_chunks = shared.delta.step(buffer, |chunks| shared.reply(chunks));
    by_place || by_chunks
}

/// Digest that an earlier run has kept of a file which is as it was found, of the kind that it is to be
/// compared with.
fn known(shared: &Shared<'_>, job: &CompareJob) -> Option<FileDigest> {
    let Subject::Candidate { location, stat } = &job.subject else { return None };
    let known = shared.digests.of(stat)?;
    let is_unchanged = location.open_unchanged(stat).is_ok();
    (is_unchanged && std::mem::discriminant(&known) == std::mem::discriminant(&job.digest)).then_some(known)
}

/// Disk engine and blocks with which the comparing thread reads files.
struct Reader {
    engine: Box<dyn Engine>,
    pool: BlockPool,
}

impl Reader {
    /// Opens the engine and allocates the blocks.
    fn new() -> Result<Self, SessionError> {
        let engine = open_engine(DEPTH, EngineKind::Auto).map_err(|error| SessionError::Local(error.to_string()))?;
        let pool = BlockPool::new(DEPTH).map_err(|error| {
            let refused = icdc_limits::memory::refused(ByteCount::new((DEPTH * BLOCK_SIZE) as u64), &error);
            SessionError::Local(format!("memory for comparing files: {refused}"))
        })?;
        Ok(Self { engine, pool })
    }

    /// Reads a file from the medium and returns its digest; `None` if a candidate has changed since
    /// it was found, or the session fails meanwhile.
    fn digest(&mut self, shared: &Shared<'_>, job: &CompareJob) -> Result<Option<FileDigest>, String> {
        let size = job.size.as_u64();
        let (Subject::Published(location) | Subject::Candidate { location, .. }) = &job.subject;
        let (directory, name) = location.open().map_err(|error| error.to_string())?;
        let (file, stat) = directory.open_file(&name).map_err(|error| error.to_string())?;
        let before = match &job.subject {
            Subject::Candidate { stat: found, .. } if !found.same_version(&stat) => return Ok(None),
            Subject::Candidate { .. } => Some(stat),
            Subject::Published(_) => None,
        };
        let file = Arc::new(DiskFile::for_reading(file).map_err(|error| error.to_string())?);
        let kept = before
            .and_then(|before| shared.digests.begin(file.as_file()).filter(|read| read.stat().same_version(&before)));
        if before.is_none() || shared.options.verify {
            // Only clean pages can be dropped.
            file.as_file().sync_data().map_err(|error| error.to_string())?;
            file.forget_cache();
        }
        let mut blocks = BlockMap::new(size);
        let mut outcome = Ok(());
        let mut next = 0;
        for range in sparse::data_ranges(file.as_file(), size) {
            let (offset, length) = range.map_err(|error| error.to_string())?;
            let end = (offset + length).div_ceil(BLOCK_SIZE as u64) as u32;
            next = next.max((offset / BLOCK_SIZE as u64) as u32);
            while next < end && outcome.is_ok() && !shared.has_failed() {
                let Some(block) = self.pool.try_take() else {
                    outcome = self.take(&mut blocks);
                    continue;
                };
                let (offset, length) = (block_offset(next), block_length(size, next));
                let job = Job::Read { file: file.clone(), offset, length, block };
                self.engine.submit(u64::from(next), job);
                next += 1;
            }
        }
        while self.engine.in_flight() > 0 {
            outcome = outcome.and(self.take(&mut blocks));
        }
        outcome?;
        let is_same = |before: Stat| Stat::of(file.as_file()).is_ok_and(|after| after.same_version(&before));
        if before.is_some_and(|before| !is_same(before)) {
            return Ok(None);
        }
        if shared.has_failed() {
            return Ok(None);
        }
        let digest = digest_like(&job.digest, &blocks);
        if let (Some(version), Some(digest)) = (kept, digest) {
            shared.digests.note(version, digest);
        }
        Ok(digest)
    }

    /// Waits for one block to be read and records its digest in `blocks`.
    fn take(&mut self, blocks: &mut BlockMap) -> Result<(), String> {
        let Some(Completion { tag, block, result, .. }) = self.engine.wait() else {
            return Err("no memory is left to read it: earlier reads of the disk were never answered".into());
        };
        let read = result.map_err(|error| error.to_string())?;
        let (index, size) = (tag as u32, blocks.size());
        match block {
            Some(block) if read == block_length(size, index) => {
                let value = digest::block_value(block_offset(index), &block[..read], size);
                blocks.insert(index, value).map(|_| ()).map_err(|error| error.to_string())
            }
            _ => Err("it has become shorter".into()),
        }
    }
}
