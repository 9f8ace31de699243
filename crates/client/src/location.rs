//! Locations of sources and destinations: on this host, by ssh, or at a daemon.
//!
//! ```text
//! PATH                      local: no colon, a slash before the first colon, or a leading colon
//! [USER@]HOST:PATH          by ssh; HOST may be in brackets, and must be if it contains a colon
//! icdc://HOST[:PORT]/PATH   by a daemon; an IPv6 address is in brackets; PATH is literal (no %-escapes)
//! ```
//!
//! The rule for the colon is scp's (`colon()` in OpenSSH's misc.c), except that other URLs
//! (`SCHEME://…`) are refused rather than taken for hosts. A colon in a local name is written
//! `./a:b`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use thiserror::Error;

/// TCP port of the daemon unless the URL names another.
pub const DAEMON_PORT: u16 = 2633;

/// Location of a source or destination, as typed on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Path on this host.
    Local(PathBuf),
    /// Path on a host that ssh reaches.
    Ssh {
        /// `[USER@]HOST` as ssh takes it, without brackets. Not empty, does not begin with `-`.
        host: String,
        /// Path as written; relative to the home directory. `.` if nothing was written.
        path: Vec<u8>,
    },
    /// Path on a host that runs a daemon.
    Daemon {
        /// Name or address of the host, without brackets. Not empty, does not begin with `-`.
        host: String,
        /// TCP port of the daemon.
        port: u16,
        /// Absolute path as the daemon sees it; `/` if nothing was written.
        path: Vec<u8>,
    },
}

/// Reasons why an argument is not a valid location. The text is the argument, printable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LocationError {
    /// The argument is empty.
    #[error("an empty path names nothing; write . for the current directory")]
    Empty,
    /// There is no host before the colon, or after the `@`.
    #[error("{0}: the host is missing; write [USER@]HOST:PATH or icdc://HOST[:PORT]/PATH")]
    HostMissing(String),
    /// The user's name is missing (`@host:path`).
    #[error("{0}: the user is missing before the @; write USER@HOST:PATH or HOST:PATH")]
    UserMissing(String),
    /// Two colons (`HOST::PATH`), as rsync names a daemon.
    #[error(
        "{0}: two colons name a daemon of rsync; icdc's daemon is icdc://HOST/PATH, a place that ssh reaches HOST:PATH (with an \
         IPv6 address in brackets), and a name that begins with a colon HOST:./:NAME"
    )]
    DoubleColon(String),
    /// The host would be taken for an option, or cannot be a host.
    #[error(
        "{0}: the part before the colon is no host (it must not begin with '-', nor contain blanks, brackets \
         or control characters); for a local file write ./ before it"
    )]
    HostInvalid(String),
    /// There is a user in an `icdc://` URL.
    #[error(
        "{0}: icdc:// takes no user, the key in --identity tells the daemon who you are; remove the part before the @"
    )]
    DaemonUser(String),
    /// The part after the host's colon is not a valid port.
    #[error(
        "{0}: the port must be a number from 1 to 65535; write icdc://HOST:PORT/PATH, with an IPv6 address in brackets"
    )]
    Port(String),
    /// There is an opening bracket without an IPv6 address and a closing one.
    #[error("{0}: brackets must hold an IPv6 address, as in icdc://[2001:db8::1]:2633/path")]
    Brackets(String),
    /// A URL of another scheme: the argument, and what to write instead.
    #[error("{0}: {1}")]
    Scheme(String, &'static str),
}

impl Location {
    /// This location with a slash at its end, by which it means the contents of a directory and not
    /// the directory itself.
    #[must_use]
    pub fn contents(self) -> Self {
        let slashed = |mut path: Vec<u8>| {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path
        };
        match self {
            Self::Local(path) => Self::Local(OsString::from_vec(slashed(path.into_os_string().into_vec())).into()),
            Self::Ssh { host, path } => Self::Ssh { host, path: slashed(path) },
            Self::Daemon { host, port, path } => Self::Daemon { host, port, path: slashed(path) },
        }
    }

    /// Path on another host; `None` for a local location.
    #[must_use]
    pub fn path_there(&self) -> Option<&[u8]> {
        match self {
            Self::Local(_) => None,
            Self::Ssh { path, .. } | Self::Daemon { path, .. } => Some(path),
        }
    }

