//! Failures of operations on a tree: what, where, and what to do. The system call is kept for logs.

use std::io;

use rustix::io::Errno;

use super::names::NameError;

/// Result of an operation on a tree.
pub type Result<T> = std::result::Result<T, TreeError>;

/// A failed operation. `path` is printable, with escapes; below a confined tree it starts at the
/// tree's root, as the other end sees it. `call` is the system call that failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields `path`, `call` and `found` mean the same everywhere")]
pub enum TreeError {
    /// The bytes are not a valid name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The path leads out of the tree.
    #[error(
        "{path}: leads out of the permitted directory; give a path that stays beneath \
         it, without `..` or symbolic links to the outside"
    )]
    Escapes { path: String, call: &'static str },
    /// The item does not exist (`ENOENT`).
    #[error("{path}: no such file or directory")]
    Missing { path: String, call: &'static str },
    /// The name exists already, or a directory is not empty (`EEXIST`, `ENOTEMPTY`).
    #[error("{path}: exists already; remove it or choose another name")]
    Exists { path: String, call: &'static str },
    /// A directory is needed and something else is there.
    #[error("{path}: is {found}, not a directory; remove it or choose another place")]
    NotADirectory { path: String, found: &'static str, call: &'static str },
    /// A regular file is needed and something else is there.
    #[error("{path}: is {found}, not a regular file; leave it out or remove it")]
    NotAFile { path: String, found: &'static str, call: &'static str },
    /// A block device is needed and something else is there.
    #[error("{path}: is {found}, not a block device")]
    NotADevice { path: String, found: &'static str, call: &'static str },
    /// A directory is in the way of another item (`EISDIR`).
    #[error("{path}: a directory is in the way; remove it or choose another destination")]
    IsADirectory { path: String, call: &'static str },
    /// A file to be continued that another user may have planted.
    #[error(
        "{path}: belongs to another user or has further names, so it is not continued; \
         remove it"
    )]
    NotOurs { path: String, call: &'static str },
    /// A symbolic link is where none may be, or too many follow each other (`ELOOP`).
    #[error(
        "{path}: a symbolic link that cannot be followed here, or too many in a row; \
         name what it points to instead"
    )]
    Link { path: String, call: &'static str },
    /// The file system is full (`ENOSPC`).
    #[error(
        "{path}: no space left on the file system; free some and run the same command \
         again, it goes on where it stopped"
    )]
    NoSpace { path: String, call: &'static str },
    /// The disk quota is used up (`EDQUOT`).
    #[error(
        "{path}: the disk quota is used up; free some space or ask for more, then run \
         the same command again, it goes on where it stopped"
    )]
    Quota { path: String, call: &'static str },
    /// The name is too long for the file system (`ENAMETOOLONG`).
    #[error(
        "{path}: the name or the path is longer than the file system allows; shorten \
         it or choose a destination on another file system"
    )]
    TooLong { path: String, call: &'static str },
    /// Access is denied by permissions (`EACCES`).
    #[error(
        "{path}: permission denied; check owner and mode of the item and of the \
         directories above it, or run as a user who may"
    )]
    Denied { path: String, call: &'static str },
    /// The operation is not permitted to this user (`EPERM`).
    #[error("{path}: {}", not_permitted(.call))]
    NotPermitted { path: String, call: &'static str },
    /// Symbolic links cannot be made there (`EPERM` or `EOPNOTSUPP` of `symlinkat`).
    #[error(
        "{path}: the symbolic link is not permitted there: the file system has none, or the directory is \
         immutable (lsattr -d shows it); choose another destination, or leave links out of --preserve"
    )]
    NoLinks { path: String, call: &'static str },
    /// A directory in which names can be made and neither changed nor removed.
    #[error(
        "{path}: the directory is append-only (lsattr -d shows it): no file in it could get its name when it is \
         complete; have that changed (chattr -a), or choose another destination"
    )]
    AppendOnly { path: String, call: &'static str },
    /// The file system is mounted read-only (`EROFS`).
    #[error(
        "{path}: the file system is mounted read-only; remount it or choose another (a systemd service \
         writes where its ReadWritePaths= says)"
    )]
    ReadOnly { path: String, call: &'static str },
    /// The file is executed or swapped to (`ETXTBSY`).
    #[error(
        "{path}: is a program that is running, or space for swapping, and may not be written while it is in use; \
         end that (fuser shows the program), or have the file replaced as a whole"
    )]
    InUse { path: String, call: &'static str },
    /// The two names are on different file systems (`EXDEV`).
    #[error("{path}: lies on another file system; both names must be on the same one")]
    OtherFileSystem { path: String, call: &'static str },
    /// A file system is mounted at a directory that may not be entered across mount points.
    #[error("{path}: a file system is mounted there; unmount it, or leave the directory alone")]
    MountPoint { path: String, call: &'static str },
    /// Too many files are open in this process or system (`EMFILE`, `ENFILE`).
    #[error("{path}: too many open files; raise the limit with `ulimit -n`")]
    TooManyOpen { path: String, call: &'static str },
    /// An extended attribute cannot be read, set or removed, or is of a refused namespace.
    #[error(
        "{path}: the extended attribute {attribute} cannot be set ({cause}); leave \
         {} out of --preserve or choose another file system", preserved_by(.attribute)
    )]
    Attribute { path: String, attribute: String, call: &'static str, cause: io::Error },
    /// Any other error of the kernel.
    #[error("{path}: {}: {cause}", operation(.call))]
    System { path: String, call: &'static str, cause: io::Error },
}

/// Word of `--preserve` by which an extended attribute is copied.
fn preserved_by(attribute: &str) -> &'static str {
    match attribute {
        "system.posix_acl_access" | "system.posix_acl_default" => "acl",
        "security.capability" => "xattr",
        _ if attribute.starts_with("security.") => "security",
        _ => "xattr",
    }
}

/// Sentence for users about `EPERM` of a system call: the refused operation, likely reasons, the
/// remedy. Root meets it as well: by file attributes, by file systems that cannot do it, and
/// without capabilities.
fn not_permitted(call: &str) -> &'static str {
    match call {
        "fchown" | "fchownat" => {
            "its owner may not be set; run as root, or leave owner out of --preserve (not all file systems have owners)"
        }
        "fchmod" => {
            "its mode may not be set: it belongs to another user, is immutable (lsattr shows it), or the file system \
             has no modes; leave mode out of --preserve, or choose another destination"
        }
        "futimens" | "utimensat" => {
            "its time may not be set: it belongs to another user, or is immutable or append-only (lsattr shows it); \
             leave times out of --preserve, or choose another destination"
        }
        "linkat" => {
            "the hard link is not permitted: the file system has none, or the file is immutable or another user's; \
             leave links out of --preserve"
        }
        "renameat" => {
            "it may not get this name: what has the name is immutable (lsattr shows it) or, in a sticky directory, \
             another user's, or the directory is append-only (lsattr -d); remove what is in the way, or choose another \
             destination"
        }
        "unlinkat" => {
            "it may not be removed: it is immutable (lsattr shows it) or, in a sticky directory, another user's, or the \
             directory is append-only (lsattr -d)"
        }
        "mkdirat" => {
            "the directory may not be made: the one above it is immutable (lsattr -d shows it); have that changed, or \
             choose another destination"
        }
        "mknodat" => {
            "it may not be made: devices can be made by root alone, and not all file systems have devices, named pipes and \
             sockets; exclude it, or leave specials out of --preserve"
        }
        "openat" | "openat2" => {
            "it may not be opened or made: it or its directory is immutable or append-only (lsattr, lsattr -d show it); \
             have that changed, or choose another place"
        }
        _ => "the system does not permit this, although its mode may allow it; look at its file attributes (lsattr)",
    }
}

/// Description for error messages of the failure of a system call, such as "it cannot be renamed".
pub(crate) fn operation(call: &str) -> &'static str {
    match call {
        "mkdirat" => "the directory cannot be made",
        "symlinkat" => "the symbolic link cannot be made",
        "mknodat" => "the named pipe, socket or device cannot be made",
        "linkat" => "the hard link cannot be made",
        "readlinkat" => "the symbolic link cannot be read",
        "renameat" => "it cannot be renamed",
        "unlinkat" => "it cannot be removed",
        "getdents" | "getdents64" => "the directory cannot be read",
        "fstat" | "fstatat" | "statx" => "its size and time cannot be read",
        "fchown" | "fchownat" => "its owner cannot be set",
        "fchmod" => "its mode cannot be set",
        "futimens" | "utimensat" => "its time cannot be set",
        "flistxattr" | "fgetxattr" => "its extended attributes cannot be read",
        "fsetxattr" => "its extended attributes cannot be set",
        "fsync" => "it cannot be made durable",
        "fallocate" | "ftruncate" => "its space cannot be reserved",
        "read" => "it cannot be read",
        "write" => "it cannot be written",
        _ => "it cannot be opened",
    }
}

