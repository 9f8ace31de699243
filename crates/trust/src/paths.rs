//! Default locations of a user's keys.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Default paths of one user's files, all in `$XDG_CONFIG_HOME/icdc` (`~/.config/icdc`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// File with the private key.
    pub identity: PathBuf,
    /// File with the public key, for handing out.
    pub identity_public: PathBuf,
    /// File with the keys that a daemon of this user admits.
    pub authorized_keys: PathBuf,
    /// File with the keys of daemons that this user has met.
    pub known_hosts: PathBuf,
    /// File with settings of the command line.
    pub settings: PathBuf,
}

impl Paths {
    /// Default paths by `XDG_CONFIG_HOME`, else `HOME`; `None` if neither is an absolute path.
    #[must_use]
    pub fn from_environment() -> Option<Self> {
        Self::from_variables(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME"))
    }

    /// Default paths beneath a configuration directory such as `~/.config`.
    #[must_use]
    pub fn beneath(config_home: &Path) -> Self {
        let directory = config_home.join("icdc");
        Self {
            identity: directory.join("identity"),
            identity_public: directory.join("identity.pub"),
            authorized_keys: directory.join("authorized_keys"),
            known_hosts: directory.join("known_hosts"),
            settings: directory.join("config.toml"),
        }
    }

    fn from_variables(config_home: Option<OsString>, home: Option<OsString>) -> Option<Self> {
        // The XDG base directory specification says to ignore relative paths.
        let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
        let directory = config_home.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".config")))?;
        Some(Self::beneath(&directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_home_goes_before_home_and_relative_paths_do_not_count() {
        let identity = |config: Option<&str>, home: Option<&str>| {
            Paths::from_variables(config.map(Into::into), home.map(Into::into)).map(|paths| paths.identity)
        };
        assert_eq!(identity(Some("/c"), Some("/h")), Some("/c/icdc/identity".into()));
        assert_eq!(identity(None, Some("/h")), Some("/h/.config/icdc/identity".into()));
        assert_eq!(identity(Some("c"), Some("/h")), Some("/h/.config/icdc/identity".into()));
        assert_eq!(identity(Some(""), Some("h")), None);
    }
}
