//! Rates that paths have carried, remembered as the starting point of later connections.
//!
//! A path is a destination prefix (/24 of IPv4, /48 of IPv6, as address registries and routing
//! tables use) together with the local address, which stands for the interface. Remembered are its
//! rate and its least round-trip time. Where trains or a ceiling find the rate, it is the highest
//! one that held for four round trips, though a busy host may have sent less; otherwise it is the
//! best rate that was held without significant loss. The rate that a later connection finds replaces
//! it; a connection that finds none leaves it until it is too old.
//!
//! The model is Careful Resume (RFC 9959), by its phases:
//!
//! | phase | congestion control `icdc` (`crates/cc/c/icdc.c`) | [`Bundle`](crate::bundle::Bundle) |
//! |---|---|---|
//! | Observing | [`PathWatch`] | the same |
//! | Reconnaissance | the handshake took about as long; then PROBE, one train of packets at the known rate and nothing else | the handshake; windows double up to an eighth of it |
//! | Unvalidated | FILL at half of it, where three trains have told nothing | none: what is sent doubles as on any path |
//! | Validating | what the train shows is free, at once | a train that shows about the known rate |
//! | Safe Retreat | a train with losses: the next at half; FILL with losses: what was delivered | CLIMB with losses: half, then what was carried |
//! | Normal | HOLD | STEERED |
//!
//! Unlike there, a rate is remembered and not a window, the first flight is a train that shows what is free now,
//! and what it shows is used without a further round trip.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use icdc_units::{ByteCount, Prefix, Rate, Ratio, Span, Time};
use serde::{Deserialize, Serialize};

/// Greatest age of an entry, because paths change. Chosen: a month.
pub const OLDEST: Span = Span::from_secs(30 * 24 * 3600);
/// Most entries; the oldest go first. Chosen: the file stays small enough to be read at each start
/// (`crates/tuning/src/known_paths.rs`).
pub const MOST: usize = 1000;
/// Part by which the round-trip time of the same path may differ, beside [`ROUND_TRIP_SLACK`].
/// Chosen: at 1/16 and 1/4 test `another_round_trip_time_is_another_path_and_time_passes` fails.
const ROUND_TRIP_TOLERANCE: Ratio = Ratio::new(1, 8);
/// Time by which the round-trip time of the same path may differ besides. Chosen: at 1 ms and 4 ms
/// test `another_round_trip_time_is_another_path_and_time_passes` fails.
const ROUND_TRIP_SLACK: Span = Span::from_millis(2);
/// Round trips for which a safe rate is carried, twice in a row. Chosen: no test fails at 2 and 8.
const SAFE_ROUNDS: u64 = 4;
/// Shortest time of [`SAFE_ROUNDS`]. Chosen: at 1000 ms test
/// `only_a_rate_that_was_carried_for_a_while_without_loss_is_worth_remembering` fails; at 250 ms no
/// test fails.
const SHORTEST_SPAN: Span = Span::from_millis(500);
/// Greatest multiple of the first rate that the second one may be: a rate that still grows is not
/// the path's. Chosen: no test fails at 11/10 and 7/5.
const SAFE_GROWTH: Ratio = Ratio::new(6, 5);
/// Greatest part of the packets that may be lost at a safe rate. Chosen: no test fails at 1/2000
/// and 1/500.
const SAFE_LOSS: Ratio = Ratio::new(1, 1000);
/// Least part of a found rate that must be acknowledged on average over [`SAFE_ROUNDS`], for the
/// rate to be remembered: with less the sender has not tried it. Chosen: at 1 test
/// `what_the_path_has_shown_is_remembered_and_not_what_a_busy_host_made_of_it` fails; at 1/4 no
/// test fails.
const USED_SHARE: Ratio = Ratio::new(1, 2);

/// A remembered path and its measured values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPath {
    /// Prefix of the destination's address.
    pub to: Prefix,
    /// Local address from which the path begins.
    pub from: IpAddr,
    /// Rate of payload that the path carried.
    pub rate: Rate,
    /// Least round-trip time that was measured.
    pub round_trip: Span,
    /// Time at which that was found, in seconds since 1970.
    pub seen: u64,
}

