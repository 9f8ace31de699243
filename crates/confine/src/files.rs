//! Files that a thread may still open, by Landlock.
//!
//! It decides when a file is opened, made, renamed or removed, by whatever call, `io_uring`
//! included. What is open already, descriptors that only name a file (`O_PATH`) included, stays
//! usable. So do calls that ask for or change attributes of what the process can name.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Version of Landlock whose access rights are all refused unless a rule grants them. Kernels that
/// know fewer refuse fewer.
const HANDLED: ABI = ABI::V3;
/// Least version of Landlock with which files are confined: the first that can allow hard links and
/// renames between directories. The one before refuses all of them, which a copy cannot do without.
const LEAST: u8 = 2;
/// Directories that every end of a copy may read, and not write: it asks the kernel there for
/// limits, socket buffers, memory, processors, network devices, types for eBPF.
const OF_THE_KERNEL: [&str; 2] = ["/proc", "/sys"];
/// Directories to be read for resolving host names.
const OF_NAMES: [&str; 5] = ["/etc", "/run", "/usr", "/lib", "/lib64"];

/// Files and directories to be read for looking up users and groups: the C library's files, its
/// modules for directory services, and what these keep in shared memory.
const OF_ACCOUNTS: [&str; 9] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/var/lib/sss/mc",
];

/// Files and directories that a thread may still open, collected one by one and then enforced by
/// Landlock; all others are refused.
#[derive(Debug)]
pub struct Files {
    places: Vec<(OwnedFd, BitFlags<AccessFs>)>,
    /// Whether a file or directory could not be opened for want of descriptors or memory, so that
    /// it would be out of reach.
    lacks: bool,
    /// Whether the thread makes and accepts no TCP connection, and signals no process but its own.
    is_alone: bool,
}

impl Files {
    /// Rules with which every end of a copy begins: only `/proc` and `/sys` can be opened, for
    /// reading.
    #[must_use]
    pub fn of_end() -> Self {
        let files = Self { places: Vec::new(), lacks: false, is_alone: false };
        OF_THE_KERNEL.iter().fold(files, |files, path| files.read_path(Path::new(path)))
    }

    /// Adds the right to read the files for resolving host names.
    #[must_use]
    pub fn with_names(self) -> Self {
        OF_NAMES.iter().fold(self, |files, path| files.read_path(Path::new(path)))
    }

    /// Adds the right to read the files for looking up users and groups.
    #[must_use]
    pub fn with_accounts(self) -> Self {
        OF_ACCOUNTS.iter().fold(self, |files, path| files.read_path(Path::new(path)))
    }

    /// Forbids to open connections and to reach another process by a signal or an abstract socket:
    /// for a process whose connections are all handed to it.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    /// Adds the right to read this file, or everything beneath this directory.
    #[must_use]
    pub fn read(self, place: &impl AsFd) -> Self {
        self.allow(place.as_fd(), AccessFs::ReadFile | AccessFs::ReadDir)
    }

    /// Adds the right of [`read`](Self::read) by a path; one that cannot be opened is left out.
    #[must_use]
    pub fn read_path(self, path: &Path) -> Self {
        self.with_path(path, Self::read)
    }

    /// Adds the right to remove names of files and directories beneath this directory.
    #[must_use]
    pub fn remove(self, place: &impl AsFd) -> Self {
        self.allow(place.as_fd(), AccessFs::RemoveFile | AccessFs::RemoveDir)
    }

    /// Adds the rights of [`read`](Self::read) and [`remove`](Self::remove) by a path; one that
    /// cannot be opened is left out.
    #[must_use]
    pub fn read_and_remove_path(self, path: &Path) -> Self {
        self.with_path(path, |files, place| files.read(place).remove(place))
    }

    /// Adds the right to read and to change everything beneath this directory: no devices, sockets
    /// or pipes are made there, and nothing is executed.
    #[must_use]
    pub fn change(self, place: &impl AsFd) -> Self {
        self.allow(place.as_fd(), CHANGE)
    }

    /// Adds the rights of [`change`](Self::change), and to make named pipes, sockets and device nodes
    /// beneath this directory.
    #[must_use]
    pub fn change_with_specials(self, place: &impl AsFd) -> Self {
        self.allow(place.as_fd(), CHANGE | SPECIALS)
    }

