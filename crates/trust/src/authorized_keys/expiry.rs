//! The time from which on a line grants nothing.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// Parses the value of `expires=`: a date, which means its beginning in UTC, or a time as in RFC
/// 3339.
pub(super) fn parse(text: &str) -> Result<SystemTime, String> {
    let parsed = if text.contains(['T', 't', ' ']) {
        text.parse::<Timestamp>()
    } else {
        text.parse::<Date>().and_then(|date| TimeZone::UTC.to_timestamp(date.into()))
    };
    parsed.and_then(SystemTime::try_from).map_err(|_| {
        format!("expires={text}: expected a date such as 2027-01-31 (from 00:00 UTC on) or a time such as 2027-01-31T18:00:00Z")
    })
}

/// Parses the value of OpenSSH's `expiry-time=`: `YYYYMMDD[HHMM[SS]][Z]`, by the time zone of this
/// host unless a Z follows.
pub(super) fn parse_of_openssh(text: &str) -> Result<SystemTime, String> {
    let wrong = || format!("expiry-time={text}: expected YYYYMMDD[HHMM[SS]][Z], for example 20270131 or 202701311800Z");
    let (digits, zone) = match text.strip_suffix('Z').or_else(|| text.strip_suffix("UTC")) {
        Some(digits) => (digits, TimeZone::UTC),
        None => (text, TimeZone::system()),
    };
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number = |from: usize, to: usize| digits.get(from..to).map_or(Ok(0), str::parse);
    let fields = || -> Result<DateTime, Box<dyn std::error::Error>> {
        let (year, month, day) = (digits[..4].parse()?, number(4, 6)?, number(6, 8)?);
        Ok(DateTime::new(year, month, day, number(8, 10)?, number(10, 12)?, number(12, 14)?, 0)?)
    };
    let time = fields().map_err(|_| wrong())?;
    zone.to_timestamp(time).and_then(SystemTime::try_from).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_date_is_its_beginning_in_utc_and_a_time_has_its_offset() {
        // date -ud 2027-01-31 +%s
        assert_eq!(parse("2027-01-31").unwrap(), at(1_801_353_600));
        assert_eq!(parse("2027-01-31T18:00:00Z").unwrap(), at(1_801_353_600 + 18 * 3600));
        assert_eq!(parse("2027-01-31T18:00:00+02:00").unwrap(), at(1_801_353_600 + 16 * 3600));
        for text in ["", "tomorrow", "2027-02-30", "31.1.2027", "2027-01-31T18:00:00", "1801353600"] {
            assert!(parse(text).unwrap_err().contains("2027-01-31"), "{text}");
        }
    }

    #[test]
    fn times_of_openssh_are_read_as_sshd_does() {
        for (text, expected) in [
            ("20270131Z", 1_801_353_600),
            ("202701311801Z", 1_801_353_600 + 18 * 3600 + 60),
            ("20270131180102Z", 1_801_353_600 + 18 * 3600 + 62),
        ] {
            assert_eq!(parse_of_openssh(text).unwrap(), at(expected));
        }
        let local = parse_of_openssh("20270131").unwrap();
        let half_a_day = Duration::from_secs(15 * 3600);
        assert!((at(1_801_353_600) - half_a_day..=at(1_801_353_600) + half_a_day).contains(&local));
        for text in ["", "2027", "20271331Z", "2027013118Z", "20270131T1800Z", "é0270131", "20270131z"] {
            assert!(parse_of_openssh(text).unwrap_err().contains("YYYYMMDD"), "{text}");
        }
    }
}