    /// Parses an argument of the command line.
    ///
    /// # Errors
    /// Says which part of the argument is no good and what to write instead.
    pub fn parse(argument: &OsStr) -> Result<Self, LocationError> {
        let bytes = argument.as_bytes();
        if bytes.is_empty() {
            return Err(LocationError::Empty);
        }
        let shown = || argument.to_string_lossy().escape_debug().to_string();
        match scheme(bytes) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"icdc") => {
                return daemon(rest, &shown);
            }
            Some((scheme, _)) => return Err(LocationError::Scheme(shown(), instead_of(scheme))),
            None => {}
        }
        match host_colon(bytes) {
            Some(colon) => ssh(&bytes[..colon], &bytes[colon + 1..], &shown),
            None => Ok(Self::Local(PathBuf::from(argument))),
        }
    }

    /// Whether the location is reached by ssh or at a daemon, even if that is on this host.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        !matches!(self, Self::Local(_))
    }

    /// Name or address of the host, without user and brackets; `None` for this host.
    #[must_use]
    pub fn host_name(&self) -> Option<&str> {
        match self {
            Self::Local(_) => None,
            Self::Ssh { host, .. } => Some(host.rsplit_once('@').map_or(host, |(_, name)| name)),
            Self::Daemon { host, .. } => Some(host),
        }
    }

    /// The path as it was written.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Local(path) => path.as_os_str().as_bytes(),
            Self::Ssh { path, .. } | Self::Daemon { path, .. } => path,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = String::from_utf8_lossy(self.path());
        match self {
            Self::Local(_) => write!(formatter, "{path}"),
            Self::Ssh { host, .. } => match host.rsplit_once('@') {
                Some((user, name)) => write!(formatter, "{user}@{}:{path}", Bracketed(name)),
                // Without brackets it would be a URL.
                None if path.starts_with("//") => write!(formatter, "[{host}]:{path}"),
                None => write!(formatter, "{}:{path}", Bracketed(host)),
            },
            Self::Daemon { host, port: DAEMON_PORT, .. } => write!(formatter, "icdc://{}{path}", Bracketed(host)),
            Self::Daemon { host, port, .. } => {
                write!(formatter, "icdc://{}:{port}{path}", Bracketed(host))
            }
        }
    }
}

/// Host as text for a location: in brackets if it contains a colon.
struct Bracketed<'a>(&'a str);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(formatter, "[{}]", self.0) } else { formatter.write_str(self.0) }
    }
}

/// Splits `SCHEME://REST` into scheme and rest (RFC 3986, section 3.1); `None` if it is no URL.
fn scheme(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')))?;
    let rest = bytes[end..].strip_prefix(b"://")?;
    bytes[0].is_ascii_alphabetic().then_some((&bytes[..end], rest))
}

/// Advice on what to write instead of a URL of this scheme.
fn instead_of(scheme: &[u8]) -> &'static str {
    match scheme.to_ascii_lowercase().as_slice() {
        b"rsync" => {
            "this is a daemon of rsync, which icdc does not speak to; write HOST:PATH where ssh reaches the host, or \
             icdc://HOST/PATH where icdc serve runs"
        }
        b"ssh" | b"scp" | b"sftp" => {
            "write [USER@]HOST:PATH for a host that ssh reaches, and its port as --ssh 'ssh -p PORT'"
        }
        b"gsiftp" | b"sshftp" | b"globus" => {
            "icdc does not speak to GridFTP and Globus; write HOST:PATH where ssh reaches the host, or icdc://HOST/PATH where \
             icdc serve runs"
        }
        b"http" | b"https" | b"ftp" | b"ftps" | b"s3" | b"gs" => {
            "icdc copies between file systems, not to or from web servers and object stores; write HOST:PATH, or \
             icdc://HOST/PATH"
        }
        b"file" => "write the path alone, such as /srv/data",
        _ => "this kind of URL is not known; write icdc://HOST/PATH, HOST:PATH, or ./ before the name of a local file",
    }
}

/// Position of the colon that ends a host, by scp's rule; `None` for a local path.
fn host_colon(bytes: &[u8]) -> Option<usize> {
    if bytes[0] == b':' {
        return None;
    }
    let mut bracketed = bytes[0] == b'[';
    for (index, &byte) in bytes.iter().enumerate() {
        let next = bytes.get(index + 1);
        match byte {
            b'@' if next == Some(&b'[') => bracketed = true,
            b']' if bracketed && next == Some(&b':') => return Some(index + 1),
            b':' if !bracketed => return Some(index),
            b'/' => return None,
            _ => {}
        }
    }
    None
}

