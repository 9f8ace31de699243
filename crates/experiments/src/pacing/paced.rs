//! One measurement of the wire pacer in a lab of its own: classes that always have something to
//! send share the line of host a, and the wire's list tells when it had received each of their
//! frames: the stamp of the kernel, and what the line carried before it. That the wire delivers
//! late changes nothing of it; that the pacer leaves the line idle does, or that it has nothing to
//! send. Repeated while the machine spoils it.
//!
//! ```text
//! supply ─► UDP ─► icdc pace wire ═ line, 1 Gbit/s, gap frames ═► wire: list of frames ─► host b drops them
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use icdc_lab::{Settings, spoilt};
use icdc_packet::clock;
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::hosts::paths::path;
use crate::harness::hosts::temporary_lab::TemporaryLab;
use crate::harness::repetition::attempts::{self, Figures};
use crate::harness::traffic::cross_traffic::FRAME;
use crate::harness::traffic::wire_pacer::{self, LEAD, PacerSummary, WirePacer};
use crate::pacing::spacing::{self, PUBLISHED, Spacing};
use crate::pacing::supply;

/// Rate of the line between host a and the path.
pub(crate) const LINE: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Round-trip time of the path.
const ROUND_TRIP: Span = Span::from_millis(10);
/// Size of the path's queue.
const QUEUE: ByteCount = ByteCount::new(2_500_000);
/// Length of the start-up, which does not count.
const SETTLING: Span = Span::from_secs(1);
/// Tolerated total time for which the line was idle: more would change the mean of a second, by
/// which bursts are judged.
const BEARABLE: Span = Span::from_micros(100);

/// Result of a measurement of the wire pacer.
pub(crate) struct Paced {
    /// Spacing of the frames of each class, in order.
    pub(crate) classes: Vec<Spacing>,
    /// Share of a processor that the pacer took, what the kernel did in its name included.
    pub(crate) processor: f64,
    /// The summary in the pacer's output.
    pub(crate) summary: PacerSummary,
    /// Reason why the result is invalid, if it is.
    pub(crate) spoilt: Option<String>,
}

impl Figures for Paced {
    fn figures(&self) -> String {
        let all: f64 = self.classes.iter().map(|class| class.rate().as_bits_per_second() as f64).sum();
        format!("{:.3} Mbit/s in all, {:.1} % of a processor", all / 1e6, self.processor * 100.0)
    }
}

/// Measures the wire pacer for `length`, with one class for each of these rates. Returns the first
/// attempt that the machine did not disturb, or the last one, marked as invalid.
pub(crate) fn run(bench: &Bench<'_>, rates: &[Rate], length: Span) -> Result<Paced, ExperimentError> {
    attempts::unspoilt(bench, LEAD, || once(bench, rates, length), |paced: &Paced| paced.spoilt.as_deref())
}

/// Measures once, in a lab of its own.
fn once(bench: &Bench<'_>, rates: &[Rate], length: Span) -> Result<Paced, ExperimentError> {
    let direction = icdc_path::Settings { line_rate: Some(LINE), ..path(LINE, ROUND_TRIP, QUEUE) };
    // All frames on the line.
    let listed = (LINE * (SETTLING + length + PUBLISHED * 4)).as_u64() / FRAME.as_u64();
    let settings = Settings { listed, ..Settings::symmetric(direction) };
    let lab = TemporaryLab::new(bench, &settings)?;
    supply::prepare(&lab)?;
    let pacer = WirePacer::start(bench, &lab, "eth0", &classes(rates), &[])?;
    let over = AtomicBool::new(false);
    let (from, until, used, unsupplied) = thread::scope(|scope| {
        let supply = scope.spawn(|| supply::run(&lab, rates, &over));
        clock::sleep_until(clock::now() + SETTLING);
        let (from, before) = (clock::now(), pacer.used());
        clock::sleep_until(from + length);
        let (until, after) = (clock::now(), pacer.used());
        over.store(true, Ordering::Relaxed);
        let unsupplied = supply.join().expect("supplying does not panic")?;
        Ok::<_, ExperimentError>((from, until, after - before, unsupplied))
    })?;
    let summary = pacer.stop()?;
    clock::sleep_until(clock::now() + PUBLISHED);
    let page = lab.page()?;
    let list = spacing::list(&lab)?;
    let late = Span::from_nanos((summary.late_seconds * 1e9) as u64);
    let held_up = (late > BEARABLE).then(|| format!("the pacer was kept from running for {late} beyond its lead"));
    let ran_dry =
        (unsupplied > supply::shortest_reserve(rates)).then(|| format!("nothing was supplied for {unsupplied}"));
    let spacing = |number| Spacing::of(&list, supply::address(number).into(), from, until);
    Ok(Paced {
        classes: (0..rates.len()).map(spacing).collect(),
        processor: used.ratio(until - from),
        summary,
        spoilt: spoilt(&page, &settings, Span::MAX).or(held_up).or(ran_dry),
    })
}

/// Text of the pacer's file of classes: one for each rate, for the traffic to its destination.
fn classes(rates: &[Rate]) -> String {
    let class = |(number, rate): (usize, &Rate)| {
        let (to, queue) = (supply::address(number), supply::queue(*rate));
        wire_pacer::class(number, *rate, queue, &format!("to = \"{to}\""))
    };
    rates.iter().enumerate().map(class).collect()
}

/// Size of a burst in frames of full size, which take 1538 bytes on the wire ([`FRAME`]).
pub(crate) fn frames(burst: ByteCount) -> f64 {
    burst.ratio(FRAME)
}

/// Deviation of a rate from the one that was `asked` for, in per cent.
pub(crate) fn error(rate: Rate, asked: Rate) -> f64 {
    (rate.ratio(asked) - 1.0) * 100.0
}
