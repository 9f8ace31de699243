//! Repetition of measurements that the machine disturbed.

use std::num::NonZeroUsize;

use icdc_units::Span;

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::repetition::calm;

/// A result of a measurement that can be printed as one line of its main figures.
pub(crate) trait Figures {
    /// The figures in one line, for progress messages.
    fn figures(&self) -> String;
}

/// The second value is not part of the line.
impl<M: Figures, B> Figures for (M, B) {
    fn figures(&self) -> String {
        self.0.figures()
    }
}

/// Messages about invalid measurements for a report: the name and the reason of each.
pub(crate) fn failures<'a>(all: impl IntoIterator<Item = (String, &'a Option<String>)>) -> Vec<String> {
    all.into_iter().filter_map(|(name, spoilt)| Some(format!("{name}: {}", spoilt.as_ref()?))).collect()
}

/// Measures on a calm machine and prints the result; returns the first attempt that the machine did
/// not disturb, or the last one.
pub(crate) fn unspoilt<T: Figures>(
    bench: &Bench<'_>,
    tolerance: Span,
    attempt: impl Fn() -> Result<T, ExperimentError>,
    spoilt: impl Fn(&T) -> Option<&str>,
) -> Result<T, ExperimentError> {
    unspoilt_after(bench, tolerance, || Ok(()), attempt, spoilt)
}

/// Repeats an attempt like [`unspoilt`], with a preparation before each wait.
pub(crate) fn unspoilt_after<T: Figures>(
    bench: &Bench<'_>,
    tolerance: Span,
    prepare: impl Fn() -> Result<(), ExperimentError>,
    attempt: impl Fn() -> Result<T, ExperimentError>,
    spoilt: impl Fn(&T) -> Option<&str>,
) -> Result<T, ExperimentError> {
    for number in 1.. {
        prepare()?;
        if bench.at_once == NonZeroUsize::MIN {
            calm::wait(tolerance, bench.patience, bench.say);
        }
        let measured = attempt()?;
        (bench.say)(&format!("  {}", measured.figures()));
        match spoilt(&measured) {
            Some(why) if number < bench.attempts => {
                (bench.say)(&format!("  attempt {number} is invalid ({why}); again"))
            }
            Some(why) => {
                (bench.say)(&format!("  still invalid after {} attempts: {why}", bench.attempts));
                return Ok(measured);
            }
            None => return Ok(measured),
        }
    }
    unreachable!("the last attempt returns")
}
