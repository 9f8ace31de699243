//! Series of one direction of a lab's path, by milliseconds, for reports.

use icdc_report::{Plot, Series, Stroke, Uniform, Unit, reduce, views};
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::heading::Heading;
use crate::wire::page::{AHEAD, BIN, Bin, Global, HISTORY, Page};

/// Recording of one direction of the path, in bins of a millisecond.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Monotonic time at which the first millisecond began.
    pub begun: Time,
    /// The bins, from the first millisecond with a packet to the last.
    pub bins: Vec<Bin>,
}

impl Recording {
    /// The series of one direction that the page still has, at most those of the last `most`.
    #[must_use]
    pub fn of(page: &Page, heading: Heading, most: Span) -> Self {
        let number = |nanos: u64| nanos / BIN.as_nanos();
        let now = number(page.global(Global::Heartbeat));
        let ahead = AHEAD.as_millis();
        let kept = (most.as_millis()).min(HISTORY - ahead);
        let first = number(page.global(Global::Started)).max(now.saturating_sub(kept));
        let mut bins: Vec<Bin> =
            (first..now + ahead).map(|number| page.bin(heading, number).unwrap_or_default()).collect();
        let is_empty = |bin: &Bin| *bin == Bin::default();
        let end = bins.iter().rposition(|bin| !is_empty(bin)).map_or(0, |last| last + 1);
        bins.truncate(end);
        let begin = bins.iter().position(|bin| !is_empty(bin)).unwrap_or(0);
        bins.drain(..begin);
        Self { begun: Time::ORIGIN + BIN * (first + begin as u64), bins }
    }

    /// Wire rate that the path delivered, by milliseconds.
    pub fn throughput(&self) -> Uniform {
        self.throughput_from(self.begun)
    }

    /// Wire rate that the path delivered, by milliseconds, over the time since `origin`.
    fn throughput_from(&self, origin: Time) -> Uniform {
        Uniform::rates(self.begun - origin, BIN, self.bins.iter().map(|bin| bin.delivered.as_u64() as i64).collect())
    }

    /// This recording without everything before `origin`.
    #[must_use]
    pub fn since(mut self, origin: Time) -> Self {
        let before = (origin - self.begun).as_nanos().div_ceil(BIN.as_nanos()) as usize;
        let before = before.min(self.bins.len());
        self.bins.drain(..before);
        Self { begun: self.begun + BIN * before as u64, ..self }
    }

    /// Plots of the throughput, the queue, the host's sending rate and its burstiness, over the
    /// time since the first millisecond. All count bytes on the wire.
    #[must_use]
    pub fn plots(&self, settings: &icdc_path::Settings) -> Vec<Plot> {
        self.plots_from(self.begun, settings)
    }

    /// Plots like [`plots`](Self::plots), over the time since `origin`, which is not after the
    /// first millisecond.
    #[must_use]
    pub fn plots_from(&self, origin: Time, settings: &icdc_path::Settings) -> Vec<Plot> {
        let start = self.begun - origin;
        let series = |value: fn(&Bin) -> i64| Uniform::new(start, BIN, self.bins.iter().map(value).collect());
        let mut marks = Vec::new();
        for (name, count) in [
            ("drops, queue full", (|bin| i64::from(bin.queue_drops)) as fn(&Bin) -> i64),
            ("lost at random", |bin| i64::from(bin.lost)),
        ] {
            if self.bins.iter().any(|bin| count(bin) > 0) {
                marks.push(views::marks(name, series(count)));
            }
        }
        let offered = Uniform::rates(start, BIN, self.bins.iter().map(|bin| bin.offered.as_u64() as i64).collect());
        let sent = vec![Series::new("1 ms window", Stroke::Faint, offered).column("sent")];
        let throughput = views::throughput(self.throughput_from(origin), Some(settings.rate), marks);
        vec![
            Plot { title: "Throughput on the wire".to_owned(), ..throughput },
            views::queue(series(|bin| bin.queue.as_u64() as i64), Some(settings.queue)),
            Plot::new("Sent by the host, on the wire", Unit::BitsPerSecond, sent),
            self.burstiness(start, settings),
        ]
    }

