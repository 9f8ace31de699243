//! Waiting for a machine that leaves its processors to the measurement, and measuring again where it did not.
//!
//! On a shared machine a phase in which others take the processors lasts seconds to minutes, and spoils whatever is
//! measured in it. One thread per processor reads the clock again and again: between two readings that lie far apart, the
//! thread did not run.

use std::hint;
use std::thread;

use icdc_packet::clock;
use icdc_units::Span;

use super::Bench;
use crate::LabError;

/// A spoilt measurement is made so often at most.
const ATTEMPTS: u32 = 3;
/// So long no thread may be kept from running for longer than is tolerated.
const CALM: Span = Span::from_secs(2);

/// What a measurement says of itself in a line.
pub(super) trait Figures {
    fn figures(&self) -> String;
}

/// What was measured beside it stays unsaid.
impl<M: Figures, B> Figures for (M, B) {
    fn figures(&self) -> String {
        self.0.figures()
    }
}

/// Returns once the machine was calm, after `patience` at the latest; says that it waits.
pub(super) fn wait(tolerance: Span, patience: Span, say: &dyn Fn(&str)) {
    let until = clock::now() + patience;
    let mut said = false;
    while clock::now() < until && longest_gap() > tolerance {
        if !said {
            say("  waiting for the machine to be calm");
            said = true;
        }
        // To look costs the others what they cost us.
        clock::sleep_until(clock::now() + CALM);
    }
}

/// Measures on a calm machine and says what came of it; gives the first attempt that the machine did not spoil, or the last one.
pub(super) fn unspoilt<T: Figures>(
    bench: &Bench<'_>,
    tolerance: Span,
    attempt: impl Fn() -> Result<T, LabError>,
    spoilt: impl Fn(&T) -> Option<&str>,
) -> Result<T, LabError> {
    unspoilt_after(bench, tolerance, || Ok(()), attempt, spoilt)
}

/// The same with something to do before each wait.
pub(super) fn unspoilt_after<T: Figures>(
    bench: &Bench<'_>,
    tolerance: Span,
    prepare: impl Fn() -> Result<(), LabError>,
    attempt: impl Fn() -> Result<T, LabError>,
    spoilt: impl Fn(&T) -> Option<&str>,
) -> Result<T, LabError> {
    for number in 1.. {
        prepare()?;
        wait(tolerance, bench.patience, bench.say);
        let measured = attempt()?;
        (bench.say)(&format!("  {}", measured.figures()));
        match spoilt(&measured) {
            Some(why) if number < ATTEMPTS => (bench.say)(&format!("  attempt {number} is invalid ({why}); again")),
            Some(why) => {
                (bench.say)(&format!("  still invalid after {ATTEMPTS} attempts: {why}"));
                return Ok(measured);
            }
            None => return Ok(measured),
        }
    }
    unreachable!("the last attempt returns")
}

/// Longest time for which any of as many threads as there are processors did not run.
fn longest_gap() -> Span {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let watches: Vec<_> = (0..processors).map(|_| scope.spawn(watch)).collect();
        watches.into_iter().filter_map(|watch| watch.join().ok()).max().unwrap_or_default()
    })
}

fn watch() -> Span {
    let start = clock::now();
    let (mut last, mut longest) = (start, Span::ZERO);
    while last < start + CALM {
        hint::spin_loop();
        let now = clock::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn where_nothing_can_be_calm_enough_patience_ends() {
        let told = Cell::new(0);
        let before = clock::now();
        wait(Span::ZERO, Span::from_millis(1), &|_| told.set(told.get() + 1));
        assert!(clock::now() >= before + CALM);
        assert_eq!(told.get(), 1);
    }

    #[test]
    fn a_calm_machine_is_not_waited_for() {
        wait(Span::from_secs(3600), Span::from_secs(3600), &|_| unreachable!("nothing to wait for"));
    }
}
