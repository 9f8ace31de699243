//! Placement of the wire and the hosts on processors.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Real-time priority (`SCHED_FIFO`) of the wire's threads, see [`icdc_packet::precedence`]: above
/// all that runs on hosts.
pub(crate) const PRIORITY: u8 = 40;

/// The processors that this process may use, ascending; empty if they are unknown.
#[must_use]
pub fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Binds the calling thread, and the programs that it starts, to these processors.
///
/// # Errors
/// The kernel refuses a system call.
pub fn stay_on(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    Ok(sched_setaffinity(None, &set)?)
}

/// Keeps the calling thread, and the programs that it starts, off the wire's processors: a sender
/// there could block the wire for as long as it is in the kernel.
pub fn keep_off(wire: &[usize]) {
    let others: Vec<usize> = processors().into_iter().filter(|cpu| !wire.contains(cpu)).collect();
    if !others.is_empty() {
        // Where this fails, it runs on the processors that it has.
        let _ = stay_on(&others);
    }
}
