//! Jobs on real files under a kernel that does less than it is asked to.

use super::*;
use crate::pool::BlockPool;
use proptest::prelude::*;
use rustix::io::{pread, pwrite};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Outcome that the kernel gives one step.
#[derive(Clone, Debug)]
enum Weather {
    Fine,
    /// Transfers at most so many bytes.
    Short(usize),
    Fails(Errno),
}

/// Performs a step with less luck than usual; afterwards all is fine.
fn perform(step: Step<'_>, weather: &Weather) -> Result<usize, Errno> {
    let limit = match weather {
        Weather::Fine => BLOCK_SIZE,
        Weather::Short(limit) => *limit,
        Weather::Fails(errno) => return Err(*errno),
    };
    // Through the page cache, so that lengths that Direct I/O would refuse can be tried.
    match step {
        Step::Read(file, bytes, offset) => {
            let length = bytes.len().min(limit);
            pread(buffered(file), &mut bytes[..length], offset)
        }
        Step::Write(file, bytes, offset) => pwrite(buffered(file), &bytes[..bytes.len().min(limit)], offset),
        Step::Sync(_) => Ok(0),
    }
}

fn buffered(file: BorrowedFd<'_>) -> BorrowedFd<'_> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    fcntl_setfl(file, fcntl_getfl(file).unwrap() - OFlags::DIRECT).unwrap();
    file
}

fn run(job: Job, weather: &[Weather]) -> Completion {
    let mut work = match Work::begin(1, job) {
        Ok(work) => work,
        Err(completion) => return *completion,
    };
    let mut weather = weather.iter();
    for _ in 0..10_000 {
        let outcome = perform(work.step(), weather.next().unwrap_or(&Weather::Fine));
        if let Some(result) = work.advance(outcome) {
            return work.complete(result);
        }
    }
    panic!("a job must end");
}

fn disk_file() -> Arc<DiskFile> {
    Arc::new(DiskFile::for_writing(tempfile::tempfile().unwrap()).unwrap())
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn pattern(block: &mut [u8], seed: u8) {
    for (index, byte) in block.iter_mut().enumerate() {
        *byte = (index / 7) as u8 ^ (index as u8) ^ seed | 1;
    }
}

/// Ranges in the first 64 KiB, some of them empty, adjacent or aligned.
fn some_ranges() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let point = prop_oneof![0u32..65_536, (0u32..16).prop_map(|page| page * 4096)];
    prop::collection::vec(point, 0..12).prop_map(|mut points| {
        points.sort_unstable();
        let pairs = points.chunks_exact(2);
        pairs.map(|pair| (pair[0], pair[1] - pair[0])).collect()
    })
}

