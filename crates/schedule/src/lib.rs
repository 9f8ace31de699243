//! Rates over time: the notation of `--rate` and `max-rate=`, and which rate it gives at a time of the
//! week.
//!
//! ```text
//! RATE                                      the same at all times
//! ENTRY, ENTRY, ..., else=RATE              without `else`, `auto` applies between the entries
//! ENTRY   [DAY[-DAY]] [HH:MM-HH:MM]=RATE    one of days and times at least
//! ```
//!
//! Times are of this host's time zone. A time that ends before it begins ends on the next day. In the hour
//! that a change to summer time skips nothing happens; the one that the change back repeats counts twice.
//!
//! A rate is `auto`, for no limit, or a quantity. Where a daemon limits others, an entry may also have
//! `0`: nothing passes at that time.
//!
//! ```
//! use icdc_schedule::rate_schedule;
//!
//! let schedule = rate_schedule("mon-fri 08:00-18:00=200mbit, else=auto").unwrap();
//! let monday = jiff::civil::date(2027, 1, 4);
//! assert_eq!(schedule.at(monday.at(12, 0, 0, 0)), "200mbit".parse().ok());
//! assert_eq!(schedule.at(monday.at(20, 0, 0, 0)), None);
//! ```

#![forbid(unsafe_code)]

mod week;

use std::fmt;
use std::time::SystemTime;

use icdc_units::Rate;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::week::{FORM, MINUTES_OF_DAY, MINUTES_OF_WEEK, name, spans};

/// Least rate that a user may ask for; a smaller one is taken for a mistake.
pub const LEAST_RATE: Rate = Rate::from_bits_per_second(8_000);
/// Maximum number of entries; no week has use for more.
const MAX_ENTRIES: usize = 100;

/// Limit of a rate by the time of the week; `None` (`auto`) for no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateSchedule {
    text: String,
    /// Entries, of which no two with different rates apply at once.
    entries: Vec<Entry>,
    otherwise: Option<Rate>,
}

/// A rate, and when it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    text: String,
    /// Minutes of the week, from Monday 00:00, at which it applies: from the first up to before the second.
    spans: Vec<(u32, u32)>,
    rate: Option<Rate>,
}

impl RateSchedule {
    /// Whether the rate is the same at all times.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.entries.is_empty()
    }

    /// Limit at a local time.
    #[must_use]
    pub fn at(&self, time: DateTime) -> Option<Rate> {
        let day = u32::from(time.weekday().to_monday_zero_offset().unsigned_abs());
        let of_day = |part: i8| u32::from(part.unsigned_abs());
        self.at_minute(day * MINUTES_OF_DAY + of_day(time.hour()) * 60 + of_day(time.minute()))
    }

    /// Limit at a minute of the week, from Monday 00:00.
    fn at_minute(&self, minute: u32) -> Option<Rate> {
        let applies = |entry: &&Entry| entry.spans.iter().any(|(from, to)| (*from..*to).contains(&minute));
        self.entries.iter().find(applies).map_or(self.otherwise, |entry| entry.rate)
    }

    /// Limit at present, by this host's clock and time zone.
    #[must_use]
    pub fn now(&self) -> Option<Rate> {
        self.at(TimeZone::system().to_datetime(Timestamp::now()))
    }

    /// Limit at a time of the wall clock, by this host's time zone.
    #[must_use]
    pub fn at_wall(&self, time: SystemTime) -> Option<Rate> {
        let time = Timestamp::try_from(time).unwrap_or_default();
        self.at(TimeZone::system().to_datetime(time))
    }

    /// Whether there is a limit at some time.
    #[must_use]
    pub fn limits(&self) -> bool {
        self.otherwise.is_some() || self.entries.iter().any(|entry| entry.rate.is_some())
    }

    /// The highest limit of all times; `None` if at some time there is no limit.
    #[must_use]
    pub fn highest(&self) -> Option<Rate> {
        let rates = || self.entries.iter().map(|entry| entry.rate).chain([self.otherwise]);
        rates().all(|rate| rate.is_some()).then(|| rates().flatten().max())?
    }

    /// Seconds for which the present limit applies; `None` if it always does.
    #[must_use]
    pub fn lasting(&self) -> Option<f64> {
        self.lasting_from(TimeZone::system().to_datetime(Timestamp::now()))
    }

    /// Seconds after a local time for which its limit applies; `None` if it always does.
    fn lasting_from(&self, time: DateTime) -> Option<f64> {
        let (limit, past) = (self.at(time), i64::from(time.second()));
        let minutes = (!self.is_constant()).then_some(1..=i64::from(MINUTES_OF_WEEK))?;
        let seconds = minutes.map(|minute| minute * 60 - past).find(|seconds| {
            let later = time.checked_add(SignedDuration::from_secs(*seconds));
            later.is_ok_and(|later| self.at(later) != limit)
        });
        seconds.map(|seconds| seconds as f64)
    }
}

