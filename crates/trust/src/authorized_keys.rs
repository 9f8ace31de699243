//! `authorized_keys`: which keys a daemon admits, and to what.
//!
//! One key per line, options first, as in ssh's file of that name:
//!
//! ```text
//! # options         key                      comment
//! root=/srv/in,rights=w,user=data icdc-ed25519 BASE64 someone@elsewhere
//! root="/srv/my, data"            icdc-ed25519 BASE64
//! ```
//!
//! * `root=/DIR` (required): the only directory that the key can see. Quotes allow spaces and
//!   commas; `\"` and `\\` stand for themselves within quotes.
//! * `rights=r|w|rw` (default `r`): fetch from the root, deliver into it, or both.
//! * `user=NAME` (default: the user that the daemon runs as): the system user to act as. A daemon
//!   run by root wants it said, `user=root` included, where files are written.
//! * `owner=keep` (default: neither is set): files that are delivered may get the owners, groups
//!   and set-id bits that the client asks for.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::public_key::KEY_TYPE;
use crate::{PublicKey, TrustError, safe_file};

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Fetch files.
    pub read: bool,
    /// Deliver files.
    pub write: bool,
}

impl Rights {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "r" => Some(Self { read: true, write: false }),
            "w" => Some(Self { read: false, write: true }),
            "rw" | "wr" => Some(Self { read: true, write: true }),
            _ => None,
        }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.read, self.write) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, true) => "w",
            (false, false) => "none",
        })
    }
}

/// What one key is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The only directory that the key can see; absolute.
    pub root: PathBuf,
    /// What it may do there.
    pub rights: Rights,
    /// System user to act as; `None` for the user that the daemon runs as.
    pub user: Option<String>,
    /// Whether delivered files may get owners, groups and set-id bits.
    pub owners: bool,
    /// Comment of the line, for logs.
    pub comment: String,
    /// Number of the line, for logs.
    pub line: usize,
}

impl Grant {
    /// Whether both lines allow the same: comments and places in the file do not count.
    #[must_use]
    pub fn allows_the_same(&self, other: &Self) -> bool {
        let Self { root, rights, user, owners, comment: _, line: _ } = self;
        (root, rights, user, owners) == (&other.root, &other.rights, &other.user, &other.owners)
    }
}

/// All grants by key.
#[derive(Clone, Debug, Default)]
pub struct AuthorizedKeys {
    grants: HashMap<PublicKey, Grant>,
}

impl AuthorizedKeys {
    /// Reads a file, provided that nobody but its owner (the current user or root) can have changed
    /// it.
    ///
    /// # Errors
    /// A file or directory above it that others can write, or the first line that cannot be read.
    pub fn load(path: &Path) -> Result<Self, TrustError> {
        Self::parse(&safe_file::read_list(path)?, path)
    }

    /// Parses the text of a file; `path` is only for the errors.
    ///
    /// # Errors
    /// The number of the first line that cannot be read, and why. A key that stands there twice is
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

    /// The grant of a key, if it has one.
    #[must_use]
    pub fn find(&self, key: &PublicKey) -> Option<&Grant> {
        self.grants.get(key)
    }

    /// All grants, in no order.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.values()
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.grants.len()
    }

    /// Whether nobody is admitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }
}

fn parse_line(text: &str, line: usize) -> Result<(PublicKey, Grant), String> {
    let (options, rest) = split_options(text)?;
    let (key, comment) = PublicKey::parse_line(rest).map_err(|error| error.to_string())?;
    let mut root = None;
    let mut rights = None;
    let mut user = None;
    let mut owners = None;
    for (name, value) in options {
        let again = match name.as_str() {
            "root" if Path::new(&value).is_absolute() => root.replace(PathBuf::from(value)).is_some(),
            "root" => return Err(format!("root={value} is not an absolute path")),
            "rights" => {
                let parsed = Rights::parse(&value).ok_or_else(|| format!("rights={value}: expected r, w or rw"))?;
                rights.replace(parsed).is_some()
            }
            "user" if !value.is_empty() => user.replace(value).is_some(),
            "user" => return Err("user= names nobody".into()),
            "owner" if value == "keep" => owners.replace(true).is_some(),
            "owner" => return Err(format!("owner={value}: expected keep, or no such option")),
            _ => return Err(format!("unknown option {name:?}: expected root=, rights=, user= or owner=")),
        };
        if again {
            return Err(format!("option {name} stands there twice"));
        }
    }
    let root = root.ok_or("no root= option: say which directory the key may see, for example root=/srv/icdc")?;
    let rights = rights.unwrap_or(Rights { read: true, write: false });
    let owners = owners.unwrap_or(false);
    Ok((key, Grant { root, rights, user, owners, comment: comment.to_owned(), line }))
}

/// An option as written: name and value without quotes.
type NameValue = (String, String);

/// Splits `name=value,name="va lue" rest` into the options and the rest of the line.
fn split_options(line: &str) -> Result<(Vec<NameValue>, &str), String> {
    let mut options = Vec::new();
    let mut rest = line;
    if rest.split_whitespace().next() == Some(KEY_TYPE) {
        return Ok((options, rest));
    }
    loop {
        let end = rest.find(|c: char| c == '=' || c == ',' || c.is_whitespace()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let Some(after) = after.strip_prefix('=') else {
            return Err(format!("{name:?} is neither NAME=VALUE nor `{KEY_TYPE}`"));
        };
        let (value, after) = split_value(after)?;
        options.push((name.to_owned(), value));
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() || after.starts_with(char::is_whitespace) => return Ok((options, after)),
            None => return Err(format!("expected a comma or a space after the value of {name}")),
        }
    }
}

fn split_value(text: &str) -> Result<(String, &str), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(text.len());
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                _ => return Err("a backslash within quotes stands before \" or \\ only".into()),
            },
            other => value.push(other),
        }
    }
    Err("a quote is not closed".into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

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
        assert_eq!(first.rights, Rights { read: true, write: true });
        assert_eq!(first.user.as_deref(), Some("data"));
        assert!(first.owners);
        assert_eq!((first.comment.as_str(), first.line), ("someone else", 3));
        let second = keys.find(&key(2)).unwrap();
        assert_eq!(second.root, Path::new("/srv/my, \"data\""));
        assert_eq!(second.rights, Rights { read: true, write: false });
        assert_eq!((second.user.as_deref(), second.owners, second.line), (None, false, 4));
        assert_eq!((keys.len(), keys.find(&key(3))), (2, None));
    }

    #[test]
    fn every_mistake_is_refused_with_its_line() {
        let good = key(1);
        for (line, expected) in [
            (format!("{good}"), "no root= option"),
            (format!("root=srv {good}"), "absolute"),
            (format!("root=/a,rights=x {good}"), "r, w or rw"),
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
            ("ssh-ed25519 AAAA".to_owned(), "neither"),
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