fn some_weather() -> impl Strategy<Value = Vec<Weather>> {
    let one = prop_oneof![
        2 => Just(Weather::Fine),
        3 => (1usize..70_000).prop_map(Weather::Short),
        2 => (1usize..16).prop_map(|pages| Weather::Short(pages * 4096)),
        1 => Just(Weather::Fails(Errno::INTR)),
        1 => Just(Weather::Fails(Errno::AGAIN)),
        1 => Just(Weather::Fails(Errno::CANCELED)),
    ];
    // The file system refuses Direct I/O once, in the middle of it all, or never.
    (prop::collection::vec(one, 0..20), prop::option::of(0usize..20)).prop_map(|(mut all, at)| {
        if let Some(at) = at {
            all.insert(at.min(all.len()), Weather::Fails(Errno::INVAL));
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn writes_put_the_ranges_and_zeros_whatever_the_kernel_does(
        ranges in some_ranges(),
        tail in 0usize..5000,
        weather in some_weather(),
        unaligned in any::<bool>(),
    ) {
        let offset = if unaligned { 8192 + 17 } else { 8192 };
        let length = 65_536 + tail;
        let file = disk_file();
        let mut block = BlockPool::new(1).unwrap().take().unwrap();
        // Nothing but the ranges may be written, even if the block is dirty between them.
        pattern(&mut block, 3);
        let mut expected = vec![0; offset as usize + length];
        let all = [(0, length as u32)];
        for &(start, size) in if ranges.is_empty() { &all[..] } else { &ranges } {
            let range = start as usize..(start + size) as usize;
            expected[offset as usize..][range.clone()].copy_from_slice(&block[range]);
        }
        let size = if ranges.is_empty() {
            length
        } else {
            ranges.iter().map(|range| range.1 as usize).sum()
        };
        let job = Job::Write { file: Arc::clone(&file), offset, ranges, length, block };
        let refusal = |one: &Weather| matches!(one, Weather::Fails(Errno::INVAL));
        // A job that starts buffered takes `EINVAL` for an error like any other.
        let direct = file.is_direct() && !unaligned;
        let weather: Vec<_> =
            weather.into_iter().filter(|one| direct || !refusal(one)).collect();
        let refused = weather.iter().position(refusal);
        let completion = run(job, &weather);
        match completion.result {
            Ok(written) => {
                prop_assert_eq!(written, size);
                file.set_len(expected.len() as u64).unwrap();
                prop_assert!(content(file.as_file()) == expected);
            }
            // Refused only after a short transfer had made the job buffered.
            Err(error) => prop_assert!(refused.is_some_and(|at| at > 0), "{}", error),
        }
        prop_assert!(completion.block.is_some());
    }

    #[test]
    fn reads_end_at_the_length_or_the_end_of_the_file(
        size in 0usize..40_000,
        offset in prop_oneof![Just(0u64), Just(4096), 0u64..45_000],
        length in 0usize..40_000,
        weather in some_weather(),
    ) {
        let weather: Vec<_> = weather
            .into_iter()
            .filter(|one| !matches!(one, Weather::Fails(Errno::INVAL)))
            .collect();
        let file = disk_file();
        let mut data = vec![0; size];
        pattern(&mut data, 9);
        file.as_file().write_all_at(&data, 0).unwrap();
        let block = BlockPool::new(1).unwrap().take().unwrap();
        let completion = run(Job::Read { file, offset, length, block }, &weather);
        let start = size.min(offset as usize);
        let expected = &data[start..size.min(start + length)];
        let read = completion.result.unwrap();
        prop_assert_eq!(read, expected.len());
        prop_assert!(&completion.block.unwrap()[..read] == expected);
    }
}

#[test]
fn a_refusal_of_direct_transfers_is_remembered() {
    let file = disk_file();
    if !file.is_direct() {
        return;
    }
    let mut block = BlockPool::new(1).unwrap().take().unwrap();
    pattern(&mut block, 1);
    let job = Job::Write { file: Arc::clone(&file), offset: 0, ranges: vec![], length: 5, block };
    let completion = run(job, &[Weather::Fails(Errno::INVAL)]);
    assert_eq!(completion.result.unwrap(), 5);
    assert_eq!(file.size().unwrap(), 5, "no padding without Direct I/O");
    assert!(!file.is_direct());
}

#[test]
fn endless_interruption_fails() {
    let block = BlockPool::new(1).unwrap().take().unwrap();
    let job = Job::Read { file: disk_file(), offset: 0, length: 5, block };
    let weather = vec![Weather::Fails(Errno::INTR); MAX_RETRIES as usize + 1];
    let error = run(job, &weather).result.unwrap_err();
    assert!(matches!(error, EngineError::Read { .. }), "{error}");
}

#[test]
fn a_full_disk_is_told_with_place_and_advice() {
    let file = disk_file();
    let block = BlockPool::new(1).unwrap().take().unwrap();
    let job = Job::Write { file, offset: 4096, ranges: vec![], length: 9000, block };
    let weather = [Weather::Short(4096), Weather::Fails(Errno::NOSPC)];
    let error = run(job, &weather).result.unwrap_err();
    assert!(error.is_out_of_space());
    let text = error.to_string();
    assert!(text.contains("at offset 8192") && text.contains("free space"), "{text}");
}

#[test]
fn a_write_that_makes_no_progress_fails() {
    let block = BlockPool::new(1).unwrap().take().unwrap();
    let job = Job::Write { file: disk_file(), offset: 0, ranges: vec![], length: 9, block };
    assert!(run(job, &[Weather::Short(0)]).result.is_err());
}

#[test]
fn widened_ranges_join_where_they_touch() {
    let widened = widen(&[1..2, 4000..4097, 8192..8193, 20_000..20_001], 4096);
    assert_eq!(widened, [0..12_288, 16_384..20_480]);
}
