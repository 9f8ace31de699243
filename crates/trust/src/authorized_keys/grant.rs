//! Rights that one line grants.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::SystemTime;

use icdc_schedule::RateSchedule;
use icdc_units::ByteCount;

use super::access::Access;
use super::sources::Sources;

/// Limits on the use of a key; `None` means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum rate of all sessions together, both directions counted, by the time of the week.
    pub max_rate: Option<RateSchedule>,
    /// Maximum number of sessions at a time.
    pub max_sessions: Option<NonZeroU32>,
    /// Maximum number of bytes fetched and delivered on one day of UTC.
    pub bytes_per_day: Option<ByteCount>,
    /// Maximum number of bytes fetched and delivered in total.
    pub quota: Option<ByteCount>,
}

/// Rights that an `authorized_keys` line grants to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Absolute path of the only directory that the key can see.
    pub root: PathBuf,
    /// Access of the key in that directory.
    pub access: Access,
    /// System user to act as; `None` for the user that the daemon runs as.
    pub user: Option<String>,
    /// Whether delivered files may get owners, groups and set-id bits.
    pub owners: bool,
    /// Time from which on the line grants nothing; `None` for no expiry.
    pub expires: Option<SystemTime>,
    /// Addresses that connections may come from; `None` for any.
    pub from: Option<Sources>,
    /// Limits on the use of the key.
    pub limits: Limits,
    /// Comment of the line, for logs.
    pub comment: String,
    /// Number of the line in the file, for logs.
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

    /// Whether the grant has expired at `now`, a time of the wall clock.
    #[must_use]
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    /// Whether connections may come from `address`; an unknown one (`None`) is admitted only if the
    /// grant does not restrict addresses.
    #[must_use]
    pub fn admits(&self, address: Option<IpAddr>) -> bool {
        self.from.as_ref().is_none_or(|from| address.is_some_and(|address| from.admit(address)))
    }
}