/// Parses the parts before and behind the colon of a location that ssh reaches. `shown` makes the
/// argument's text for errors.
fn ssh(host: &[u8], path: &[u8], shown: &impl Fn() -> String) -> Result<Location, LocationError> {
    let host = std::str::from_utf8(host).map_err(|_| LocationError::HostInvalid(shown()))?;
    let (user, name) = match host.rsplit_once('@') {
        Some(("", _)) => return Err(LocationError::UserMissing(shown())),
        Some((user, name)) => (Some(user), name),
        None => (None, host),
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if name.is_empty() {
        return Err(LocationError::HostMissing(shown()));
    }
    if !plausible(name) || !user.is_none_or(plausible) {
        return Err(LocationError::HostInvalid(shown()));
    }
    if path.first() == Some(&b':') {
        return Err(LocationError::DoubleColon(shown()));
    }
    let host = user.map_or_else(|| name.to_owned(), |user| format!("{user}@{name}"));
    let path = if path.is_empty() { b".".to_vec() } else { path.to_vec() };
    Ok(Location::Ssh { host, path })
}

/// Parses what follows `icdc://`. `shown` makes the argument's text for errors.
fn daemon(rest: &[u8], shown: &impl Fn() -> String) -> Result<Location, LocationError> {
    let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    let authority = std::str::from_utf8(authority).map_err(|_| LocationError::HostInvalid(shown()))?;
    if authority.contains('@') {
        return Err(LocationError::DaemonUser(shown()));
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (address, after) = inner.split_once(']').ok_or_else(|| LocationError::Brackets(shown()))?;
            let bare = address.split_once('%').map_or(address, |(bare, _zone)| bare);
            if bare.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(LocationError::Brackets(shown()));
            }
            match after.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None if after.is_empty() => (address, None),
                None => return Err(LocationError::Port(shown())),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err(LocationError::HostMissing(shown()));
    }
    if !plausible(host) {
        return Err(LocationError::HostInvalid(shown()));
    }
    let port = match port {
        None => DAEMON_PORT,
        // `parse` would take a sign.
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => match digits.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(LocationError::Port(shown())),
        },
        Some(_) => return Err(LocationError::Port(shown())),
    };
    let path = if path.is_empty() { b"/".to_vec() } else { path.to_vec() };
    Ok(Location::Daemon { host: host.to_owned(), port, path })
}

