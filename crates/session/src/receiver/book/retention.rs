//! Retention of snapshots: which of them are no longer kept.
//!
//! For each kind of period, the newest snapshot of each of the last n periods that have any is kept.
//! Periods without a snapshot do not count, so that nothing is removed for a time in which none was
//! made.

use icdc_protocol::message::{Keep, SnapshotTime};

/// Those of `all` snapshots that are not kept after the one of the time `made`, the oldest first.
/// That one and later ones are always kept.
pub(super) fn expired(keep: Keep, made: SnapshotTime, mut all: Vec<SnapshotTime>) -> Vec<SnapshotTime> {
    all.push(made);
    all.sort_unstable();
    all.dedup();
    let mut kept = vec![made];
    for (kind, number) in [keep.days, keep.weeks, keep.months, keep.years].into_iter().enumerate() {
        let (mut left, mut last) = (number, None);
        for time in all.iter().rev() {
            let this = time.periods()[kind];
            if left > 0 && last != Some(this) {
                (left, last) = (left - 1, Some(this));
                kept.push(*time);
            }
        }
    }
    kept.sort_unstable();
    all.retain(|time| *time < made && kept.binary_search(time).is_err());
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails says where")]

    use super::*;

    fn times(names: &[&str]) -> Vec<SnapshotTime> {
        let whole = |name: &&str| if name.len() == 10 { format!("{name}T02:00:00Z") } else { (*name).to_owned() };
        names.iter().map(|name| SnapshotTime::parse(whole(name).as_bytes()).unwrap()).collect()
    }

    fn assert_expired(keep: Keep, all: &[&str], expected: &[&str]) {
        let all = times(all);
        let made = *all.last().unwrap();
        assert_eq!(expired(keep, made, all), times(expected), "{keep:?}");
    }

    #[test]
    fn the_newest_of_each_period_is_kept() {
        let all = [
            "2024-12-31",
            "2025-12-30",
            "2025-12-31",
            "2026-10-31",
            "2026-11-22",
            "2026-11-23T01:00:00Z",
            "2026-11-23T23:59:59Z",
            "2026-11-24",
            "2026-11-26",
            "2026-11-27",
        ];
        let days = Keep { days: 3, ..Keep::default() };
        assert_expired(days, &all, &all[..7]);
        assert_expired(Keep { days: 4, ..days }, &all, &all[..6]);
        let weeks = Keep { weeks: 2, ..Keep::default() };
        assert_expired(weeks, &all, &[&all[..4], &all[5..9]].concat());
        let months = Keep { months: 3, ..Keep::default() };
        assert_expired(months, &all, &[&all[..2], &all[4..9]].concat());
        let years = Keep { years: 2, ..Keep::default() };
        assert_expired(years, &all, &[&all[..2], &all[3..9]].concat());
        let together = Keep { days: 1, weeks: 2, months: 3, years: 3 };
        assert_expired(together, &all, &[&all[1..2], &all[5..9]].concat());
        assert_expired(Keep { days: u16::MAX, ..Keep::default() }, &all, &all[5..6]);
    }

    #[test]
    fn the_one_that_was_made_and_later_ones_are_kept() {
        let all = times(&["2026-11-25", "2026-11-26", "2026-11-27", "2026-11-28"]);
        let keep = Keep { years: 1, ..Keep::default() };
        assert_eq!(expired(keep, all[2], all.clone()), all[..2]);
        assert_eq!(expired(keep, all[2], Vec::new()), []);
    }

    #[test]
    fn nothing_goes_for_a_time_without_snapshots() {
        let keep = Keep { days: 7, ..Keep::default() };
        assert_expired(keep, &["2025-01-01", "2025-01-02", "2026-11-27"], &[]);
    }
}
