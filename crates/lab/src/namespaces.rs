//! The three network namespaces of a lab, and running something inside one.
//!
//! ```text
//!  icdc-a        icdc-wire         icdc-b
//! ┌──────┐      ┌─────────┐       ┌──────┐
//! │ eth0─┼──veth┼─a     b─┼veth───┼─eth0 │
//! └──────┘      └─────────┘       └──────┘
//! ```
//!
//! Root makes named ones (`ip netns`), so that any tool finds them. Anybody else gets a user
//! namespace with unnamed ones in it, which live as long as a process in them or the wire, which
//! keeps them open.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::error::LabError;
use crate::program;

/// File in a lab's directory with the names of its named namespaces.
const MADE: &str = "namespaces";

/// One of the three network namespaces of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The first host.
    A,
    /// The second host.
    B,
    /// The wire process's namespace, between the hosts.
    Wire,
}

impl Host {
    /// All three namespaces of a lab.
    pub(crate) const ALL: [Self; 3] = [Self::A, Self::B, Self::Wire];

    /// Word for the namespace in names of namespaces and on the command line: `a`, `b` or `wire`.
    const fn word(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::Wire => "wire",
        }
    }
}

/// Name of the lab that is meant when none is given.
pub const DEFAULT_NAME: &str = "default";

/// Name of a namespace of a lab: `icdc-a`, `icdc-NAME-a`.
pub(crate) fn name(lab: &str, host: Host) -> String {
    match lab {
        DEFAULT_NAME => format!("icdc-{}", host.word()),
        _ => format!("icdc-{lab}-{}", host.word()),
    }
}

/// Path of the network namespace of this name.
pub(crate) fn place_of(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}

/// The three network namespaces of a lab, kept open by its wire; named ones are deleted when this
/// is dropped.
pub(crate) struct Namespaces {
    lab: String,
    named: bool,
    files: Vec<File>,
}

impl Namespaces {
    /// Makes the three namespaces, and writes the names of named ones to a file in `directory`.
    /// With `user_namespace` the calling process, which must have no other thread, moves into a new
    /// user namespace first, as its root.
    ///
    /// # Errors
    /// See [`LabError`].
    pub(crate) fn create(lab: &str, directory: &Path, user_namespace: bool) -> Result<Self, LabError> {
        let mut namespaces = Self { lab: lab.to_owned(), named: !user_namespace, files: Vec::new() };
        if user_namespace {
            become_root().map_err(LabError::NotAllowed)?;
        }
        for host in Host::ALL {
            let file = if user_namespace { unnamed()? } else { named(lab, host, directory)? };
            namespaces.files.push(file);
        }
        Ok(namespaces)
    }

    /// Runs `work` in a namespace, on a thread of its own, and waits for it.
    ///
    /// # Errors
    /// See [`LabError`].
    pub(crate) fn inside<T: Send>(&self, host: Host, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        inside(&self.files[host as usize], work)
    }

    /// Path by which other processes may open the namespace while this one lives.
    pub(crate) fn path(&self, host: Host) -> PathBuf {
        if self.named {
            return place_of(&name(&self.lab, host));
        }
        path_of(&self.files[host as usize])
    }

    /// Inode number of the namespace, by which the processes in it can be found.
    ///
    /// # Errors
    /// See [`LabError`].
    pub(crate) fn inode(&self, host: Host) -> Result<u64, LabError> {
        let metadata = self.files[host as usize].metadata();
        metadata.map(|metadata| metadata.ino()).map_err(|error| LabError::io("look at a network namespace", error))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        if self.named {
            for host in Host::ALL.into_iter().take(self.files.len()) {
                if let Err(error) = delete(&name(&self.lab, host)) {
                    tracing::warn!("{error}");
                }
            }
        }
    }
}

/// Runs `work` on a thread of its own in a network namespace, and waits for it.
///
/// # Errors
/// See [`LabError`].
pub fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    let outcome = thread::scope(|scope| {
        let inside = scope.spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        });
        inside.join().expect("work in a namespace does not panic")
    });
    outcome.map_err(|error: io::Error| LabError::io("enter a network namespace (setns)", error))
}

/// Path by which other processes can open a file that this process has open.
#[must_use]
pub fn path_of(namespace: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd()))
}

/// Names of the namespaces that were made for the lab with this directory, and may be deleted.
pub(crate) fn made(directory: &Path) -> Vec<String> {
    fs::read_to_string(directory.join(MADE)).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Makes and opens a named network namespace of a lab (`ip netns add`), after writing its name to
/// the list in the lab's `directory`. An error if one of that name exists.
fn named(lab: &str, host: Host, directory: &Path) -> Result<File, LabError> {
    let name = name(lab, host);
    let place = place_of(&name);
    if place.exists() {
        return Err(LabError::Foreign(name));
    }
    // Recorded first: however this process ends, its namespaces can be found.
    let mut names = made(directory);
    names.push(name.clone());
    let noted = fs::write(directory.join(MADE), names.join("\n"));
    noted.map_err(|error| LabError::io(format!("write to {}", directory.display()), error))?;
    program::ip(&["netns", "add", &name], "")?;
    File::open(&place).map_err(|error| LabError::io(format!("open {}", place.display()), error))
}

/// Deletes a named namespace, if it exists.
pub(crate) fn delete(name: &str) -> Result<(), LabError> {
    if place_of(name).exists() {
        program::ip(&["netns", "delete", name], "")?;
    }
    Ok(())
}

/// A new network namespace without a name: it lives as long as it is open or in use.
///
/// # Errors
/// See [`LabError`].
pub fn unnamed() -> Result<File, LabError> {
    let made = thread::scope(|scope| {
        let maker = scope.spawn(|| {
            // SAFETY: only this thread, which does nothing else, gets the new namespace.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
            File::open("/proc/thread-self/ns/net")
        });
        maker.join().expect("making a namespace does not panic")
    });
    made.map_err(LabError::NotAllowed)
}

/// Moves the process, which must have one thread, into a new user namespace in which this user is
/// root.
fn become_root() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: the process has one thread, and no memory or descriptor is unshared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER)? };
    // A group map needs setgroups to be given up (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}
