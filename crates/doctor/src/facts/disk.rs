//! Rates of a disk, as copies would see them: blocks of 4 MiB, several in flight, by Direct I/O
//! where that works.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use icdc_disk::{
    BLOCK_SIZE, Block, BlockPool, DiskFile, Engine, EngineError, EngineKind, EngineUnavailable, FileError, Job,
    open_engine,
};
use icdc_packet::clock;
use icdc_units::{ByteCount, Rate, Span};

/// Largest amount that is written to the disk.
const MOST: ByteCount = ByteCount::from_mib(1024);
/// Longest time for writing, and again for reading.
const LONGEST: Span = Span::from_secs(5);
/// Number of blocks in flight at once.
const DEPTH: usize = 8;
/// Length in bytes of the pieces of a block that are written with different contents: two that are
/// equal could be stored as one.
const PAGE: usize = 4096;

/// Measured rates of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The directory that was written to.
    pub directory: PathBuf,
    /// Engine of the disk I/O: `io_uring` or `threads`.
    pub engine: &'static str,
    /// Whether direct I/O was used.
    pub is_direct: bool,
    /// Number of bytes that were written; fewer are read if that takes longer than 5 s.
    pub bytes: ByteCount,
    /// Rate of writing, until all was durable.
    pub write: Rate,
    /// Rate of reading from the disk.
    pub read: Rate,
}

/// Reason why there are no rates.
#[derive(Debug, thiserror::Error)]
pub enum DiskTestError {
    /// The file for the measurement cannot be made.
    #[error("--disk {}: a file cannot be made there: {cause}", .directory.display())]
    Make {
        /// Directory in which it was to be made.
        directory: PathBuf,
        /// The kernel's error.
        cause: std::io::Error,
    },
    /// The file for the measurement cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// No engine for disk I/O is available.
    #[error(transparent)]
    Engine(#[from] EngineUnavailable),
    /// Reading or writing the file failed.
    #[error(transparent)]
    Transfer(#[from] EngineError),
    /// There is no memory for the blocks.
    #[error("mmap of {DEPTH} blocks: {0}")]
    Memory(std::io::Error),
}

/// Writes a file to `directory` and reads it: at most 1 GiB and 5 s each. The file never has a
/// name, so nothing can be left of it.
///
/// # Errors
/// No file can be made there, or the disk fails or is full.
pub fn measure(directory: &Path) -> Result<Disk, DiskTestError> {
    measure_up_to(directory, MOST)
}

/// Measures like [`measure`], writing at most `most`.
fn measure_up_to(directory: &Path, most: ByteCount) -> Result<Disk, DiskTestError> {
    let file = tempfile::tempfile_in(directory)
        .map_err(|cause| DiskTestError::Make { directory: directory.to_owned(), cause })?;
    let file = Arc::new(DiskFile::for_writing(file)?);
    let pool = BlockPool::new(DEPTH).map_err(DiskTestError::Memory)?;
    let engine = open_engine(DEPTH, EngineKind::Auto)?;
    let mut bench = Bench { file, pool, engine };
    bench.fill_with_noise();

    let begun = clock::now();
    let written = bench.transfer(most.as_u64(), |file, offset, mut block| {
        stamp(&mut block, offset);
        Job::Write { file, offset, ranges: Vec::new(), length: BLOCK_SIZE, block }
    })?;
    bench.sync()?;
    let writing = clock::now() - begun;

    bench.file.forget_cache();
    let begun = clock::now();
    let read = bench.transfer(written, |file, offset, block| Job::Read { file, offset, length: BLOCK_SIZE, block })?;
    let reading = clock::now() - begun;

    Ok(Disk {
        directory: directory.to_owned(),
        engine: bench.engine.name(),
        is_direct: bench.file.is_direct(),
        bytes: ByteCount::new(written),
        write: ByteCount::new(written) / writing,
        read: ByteCount::new(read) / reading,
    })
}

/// File, blocks and engine of the measurement of a disk.
struct Bench {
    file: Arc<DiskFile>,
    pool: BlockPool,
    engine: Box<dyn Engine>,
}

impl Bench {
    /// Fills the blocks with noise, because compressible data would be written faster. Their
    /// contents are kept.
    fn fill_with_noise(&self) {
        let mut state = 0_u64;
        let blocks: Vec<Block> = std::iter::from_fn(|| self.pool.try_take()).collect();
        for mut block in blocks {
            for word in block.chunks_exact_mut(8) {
                word.copy_from_slice(&noise(&mut state).to_ne_bytes());
            }
        }
    }

    /// Runs the jobs for the first `most` bytes, or as many as there is time for. Returns the bytes
    /// that were done.
    fn transfer(&mut self, most: u64, job: impl Fn(Arc<DiskFile>, u64, Block) -> Job) -> Result<u64, EngineError> {
        let begun = clock::now();
        let (mut next, mut done) = (0, 0);
        loop {
            while next < most
                && clock::now() - begun < LONGEST
                && let Some(block) = self.pool.try_take()
            {
                self.engine.submit(next, job(Arc::clone(&self.file), next, block));
                next += BLOCK_SIZE as u64;
            }
            match self.engine.wait() {
                None => return Ok(done),
                Some(completion) => done += completion.result? as u64,
            }
        }
    }

    /// Makes durable what was written, and waits for that.
    fn sync(&mut self) -> Result<(), EngineError> {
        self.engine.submit(0, Job::Sync { file: Arc::clone(&self.file) });
        self.engine.wait().map_or(Ok(()), |completion| completion.result.map(drop))
    }
}

/// The next number of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
/// Generators").
fn noise(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Writes the block's offset in the file into each of its pages, so that blocks with the same noise
/// differ.
fn stamp(block: &mut Block, offset: u64) {
    for page in block.chunks_exact_mut(PAGE) {
        page[..8].copy_from_slice(&offset.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_rates_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let disk = measure_up_to(directory.path(), ByteCount::from_mib(24)).unwrap();
        assert!(disk.bytes > ByteCount::ZERO && disk.bytes <= ByteCount::from_mib(24));
        assert!(disk.write > Rate::ZERO && disk.read > Rate::ZERO);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_told() {
        let error = measure(Path::new("/nonexistent/directory")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/directory"), "{error}");
    }
}
