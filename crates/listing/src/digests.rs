//! Digests of many files at once.
//!
//! | file | read by | digested by |
//! |---|---|---|
//! | up to [`SMALL`], for BLAKE3 | a worker, which also opens it: small files wait for the medium | the same |
//! | larger, for BLAKE3 | one reader, blocks at depth by Direct I/O | workers, block by block |
//! | any, for SHA-256 and MD5 | a worker, from its start to its end | the same |

use std::io::Read as _;
use std::thread::{Scope, available_parallelism};

use crossbeam_channel::{Receiver, Sender, bounded};
use icdc_disk::BlockPool;
use icdc_limits::thread::start_scoped;
use icdc_protocol::limits::BLOCK_SIZE;
use icdc_protocol::message::ListDigest;
use icdc_session::SessionError;
use icdc_stop::StopSignal;
use icdc_units::ByteCount;
use sha2::Digest as _;

use crate::large::{self, BlockWork};
use crate::subject::{Digested, Job, Subject, changed, check, open, unreadable};

/// Task for one of the threads that digest.
pub(crate) enum DigestTask {
    /// A file that one worker reads and digests.
    File(Job),
    /// A block of a large file.
    Block(BlockWork),
}

/// Size in bytes up to which a file is read and digested whole by one worker; larger ones, for
/// BLAKE3, are split into blocks for all workers.
const SMALL: u64 = 1 << 20;
/// Size in bytes of the pieces of a file that a worker reads one by one.
const PIECE: usize = 1 << 20;
/// Maximum number of workers.
const MOST_WORKERS: usize = 16;
/// Minimum number of workers: those that wait for the medium do not take a processor.
const LEAST_WORKERS: usize = 4;
/// Maximum number of files that are queued for the workers.
const QUEUE: usize = 1024;

/// Digests the files of a listing in threads of its own, which end when it is dropped.
pub(crate) struct Digester {
    digest: ListDigest,
    workers: Sender<DigestTask>,
    large: Sender<Job>,
}

impl Digester {
    /// Starts the threads; they end early when `over` is requested.
    ///
    /// # Errors
    /// This host lacks threads or memory.
    pub(crate) fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        digest: ListDigest,
        over: &'env StopSignal,
    ) -> Result<Self, SessionError> {
        let processors = available_parallelism().map_or(1, usize::from);
        let count = processors.clamp(LEAST_WORKERS, MOST_WORKERS);
        let blocks = large::DEPTH + 2 * count;
        let pool = BlockPool::new(blocks).map_err(|error| {
            let refused = icdc_limits::memory::refused(ByteCount::new((blocks * BLOCK_SIZE) as u64), &error);
            SessionError::Local(format!("memory for reading files: {refused}"))
        })?;
        let (workers, task) = bounded(QUEUE);
        let (large, jobs) = bounded::<Job>(QUEUE);
        let local = |error: icdc_limits::thread::NoThread| SessionError::Local(error.to_string());
        for number in 0..count {
            let task = task.clone();
            let started = start_scoped(scope, "icdc-digest", move || run(&task, digest, over));
            // With one there is always one.
            if number == 0 || started.is_ok() {
                started.map_err(local)?;
            }
        }
        let to_workers = workers.clone();
        let hand_on = move |block| {
            // The workers end after the reader.
            let _ = to_workers.send(DigestTask::Block(block));
        };
        let read = move || large::read(&jobs, &hand_on, (&pool, digest), over);
        start_scoped(scope, "icdc-read", read).map_err(local)?;
        Ok(Self { digest, workers, large })
    }

    /// Queues a file; its digest comes by the channel that is returned, or nothing if the threads
    /// end before.
    pub(crate) fn digest(&self, subject: Subject) -> Receiver<Digested> {
        let (answer, digested) = bounded(1);
        let size = subject.stat.size;
        let job = Job { subject, answer };
        let in_blocks = matches!(self.digest, ListDigest::Comparison | ListDigest::Blake3) && size > SMALL;
        // Whoever waits for the answer sees that there will be none.
        let _ = match in_blocks {
            true => self.large.send(job).map_err(drop),
            false => self.workers.send(DigestTask::File(job)).map_err(drop),
        };
        digested
    }
}

/// A worker's thread: digests files and blocks until the queue is closed; drops what is queued once
/// `over` is requested.
fn run(queue: &Receiver<DigestTask>, digest: ListDigest, over: &StopSignal) {
    let mut buffer = Vec::new();
    for task in queue {
        if over.is_requested() {
            continue;
        }
        match task {
            DigestTask::Block(block) => block.digest(),
            DigestTask::File(job) => {
                buffer.resize(PIECE, 0);
                let digested = whole(&job.subject, digest, &mut buffer, over);
                let _ = job.answer.send(digested);
            }
        }
    }
}

/// Digest of a file that is read from its start to its end.
fn whole(subject: &Subject, digest: ListDigest, buffer: &mut [u8], over: &StopSignal) -> Digested {
    let (file, opened) = open(subject)?;
    let mut read = 0;
    let mut hasher = Hasher::new(digest);
    let mut reader = &file;
    loop {
        match reader.read(buffer) {
            Ok(0) => break,
            Ok(count) => {
                hasher.update(&buffer[..count]);
                read += count as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(subject, &error)),
        }
        // A file that grows is not read for ever.
        if over.is_requested() || read > opened.size {
            break;
        }
    }
    check(&file, &opened, subject)?;
    if read == opened.size { Ok(hasher.finish()) } else { Err(changed(subject)) }
}

/// Digest being computed over a file's bytes from start to end, by the requested algorithm.
enum Hasher {
    Blake3(Box<blake3::Hasher>),
    Sha256(sha2::Sha256),
    Md5(md5::Md5),
}

impl Hasher {
    fn new(digest: ListDigest) -> Self {
        match digest {
            ListDigest::Comparison | ListDigest::Blake3 => Self::Blake3(Box::default()),
            ListDigest::Sha256 => Self::Sha256(sha2::Sha256::new()),
            ListDigest::Md5 => Self::Md5(md5::Md5::new()),
        }
    }

    fn update(&mut self, data: &[u8]) {
        match self {
            Self::Blake3(hasher) => {
                hasher.update(data);
            }
            Self::Sha256(hasher) => hasher.update(data),
            Self::Md5(hasher) => hasher.update(data),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Blake3(hasher) => hasher.finalize().as_bytes().to_vec(),
            Self::Sha256(hasher) => hasher.finalize().to_vec(),
            Self::Md5(hasher) => hasher.finalize().to_vec(),
        }
    }
}
