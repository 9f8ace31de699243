//! How many lines of a log those may cause whom nobody knows.

use icdc_units::{Span, Time};

/// Lines that may come at once.
const BURST: u64 = 20;
/// From then on, one line in so much time.
const INTERVAL: Span = Span::from_secs(1);

/// Lets so many lines pass as a person reads, and counts those that it leaves out.
#[derive(Default)]
pub(crate) struct RefusedLines {
    /// When all lines of a burst are to be had again.
    full_at: Option<Time>,
    left_out: u64,
}

impl RefusedLines {
    /// Whether the next line may be written; if so, how many have been left out before it.
    pub(crate) fn next(&mut self, now: Time) -> Option<u64> {
        let full_at = self.full_at.filter(|full_at| *full_at > now).unwrap_or(now);
        if full_at - now > INTERVAL * (BURST - 1) {
            self.left_out += 1;
            return None;
        }
        self.full_at = Some(full_at + INTERVAL);
        Some(std::mem::take(&mut self.left_out))
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
}
