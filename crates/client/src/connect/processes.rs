//! The processes of a command: the program that was started, and what it has started. On kernels
//! without descriptors of processes (Linux before 5.3) they are known by their numbers.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketType, ipproto, sockopt};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open, pidfd_send_signal,
};

/// Maximum number of processes of a command that are looked for.
const MAX_DESCENDANTS: usize = 64;
/// Name of OpenSSH's client, of which one runs for each jump host.
const SSH: &str = "ssh";

/// A process of an ssh command on this host, and the process that has started it.
pub(super) struct Process {
    number: u32,
    /// Process descriptor (pidfd); `None` where the kernel has none.
    handle: Option<OwnedFd>,
    parent: u32,
}

impl Process {
    /// Opens the process of this PID, which has the parent `parent`.
    fn new(number: u32, parent: u32) -> Self {
        Self { number, handle: pidfd(number), parent }
    }

    /// Whether the process is still the one that was found: without a descriptor its number may
    /// have been reused.
    fn is_in_place(&self) -> bool {
        self.handle.as_ref().map_or_else(|| parent(self.number) == Some(self.parent), is_running)
    }
}

/// Sends a signal to these processes; those that have ended are left out.
pub(super) fn send(processes: &[Process], signal: Signal) {
    for process in processes {
        // It fails for those that have ended.
        let _ = match (&process.handle, Pid::from_raw(process.number.cast_signed())) {
            (Some(handle), _) => pidfd_send_signal(handle, signal),
            (None, Some(number)) if process.is_in_place() => kill_process(number, signal),
            (None, _) => Ok(()),
        };
    }
}

/// Opens a process descriptor (pidfd) for the process with this PID; `None` if that
/// fails: there is no such process, the kernel has no pidfds (before Linux 5.3), or no
/// descriptor is free.
pub(super) fn pidfd(process: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(process).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// The process and its descendants, at most [`MAX_DESCENDANTS`].
pub(super) fn with_descendants(process: u32) -> Vec<Process> {
    let mut all = vec![Process::new(process, std::process::id())];
    let mut next = 0;
    while let Some(parent) = all.get(next)
        && all.len() < MAX_DESCENDANTS
    {
        let child = |number| Process::new(number, parent.number);
        let found: Vec<_> = children(parent.number).into_iter().map(child).collect();
        // A number may have been reused before it was opened: only those count that are still
        // children of the parent afterwards, and the parent's number is its own as long as it runs.
        let still = children(parent.number);
        if parent.is_in_place() {
            all.extend(found.into_iter().filter(|child| still.contains(&child.number)));
        }
        next += 1;
    }
    all
}

/// The only TCP connection of a process and its descendants, and how many of these processes are
/// ssh. `None` if there is no connection, there are several, or the kernel does not hand it out
/// (before 5.6, and for a process that must not be traced).
///
/// The process keeps using the socket: callers only read its counters, set options, or shut it
/// down.
pub(super) fn network(process: u32) -> Option<(TcpStream, u64)> {
    let processes = with_descendants(process);
    let mut found = BTreeMap::new();
    for Process { number: process, handle, .. } in &processes {
        let Some(handle) = handle else { continue };
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{process}/fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let Ok(target) = std::fs::read_link(descriptor.path()) else { continue };
            let number = descriptor.file_name().to_str().and_then(|name| name.parse().ok());
            let (true, Some(number)) = (target.to_string_lossy().starts_with("socket:"), number) else { continue };
            match pidfd_getfd(handle, number, PidfdGetfdFlags::empty()) {
                Ok(socket) => found.extend(connected(socket).map(|stream| (target, stream))),
                Err(error) => tracing::debug!(process, "socket of a program not had: {error}"),
            }
        }
    }
    let is_ssh = |process: u32| {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
        name.is_ok_and(|name| name.trim_end() == SSH)
    };
    let logins = processes.iter().filter(|process| is_ssh(process.number)).count() as u64;
    let (_, stream) = found.pop_first()?;
    found.is_empty().then_some((stream, logins))
}

/// The socket as a TCP stream; `None` if it is not a connected TCP socket.
fn connected(socket: OwnedFd) -> Option<TcpStream> {
    let is_tcp = sockopt::socket_type(&socket) == Ok(SocketType::STREAM)
        && sockopt::socket_protocol(&socket) == Ok(Some(ipproto::TCP));
    let stream = is_tcp.then(|| TcpStream::from(socket))?;
    stream.peer_addr().is_ok().then_some(stream)
}

/// PIDs of the processes that a process has started; empty if they cannot be read.
fn children(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Process id of the parent, from `/proc/PID/stat`.
fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold any character.
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

/// Whether the process of this descriptor (pidfd) has not ended.
fn is_running(process: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_processes_beneath_one_are_found_with_it() {
        let script = "sh -c 'sleep 60 & echo; wait' & wait";
        let mut shell = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let all = with_descendants(shell.id());
        send(&all, Signal::KILL);
        shell.wait().unwrap();
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn the_connection_of_a_program_beneath_a_shell_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo; sleep 60");
        let mut shell = Command::new("sh")
            .args(["-c", "bash -c \"$1\" & wait", "sh", &connect])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let found = network(shell.id());
        send(&with_descendants(shell.id()), Signal::KILL);
        shell.wait().unwrap();
        let (stream, logins) = found.expect("it is a child's");
        assert_eq!((stream.peer_addr().unwrap().port(), logins), (port, 0));
    }
}
