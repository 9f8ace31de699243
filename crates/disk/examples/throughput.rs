//! Reads or writes a file through the engines and prints the rate beside the depth.
//!
//! ```text
//! throughput read|write FILE [MEBIBYTES [DEPTH...]]
//! ```
//! `write` makes (or overwrites!) FILE, preallocated and of the given size (default 2048 MiB), and
//! counts the final `fsync`. `read` reads as much of FILE as there is. Depths default to 1 2 4 8.
//! To compare: `fio --bs=4M --direct=1 --ioengine=io_uring --iodepth=DEPTH --rw=read|write`.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use icdc_disk::{BLOCK_SIZE, BlockPool, DiskFile, EngineKind, Job, open_engine};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

struct Plan {
    write: bool,
    path: PathBuf,
    size: u64,
    depths: Vec<usize>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments).and_then(|plan| measure(&plan)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("throughput: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Outcome<Plan> {
    let [mode, path, rest @ ..] = arguments else {
        return Err("usage: throughput read|write FILE [MEBIBYTES [DEPTH...]]".into());
    };
    let write = match mode.as_str() {
        "read" => false,
        "write" => true,
        other => return Err(format!("{other}: neither read nor write").into()),
    };
    let mebibytes = rest.first().map_or(Ok(2048), |text| text.parse::<u64>())?;
    let depths = rest.iter().skip(1).map(|text| text.parse()).collect::<Result<Vec<_>, _>>()?;
    let depths = if depths.is_empty() { vec![1, 2, 4, 8] } else { depths };
    Ok(Plan { write, path: path.into(), size: mebibytes << 20, depths })
}

fn measure(plan: &Plan) -> Outcome<()> {
    println!("{:<10} {:>6} {:>8} {:>10} {:>8}", "engine", "direct", "depth", "MiB", "GB/s");
    for kind in [EngineKind::Uring, EngineKind::Threads] {
        for &depth in &plan.depths {
            let file = Arc::new(open(plan)?);
            let size = if plan.write { plan.size } else { plan.size.min(file.size()?) };
            if plan.write {
                file.preallocate(0..size)?;
            }
            let (name, time) = run(&file, size, depth, kind, plan.write)?;
            let rate = size as f64 / time.as_secs_f64() / 1e9;
            let direct = if file.is_direct() { "yes" } else { "no" };
            println!("{name:<10} {direct:>6} {depth:>8} {:>10} {rate:>8.2}", size >> 20);
        }
    }
    Ok(())
}

fn open(plan: &Plan) -> Outcome<DiskFile> {
    let path: &Path = &plan.path;
    if !plan.write {
        let file = DiskFile::for_reading(File::open(path)?)?;
        file.forget_cache();
        return Ok(file);
    }
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    Ok(DiskFile::for_writing(file)?)
}

#[expect(clippy::disallowed_methods, reason = "the clock is what this program is about")]
fn run(
    file: &Arc<DiskFile>,
    size: u64,
    depth: usize,
    kind: EngineKind,
    write: bool,
) -> Outcome<(&'static str, Duration)> {
    let pool = BlockPool::new(depth)?;
    // Bytes that no layer below can compress; untouched memory would be one shared page of zeros.
    let mut blocks: Vec<_> = std::iter::from_fn(|| pool.try_take()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in blocks.iter_mut().flat_map(|block| block.chunks_exact_mut(8)) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_ne_bytes());
    }
    drop(blocks);

    let mut engine = open_engine(depth, kind)?;
    let start = std::time::Instant::now();
    let mut offset = 0;
    loop {
        while offset < size
            && let Some(block) = pool.try_take()
        {
            let length = (size - offset).min(BLOCK_SIZE as u64) as usize;
            let file = Arc::clone(file);
            let job = if write {
                Job::Write { file, offset, ranges: Vec::new(), length, block }
            } else {
                Job::Read { file, offset, length, block }
            };
            engine.submit(offset, job);
            offset += length as u64;
        }
        match engine.wait() {
            Some(completion) => completion.result?,
            None => break,
        };
    }
    if write {
        engine.submit(0, Job::Sync { file: Arc::clone(file) });
        while let Some(completion) = engine.wait() {
            completion.result?;
        }
        file.set_len(size)?;
    }
    Ok((engine.name(), start.elapsed()))
}
