//! What is told of one socket before it takes an algorithm: its path as earlier connections knew
//! it.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_cc::Algorithm;
use icdc_rate::known_paths::Resumption;
use icdc_units::{Span, Time};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::load::Loaded;
use super::registered;
use crate::clock;

/// The map of `c/build_bpf.h` (`SOCKET_HINTS`): by socket, what its value is here.
const HINTS: &str = "icdc_hints";
/// The algorithm may be unloaded, and another one loaded by its name: what is told to the old one
/// is lost.
const YOUNG: Span = Span::from_secs(1);

/// Tells the algorithm what is known of the path of `fd`. An algorithm that does not ask is told
/// nothing, and one that somebody else has loaded only if this process may look into it.
pub(in crate::congestion) fn tell(fd: &impl AsFd, algorithm: &Algorithm, loaded: Option<&Loaded>, known: &Resumption) {
    let key = fd.as_fd().as_raw_fd().to_ne_bytes();
    let told = match loaded {
        Some(loaded) => loaded
            .object()
            .maps()
            .find(|map| map.name() == HINTS)
            .map(|map| map.update(&key, &value(known), MapFlags::empty())),
        None => of_registered(algorithm).map(|map| map.update(&key, &value(known), MapFlags::empty())),
    };
    if let Some(Err(error)) = told {
        tracing::debug!("{} is not told what is known of the path: {}", algorithm.name, super::text(&error));
    }
}

/// `struct socket_hint`: kilobytes per second and microseconds.
fn value(known: &Resumption) -> [u8; 8] {
    let words = [known.rate.as_bytes_per_second() / 1000, known.round_trip.as_micros()];
    let [rate, round_trip] = words.map(|word| u32::try_from(word).unwrap_or(u32::MAX).to_ne_bytes());
    let mut value = [0; 8];
    value[..4].copy_from_slice(&rate);
    value[4..].copy_from_slice(&round_trip);
    value
}

/// A map that was found, of which algorithm, and when.
type Found = Option<(&'static str, Time, Arc<MapHandle>)>;

/// Finding it takes milliseconds, which somebody who accepts many connections has not for each of
/// them.
fn of_registered(algorithm: &Algorithm) -> Option<Arc<MapHandle>> {
    static LAST: Mutex<Found> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let now = clock::now();
    if let Some((name, at, map)) = &*last
        && *name == algorithm.name
        && now - *at < YOUNG
    {
        return Some(Arc::clone(map));
    }
    // The function that asks.
    let found = registered::map_of(registered::program_of(algorithm, "init")?, |name| name == HINTS)?;
    let map = Arc::new(found);
    *last = Some((algorithm.name, now, Arc::clone(&map)));
    Some(map)
}

#[cfg(test)]
mod tests {
    use icdc_units::Rate;

    use super::*;

    #[test]
    fn the_value_is_in_the_algorithm_s_units() {
        let known = Resumption { rate: Rate::from_bits_per_second(915_000_000), round_trip: Span::from_millis(300) };
        let [a, b, c, d, e, f, g, h] = value(&known);
        assert_eq!(u32::from_ne_bytes([a, b, c, d]), 114_375);
        assert_eq!(u32::from_ne_bytes([e, f, g, h]), 300_000);
        let endless = Resumption { rate: Rate::MAX, round_trip: Span::MAX };
        assert_eq!(value(&endless), [0xff; 8]);
    }
}
