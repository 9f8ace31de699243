//! Real-time priority of threads that move packets, which would otherwise be late.

use std::io;

/// Gives the calling thread real-time priority (`SCHED_FIFO`), 1 to 99, above ordinary threads; the
/// kernel's own real-time threads have 50. Needs root or `RLIMIT_RTPRIO`. Threads that it starts do
/// not inherit it.
///
/// # Errors
/// The kernel refuses a system call.
pub fn raise_priority(priority: u8) -> io::Result<()> {
    schedule(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority.into())
}

/// Lets the calling thread run only while no other thread wants the processor (`SCHED_IDLE`).
///
/// # Errors
/// The kernel refuses a system call.
pub fn lower_priority() -> io::Result<()> {
    schedule(libc::SCHED_IDLE, 0)
}

/// Sets the scheduling policy and priority of the calling thread.
fn schedule(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // The kernel's `struct sched_param` has this member only. Its own call: musl's function
    // refuses.
    // SAFETY: the pointer is to a value that lives through the call; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
