//! Which processors the wire and the hosts run on, and how eagerly.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Above ordinary processes; below the kernel's own real-time threads (50).
const PRIORITY: libc::c_int = 40;

/// The processors that this process may use, ascending.
pub(crate) fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Keeps the calling thread on one processor.
pub(crate) fn stay_on(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

/// Keeps the calling thread, and what it starts, off the wire's processors: a sender there could hold the wire up for
/// as long as it is in the kernel.
pub(crate) fn keep_off(wire: &[usize]) {
    let others: Vec<usize> = processors().into_iter().filter(|cpu| !wire.contains(cpu)).collect();
    if others.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    others.into_iter().for_each(|cpu| set.set(cpu));
    // On the processors that it has, it runs as well.
    let _ = sched_setaffinity(None, &set);
}

/// Gives the calling thread real-time priority, which needs root or `RLIMIT_RTPRIO`.
pub(crate) fn take_precedence() -> io::Result<()> {
    schedule(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, PRIORITY)
}

/// Lets the calling thread run only where nothing else wants to.
pub(crate) fn give_precedence() -> io::Result<()> {
    schedule(libc::SCHED_IDLE, 0)
}

fn schedule(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer is to a value that lives through the call; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
