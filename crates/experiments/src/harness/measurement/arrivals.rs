//! Payload that arrived at the receiver of a measured flow, by the millisecond since its first
//! byte.

use icdc_report::{Uniform, reduce};
use icdc_units::{ByteCount, Rate, Span};

/// Length of a bin of the arrivals.
const STEP: Span = Span::from_millis(1);

/// Arrivals of payload at a receiver: the bytes of each millisecond since the first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals<'a> {
    bytes: &'a [u32],
}

impl<'a> Arrivals<'a> {
    /// Arrivals of these bytes, one number per millisecond.
    pub(crate) fn new(bytes: &'a [u32]) -> Self {
        Self { bytes }
    }

    /// Length of the record, from the first byte to the last millisecond.
    pub(crate) fn length(self) -> Span {
        STEP * self.bytes.len() as u64
    }

    /// The milliseconds between two times since the first byte, as far as they are recorded.
    fn between(self, from: Span, to: Span) -> &'a [u32] {
        let index = |at: Span| (at.as_millis() as usize).min(self.bytes.len());
        &self.bytes[index(from)..index(to).max(index(from))]
    }

    /// Bytes that arrived between two times.
    pub(crate) fn sum(self, from: Span, to: Span) -> ByteCount {
        ByteCount::new(self.between(from, to).iter().map(|&bytes| u64::from(bytes)).sum())
    }

    /// Mean rate between two times, limited to the time that was recorded.
    pub(crate) fn mean(self, from: Span, to: Span) -> Rate {
        match self.between(from, to).len() as u64 {
            0 => Rate::ZERO,
            steps => self.sum(from, to) / (STEP * steps),
        }
    }

    /// End of the first whole `window` at `from` or later that `fits`, judged by its end and its
    /// mean rate. `None` if none does. Before the first byte the rate is zero.
    pub(crate) fn first_window(self, window: Span, from: Span, fits: impl Fn(Span, Rate) -> bool) -> Option<Span> {
        let length = window.as_millis().max(1);
        let sums = reduce::moving_sums(self.bytes, length as usize).enumerate().skip(from.as_millis() as usize);
        let mut ends =
            sums.map(|(index, sum)| (STEP * (index as u64 + 1), ByteCount::new(sum as u64) / (STEP * length)));
        ends.find(|&(end, mean)| fits(end, mean)).map(|(end, _)| end)
    }

    /// Greatest mean rate over a whole `window`; zero if there is none.
    pub(crate) fn peak(self, window: Span) -> Rate {
        let length = window.as_millis().max(1);
        let most = reduce::moving_sums(self.bytes, length as usize).skip(length as usize - 1).max();
        most.map_or(Rate::ZERO, |bytes| ByteCount::new(bytes as u64) / (STEP * length))
    }

    /// Longest time without an arrival between two times.
    pub(crate) fn longest_silence(self, from: Span, to: Span) -> Span {
        let silences = self.between(from, to).split(|&bytes| bytes > 0);
        STEP * silences.map(<[u32]>::len).max().unwrap_or(0) as u64
    }

    /// Standard deviation of consecutive windows between two times, as a share of their mean.
    pub(crate) fn variation(self, window: Span, from: Span, to: Span) -> f64 {
        let windows = self.between(from, to).chunks_exact(window.as_millis().max(1) as usize);
        let sums: Vec<f64> = windows.map(|window| window.iter().map(|&bytes| f64::from(bytes)).sum()).collect();
        let count = sums.len().max(1) as f64;
        let mean = sums.iter().sum::<f64>() / count;
        let square = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / count;
        if mean > 0.0 { square.sqrt() / mean } else { 0.0 }
    }

    /// Rates in windows of a millisecond, of the first `most`, with the first byte at `start`.
    pub(crate) fn rates(self, start: Span, most: Span) -> Uniform {
        self.rates_by(STEP, start, most)
    }

    /// Rates in consecutive windows of `window`.
    pub(crate) fn rates_by(self, window: Span, start: Span, most: Span) -> Uniform {
        let length = window.as_millis().max(1);
        let windows = self.between(Span::ZERO, most).chunks_exact(length as usize);
        let sums = windows.map(|window| window.iter().map(|&bytes| i64::from(bytes)).sum()).collect();
        Uniform::rates(start, STEP * length, sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(count: u64) -> Span {
        Span::from_millis(count)
    }

    #[test]
    fn windows_are_told_by_their_ends() {
        let bytes: Vec<u32> = (0..1000).map(|at| if at < 300 { 0 } else { 125 }).collect();
        let arrivals = Arrivals::new(&bytes);
        let rate = Rate::from_bits_per_second(900_000);
        assert_eq!(arrivals.first_window(millis(100), Span::ZERO, |_, mean| mean >= rate), Some(millis(390)));
        assert_eq!(arrivals.first_window(millis(100), millis(600), |_, mean| mean >= rate), Some(millis(601)));
        assert_eq!(arrivals.first_window(millis(100), Span::ZERO, |_, mean| mean > rate * 2), None);
        assert_eq!(arrivals.peak(millis(100)), rate / 9 * 10);
        assert_eq!(arrivals.peak(millis(1400)), Rate::ZERO, "there is no such window");
        assert_eq!(arrivals.mean(millis(300), millis(2000)), Rate::from_bits_per_second(1_000_000));
        assert_eq!(arrivals.mean(millis(3000), millis(2000)), Rate::ZERO);
        assert_eq!(arrivals.longest_silence(millis(50), millis(400)), millis(250));
        assert_eq!(arrivals.variation(millis(100), millis(300), millis(1000)), 0.0);
        assert_eq!(arrivals.variation(millis(300), Span::ZERO, millis(600)), 1.0);
        assert_eq!(arrivals.rates_by(millis(300), Span::ZERO, millis(1000)).values(), [0, 37_500, 37_500]);
    }
}
