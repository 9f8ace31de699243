//! Bytes that each standing key has moved: on the present day of UTC, and in all. Without I/O: time
//! is passed in, and who keeps it between runs of the daemon is told what to write. Several daemons
//! may count at a time, as when one ends with its last session and the next has begun: each adds
//! what it has counted to what the others have kept.
//!
//! The wall clock says which day it is. When it is set to another day, that day begins with nothing
//! moved; what was moved in all stays.

use std::collections::HashMap;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use icdc_trust::{Limits, PublicKey};
use icdc_units::ByteCount;
use serde::{Deserialize, Serialize};

/// Most keys whose usage is known; of more, those that have moved nothing for longest are
/// forgotten.
const MAX_KEYS: usize = 16 << 10;
/// Version of the stored form.
const VERSION: u32 = 1;
const SECONDS_PER_DAY: u64 = 24 * 3600;

/// Bytes that each standing key has moved: on the present day in UTC, and in all.
#[derive(Default)]
pub(crate) struct Usage {
    keys: HashMap<PublicKey, Moved>,
    /// The part of the usage that is not stored yet.
    unkept: HashMap<PublicKey, Moved>,
}

/// Bytes that one key has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    in_all: ByteCount,
    /// Day of `on_that_day`, in days since 1970.
    day: u64,
    on_that_day: ByteCount,
}

/// Bytes that a key may still move, with the limit that is tightest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) bytes: ByteCount,
    limit: Limit,
}

/// A limit on bytes, as it stands in `authorized_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// Most bytes on one day in UTC.
    Daily(ByteCount),
    /// Most bytes in all.
    Quota(ByteCount),
}

impl Left {
    /// The sentence for a client that may move no more.
    pub(super) fn used_up(self) -> String {
        let remedy = match self.limit {
            Limit::Daily(_) => "the limit is renewed at 00:00 UTC",
            Limit::Quota(_) => "ask the daemon's operator",
        };
        format!("this key has used up the bytes that it may transfer ({}); {remedy}", self.limit)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Daily(most) => write!(f, "bytes-per-day={most}"),
            Self::Quota(most) => write!(f, "quota={most}"),
        }
    }
}

/// Part of the usage that a write to the file adds; given back if that write fails.
pub(crate) struct Unkept(HashMap<PublicKey, Moved>);

/// Stored form of the usage, as JSON.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    keys: Vec<KeptKey>,
}

/// Usage of one key in the stored form: bytes in all, and bytes on `day`, in days since 1970.
#[derive(Serialize, Deserialize)]
struct KeptKey {
    key: String,
    bytes: u64,
    day: u64,
    bytes_on_day: u64,
}

impl Usage {
    /// Bytes that the tighter of these limits leaves to a key; `None` without a limit.
    pub(super) fn left(&self, key: &PublicKey, limits: &Limits, now: SystemTime) -> Option<Left> {
        let moved = self.keys.get(key).copied().unwrap_or_default();
        let today = if moved.day == day(now) { moved.on_that_day } else { ByteCount::ZERO };
        let of_day = limits.bytes_per_day.map(|most| Left { bytes: most - today, limit: Limit::Daily(most) });
        let of_quota = limits.quota.map(|most| Left { bytes: most - moved.in_all, limit: Limit::Quota(most) });
        [of_quota, of_day].into_iter().flatten().min_by_key(|left| left.bytes)
    }

    /// Counts `bytes` that a key has moved, towards its daily limit and its quota.
    pub(crate) fn add(&mut self, key: &PublicKey, bytes: ByteCount, now: SystemTime) {
        if bytes == ByteCount::ZERO {
            return;
        }
        self.make_room(key);
        let more = Moved { in_all: bytes, day: day(now), on_that_day: bytes };
        self.keys.entry(*key).or_default().add(more, more.day);
        self.unkept.entry(*key).or_default().add(more, more.day);
    }

    /// Forgets the oldest keys until there is room for this one, if it is new.
    fn make_room(&mut self, key: &PublicKey) {
        while self.keys.len() >= MAX_KEYS && !self.keys.contains_key(key) {
            let Some(oldest) = self.keys.iter().min_by_key(|(_, moved)| moved.day).map(|(key, _)| *key) else { return };
            self.keys.remove(&oldest);
            self.unkept.remove(&oldest);
        }
    }

    /// Whether something was counted that is not stored.
    pub(crate) fn is_changed(&self) -> bool {
        !self.unkept.is_empty()
    }

    /// Replaces the usage by the stored one, to which other daemons may have added, plus what this
    /// daemon has counted and not stored yet.
    pub(crate) fn learn(&mut self, kept: Self, now: SystemTime) {
        for (key, more) in std::mem::replace(self, kept).unkept {
            self.make_room(&key);
            self.keys.entry(key).or_default().add(more, day(now));
            self.unkept.insert(key, more);
        }
    }

