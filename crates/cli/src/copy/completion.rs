//! Predicts when a copy is complete, by how fast its work was done in the recent past.
//!
//! ```text
//!  work = bytes + κ · files       κ: what a file costs besides its bytes, in bytes that take as long
//!  v    = work done per second since the rate last changed
//!  left = (bytes left + κ · files left) / v
//!
//!  weight of κ ∝ prior(κ) · (deviation of v + LEAST_DEVIATION)^(−intervals)
//!  expected: weighted median of `left` over all κ      bounds: quantiles, widened by how much v varies
//! ```
//!
//! κ is not measured but weighed: the right one is that with which the rate stays the same although the files become
//! smaller or larger. Where all files so far are alike, nothing is learned of it. If those that are left are like them,
//! this makes no difference; else the bounds lie far apart.
//!
//! Observations are averaged over intervals, which double in length when there are [`MOST_POINTS`]. The rate has changed
//! where the intervals before and after differ by [`CHANGE`] standard errors. So neither slow start nor a rate that was
//! cut in half stays in the mean, and noise is averaged over all the time since. This is adaptive windowing after
//! Bifet and Gavaldà, “Learning from time-changing data with adaptive windowing” (2007), with a test of means in place
//! of Hoeffding's bound.
//!
//! The variance of the prediction is that of the mean of the `n` intervals which were observed and of the `m` which are
//! still to come: `s² · (1/n + 1/m)`.

/// Seconds over which observations are averaged at first: four samples of a copy, whose bytes arrive in steps of a tenth
/// of a second.
const INTERVAL: f64 = 0.4;
/// Number of intervals at which pairs of them become one. Chosen: those of a long copy are at most a sixtieth of it.
const MOST_POINTS: usize = 128;
/// Least number of intervals with which something is predicted.
const LEAST_INTERVALS: usize = 4;
/// Difference of two rates in standard errors that counts as a change. Chosen: up to 128 places are tried for it, so
/// that 3 would find changes in noise.
const CHANGE: f64 = 4.0;
/// Part of the observed time that a rate must last to count as a new one, and the bounds of this time in seconds: a disk
/// that pauses now and then, and the sawtooth of a congestion window, are no changes.
const LASTING: (f64, [f64; 2]) = (0.25, [1.0, 15.0]);
/// Relative deviation of the rate that always has to be reckoned with; it keeps the weight of one κ from being infinite.
const LEAST_DEVIATION: f64 = 0.02;
/// Variance of independent intervals over that of rates between the means of two neighbours, which are smoother by a
/// triangular window (its squares sum up to 2/3).
const SMOOTHED: f64 = 1.5;
/// Relative deviation of the rate that is assumed before it is known, and the number of intervals that it stands for.
const ASSUMED_DEVIATION: (f64, f64) = (0.1, 2.0);
/// Most intervals that weigh for a κ: neighbours are not independent.
const MOST_WEIGHTY: usize = 16;
/// Part of the median rate below which the first intervals are not compared: slow start says nothing about files.
const SLOW: f64 = 0.7;
/// Costs of a file in bytes, and how likely each is before anything is known. On a network file system it may be
/// milliseconds.
const COSTS: [(f64, f64); 8] =
    [(0.0, 0.5), (1e3, 0.14), (4e3, 0.12), (16e3, 0.1), (64e3, 0.07), (256e3, 0.04), (1e6, 0.02), (4e6, 0.01)];
/// Costs of a file in bytes where the path limits: none, as small files travel many to a block.
const NO_COST: [(f64, f64); 1] = [(0.0, 1.0)];
/// Shares of the weight that lie below the bounds.
const QUANTILES: [f64; 3] = [0.1, 0.5, 0.9];
/// Standard deviations between the prediction and each bound.
const SPREAD: f64 = 2.0;

/// Amount of work: contents and files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    pub(crate) bytes: f64,
    pub(crate) files: f64,
}

impl Work {
    /// Work in bytes, if a file costs as much as `cost` bytes.
    fn at(self, cost: f64) -> f64 {
        self.bytes + cost * self.files
    }
}

/// Time in seconds until a copy is complete, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeLeft {
    pub(crate) expected: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// Predictor of the time that a copy still takes.
