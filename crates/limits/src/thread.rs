//! Threads, and which limit is in the way of one that cannot be had.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use icdc_units::ByteCount;
use rustix::process::{Resource, getrlimit, getuid};

use crate::cgroup;
use crate::memory;

/// Number of threads that may have ended between the refusal of another one and the count: a group
/// that is short of its limit by no more still counts as full.
const JUST_ENDED: u64 = 32;

/// Error: a thread could not be started. Its message names the limit that is in the way, and how to
/// raise it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot start the thread {name:?}: {limit}")]
pub struct NoThread {
    name: String,
    limit: Limit,
}

/// Limit that is in the way of another thread or process; the text tells how to raise it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Limit {
    #[error(
        "the control group {} may have {most} tasks (pids.max) and has them; raise it (TasksMax= of a systemd unit, \
         the pids limit of a container)", .group.display()
    )]
    GroupTasks { group: PathBuf, most: u64 },
    #[error("the limit of this process's memory, {most} bytes ({option}), leaves no room for its stack; raise it")]
    AddressSpace { most: u64, option: &'static str },
    #[error(
        "the control group {} may have {most} bytes of memory (memory.max or memory.high) and has them; raise it \
         (MemoryMax= or MemoryHigh= of a systemd unit, the memory limit of a container)", .group.display()
    )]
    GroupMemory { group: PathBuf, most: u64 },
    #[error(
        "this process has {count} memory areas, and may have {most}; raise it (`sysctl vm.max_map_count={}`)",
        most.saturating_mul(2)
    )]
    MemoryAreas { count: u64, most: u64 },
    #[error(
        "user {user} may have {most} processes and threads at a time (`ulimit -u`, LimitNPROC= of a systemd unit), and \
         has probably reached that; raise the limit or end other programs of this user"
    )]
    Processes { user: u32, most: u64 },
    #[error(
        "the kernel refuses it ({cause}): the host has probably reached its limit of threads; end other programs, or \
         raise `sysctl kernel.threads-max` and `kernel.pid_max`"
    )]
    Host { cause: String },
}

/// Starts `work` on a thread of this name.
///
/// # Errors
/// The limit that is in the way.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NoThread> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(|cause| NoThread::new(name, &cause))
}

/// Starts `work` on a thread of this name within `scope`.
///
/// # Errors
/// The limit that is in the way.
pub fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, NoThread> {
    Builder::new().name(name.to_owned()).spawn_scoped(scope, work).map_err(|cause| NoThread::new(name, &cause))
}

impl NoThread {
    /// Sentence that tells why a process could not be started, for which the kernel gave `cause`:
    /// the limit that is in the way if that was EAGAIN, else `cause` itself.
    #[must_use]
    pub fn why_no_process(cause: &io::Error) -> String {
        match cause.kind() {
            io::ErrorKind::WouldBlock => Limit::in_the_way(cause).to_string(),
            _ => cause.to_string(),
        }
    }

    /// Error for a thread of this name, for which the kernel gave `cause`; finds out which limit is
    /// in the way.
    #[must_use]
    pub fn new(name: &str, cause: &io::Error) -> Self {
        Self { name: name.to_owned(), limit: Limit::in_the_way(cause) }
    }
}

impl From<NoThread> for io::Error {
    fn from(error: NoThread) -> Self {
        Self::other(error)
    }
}

impl Limit {
    /// Finds the limit for which the kernel refused a thread with `cause`. Those that can be
    /// compared with a count come first, since the kernel gives the same error for all.
    fn in_the_way(cause: &io::Error) -> Self {
        group_tasks()
            .or_else(address_space)
            .or_else(memory_areas)
            .or_else(group_memory)
            .or_else(processes)
            .unwrap_or_else(|| Self::Host { cause: cause.to_string() })
    }
}

/// The limit of tasks (`pids.max`) of a control group of this process that is reached; `None` if
/// none is.
fn group_tasks() -> Option<Limit> {
    cgroup::own_and_above("pids").into_iter().find_map(|group| {
        let most = cgroup::number(&group, "pids.max")?;
        // Threads that have just ended may have been counted before.
        let ended = if has_refused(&group) { JUST_ENDED } else { 1 };
        (cgroup::number(&group, "pids.current")? + ended >= most).then_some(Limit::GroupTasks { group, most })
    })
}

/// True if a control group has ever refused a task.
fn has_refused(group: &Path) -> bool {
    let events = fs::read_to_string(group.join("pids.events")).unwrap_or_default();
    events.lines().any(|line| line.strip_prefix("max ").is_some_and(|count| count.trim() != "0"))
}

/// The limit by `ulimit` that leaves no room for the stack of another thread; `None` if none does.
fn address_space() -> Option<Limit> {
    /// Address space of a stack, and of what a thread maps beside it.
    const ROOM: ByteCount = ByteCount::from_mib(3);
    let bound = memory::of_process()?;
    (bound.left < ROOM + memory::GIVEN_BACK)
        .then_some(Limit::AddressSpace { most: bound.most.as_u64(), option: bound.option })
}

/// The memory limit of a control group that is used up; `None` if none is.
fn group_memory() -> Option<Limit> {
    /// Less than this is not worth the kernel's search.
    const ROOM: u64 = 1 << 20;
    let bound = memory::of_groups()?;
    (bound.left.as_u64() < ROOM).then_some(Limit::GroupMemory { group: bound.group, most: bound.most.as_u64() })
}

/// The limit of memory mappings (`vm.max_map_count`), if another thread's stack would exceed it;
/// else `None`.
fn memory_areas() -> Option<Limit> {
    let most = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()?;
    let count = fs::read_to_string("/proc/self/maps").ok()?.lines().count() as u64;
    // A stack and its guard page.
    (count + 3 > most).then_some(Limit::MemoryAreas { count, most })
}

/// The user's limit of processes and threads (`ulimit -u`). It cannot be compared with a count, so
/// it is returned wherever one is set; `None` without one, and for root.
fn processes() -> Option<Limit> {
    let most = getrlimit(Resource::Nproc).current?;
    let user = getuid();
    // The superuser is not held to it.
    (!user.is_root()).then_some(Limit::Processes { user: user.as_raw(), most })
}
