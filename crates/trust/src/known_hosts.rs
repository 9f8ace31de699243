//! `known_hosts`: the keys of daemons that a user has met.
//!
//! Lines of `HOST[:PORT] icdc-ed25519 BASE64 [comment]`; IPv6 addresses in brackets
//! (`[2001:db8::1]:2633`); names are compared without regard to case. A host may have several
//! lines, any of which will do, so that a key can be introduced before the old one is retired.

use std::io;
use std::path::{Path, PathBuf};

use crate::{PublicKey, TrustError, safe_file};

/// Default TCP port of a daemon.
pub const DEFAULT_PORT: u16 = 2633;

/// Result of checking a host's key against the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKey {
    /// The list has this key for this host.
    Known,
    /// The list does not have the host.
    Unknown,
    /// The list has another key for the host: it was reinstalled, or the connection is
    /// intercepted.
    Changed {
        /// First line of the file that names the host with another key.
        line: usize,
    },
}

/// Parsed `known_hosts` file: the list of hosts and their keys.
#[derive(Clone, Debug)]
pub struct KnownHosts {
    path: PathBuf,
    entries: Vec<KnownHost>,
}

/// Line of the file: a host and port, and one key that it may have.
#[derive(Clone, Debug)]
struct KnownHost {
    line: usize,
    host: String,
    port: u16,
    key: PublicKey,
}

impl KnownHosts {
    /// Reads a file; a missing one is an empty list.
    ///
    /// # Errors
    /// As [`AuthorizedKeys::load`](crate::AuthorizedKeys::load).
    pub fn load(path: &Path) -> Result<Self, TrustError> {
        match safe_file::read_list(path) {
            Ok(text) => Self::parse(&text, path),
            Err(TrustError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Self::parse("", path),
            Err(error) => Err(error),
        }
    }

    /// Parses the text of a file that [`KnownHosts::append`] will append to.
    ///
    /// # Errors
    /// The number of the first line that cannot be read, and why.
    pub fn parse(text: &str, path: &Path) -> Result<Self, TrustError> {
        let mut entries = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let wrong = |what: String| TrustError::line(path, line, what);
            let (place, key) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
            let (host, port) = parse_place(place)
                .ok_or_else(|| wrong(format!("{place:?} is not HOST, HOST:PORT or [ADDRESS]:PORT")))?;
            let key = key.parse().map_err(|error: TrustError| wrong(error.to_string()))?;
            entries.push(KnownHost { line, host, port, key });
        }
        Ok(Self { path: path.to_owned(), entries })
    }

    /// Checks this key of a host (without brackets) and port against the list.
    #[must_use]
    pub fn check(&self, host: &str, port: u16, key: &PublicKey) -> HostKey {
        let here = || self.entries.iter().filter(|entry| entry.port == port && entry.host.eq_ignore_ascii_case(host));
        match here().next() {
            None => HostKey::Unknown,
            Some(_) if here().any(|entry| entry.key == *key) => HostKey::Known,
            Some(first) => HostKey::Changed { line: first.line },
        }
    }