/// Whether a user or host name can be passed to another program, where a leading `-` would be an
/// option. Brackets surround a name and are no part of it.
fn plausible(name: &str) -> bool {
    let is_foreign = |letter: char| letter.is_control() || letter.is_whitespace() || matches!(letter, '[' | ']');
    !name.starts_with('-') && !name.contains(is_foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Location, LocationError> {
        Location::parse(OsStr::new(text))
    }

    fn local(path: &str) -> Location {
        Location::Local(PathBuf::from(path))
    }

    fn ssh(host: &str, path: &str) -> Location {
        Location::Ssh { host: host.into(), path: path.into() }
    }

    fn daemon(host: &str, port: u16, path: &str) -> Location {
        Location::Daemon { host: host.into(), port, path: path.into() }
    }

    #[test]
    fn no_colon_or_a_slash_before_it_is_local() {
        for path in [
            "a", "a/", "/", ".", "./a:b", "/a:b", "a/b:c", ":a", "::1:a", "a@b", "[a", "[::1]", "[::1/]:a", "-a", "~/a",
        ] {
            assert_eq!(parse(path).unwrap(), local(path));
        }
    }

    #[test]
    fn a_double_colon_is_no_place() {
        for text in ["a::b", "u@a::b/c", "[::1]::b", "a::", "fe80::1:b"] {
            assert!(matches!(parse(text), Err(LocationError::DoubleColon(_))), "{text}");
        }
        assert_eq!(parse("a:./:b").unwrap(), ssh("a", "./:b"));
    }

    #[test]
    fn a_colon_before_any_slash_ends_a_host() {
        assert_eq!(parse("a:b").unwrap(), ssh("a", "b"));
        assert_eq!(parse("a:").unwrap(), ssh("a", "."));
        assert_eq!(parse("a:/").unwrap(), ssh("a", "/"));
        assert_eq!(parse("a:b:c/d").unwrap(), ssh("a", "b:c/d"));
        assert_eq!(parse("u@a:b/").unwrap(), ssh("u@a", "b/"));
        assert_eq!(parse("u@realm@a:b").unwrap(), ssh("u@realm@a", "b"));
        assert_eq!(parse("10.26.33.2:/data").unwrap(), ssh("10.26.33.2", "/data"));
        assert_eq!(parse("fe80:1:a").unwrap(), ssh("fe80", "1:a"));
        assert_eq!(parse("icdc:b").unwrap(), ssh("icdc", "b"));
        assert_eq!(parse("icdc:/b").unwrap(), ssh("icdc", "/b"));
    }

    #[test]
    fn brackets_protect_an_ipv6_address() {
        assert_eq!(parse("[::1]:a").unwrap(), ssh("::1", "a"));
        assert_eq!(parse("[fe80::1%eth0]:/a:b").unwrap(), ssh("fe80::1%eth0", "/a:b"));
        assert_eq!(parse("u@[fd26:33::2]:a").unwrap(), ssh("u@fd26:33::2", "a"));
        assert_eq!(parse("[host]:a").unwrap(), ssh("host", "a"));
    }

    #[test]
    fn a_daemon_url_has_a_default_port_and_path() {
        assert_eq!(parse("icdc://h/p/q").unwrap(), daemon("h", 2633, "/p/q"));
        assert_eq!(parse("ICDC://h/p").unwrap(), daemon("h", 2633, "/p"));
        assert_eq!(parse("icdc://h").unwrap(), daemon("h", 2633, "/"));
        assert_eq!(parse("icdc://h:7/").unwrap(), daemon("h", 7, "/"));
        assert_eq!(parse("icdc://h:65535/a b:c@d?e#f%20").unwrap(), daemon("h", 65535, "/a b:c@d?e#f%20"));
        assert_eq!(parse("icdc://[::1]:7/p").unwrap(), daemon("::1", 7, "/p"));
        assert_eq!(parse("icdc://[fe80::1%eth0]/p").unwrap(), daemon("fe80::1%eth0", 2633, "/p"));
    }

    #[test]
    fn a_host_cannot_pass_for_an_option() {
        for text in ["-oProxyCommand=id:a", "u@-o:a", "-u@h:a", "[-o]:a", "icdc://-h/a", "a b:c", "a\n:c", "a\tb@h:c"] {
            assert!(matches!(parse(text), Err(LocationError::HostInvalid(_))), "{text:?}: {:?}", parse(text));
        }
    }

    #[test]
    fn brackets_are_no_part_of_a_name() {
        for text in ["a[1]:b", "[h]x]:a", "u[@h:a", "u@[20]c@[20]h]:"] {
            assert!(matches!(parse(text), Err(LocationError::HostInvalid(_))), "{text:?}: {:?}", parse(text));
        }
    }

    #[test]
    fn broken_arguments_say_what_is_wrong() {
        assert_eq!(parse(""), Err(LocationError::Empty));
        for text in ["u@:p", "[]:p", "u@[]:p", "icdc://", "icdc:///p", "icdc://:7/p"] {
            assert_eq!(parse(text), Err(LocationError::HostMissing(text.into())));
        }
        assert_eq!(parse("@h:p"), Err(LocationError::UserMissing("@h:p".into())));
        assert_eq!(parse("icdc://u@h/p"), Err(LocationError::DaemonUser("icdc://u@h/p".into())));
        for port in ["", "0", "65536", "+7", "7x", "-1", "99999999999999999999"] {
            let text = format!("icdc://h:{port}/p");
            assert_eq!(parse(&text), Err(LocationError::Port(text.clone())));
        }
        assert_eq!(parse("icdc://[::1]7/p"), Err(LocationError::Port("icdc://[::1]7/p".into())));
        assert_eq!(parse("icdc://::1/p"), Err(LocationError::HostMissing("icdc://::1/p".into())));
        for text in ["icdc://[::1/p", "icdc://[h]/p", "icdc://[]/p"] {
            assert_eq!(parse(text), Err(LocationError::Brackets(text.into())));
        }
        for text in ["http://h/p", "s3://bucket", "ssh://h/p", "file:///p"] {
            assert!(matches!(parse(text), Err(LocationError::Scheme(shown, _)) if shown == text), "{text}");
        }
    }

    #[test]
    fn paths_are_bytes_and_hosts_are_text() {
        let raw = |bytes: &[u8]| Location::parse(OsStr::from_bytes(bytes));
        assert_eq!(raw(b"\xff/a").unwrap().path(), b"\xff/a");
        assert_eq!(raw(b"h:\xff\xfe").unwrap(), Location::Ssh { host: "h".into(), path: b"\xff\xfe".to_vec() });
        assert_eq!(raw(b"icdc://h/\xff").unwrap().path(), b"/\xff");
        assert!(matches!(raw(b"\xff:a"), Err(LocationError::HostInvalid(_))));
        assert!(matches!(raw(b"icdc://\xff/a"), Err(LocationError::HostInvalid(_))));
    }

    #[test]
    fn printing_gives_what_parses_to_the_same() {
        let local_or_ssh = ["a", "./a:b", "h:p", "u@h:p", "u@[::1]:p", "[::1]:/p", "[icdc]://h/p", "u@icdc://h/p"];
        for text in local_or_ssh.into_iter().chain(["icdc://h/p", "icdc://[::1]:7/p", "icdc://h/"]) {
            let location = parse(text).unwrap();
            assert_eq!(location.to_string(), text);
            assert_eq!(parse(&location.to_string()).unwrap(), location);
        }
    }

    #[test]
    fn the_host_name_is_what_data_connections_use() {
        assert_eq!(parse("u@[::1]:p").unwrap().host_name(), Some("::1"));
        assert_eq!(parse("h:p").unwrap().host_name(), Some("h"));
        assert_eq!(parse("icdc://h/p").unwrap().host_name(), Some("h"));
        assert_eq!(parse("p").unwrap().host_name(), None);
        assert!(!parse("p").unwrap().is_remote());
    }
}
