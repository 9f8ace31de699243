//! A lab from outside its wire: up, down, inside, and what it says.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use icdc_packet::clock;
use icdc_units::{ByteCount, Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{CapabilitySet, LinkNameSpaceType, capabilities, move_into_link_name_space};

use crate::namespaces::{self, Host};
use crate::settings::Settings;
use crate::state::{self, Process, State};
use crate::wire::{self, Answer, Order};
use crate::{LabError, backlog, hosts, placement};

/// How long a process may take to end when it is asked to.
const PATIENCE: Span = Span::from_secs(3);

/// A lab that stands.
pub struct Lab {
    /// What is known of it.
    pub state: State,
    directory: PathBuf,
}

impl Lab {
    /// Makes a lab that stays until it is taken down. `program` is the icdc that runs the wire (by its `lab wire`).
    pub fn up(name: &str, settings: &Settings, program: &Path) -> Result<Self, LabError> {
        Self::make(name, settings, program, None)
    }

    /// Makes a lab that goes with this process at the latest, however that ends.
    pub(crate) fn lent(name: &str, settings: &Settings, program: &Path) -> Result<Self, LabError> {
        Self::make(name, settings, program, Some(Process::this()))
    }

    fn make(name: &str, settings: &Settings, program: &Path, owner: Option<Process>) -> Result<Self, LabError> {
        settings.forward.check()?;
        settings.backward.check()?;
        let needed = wire::memory(settings);
        if let Some(available) = available_memory().filter(|available| *available < needed) {
            return Err(LabError::Memory { needed, available });
        }
        let directory = state::reserve(name)?;
        let result = Self::start(name, settings, program, &directory, owner);
        if result.is_err() {
            // What a wire that failed has not put away itself.
            let _ = clear(&directory);
        }
        result
    }

    fn start(
        name: &str,
        settings: &Settings,
        program: &Path,
        directory: &Path,
        owner: Option<Process>,
    ) -> Result<Self, LabError> {
        let user_namespace = !may_administer();
        backlog::raise();
        let order = Order {
            name: name.to_owned(),
            directory: directory.to_owned(),
            settings: settings.clone(),
            user_namespace,
            owner,
        };
        let log = directory.join(state::LOG);
        let log = File::create(&log).map_err(|error| LabError::io(format!("make {}", log.display()), error))?;
        let mut command = Command::new(program);
        command.args(["lab", "wire"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).current_dir("/");
        let mut wire = command.spawn().map_err(|error| LabError::io(format!("run {}", program.display()), error))?;
        let mut stdin = wire.stdin.take().expect("piped");
        let text = serde_json::to_vec(&order).expect("plain data");
        stdin.write_all(&text).map_err(|error| LabError::io("tell the wire what to build", error))?;
        drop(stdin);
        let mut line = String::new();
        let mut answers = BufReader::new(wire.stdout.take().expect("piped"));
        answers.read_line(&mut line).map_err(|error| LabError::io("hear from the wire", error))?;
        match serde_json::from_str(&line) {
            Ok(Answer::Ready(state)) => Ok(Self { state: *state, directory: directory.to_owned() }),
            Ok(Answer::Failed(words)) => {
                // It ends by itself, having put away what it had made.
                let _ = wire.wait();
                Err(LabError::Wire(words))
            }
            Err(_) => {
                let _ = wire.wait();
                Err(LabError::Wire(format!("the wire ended at once; its last words: {}", state::last_words(directory))))
            }
        }
    }

    /// The lab of this name.
    pub fn find(name: &str) -> Result<Self, LabError> {
        let directory = state::find(name)?;
        match State::load(&directory).filter(|state| state.wire.is_alive()) {
            Some(state) => Ok(Self { state, directory }),
            None => Err(LabError::Dead(name.to_owned(), state::last_words(&directory))),
        }
    }

    /// What the wire tells.
    pub fn page(&self) -> Result<crate::Page, LabError> {
        crate::Page::open(&self.directory.join(state::PAGE))
            .map_err(|error| LabError::io("read what the wire tells", error))
    }

    /// Where its state is kept, as long as it stands.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sends a signal to whatever runs on a host; a process that is gone by then needs none.
    pub(crate) fn signal(&self, host: Host, signal: Signal) -> Result<(), LabError> {
        let (_, inode) = self.state.namespaces[host as usize];
        for process in inhabitants(&[inode]) {
            let Some(opened) = open(process) else { continue };
            match pidfd_send_signal(&opened, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(LabError::io("signal a process of the lab", error.into())),
            }
        }
        Ok(())
    }

    /// Moves the calling thread into one of the hosts: what it starts from now on, and every socket that it opens, is
    /// there.
    pub(crate) fn enter(&self, host: Host) -> Result<(), LabError> {
        let open =
            |path: &Path| File::open(path).map_err(|error| LabError::io(format!("open {}", path.display()), error));
        let moved = |error: rustix::io::Errno| LabError::io("enter the lab (setns)", error.into());
        let network = open(&self.state.namespaces[host as usize].0)?;
        if self.state.user_namespace {
            let user = open(Path::new(&format!("/proc/{}/ns/user", self.state.wire.id)))?;
            // Whoever is there already may not enter it again.
            let inode = |file: &File| file.metadata().map(|metadata| metadata.ino()).ok();
            if inode(&user) != inode(&open(Path::new("/proc/self/ns/user"))?) {
                move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User)).map_err(moved)?;
            }
        }
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).map_err(moved)?;
        placement::keep_off(&self.state.wire_processors);
        Ok(())
    }

    /// Does something on one of the hosts, on a thread of its own.
    pub(crate) fn on<T: Send>(
        &self,
        host: Host,
        work: impl FnOnce() -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        let there = || self.enter(host).and_then(|()| work());
        thread::scope(|scope| scope.spawn(there).join().expect("work on a host does not panic"))
    }

    /// Becomes a command that runs on a host; returns only if that fails.
    pub fn exec(&self, host: Host, command: &[std::ffi::OsString]) -> LabError {
        if let Err(error) = self.enter(host) {
            return error;
        }
        let (program, arguments) = command.split_first().expect("the command line has a command");
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(labs) = self.directory.parent() {
            command.env(state::DIRECTORY_VARIABLE, labs).env(state::NAME_VARIABLE, &self.state.name);
        }
        let error = command.exec();
        LabError::io(format!("run {}", program.to_string_lossy()), error)
    }
}

