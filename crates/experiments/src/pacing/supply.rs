//! Datagrams from host a to many destinations behind host b, to each always a little more than its
//! class of the pacer may send: what a class shows then is the pacer's doing alone.
//!
//! Destinations are addresses to which host a has a route through host b, which drops what comes
//! for them without an answer.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use icdc_lab::{Host, Lab, LabError, program};
use icdc_packet::{clock, datagrams};
use icdc_units::{ByteCount, Rate, Ratio, Span};

use crate::harness::error::ExperimentError;
use crate::harness::traffic::cross_traffic::{FRAME, PAYLOAD};

/// Network of all destinations.
const NETWORK: &str = "10.27.0.0/16";
/// Interval at which datagrams are sent.
const TICK: Span = Span::from_millis(1);
/// Initial reserve of a class, as time at its rate.
const RESERVE: Span = Span::from_millis(80);
/// Least initial reserve of a class: eight frames.
const LEAST_RESERVE: ByteCount = ByteCount::new(8 * FRAME.as_u64());
/// Number of datagrams that one system call sends.
const AT_ONCE: u64 = (datagrams::MOST / PAYLOAD) as u64;
/// Supplied rate relative to that of the class: 101 %.
const SURPLUS: Ratio = Ratio::new(101, 100);

/// IPv4 address of the destination of this number.
pub(crate) fn address(number: usize) -> Ipv4Addr {
    let [.., high, low] = (number as u32 + 1).to_be_bytes();
    Ipv4Addr::new(10, 27, high, low)
}

/// Amount that a class is supplied with at the beginning, beyond its rate.
fn reserve(rate: Rate) -> ByteCount {
    (rate * RESERVE).max(LEAST_RESERVE)
}

/// Longest pause of the supply that leaves none of these classes empty: the shortest time that a
/// reserve lasts.
pub(crate) fn shortest_reserve(rates: &[Rate]) -> Span {
    rates.iter().map(|rate| reserve(*rate) / *rate).min().unwrap_or(RESERVE)
}

/// Queue that a class of this rate needs to hold its reserve.
pub(crate) fn queue(rate: Rate) -> ByteCount {
    reserve(rate) * 3 / 2
}

/// Makes the routes to the destinations: host a sends by host b, which drops the traffic.
pub(crate) fn prepare(lab: &Lab) -> Result<(), LabError> {
    lab.on(Host::B, || program::ip(&["route", "add", "blackhole", NETWORK], ""))?;
    lab.on(Host::A, || program::ip(&["route", "add", NETWORK, "via", "10.26.33.2"], ""))
}

/// Supplies each destination with its rate until `over`; moves the calling thread to host a.
/// Returns the longest stall of the thread: a stall longer than the reserve may have left classes
/// empty.
pub(crate) fn run(lab: &Lab, rates: &[Rate], over: &AtomicBool) -> Result<Span, ExperimentError> {
    let failed = |error| ExperimentError::io("send datagrams", error);
    lab.enter(Host::A)?;
    let socket = UdpSocket::bind(("10.26.33.1", 0)).map_err(failed)?;
    datagrams::cut(&socket, PAYLOAD as u16).map_err(|error| failed(error.cause))?;
    let (payload, start) = ([0; PAYLOAD * AT_ONCE as usize], clock::now());
    let mut sent = vec![ByteCount::ZERO; rates.len()];
    let (mut before, mut longest) = (start, Span::ZERO);
    while !over.load(Ordering::Relaxed) {
        let now = clock::now();
        longest = longest.max(now - before);
        before = now;
        for (number, (rate, sent)) in rates.iter().zip(&mut sent).enumerate() {
            let supply = *rate * SURPLUS;
            let wanted = reserve(*rate) + supply * (now - start);
            while *sent < wanted {
                let count = (wanted - *sent).as_u64().div_ceil(FRAME.as_u64()).min(AT_ONCE);
                socket.send_to(&payload[..PAYLOAD * count as usize], (address(number), 9)).map_err(failed)?;
                *sent += FRAME * count;
            }
        }
        clock::sleep_until(now + TICK);
    }
    Ok(longest)
}