    /// Plot of the burstiness of each second, in frames of full size.
    fn burstiness(&self, start: Span, settings: &icdc_path::Settings) -> Plot {
        let frame = settings.largest_frame().as_u64() as f64;
        let seconds = self.bins.iter().enumerate().filter(|(_, bin)| !bin.burst.is_zero());
        let points =
            seconds.map(|(index, bin)| ((start + BIN * index as u64).as_secs_f64(), bin.burst.as_u64() as f64 / frame));
        let series = Series::new("longest queue at the mean rate", Stroke::Strong, points.collect::<Vec<_>>());
        Plot::new("Burstiness of each second", Unit::Mtu, vec![series.column("burst")])
    }

    /// Index of the first millisecond in which data arrives: the first of two with more bytes than
    /// any handshake has; 0 if there is none.
    pub fn data_begins(&self, largest_frame: ByteCount) -> usize {
        let several = largest_frame * 3;
        self.bins.windows(2).position(|two| two[0].delivered + two[1].delivered >= several).map_or(0, |index| {
            // The second one alone may be it.
            index + usize::from(self.bins[index].delivered < largest_frame)
        })
    }

    /// Start of the first millisecond of data, see [`data_begins`](Self::data_begins).
    #[must_use]
    pub fn data_began(&self, largest_frame: ByteCount) -> Time {
        self.begun + BIN * self.data_begins(largest_frame) as u64
    }

    /// Number of frames that were dropped ([`Bin::queue_drops`]) in the milliseconds from `from`
    /// on.
    pub fn queue_drops_from(&self, from: usize) -> u64 {
        self.bins.iter().skip(from).map(|bin| u64::from(bin.queue_drops)).sum()
    }

    /// The largest burst of a second that began in the milliseconds `from..to`; zero if none did.
    pub fn largest_burst(&self, from: usize, to: usize) -> ByteCount {
        let bins = self.bins.get(from..to.min(self.bins.len())).unwrap_or_default();
        bins.iter().map(|bin| bin.burst).max().unwrap_or_default()
    }

    /// The largest burst of any second, start-up included, and the median of all seconds; `None` if
    /// no second is complete.
    #[must_use]
    pub fn bursts(&self) -> Option<(ByteCount, ByteCount)> {
        let mut bursts: Vec<ByteCount> =
            self.bins.iter().map(|bin| bin.burst).filter(|burst| !burst.is_zero()).collect();
        bursts.sort_unstable();
        Some((*bursts.last()?, bursts[bursts.len() / 2]))
    }

    /// Mean delivery rate over the whole recording.
    #[must_use]
    pub fn mean_rate(&self) -> Rate {
        self.mean_rate_between(0, self.bins.len())
    }

    /// Mean delivery rate over the milliseconds `from..to`; zero if none is recorded.
    pub fn mean_rate_between(&self, from: usize, to: usize) -> Rate {
        let bins = self.bins.get(from..to.min(self.bins.len())).unwrap_or_default();
        if bins.is_empty() {
            return Rate::ZERO;
        }
        bins.iter().map(|bin| bin.delivered).sum::<ByteCount>() / (BIN * bins.len() as u64)
    }

    /// Greatest mean delivery rate over a second, or over the whole recording if it is shorter.
    pub fn peak_rate(&self) -> Rate {
        let second = self.bins.len().clamp(1, 1000);
        let whole = self.moving_sums(second).into_iter().skip(second - 1).step_by(10);
        whole.max().map_or(Rate::ZERO, |bytes| bytes / (BIN * second as u64))
    }

    /// Greatest mean over `window` of the host's sending rate, lost packets included.
    #[must_use]
    pub fn fastest_sending(&self, window: Span) -> Rate {
        let bytes: Vec<u64> = self.bins.iter().map(|bin| bin.offered.as_u64()).collect();
        let most = reduce::moving_sums(&bytes, window.as_millis().max(1) as usize).max();
        most.map_or(Rate::ZERO, |sum| ByteCount::new(sum as u64) / window)
    }