    /// Remembers a key, here and in the file, which is created with mode 0600 if it is missing.
    ///
    /// # Errors
    /// The system call that failed, or a host that cannot stand in the file.
    pub fn append(&mut self, host: &str, port: u16, key: &PublicKey) -> Result<(), TrustError> {
        let place = format_place(host, port);
        if parse_place(&place) != Some((host.to_owned(), port)) || place.starts_with('#') {
            let what = format!("{host:?} cannot be remembered as the name of a host");
            return Err(TrustError::line(&self.path, 0, what));
        }
        let line = safe_file::append_line(&self.path, &format!("{place} {key}"))?;
        self.entries.push(KnownHost { line, host: host.to_owned(), port, key: *key });
        Ok(())
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Parses `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT` to host and port; `None` for
/// anything else.
fn parse_place(place: &str) -> Option<(String, u16)> {
    if place.contains(char::is_whitespace) {
        return None;
    }
    let (host, port) = if let Some(bracketed) = place.strip_prefix('[') {
        bracketed.split_once(']')?
    } else {
        let end = place.find(':').unwrap_or(place.len());
        place.split_at(end)
    };
    let port = match port.strip_prefix(':') {
        Some(digits) => digits.parse().ok()?,
        None if port.is_empty() => DEFAULT_PORT,
        None => return None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Host and port as a line of the file has them: the default port is left out, except behind an
/// IPv6 address.
fn format_place(host: &str, port: u16) -> String {
    match (host.contains(':'), port) {
        (false, DEFAULT_PORT) => host.to_owned(),
        (false, port) => format!("{host}:{port}"),
        (true, port) => format!("[{host}]:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn key(seed: u8) -> PublicKey {
        PublicKey::from_bytes([seed; 32])
    }

    #[test]
    fn tells_known_unknown_and_changed_apart() {
        let text = format!("# hosts\nexample.org {}\nexample.org:99 {} note\n[::1]:7 {}\n", key(1), key(2), key(3));
        let hosts = KnownHosts::parse(&text, Path::new("/k")).unwrap();
        assert_eq!(hosts.check("Example.ORG", DEFAULT_PORT, &key(1)), HostKey::Known);
        assert_eq!(hosts.check("example.org", DEFAULT_PORT, &key(2)), HostKey::Changed { line: 2 });
        assert_eq!(hosts.check("example.org", 99, &key(2)), HostKey::Known);
        assert_eq!(hosts.check("example.org", 98, &key(2)), HostKey::Unknown);
        assert_eq!(hosts.check("::1", 7, &key(3)), HostKey::Known);
        assert_eq!(hosts.check("::1", 7, &key(4)), HostKey::Changed { line: 4 });
        assert_eq!(hosts.check("other", DEFAULT_PORT, &key(1)), HostKey::Unknown);
    }

    #[test]
    fn any_of_several_keys_of_a_host_will_do() {
        let text = format!("h {}\nh {}\n", key(1), key(2));
        let hosts = KnownHosts::parse(&text, Path::new("/k")).unwrap();
        assert_eq!(hosts.check("h", DEFAULT_PORT, &key(2)), HostKey::Known);
        assert_eq!(hosts.check("h", DEFAULT_PORT, &key(3)), HostKey::Changed { line: 1 });
    }

    #[test]
    fn what_is_appended_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("icdc/known_hosts");
        let mut hosts = KnownHosts::load(&path).unwrap();
        for (host, port, seed) in [("a.example", DEFAULT_PORT, 1), ("a.example", 1, 2), ("2001:db8::1", 2, 3)] {
            assert_eq!(hosts.check(host, port, &key(seed)), HostKey::Unknown);
            hosts.append(host, port, &key(seed)).unwrap();
            assert_eq!(hosts.check(host, port, &key(seed)), HostKey::Known);
            assert_eq!(hosts.check(host, port, &key(99)), HostKey::Changed { line: usize::from(seed) });
            assert_eq!(KnownHosts::load(&path).unwrap().check(host, port, &key(seed)), HostKey::Known);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn appending_after_a_last_line_without_its_end_keeps_both() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known_hosts");
        fs::write(&path, format!("first {}", key(1))).unwrap();
        KnownHosts::load(&path).unwrap().append("second", DEFAULT_PORT, &key(2)).unwrap();
        let hosts = KnownHosts::load(&path).unwrap();
        assert_eq!(hosts.check("first", DEFAULT_PORT, &key(1)), HostKey::Known);
        assert_eq!(hosts.check("second", DEFAULT_PORT, &key(2)), HostKey::Known);
    }

    #[test]
    fn refuses_lines_and_hosts_that_make_no_sense() {
        for place in [":1", "h:", "h:x", "h:70000", "[::1", "[::1]7", "a:b:1"] {
            let text = format!("{place} {}\n", key(1));
            assert!(KnownHosts::parse(&text, Path::new("/k")).is_err(), "{place}");
        }
        let directory = tempfile::tempdir().unwrap();
        let mut hosts = KnownHosts::load(&directory.path().join("k")).unwrap();
        for host in ["", "a b", "a\nb", "#a", "a]:b"] {
            assert!(hosts.append(host, 1, &key(1)).is_err(), "{host:?}");
        }
    }
}