#[derive(Debug)]
pub(crate) struct Completion {
    /// Costs of a file in bytes that are possible, and how likely each is.
    costs: &'static [(f64, f64)],
    /// Time of the last observation in seconds, and the work done by then; `None` after an interruption.
    last: Option<(f64, Work)>,
    /// Time that was observed and work done in it.
    observed: Point,
    /// Means of the observations of one interval each.
    points: Vec<Point>,
    /// Sums of the observations of the interval that goes on, with their number.
    open: (Point, u32),
    /// Length of an interval in seconds.
    interval: f64,
    /// Observed time at which the interval that goes on ends.
    end: f64,
}

/// Observed time in seconds, and the work done by then.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    seconds: f64,
    done: Work,
}

impl Point {
    fn plus(self, other: Self) -> Self {
        let done = Work { bytes: self.done.bytes + other.done.bytes, files: self.done.files + other.done.files };
        Self { seconds: self.seconds + other.seconds, done }
    }

    fn times(self, factor: f64) -> Self {
        let done = Work { bytes: self.done.bytes * factor, files: self.done.files * factor };
        Self { seconds: self.seconds * factor, done }
    }
}

impl Completion {
    /// Predictor of a copy whose files may cost time besides their bytes, before any observation.
    pub(crate) fn of_files() -> Self {
        Self::with(&COSTS)
    }

    /// Predictor of a copy that only its bytes delay, before any observation.
    pub(crate) fn of_bytes() -> Self {
        Self::with(&NO_COST)
    }

    fn with(costs: &'static [(f64, f64)]) -> Self {
        let (points, open) = (Vec::new(), (Point::default(), 0));
        Self { costs, last: None, observed: Point::default(), points, open, interval: INTERVAL, end: INTERVAL }
    }

    /// Takes the work that was done by this time. Both only grow; if one does not, that counts as an interruption.
    pub(crate) fn observe(&mut self, seconds: f64, done: Work) {
        let before = self.last.replace((seconds, done));
        let Some((then, past)) =
            before.filter(|(then, past)| *then < seconds && past.bytes <= done.bytes && past.files <= done.files)
        else {
            return;
        };
        let new = Work { bytes: done.bytes - past.bytes, files: done.files - past.files };
        self.observed = self.observed.plus(Point { seconds: seconds - then, done: new });
        self.open = (self.open.0.plus(self.observed), self.open.1 + 1);
        if self.observed.seconds < self.end {
            return;
        }
        let (sum, number) = std::mem::take(&mut self.open);
        self.points.push(sum.times(1.0 / f64::from(number)));
        self.end = self.observed.seconds + self.interval;
        if self.points.len() >= MOST_POINTS {
            self.points = self.points.chunks_exact(2).map(|pair| pair[0].plus(pair[1]).times(0.5)).collect();
            self.interval *= 2.0;
        }
    }

    /// Leaves out the time until the next observation, and what is done in it.
    pub(crate) fn interrupt(&mut self) {
        self.last = None;
    }

    /// Forgets what was observed: from now on, other rates apply.
    pub(crate) fn forget(&mut self) {
        *self = Self::with(self.costs);
    }

    /// Time until this work is done as well; `None` as long as it cannot be said.
    pub(crate) fn left(&self, left: Work) -> Option<TimeLeft> {
        if self.points.len() <= LEAST_INTERVALS {
            return None;
        }
        let mut outcomes: Vec<_> =
            self.costs.iter().filter_map(|(cost, prior)| self.outcome(*cost, *prior, left)).collect();
        outcomes.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
        // Weights are logarithms up to here, relative to the greatest.
        let greatest = outcomes.iter().map(|outcome| outcome.weight).max_by(f64::total_cmp)?;
        outcomes.iter_mut().for_each(|outcome| outcome.weight = (outcome.weight - greatest).exp());
        let [least, expected, most] = QUANTILES.map(|share| quantile(&outcomes, share));
        Some(TimeLeft {
            expected: expected.seconds,
            least: least.seconds * (-SPREAD * least.deviation).exp(),
            most: most.seconds * (SPREAD * most.deviation).exp(),
        })
    }

