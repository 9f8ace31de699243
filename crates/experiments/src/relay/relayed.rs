//! One measurement of plain hosts with a long path between them, through relays or direct. It waits
//! for a calm machine, and is repeated if the machine disturbed it.
//!
//! Relays run on the labs' hosts, and their legs in between are all that is tuned: buffers grow
//! with the path, congestion control is named. What hosts and relays need of processors is theirs
//! together, as on any lab: one that is full limits, not the path.

use icdc_lab::recording::Recording;
use icdc_lab::{Gauge, Heading, Settings, spoilt};
use icdc_units::{ByteCount, Span};

use crate::harness::bench::Bench;
use crate::harness::error::ExperimentError;
use crate::harness::figures::spread::Spread;
use crate::harness::measurement::rate_control::algorithm;
use crate::harness::repetition::attempts::{self, Figures};
use crate::harness::repetition::resolution::Resolution;
use crate::relay::plain_flow::{Carried, PlainFlow};
use crate::relay::plain_hosts::{Plain, Row};
use crate::relay::relays::{Chain, RelayLeg, Relays};

/// TCP port of the flows on the far host.
const PORT: u16 = 5201;
/// TCP port of the flow beside the relayed one.
const PORT_BESIDE: u16 = 5202;

/// A measurement of a flow between plain hosts, direct or through relays, as a scenario requests
/// it.
#[derive(Clone, Debug)]
pub(crate) struct Relaying {
    /// The paths, one after the other.
    pub(crate) legs: Vec<Settings>,
    /// Congestion control between relays; `None`: the hosts only forward.
    pub(crate) cc: Option<&'static str>,
    /// Settings of the plain hosts.
    pub(crate) plain: Plain,
    /// Size of the plain hosts' socket buffers.
    pub(crate) buffer: ByteCount,
    /// Length of an earlier flow by the same relays, from which they know the path; zero for none.
    pub(crate) earlier: Span,
    /// Delay before the flow begins.
    pub(crate) delay: Span,
    /// Length of the flow, from its first byte.
    pub(crate) lasts: Span,
    /// Another flow of the plain hosts, which is not relayed; `None` for none.
    pub(crate) beside: Option<BesideFlow>,
}

/// A flow between the plain hosts that is not relayed, at the same time as the measured one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BesideFlow {
    /// Size of the flow's socket buffers.
    pub(crate) buffer: ByteCount,
    /// Delay before this flow begins.
    pub(crate) delay: Span,
    /// Length of the flow, from its first byte.
    pub(crate) lasts: Span,
}

/// Result of a measurement of a flow between plain hosts, direct or through relays.
#[derive(Clone, Debug)]
pub(crate) struct Relayed {
    pub(crate) carried: Carried,
    /// Data of the flow that is not relayed; `None` if there was none.
    pub(crate) beside: Option<Carried>,
    /// The relays' legs, at the end.
    pub(crate) legs: Vec<RelayLeg>,
    /// Recording of the packets on the first lab's wire.
    pub(crate) recording: Recording,
    /// Frames that the full queues dropped.
    pub(crate) queue_drops: u64,
    /// Reason why the result is invalid, if it is.
    pub(crate) spoilt: Option<String>,
}

impl Figures for Relayed {
    fn figures(&self) -> String {
        let beside = self.beside.as_ref().map(|carried| format!(", beside it {}", carried.mean())).unwrap_or_default();
        format!("{}{beside}, the first queue dropped {}", self.carried.mean(), self.queue_drops)
    }
}

/// Measures; returns the first attempt that the machine did not disturb, or the last one, marked as
/// invalid.
pub(crate) fn run(bench: &Bench<'_>, relaying: &Relaying) -> Result<Relayed, ExperimentError> {
    let shortest = relaying.legs.iter().map(Settings::round_trip).min().unwrap_or_default();
    let tolerance = Resolution::Means.tolerance(shortest);
    attempts::unspoilt(
        bench,
        tolerance,
        || attempt_once(bench, relaying, tolerance),
        // A wrong algorithm would be the same in another attempt.
        |relayed| relayed.spoilt.as_deref().filter(|_| unlike(relaying, &relayed.legs).is_none()),
    )
}

/// Goodput at the applications over the runs, in Mbit/s.
pub(crate) fn goodput(runs: &[Relayed]) -> Spread {
    Spread::of(runs.iter().map(|relayed| relayed.carried.mean().as_bits_per_second() as f64 / 1e6))
}

