//! The end of a child process, waited for with a time limit; signals that a child is not to get.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use icdc_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use rustix::time::{ClockId, clock_gettime};

/// A child process whose end can be waited for with a time limit, alone or among other descriptors.
///
/// Its end is an event of a descriptor (`pidfd_open(2)`). Without one (kernels before 5.3, or no
/// descriptor left) the process is polled every [`LOOK`](Self::LOOK).
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    descriptor: Option<OwnedFd>,
}

impl ChildProcess {
    /// Interval at which a process without a pidfd is polled for its end.
    pub const LOOK: Span = Span::from_millis(20);

    /// Takes over a child process that was started just now and whose exit status has not been
    /// taken, and opens a pidfd for it if the kernel gives one.
    #[must_use]
    pub fn new(child: Child) -> Self {
        let descriptor = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        Self { child, descriptor }
    }

    /// Process id, which no other process gets until the exit status is taken.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Process id, as the standard library has it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A descriptor that becomes readable when the process ends; `None` where the kernel has none,
    /// or this process had no descriptor left.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(|descriptor| descriptor.as_fd())
    }

    /// Waits for the end of the process, at most for `limit`; returns whether it has ended. Does
    /// not take the exit status, so that the process id is not reused and `/proc` still has the
    /// process.
    #[must_use]
    pub fn ends_within(&self, limit: Span) -> bool {
        let deadline = now() + limit;
        loop {
            let left = deadline - now();
            let has_ended = match &self.descriptor {
                Some(descriptor) => waited(&mut [PollFd::new(descriptor, PollFlags::IN)], left),
                None => self.is_zombie() || (waited(&mut [], left.min(Self::LOOK)) || self.is_zombie()),
            };
            if has_ended || left == Span::ZERO {
                return has_ended;
            }
        }
    }

    /// Waits for the end of the process, at most for `limit`, and takes its exit status; `None` if
    /// it has not ended by then.
    ///
    /// # Errors
    /// The status cannot be had.
    pub fn wait_for(&mut self, limit: Span) -> io::Result<Option<ExitStatus>> {
        let _ = self.ends_within(limit);
        self.child.try_wait()
    }

    /// Waits for the end of the process, however long that takes, and takes its exit status.
    ///
    /// # Errors
    /// The status cannot be had.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Kills the process, unless its exit status was taken.
    ///
    /// # Errors
    /// The kernel does not let this process kill it.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Whether the process has ended, asked by its process id without taking the exit status; true
    /// also if the status was taken already.
    fn is_zombie(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that the exit status was taken.
        !matches!(waitid(WaitId::Pid(self.pid()), look), Ok(None))
    }
}

/// Makes `command` start with SIGINT and SIGHUP ignored.
///
/// A terminal sends them to all processes in its foreground. A program that this one needs until it
/// has finished must not end by them; when to end is for this one to say, which gets them too.
pub fn ignore_terminal_signals(command: &mut Command) -> &mut Command {
    let ignore = || {
        for signal in [libc::SIGINT, libc::SIGHUP] {
            // SAFETY: signal(2) is async-signal-safe, and SIG_IGN is no handler that would run.
            if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(ignore) }
}

/// Polls the descriptors for at most `limit`; true if one is ready, false after the time limit or a
/// signal.
fn waited(descriptors: &mut [PollFd<'_>], limit: Span) -> bool {
    let limit = Timespec::try_from(Duration::from(limit)).ok();
    poll(descriptors, limit.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Time of the monotonic clock.
fn now() -> Time {
    let since = clock_gettime(ClockId::Monotonic);
    Time::ORIGIN + Span::from_secs(since.tv_sec as u64) + Span::from_nanos(since.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    const LONG: Span = Span::from_secs(60);

    /// A shell that ends with its input, with a descriptor and as on a kernel without.
    fn shells() -> [ChildProcess; 2] {
        [true, false].map(|has_descriptor| {
            let mut command = Command::new("sh");
            let child = command.args(["-c", "read line; exit 3"]).stdin(Stdio::piped()).spawn().unwrap();
            let mut shell = ChildProcess::new(child);
            shell.descriptor = shell.descriptor.filter(|_| has_descriptor);
            shell
        })
    }

    #[test]
    fn an_end_is_waited_for_and_its_status_is_taken_once() {
        for mut shell in shells() {
            assert!(!shell.ends_within(Span::from_millis(1)));
            assert!(shell.wait_for(Span::ZERO).unwrap().is_none());
            drop(shell.child.stdin.take());
            assert!(shell.ends_within(LONG) && shell.ends_within(Span::ZERO), "its status is still there");
            let status = shell.wait_for(LONG).unwrap().unwrap();
            assert_eq!(status.code(), Some(3));
            assert_eq!((shell.wait_for(LONG).unwrap(), shell.wait().unwrap()), (Some(status), status));
        }
    }

    #[test]
    fn one_that_is_killed_has_ended() {
        for mut shell in shells() {
            shell.kill().unwrap();
            assert!(shell.wait_for(LONG).unwrap().is_some_and(|status| status.code().is_none()));
        }
    }

    /// Whether this process ignores a signal, which its children inherit, as those of `nohup` do.
    fn is_ignored(signal: i32) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
        u64::from_str_radix(ignored, 16).unwrap() & 1 << (signal - 1) != 0
    }

    #[test]
    fn signals_of_the_terminal_are_ignored_and_others_are_not() {
        use std::os::unix::process::ExitStatusExt as _;
        let signalled = |signal: &str, is_sheltered: bool| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("kill -{signal} $$; exit 3")]);
            let status =
                if is_sheltered { ignore_terminal_signals(&mut command) } else { &mut command }.status().unwrap();
            (status.code(), status.signal())
        };
        for (signal, number) in [("INT", libc::SIGINT), ("HUP", libc::SIGHUP)] {
            assert_eq!(signalled(signal, true), (Some(3), None), "{signal}");
            let expected = if is_ignored(number) { (Some(3), None) } else { (None, Some(number)) };
            assert_eq!(signalled(signal, false), expected, "{signal}");
        }
        assert_eq!(signalled("TERM", true), (None, Some(libc::SIGTERM)));
    }
}
