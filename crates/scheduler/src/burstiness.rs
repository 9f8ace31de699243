//! Burstiness, as PSPacer's authors define it (Takano et al., 2006, section 4): the longest queue
//! before a virtual bottleneck that drains at the traffic's own mean rate.
//!
//! ```text
//! r = B / T                                  mean rate over a window: B bytes in T
//! Q(i) = max over h ≤ i of  Σ size(h..=i) − r · (t(i) − t(h))
//! burstiness = max over i of Q(i)            bytes; ideally one packet
//! ```
//!
//! r is known only when the window has ended, so the arrivals of one window are stored (16 bytes
//! each) and judged at its end. T runs from the first arrival to the first one of the next window,
//! so that a window of evenly spaced packets has a burstiness of exactly one packet.

use icdc_units::{ByteCount, Span, Time};

/// Arrivals beyond this many in a window are not stored; the window's burstiness is then unknown.
const MAX_ARRIVALS: usize = 4_000_000;

/// Burstiness measured in one window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start of the window.
    pub start: Time,
    /// Length of the window.
    pub length: Span,
    /// Bytes that arrived in the window.
    pub bytes: ByteCount,
    /// Burst: longest queue before a virtual bottleneck that drains at the window's mean rate.
    pub burst: ByteCount,
    /// Largest single packet: the least that the burst can be.
    pub largest: ByteCount,
}

/// Measures the burstiness of traffic, window by window.
#[derive(Clone, Debug)]
pub struct Burstiness {
    length: Span,
    arrivals: Vec<(Time, u64)>,
    overfull: bool,
}

impl Burstiness {
    /// A meter with windows of this length.
    #[must_use]
    pub fn new(length: Span) -> Self {
        Self { length, arrivals: Vec::new(), overfull: false }
    }

    /// Records a packet; times must not decrease. Returns the window that it ends; `None` if it
    /// ends none, or the window had more arrivals than are stored.
    pub fn packet(&mut self, at: Time, size: ByteCount) -> Option<Window> {
        let ended = self.arrivals.first().is_some_and(|&(start, _)| at - start >= self.length);
        let window = if ended { self.close(at) } else { None };
        if self.arrivals.len() < MAX_ARRIVALS {
            self.arrivals.push((at, size.as_u64()));
        } else {
            self.overfull = true;
        }
        window
    }

    /// Ends the window now, whatever its length: T runs from the first to the last arrival, and B
    /// lacks the last one, so that evenly spaced packets have a burstiness of exactly one packet
    /// here as well, and what was silent before and behind them does not count. `None`: nothing has
    /// arrived, or more than is stored.
    pub fn cut(&mut self) -> Option<Window> {
        let &(last, size) = self.arrivals.last()?;
        let before: u64 = self.arrivals.iter().map(|&(_, size)| size).sum::<u64>() - size;
        self.judge(last, before)
    }

    /// Ends the window at `end`, the time of the first arrival that no longer belongs to it; `None`
    /// as for [`judge`](Self::judge).
    fn close(&mut self, end: Time) -> Option<Window> {
        let bytes = self.arrivals.iter().map(|&(_, size)| size).sum();
        self.judge(end, bytes)
    }

    /// Result for the window from its first arrival to `end`: the burst at a bottleneck that drains
    /// `passed` bytes in that time. The arrivals are dropped. `None` if there are none, or more
    /// than are stored.
    fn judge(&mut self, end: Time, passed: u64) -> Option<Window> {
        let overfull = std::mem::take(&mut self.overfull);
        let arrivals = std::mem::take(&mut self.arrivals);
        let &(start, _) = arrivals.first()?;
        let length = end - start;
        let bytes: u64 = arrivals.iter().map(|&(_, size)| size).sum();
        let burst = longest_queue(&arrivals, passed, length);
        let largest = arrivals.iter().map(|&(_, size)| size).max()?;
        // Keeps the allocation.
        self.arrivals = arrivals;
        self.arrivals.clear();
        (!overfull).then_some(Window {
            start,
            length,
            bytes: ByteCount::new(bytes),
            burst: ByteCount::new(burst),
            largest: ByteCount::new(largest),
        })
    }
}

/// Longest queue in bytes before a bottleneck that drains `bytes` in `length`. It is exact: counted
/// in bytes × nanoseconds of the window, and rounded up at the end.
fn longest_queue(arrivals: &[(Time, u64)], bytes: u64, length: Span) -> u64 {
    let nanos = u128::from(length.as_nanos()).max(1);
    let (mut queue, mut longest, mut before) = (0_u128, 0_u128, None);
    for &(at, size) in arrivals {
        let drained = before.map_or(0, |before: Time| u128::from((at - before).as_nanos()) * u128::from(bytes));
        queue = queue.saturating_sub(drained) + u128::from(size) * nanos;
        longest = longest.max(queue);
        before = Some(at);
    }
    u64::try_from(longest.div_ceil(nanos)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn windows(packets: impl IntoIterator<Item = (u64, u64)>) -> Vec<Window> {
        let mut meter = Burstiness::new(Span::from_secs(1));
        packets.into_iter().filter_map(|(at, size)| meter.packet(Time::from_nanos(at), ByteCount::new(size))).collect()
    }

    #[test]
    fn even_spacing_is_a_burst_of_one_packet() {
        let found = windows((0..=200_000).map(|index| (index * 12_304, 1538)));
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|window| window.burst == ByteCount::new(1538)), "{found:?}");
    }

    #[test]
    fn a_train_counts_as_a_whole() {
        // Trains of 10 packets at once, 100 trains a second.
        let found = windows((0..=1000).map(|index| (index / 10 * 10_000_000, 1500)));
        assert_eq!(found[0].burst, ByteCount::new(15_000));
    }

    #[test]
    fn a_window_that_is_cut_does_not_count_the_silence_around_it() {
        let mut meter = Burstiness::new(Span::from_secs(3600));
        assert_eq!(meter.cut(), None);
        for index in 0..1000 {
            meter.packet(Time::from_nanos(400_000_000 + index * 12_304), ByteCount::new(1538));
        }
        let window = meter.cut().unwrap();
        assert_eq!((window.burst, window.bytes), (ByteCount::new(1538), ByteCount::new(1_538_000)));
        meter.packet(Time::from_nanos(2_000_000_000), ByteCount::new(60));
        assert_eq!(meter.cut().unwrap().burst, ByteCount::new(60), "one packet alone");
        assert_eq!(meter.cut(), None);
    }

    proptest! {
        #[test]
        fn the_burst_lies_between_the_largest_packet_and_everything(
            packets in prop::collection::vec((0_u64..50_000_000, 60_u64..1515), 2..300),
        ) {
            let mut at = 0;
            for window in windows(packets.into_iter().map(|(gap, size)| { at += gap; (at, size) })) {
                prop_assert!(window.burst >= window.largest && window.burst <= window.bytes);
            }
        }
    }
}
