//! One measurement of plain hosts with a long path between them, by relays or past them, on a machine that is calm if there is such a time, repeated
//! while the machine spoils it.
//!
//! Relays run on the labs' hosts, and their legs in between are all that is tuned: buffers grow with the path, congestion control is named.
//! What hosts and relays need of processors is theirs together, as on any lab: one that is full limits, not the path.

use icdc_units::{ByteCount, Span};

use super::calm::Figures;
use super::plain_flow::{Carried, PlainFlow};
use super::plain_hosts::{Plain, Row};
use super::relays::{Chain, Leg, Relays};
use super::simulated::algorithm;
use super::spread::Spread;
use super::trial::Figure;
use super::{Bench, calm};
use crate::LabError;
use crate::faults::spoilt;
use crate::recording::Recording;
use crate::settings::Settings;
use crate::wire::page::{Gauge, Way};

/// Ports of the far host.
const PORT: u16 = 5201;
const PORT_BESIDE: u16 = 5202;

/// What to measure.
#[derive(Clone, Debug)]
pub(super) struct Relaying {
    /// The paths, one after the other.
    pub(super) legs: Vec<Settings>,
    /// Congestion control between relays; `None`: the hosts only forward.
    pub(super) cc: Option<&'static str>,
    /// How the plain hosts are.
    pub(super) plain: Plain,
    /// Their socket buffers.
    pub(super) buffer: ByteCount,
    /// An earlier flow by the same relays, from which they know the path; none if that is zero.
    pub(super) earlier: Span,
    /// Before the flow begins.
    pub(super) delay: Span,
    /// For how long, from its first byte.
    pub(super) lasts: Span,
    /// Another flow of theirs, past the relays.
    pub(super) beside: Option<Beside>,
}

/// A flow past the relays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// Its socket buffers.
    pub(super) buffer: ByteCount,
    /// Before it begins.
    pub(super) delay: Span,
    /// For how long, from its first byte.
    pub(super) lasts: Span,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Relayed {
    pub(super) carried: Carried,
    /// Of the flow past the relays.
    pub(super) beside: Option<Carried>,
    /// The relays' legs, at the end.
    pub(super) legs: Vec<Leg>,
    /// What the first wire saw.
    pub(super) recording: Recording,
    /// Frames that the full queues dropped.
    pub(super) queue_drops: u64,
    /// Why it must not be used, if so.
    pub(super) spoilt: Option<String>,
}

impl Figures for Relayed {
    fn figures(&self) -> String {
        let beside = self.beside.as_ref().map(|carried| format!(", beside it {}", carried.mean())).unwrap_or_default();
        format!("{}{beside}, the first queue dropped {}", self.carried.mean(), self.queue_drops)
    }
}

/// Measures; gives the first attempt that the machine did not spoil, or the last one, marked.
pub(super) fn run(bench: &Bench<'_>, relaying: &Relaying) -> Result<Relayed, LabError> {
    let shortest = relaying.legs.iter().map(Settings::round_trip).min().unwrap_or_default();
    let tolerance = Figure::Means.tolerance(shortest);
    calm::unspoilt(
        bench,
        tolerance,
        || attempt_once(bench, relaying, tolerance),
        // Another algorithm than asked for would not change.
        |relayed| relayed.spoilt.as_deref().filter(|_| unlike(relaying, &relayed.legs).is_none()),
    )
}

/// What arrived at the applications per second, in Mbit/s.
pub(super) fn goodput(runs: &[Relayed]) -> Spread {
    Spread::of(runs.iter().map(|relayed| relayed.carried.mean().as_bits_per_second() as f64 / 1e6))
}

fn attempt_once(bench: &Bench<'_>, relaying: &Relaying, tolerance: Span) -> Result<Relayed, LabError> {
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
        let beside = relaying.beside.map(|Beside { buffer, delay, lasts }| {
            let flow = PlainFlow { port: PORT_BESIDE, relay: None, buffer, delay, lasts, ..flow };
            let row = &row;
            scope.spawn(move || flow.run(row, || ()))
        });
        let carried = flow.run(&row, || relays.as_ref().map(|relays| relays.legs(bench)).unwrap_or_default());
        let beside = beside.map(|beside| beside.join().expect("a flow does not panic")).transpose();
        Ok::<_, LabError>((carried?, beside?.map(|(carried, ())| carried)))
    })?;
    let mut pages = Vec::new();
    for lab in &row.labs {
        pages.push((lab.0.page()?, &lab.0.state.settings));
    }
    let machine = pages.iter().find_map(|(page, settings)| spoilt(page, settings, tolerance));
    Ok(Relayed {
        recording: Recording::of(&pages[0].0, Way::Forward, Span::MAX),
        queue_drops: pages.iter().map(|(page, _)| page.gauge(Way::Forward, Gauge::QueueDrops)).sum(),
        spoilt: unlike(relaying, &legs).or(machine),
        carried,
        beside,
        legs,
    })
}

/// Of the whole way.
fn round_trip(relaying: &Relaying) -> Span {
    relaying.legs.iter().map(Settings::round_trip).sum()
}

/// Whether a leg had another algorithm than it was told to have.
fn unlike(relaying: &Relaying, legs: &[Leg]) -> Option<String> {
    let wanted = algorithm(relaying.cc?).kernel_name();
    let other = legs.iter().find(|leg| leg.congestion != wanted)?;
    let used = if other.congestion.is_empty() { "nothing that was told" } else { other.congestion.as_str() };
    Some(format!("{used} was used in place of {wanted}"))
}

/// What a reader has to know about the measurements of a report.
pub(super) fn failures<'a>(relayed: impl IntoIterator<Item = (String, &'a Relayed)>) -> Vec<String> {
    let failure = |(name, relayed): (String, &Relayed)| Some(format!("{name}: {}", relayed.spoilt.as_ref()?));
    relayed.into_iter().filter_map(failure).collect()
}

/// From the call of `connect` to the first byte of an answer, through relays that keep so many connections warm, or past them.
pub(super) fn first_answer(
    bench: &Bench<'_>,
    leg: &Settings,
    plain: Plain,
    chain: Option<Chain<'_>>,
) -> Result<Span, LabError> {
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
