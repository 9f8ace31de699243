//! Independent live measurements, several at once where the machine has processors for them
//! (`--at-once`), each in labs of its own.

use std::sync::atomic::{AtomicBool, Ordering};

use icdc_lab::placement;

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::measurement::workers;

/// A case of an experiment that is measured in several runs.
pub(crate) trait Repeated: Sync {
    /// Result of one run.
    type Run: Send;

    /// Name of the case in the lines that report its runs.
    fn name(&self) -> String;

    /// Adds the result of a run to those of the case.
    fn keep(&mut self, run: Self::Run);
}

/// Measures each case in `runs` runs, counted from 0, by `once`. Runs are made round by round, so
/// that changes of the machine over time affect all cases.
pub(crate) fn repeat<C: Repeated>(
    bench: &Bench<'_>,
    runs: u64,
    cases: &mut [C],
    once: impl Fn(&Bench<'_>, &C, u64) -> Result<C::Run, ExperimentError> + Sync,
) -> Result<(), ExperimentError> {
    let rounds: Vec<(u64, &C)> = (0..runs).flat_map(|run| cases.iter().map(move |case| (run, case))).collect();
    let name = |(run, case): &(u64, &C)| format!("{}, run {} of {runs}", case.name(), run + 1);
    let mut measured = measure(bench, &rounds, name, |bench, (run, case)| once(bench, case, *run))?.into_iter();
    for _ in 0..runs {
        cases.iter_mut().zip(&mut measured).for_each(|(case, measured)| case.keep(measured));
    }
    Ok(())
}

/// Makes all measurements; returns their results in order. After the first failure no more are
/// begun.
fn measure<I: Sync, T: Send>(
    bench: &Bench<'_>,
    measurements: &[I],
    name: impl Fn(&I) -> String + Sync,
    once: impl Fn(&Bench<'_>, &I) -> Result<T, ExperimentError> + Sync,
) -> Result<Vec<T>, ExperimentError> {
    let has_failed = AtomicBool::new(false);
    let at_once = bench.at_once.get();
    let groups = groups(&placement::processors(), at_once);
    let one = |thread: usize, measurement: &I| {
        if has_failed.load(Ordering::Relaxed) {
            return None;
        }
        // A thread that cannot be pinned measures anyway; the lab reports lateness.
        if let Some(group) = groups.get(thread % groups.len().max(1)) {
            let _ = placement::stay_on(group);
        }
        let name = name(measurement);
        (bench.say)(&name);
        // With several at once, each line names its measurement.
        let say = |line: &str| (bench.say)(&format!("  {name}: {}", line.trim_start()));
        let measured =
            if at_once > 1 { once(&Bench { say: &say, ..*bench }, measurement) } else { once(bench, measurement) };
        has_failed.fetch_or(measured.is_err(), Ordering::Relaxed);
        Some(measured)
    };
    workers::each(at_once, measurements, one).into_iter().flatten().collect()
}

/// Groups of processors for the measurements: as many groups as can have two for the wire of a lab
/// and two for its hosts. The labs of one group share them.
fn groups(processors: &[usize], at_once: usize) -> Vec<Vec<usize>> {
    let size = processors.len() / (processors.len() / 4).clamp(1, at_once);
    processors.chunks_exact(size.max(1)).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::path::Path;
    use std::sync::Mutex;

    use icdc_lab::LabError;
    use icdc_units::Span;

    use super::*;

    #[test]
    fn results_keep_their_order_and_lines_say_whose_they_are() {
        let said = Mutex::new(Vec::new());
        let say = |line: &str| said.lock().unwrap().push(line.to_owned());
        let bench = Bench { at_once: NonZeroUsize::new(3).unwrap(), ..Bench::of(Path::new("/icdc"), Span::ZERO, &say) };
        let once = |bench: &Bench<'_>, number: &u32| {
            (bench.say)("  done");
            Ok(number * 2)
        };
        assert_eq!(measure(&bench, &[1, 2, 3, 4], |number| format!("no {number}"), once).unwrap(), [2, 4, 6, 8]);
        let said = said.into_inner().unwrap();
        assert_eq!(said.len(), 8);
        assert!(["no 4", "  no 4: done"].iter().all(|line| said.iter().any(|said| said == line)), "{said:?}");
    }

    #[test]
    fn wires_that_run_at_once_have_processors_of_their_own() {
        let processors: Vec<usize> = (0..18).collect();
        assert_eq!(groups(&processors[..2], 5), [[0, 1]]);
        assert_eq!(groups(&processors, 1), std::slice::from_ref(&processors));
        assert_eq!(groups(&processors[..9], 8), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(groups(&processors, 2), [processors[..9].to_vec(), processors[9..].to_vec()]);
    }

    #[test]
    fn a_failure_ends_it() {
        let bench = Bench::of(Path::new("/icdc"), Span::ZERO, &|_| ());
        let begun = Mutex::new(Vec::new());
        let once = |_: &Bench<'_>, number: &u32| {
            begun.lock().unwrap().push(*number);
            if *number == 2 { Err(LabError::io("measure", std::io::ErrorKind::Other.into()).into()) } else { Ok(()) }
        };
        measure(&bench, &[1, 2, 3, 4], u32::to_string, once).unwrap_err();
        assert_eq!(begun.into_inner().unwrap(), [1, 2]);
    }
}
