//! Rate and evenness of the frames of one flow at the path, by the wire's list of them.
//!
//! As PSPacer's authors measure it (Takano et al., 2006, section 4): the bandwidth over every n
//! consecutive packets, and the burst, which is the longest queue before a virtual bottleneck that
//! drains at the mean rate, here of each second. All counts what frames take on the wire.

use icdc_lab::wire::listing::{self, Listed};
use icdc_lab::{Lab, registry};
use icdc_scheduler::Burstiness;
use icdc_units::{ByteCount, Rate, Span, Time};

use crate::harness::error::ExperimentError;

/// Window over which the burst is measured.
const WINDOW: Span = Span::from_secs(1);

/// Time after which the wire's list is complete (written ten times a second).
pub(crate) const PUBLISHED: Span = Span::from_millis(300);

/// The frames that host a has sent so far, as the wire lists them.
pub(crate) fn list(lab: &Lab) -> Result<Vec<Listed>, ExperimentError> {
    let path = lab.directory().join(registry::FRAMES);
    listing::read(&path).map_err(|error| ExperimentError::io(format!("read {}", path.display()), error))
}

/// The frames of one flow in order: when the path had received each, and its length on the wire.
pub(crate) struct Spacing {
    frames: Vec<(Time, ByteCount)>,
}

/// Least, mean and greatest of the bandwidths over n consecutive packets, in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bandwidths {
    pub(crate) least: f64,
    pub(crate) mean: f64,
    pub(crate) greatest: f64,
}

impl Spacing {
    /// The frames to `to` that reached the path between two times.
    pub(crate) fn of(listed: &[Listed], to: u32, from: Time, until: Time) -> Self {
        let is_meant = |frame: &&Listed| frame.to == to && (from..until).contains(&frame.at);
        Self { frames: listed.iter().filter(is_meant).map(|frame| (frame.at, frame.length)).collect() }
    }

    /// Mean rate from the end of the first frame to the end of the last; zero if there are not two.
    pub(crate) fn rate(&self) -> Rate {
        let (Some((first, _)), Some((last, _))) = (self.frames.first(), self.frames.last()) else { return Rate::ZERO };
        if last == first {
            return Rate::ZERO;
        }
        self.frames.iter().skip(1).map(|&(_, length)| length).sum::<ByteCount>() / (*last - *first)
    }

    /// End of each run of `count` frames, in seconds since the first frame, and its bandwidth in
    /// bits per second.
    pub(crate) fn bandwidths(&self, count: usize) -> impl Iterator<Item = (f64, f64)> {
        self.frames.windows(count + 1).map(move |run| {
            let (before, after) = (run[0].0, run[count].0);
            let bytes = run[1..].iter().map(|&(_, length)| length).sum::<ByteCount>();
            let rate = bytes / (after - before).max(Span::from_nanos(1));
            ((after - self.frames[0].0).as_secs_f64(), rate.as_bits_per_second() as f64)
        })
    }

    /// Rates in consecutive windows from the first frame on, over `length`: begin of the window in
    /// seconds, and bit/s.
    pub(crate) fn rates_by(&self, window: Span, length: Span) -> Vec<(f64, f64)> {
        let index = |span: Span| (span.as_nanos() / window.as_nanos()) as usize;
        let mut sums = vec![ByteCount::ZERO; index(length)];
        let Some(&(first, _)) = self.frames.first() else { return Vec::new() };
        for &(at, length) in &self.frames {
            if let Some(sum) = sums.get_mut(index(at - first)) {
                *sum += length;
            }
        }
        let rate = |(number, sum): (usize, ByteCount)| {
            ((window * number as u64).as_secs_f64(), (sum / window).as_bits_per_second() as f64)
        };
        sums.into_iter().enumerate().map(rate).collect()
    }

    /// The most frames in a row that follow one another within `gap`.
    pub(crate) fn longest_run(&self, gap: Span) -> usize {
        let runs = self.frames.chunk_by(|(before, _), (after, _)| *after - *before <= gap);
        runs.map(<[_]>::len).max().unwrap_or(0)
    }

    /// Range and mean of the bandwidths over `count` packets; not a number where there are none.
    pub(crate) fn summary(&self, count: usize) -> Bandwidths {
        let (mut sum, mut runs) = (0.0, 0.0);
        let (mut least, mut greatest) = (f64::NAN, f64::NAN);
        for (_, rate) in self.bandwidths(count) {
            (sum, runs) = (sum + rate, runs + 1.0);
            (least, greatest) = (rate.min(least), rate.max(greatest));
        }
        Bandwidths { least, mean: sum / runs, greatest }
    }

    /// The largest burst of any second.
    pub(crate) fn burst(&self) -> ByteCount {
        let mut meter = Burstiness::new(WINDOW);
        let windows = self.frames.iter().filter_map(|&(at, length)| meter.packet(at, length));
        windows.map(|window| window.burst).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: u32 = 7;

    fn spacing(nanos: impl IntoIterator<Item = u64>) -> Spacing {
        let listed = |at| Listed { at: Time::from_nanos(at), length: ByteCount::new(1250), to: TO };
        let mut all: Vec<Listed> = nanos.into_iter().map(listed).collect();
        all.extend(all.first().map(|first| Listed { to: 8, ..*first }));
        Spacing::of(&all, TO, Time::ORIGIN, Time::MAX)
    }

    #[test]
    fn even_frames_have_one_bandwidth_and_a_burst_of_one() {
        // 1250 bytes each millisecond: 10 Mbit/s.
        let even = spacing((0..2500).map(|number| number * 1_000_000));
        assert_eq!(even.rate(), Rate::from_bits_per_second(10_000_000));
        for count in [1, 2] {
            assert_eq!(even.summary(count), Bandwidths { least: 1e7, mean: 1e7, greatest: 1e7 });
        }
        assert_eq!(even.burst(), ByteCount::new(1250));
        let rates = even.rates_by(Span::from_millis(2), Span::from_millis(6));
        assert_eq!(rates, [(0.0, 1e7), (0.002, 1e7), (0.004, 1e7)]);
    }

    #[test]
    fn pairs_show_in_single_frames_and_not_in_two() {
        let pairs = spacing((0..2500).map(|number| number / 2 * 2_000_000 + number % 2 * 500_000));
        let (one, two) = (pairs.summary(1), pairs.summary(2));
        assert_eq!((one.least.round(), one.greatest.round()), (6_666_666.0, 20_000_000.0));
        assert_eq!((two.least, two.greatest), (1e7, 1e7));
        assert!(pairs.burst() > ByteCount::new(1250) && pairs.burst() < ByteCount::new(2500));
        let (short, long) = (Span::from_micros(500), Span::from_micros(1500));
        assert_eq!([pairs.longest_run(short), pairs.longest_run(long), spacing([]).longest_run(long)], [2, 2500, 0]);
        assert_eq!(spacing([5]).rate(), Rate::ZERO);
        assert!(spacing([5]).summary(1).mean.is_nan());
    }
}
