//! Waiting until the machine's processors are idle enough for a measurement.
//!
//! On a shared machine, phases in which others use the processors last seconds to minutes, and make
//! measurements invalid. One thread per processor reads the clock again and again: a large gap
//! between two readings means that the thread did not run.

use std::hint;
use std::thread;

use icdc_packet::clock;
use icdc_units::Span;

/// Time for which no gap may exceed the tolerance.
const CALM: Span = Span::from_secs(2);

/// Waits until no processor kept a thread from running for longer than `tolerance`, for `patience`
/// at most. The first time that it has to wait, it reports that by `say`.
pub(crate) fn wait(tolerance: Span, patience: Span, say: &dyn Fn(&str)) {
    let until = clock::now() + patience;
    let mut has_said = false;
    while clock::now() < until && longest_gap() > tolerance {
        if !has_said {
            say("  waiting for the machine to be calm");
            has_said = true;
        }
        // Checking takes processor time from other processes, so it pauses in between.
        clock::sleep_until(clock::now() + CALM);
    }
}

/// Longest gap of any thread, with one thread per processor.
fn longest_gap() -> Span {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let watches: Vec<_> = (0..processors).map(|_| scope.spawn(watch)).collect();
        watches.into_iter().filter_map(|watch| watch.join().ok()).max().unwrap_or_default()
    })
}

/// Reads the clock again and again for [`CALM`]; returns the longest gap between two readings.
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
        let lines = Cell::new(0);
        let before = clock::now();
        wait(Span::ZERO, Span::from_millis(1), &|_| lines.set(lines.get() + 1));
        assert!(clock::now() >= before + CALM);
        assert_eq!(lines.get(), 1);
    }

    #[test]
    fn a_calm_machine_is_not_waited_for() {
        wait(Span::from_secs(3600), Span::from_secs(3600), &|_| unreachable!("nothing to wait for"));
    }
}