/// Takes a lab down, whatever state it is in: ends what runs on its hosts and its wire, removes its namespaces and what
/// was noted of it.
pub fn down(name: &str) -> Result<(), LabError> {
    let directory = state::find(name)?;
    clear(&directory)
}

/// The same by its directory; a wire that clears itself away is left to end.
pub(crate) fn clear(directory: &Path) -> Result<(), LabError> {
    let state = State::load(directory);
    let wire = state.as_ref().map(|state| state.wire).filter(|wire| wire.is_alive());
    let noted: Vec<u64> = state.iter().flat_map(|state| &state.namespaces).map(|&(_, inode)| inode).collect();
    let named = namespaces::made(directory);
    let places = named.iter().map(|name| namespaces::place_of(name));
    let mut inodes: Vec<u64> = places.filter_map(|place| Some(fs::metadata(place).ok()?.ino())).collect();
    if wire.is_some() {
        inodes.extend(&noted);
    }
    end(if wire.is_none() && named.is_empty() {
        // Nothing holds them any more, so their numbers may be those of other namespaces by now: a look inside tells.
        inhabitants(&noted).into_iter().filter(|process| hosts::is_host(process.id)).collect()
    } else {
        inhabitants(&inodes)
    })?;
    // What they had started meanwhile.
    end(inhabitants(&inodes))?;
    if let Some(wire) = wire.filter(|wire| wire.id != std::process::id()) {
        end(vec![wire])?;
    }
    named.iter().try_for_each(|name| namespaces::delete(name))?;
    fs::remove_dir_all(directory).map_err(|error| LabError::io(format!("remove {}", directory.display()), error))?;
    if state::names().is_ok_and(|names| names.is_empty()) {
        backlog::restore();
        // What is left of the way to it; whatever else is there keeps it.
        for parent in directory.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(parent);
        }
    }
    Ok(())
}

/// The processes in namespaces of these inodes.
fn inhabitants(inodes: &[u64]) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|&id| id != std::process::id())
        .filter(|id| fs::metadata(format!("/proc/{id}/ns/net")).is_ok_and(|metadata| inodes.contains(&metadata.ino())))
        .filter_map(Process::of)
        .collect()
}

/// Asks processes to end, and makes those end that do not.
fn end(processes: Vec<Process>) -> Result<(), LabError> {
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

/// A process by a descriptor, which cannot come to mean another one.
fn open(process: Process) -> Option<OwnedFd> {
    let opened = pidfd_open(Pid::from_raw(process.id as i32)?, PidfdFlags::empty()).ok()?;
    // The number could have passed to another process before it was opened.
    process.is_alive().then_some(opened)
}

/// Whether a process has ended by `deadline`, waiting for it.
pub(crate) fn ended_by(fd: &OwnedFd, deadline: Time) -> bool {
    let timeout = Timespec::try_from(Duration::from(deadline - clock::now())).ok();
    poll(&mut [PollFd::new(fd, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

/// `MemAvailable` of proc(5), if it is told.
fn available_memory() -> Option<ByteCount> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(ByteCount::new(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024))
}

/// Whether this process may make namespaces and devices.
fn may_administer() -> bool {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN | CapabilitySet::NET_RAW;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}