impl fmt::Display for RateSchedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Time until the next minute of the clock begins, at which a schedule may change.
#[must_use]
pub fn until_next_minute() -> SignedDuration {
    let past = Timestamp::now().as_second().rem_euclid(60);
    SignedDuration::from_secs(60 - past)
}

/// Reads a rate, or `auto`.
///
/// # Errors
/// What is wrong, and what is accepted.
pub fn rate_or_auto(text: &str) -> Result<Option<Rate>, String> {
    match limit(text)? {
        Some(rate) if rate < LEAST_RATE => Err(format!("the least rate is {LEAST_RATE}; write auto for no ceiling")),
        rate => Ok(rate),
    }
}

/// Reads any rate, or `auto`.
fn limit(text: &str) -> Result<Option<Rate>, String> {
    match text {
        "auto" => Ok(None),
        "0" => Ok(Some(Rate::ZERO)),
        _ => text.parse().map(Some).map_err(|error| format!("{error}")),
    }
}

/// Reads a rate, or rates over time, of a user.
///
/// # Errors
/// Which part is wrong, and what is accepted.
pub fn rate_schedule(text: &str) -> Result<RateSchedule, String> {
    schedule(text, rate_or_auto)
}

/// Reads a limit for others, or limits over time, of which some may be zero: nothing passes then.
///
/// # Errors
/// Which part is wrong, or that nothing ever passes.
pub fn limit_schedule(text: &str) -> Result<RateSchedule, String> {
    let schedule = schedule(text, limit)?;
    let lets_through = |minute| schedule.at_minute(minute).is_none_or(|rate| !rate.is_zero());
    if (0..MINUTES_OF_WEEK).any(lets_through) { Ok(schedule) } else { Err("it allows nothing at any time".to_owned()) }
}

/// Reads a rate, or rates over time, each by `read`.
fn schedule(text: &str, read: fn(&str) -> Result<Option<Rate>, String>) -> Result<RateSchedule, String> {
    let mut schedule = RateSchedule { text: text.trim().to_owned(), entries: Vec::new(), otherwise: None };
    if !text.contains(['=', ',']) {
        schedule.otherwise = read(text.trim())?;
        return Ok(schedule);
    }
    let mut otherwise = None;
    for part in text.split(',').map(str::trim) {
        let (when, rate) = part.rsplit_once('=').ok_or_else(|| format!("{part:?}: {FORM}, or else=RATE"))?;
        let rate = read(rate.trim()).map_err(|reason| format!("{part:?}: {reason}"))?;
        if when.trim() == "else" {
            if otherwise.replace(rate).is_some() {
                return Err(format!("{part:?}: else is there twice; leave one out"));
            }
            continue;
        }
        let spans = spans(when).map_err(|reason| format!("{part:?}: {reason}"))?;
        schedule.add(Entry { text: part.to_owned(), spans, rate })?;
    }
    schedule.otherwise = otherwise.flatten();
    Ok(schedule)
}

