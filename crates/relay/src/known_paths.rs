//! Measurements of the paths to other relays: the next leg starts from them, if its congestion
//! control can.
//!
//! * With congestion control that finds the rate which the path has free (`icdc`), that rate is
//!   remembered: a leg that had less to carry does not lower it.
//! * With any other, the rate that a leg carried while nothing but the path limited it.
//!
//! It is kept while the relay runs. Of several legs to one relay each finds its own share.

use std::net::{IpAddr, TcpStream};
use std::sync::{Mutex, PoisonError};

use icdc_rate::known_paths::{KnownPaths, PathWatch, Resumption};
use icdc_tcp::congestion::{begin_anew, finds_the_rate};
use icdc_tcp::{TcpInfo, canonical};
use icdc_units::{Span, Time};

/// The known paths of a relay, shared by its threads.
#[derive(Debug, Default)]
pub(crate) struct PathCache(Mutex<KnownPaths>);

/// Observer of one leg, from whose samples it measures the path.
#[derive(Debug, Default)]
pub(crate) struct PathObserver {
    path: PathWatch,
    /// Whether the leg's congestion control finds the path's free rate; `None` before the first
    /// sample.
    finds_rate: Option<bool>,
    /// Total time for which the other end's receive window has limited the leg.
    window_limited: Span,
    remembered: Option<Resumption>,
}

impl PathCache {
    /// Makes a leg to another relay, which is about to carry a client's data, start from the known
    /// values of its path.
    pub(crate) fn resume(&self, leg: &TcpStream, now: Time) {
        let Some((from, to)) = path_of(leg) else { return };
        let Ok(info) = icdc_tcp::info(leg) else { return };
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).resume(from, to, info.rtt, seconds(now));
        if let Some(known) = known
            && begin_anew(leg, known)
        {
            tracing::debug!(%to, rate = %known.rate, round_trip = %known.round_trip, "the leg starts from a known path");
        }
    }

    /// Takes a sample of a leg to another relay that carries data.
    pub(crate) fn observe(&self, leg: &TcpStream, observer: &mut PathObserver, now: Time) {
        let Ok(info) = icdc_tcp::info(leg) else { return };
        let finds_rate = *observer
            .finds_rate
            .get_or_insert_with(|| icdc_tcp::congestion(leg).is_ok_and(|name| finds_the_rate(&name)));
        if let Some(found) = observer.sample(now, &info, finds_rate)
            && let Some((from, to)) = path_of(leg)
        {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remember(from, to, found, seconds(now));
        }
    }
}

impl PathObserver {
    /// Takes a sample of the leg; returns the rate and round-trip time that are to be remembered,
    /// `None` if they have not changed or nothing is found.
    fn sample(&mut self, now: Time, info: &TcpInfo, finds_rate: bool) -> Option<Resumption> {
        let free = info.found_rate().filter(|_| finds_rate);
        self.path.found_free(now, free, info.bytes_acked, info.min_rtt);
        let is_limited = info.application_limited || info.receive_window_limited != self.window_limited;
        self.window_limited = info.receive_window_limited;
        if is_limited {
            self.path.pause();
        } else {
            self.path.update(now, info.path_counters());
        }
        let found = self.path.found();
        if found == self.remembered {
            return None;
        }
        self.remembered = found;
        found
    }
}

/// Addresses of this host and of the other relay's; `None` within a host, or if the kernel does not
/// tell them.
fn path_of(leg: &TcpStream) -> Option<(IpAddr, IpAddr)> {
    let (from, to) = (canonical(leg.local_addr().ok()?).ip(), canonical(leg.peer_addr().ok()?).ip());
    // Within a host there is no path.
    (!to.is_loopback()).then_some((from, to))
}

/// Seconds of a monotonic clock: only ages count.
fn seconds(now: Time) -> u64 {
    (now - Time::ORIGIN).as_secs()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use icdc_units::{ByteCount, Rate};

    use super::*;

    const ROUND_TRIP: Span = Span::from_millis(100);

    /// Mbit/s that are remembered of a leg, for phases of (seconds, Mbit/s that are free, Mbit/s
    /// that its client sends). Congestion control `finds_rate` that is free, or does not.
    fn remembered(phases: &[(u64, u64, u64)], finds_rate: bool) -> Option<u64> {
        let mbit = |rate: u64| Rate::from_bits_per_second(rate * 1_000_000);
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let leg = TcpStream::connect(listener.local_addr().expect("address")).expect("loopback");
        let mut info = icdc_tcp::info(&leg).expect("TCP_INFO");
        (info.min_rtt, info.mss, info.bytes_acked) = (ROUND_TRIP, ByteCount::new(1448), ByteCount::ZERO);
        let (mut observer, mut now, mut last) = (PathObserver::default(), Time::ORIGIN, None);
        for (seconds, free, carried) in phases {
            (info.pacing_rate, info.max_pacing_rate) = (Some(mbit(*free)), None);
            info.application_limited = carried < free;
            for _ in 0..seconds * 4 {
                last = observer.sample(now, &info, finds_rate).or(last);
                now += Span::from_millis(250);
                info.bytes_acked += mbit(*carried) * Span::from_millis(250);
            }
        }
        last.map(|found| found.rate.as_bits_per_second() / 1_000_000)
    }

    #[test]
    fn a_leg_that_has_little_to_carry_does_not_lower_what_its_path_has_free() {
        assert_eq!(remembered(&[(10, 900, 600)], true), Some(900));
        assert_eq!(remembered(&[(10, 900, 880), (10, 900, 20)], true), Some(900));
        assert_eq!(remembered(&[(10, 600, 600)], false), Some(600), "the leg carried all of it");
        assert_eq!(remembered(&[(10, 900, 600)], false), None, "what the path has free is not known");
    }
}