    /// Time left if a file costs as much as `cost` bytes; `None` if nothing would have been done then.
    fn outcome(&self, cost: f64, prior: f64, left: Work) -> Option<Outcome> {
        let intervals: Vec<_> = self.points.windows(2).map(|pair| Interval::between(pair[0], pair[1], cost)).collect();
        let recent = since_change(&intervals);
        let total = Interval::total(recent);
        let rate = Some(total.rate()).filter(|rate| *rate > 0.0)?;
        let seconds = left.at(cost) / rate;
        let (assumed, weight) = ASSUMED_DEVIATION;
        let number = recent.len() as f64;
        let variance = (SMOOTHED * squares(recent) / rate.powi(2) + weight * assumed.powi(2)) / (number - 1.0 + weight);
        let to_come = (seconds * number / total.seconds).max(1.0);
        let deviation = (variance * (1.0 / number + 1.0 / to_come)).sqrt().clamp(LEAST_DEVIATION / SPREAD, 1.0);
        Some(Outcome { seconds, deviation, weight: prior.ln() + likelihood(&intervals)? })
    }
}

/// Time left with one cost of a file.
struct Outcome {
    seconds: f64,
    /// Relative standard deviation of the time.
    deviation: f64,
    /// Weight of the cost.
    weight: f64,
}

/// The outcome at which this share of the weight is reached.
fn quantile(outcomes: &[Outcome], share: f64) -> &Outcome {
    let total: f64 = outcomes.iter().map(|outcome| outcome.weight).sum();
    let mut sum = 0.0;
    let reached = outcomes.iter().find(|outcome| {
        sum += outcome.weight;
        sum >= share * total
    });
    reached.unwrap_or(&outcomes[outcomes.len() - 1])
}

/// Time in seconds, and the work in bytes that was done in it.
#[derive(Clone, Copy, Debug)]
struct Interval {
    seconds: f64,
    work: f64,
}

impl Interval {
    fn between(one: Point, other: Point, cost: f64) -> Self {
        Self { seconds: other.seconds - one.seconds, work: other.done.at(cost) - one.done.at(cost) }
    }

    fn total(intervals: &[Self]) -> Self {
        let sum = |part: fn(&Self) -> f64| intervals.iter().map(part).sum();
        Self { seconds: sum(|interval| interval.seconds), work: sum(|interval| interval.work) }
    }

    fn rate(self) -> f64 {
        if self.seconds > 0.0 { self.work / self.seconds } else { 0.0 }
    }
}

/// Sum of the squares by which the rates of intervals differ from that of all.
fn squares(intervals: &[Interval]) -> f64 {
    let mean = Interval::total(intervals).rate();
    intervals.iter().map(|interval| (interval.rate() - mean).powi(2)).sum()
}

/// The last of the intervals, in which the rate has not changed.
fn since_change(mut intervals: &[Interval]) -> &[Interval] {
    let (share, [least, most]) = LASTING;
    let lasting = (share * Interval::total(intervals).seconds).clamp(least, most);
    loop {
        let places = (1..intervals.len().saturating_sub(1)).filter_map(|place| {
            let (before, after) = intervals.split_at(place);
            (Interval::total(after).seconds >= lasting).then(|| (place, difference(before, after)))
        });
        match places.max_by(|one, other| one.1.total_cmp(&other.1)) {
            Some((place, difference)) if difference >= CHANGE => intervals = &intervals[place..],
            _ => return intervals,
        }
    }
}

/// Difference between the rates before and after in standard errors.
fn difference(before: &[Interval], after: &[Interval]) -> f64 {
    let [old, new] = [before, after].map(|part| Interval::total(part).rate());
    let [older, newer] = [before, after].map(|part| part.len() as f64);
    let within = (squares(before) + squares(after)) / (older + newer - 2.0);
    let variance = within.max((LEAST_DEVIATION * new).powi(2)).max(f64::MIN_POSITIVE);
    (old - new).abs() / (variance * (1.0 / older + 1.0 / newer)).sqrt()
}

/// Logarithm of how well it fits that the rate stayed the same in these intervals, but for slow start; `None` if nothing
/// was done in them.
fn likelihood(intervals: &[Interval]) -> Option<f64> {
    let mut rates: Vec<_> = intervals.iter().map(|interval| interval.rate()).collect();
    rates.sort_by(f64::total_cmp);
    let median = *rates.get(rates.len() / 2)?;
    let first = intervals.iter().position(|interval| interval.rate() >= SLOW * median)?;
    let compared = &intervals[first..];
    let mean = Some(Interval::total(compared).rate()).filter(|mean| *mean > 0.0)?;
    let deviation = (squares(compared) / compared.len() as f64).sqrt() / mean;
    Some(-(compared.len().min(MOST_WEIGHTY) as f64) * (deviation + LEAST_DEVIATION).ln())
}

#[cfg(test)]
mod tests;
