//! Time that processors have spent for a thread or a process, in steps of 10 ms: fields 14 to
//! 17 of /proc/PID/stat (proc(5)): user and system time, and those of its children.

use std::fs;

use icdc_units::Span;
use rustix::param::clock_ticks_per_second;
use rustix::thread::Pid;

/// Processor time of a process with all its threads; zero if it has ended.
pub(crate) fn of_process(id: u32) -> Span {
    read(&format!("/proc/{id}/stat"), 2)
}

/// Processor time of a thread of this process.
pub(crate) fn of_thread(id: Pid) -> Span {
    read(&format!("/proc/self/task/{}/stat", id.as_raw_nonzero()), 2)
}

/// Processor time of a process and of its reaped descendants, also while it is a zombie.
pub(crate) fn with_descendants(id: u32) -> Span {
    read(&format!("/proc/{id}/stat"), 4)
}

/// Sum of the first `fields_taken` of the four times in a stat file: user, system, children's user
/// and children's system time. Zero if it cannot be read.
fn read(path: &str, fields_taken: usize) -> Span {
    let text = fs::read_to_string(path).unwrap_or_default();
    // The name in parentheses may contain anything.
    let fields = text.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(fields_taken).filter_map(|field| field.parse::<u64>().ok()).sum();
    Span::from_secs(1) * ticks / clock_ticks_per_second()
}

#[cfg(test)]
mod tests {
    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn a_process_has_at_least_what_its_thread_has() {
        let before = of_thread(gettid());
        while of_thread(gettid()) < before + Span::from_millis(50) {
            std::hint::spin_loop();
        }
        let thread = of_thread(gettid());
        assert!(of_process(std::process::id()) >= thread);
        assert_eq!(of_process(u32::MAX), Span::ZERO);
    }
}