    /// The usage to be stored as JSON, and the part of it that was not stored yet. It counts as
    /// stored until it is given back.
    pub(crate) fn take_unkept(&mut self) -> (Vec<u8>, Unkept) {
        let keys = self.keys.iter().map(|(key, moved)| KeptKey {
            key: key.to_string(),
            bytes: moved.in_all.as_u64(),
            day: moved.day,
            bytes_on_day: moved.on_that_day.as_u64(),
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort_by(|one, other| one.key.cmp(&other.key));
        // Plain data.
        let text = serde_json::to_vec_pretty(&Kept { version: VERSION, keys }).unwrap_or_default();
        (text, Unkept(std::mem::take(&mut self.unkept)))
    }

    /// Takes back the part of the usage that could not be stored.
    pub(crate) fn give_back(&mut self, Unkept(unkept): Unkept, now: SystemTime) {
        for (key, more) in unkept {
            if self.keys.contains_key(&key) {
                let newer = self.unkept.insert(key, more);
                newer.into_iter().for_each(|newer| self.unkept.entry(key).or_default().add(newer, day(now)));
            }
        }
    }

    /// Parses the stored form.
    ///
    /// # Errors
    /// The reason for which it makes no sense.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let kept: Kept = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if kept.version != VERSION {
            return Err(format!("it is of version {}, and this release knows version {VERSION}", kept.version));
        }
        if kept.keys.len() > MAX_KEYS {
            return Err(format!("it has {} keys, more than the {MAX_KEYS} that are kept", kept.keys.len()));
        }
        let mut keys = HashMap::new();
        for KeptKey { key, bytes, day, bytes_on_day } in kept.keys {
            let key = key.parse().map_err(|error: icdc_trust::TrustError| error.to_string())?;
            let moved = Moved { in_all: ByteCount::new(bytes), day, on_that_day: ByteCount::new(bytes_on_day) };
            keys.insert(key, moved);
        }
        Ok(Self { keys, unkept: HashMap::new() })
    }
}

impl Moved {
    /// Adds what was moved besides. Of two days, `today` counts, else the later one: what the
    /// daemon before this one counts late, of the day before, does not renew the day that has begun
    /// since.
    fn add(&mut self, other: Self, today: u64) {
        let sum = |one: ByteCount, other: ByteCount| ByteCount::new(one.as_u64().saturating_add(other.as_u64()));
        let in_all = sum(self.in_all, other.in_all);
        let (day, on_that_day) = if self.day == other.day {
            (self.day, sum(self.on_that_day, other.on_that_day))
        } else {
            let counts = std::cmp::max_by_key(*self, other, |moved| (moved.day == today, moved.day));
            (counts.day, counts.on_that_day)
        };
        *self = Self { in_all, day, on_that_day };
    }
}

