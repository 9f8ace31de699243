//! The file that remembers paths between runs: `$XDG_STATE_HOME/icdc/paths.json`, else
//! `~/.local/state/icdc/paths.json`.
//!
//! It is a convenience: whatever is wrong with it, a connection finds its rate without.
//!
//! A daemon keeps one file, its own, for all sessions, also those that act as another user: what a
//! path carries does not depend on who uses it, such users often have no home, and what a user
//! writes must not decide how fast the daemon's privileged congestion control begins. So the file
//! is read and written by the daemon itself ([`Privileges`]).

use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use icdc_rate::known_paths::{KnownPaths, Resumption};
use icdc_tcp::Privileges;

use crate::clock;
use crate::state_file::{self, own_directory};

/// Maximum size of a file that is read, in bytes: [`icdc_rate::known_paths::MOST`] paths take
/// less.
const MAX_LENGTH: u64 = 1 << 20;

/// Path of the file that remembers this user's network paths; `None` as in [`state_file::path`].
#[must_use]
pub fn file() -> Option<PathBuf> {
    state_file::path("paths.json")
}

/// Reads the known paths from `file`; empty if it does not exist.
///
/// # Errors
/// The file cannot be read, or is invalid.
pub fn read(file: &Path) -> io::Result<KnownPaths> {
    state_file::read(file, MAX_LENGTH)
}

/// Reads the known paths from `file`; empty if it cannot be read.
fn load(file: &Path) -> KnownPaths {
    state_file::read_or_default(file, MAX_LENGTH)
}

/// Changes the known paths in `file`, as [`state_file::change`] does.
///
/// # Errors
/// Those of [`state_file::change`].
pub fn change<T>(file: &Path, change: impl FnOnce(&mut KnownPaths) -> T) -> io::Result<T> {
    state_file::change(file, MAX_LENGTH, change)
}

/// Rate and round-trip time of the path of a connection that has just been made, for it to start
/// from; `None` if nothing is known, if its round-trip time is another, or within a host.
#[must_use]
pub fn resume(stream: &TcpStream, privileges: &Privileges) -> Option<Resumption> {
    let (from, to) = ends(stream)?;
    if let Some(helper) = privileges.helper() {
        return helper.known_path(stream.as_fd());
    }
    let round_trip = icdc_tcp::info(stream).ok()?.rtt;
    let now = clock::seconds_since_1970();
    let known = load(&file()?).resume(from, to, round_trip, now)?;
    tracing::debug!(%from, %to, rate = %known.rate, round_trip = %known.round_trip, "the path is known");
    Some(known)
}

/// Remembers what a connection found about its path for later connections; nothing within a host,
/// or where the file cannot be changed.
pub fn remember(stream: &TcpStream, found: Resumption, privileges: &Privileges) {
    if let Some(helper) = privileges.helper() {
        return helper.remember_path(stream.as_fd(), found);
    }
    let (Some((from, to)), Some(file)) = (ends(stream), file()) else { return };
    let now = clock::seconds_since_1970();
    if let Err(error) = change(&file, |paths| paths.remember(from, to, found, now)) {
        tracing::debug!("{}: {error}", file.display());
    }
}

/// Directory in which this process remembers what a connection finds, made if it is missing;
/// `None` where nothing is remembered of its path, or by another process.
pub(crate) fn directory(stream: &TcpStream, privileges: &Privileges) -> Option<PathBuf> {
    ends(stream).filter(|_| privileges.helper().is_none())?;
    let directory = file()?.parent()?.to_owned();
    match own_directory(&directory) {
        Ok(_) => Some(directory),
        Err(error) => {
            tracing::debug!("{}: {error}", directory.display());
            None
        }
    }
}

