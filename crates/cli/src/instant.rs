//! Times of the calendar as values of options.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use icdc_protocol::message::TimeStamp;
use icdc_units::Span;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Parses a time of the calendar: a length of time before now (`7d`), a date, or a file whose time
/// of modification it is.
pub(crate) fn instant(text: &str) -> Result<TimeStamp, String> {
    let stamp = |time: Timestamp| TimeStamp {
        // Before 1970, both parts are negative or zero.
        seconds: time.as_second() - i64::from(time.subsec_nanosecond() < 0),
        nanos: time.subsec_nanosecond().rem_euclid(1_000_000_000) as u32,
    };
    if let Ok(span) = text.parse::<Span>() {
        let since = SignedDuration::try_from(Duration::from(span)).map_err(|error| error.to_string())?;
        return Timestamp::now().checked_sub(since).map(stamp).map_err(|error| error.to_string());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(stamp(time));
    }
    if let Ok(date) = text.parse::<DateTime>() {
        let time = TimeZone::system().to_timestamp(date).map_err(|error| error.to_string())?;
        return Ok(stamp(time));
    }
    let file = std::fs::metadata(text).map_err(|error| {
        format!("it is no date (2026-11-27, 2026-11-27T02:00:00Z), no length of time (7d, 12h), and no file: {error}")
    })?;
    Ok(TimeStamp { seconds: file.mtime(), nanos: file.mtime_nsec() as u32 })
}

/// Parses a length of time from now (`12h`), or a date to come; returns the time until then.
pub(crate) fn remaining(text: &str) -> Result<Span, String> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(span);
    }
    let date = |date: DateTime| TimeZone::system().to_timestamp(date).ok();
    let time = text.parse::<Timestamp>().ok().or_else(|| text.parse::<DateTime>().ok().and_then(date));
    let time =
        time.ok_or("it is no length of time (12h, 30min) and no date (2026-11-27T18:00, 2026-11-27T18:00:00Z)")?;
    let left = Duration::try_from(time.duration_since(Timestamp::now())).map_err(|_| "it is in the past")?;
    Ok(Span::from(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_a_span_or_a_file_is_a_time() {
        let at = |text: &str| instant(text).unwrap();
        // From `date -u -d TEXT +%s`.
        assert_eq!(at("2026-11-27T02:00:00Z"), TimeStamp { seconds: 1_795_744_800, nanos: 0 });
        assert_eq!(at("2026-11-27T02:00:00.25+01:00"), TimeStamp { seconds: 1_795_741_200, nanos: 250_000_000 });
        assert_eq!(at("1969-12-31T23:59:59.75Z"), TimeStamp { seconds: -1, nanos: 750_000_000 });
        let day = at("2026-11-27").seconds;
        assert!((day - 1_795_737_600).abs() <= 86_400, "midnight somewhere on earth");
        assert_eq!(at("2026-11-28").seconds - day, 86_400);
        let (week, hour, now) = (at("7d"), at("1h"), at("0s"));
        assert!(week < hour && hour < now);
        assert!((now.seconds - week.seconds - 7 * 86_400).abs() <= 60);
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("stamp");
        std::fs::write(&file, "").unwrap();
        let time = std::fs::metadata(&file).unwrap();
        let expected = TimeStamp { seconds: time.mtime(), nanos: time.mtime_nsec() as u32 };
        assert_eq!(at(file.to_str().unwrap()), expected);
    }

    #[test]
    fn a_span_or_a_date_to_come_is_what_remains() {
        assert_eq!(remaining("90min"), Ok(Span::from_secs(5400)));
        let left = remaining("9000-01-01T00:00:00Z").unwrap();
        assert!(left > Span::from_secs(86_400 * 365 * 500) && remaining("9000-01-01").is_ok(), "{left}");
        assert_eq!(remaining("1999-01-01"), Err("it is in the past".into()));
        assert!(remaining("tomorrow").is_err_and(|told| told.contains("12h")));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "yesterday", "2026-13-01", "7", "7x", "/nonexistent/file"] {
            assert!(instant(text).is_err_and(|told| told.contains("7d")), "{text}");
        }
    }
}