    /// Adds the right of [`change`](Self::change) by a path; one that cannot be opened is left out.
    #[must_use]
    pub fn change_path(self, path: &Path) -> Self {
        self.with_path(path, Self::change)
    }

    /// Adds the rights of [`change_with_specials`](Self::change_with_specials) by a path; one that
    /// cannot be opened is left out.
    #[must_use]
    pub fn change_path_with_specials(self, path: &Path) -> Self {
        self.with_path(path, Self::change_with_specials)
    }

    /// Opens `path` and adds rules for it by `allowed`. A path that cannot be opened is left out;
    /// if descriptors or memory are lacking, nothing is confined in the end.
    fn with_path(self, path: &Path, allowed: impl FnOnce(Self, &File) -> Self) -> Self {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(place) => allowed(self, &place.into()),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Self { lacks: true, ..self },
            Err(_) => self,
        }
    }

    /// Adds these access rights for a file, or for everything beneath a directory.
    fn allow(mut self, place: BorrowedFd<'_>, access: BitFlags<AccessFs>) -> Self {
        let Ok(place) = place.try_clone_to_owned().map(File::from) else { return Self { lacks: true, ..self } };
        let access = match place.metadata() {
            Ok(found) if found.is_dir() => access,
            Ok(_) => access & AccessFs::from_file(HANDLED),
            Err(_) => return Self { lacks: true, ..self },
        };
        self.places.push((place.into(), access));
        self
    }

    /// Confines this thread, and those that it starts from now on. Without Landlock, if the kernel
    /// refuses, or if descriptors or memory were lacking for one of the files, that is logged and
    /// nothing changes: it is a second line of defence.
    pub fn enforce(&self) {
        let enforced = match obstacle() {
            Some(why) => Err(why.to_owned()),
            None if self.lacks => Err("no descriptors or memory for the rules".to_owned()),
            None => self.restrict().map_err(|error| error.to_string()),
        };
        if let Err(why) = enforced {
            tracing::debug!("files are not confined: {why}");
        }
    }

    /// Makes Landlock enforce the rules on the calling thread.
    fn restrict(&self) -> Result<(), RulesetError> {
        let mut rules = Ruleset::default().handle_access(AccessFs::from_all(HANDLED))?;
        if self.is_alone {
            rules = rules.handle_access(AccessNet::from_all(ABI::V4))?.scope(Scope::from_all(ABI::V6))?;
        }
        let mut rules = rules.create()?;
        for (place, access) in &self.places {
            rules = rules.add_rule(PathBeneath::new(place, *access))?;
        }
        rules.restrict_self().map(drop)
    }
}

/// Landlock access rights that [`Files::change`] gives.
const CHANGE: BitFlags<AccessFs> = landlock::make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
});

/// Landlock access rights that [`Files::change_with_specials`] gives beside these.
const SPECIALS: BitFlags<AccessFs> = landlock::make_bitflags!(AccessFs::{MakeFifo | MakeSock | MakeBlock | MakeChar});

/// Version of Landlock that this kernel has, at most the newest that this program knows; 0 if it
/// has none.
#[must_use]
pub fn version() -> u8 {
    static VERSION: OnceLock<u8> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let files = |rights: BitFlags<AccessFs>| required().handle_access(rights).and_then(Ruleset::create).is_ok();
        let has = [
            files(AccessFs::from_all(ABI::V1)),
            files(AccessFs::from_all(ABI::V2)),
            files(AccessFs::from_all(ABI::V3)),
            required().handle_access(AccessNet::from_all(ABI::V4)).and_then(Ruleset::create).is_ok(),
            files(AccessFs::from_all(ABI::V5)),
            required().scope(Scope::from_all(ABI::V6)).and_then(Ruleset::create).is_ok(),
        ];
        has.iter().take_while(|has| **has).count() as u8
    })
}

/// An empty ruleset that fails if the kernel lacks a right, instead of leaving it out: for finding
/// the version.
fn required() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

/// Reason why files cannot be confined; `None` if they can.
#[must_use]
pub fn obstacle() -> Option<&'static str> {
    match version() {
        0 => Some(
            "the kernel has no Landlock, or does not allow it (Linux 5.19 or newer, with landlock in /sys/kernel/security/lsm)",
        ),
        version if version < LEAST => {
            Some("the kernel's Landlock refuses all hard links between directories (Linux 5.19 or newer)")
        }
        _ => None,
    }
}