impl TreeError {
    /// Error for `errno`, returned by `call` on `path`.
    pub(super) fn new(call: &'static str, path: String, errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Missing { path, call },
            Errno::EXIST | Errno::NOTEMPTY => Self::Exists { path, call },
            Errno::NOTDIR => Self::NotADirectory { path, found: "something else", call },
            Errno::ISDIR => Self::IsADirectory { path, call },
            Errno::LOOP => Self::Link { path, call },
            Errno::NOSPC => Self::NoSpace { path, call },
            Errno::DQUOT => Self::Quota { path, call },
            Errno::NAMETOOLONG => Self::TooLong { path, call },
            Errno::ACCESS => Self::Denied { path, call },
            Errno::PERM | Errno::OPNOTSUPP if call == "symlinkat" => Self::NoLinks { path, call },
            Errno::PERM => Self::NotPermitted { path, call },
            Errno::ROFS => Self::ReadOnly { path, call },
            Errno::TXTBSY => Self::InUse { path, call },
            Errno::XDEV => Self::OtherFileSystem { path, call },
            Errno::MFILE | Errno::NFILE => Self::TooManyOpen { path, call },
            _ => Self::System { path, call, cause: errno.into() },
        }
    }

    /// Whether the error is that nothing of that name exists.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    /// Whether the error is that the name is taken.
    #[must_use]
    pub fn is_existing(&self) -> bool {
        matches!(self, Self::Exists { .. })
    }

    /// Whether the error is that a mode may not be set, as on file systems that have none.
    #[must_use]
    pub fn is_of_mode(&self) -> bool {
        let unsupported = |cause: &io::Error| {
            let codes = [Errno::OPNOTSUPP, Errno::NOSYS].map(Errno::raw_os_error);
            cause.raw_os_error().is_some_and(|code| codes.contains(&code))
        };
        match self {
            Self::NotPermitted { call: "fchmod", .. } => true,
            Self::System { call: "fchmod", cause, .. } => unsupported(cause),
            _ => false,
        }
    }

    /// Whether the error is that a hard link is refused where a separate file may be made: the
    /// file system has no links or no more of this file, the other name is on another one, or the
    /// file may not be linked by this user.
    #[must_use]
    pub fn refuses_link(&self) -> bool {
        let Self::System { call: "linkat", cause, .. } = self else {
            return matches!(
                self,
                Self::NotPermitted { call: "linkat", .. } | Self::OtherFileSystem { call: "linkat", .. }
            );
        };
        let errno = cause.raw_os_error().map(Errno::from_raw_os_error);
        errno.is_some_and(|errno| matches!(errno, Errno::MLINK | Errno::OPNOTSUPP | Errno::NOSYS))
    }

    /// Whether the error is that the file system is full or the quota used up: going on with other
    /// items is of no use.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. } | Self::Quota { .. })
    }
}