    /// Standard deviation of the 1 ms rates in the milliseconds `from..to`, as a share of their
    /// mean; 0 if nothing was delivered.
    pub fn variation(&self, from: usize, to: usize) -> f64 {
        let bins = self.bins.get(from..to.min(self.bins.len())).unwrap_or_default();
        let count = bins.len().max(1) as f64;
        let mean = bins.iter().map(|bin| bin.delivered.as_u64() as f64).sum::<f64>() / count;
        let square = bins.iter().map(|bin| (bin.delivered.as_u64() as f64 - mean).powi(2)).sum::<f64>() / count;
        if mean > 0.0 { square.sqrt() / mean } else { 0.0 }
    }

    /// Time from the start to the end of the first millisecond at which the mean over the last
    /// `window` reaches `rate`, where the rate before the start counts as zero; `None` if it never
    /// does.
    pub fn reaches(&self, rate: Rate, window: Span) -> Option<Span> {
        let length = window.as_millis().max(1);
        let sums = self.moving_sums(length as usize);
        sums.into_iter().position(|bytes| bytes / (BIN * length) >= rate).map(|index| BIN * (index as u64 + 1))
    }

    /// Bytes that the path delivered in the `window` milliseconds that end with each one.
    fn moving_sums(&self, window: usize) -> Vec<ByteCount> {
        let bytes: Vec<u64> = self.bins.iter().map(|bin| bin.delivered.as_u64()).collect();
        reduce::moving_sums(&bytes, window).map(|sum| ByteCount::new(sum as u64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(bytes: impl IntoIterator<Item = u64>) -> Recording {
        let bin = |bytes| Bin { delivered: ByteCount::new(bytes), ..Bin::default() };
        Recording { begun: Time::ORIGIN, bins: bytes.into_iter().map(bin).collect() }
    }

    #[test]
    fn the_greatest_second_is_whole_and_sought_in_steps_of_ten_milliseconds() {
        let kilobits = |count: u64| Rate::from_bits_per_second(count * 1000);
        assert_eq!(recording([100; 5000]).peak_rate(), kilobits(800));
        assert_eq!(recording([100; 10]).peak_rate(), kilobits(800), "less than a second is taken whole");
        assert_eq!(recording([]).peak_rate(), Rate::ZERO);
        // One second of traffic from 1235 ms: the seconds that begin 5 ms earlier and later miss 5
        // ms of it.
        let second = |at: u64| if (1235..2235).contains(&at) { 1000 } else { 0 };
        assert_eq!(recording((0..4000).map(second)).peak_rate(), kilobits(8000 - 5 * 8));
    }

    #[test]
    fn data_begins_where_more_comes_than_of_a_handshake() {
        let frame = ByteCount::new(1538);
        let begins = |bytes: &[u64]| recording(bytes.iter().copied()).data_begins(frame);
        assert_eq!(begins(&[1538, 0, 1200, 1538, 0, 0, 1538, 6000]), 6);
        assert_eq!(begins(&[1538, 0, 0, 90, 6000, 9000]), 4);
        assert_eq!(begins(&[1538, 0]), 0);
    }

    #[test]
    fn a_rate_is_reached_by_the_mean_with_nothing_before_the_start() {
        let rate = Rate::from_bits_per_second(720_000);
        let second = Span::from_secs(1);
        assert_eq!(recording([100; 5000]).reaches(rate, second), Some(Span::from_millis(900)));
        assert_eq!(recording([100; 5000]).reaches(rate, Span::from_millis(100)), Some(Span::from_millis(90)));
        assert_eq!(recording([89; 5000]).reaches(rate, second), None);
        assert_eq!(recording([100; 899]).reaches(rate, second), None);
        assert_eq!(recording([]).reaches(rate, second), None);
        let late = recording((0..5000).map(|at| if at < 2000 { 0 } else { 100 }));
        assert_eq!(late.reaches(rate, second), Some(Span::from_millis(2900)));
    }
}
