//! The process that holds the lock of a file, as the kernel lists it (`/proc/locks`): nothing of it
//! where the holder is on another host, or where this process may not see it.
//!
//! ```text
//! 1: FLOCK  ADVISORY  WRITE 24361 00:27:5922823 0 EOF      number, …, pid, major:minor:inode, range
//! ```

use std::fmt;
use std::fs::{self, File};

use icdc_disk::tree::Stat;

/// A process on this host that holds a file's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pid: u32,
    /// Seconds since the process was started; `None` where that cannot be seen.
    running: Option<u64>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.running {
            Some(seconds) => write!(f, "pid {}, started {seconds} s ago", self.pid),
            None => write!(f, "pid {}", self.pid),
        }
    }
}

impl Holder {
    /// Process id of the holder.
    pub(super) fn pid(self) -> u32 {
        self.pid
    }

    /// Seconds since the process was started; `None` where that cannot be seen.
    pub(super) fn age(self) -> Option<u64> {
        self.running
    }
}

/// Process that holds the lock of `file`; `None` if it cannot be found.
pub(super) fn holder(file: &File) -> Option<Holder> {
    let stat = Stat::of(file).ok()?;
    let device = (rustix::fs::major(stat.dev), rustix::fs::minor(stat.dev));
    let pid = listed(&fs::read_to_string("/proc/locks").ok()?, device, stat.ino)?;
    Some(Holder { pid, running: running(pid) })
}

/// Process id of the holder of a lock on this inode, by the text of `/proc/locks`; `None` if it
/// lists none.
fn listed(locks: &str, (major, minor): (u32, u32), inode: u64) -> Option<u32> {
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    let of_this = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut of_this =
        of_this.filter(|fields| fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&place.as_str()));
    of_this.find_map(|fields| fields.get(4)?.parse().ok().filter(|pid| *pid > 0))
}

/// Seconds since the process was started; `None` where that cannot be seen.
fn running(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; it is the second field, and the start the 22nd.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let uptime: u64 = fs::read_to_string("/proc/uptime").ok()?.split('.').next()?.parse().ok()?;
    Some(uptime.saturating_sub(ticks / rustix::param::clock_ticks_per_second()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_by_device_and_inode() {
        let locks = "1: FLOCK  ADVISORY  WRITE 24361 00:27:5922823 0 EOF\n2: POSIX  ADVISORY  WRITE 7 00:27:99 0 EOF\n";
        assert_eq!(listed(locks, (0, 0x27), 5_922_823), Some(24361));
        assert_eq!(listed(locks, (0, 0x28), 5_922_823), None);
        assert_eq!(listed(locks, (0, 0x27), 99), None);
    }

    #[test]
    fn a_lock_of_this_process_is_its_own() {
        let file = tempfile::tempfile().unwrap();
        assert!(icdc_disk::tree::try_lock(&file).unwrap());
        // A file system of several layers may lock another inode than it shows.
        if let Some(holder) = holder(&file) {
            assert_eq!(holder.pid, std::process::id());
            assert!(holder.running.is_some() && holder.to_string().contains("started"));
        }
    }
}
