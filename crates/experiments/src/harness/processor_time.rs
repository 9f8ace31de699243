//! Time that processors have spent, in steps of 10 ms: for a thread or a process, fields 14 to 17 of
//! /proc/PID/stat (proc(5)): user and system time, and those of its children; for all that the
//! machine did, the first line of /proc/stat.

use std::fs;
use std::ops::Sub;

use icdc_units::Span;
use rustix::param::clock_ticks_per_second;
use rustix::thread::Pid;

/// Of a process with all its threads; zero if it is gone.
pub(crate) fn of_process(id: u32) -> Span {
    read(&format!("/proc/{id}/stat"), 2)
}

/// Of a thread of this process.
pub(crate) fn of_thread(id: Pid) -> Span {
    read(&format!("/proc/self/task/{}/stat", id.as_raw_nonzero()), 2)
}

/// Of a process and of all its descendants that have been waited for, also while it is a zombie.
pub(crate) fn with_descendants(id: u32) -> Span {
    read(&format!("/proc/{id}/stat"), 4)
}

/// Time by what it was spent on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// In programs.
    pub(crate) user: Span,
    /// In the kernel for programs.
    pub(crate) system: Span,
    /// In the kernel for devices.
    pub(crate) interrupts: Span,
}

impl Spent {
    /// By all processors since the machine began.
    pub(crate) fn of_machine() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        let sum = |numbers: &[usize]| ticks(numbers.iter().filter_map(|number| fields.get(*number)).sum());
        Self { user: sum(&[0, 1]), system: sum(&[2]), interrupts: sum(&[5, 6]) }
    }

    /// By a process with all its threads.
    pub(crate) fn of_process(id: u32) -> Self {
        let [user, system] = [0, 1].map(|field| fields(&format!("/proc/{id}/stat"), field, 1));
        Self { user, system, interrupts: Span::ZERO }
    }

    pub(crate) fn busy(&self) -> Span {
        self.user + self.system + self.interrupts
    }
}

impl Sub for Spent {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            user: self.user - other.user,
            system: self.system - other.system,
            interrupts: self.interrupts - other.interrupts,
        }
    }
}

fn read(path: &str, fields_taken: usize) -> Span {
    fields(path, 0, fields_taken)
}

/// Of the fields of /proc/PID/stat from the 14th on: some in a row.
fn fields(path: &str, first: usize, count: usize) -> Span {
    let text = fs::read_to_string(path).unwrap_or_default();
    // The name in parentheses may contain anything.
    let fields = text.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default().split_whitespace();
    ticks(fields.skip(11 + first).take(count).filter_map(|field| field.parse::<u64>().ok()).sum())
}

fn ticks(count: u64) -> Span {
    Span::from_secs(1) * count / clock_ticks_per_second()
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

    #[test]
    fn the_machine_has_at_least_what_a_process_has() {
        let (process, machine) = (Spent::of_process(std::process::id()), Spent::of_machine());
        assert!(machine.user >= process.user && machine.busy() >= process.busy() && machine.busy() > Span::ZERO);
    }
}
