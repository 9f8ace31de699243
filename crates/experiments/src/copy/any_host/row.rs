//! Common interface of the rows of all tables: a row is run once in a round, and the rows of one
//! kind make a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use icdc_report::{Plot, Table};
use icdc_units::ByteCount;

use crate::copy::any_host::turn::Fixture;
use crate::copy::peers::Load;
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::processes::scratch::Scratch;

/// Divisor of file sizes in a quick run.
pub(super) const QUICKER: u64 = 10;
/// Size of each file of a tree.
const SMALL: ByteCount = ByteCount::from_kib(16);
/// Number of folders of a tree.
const FOLDERS: u32 = 50;
/// Number of files in each folder of a tree, in a full run.
const EACH: u32 = 100;

/// A row of one of the scenario's tables: a kind of copy that runs once in each round.
pub(super) trait Row: Copy + 'static {
    /// Result type of one run of the row.
    type Run;

    /// Name of the row in its table, by which `--only` selects it.
    fn name(&self) -> &'static str;

    /// Load of the row: a file or a tree, and its size in a full run; a quick run takes a tenth of
    /// it, and a tree has files of 16 KiB whatever the size.
    fn load(&self) -> (Load, ByteCount);

    /// Runs the row once, in `round`.
    ///
    /// # Errors
    /// The lab or its programs cannot be had; a copy that fails is a run.
    fn run(&self, context: &RunContext<'_>, source: &Path, round: u64) -> Result<Self::Run, ExperimentError>;

    /// Reason why this run is invalid or has failed; `None` if it is neither.
    fn fault(run: &Self::Run) -> Option<&str>;

    /// Whether the row is to have no further run after this one.
    fn is_last(_run: &Self::Run) -> bool {
        false
    }

    /// The table of the rows with their runs.
    fn table(rows: &[(Self, Vec<Self::Run>)], quick: bool) -> Table;

    /// Plots of the row's runs; by default there are none.
    fn plots(&self, _runs: &[Self::Run]) -> Vec<Plot> {
        Vec::new()
    }
}

/// Resources that all rows of the scenario share.
pub(super) struct RunContext<'a> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) fixture: &'a Fixture<'a>,
}

/// Rows of one kind with their runs, one per round.
struct Rows<R: Row>(Vec<(R, Vec<R::Run>)>);

/// The rows of one table, of whichever type they are.
pub(super) trait Kind {
    /// Runs each row once.
    ///
    /// # Errors
    /// See [`Row::run`].
    fn run(&mut self, context: &RunContext<'_>, sources: &mut Sources<'_>, round: Round)
    -> Result<(), ExperimentError>;

    /// The table of all runs; `quick`: files had a tenth of their size.
    fn table(&self, quick: bool) -> Table;

    /// The plots of all rows.
    fn plots(&self) -> Vec<Plot>;

    /// Messages about failed runs, for the report.
    fn failures(&self) -> Vec<String>;
}

/// The rows of one kind that are `chosen`; `None` if there are none.
pub(super) fn chosen<R: Row>(all: &[R], chosen: impl Fn(&R) -> bool) -> Option<Box<dyn Kind>> {
    let rows: Vec<_> = all.iter().filter(|row| chosen(row)).map(|&row| (row, Vec::new())).collect();
    (!rows.is_empty()).then(|| Box::new(Rows(rows)) as Box<dyn Kind>)
}

/// A round, in which each row runs once, by its number from 1, and the number of rounds.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) of: u64,
}

impl<R: Row> Kind for Rows<R> {
    fn run(
        &mut self,
        context: &RunContext<'_>,
        sources: &mut Sources<'_>,
        round: Round,
    ) -> Result<(), ExperimentError> {
        for (row, runs) in &mut self.0 {
            if runs.last().is_some_and(R::is_last) {
                continue;
            }
            (context.bench.say)(&format!("{}, run {} of {}", row.name(), round.number, round.of));
            let (load, size) = row.load();
            let source = sources.get(load, size, context.bench.quick)?;
            runs.push(row.run(context, &source, round.number)?);
        }
        Ok(())
    }

    fn table(&self, quick: bool) -> Table {
        R::table(&self.0, quick)
    }

    fn plots(&self) -> Vec<Plot> {
        self.0.iter().flat_map(|(row, runs)| row.plots(runs)).collect()
    }

    fn failures(&self) -> Vec<String> {
        let faults = |(row, runs): &(R, Vec<R::Run>)| {
            let name = row.name();
            runs.iter().filter_map(R::fault).map(|why| format!("{name}: {why}")).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(faults).collect()
    }
}

/// File size in a quick or a full run.
pub(super) fn size_in(size: ByteCount, quick: bool) -> ByteCount {
    if quick { size / QUICKER } else { size }
}

/// Source files, made when they are needed first.
pub(super) struct Sources<'a> {
    scratch: &'a Scratch,
    files: BTreeMap<ByteCount, PathBuf>,
}

impl<'a> Sources<'a> {
    /// Sources in the directory `scratch`, none of them made yet.
    pub(super) fn on(scratch: &'a Scratch) -> Self {
        Self { scratch, files: BTreeMap::new() }
    }

    /// Path of the source of this load and size (a tenth of it if `quick`), which is made if it
    /// does not exist yet.
    fn get(&mut self, load: Load, size: ByteCount, quick: bool) -> Result<PathBuf, ExperimentError> {
        let size = if load == Load::Tree { ByteCount::ZERO } else { size_in(size, quick) };
        if let Some(path) = self.files.get(&size) {
            return Ok(path.clone());
        }
        let path = match load {
            Load::File => self.scratch.file(&format!("data-{}", size.as_u64()), size)?,
            Load::Tree => {
                self.scratch.tree("tree", FOLDERS, if quick { EACH / QUICKER as u32 } else { EACH }, SMALL)?
            }
        };
        Ok(self.files.entry(size).or_insert(path).clone())
    }
}
