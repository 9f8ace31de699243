//! Copies of one source by several programs, in rounds whose order rotates, and their table.

use std::path::Path;

use icdc_report::Table;
use icdc_units::ByteCount;

use crate::copy::direct::{Copier, Direct, DirectCopy};
use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::processes::scratch::contents;
use crate::harness::traffic::loopback::in_turns;

/// Results of the copies of one source by several programs.
pub(crate) struct Rounds {
    what: String,
    copiers: Vec<Copier>,
    /// Results by copier, in the order of the rounds.
    copies: Vec<Vec<DirectCopy>>,
    files: u64,
    bytes: ByteCount,
}

impl Rounds {
    /// Each of `copiers` copies `source`, called `what`, in each of `runs` rounds.
    pub(crate) fn run(
        bench: &Bench<'_>,
        direct: &Direct<'_>,
        copiers: &[Copier],
        (what, source): (&str, &Path),
        runs: u64,
    ) -> Result<Self, ExperimentError> {
        let name = |copier: Copier| format!("{what}, {}", copier.name());
        let copies = in_turns(bench, copiers, runs, name, |copier| {
            let copy = direct.copy(bench, copier, source)?;
            (bench.say)(&format!("  {}", copy.failure.clone().unwrap_or_else(|| copy.took.to_string())));
            Ok(copy)
        })?;
        let (files, bytes) = contents(source);
        Ok(Self { what: what.to_owned(), copiers: copiers.to_vec(), copies, files, bytes })
    }

    /// The results as a table, a row for each program.
    pub(crate) fn table(&self) -> Table {
        let icdc = seconds(&self.copies[0]).median;
        let row = |(copier, copies): (&Copier, &Vec<DirectCopy>)| {
            let rate = |copy: &DirectCopy| self.bytes.as_u64() as f64 / 1e6 / copy.took.as_secs_f64();
            let [near, far] =
                [0, 1].map(|host| copies.iter().map(|copy| copy.resident[host]).max().unwrap_or_default());
            let mebibytes = |bytes: ByteCount| bytes.as_u64() as f64 / f64::from(1 << 20);
            vec![
                copier.name(),
                seconds(copies).hundredths(),
                Spread::of(copies.iter().map(rate)).tenths(""),
                Spread::of(copies.iter().map(|copy| copy.processor.as_secs_f64())).hundredths(),
                format!("{:.0} / {:.0}", mebibytes(near), mebibytes(far)),
                format!("{:.2}", seconds(copies).median / icdc),
                copies.iter().filter(|copy| copy.failure.is_some()).count().to_string(),
            ]
        };
        let header = [
            "program",
            "seconds",
            "MB/s",
            "processor time of both hosts, s",
            "largest process of a / b, MiB",
            "time / icdc's",
            "failed runs",
        ];
        Table {
            caption: format!(
                "{}: {} in {} files, from the command to data on the medium, median of {} (least to greatest)",
                self.what,
                self.bytes,
                self.files,
                self.copies[0].len()
            ),
            header: header.map(str::to_owned).to_vec(),
            rows: self.copiers.iter().zip(&self.copies).map(row).collect(),
        }
    }

    /// Messages about failed copies, for the report.
    pub(crate) fn failures(&self) -> Vec<String> {
        let all = self.copiers.iter().zip(&self.copies);
        let of = |(copier, copies): (&Copier, &Vec<DirectCopy>)| {
            let name = format!("{}, {}", self.what, copier.name());
            copies
                .iter()
                .filter_map(move |copy| Some(format!("{name}: {}", copy.failure.as_ref()?)))
                .collect::<Vec<_>>()
        };
        all.flat_map(of).collect()
    }
}

/// Times of copies, in seconds.
fn seconds(copies: &[DirectCopy]) -> Spread {
    Spread::of(copies.iter().map(|copy| copy.took.as_secs_f64()))
}
