//! Users of a SOCKS listener, and their passwords.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use icdc_protocol::relay::socks5::Login;

/// Users of a SOCKS listener and their passwords, from a file of lines `USER:PASSWORD`.
#[derive(Default)]
pub struct Users(HashMap<Vec<u8>, Vec<u8>>);

impl Users {
    /// Reads a file that only this process's user and root can read.
    ///
    /// # Errors
    /// The problem of the file, its mode or a line.
    pub fn load(path: &Path) -> Result<Self, String> {
        use std::os::unix::fs::MetadataExt as _;
        let named = |what: String| format!("{}: {what}", path.display());
        let file = File::open(path).map_err(|error| named(error.to_string()))?;
        let metadata = file.metadata().map_err(|error| named(error.to_string()))?;
        if metadata.mode() & 0o077 != 0 {
            return Err(named(format!(
                "other users can read the passwords (mode {:04o}); run `chmod 600 {}`",
                metadata.mode() & 0o7777,
                path.display()
            )));
        }
        if !icdc_trust::is_own(&metadata) {
            let user = rustix::process::geteuid().as_raw();
            return Err(named(format!(
                "it belongs to user {}, who can read and replace the passwords; run `chown {user} {}`",
                metadata.uid(),
                path.display()
            )));
        }
        let text = std::io::read_to_string(file).map_err(|error| named(error.to_string()))?;
        Self::parse(&text).map_err(named)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut users = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, password) =
                line.split_once(':').ok_or_else(|| format!("line {number}: expected USER:PASSWORD"))?;
            if user.is_empty() || user.len() > 255 || password.len() > 255 {
                return Err(format!("line {number}: user and password have at most 255 bytes, the user one at least"));
            }
            if users.insert(user.into(), password.into()).is_some() {
                return Err(format!("line {number}: this user has a line above already"));
            }
        }
        if users.is_empty() { Err("it names no user".to_owned()) } else { Ok(Self(users)) }
    }

    /// Whether a login's name and password are right. The check takes as long for any password.
    #[must_use]
    pub fn admit(&self, login: &Login) -> bool {
        let known = self.0.get(&login.user);
        let expected = known.map_or(&[][..], Vec::as_slice);
        let differing = expected
            .iter()
            .chain(std::iter::repeat(&0))
            .zip(login.password.iter().chain(std::iter::repeat(&0)))
            .take(256)
            .fold(expected.len() ^ login.password.len(), |sum, (one, other)| sum | usize::from(one ^ other));
        known.is_some() && differing == 0
    }
}

impl std::fmt::Debug for Users {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Users({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_password_opens() {
        let users = Users::parse("# people\nanna:se:cret\nben:\n").expect("a list");
        let admit = |user: &str, password: &str| users.admit(&Login { user: user.into(), password: password.into() });
        assert!(admit("anna", "se:cret") && admit("ben", ""));
        assert!(!admit("anna", "se:cre") && !admit("anna", "se:cret\0") && !admit("ben", "x") && !admit("eve", ""));
        for text in ["", "anna", ":x", "a:1\na:2"] {
            assert!(Users::parse(text).is_err(), "{text:?}");
        }
    }
}
