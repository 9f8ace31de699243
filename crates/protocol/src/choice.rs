//! Choice of what is copied of the sources.

use icdc_filter::Rule;
use icdc_units::ByteCount;
use serde::{Deserialize, Serialize};

/// Choice of what of the sources is copied; the default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Rules over paths; the first that matches decides.
    pub rules: Vec<Rule>,
    /// Size below which regular files are left out.
    pub min_size: Option<ByteCount>,
    /// Size above which regular files are left out.
    pub max_size: Option<ByteCount>,
    /// Time stamp: regular files that were modified then or earlier are left out.
    pub newer_than: Option<TimeStamp>,
    /// Time stamp: regular files that were modified then or later are left out.
    pub older_than: Option<TimeStamp>,
    /// Whether directories on other file systems than their source are copied without what is in
    /// them.
    pub one_file_system: bool,
    /// Whether directories that are marked as caches are copied without what is in them, but for
    /// the mark.
    pub exclude_caches: bool,
}

/// A time of the calendar, as file systems note it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TimeStamp {
    /// Seconds since 1970, also negative.
    pub seconds: i64,
    /// Nanoseconds within the second, less than 10⁹.
    pub nanos: u32,
}
