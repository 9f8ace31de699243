//! Processes: their identity, their network namespaces, and ending them.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use icdc_packet::clock;
use icdc_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// Time limit for a process to end when it is asked to.
const PATIENCE: Span = Span::from_secs(3);

/// Identity of a process: its PID and start time, which a later process with the same PID does not
/// have. The value owns nothing: the process may have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id (PID).
    pub id: u32,
    /// Start of the process, in clock ticks since boot; with `id` it is unique.
    pub started: u64,
}

impl Process {
    /// The calling process.
    #[must_use]
    pub fn this() -> Self {
        let id = std::process::id();
        Self { id, started: started(id).unwrap_or(0) }
    }

    /// The process of this number; `None` if there is none, or it has ended.
    pub(crate) fn of(id: u32) -> Option<Self> {
        Some(Self { id, started: started(id)? })
    }

    /// Whether the process is still running.
    #[must_use]
    pub fn is_alive(self) -> bool {
        started(self.id) == Some(self.started)
    }
}

/// Start time of a process, field 22 of /proc/PID/stat (proc(5)); `None` if it has ended, also as a
/// zombie.
fn started(id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may contain anything.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The processes in network namespaces of these inodes, without the calling one.
pub(crate) fn inhabitants(inodes: &[u64]) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|&id| id != std::process::id())
        .filter(|id| fs::metadata(format!("/proc/{id}/ns/net")).is_ok_and(|metadata| inodes.contains(&metadata.ino())))
        .filter_map(Process::of)
        .collect()
}

/// Ends processes: by SIGTERM, and those that still run after [`PATIENCE`] by SIGKILL. An error if
/// one survives that as long.
pub(crate) fn end(processes: Vec<Process>) -> Result<(), LabError> {
    let mut open: Vec<OwnedFd> = processes.into_iter().filter_map(open).collect();
    for signal in [Signal::TERM, Signal::KILL] {
        for fd in &open {
            match pidfd_send_signal(fd, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(LabError::io("end a process of the lab", error.into())),
            }
        }
        let deadline = clock::now() + PATIENCE;
        open.retain(|fd| !ended_by(fd, deadline));
        if open.is_empty() {
            return Ok(());
        }
    }
    Err(LabError::io("end a process of the lab", io::Error::from(io::ErrorKind::TimedOut)))
}

/// A descriptor of a process (pidfd), which cannot refer to another process later; `None` if the
/// process is gone.
pub(crate) fn open(process: Process) -> Option<OwnedFd> {
    let opened = pidfd_open(Pid::from_raw(process.id as i32)?, PidfdFlags::empty()).ok()?;
    // The number could have passed to another process before it was opened.
    process.is_alive().then_some(opened)
}

/// Waits until a process (by its pidfd) has ended, until `deadline` at most; returns whether it
/// has.
#[must_use]
fn ended_by(fd: &OwnedFd, deadline: Time) -> bool {
    let timeout = Timespec::try_from(Duration::from(deadline - clock::now())).ok();
    poll(&mut [PollFd::new(fd, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0)
}
