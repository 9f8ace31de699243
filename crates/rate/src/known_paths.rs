//! What is remembered of paths, so that a later connection need not search.
//!
//! A path is a destination prefix (/24 of IPv4, /48 of IPv6, as address registries and routing
//! tables go) together with the local address, which stands for the interface. Remembered are the
//! rate that the path has shown to the last connection, and the least round-trip time. Where the
//! rate is found by itself, by trains or below a ceiling, that is the highest one that stood for
//! four round trips, though a busy host may have sent less; else it is the best rate that was held
//! without a loss that mattered. The model is the IETF's "Convergence of congestion control from
//! retained state" (careful resume): what is remembered is used only if the round-trip time of the
//! new connection is about the same; the first flight goes at half of the rate; the whole is used
//! once that has been confirmed. What a later connection holds takes its place; one that holds
//! nothing leaves it until it is too old.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use icdc_units::{ByteCount, Prefix, Rate, Span, Time};
use serde::{Deserialize, Serialize};

/// Paths change. What is older than this says nothing.
pub const OLDEST: Span = Span::from_secs(30 * 24 * 3600);
/// Most paths that are kept; the oldest go first.
pub const MOST: usize = 1000;
/// The round-trip time may differ by an eighth and this.
const SLACK: Span = Span::from_millis(2);

/// One path, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPath {
    /// Destinations.
    pub to: Prefix,
    /// Local address.
    pub from: IpAddr,
    /// Rate of payload that it carried.
    pub rate: Rate,
    /// Least round-trip time.
    pub round_trip: Span,
    /// When that was: seconds since 1970.
    pub seen: u64,
}

impl KnownPath {
    /// Whether it is no older than [`OLDEST`] at `now`, in seconds since 1970.
    #[must_use]
    pub fn is_young(&self, now: u64) -> bool {
        now.saturating_sub(self.seen) <= OLDEST.as_secs()
    }

    /// How long the handshake of a new connection may take that is on the same path.
    #[must_use]
    pub fn round_trips(&self) -> RangeInclusive<Span> {
        let difference = self.round_trip / 8 + SLACK;
        self.round_trip - difference..=self.round_trip + difference
    }
}

/// What a new connection may start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// Rate of payload that the path carried last.
    pub rate: Rate,
    /// Its least round-trip time then.
    pub round_trip: Span,
}

/// The paths that are remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPaths {
    paths: Vec<KnownPath>,
}

impl KnownPaths {
    /// All of them, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = &KnownPath> {
        self.paths.iter()
    }

    /// What a connection from `from` to `to` may start from whose handshake took `round_trip`, at
    /// `now` in seconds since
    /// 1970. `None` if the path is not known, not known any more, or seems to be another one.
    #[must_use]
    pub fn resume(&self, from: IpAddr, to: IpAddr, round_trip: Span, now: u64) -> Option<Resumption> {
        let prefix = prefix(to);
        let known = self.paths.iter().find(|path| path.to == prefix && path.from == from)?;
        (known.is_young(now) && known.round_trips().contains(&round_trip))
            .then_some(Resumption { rate: known.rate, round_trip: known.round_trip })
    }

    /// Remembers what a connection found.
    pub fn remember(&mut self, from: IpAddr, to: IpAddr, found: Resumption, now: u64) {
        let to = prefix(to);
        self.paths.retain(|path| !(path.to == to && path.from == from));
        self.paths.insert(0, KnownPath { to, from, rate: found.rate, round_trip: found.round_trip, seen: now });
        self.paths.truncate(MOST);
    }

    /// Forgets the paths that are `meant`, and gives them.
    pub fn forget(&mut self, meant: impl Fn(&KnownPath) -> bool) -> Vec<KnownPath> {
        let (forgotten, kept) = std::mem::take(&mut self.paths).into_iter().partition(meant);
        self.paths = kept;
        forgotten
    }
}

fn prefix(address: IpAddr) -> Prefix {
    let address = address.to_canonical();
    Prefix::around(address, if address.is_ipv4() { 24 } else { 48 })
}

/// A safe rate is carried for so many round trips twice,
const ROUND_TRIPS: u64 = 4;
/// for this at least,
const LEAST: Span = Span::from_millis(500);
/// the second time no more than a fifth faster than the first, as what still grows is no rate of
/// the path,
const GROWTH: (u64, u64) = (6, 5);
/// and loses no more than one packet in so many.
const PACKETS_PER_LOSS: u64 = 1000;