/// Measures once, in labs of its own; marked as invalid if packets were later than `tolerance`.
fn attempt_once(bench: &Bench<'_>, relaying: &Relaying, tolerance: Span) -> Result<Relayed, ExperimentError> {
    let row = Row::new(bench, &relaying.legs, relaying.plain)?;
    let chain = relaying.cc.map(|cc| Chain { cc, warm: 0 });
    let relays = chain.map(|chain| Relays::start(bench, &row, chain, PORT)).transpose()?;
    let flow = PlainFlow {
        port: PORT,
        relay: relays.as_ref().map(|relays| relays.door),
        congestion: relaying.plain.congestion,
        buffer: relaying.buffer,
        delay: relaying.delay,
        lasts: relaying.lasts,
    };
    if !relaying.earlier.is_zero() {
        PlainFlow { delay: Span::ZERO, lasts: relaying.earlier, ..flow }.run(&row, || ())?;
        // What it has left in the queue must have gone.
        icdc_packet::clock::sleep_until(icdc_packet::clock::now() + round_trip(relaying) * 2);
    }
    let ((carried, legs), beside) = std::thread::scope(|scope| {
        let beside = relaying.beside.map(|BesideFlow { buffer, delay, lasts }| {
            let flow = PlainFlow { port: PORT_BESIDE, relay: None, buffer, delay, lasts, ..flow };
            let row = &row;
            scope.spawn(move || flow.run(row, || ()))
        });
        let carried = flow.run(&row, || relays.as_ref().map(|relays| relays.legs(bench)).unwrap_or_default());
        let beside = beside.map(|beside| beside.join().expect("a flow does not panic")).transpose();
        Ok::<_, ExperimentError>((carried?, beside?.map(|(carried, ())| carried)))
    })?;
    let mut pages = Vec::new();
    for lab in &row.labs {
        pages.push((lab.page()?, &lab.record.settings));
    }
    let machine = pages.iter().find_map(|(page, settings)| spoilt(page, settings, tolerance));
    Ok(Relayed {
        recording: Recording::of(&pages[0].0, Heading::Forward, Span::MAX),
        queue_drops: pages.iter().map(|(page, _)| page.gauge(Heading::Forward, Gauge::QueueDrops)).sum(),
        spoilt: unlike(relaying, &legs).or(machine),
        carried,
        beside,
        legs,
    })
}

/// Round-trip time of the whole route.
fn round_trip(relaying: &Relaying) -> Span {
    relaying.legs.iter().map(Settings::round_trip).sum()
}

/// The message that a leg had another algorithm than the requested one; `None` if none had, or none
/// was requested.
fn unlike(relaying: &Relaying, legs: &[RelayLeg]) -> Option<String> {
    let wanted = algorithm(relaying.cc?).kernel_name();
    let other = legs.iter().find(|leg| leg.congestion != wanted)?;
    let used = if other.congestion.is_empty() { "an unknown algorithm" } else { other.congestion.as_str() };
    Some(format!("{used} was used in place of {wanted}"))
}

/// Messages about invalid measurements for a report.
pub(crate) fn failures<'a>(relayed: impl IntoIterator<Item = (String, &'a Relayed)>) -> Vec<String> {
    attempts::failures(relayed.into_iter().map(|(name, relayed)| (name, &relayed.spoilt)))
}

/// Time from the call of `connect` to the first byte of an answer, through relays that keep `warm`
/// connections open, or direct.
pub(crate) fn first_answer(
    bench: &Bench<'_>,
    leg: &Settings,
    plain: Plain,
    chain: Option<Chain<'_>>,
) -> Result<Span, ExperimentError> {
    let row = Row::new(bench, std::slice::from_ref(leg), plain)?;
    let relays = chain.map(|chain| Relays::start(bench, &row, chain, PORT)).transpose()?;
    let flow = PlainFlow {
        port: PORT,
        relay: relays.as_ref().map(|relays| relays.door),
        congestion: plain.congestion,
        buffer: ByteCount::from_kib(64),
        delay: Span::ZERO,
        lasts: Span::ZERO,
    };
    // Connections that are kept warm have found their other end by then.
    icdc_packet::clock::sleep_until(icdc_packet::clock::now() + leg.round_trip() * 4);
    flow.first_answer(&row)
}