impl KnownPath {
    /// Whether the entry is no older than [`OLDEST`] at `now`, in seconds since 1970.
    #[must_use]
    pub fn is_young(&self, now: u64) -> bool {
        now.saturating_sub(self.seen) <= OLDEST.as_secs()
    }

    /// Range of handshake times for which a new connection counts as being on this path:
    /// about the remembered round-trip time, which a handshake takes once.
    #[must_use]
    pub fn round_trips(&self) -> RangeInclusive<Span> {
        let difference = self.round_trip * ROUND_TRIP_TOLERANCE + ROUND_TRIP_SLACK;
        self.round_trip - difference..=self.round_trip + difference
    }
}

/// Rate and round-trip time that a path has shown: what is remembered of it, and the starting point
/// of a later connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// Rate of payload that the path last carried.
    pub rate: Rate,
    /// Least round-trip time of the path at that time.
    pub round_trip: Span,
}

/// Remembered rates of paths, the newest first, as a file keeps them from one run to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPaths {
    paths: Vec<KnownPath>,
}

impl KnownPaths {
    /// All remembered paths, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = &KnownPath> {
        self.paths.iter()
    }

    /// Starting point of a connection from `from` to `to` whose handshake took `round_trip`, at
    /// `now` in seconds since 1970. `None` if the path is not known, the entry is too old, or the
    /// round-trip time is that of another path.
    #[must_use]
    pub fn resume(&self, from: IpAddr, to: IpAddr, round_trip: Span, now: u64) -> Option<Resumption> {
        let prefix = prefix(to);
        let known = self.paths.iter().find(|path| path.to == prefix && path.from == from)?;
        (known.is_young(now) && known.round_trips().contains(&round_trip))
            .then_some(Resumption { rate: known.rate, round_trip: known.round_trip })
    }

    /// Stores what a connection found, in place of an older entry for the path; beyond [`MOST`] the
    /// oldest entry is dropped.
    pub fn remember(&mut self, from: IpAddr, to: IpAddr, found: Resumption, now: u64) {
        let to = prefix(to);
        self.paths.retain(|path| !(path.to == to && path.from == from));
        self.paths.insert(0, KnownPath { to, from, rate: found.rate, round_trip: found.round_trip, seen: now });
        self.paths.truncate(MOST);
    }

    /// Removes the paths for which `meant` is true, and returns them.
    pub fn forget(&mut self, meant: impl Fn(&KnownPath) -> bool) -> Vec<KnownPath> {
        let (forgotten, kept) = std::mem::take(&mut self.paths).into_iter().partition(meant);
        self.paths = kept;
        forgotten
    }
}

/// Prefix by which the path to a destination is remembered: /24 of IPv4, /48 of IPv6.
fn prefix(address: IpAddr) -> Prefix {
    let address = address.to_canonical();
    Prefix::around(address, if address.is_ipv4() { 24 } else { 48 })
}

/// Counters of a connection, as `TCP_INFO` has them.
#[derive(Clone, Copy, Debug)]
pub struct PathCounters {
    /// Bytes that the other end has acknowledged.
    pub acknowledged: ByteCount,
    /// Number of packets that were retransmitted.
    pub retransmitted: u64,
    /// Least round-trip time.
    pub round_trip: Span,
    /// Bytes of a packet.
    pub packet: ByteCount,
}

/// Meter of the rate of a connection that is worth remembering.
#[derive(Debug, Default)]
pub struct PathWatch {
    snapshots: VecDeque<Snapshot>,
    rate: Option<Rate>,
    round_trip: Span,
    candidate: Option<Candidate>,
    /// Highest rate that was found, held for [`SAFE_ROUNDS`], and used ([`USED_SHARE`]).
    shown: Option<Rate>,
}

/// The least rate that was found since a time, and the bytes acknowledged by that time.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    since: Time,
    acknowledged: ByteCount,
    least: Rate,
}

/// Counters of `TCP_INFO` at one time.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    at: Time,
    acknowledged: ByteCount,
    retransmitted: u64,
}

impl Snapshot {
    /// Mean rate of acknowledged bytes since an earlier snapshot.
    fn rate_since(self, before: Self) -> Rate {
        (self.acknowledged - before.acknowledged) / (self.at - before.at)
    }
}