/// The day of this time in UTC, as days since 1970.
fn day(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / SECONDS_PER_DAY)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(number: u16) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_le_bytes());
        PublicKey::from_bytes(bytes)
    }

    fn at(day: u64, second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(day * SECONDS_PER_DAY + second)
    }

    fn limits(per_day: Option<u64>, quota: Option<u64>) -> Limits {
        let bytes = |number: Option<u64>| number.map(ByteCount::new);
        Limits { bytes_per_day: bytes(per_day), quota: bytes(quota), ..Limits::default() }
    }

    fn bytes(left: Option<Left>) -> Option<u64> {
        left.map(|left| left.bytes.as_u64())
    }

    #[test]
    fn what_is_counted_late_of_the_day_before_does_not_renew_the_day() {
        let (mut ending, mut next) = (Usage::default(), Usage::default());
        let both = limits(Some(100), Some(1000));
        ending.add(&key(1), ByteCount::new(30), at(5, 86_399));
        next.add(&key(1), ByteCount::new(100), at(6, 0));
        let kept = Usage::parse(&next.take_unkept().0).unwrap();
        ending.learn(kept, at(6, 1));
        let read = Usage::parse(&ending.take_unkept().0).unwrap();
        next.learn(read, at(6, 1));
        for usage in [&ending, &next] {
            assert_eq!(bytes(usage.left(&key(1), &both, at(6, 1))), Some(0));
            assert_eq!(bytes(usage.left(&key(1), &limits(None, Some(1000)), at(6, 1))), Some(870));
        }
        // What another daemon counted on a day that has not come, by a clock that was wrong, does
        // not count today.
        let mut ahead = Usage::default();
        ahead.add(&key(2), ByteCount::new(1), at(9, 0));
        let kept = Usage::parse(&ahead.take_unkept().0).unwrap();
        next.add(&key(2), ByteCount::new(100), at(6, 2));
        next.learn(kept, at(6, 2));
        assert_eq!(bytes(next.left(&key(2), &both, at(6, 2))), Some(0));
    }

    #[test]
    fn a_day_begins_anew_at_midnight_in_utc_and_the_quota_does_not() {
        let mut usage = Usage::default();
        let (daily, in_all, both) = (limits(Some(100), None), limits(None, Some(250)), limits(Some(100), Some(250)));
        let left =
            |usage: &Usage, limits: &Limits, now| usage.left(&key(1), limits, now).map(|left| left.bytes.as_u64());
        assert_eq!(left(&usage, &Limits::default(), at(5, 0)), None);
        assert_eq!(left(&usage, &both, at(5, 0)), Some(100));
        usage.add(&key(1), ByteCount::new(60), at(5, 0));
        usage.add(&key(1), ByteCount::new(60), at(5, 86_399));
        assert_eq!(left(&usage, &daily, at(5, 86_399)), Some(0));
        assert_eq!(left(&usage, &daily, at(6, 0)), Some(100));
        assert_eq!(left(&usage, &in_all, at(6, 0)), Some(130));
        usage.add(&key(1), ByteCount::new(90), at(6, 0));
        assert_eq!(left(&usage, &both, at(6, 1)), Some(10));
        usage.add(&key(1), ByteCount::new(u64::MAX), at(6, 1));
        assert_eq!(left(&usage, &both, at(7, 0)), Some(0));
        assert_eq!(bytes(usage.left(&key(2), &both, at(6, 1))), Some(100), "each key has its own");
        // A clock that is set begins another day, and cannot undo the quota.
        assert_eq!(left(&usage, &daily, at(2, 0)), Some(100));
        assert_eq!(left(&usage, &in_all, at(2, 0)), Some(0));
    }

    #[test]
    fn what_is_kept_is_read_again_and_nonsense_is_told() {
        let mut usage = Usage::default();
        assert!(!usage.is_changed(), "nothing is known");
        usage.add(&key(1), ByteCount::new(70), at(5, 0));
        let (text, unkept) = usage.take_unkept();
        assert!(!usage.is_changed(), "it is kept");
        let read = Usage::parse(&text).unwrap();
        assert_eq!(read.keys, usage.keys);
        assert_eq!(bytes(read.left(&key(1), &limits(Some(100), None), at(5, 9))), Some(30));
        for text in ["", "{}", "[1]", "{\"version\":9,\"keys\":[]}", &format!("{{\"version\":1,\"keys\":{}}}", "[7]")] {
            assert!(Usage::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Usage::parse(&text[..text.len() / 2]).is_err());
        usage.add(&key(1), ByteCount::new(7), at(5, 1));
        usage.give_back(unkept, at(5, 1));
        assert!(usage.is_changed(), "it could not be kept");
        usage.learn(Usage::default(), at(5, 1));
        assert_eq!(bytes(usage.left(&key(1), &limits(Some(100), None), at(5, 9))), Some(23));
    }

    #[test]
    fn what_several_daemons_count_adds_up() {
        let mut kept = Vec::new();
        let mut daemons = [Usage::default(), Usage::default()];
        let per_day = limits(Some(1000), None);
        for round in 0..10 {
            for (number, daemon) in daemons.iter_mut().enumerate() {
                if !kept.is_empty() {
                    daemon.learn(Usage::parse(&kept).unwrap(), at(5, round));
                }
                daemon.add(&key(1), ByteCount::new(if number == 0 { 5 } else { 2 }), at(5, round));
                kept = daemon.take_unkept().0;
            }
        }
        let read = Usage::parse(&kept).unwrap();
        assert_eq!(bytes(read.left(&key(1), &per_day, at(5, 9))), Some(1000 - 70));
        daemons[0].add(&key(1), ByteCount::new(9), at(6, 0));
        daemons[0].learn(read, at(6, 0));
        assert_eq!(bytes(daemons[0].left(&key(1), &per_day, at(6, 0))), Some(991), "another day has begun");
    }

    #[test]
    fn those_that_have_moved_nothing_for_longest_are_forgotten_when_there_are_too_many() {
        let mut usage = Usage::default();
        for number in 0..MAX_KEYS as u16 + 1 {
            usage.add(&key(number), ByteCount::new(1), at(100 + u64::from(number), 0));
        }
        assert_eq!(usage.keys.len(), MAX_KEYS);
        assert!(!usage.keys.contains_key(&key(0)) && usage.keys.contains_key(&key(1)));
    }
}
