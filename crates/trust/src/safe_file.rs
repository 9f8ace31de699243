//! Files with secrets, which no other user may read, and with lists of trusted keys, which no other
//! user may change.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::TrustError;

/// Maximum size of a list of keys that is read, in bytes; what follows is ignored.
const MAX_LIST: u64 = 16 << 20;

/// Creates a file of mode 0600 with this content; its directory is made with mode 0700 if missing.
///
/// # Errors
/// See [`TrustError`].
pub(crate) fn create_private(path: &Path, content: &[u8]) -> Result<(), TrustError> {
    make_directory(path)?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => TrustError::Exists { path: path.to_owned() },
            _ => TrustError::io(path, "open", error),
        })?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // A truncated key is useless, and would block the next attempt.
        let _ = std::fs::remove_file(path);
        TrustError::io(path, "write", error)
    })
}

/// Maximum size of a key file that is read, in bytes (what follows is ignored): an identity file
/// has 119, one of OpenSSH some 400.
const MAX_KEY: u64 = 16 << 10;

/// Contents and metadata of a file that holds one key, private or public.
pub(crate) struct KeyFile {
    pub(crate) content: Vec<u8>,
    metadata: Metadata,
}

impl KeyFile {
    /// Reads the file, up to the length that a key may have, with its metadata.
    pub(crate) fn read(path: &Path) -> Result<Self, TrustError> {
        let file = File::open(path).map_err(|error| TrustError::io(path, "open", error))?;
        let metadata = file.metadata().map_err(|error| TrustError::io(path, "fstat", error))?;
        let mut content = Vec::new();
        file.take(MAX_KEY).read_to_end(&mut content).map_err(|error| TrustError::io(path, "read", error))?;
        Ok(Self { content, metadata })
    }

    /// Checks that a private key cannot be read by others, by its mode or because the file is
    /// theirs; an error if it can.
    pub(crate) fn check_private(&self, path: &Path) -> Result<(), TrustError> {
        let metadata = &self.metadata;
        if metadata.mode() & 0o077 != 0 {
            return Err(TrustError::Exposed { path: path.to_owned(), mode: metadata.mode() & 0o7777 });
        }
        if !is_own(metadata) {
            let user = rustix::process::geteuid().as_raw();
            return Err(TrustError::Unsafe {
                path: path.to_owned(),
                what: format!("it belongs to user {}, who can read and exchange it", metadata.uid()),
                remedy: format!(
                    "name another file with --identity, make one with `icdc keygen --identity FILE`, or, if the key may still be trusted, {}",
                    remedy_for_owner(path, metadata.uid(), user)
                ),
            });
        }
        Ok(())
    }
}

/// Whether a file belongs to this user or to root, so that no other user can have changed its mode.
#[must_use]
pub fn is_own(metadata: &Metadata) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid())
}

/// Opens a file of settings if only root and the current user can have changed it or exchanged one
/// of the directories that lead to it.
///
/// - What others may write to counts as safe beneath a directory that they may not search: where
///   every user has a group of their own, files are often made writable for it in a closed home.
/// - In a user namespace, those outside whom it does not map have one id in common; as root is
///   among them, they count as root.
///
/// A named pipe is not waited for.
///
/// # Errors
/// The file cannot be opened, or others could have changed it.
pub fn open_settings(path: &Path) -> Result<File, TrustError> {
    let real = path.canonicalize().map_err(|error| TrustError::io(path, "realpath", error))?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(&real)
        .map_err(|error| TrustError::io(path, "open", error))?;
    let unmapped = unmapped_user();
    let mut is_closed = false;
    // From the root down, the file at the end.
    let mut parents: Vec<&Path> = real.ancestors().skip(1).collect();
    parents.reverse();
    for directory in parents {
        let metadata = directory.metadata().map_err(|error| TrustError::io(directory, "stat", error))?;
        check_owner(directory, &metadata, unmapped)?;
        if !is_closed {
            check_mode(directory, &metadata)?;
        }
        is_closed |= metadata.mode() & 0o011 == 0;
    }
    let metadata = file.metadata().map_err(|error| TrustError::io(path, "fstat", error))?;
    check_owner(&real, &metadata, unmapped)?;
    if !is_closed {
        check_mode(&real, &metadata)?;
    }
    Ok(file)
}