impl PathWatch {
    /// Adds the counters of the connection while only the path limits it.
    pub fn update(&mut self, now: Time, counters: PathCounters) {
        let PathCounters { acknowledged, retransmitted, round_trip, packet } = counters;
        let span = (round_trip * SAFE_ROUNDS).max(SHORTEST_SPAN);
        while self.snapshots.get(1).is_some_and(|seen| now - seen.at >= span * 2) {
            self.snapshots.pop_front();
        }
        self.round_trip = round_trip;
        let last = Snapshot { at: now, acknowledged, retransmitted };
        if let Some(&first) = self.snapshots.front().filter(|first| now - first.at >= span * 2)
            && let Some(&middle) = self.snapshots.iter().rev().find(|seen| now - seen.at >= span)
        {
            let packets = (acknowledged - first.acknowledged).as_u64() / packet.as_u64().max(1);
            let lost = retransmitted.saturating_sub(first.retransmitted);
            let (earlier, later) = (middle.rate_since(first), last.rate_since(middle));
            if lost <= packets * SAFE_LOSS && later <= earlier * SAFE_GROWTH {
                let rate = earlier.min(later);
                self.rate = Some(self.rate.map_or(rate, |best| best.max(rate)));
            }
        }
        self.snapshots.push_back(last);
    }

    /// Adds the rate that congestion control, or the search for a ceiling, has found the path to
    /// have free; `None` while it has found none. A connection that sends less than that need not
    /// be limited by the path.
    pub fn found_free(&mut self, now: Time, free: Option<Rate>, acknowledged: ByteCount, round_trip: Span) {
        let Some(free) = free else {
            self.candidate = None;
            return;
        };
        self.round_trip = round_trip;
        let candidate = self.candidate.get_or_insert(Candidate { since: now, acknowledged, least: free });
        candidate.least = candidate.least.min(free);
        let span = now - candidate.since;
        if span < (round_trip * SAFE_ROUNDS).max(SHORTEST_SPAN) {
            return;
        }
        if (acknowledged - candidate.acknowledged) / span >= candidate.least * USED_SHARE {
            self.shown = self.shown.max(Some(candidate.least));
        }
        self.candidate = Some(Candidate { since: now, acknowledged, least: free });
    }

    /// Discards the counters of [`Self::update`]: something else than the path limits the
    /// connection now.
    pub fn pause(&mut self) {
        self.snapshots.clear();
    }