impl RateSchedule {
    /// Adds an entry; an error if another one has a different rate at the same time.
    fn add(&mut self, added: Entry) -> Result<(), String> {
        for known in self.entries.iter().filter(|known| known.rate != added.rate) {
            let pairs = known.spans.iter().flat_map(|one| added.spans.iter().map(move |other| (one, other)));
            let shared =
                pairs.map(|(one, other)| (one.0.max(other.0), one.1.min(other.1))).find(|(from, to)| from < to);
            if let Some((from, _)) = shared {
                let (known, added, at) = (&known.text, &added.text, name(from));
                return Err(format!(
                    "{known:?} and {added:?} contradict each other, at first on {at}; give each time one rate"
                ));
            }
        }
        if self.entries.len() == MAX_ENTRIES {
            return Err(format!("there are more than {MAX_ENTRIES} entries"));
        }
        self.entries.push(added);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use jiff::tz::TimeZone;

    use super::*;

    fn mbit(rate: u64) -> Option<Rate> {
        Some(Rate::from_bits_per_second(rate * 1_000_000))
    }

    /// Rate on a day of the week of Monday, 4 January 2027, counted from it.
    fn at(schedule: &RateSchedule, day: i8, hour: i8, minute: i8) -> Option<Rate> {
        schedule.at(date(2027, 1, 4 + day).at(hour, minute, 59, 0))
    }

    #[test]
    fn a_plain_rate_applies_at_all_times() {
        for (text, rate) in [("auto", None), ("200mbit", mbit(200))] {
            let schedule = rate_schedule(text).unwrap();
            assert!(schedule.is_constant());
            assert_eq!((at(&schedule, 0, 0, 0), at(&schedule, 6, 23, 59)), (rate, rate));
        }
    }

    #[test]
    fn days_and_times_have_their_rates_and_all_else_has_another() {
        let schedule = rate_schedule("mon-fri 08:00-18:00=200mbit, sat=500mbit,else=900mbit").unwrap();
        assert!(!schedule.is_constant());
        assert_eq!(at(&schedule, 0, 7, 59), mbit(900));
        assert_eq!(at(&schedule, 0, 8, 0), mbit(200));
        assert_eq!(at(&schedule, 4, 17, 59), mbit(200));
        assert_eq!(at(&schedule, 4, 18, 0), mbit(900));
        assert_eq!((at(&schedule, 5, 0, 0), at(&schedule, 5, 23, 59)), (mbit(500), mbit(500)));
        assert_eq!(at(&schedule, 6, 12, 0), mbit(900));
        let without_else = rate_schedule("08:00-24:00=200mbit").unwrap();
        assert_eq!((at(&without_else, 6, 23, 59), at(&without_else, 0, 0, 0)), (mbit(200), None));
    }

    #[test]
    fn nights_and_ranges_of_days_go_beyond_the_end_of_the_week() {
        let nights = rate_schedule("sun 22:00-06:00=1mbit, else=auto").unwrap();
        assert_eq!((at(&nights, 6, 22, 0), at(&nights, 0, 5, 59)), (mbit(1), mbit(1)));
        assert_eq!((at(&nights, 0, 6, 0), at(&nights, 1, 5, 0), at(&nights, 0, 22, 0)), (None, None, None));
        let weekend = rate_schedule("sat-mon=1mbit").unwrap();
        assert_eq!([4, 5, 6, 0, 1].map(|day| at(&weekend, day, 12, 0)), [None, mbit(1), mbit(1), mbit(1), None]);
    }

    #[test]
    fn times_are_those_of_the_zone_in_summer_and_in_winter() {
        let schedule = rate_schedule("08:00-09:00=1mbit").unwrap();
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let rate = |utc: &str| schedule.at(zone.to_datetime(utc.parse().unwrap()));
        assert_eq!((rate("2027-01-04T07:30:00Z"), rate("2027-01-04T06:30:00Z")), (mbit(1), None));
        assert_eq!((rate("2027-07-05T07:30:00Z"), rate("2027-07-05T06:30:00Z")), (None, mbit(1)));
    }

    #[test]
    fn it_is_known_for_how_long_a_rate_applies() {
        let lasting =
            |text: &str, hour: i8| rate_schedule(text).unwrap().lasting_from(date(2027, 1, 4).at(hour, 59, 30, 0));
        assert_eq!(lasting("200mbit", 8), None);
        assert_eq!(lasting("08:00-18:00=200mbit", 7), Some(30.0));
        assert_eq!(lasting("08:00-18:00=200mbit", 16), Some(3630.0));
        assert_eq!(lasting("mon=1mbit, tue=1mbit", 22), Some(24.0 * 3600.0 + 3630.0));
        assert_eq!(lasting("00:00-12:00=1mbit, 12:00-24:00=1mbit", 22), None);
    }

    #[test]
    fn a_limit_for_others_may_be_zero_at_times_and_has_a_highest() {
        let schedule = limit_schedule("mon-fri 08:00-18:00=0, sat=1kbit, else=1gbit").unwrap();
        assert_eq!((at(&schedule, 0, 12, 0), at(&schedule, 0, 18, 0)), (Some(Rate::ZERO), mbit(1000)));
        assert_eq!(schedule.highest(), mbit(1000));
        assert_eq!(limit_schedule("mon=0").unwrap().highest(), None);
        assert!(limit_schedule("mon=0").unwrap().limits() && !limit_schedule("mon=auto").unwrap().limits());
        assert_eq!(limit_schedule("1gbit").unwrap().highest(), mbit(1000));
        for nothing in ["0", "0gbit", "mon=0, else=0", "mon-sun=0", "mon-sun 00:00-12:00=0, mon-sun 12:00-00:00=0"] {
            assert!(limit_schedule(nothing).unwrap_err().contains("nothing"), "{nothing}");
        }
        assert!(rate_schedule("mon=0").unwrap_err().contains("least rate"));
    }

    #[test]
    fn entries_that_contradict_each_other_are_refused_with_both() {
        let error = rate_schedule("mon-fri 08:00-18:00=200mbit, wed 12:00-13:00=auto").unwrap_err();
        assert!(error.contains("mon-fri 08:00-18:00=200mbit") && error.contains("wed 12:00-13:00=auto"), "{error}");
        assert!(error.contains("wed 12:00"), "{error}");
        assert!(rate_schedule("sun 22:00-06:00=1mbit, mon=2mbit").unwrap_err().contains("mon 00:00"));
        assert!(rate_schedule("mon=1mbit, mon 08:00-09:00=1mbit").is_ok(), "both say the same");
        assert!(rate_schedule("mon 08:00-09:00=1mbit, mon 09:00-10:00=2mbit").is_ok(), "one ends as the other begins");
        assert!(rate_schedule("else=1mbit, else=1mbit").unwrap_err().contains("twice"));
    }

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        for (text, part) in [
            ("mon-fri 08:00-18:00=200mbit, 900mbit", "\"900mbit\""),
            ("mon-xyz 08:00-18:00=1mbit", "\"xyz\""),
            ("Mon=1mbit", "\"Mon\""),
            ("8:00-18:00=1mbit", "\"8:00\""),
            ("08:00-24:01=1mbit", "\"24:01\""),
            ("08:60-09:00=1mbit", "\"08:60\""),
            ("24:00-06:00=1mbit", "24:00-06:00"),
            ("08:00-08:00=1mbit", "empty"),
            ("08:00=1mbit", "\"08:00\""),
            ("mon 08:00-09:00 fri=1mbit", "write [DAYS]"),
            ("=1mbit", "write [DAYS]"),
            ("mon=fast", "\"mon=fast\""),
            ("mon=1bit", "least rate"),
            ("mon=1mbit,", "\"\""),
            (",", "\"\""),
            ("fast", "rate"),
        ] {
            let error = rate_schedule(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        let many = vec!["mon=1mbit"; 101].join(",");
        assert!(rate_schedule(&many).unwrap_err().contains("100"));
    }
}
