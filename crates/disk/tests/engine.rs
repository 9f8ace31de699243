//! Both engines on real files, with and without Direct I/O.

#![expect(clippy::unwrap_used, reason = "a failed helper fails its test")]

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use icdc_disk::{
    BLOCK_SIZE, Block, BlockPool, Completion, DiskFile, Engine, EngineError, EngineKind, Job, JobKind, open_engine,
};
use proptest::prelude::*;
use tempfile::TempDir;

/// An engine with a directory to work in.
struct Bench {
    engine: Box<dyn Engine>,
    pool: BlockPool,
    directory: TempDir,
}

impl Bench {
    fn create(&self, name: &str) -> Arc<DiskFile> {
        Arc::new(DiskFile::for_writing(create(&self.path(name))).unwrap())
    }

    fn open(&self, name: &str) -> Arc<DiskFile> {
        Arc::new(DiskFile::for_reading(File::open(self.path(name)).unwrap()).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn block(&self, seed: u64) -> Block {
        let mut block = self.pool.take().unwrap();
        fill(&mut block, seed);
        block
    }

    fn one(&mut self, job: Job) -> Completion {
        self.engine.submit(99, job);
        let completion = self.engine.wait().unwrap();
        assert_eq!(completion.tag, 99);
        completion
    }
}

fn create(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap()
}

/// Bytes that differ at every place and for every seed.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

/// Runs a test with each engine on the temporary directory and in memory.
fn everywhere(depth: usize, test: impl Fn(Bench)) {
    let memory = Path::new("/dev/shm");
    let places = [Some(std::env::temp_dir()), memory.is_dir().then(|| memory.to_path_buf())];
    for place in places.into_iter().flatten() {
        for kind in [EngineKind::Uring, EngineKind::Threads] {
            let engine = match open_engine(depth, kind) {
                Ok(engine) => engine,
                Err(error) if kind == EngineKind::Uring => {
                    eprintln!("not tested: {error}");
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let directory = tempfile::tempdir_in(&place).unwrap();
            eprintln!("{} in {}", engine.name(), place.display());
            test(Bench { engine, pool: BlockPool::new(8).unwrap(), directory });
        }
    }
}

#[test]
fn what_was_written_is_read_back() {
    const TAIL: usize = 12_345;
    const BLOCKS: u64 = 5;
    everywhere(4, |mut bench| {
        let size = (BLOCKS - 1) * BLOCK_SIZE as u64 + TAIL as u64;
        let length = |index| {
            if index + 1 == BLOCKS { TAIL } else { BLOCK_SIZE }
        };
        let file = bench.create("file");
        file.preallocate(0..size).unwrap();
        for index in (0..BLOCKS).rev() {
            bench.engine.submit(
                index,
                Job::Write {
                    file: Arc::clone(&file),
                    offset: index * BLOCK_SIZE as u64,
                    ranges: Vec::new(),
                    length: length(index),
                    block: bench.block(index),
                },
            );
        }
        assert_eq!(bench.engine.in_flight(), BLOCKS as usize);
        let mut tags = BTreeSet::new();
        while let Some(completion) = bench.engine.wait() {
            assert_eq!(completion.kind, JobKind::Write);
            assert_eq!(completion.result.unwrap(), length(completion.tag));
            tags.insert(completion.tag);
        }
        assert_eq!(tags, (0..BLOCKS).collect());
        assert_eq!(bench.pool.in_use(), 0);
        file.set_len(size).unwrap();
        let completion = bench.one(Job::Sync { file: Arc::clone(&file) });
        assert_eq!((completion.kind, completion.result.unwrap()), (JobKind::Sync, 0));

        let on_disk = std::fs::read(bench.path("file")).unwrap();
        assert_eq!(on_disk.len() as u64, size);
        let file = bench.open("file");
        assert_eq!(file.size().unwrap(), size);
        for index in 0..BLOCKS {
            let mut expected = bench.block(index);
            fill(&mut expected, index);
            let expected = &expected[..length(index)];
            let start = index as usize * BLOCK_SIZE;
            assert!(on_disk[start..start + length(index)] == *expected);
            let offset = index * BLOCK_SIZE as u64;
            // More than there is at the end: short.
            let block = bench.pool.take().unwrap();
            let file = Arc::clone(&file);
            let read = bench.one(Job::Read { file, offset, length: BLOCK_SIZE, block });
            assert_eq!(read.result.unwrap(), length(index));
            assert!(read.block.unwrap()[..length(index)] == *expected);
        }
    });
}

#[test]
fn ranges_leave_holes_between_them() {
    everywhere(2, |mut bench| {
        let file = bench.create("file");
        let length = 3 << 20;
        file.set_len(length as u64).unwrap();
        let ranges = vec![(0, 10), (100_000, 5_000), (105_000, 0), (1 << 20, 1 << 19)];
        let block = bench.block(1);
        let mut expected = vec![0; length];
        for &(start, size) in &ranges {
            let range = start as usize..(start + size) as usize;
            expected[range.clone()].copy_from_slice(&block[range]);
        }
        let write = bench.one(Job::Write { file: Arc::clone(&file), offset: 0, ranges, length, block });
        assert_eq!(write.result.unwrap(), 10 + 5_000 + (1 << 19));
        file.set_len(length as u64).unwrap();
        assert!(std::fs::read(bench.path("file")).unwrap() == expected);
        assert!(icdc_disk::sparse::is_sparse(&file.as_file().metadata().unwrap()));
    });
}

#[test]
fn more_jobs_than_depth_wait_their_turn() {
    everywhere(2, |mut bench| {
        let file = bench.create("file");
        fill_file(&file, 8);
        assert_eq!(bench.engine.depth(), 2);
        for tag in 0..8 {
            let block = bench.pool.take().unwrap();
            let file = Arc::clone(&file);
            bench.engine.submit(tag, Job::Read { file, offset: tag * 4096, length: 4096, block });
        }
        assert!(bench.pool.try_take().is_none());
        let mut tags = BTreeSet::new();
        while bench.engine.in_flight() > 0 {
            let Some(completion) = bench.engine.try_wait() else {
                thread::yield_now();
                continue;
            };
            let block = completion.block.unwrap();
            assert!(block[..4096].iter().all(|&byte| u64::from(byte) == completion.tag));
            tags.insert(completion.tag);
        }
        assert_eq!(tags.len(), 8);
        assert!(bench.engine.wait().is_none());
    });
}

/// Pages full of their own number.
fn fill_file(file: &DiskFile, pages: u8) {
    for page in 0..pages {
        file.as_file().write_all_at(&[page; 4096], u64::from(page) * 4096).unwrap();
    }
}

#[test]
fn failures_name_the_operation_and_give_the_block_back() {
    everywhere(2, |mut bench| {
        std::fs::write(bench.path("file"), [1; 5000]).unwrap();
        let file = bench.open("file");
        let block = bench.block(1);
        let job = Job::Write { file: Arc::clone(&file), offset: 4096, ranges: Vec::new(), length: 4096, block };
        let completion = bench.one(job);
        let error = completion.result.unwrap_err();
        assert!(matches!(error, EngineError::Write { offset: 4096, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("write of \"/") && text.contains("file\""), "{text}");
        assert!(completion.block.is_some());

        let writer = OpenOptions::new().write(true).open(bench.path("file")).unwrap();
        let file = Arc::new(DiskFile::for_writing(writer).unwrap());
        let block = completion.block.unwrap();
        let completion = bench.one(Job::Read { file, offset: 0, length: 10, block });
        let error = completion.result.unwrap_err();
        assert!(matches!(error, EngineError::Read { .. }), "{error:?}");
        drop(completion.block);
        assert_eq!(bench.pool.in_use(), 0);
    });
}

#[test]
fn jobs_that_make_no_sense_are_refused() {
    everywhere(2, |mut bench| {
        let file = bench.create("file");
        let bad = [
            (0, BLOCK_SIZE + 1, vec![]),
            (u64::MAX, 10, vec![]),
            (i64::MAX as u64, 10, vec![]),
            (0, 100, vec![(10, 10), (5, 2)]),
            (0, 100, vec![(10, 10), (19, 2)]),
            (0, 100, vec![(90, 11)]),
            (0, 100, vec![(1, u32::MAX)]),
        ];
        for (offset, length, ranges) in bad {
            let block = bench.block(1);
            let file = Arc::clone(&file);
            let completion = bench.one(Job::Write { file, offset, ranges, length, block });
            assert!(matches!(completion.result, Err(EngineError::Job(_))));
            assert!(completion.block.is_some());
        }
        assert_eq!(file.size().unwrap(), 0);
        let block = bench.block(1);
        let nothing = bench.one(Job::Read { file, offset: 0, length: 0, block });
        assert_eq!(nothing.result.unwrap(), 0);
    });
}

#[test]
fn reads_at_and_beyond_the_end_find_nothing() {
    everywhere(2, |mut bench| {
        std::fs::write(bench.path("file"), [1; 5000]).unwrap();
        let file = bench.open("file");
        for (offset, expected) in [(4096, 904), (4999, 1), (5000, 0), (8192, 0), (1 << 40, 0)] {
            let block = bench.pool.take().unwrap();
            let file = Arc::clone(&file);
            let read = bench.one(Job::Read { file, offset, length: 10_000, block });
            assert_eq!(read.result.unwrap(), expected, "at {offset}");
        }
    });
}

#[test]
fn dropping_an_engine_waits_for_what_is_in_flight() {
    everywhere(4, |bench| {
        let Bench { mut engine, pool, directory } = bench;
        let path = directory.path().join("file");
        let file = Arc::new(DiskFile::for_writing(create(&path)).unwrap());
        for index in 0..8 {
            let mut block = pool.take().unwrap();
            block.fill(index as u8 + 1);
            let (file, offset) = (Arc::clone(&file), index * BLOCK_SIZE as u64);
            let job = Job::Write { file, offset, ranges: Vec::new(), length: BLOCK_SIZE, block };
            engine.submit(index, job);
        }
        drop(engine);
        assert_eq!(pool.in_use(), 0);
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.len(), 8 * BLOCK_SIZE);
        for (index, chunk) in bytes.chunks(BLOCK_SIZE).enumerate() {
            assert!(chunk.iter().all(|&byte| byte == index as u8 + 1));
        }
    });
}

#[test]
fn jobs_survive_the_end_of_the_thread_that_submitted_them() {
    everywhere(4, |bench| {
        let file = bench.create("file");
        let Bench { mut engine, pool, directory } = bench;
        let submitter = thread::spawn({
            let (file, pool) = (Arc::clone(&file), pool.clone());
            move || {
                for index in 0..8 {
                    let mut block = pool.take().unwrap();
                    fill(&mut block, index);
                    let (file, offset) = (Arc::clone(&file), index * BLOCK_SIZE as u64);
                    let length = BLOCK_SIZE;
                    let job = Job::Write { file, offset, ranges: Vec::new(), length, block };
                    engine.submit(index, job);
                }
                engine
            }
        });
        let mut engine = submitter.join().unwrap();
        while let Some(completion) = engine.wait() {
            assert_eq!(completion.result.unwrap(), BLOCK_SIZE);
        }
        let bytes = std::fs::read(directory.path().join("file")).unwrap();
        let mut expected = pool.take().unwrap();
        for (index, chunk) in bytes.chunks(BLOCK_SIZE).enumerate() {
            fill(&mut expected, index as u64);
            assert!(chunk == &expected[..]);
        }
    });
}

#[test]
fn non_blocking_descriptors_are_waited_for() {
    use std::os::unix::fs::OpenOptionsExt;
    everywhere(4, |mut bench| {
        let mut data = vec![0; 2 * BLOCK_SIZE];
        fill(&mut data, 5);
        std::fs::write(bench.path("file"), &data).unwrap();
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let path = bench.path("file");
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap();
        let file = Arc::new(DiskFile::for_reading(file).unwrap());
        file.as_file().sync_all().unwrap();
        file.forget_cache();
        let block = bench.pool.take().unwrap();
        // Not aligned, so it goes through the page cache, which is cold.
        let read = bench.one(Job::Read { file, offset: 1, length: BLOCK_SIZE, block });
        assert_eq!(read.result.unwrap(), BLOCK_SIZE);
        assert!(read.block.unwrap()[..] == data[1..=BLOCK_SIZE]);
    });
}

#[derive(Clone, Debug)]
struct Plan {
    index: u64,
    shift: u64,
    length: usize,
    ranges: Vec<(u32, u32)>,
    seed: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let shift = prop_oneof![3 => Just(0u64), 1 => 0u64..100_000];
    let length = prop_oneof![Just(BLOCK_SIZE), 0usize..=BLOCK_SIZE, 0usize..10_000];
    let points = prop::collection::vec(0u32..=BLOCK_SIZE as u32, 0..8);
    (0u64..4, shift, length, points, any::<u64>()).prop_map(|(index, shift, length, points, seed)| {
        let mut points: Vec<u32> = points.into_iter().map(|at| at.min(length as u32)).collect();
        points.sort_unstable();
        let ranges = points.chunks_exact(2).map(|pair| (pair[0], pair[1] - pair[0])).collect();
        Plan { index, shift, length, ranges, seed }
    })
}

/// Runs the plans one after another and compares the file with a model in memory, then compares
/// reads of random places with `std`.
fn equals_the_model(plans: &[Plan], reads: &[(u64, usize)], kind: EngineKind) {
    const FILE: usize = 5 * BLOCK_SIZE;
    let Ok(engine) = open_engine(3, kind) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench { engine, pool: BlockPool::new(3).unwrap(), directory };
    let file = bench.create("file");
    let mut model = vec![0u8; FILE];
    for plan in plans {
        let offset = plan.index * BLOCK_SIZE as u64 + plan.shift;
        // What was there before is no hole any more: the whole block is written anew, as a
        // resumed transfer does.
        let whole = offset as usize..(offset as usize + BLOCK_SIZE);
        model[whole.clone()].fill(0);
        punch(&file, &whole, FILE);
        let block = bench.block(plan.seed);
        let all = [(0, plan.length as u32)];
        let ranges = if plan.ranges.is_empty() { &all[..] } else { &plan.ranges };
        let mut bytes = 0;
        for &(start, size) in ranges {
            let range = start as usize..(start + size) as usize;
            model[offset as usize..][range.clone()].copy_from_slice(&block[range]);
            bytes += size as usize;
        }
        let (ranges, length) = (plan.ranges.clone(), plan.length);
        let write = Job::Write { file: Arc::clone(&file), offset, ranges, length, block };
        assert_eq!(bench.one(write).result.unwrap(), bytes);
    }
    file.set_len(FILE as u64).unwrap();
    assert!(std::fs::read(bench.path("file")).unwrap() == model, "{plans:?}");
    let file = bench.open("file");
    for &(offset, length) in reads {
        let block = bench.pool.take().unwrap();
        let read = bench.one(Job::Read { file: Arc::clone(&file), offset, length, block });
        let start = FILE.min(offset as usize);
        let expected = &model[start..FILE.min(start + length)];
        let bytes = read.result.unwrap();
        assert_eq!(bytes, expected.len());
        assert!(read.block.unwrap()[..bytes] == *expected);
    }
}

fn punch(file: &DiskFile, range: &std::ops::Range<usize>, size: usize) {
    use rustix::fs::{FallocateFlags, fallocate};
    file.set_len(size as u64).unwrap();
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file.as_file(), flags, range.start as u64, range.len() as u64).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn random_jobs_equal_the_model(
        plans in prop::collection::vec(plan(), 1..6),
        reads in prop::collection::vec((0u64..21 << 20, 0usize..=BLOCK_SIZE), 1..6),
    ) {
        equals_the_model(&plans, &reads, EngineKind::Uring);
        equals_the_model(&plans, &reads, EngineKind::Threads);
    }
}
