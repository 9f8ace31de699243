//! Hints for one socket, stored before it takes an algorithm: its path as earlier connections
//! measured it, and the bundle that it belongs to.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, PoisonError};

use icdc_cc::Algorithm;
use icdc_units::{Span, Time};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::load::Loaded;
use super::registered;
use crate::clock;
use crate::congestion::path_hints::PathHints;

/// Name of the eBPF map of `c/build_bpf.h` (`SOCKET_HINTS`) that holds a hint for each socket.
const HINTS: &str = "icdc_hints";
/// Maximum age of a map in the cache. The algorithm may be unloaded, and another one loaded under
/// its name: hints for the old one are lost.
const YOUNG: Span = Span::from_secs(1);

/// Stores hints for the socket `fd` where the algorithm will read them when the socket takes it;
/// true if they were stored. An algorithm without a map for hints gets none, and one that another
/// process has loaded (`loaded` is `None`) only if this process may access its map.
pub(in crate::congestion) fn tell(
    fd: &impl AsFd,
    algorithm: &Algorithm,
    loaded: Option<&Loaded>,
    what: &PathHints,
) -> bool {
    let key = fd.as_fd().as_raw_fd().to_ne_bytes();
    let stored = match loaded {
        Some(loaded) => loaded
            .object()
            .maps()
            .find(|map| map.name() == HINTS)
            .map(|map| map.update(&key, &value(what), MapFlags::empty())),
        None => of_registered(algorithm).map(|map| map.update(&key, &value(what), MapFlags::empty())),
    };
    if let Some(Err(error)) = &stored {
        tracing::debug!("{} gets no hints of a socket: {}", algorithm.name, super::text(error));
    }
    matches!(stored, Some(Ok(())))
}

/// Encodes hints as `struct socket_hint`: rate in kilobytes per second, round-trip time in
/// microseconds, the number of the bundle, and whether it gives way; 0 for what is unknown.
fn value(hints: &PathHints) -> [u8; 16] {
    let known = hints.known.map(|known| [known.rate.as_bytes_per_second() / 1000, known.round_trip.as_micros()]);
    let [rate, round_trip] = known.unwrap_or_default().map(|word| u32::try_from(word).unwrap_or(u32::MAX));
    let bundle = hints.bundle.map_or(0, |bundle| bundle.number().get());
    let mut value = [0; 16];
    for (bytes, word) in value.chunks_exact_mut(4).zip([rate, round_trip, bundle, hints.background.into()]) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    value
}

/// Cached map for hints: name of its algorithm, time when it was found, and handle; `None` before
/// the first.
type Found = Option<(&'static str, Time, Arc<MapHandle>)>;

/// Finds the map for the hints of a registered algorithm, or takes it from a cache: a search takes
/// milliseconds, too long for each connection of a busy listener. `None` if this process may not
/// see it.
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
    use crate::congestion::BundleNumber;
    use icdc_rate::known_paths::Resumption;
    use icdc_units::Rate;

    use super::*;

    #[test]
    fn the_value_is_in_the_algorithm_s_units() {
        let known = Resumption { rate: Rate::from_bits_per_second(915_000_000), round_trip: Span::from_millis(300) };
        let words = |known| {
            let value = value(&PathHints { known: Some(known), ..PathHints::default() });
            let word = |at: usize| u32::from_ne_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]);
            [word(0), word(4), word(8), word(12)]
        };
        assert_eq!(words(known), [114_375, 300_000, 0, 0]);
        let endless = Resumption { rate: Rate::MAX, round_trip: Span::MAX };
        assert_eq!(words(endless), [u32::MAX, u32::MAX, 0, 0]);
        let bundle = BundleNumber::random();
        let told = value(&PathHints { known: None, bundle: Some(bundle), background: true });
        assert_eq!((&told[8..12], &told[12..]), (&bundle.number().get().to_ne_bytes()[..], &1_u32.to_ne_bytes()[..]));
    }
}