    /// Rate and round-trip time to remember: the highest rate of [`Self::found_free`], or else the
    /// best one of [`Self::update`]; `None` if neither has shown any.
    #[must_use]
    pub fn found(&self) -> Option<Resumption> {
        let rate = self.shown.or(self.rate).filter(|rate| !rate.is_zero())?;
        (!self.round_trip.is_zero()).then_some(Resumption { rate, round_trip: self.round_trip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUND: Resumption =
        Resumption { rate: Rate::from_bits_per_second(900_000_000), round_trip: Span::from_millis(300) };
    const NOW: u64 = 1_800_000_000;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn known() -> KnownPaths {
        let mut paths = KnownPaths::default();
        paths.remember(address("192.0.2.1"), address("198.51.100.7"), FOUND, NOW);
        paths
    }

    #[test]
    fn a_path_is_a_prefix_and_a_local_address() {
        let resume = |from, to| known().resume(address(from), address(to), FOUND.round_trip, NOW);
        assert_eq!(resume("192.0.2.1", "198.51.100.200"), Some(FOUND));
        assert_eq!(resume("192.0.2.1", "::ffff:198.51.100.9"), Some(FOUND));
        assert_eq!(resume("192.0.2.1", "198.51.101.7"), None);
        assert_eq!(resume("192.0.2.2", "198.51.100.7"), None);
        let mut paths = KnownPaths::default();
        paths.remember(address("fd26::1"), address("2001:db8:7:1::1"), FOUND, NOW);
        assert!(paths.resume(address("fd26::1"), address("2001:db8:7:ffff::2"), FOUND.round_trip, NOW).is_some());
        assert!(paths.resume(address("fd26::1"), address("2001:db8:8::2"), FOUND.round_trip, NOW).is_none());
    }

    #[test]
    fn another_round_trip_time_is_another_path_and_time_passes() {
        let resume = |millis, later| {
            let (from, to) = (address("192.0.2.1"), address("198.51.100.7"));
            known().resume(from, to, Span::from_millis(millis), NOW + later).is_some()
        };
        for (millis, expected) in [(300, true), (260, false), (261, true), (339, true), (340, false), (50, false)] {
            assert_eq!(resume(millis, 0), expected, "{millis} ms");
        }
        assert!(resume(300, OLDEST.as_secs()));
        assert!(!resume(300, OLDEST.as_secs() + 1));
    }

    #[test]
    fn the_last_word_counts_and_the_oldest_goes() {
        let mut paths = known();
        let worse = Resumption { rate: Rate::from_bits_per_second(1_000_000), ..FOUND };
        paths.remember(address("192.0.2.1"), address("198.51.100.9"), worse, NOW + 1);
        assert_eq!(paths.iter().count(), 1);
        assert_eq!(paths.iter().next().map(|path| path.rate), Some(worse.rate));
        for number in 0..MOST as u32 {
            paths.remember(address("192.0.2.1"), IpAddr::from((number << 8).to_be_bytes()), FOUND, NOW + 2);
        }
        assert_eq!(paths.iter().count(), MOST);
        assert_eq!(paths.resume(address("192.0.2.1"), address("198.51.100.7"), FOUND.round_trip, NOW), None);
        let block = "0.0.0.0/16".parse().unwrap();
        assert_eq!(paths.forget(|path| path.to.overlaps(&block)).len(), 256);
        assert_eq!(paths.forget(|_| true).len(), MOST - 256);
        assert_eq!(paths, KnownPaths::default());
    }

    fn counters(acknowledged: ByteCount, retransmitted: u64, round_trip: Span) -> PathCounters {
        PathCounters { acknowledged, retransmitted, round_trip, packet: ByteCount::new(1448) }
    }

    #[test]
    fn what_the_path_has_shown_is_remembered_and_not_what_a_busy_host_made_of_it() {
        let mut watch = PathWatch::default();
        let (mut now, mut bytes, mut retransmitted) = (Time::ORIGIN, ByteCount::ZERO, 0);
        let mbit = |rate: u64| Rate::from_bits_per_second(rate * 1_000_000);
        // (seconds, found free, carried, lost)
        for (seconds, free, carried, lost) in
            [(2, 450, 450, 300), (10, 912, 785, 2), (4, 1800, 300, 0), (5, 600, 600, 0)]
        {
            for step in 0..seconds * 50_u64 {
                // Trains leave faster than what is free.
                let free = if step % 20 == 0 { free * 2 } else { free };
                watch.found_free(now, Some(mbit(free)), bytes, FOUND.round_trip);
                watch.update(now, counters(bytes, retransmitted, FOUND.round_trip));
                now += Span::from_millis(20);
                bytes += mbit(carried) * Span::from_millis(20);
                retransmitted += lost;
            }
        }
        assert_eq!(watch.found(), Some(Resumption { rate: mbit(912), ..FOUND }));
    }

    #[test]
    fn only_a_rate_that_was_carried_for_a_while_without_loss_is_worth_remembering() {
        let watch = |rates: &[(u64, u64)]| {
            let (mut watch, mut now, mut bytes, mut retransmitted) =
                (PathWatch::default(), Time::ORIGIN, ByteCount::ZERO, 0);
            for (mbit, lost) in rates {
                for _ in 0..100 {
                    watch.update(now, counters(bytes, retransmitted, Span::from_millis(50)));
                    now += Span::from_millis(20);
                    bytes += Rate::from_bits_per_second(mbit * 1_000_000) * Span::from_millis(20);
                    retransmitted += lost;
                }
            }
            watch.found().map(|found| found.rate.as_bits_per_second() / 1_000_000)
        };
        assert_eq!(watch(&[]), None);
        assert_eq!(watch(&[(0, 0), (500, 0)]), Some(500));
        assert_eq!(watch(&[(500, 0), (900, 100), (400, 0)]), Some(500), "what loses is not safe");
    }
}
