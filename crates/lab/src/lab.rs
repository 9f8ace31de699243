//! A lab as programs use it: make one, find one, run something on its hosts, read its counters.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use icdc_units::ByteCount;
use rustix::process::{Signal, pidfd_send_signal};
use rustix::thread::{CapabilitySet, LinkNameSpaceType, capabilities, move_into_link_name_space};

use crate::error::LabError;
use crate::namespaces::Host;
use crate::process::{self, Process};
use crate::record::LabRecord;
use crate::settings::Settings;
use crate::wire::page::Page;
use crate::wire::request::{Answer, Request};
use crate::{machine, placement, registry, teardown, wire};

/// Handle of a running lab, an emulated path between two hosts in network namespaces. The lab stays
/// when this is dropped.
pub struct Lab {
    /// The lab's record: name, settings and processes.
    pub record: LabRecord,
    directory: PathBuf,
}

impl Lab {
    /// Makes a lab that stays until it is taken down. `program`: the icdc binary that runs the wire
    /// (by its `lab wire`).
    ///
    /// # Errors
    /// See [`LabError`].
    pub fn up(name: &str, settings: &Settings, program: &Path) -> Result<Self, LabError> {
        Self::make(name, settings, program, None)
    }

    /// Makes a lab that ends with this process at the latest, in whatever way the process ends.
    ///
    /// # Errors
    /// See [`LabError`].
    pub fn lent(name: &str, settings: &Settings, program: &Path) -> Result<Self, LabError> {
        Self::make(name, settings, program, Some(Process::this()))
    }

    /// Checks settings and memory, reserves the name, and starts the lab; removes what was made if
    /// that fails. A lab with an `owner` ends when that process does; `None`: it stays until taken
    /// down.
    fn make(name: &str, settings: &Settings, program: &Path, owner: Option<Process>) -> Result<Self, LabError> {
        settings.forward.check()?;
        settings.backward.check()?;
        let needed = wire::memory(settings);
        if let Some(available) = available_memory().filter(|available| *available < needed) {
            return Err(LabError::Memory { needed, available });
        }
        let directory = registry::reserve(name)?;
        let result = Self::start(name, settings, program, &directory, owner);
        if result.is_err() {
            // What a wire that failed has not put away itself.
            let _ = teardown::clear(&directory);
        }
        result
    }

    /// Starts the wire process (`program lab wire`), sends it the request to build the lab, and
    /// waits for its answer.
    fn start(
        name: &str,
        settings: &Settings,
        program: &Path,
        directory: &Path,
        owner: Option<Process>,
    ) -> Result<Self, LabError> {
        let user_namespace = !may_administer();
        machine::change(settings);
        let request = Request {
            name: name.to_owned(),
            directory: directory.to_owned(),
            settings: settings.clone(),
            user_namespace,
            owner,
        };
        let log = directory.join(registry::LOG);
        let log = File::create(&log).map_err(|error| LabError::io(format!("make {}", log.display()), error))?;
        let mut command = Command::new(program);
        command.args(["lab", "wire"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).current_dir("/");
        let mut wire = command.spawn().map_err(|error| LabError::io(format!("run {}", program.display()), error))?;
        let mut stdin = wire.stdin.take().expect("piped");
        let text = serde_json::to_vec(&request).expect("plain data");
        stdin.write_all(&text).map_err(|error| LabError::io("tell the wire what to build", error))?;
        drop(stdin);
        let mut line = String::new();
        let mut answers = BufReader::new(wire.stdout.take().expect("piped"));
        answers.read_line(&mut line).map_err(|error| LabError::io("hear from the wire", error))?;
        match serde_json::from_str(&line) {
            Ok(Answer::Ready(record)) => Ok(Self { record: *record, directory: directory.to_owned() }),
            Ok(Answer::Failed(reason)) => {
                // It has removed everything that it had made, and exits.
                let _ = wire.wait();
                Err(LabError::Wire(reason))
            }
            Err(_) => {
                let _ = wire.wait();
                Err(LabError::Wire(format!(
                    "the wire ended at once; the last line of its log: {}",
                    registry::last_log_line(directory)
                )))
            }
        }
    }

    /// Finds the running lab of this name; an error if there is none, or if its wire has died.
    pub fn find(name: &str) -> Result<Self, LabError> {
        let directory = registry::find(name)?;
        match LabRecord::load(&directory).filter(|record| record.wire.is_alive()) {
            Some(record) => Ok(Self { record, directory }),
            None => Err(LabError::Dead(name.to_owned(), registry::last_log_line(&directory))),
        }
    }

    /// Opens the counters and series of the lab's path.
    ///
    /// # Errors
    /// See [`LabError`].
    pub fn page(&self) -> Result<Page, LabError> {
        Page::open(&self.directory.join(registry::PAGE))
            .map_err(|error| LabError::io("read the page of the wire", error))
    }

    /// Directory of the lab's files, which exists as long as the lab.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sends a signal to every process on a host; one that is gone by then needs none.
    ///
    /// # Errors
    /// See [`LabError`].
    pub fn signal(&self, host: Host, signal: Signal) -> Result<(), LabError> {
        let (_, inode) = self.record.namespaces[host as usize];
        for found in process::inhabitants(&[inode]) {
            let Some(opened) = process::open(found) else { continue };
            match pidfd_send_signal(&opened, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(LabError::io("signal a process of the lab", error.into())),
            }
        }
        Ok(())
    }

    /// Moves the calling thread into one of the hosts: programs that it starts and sockets that it
    /// opens from now on are there.
    ///
    /// # Errors
    /// See [`LabError`].
    pub fn enter(&self, host: Host) -> Result<(), LabError> {
        let open =
            |path: &Path| File::open(path).map_err(|error| LabError::io(format!("open {}", path.display()), error));
        let moved = |error: rustix::io::Errno| LabError::io("enter the lab (setns)", error.into());
        let network = open(&self.record.namespaces[host as usize].0)?;
        if self.record.user_namespace {
            let user = open(Path::new(&format!("/proc/{}/ns/user", self.record.wire.id)))?;
            // A process may not enter the user namespace that it is in.
            let inode = |file: &File| file.metadata().map(|metadata| metadata.ino()).ok();
            if inode(&user) != inode(&open(Path::new("/proc/self/ns/user"))?) {
                move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User)).map_err(moved)?;
            }
        }
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).map_err(moved)?;
        placement::keep_off(&self.record.wire_processors);
        Ok(())
    }

    /// Runs a function on one of the hosts, on a thread of its own, and waits for it.
    pub fn on<T: Send, E: From<LabError> + Send>(
        &self,
        host: Host,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        let there = || {
            self.enter(host)?;
            work()
        };
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
            command.env(registry::DIRECTORY_VARIABLE, labs).env(registry::NAME_VARIABLE, &self.record.name);
        }
        let error = command.exec();
        LabError::io(format!("run {}", program.to_string_lossy()), error)
    }
}

/// Memory that is available on this machine (`MemAvailable` of proc(5)); `None` if the kernel does
/// not say.
fn available_memory() -> Option<ByteCount> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(ByteCount::new(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024))
}

/// Whether this process may make namespaces and devices; false if its capabilities cannot be read.
fn may_administer() -> bool {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN | CapabilitySet::NET_RAW;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}
