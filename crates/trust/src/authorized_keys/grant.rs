//! Rights that one line grants.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::SystemTime;

use icdc_units::{ByteCount, Rate};

use super::access::Access;
use super::sources::Sources;

/// Limits on the use of a key; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Ceiling of the rate of each session.
    pub max_rate: Option<Rate>,
    /// Sessions at a time.
    pub max_sessions: Option<NonZeroU32>,
    /// Bytes fetched and delivered on one day of UTC.
    pub bytes_per_day: Option<ByteCount>,
    /// Bytes fetched and delivered in all.
    pub quota: Option<ByteCount>,
}

/// Rights of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The only directory that the key can see; absolute.
    pub root: PathBuf,
    /// Access to that directory.
    pub access: Access,
    /// System user to act as; `None` for the user that the daemon runs as.
    pub user: Option<String>,
    /// Whether delivered files may get owners, groups and set-id bits.
    pub owners: bool,
    /// From when on it grants nothing.
    pub expires: Option<SystemTime>,
    /// Addresses that connections may come from; `None` for any.
    pub from: Option<Sources>,
    /// Limits on the use of the key.
    pub limits: Limits,
    /// Comment of the line, for logs.
    pub comment: String,
    /// Number of the line, for logs.
    pub line: usize,
}

impl Grant {
    /// Whether both lines grant the same rights: comments and line numbers are ignored.
    #[must_use]
    pub fn allows_the_same(&self, other: &Self) -> bool {
        let Self { root, access, user, owners, expires, from, limits, comment: _, line: _ } = self;
        (root, access, user, owners) == (&other.root, &other.access, &other.user, &other.owners)
            && (expires, from, limits) == (&other.expires, &other.from, &other.limits)
    }

    /// Whether it has expired at `now`, a time of the wall clock.
    #[must_use]
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    /// Whether connections may come from `address`; `None` for an unknown one.
    #[must_use]
    pub fn admits(&self, address: Option<IpAddr>) -> bool {
        self.from.as_ref().is_none_or(|from| address.is_some_and(|address| from.admit(address)))
    }
}
