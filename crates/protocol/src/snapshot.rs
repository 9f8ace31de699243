//! Snapshots: copies of the sources in directories of the destination that are named by time.
//!
//! A snapshot has the time at which its run began as its name, in UTC: `2026-11-27T02:00:00Z`. Until
//! it is complete, it has the name of an unfinished item. Files that are unchanged since the newest
//! complete snapshot are linked from there; the symbolic link [`LATEST`] leads to the one that was
//! completed last.
//!
//! Calendar: proleptic Gregorian, days counted from 1970-01-01 by eras of 400 years (H. Hinnant,
//! "chrono-compatible low-level date algorithms").

use serde::{Deserialize, Serialize};

/// Name of the symbolic link to the newest complete snapshot.
pub const LATEST: &[u8] = b"latest";
/// Number of seconds by which the clock of a run may be behind the newest snapshot: the run then
/// takes the second after the newest as its name.
pub const CLOCK_TOLERANCE: u64 = 60;
/// Length of a snapshot's name, in bytes.
const NAME_LENGTH: usize = 20;
const SECONDS_PER_DAY: u64 = 86_400;
/// Days in 400 years.
const ERA: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: u64 = 719_468;

/// Request to make the copy a snapshot: a directory of the destination named by time, and how many
/// older ones are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Time at which the run began.
    pub time: SnapshotTime,
    /// Number of snapshots that are kept; `None` to remove none.
    pub keep: Option<Keep>,
}

/// Time that a snapshot is named by, in whole seconds since 1970, within the years 1970 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SnapshotTime(u64);

/// Number of the latest days, weeks, months and years with snapshots of which the newest snapshot
/// is kept. At least one is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// Number of days, in UTC.
    pub days: u16,
    /// Number of weeks, which begin on Monday.
    pub weeks: u16,
    /// Number of months.
    pub months: u16,
    /// Number of years.
    pub years: u16,
}

/// Outcome of the snapshot, or of the removal of an older one, from the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SnapshotNews {
    /// The snapshot is complete and durable, and [`LATEST`] leads to it; in a dry run, it would have
    /// this name.
    Made(SnapshotTime),
    /// The snapshot has not got its name, for this reason, as a sentence for the user.
    NotMade(String),
    /// This older snapshot is removed, or would be in a dry run.
    Removed(SnapshotTime),
    /// This older snapshot could not be removed.
    Stays {
        /// Time of the snapshot.
        time: SnapshotTime,
        /// The reason, as a sentence for the user.
        reason: String,
    },
}

impl Keep {
    /// Whether any snapshot is kept by these numbers.
    #[must_use]
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}

impl SnapshotTime {
    /// The last second of the year 9999.
    const LAST: u64 = 253_402_300_799;

    /// The time of this many seconds since 1970; `None` beyond the year 9999.
    #[must_use]
    pub fn new(seconds: u64) -> Option<Self> {
        Some(Self(seconds)).filter(|time| time.is_valid())
    }

    /// Whether the numbers are those of a time that exists.
    pub(crate) fn is_valid(self) -> bool {
        self.0 <= Self::LAST
    }

    /// Seconds since 1970.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.0
    }

    /// The time one second later; `None` beyond the year 9999.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }

    /// The name of the snapshot.
    #[must_use]
    pub fn name(self) -> String {
        let (year, month, day) = date(self.0 / SECONDS_PER_DAY);
        let second = self.0 % SECONDS_PER_DAY;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// The time of the snapshot of this name; `None` for any other name.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(name).ok().filter(|text| text.len() == NAME_LENGTH && text.is_ascii())?;
        let number = |range: std::ops::Range<usize>| text[range].parse::<u64>().ok();
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        let is_date = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !is_date || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let time = Self(days(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second);
        // Signs, other separators and days that the month has not.
        (time.name() == text).then_some(time)
    }

    /// Numbers of the day, the week (from Monday on), the month and the year that the time lies in; each
    /// grows by one per period.
    #[must_use]
    pub fn periods(self) -> [u64; 4] {
        let day = self.0 / SECONDS_PER_DAY;
        let (year, month, _) = date(day);
        // 1970-01-01 was a Thursday.
        [day, (day + 3) / 7, year * 12 + month - 1, year]
    }
}

/// Year, month and day of the day of this number since 1970-01-01.
fn date(day: u64) -> (u64, u64, u64) {
    let day = day + EPOCH;
    let (era, of_era) = (day / ERA, day % ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Counted from March.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Number of a day since 1970-01-01.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year) = (year / 400, year % 400);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * ERA + year * 365 + year / 4 - year / 100 + of_year - EPOCH
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    #[test]
    fn names_and_seconds_are_those_of_date() {
        // From `date -u -d NAME +%s`.
        for (name, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-11-27T02:00:00Z", 1_795_744_800),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
            ("9999-12-31T23:59:59Z", SnapshotTime::LAST),
        ] {
            assert_eq!(SnapshotTime::new(seconds).unwrap().name(), name);
            assert_eq!(SnapshotTime::parse(name.as_bytes()).map(SnapshotTime::seconds), Some(seconds), "{name}");
        }
        assert_eq!(SnapshotTime::new(SnapshotTime::LAST).unwrap().next(), None);
    }

    #[test]
    fn every_day_has_one_name() {
        let mut before = String::new();
        for day in 0..=SnapshotTime::LAST / SECONDS_PER_DAY {
            let time = SnapshotTime(day * SECONDS_PER_DAY + day % SECONDS_PER_DAY);
            let name = time.name();
            assert!(before < name, "{name}");
            assert_eq!(SnapshotTime::parse(name.as_bytes()), Some(time));
            before = name;
        }
    }

    #[test]
    fn what_is_not_exactly_a_name_is_none() {
        for name in [
            "",
            "latest",
            "2026-11-27",
            "2026-11-27T02:00:00",
            "2026-11-27T02:00:00Z.1",
            "2026-11-27T02:00:00z",
            "2026-11-27 02:00:00Z",
            "2026-02-29T02:00:00Z",
            "2026-13-01T02:00:00Z",
            "2026-11-27T24:00:00Z",
            "2026-11-27T02:00:60Z",
            "+026-11-27T02:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-2\u{f7}T02:00:0Z",
        ] {
            assert_eq!(SnapshotTime::parse(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn weeks_begin_on_monday() {
        let week = |name: &str| SnapshotTime::parse(name.as_bytes()).unwrap().periods()[1];
        assert_eq!(week("2026-11-23T00:00:00Z"), week("2026-11-29T23:59:59Z"));
        assert_eq!(week("2026-11-29T23:59:59Z") + 1, week("2026-11-30T00:00:00Z"));
    }
}
