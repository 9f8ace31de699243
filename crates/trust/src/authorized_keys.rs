//! `authorized_keys`: which keys a daemon admits, and to what.
//!
//! One key per line, options first, as in ssh's file of that name; OpenSSH's form of a key is the
//! same key:
//!
//! ```text
//! # options         key                      comment
//! root=/srv/in,rights=w,user=data icdc-ed25519 BASE64 someone@elsewhere
//! root="/srv/my, data"            ssh-ed25519 BASE64
//! ```
//!
//! * `root=/DIR` (required): the only directory that the key can see. Quotes allow spaces and
//!   commas; `\"` and `\\` stand for themselves within quotes.
//! * `rights=r|w|rw|drop-box` (default `r`): fetch from the root, deliver into it, both, or deliver
//!   only what is not there yet.
//! * `user=NAME` (default: the user that the daemon runs as): the system user to act as. A daemon
//!   run by root wants it said, `user=root` included, where files are written.
//! * `owner=keep` (default: neither is set): files that are delivered may get the owners, groups
//!   and set-id bits that the client asks for.
//! * `expires=2027-01-31` (00:00 UTC) or a time of RFC 3339, or OpenSSH's `expiry-time=`: from then
//!   on the line grants nothing.
//! * `from="10.0.0.0/8,!10.9.0.0/16"`: addresses that connections may come from.
//! * `max-rate=1gbit`, `max-sessions=4`, `bytes-per-day=1TB`, `quota=10TB`: how much the key may
//!   use.
//!
//! Whatever else OpenSSH has is refused rather than passed over: it would promise a restriction
//! that does not hold here.

mod access;
mod expiry;
mod grant;
mod options;
mod sources;

use std::collections::HashMap;
use std::path::Path;

pub use access::{Access, Owner};
pub use grant::{Grant, Limits};
use options::Options;
pub use sources::Sources;

use crate::{PublicKey, TrustError, safe_file};

/// Parsed `authorized_keys` file: the grant of each key that a daemon admits.
#[derive(Clone, Debug, Default)]
pub struct AuthorizedKeys {
    grants: HashMap<PublicKey, Grant>,
}

impl AuthorizedKeys {
    /// Reads a file, provided that only its owner (the current user or root) can have changed it.
    ///
    /// # Errors
    /// A file or directory above it that others can write, or the first line that cannot be read.
    pub fn load(path: &Path) -> Result<Self, TrustError> {
        Self::parse(&safe_file::read_list(path)?, path)
    }

    /// Parses the text of a file; `path` is used in errors only.
    ///
    /// # Errors
    /// The number of the first line that cannot be read, and the reason. A key that occurs twice is
    /// an error too, because one of the two grants would not count.
    pub fn parse(text: &str, path: &Path) -> Result<Self, TrustError> {
        let mut grants = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, grant) = parse_line(line, number).map_err(|what| TrustError::line(path, number, what))?;
            if grants.insert(key, grant).is_some() {
                return Err(TrustError::line(path, number, "this key has a line above already: keep one of them"));
            }
        }
        Ok(Self { grants })
    }

    /// Grant of a key; `None` if the key is not listed.
    #[must_use]
    pub fn find(&self, key: &PublicKey) -> Option<&Grant> {
        self.grants.get(key)
    }

    /// All grants, in no particular order.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values()
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.grants.len()
    }

    /// Whether the file lists no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }
}

