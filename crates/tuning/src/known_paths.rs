//! The file that remembers paths between runs: `$XDG_STATE_HOME/icdc/paths.json`, else
//! `~/.local/state/icdc/paths.json`.
//!
//! It is a convenience: whatever is wrong with it, a connection finds its rate without.
//!
//! A daemon keeps one file, its own, for all sessions, also those that act as another user: what a
//! path carries does not depend on who uses it, such users often have no home, and what a user
//! writes must not decide how fast the daemon's privileged congestion control begins. So the file
//! is read and written with the daemon's rights (`own_rights`); what goes into it comes from the
//! kernel alone.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use icdc_rate::known_paths::{KnownPaths, Resumption};
use rustix::fs::FlockOperation;

use crate::{clock, own_rights};

/// Longest file that is read: [`icdc_rate::known_paths::MOST`] paths take less.
const MAX_LENGTH: u64 = 1 << 20;

/// Where the paths of this user are remembered; `None` without a home.
#[must_use]
pub fn file() -> Option<PathBuf> {
    // The XDG base directory specification says to ignore relative paths.
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("icdc/paths.json"))
}

/// What is remembered in `file`; nothing if it is not there.
///
/// # Errors
/// What the file system says, or that it makes no sense.
pub fn read(file: &Path) -> io::Result<KnownPaths> {
    let mut bytes = Vec::new();
    match File::open(file) {
        Ok(open) => io::Read::read_to_end(&mut io::Read::take(open, MAX_LENGTH), &mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KnownPaths::default()),
        Err(error) => return Err(error),
    };
    Ok(serde_json::from_slice(&bytes)?)
}

/// What is remembered in `file`; nothing if it cannot be read.
fn load(file: &Path) -> KnownPaths {
    read(file).unwrap_or_else(|error| {
        tracing::debug!("{}: {error}", file.display());
        KnownPaths::default()
    })
}

/// Changes what is remembered in `file`, which is made if it is missing, and anew if it makes no
/// sense; two processes do so one after the other.
///
/// # Errors
/// What the file system says.
pub fn change<T>(file: &Path, change: impl FnOnce(&mut KnownPaths) -> T) -> io::Result<T> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let lock = File::open(directory)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let mut paths = load(file);
    let outcome = change(&mut paths);
    let aside = file.with_extension("new");
    let mut new = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    new.write_all(&serde_json::to_vec_pretty(&paths)?)?;
    std::fs::rename(&aside, file)?;
    Ok(outcome)
}

/// What a connection may start from that has just been made.
#[must_use]
pub fn resume(stream: &TcpStream) -> Option<Resumption> {
    let (from, to) = ends(stream)?;
    let round_trip = icdc_tcp::info(stream).ok()?.rtt;
    let now = clock::seconds_since_1970();
    let known = own_rights::run(move || load(&file()?).resume(from, to, round_trip, now))??;
    tracing::debug!(%from, %to, rate = %known.rate, round_trip = %known.round_trip, "the path is known");
    Some(known)
}

/// Remembers what a connection found.
pub(crate) fn remember(stream: &TcpStream, found: Resumption) {
    let Some((from, to)) = ends(stream) else { return };
    let now = clock::seconds_since_1970();
    own_rights::run(move || {
        let Some(file) = file() else { return };
        if let Err(error) = change(&file, |paths| paths.remember(from, to, found, now)) {
            tracing::debug!("{}: {error}", file.display());
        }
    });
}

fn ends(stream: &TcpStream) -> Option<(IpAddr, IpAddr)> {
    let (from, to) = (stream.local_addr().ok()?.ip(), stream.peer_addr().ok()?.ip());
    // Within a host there is no path.
    (!to.to_canonical().is_loopback()).then(|| (from.to_canonical(), to.to_canonical()))
}

#[cfg(test)]
mod tests {
    use icdc_units::{Rate, Span};

    use super::*;

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
}