/// A rate that was found counts if at least this share of it was carried meanwhile: one in so many.
const USED: u64 = 2;

/// Watches a connection for the rate that is worth remembering.
#[derive(Debug, Default)]
pub struct PathWatch {
    seen: VecDeque<Seen>,
    rate: Option<Rate>,
    round_trip: Span,
    standing: Option<Standing>,
    /// The highest rate that was found and stood for a while.
    shown: Option<Rate>,
}

/// A rate that was found and has not been less since.
#[derive(Clone, Copy, Debug)]
struct Standing {
    since: Time,
    acknowledged: ByteCount,
    least: Rate,
}

/// What `TCP_INFO` said at a time.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Time,
    acknowledged: ByteCount,
    retransmitted: u64,
}

impl Seen {
    fn rate_since(self, before: Self) -> Rate {
        (self.acknowledged - before.acknowledged) / (self.at - before.at)
    }
}

impl PathWatch {
    /// Takes note of what `TCP_INFO` says while nothing but the path limits: bytes acknowledged,
    /// packets retransmitted, least round-trip time, and bytes of a packet.
    pub fn update(
        &mut self,
        now: Time,
        acknowledged: ByteCount,
        retransmitted: u64,
        round_trip: Span,
        packet: ByteCount,
    ) {
        let span = (round_trip * ROUND_TRIPS).max(LEAST);
        while self.seen.get(1).is_some_and(|seen| now - seen.at >= span * 2) {
            self.seen.pop_front();
        }
        self.round_trip = round_trip;
        let last = Seen { at: now, acknowledged, retransmitted };
        if let Some(&first) = self.seen.front().filter(|first| now - first.at >= span * 2)
            && let Some(&middle) = self.seen.iter().rev().find(|seen| now - seen.at >= span)
        {
            let packets = (acknowledged - first.acknowledged).as_u64() / packet.as_u64().max(1);
            let lost = retransmitted.saturating_sub(first.retransmitted);
            let (earlier, later) = (middle.rate_since(first), last.rate_since(middle));
            if lost * PACKETS_PER_LOSS <= packets && later <= earlier.scaled(GROWTH.0, GROWTH.1) {
                let rate = earlier.min(later);
                self.rate = Some(self.rate.map_or(rate, |best| best.max(rate)));
            }
        }
        self.seen.push_back(last);
    }

    /// Takes note of the rate that congestion control, or what keeps a ceiling over it, has found
    /// the path to have free; `None` while it has found none. What sends less than that need not be
    /// the path.
    pub fn found_free(&mut self, now: Time, free: Option<Rate>, acknowledged: ByteCount, round_trip: Span) {
        let Some(free) = free else {
            self.standing = None;
            return;
        };
        self.round_trip = round_trip;
        let standing = self.standing.get_or_insert(Standing { since: now, acknowledged, least: free });
        standing.least = standing.least.min(free);
        let span = now - standing.since;
        if span < (round_trip * ROUND_TRIPS).max(LEAST) {
            return;
        }
        if (acknowledged - standing.acknowledged) / span >= standing.least / USED {
            self.shown = self.shown.max(Some(standing.least));
        }
        self.standing = Some(Standing { since: now, acknowledged, least: free });
    }

    /// Something else limits for now: what was seen before does not go together with what comes.
    pub fn pause(&mut self) {
        self.seen.clear();
    }

    /// What is worth remembering, if anything is.
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
                watch.update(now, bytes, retransmitted, FOUND.round_trip, ByteCount::new(1448));
                now += Span::from_millis(20);
                bytes += mbit(carried) * Span::from_millis(20);
                retransmitted += lost;
            }
        }
        assert_eq!(watch.found(), Some(Resumption { rate: mbit(912), ..FOUND }));
    }

    #[test]
    fn only_a_rate_that_was_carried_for_a_while_without_loss_is_worth_remembering() {
        let packet = ByteCount::new(1448);
        let watch = |rates: &[(u64, u64)]| {
            let (mut watch, mut now, mut bytes, mut retransmitted) =
                (PathWatch::default(), Time::ORIGIN, ByteCount::ZERO, 0);
            for (mbit, lost) in rates {
                for _ in 0..100 {
                    watch.update(now, bytes, retransmitted, Span::from_millis(50), packet);
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