/// Addresses of this host and the peer; `None` for a connection within this host.
fn ends(stream: &TcpStream) -> Option<(IpAddr, IpAddr)> {
    let (from, to) = (stream.local_addr().ok()?.ip(), stream.peer_addr().ok()?.ip());
    // Within a host there is no path.
    (!to.to_canonical().is_loopback()).then(|| (from.to_canonical(), to.to_canonical()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::Duration;

    use icdc_units::{Rate, Span};
    use rustix::fs::{self, FlockOperation};

    use super::*;

    const LOCK: &str = "paths.lock";

    #[test]
    fn what_is_remembered_is_found_again_and_garbage_is_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("icdc/paths.json");
        let (from, to) = ("192.0.2.1".parse().unwrap(), "198.51.100.7".parse().unwrap());
        let found = Resumption { rate: Rate::from_bits_per_second(915_000_000), round_trip: Span::from_millis(300) };
        assert_eq!(load(&path), KnownPaths::default());
        change(&path, |paths| paths.remember(from, to, found, 1_800_000_000)).unwrap();
        assert_eq!(load(&path).resume(from, to, found.round_trip, 1_800_000_001), Some(found));
        assert_eq!(change(&path, |paths| paths.forget(|_| true)).unwrap().len(), 1);
        assert_eq!(load(&path), KnownPaths::default());
        for garbage in [&b""[..], b"[]", b"{\"paths\": 3}", &[0xff; 100]] {
            std::fs::write(&path, garbage).unwrap();
            assert_eq!(load(&path), KnownPaths::default());
            assert!(read(&path).is_err());
        }
        change(&path, |paths| paths.remember(from, to, found, 1_800_000_000)).unwrap();
        assert_eq!(load(&path).iter().count(), 1, "it mends what was broken");
    }

    fn count(path: &Path) -> usize {
        load(path).iter().count()
    }

    /// Remembers one more path, on a thread that nothing may keep.
    fn remember_one(path: &Path) -> io::Result<()> {
        let (answer, answered) = crossbeam_channel::bounded(1);
        let (path, found) = (
            path.to_owned(),
            Resumption { rate: Rate::from_bits_per_second(1_000_000), round_trip: Span::from_millis(9) },
        );
        let to = IpAddr::from([198, 51, u8::try_from(count(&path)).unwrap(), 7]);
        std::thread::spawn(move || {
            let from = "192.0.2.1".parse().unwrap();
            answer.send(change(&path, |paths| paths.remember(from, to, found, 1_800_000_000))).unwrap();
        });
        answered.recv_timeout(Duration::from_secs(60)).expect("somebody keeps it")
    }

    fn locked(path: &Path) -> File {
        let held = File::open(path).unwrap();
        fs::flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        held
    }

    #[test]
    fn a_lock_that_any_user_can_take_keeps_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("paths.json");
        let _held = locked(directory.path());
        remember_one(&path).unwrap();
        assert_eq!(count(&path), 1);
        let lock = std::fs::metadata(directory.path().join(LOCK)).unwrap();
        assert_eq!(lock.permissions().mode() & 0o777, 0o600, "others cannot take its lock");
    }

    #[test]
    fn a_process_that_is_changing_it_for_too_long_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("paths.json");
        remember_one(&path).unwrap();
        let held = locked(&directory.path().join(LOCK));
        assert_eq!(remember_one(&path).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(held);
        remember_one(&path).unwrap();
        assert_eq!(count(&path), 2);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (state, victim) = (directory.path().join("icdc"), directory.path().join("victim"));
        let path = state.join("paths.json");
        std::fs::create_dir(&state).unwrap();
        std::fs::write(&victim, "precious").unwrap();
        for name in ["paths.new", "paths.json"] {
            symlink(&victim, state.join(name)).unwrap();
        }
        remember_one(&path).unwrap();
        assert_eq!((count(&path), std::fs::read(&victim).unwrap().as_slice()), (1, &b"precious"[..]));
        std::fs::remove_file(state.join(LOCK)).unwrap();
        symlink(directory.path().join("made"), state.join(LOCK)).unwrap();
        remember_one(&path).unwrap_err();
        assert!(!directory.path().join("made").exists());
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("paths.json");
        let mode = |mode| std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        for others_may_write in [0o720, 0o702, 0o777] {
            mode(others_may_write);
            let error = remember_one(&path).unwrap_err();
            assert!(error.to_string().contains("chmod go-w"), "{error}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left there");
        }
        mode(0o755);
        remember_one(&path).unwrap();
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        if std::os::unix::fs::chown(directory.path(), Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give files away");
            return;
        }
        let path = directory.path().join("paths.json");
        let error = remember_one(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("12345"), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left there");
    }
}
