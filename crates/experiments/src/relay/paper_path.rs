//! The path of the TCP-proxy paper's experiments (Yamanegi, Hama, Hasegawa, Murata et al.), and how
//! flows on it are named.

use icdc_lab::Settings;
use icdc_units::{ByteCount, Rate, Span};

use crate::harness::hosts::paths::path;

/// Rate of the paper's bottleneck.
pub(crate) const RATE: Rate = Rate::from_bits_per_second(70_000_000);
/// Tokyo–Osaka, and as far as Okinawa: the paper adds 25 ms, of the round trip or each way.
pub(crate) const ROUND_TRIPS: [Span; 3] = [Span::from_millis(18), Span::from_millis(43), Span::from_millis(68)];
/// Size of the queue at the bottleneck.
pub(crate) const QUEUE: ByteCount = ByteCount::new(100_000);
/// Largest window of TCP without window scaling.
pub(crate) const UNSCALED: ByteCount = ByteCount::from_kib(64);

/// The path at a round trip.
pub(crate) fn settings(round_trip: Span) -> Settings {
    Settings::symmetric(path(RATE, round_trip, QUEUE))
}

/// Name of the connection between the hosts: direct, or relays with this congestion control.
pub(crate) fn between(cc: Option<&str>) -> String {
    cc.map_or_else(|| "direct".to_owned(), |cc| format!("{cc} between relays"))
}
