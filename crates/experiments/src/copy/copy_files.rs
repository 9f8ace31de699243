//! Many small files between two hosts of this machine without a path in between, from a cold cache
//! and disk to disk, beside other programs; and a huge file that is nearly all hole, by icdc alone.
//!
//! 20,000 files show the time, 100,000 the memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use icdc_report::Report;
use icdc_units::ByteCount;

use crate::copy::direct::{Copier, Direct};
use crate::copy::rounds::Rounds;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::processes::scratch::Scratch;
use crate::harness::scenario::Scenario;

/// Scenario `copy-files` of `icdc lab run`: many small files and a sparse one between two hosts of
/// this machine, by icdc, rsync and scp.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "copy-files",
    about: "20,000 and 100,000 files of 4 KiB and a sparse one of 1 TiB between two hosts of this machine: time, processor, memory, beside rsync, scp",
    has_rows: false,
    is_parallel: false,
    run,
};

/// Size of each small file.
const SIZE: ByteCount = ByteCount::from_kib(4);
/// Number of small files in a folder.
const EACH_FOLDER: u32 = 500;
/// Number of bytes of the sparse file that are no hole.
const DATA_IN_SPARSE: usize = 1 << 20;
const RUNS: u64 = 3;

/// Amounts of files that are copied.
struct FilesExtent {
    folders: u32,
    more_folders: u32,
    each: u32,
    sparse: ByteCount,
}

/// Extent of a full run of the scenario.
const WHOLE: FilesExtent =
    FilesExtent { folders: 40, more_folders: 200, each: EACH_FOLDER, sparse: ByteCount::from_mib(1 << 20) };
/// Extent of a quick run of the scenario.
const QUICK: FilesExtent = FilesExtent { folders: 4, more_folders: 10, each: 50, sparse: ByteCount::from_mib(1 << 10) };

fn run(bench: &Bench<'_>) -> Result<Report, ExperimentError> {
    let extent = if bench.quick { QUICK } else { WHOLE };
    let runs = bench.runs.unwrap_or(if bench.quick { 1 } else { RUNS });
    let scratch =
        Scratch::on_disk(SIZE * u64::from(extent.folders + extent.more_folders) * u64::from(extent.each) * 4)?;
    let few = scratch.tree("few", extent.folders, extent.each, SIZE)?;
    let many = scratch.tree("many", extent.more_folders, extent.each, SIZE)?;
    let sparse = sparse(&scratch, extent.sparse)?;
    let direct = Direct::new(&scratch)?;
    let all = Copier::installed();
    let fast: Vec<Copier> = all.iter().copied().filter(|copier| !matches!(copier, Copier::Peer(_))).collect();
    let sources: [(&str, &Path, &[Copier]); 3] =
        [("small files", &few, &all), ("many small files", &many, &fast), ("a sparse file", &sparse, &all[..1])];
    let (mut tables, mut failures) = (Vec::new(), Vec::new());
    for (what, source, copiers) in sources {
        let rounds = Rounds::run(bench, &direct, copiers, (what, source), runs)?;
        tables.push(rounds.table());
        failures.extend(rounds.failures());
    }
    Ok(Report { tables, failures, ..Report::default() })
}

/// Makes a sparse file with some data in the middle.
fn sparse(scratch: &Scratch, size: ByteCount) -> Result<PathBuf, ExperimentError> {
    let path = scratch.path("sparse");
    let make = || -> io::Result<()> {
        let file = File::create(&path)?;
        file.set_len(size.as_u64())?;
        // On the heap: an array would become part of the binary.
        file.write_all_at(&vec![0x5a; DATA_IN_SPARSE], size.as_u64() / 2)?;
        file.sync_all()
    };
    make().map_err(|error| ExperimentError::io(format!("write {}", path.display()), error))?;
    Ok(path)
}
