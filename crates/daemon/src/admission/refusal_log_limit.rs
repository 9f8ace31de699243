//! Bounds on the log lines that refused clients cause: those whom nobody knows all together, and
//! each key that is known by itself.

use std::collections::HashMap;

use icdc_trust::PublicKey;
use icdc_units::{Span, Time};

/// Number of log lines that may come at once.
const BURST: u64 = 20;
/// Interval at which one further log line is allowed.
const INTERVAL: Span = Span::from_secs(1);

/// Rate limit on log lines, so that a person can read them; it counts those that are left out.
#[derive(Default)]
pub(crate) struct RefusedLines {
    /// Time at which a whole burst of lines is allowed again.
    full_at: Option<Time>,
    left_out: u64,
}

impl RefusedLines {
    /// Number of lines left out before the next one, if that may be written now; `None` if it may
    /// not.
    pub(crate) fn next(&mut self, now: Time) -> Option<u64> {
        let full_at = self.full_at.filter(|full_at| *full_at > now).unwrap_or(now);
        if full_at - now > INTERVAL * (BURST - 1) {
            self.left_out += 1;
            return None;
        }
        self.full_at = Some(full_at + INTERVAL);
        Some(std::mem::take(&mut self.left_out))
    }

    /// Number of lines that have been left out, if a line may tell that now; otherwise `None`.
    pub(crate) fn left_out(&mut self, now: Time) -> Option<u64> {
        if self.left_out == 0 {
            return None;
        }
        let before = self.left_out;
        let left_out = self.next(now);
        self.left_out = if left_out.is_some() { 0 } else { before };
        left_out
    }

    /// Number of lines that have been left out, at any time; `None` if there are none.
    pub(crate) fn rest(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.left_out)).filter(|left_out| *left_out > 0)
    }

    /// Whether a whole burst is allowed again and no line was left out, so that this limit need not
    /// be kept.
    fn is_full(&self, now: Time) -> bool {
        self.left_out == 0 && self.full_at.is_none_or(|full_at| full_at <= now)
    }
}

/// Rate limits on log lines about known keys: one for each key.
#[derive(Default)]
pub(crate) struct RefusedByKey(HashMap<PublicKey, RefusedLines>);

impl RefusedByKey {
    /// Number of lines left out before the next one about this key, as [`RefusedLines::next`].
    pub(crate) fn next(&mut self, key: &PublicKey, now: Time) -> Option<u64> {
        self.0.entry(*key).or_default().next(now)
    }

    /// The keys about which lines were left out that may be told now, with the numbers of lines;
    /// forgets keys of which there is nothing to tell.
    pub(crate) fn left_out(&mut self, now: Time) -> Vec<(PublicKey, u64)> {
        self.0.retain(|_, lines| !lines.is_full(now));
        self.0.iter_mut().filter_map(|(key, lines)| Some((*key, lines.left_out(now)?))).collect()
    }

    /// The keys about which lines were left out and not told, with the numbers of lines.
    pub(crate) fn rest(&mut self) -> Vec<(PublicKey, u64)> {
        self.0.iter_mut().filter_map(|(key, lines)| Some((*key, lines.rest()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use icdc_tcp::clock;

    use super::*;

    #[test]
    fn a_crowd_gets_a_burst_of_lines_and_then_one_a_second() {
        let mut lines = RefusedLines::default();
        let start = clock::now();
        let burst = (0..1000).filter(|_| lines.next(start).is_some()).count();
        assert_eq!(burst as u64, BURST);
        assert_eq!(lines.next(start + INTERVAL), Some(1000 - BURST), "those that were left out are told");
        assert_eq!(lines.next(start + INTERVAL), None);
        assert_eq!(lines.next(start + INTERVAL * 1000), Some(1));
        assert_eq!(lines.next(start + INTERVAL * 1000), Some(0));
    }

    #[test]
    fn each_key_has_its_own_lines_and_what_is_left_out_is_told_without_a_further_one() {
        let mut lines = RefusedByKey::default();
        let start = clock::now();
        let [one, other] = [1, 2].map(|number| PublicKey::from_bytes([number; 32]));
        assert_eq!((0..1000).filter(|_| lines.next(&one, start).is_some()).count() as u64, BURST);
        assert_eq!(lines.next(&other, start), Some(0), "one key does not take the lines of another");
        assert_eq!(lines.left_out(start), []);
        assert_eq!(lines.left_out(start + INTERVAL), [(one, 1000 - BURST)]);
        assert_eq!(lines.left_out(start + INTERVAL * 2), [], "once");
        lines.next(&one, start + INTERVAL * 2);
        assert_eq!(lines.next(&one, start + INTERVAL * 2), None);
        assert_eq!(lines.rest(), [(one, 1)]);
        assert_eq!(lines.left_out(start + INTERVAL * 1000), []);
        assert!(lines.0.is_empty(), "keys that have all their lines again are forgotten");
    }
}
