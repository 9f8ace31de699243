//! Pins of algorithms that outlast the process that loaded them: a link in the BPF file system.
//! Policies have a directory in icdc's.

use std::io;
#[cfg(feature = "ebpf")]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Mount point of the BPF file system.
const FILE_SYSTEM: &str = "/sys/fs/bpf";
/// Directory of icdc's pins in the BPF file system.
pub const DIRECTORY: &str = "/sys/fs/bpf/icdc";

/// Result of pinning an algorithm, which then stays loaded after the process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Path of the pin; `None` on kernels before 6.4, where it stays loaded without one.
    pub path: Option<PathBuf>,
    /// Whether the BPF file system was not mounted before, and had to be.
    pub mounted: bool,
}

/// Reason why an algorithm could not be pinned.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PinError {
    /// The BPF file system could not be mounted.
    #[error(
        "there is no BPF file system at {FILE_SYSTEM}, and it cannot be mounted: {0}; as root: mount -t bpf -o mode=700 bpf {FILE_SYSTEM}"
    )]
    Mount(io::Error),
    /// The process has a mount namespace of its own: a file system mounted here would end with it.
    #[error(
        "there is no BPF file system at {FILE_SYSTEM} in this mount namespace, and one mounted here would end with it; run this outside (not by `ip netns exec`): it holds in every network namespace"
    )]
    OwnMounts,
    /// The directory or the pin could not be made.
    #[error("{}: {call}: {reason}", .path.display())]
    Call {
        /// Path of the failed operation.
        path: PathBuf,
        /// System call that failed.
        call: &'static str,
        /// Error that the kernel returned.
        reason: String,
    },
}

/// Process ids of this process's parent, its parent and so on, and of the first process (1).
#[cfg(feature = "ebpf")]
fn ancestors() -> impl Iterator<Item = u32> {
    let parent = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name in parentheses may contain anything.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|id| *id > 0)
    };
    std::iter::successors(parent(&std::process::id()), parent).chain([1])
}

/// The mount namespace of a process, as `/proc` names it; `None` for a process that may not be
/// inspected.
#[cfg(feature = "ebpf")]
fn mount_namespace(process: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// Path of the pin of the algorithm `name` in the BPF file system.
pub(super) fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

/// Makes the [`DIRECTORY`] for pins; returns whether the file system had to be mounted.
///
/// # Errors
/// See [`PinError`].
#[cfg(feature = "ebpf")]
pub fn prepare() -> Result<bool, PinError> {
    let mounted = !is_mounted();
    if mounted {
        mount()?;
    }
    let failed = |call, reason| PinError::Call { path: DIRECTORY.into(), call, reason };
    match std::fs::create_dir(DIRECTORY) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed("mkdir", error.to_string())),
        _ => {}
    }
    // Distributions let any user write to the file system, so another user may have made it, to
    // unload what is pinned there.
    let found = std::fs::symlink_metadata(DIRECTORY).map_err(|error| failed("lstat", error.to_string()))?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(failed("lstat", "it is not a directory of this user: remove it".to_owned()));
    }
    Ok(mounted)
}

/// Whether the BPF file system is mounted in its place.
#[cfg(feature = "ebpf")]
fn is_mounted() -> bool {
    /// `BPF_FS_MAGIC` of linux/magic.h.
    const MAGIC: u32 = 0xcafe_4a11;
    rustix::fs::statfs(FILE_SYSTEM).is_ok_and(|found| found.f_type as u32 == MAGIC)
}

/// Mounts the BPF file system; an error if this process's mounts are not those of its ancestors.
#[cfg(feature = "ebpf")]
fn mount() -> Result<(), PinError> {
    use rustix::mount::{MountFlags, mount};

    if let Some(own) = mount_namespace(std::process::id())
        && ancestors().filter_map(mount_namespace).any(|other| other != own)
    {
        return Err(PinError::OwnMounts);
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RELATIME;
    mount("bpf", FILE_SYSTEM, "bpf", flags, Some(c"mode=700")).map_err(|errno| PinError::Mount(errno.into()))
}