/// User id shown for users outside of this user namespace; `None` where every id is mapped, or that
/// cannot be read.
fn unmapped_user() -> Option<u32> {
    let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
    let maps_all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let overflow = || std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok();
    if maps_all { None } else { overflow() }
}

/// Reads a list of keys if, as sshd's `StrictModes` has it, only root and the current user can have
/// changed it or exchanged one of the directories that lead to it. Sticky directories (`/tmp`) keep
/// others from exchanging entries.
///
/// # Errors
/// See [`TrustError`].
pub(crate) fn read_list(path: &Path) -> Result<String, TrustError> {
    let real = path.canonicalize().map_err(|error| TrustError::io(path, "realpath", error))?;
    let file = File::open(&real).map_err(|error| TrustError::io(path, "open", error))?;
    check(&real, &file.metadata().map_err(|error| TrustError::io(path, "fstat", error))?)?;
    for directory in real.ancestors().skip(1) {
        let metadata = directory.metadata().map_err(|error| TrustError::io(directory, "stat", error))?;
        check(directory, &metadata)?;
    }
    let mut text = String::new();
    file.take(MAX_LIST).read_to_string(&mut text).map_err(|error| TrustError::io(path, "read", error))?;
    Ok(text)
}

/// Appends one line to a list, which is created (0600) if it is missing; returns the number of that
/// line.
pub(crate) fn append_line(path: &Path, line: &str) -> Result<usize, TrustError> {
    make_directory(path)?;
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| TrustError::io(path, "open", error))?;
    let mut present = Vec::new();
    file.read_to_end(&mut present).map_err(|error| TrustError::io(path, "read", error))?;
    let separator = if present.last().is_none_or(|&byte| byte == b'\n') { "" } else { "\n" };
    let above = present.iter().filter(|&&byte| byte == b'\n').count() + separator.len();
    // One write, so that two processes that append do not mix their lines.
    file.write_all(format!("{separator}{line}\n").as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| TrustError::io(path, "write", error))?;
    Ok(above + 1)
}

/// Checks that only root and this user can have changed the file or directory.
fn check(path: &Path, metadata: &Metadata) -> Result<(), TrustError> {
    check_owner(path, metadata, None)?;
    check_mode(path, metadata)
}

/// Checks that the file belongs to root, to this user, or to the id shown for an unmapped root.
fn check_owner(path: &Path, metadata: &Metadata, unmapped: Option<u32>) -> Result<(), TrustError> {
    let owner = metadata.uid();
    if is_own(metadata) || Some(owner) == unmapped {
        return Ok(());
    }
    let user = rustix::process::geteuid().as_raw();
    let (what, remedy) = (format!("it belongs to user {owner}"), remedy_for_owner(path, owner, user));
    Err(TrustError::Unsafe { path: path.to_owned(), what, remedy })
}

/// Remedy for an error message: what `user` can do about a file that is refused because it belongs
/// to `owner`. sudo may have left root the home of its caller, where everything rightly belongs to
/// the caller.
fn remedy_for_owner(path: &Path, owner: u32, user: u32) -> String {
    let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    if user == 0 && caller == Some(owner) {
        return "run `sudo -H`, with which root has a home of its own".to_owned();
    }
    format!("run `chown {user} {}`", path.display())
}

/// Checks that only its owner can write to the file.
fn check_mode(path: &Path, metadata: &Metadata) -> Result<(), TrustError> {
    let sticky_directory = metadata.is_dir() && metadata.mode() & 0o1000 != 0;
    if metadata.mode() & 0o022 != 0 && !sticky_directory {
        let what = format!("other users can write to it (mode {:04o})", metadata.mode() & 0o7777);
        let remedy = format!("run `chmod go-w {}`", path.display());
        return Err(TrustError::Unsafe { path: path.to_owned(), what, remedy });
    }
    Ok(())
}

/// Makes the directory of the file at `path`, and those above it, with mode 0700 where they are
/// missing.
fn make_directory(path: &Path) -> Result<(), TrustError> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|error| TrustError::io(parent, "mkdir", error)),
        _ => Ok(()),
    }
}