/// Parses line number `line`: options, key and comment; the error says what is wrong with it.
fn parse_line(text: &str, line: usize) -> Result<(PublicKey, Grant), String> {
    let (options, rest) = Options::read(text)?;
    let (key, comment) = PublicKey::parse_line(rest).map_err(|error| error.to_string())?;
    Ok((key, options.grant(&key, comment, line)?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn key(seed: u8) -> PublicKey {
        PublicKey::from_bytes([seed; 32])
    }

    fn parse(text: &str) -> Result<AuthorizedKeys, TrustError> {
        AuthorizedKeys::parse(text, Path::new("/etc/keys"))
    }

    #[test]
    fn reads_options_quotes_defaults_and_comments() {
        let text = format!(
            "# heading\n\nroot=/srv/in,rights=rw,user=data,owner=keep {} someone else\r\n  root=\"/srv/my, \\\"data\\\"\" {}\n",
            key(1),
            key(2)
        );
        let keys = parse(&text).unwrap();
        let first = keys.find(&key(1)).unwrap();
        assert_eq!(first.root, Path::new("/srv/in"));
        assert_eq!(first.access, Access::ReadWrite);
        assert_eq!(first.user.as_deref(), Some("data"));
        assert!(first.owners);
        assert_eq!((first.comment.as_str(), first.line), ("someone else", 3));
        let second = keys.find(&key(2)).unwrap();
        assert_eq!(second.root, Path::new("/srv/my, \"data\""));
        assert_eq!(second.access, Access::Read);
        assert_eq!((second.user.as_deref(), second.owners, second.line), (None, false, 4));
        assert_eq!((keys.len(), keys.find(&key(3))), (2, None));
    }

    #[test]
    fn a_key_of_openssh_is_the_same_key_and_what_means_the_same_there_is_read() {
        let options = "root=/a,rights=drop-box,Expiry-Time=\"202701311800Z\",from=\"10.0.0.0/8,!10.9.0.0/16\"";
        let keys = parse(&format!("{options} {} me@home\n", key(1).ssh_line())).unwrap();
        let grant = keys.find(&key(1)).unwrap();
        assert_eq!(grant.comment, "me@home");
        assert_eq!(grant.access, Access::DropBox { owner: *key(1).as_bytes() });
        assert!(grant.access.writes() && !grant.access.reads());
        let expires = UNIX_EPOCH + Duration::from_secs(1_801_353_600 + 18 * 3600);
        assert!(grant.has_expired(expires) && !grant.has_expired(expires - Duration::from_nanos(1)));
        assert!(grant.admits("10.1.1.1".parse().ok()) && !grant.admits("10.9.1.1".parse().ok()));
        assert!(!grant.admits(None), "an address that is not known is none that is allowed");
        let twice = format!("root=/a {}\nroot=/a {}\n", key(1), key(1).ssh_line());
        assert!(parse(&twice).unwrap_err().to_string().contains("a line above"));
    }

    #[test]
    fn limits_are_read_and_each_change_of_a_line_counts() {
        let of = |options: &str| {
            let keys = parse(&format!("root=/a,rights=w{options} {}\n", key(1))).unwrap();
            keys.find(&key(1)).unwrap().clone()
        };
        let full = of(",max-rate=1gbit,max-sessions=4,bytes-per-day=1TB,quota=10TB");
        let limits = Limits {
            max_rate: icdc_schedule::limit_schedule("1gbit").ok(),
            max_sessions: 4.try_into().ok(),
            bytes_per_day: "1TB".parse().ok(),
            quota: "10TB".parse().ok(),
        };
        assert_eq!(full.limits, limits);
        assert_eq!(of("").limits, Limits::default());
        for change in [
            ",rights=rw",
            ",user=data",
            ",owner=keep",
            ",expires=2027-01-31",
            ",from=10.0.0.1",
            ",max-rate=2gbit",
            ",max-sessions=5",
            ",bytes-per-day=2TB",
            ",quota=20TB",
        ] {
            let changed = match change.strip_prefix(",rights=rw") {
                Some(_) => parse(&format!("root=/a,rights=rw {}", key(1))).unwrap().find(&key(1)).unwrap().clone(),
                None => of(change),
            };
            assert!(!changed.allows_the_same(&of("")) && changed.allows_the_same(&changed.clone()), "{change}");
        }
        let elsewhere = Grant { line: 7, comment: "other".into(), ..of("") };
        assert!(elsewhere.allows_the_same(&of("")));
    }

    #[test]
    fn every_mistake_is_refused_with_its_line() {
        let good = key(1);
        for (line, expected) in [
            (format!("{good}"), "no root= option"),
            (format!("root=srv {good}"), "absolute"),
            (format!("root=/a,rights=x {good}"), "r, w, rw or drop-box"),
            (format!("root=/a,root=/b {good}"), "twice"),
            (format!("root=/a,colour=red {good}"), "unknown option \"colour\""),
            (format!("root=/a,user= {good}"), "nobody"),
            (format!("root=/a,owner=root {good}"), "expected keep"),
            (format!("root=/a,owner=keep,owner=keep {good}"), "twice"),
            (format!("root=\"/a {good}"), "not closed"),
            (format!("root=\"/a\"b {good}"), "comma or a space"),
            (format!("root=/a, {good}"), "neither"),
            ("root=/a icdc-ed25519 AAAA".to_owned(), "instead of 32"),
            ("root=/a".to_owned(), "icdc-ed25519"),
            ("colour".to_owned(), "neither"),
            (good.ssh_line(), "no root= option"),
            ("ssh-ed25519 AAAA".to_owned(), "no Ed25519 key"),
            ("root=/a ssh-rsa AAAA me".to_owned(), "keys of type ssh-rsa"),
            ("ecdsa-sha2-nistp256 AAAA me".to_owned(), "keys of type ecdsa-sha2-nistp256"),
            (format!("restrict,root=/a {good}"), "option restrict of OpenSSH"),
            (format!("root=/a,No-PTY {good}"), "option no-pty of OpenSSH"),
            (format!("command=\"ls\",root=/a {good}"), "option command of OpenSSH"),
            (format!("root=/a,expires=soon {good}"), "2027-01-31"),
            (format!("root=/a,expiry-time=soon {good}"), "YYYYMMDD"),
            (format!("root=/a,expires=2027-01-31,expiry-time=20270131Z {good}"), "twice"),
            (format!("root=/a,from=dtn.example.org {good}"), "host names"),
            (format!("root=/a,max-rate=fast {good}"), "max-rate=fast"),
            (format!("root=/a,max-rate=0gbit {good}"), "allows nothing"),
            (format!("root=/a,max-rate=\"mon 08:00-25:00=1gbit, else=auto\" {good}"), "\"25:00\" is no time of a day"),
            (format!("root=/a,max-rate=\"mon=1gbit, mon=2gbit\" {good}"), "contradict each other"),
            (format!("root=/a,max-rate=mon=1gbit,else=auto {good}"), "stand in quotes"),
            (format!("root=/a,max-sessions=0 {good}"), "a number from 1"),
            (format!("root=/a,quota=some {good}"), "quota=some"),
            (format!("root=/a,bytes-per-day=0B {good}"), "allows nothing"),
        ] {
            let error = parse(&format!("# one\n{line}\n")).unwrap_err().to_string();
            assert!(error.starts_with("/etc/keys:2: ") && error.contains(expected), "{line}: {error}");
        }
        let twice = format!("root=/a {good}\nroot=/b {good}\n");
        assert!(parse(&twice).unwrap_err().to_string().starts_with("/etc/keys:2: "));
    }

    #[test]
    fn a_list_that_others_can_write_is_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("authorized_keys");
        fs::write(&path, format!("root=/a {}\n", key(1))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(AuthorizedKeys::load(&path).unwrap().len(), 1);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        let error = AuthorizedKeys::load(&path).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(AuthorizedKeys::load(&path), Err(TrustError::Unsafe { .. })));
    }
}
