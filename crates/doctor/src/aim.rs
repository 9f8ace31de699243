//! Rate and round-trip time that a host is configured for.

use icdc_units::{ByteCount, Rate, Span};

use crate::{HostFacts, PathFacts};

/// Rate aimed at where nothing else is known: a long line that many sites have.
pub const USUAL_RATE: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Round-trip time aimed at where nothing else is known: half around the world.
pub const USUAL_ROUND_TRIP: Span = Span::from_millis(300);

/// Ratio of a buffer on Linux to the data in flight: half of the free receive buffer is announced,
/// and the rest is overhead (Tamatsukuri et al., "TCP/IP on a 10 Gbps IPv6 network", figures 3 and
/// 6).
const BUFFER_FACTOR: u64 = 3;
/// Sizes of buffers are an `int` in the kernel.
pub(crate) const LARGEST_BUFFER: ByteCount = ByteCount::new(i32::MAX as u64);

/// Rate and round-trip time for which the host is to be configured; findings judge its settings by
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// Rate of the path that the host is to reach.
    pub rate: Rate,
    /// Round-trip time of the path.
    pub round_trip: Span,
}

impl Aim {
    /// Takes the user's values; else the measured ones; else defaults. Where the measurement was
    /// limited by windows, or carried by ssh, the path carries more than was measured: then the
    /// rate of the device, or else the default.
    #[must_use]
    pub fn new(rate: Option<Rate>, round_trip: Option<Span>, host: &HostFacts, path: Option<&PathFacts>) -> Self {
        let through_ssh = path.is_some_and(|path| path.through_ssh);
        let measured = path.and_then(|path| path.measured.capacity).map(|capacity| {
            let device = host.devices.iter().filter_map(|device| device.speed).max();
            if capacity.by_windows || through_ssh {
                capacity.rate.max(device.unwrap_or(USUAL_RATE))
            } else {
                capacity.rate
            }
        });
        let round_trip_measured = path.and_then(|path| path.measured.round_trip);
        Self {
            rate: rate.or(measured).unwrap_or(USUAL_RATE),
            round_trip: round_trip.or(round_trip_measured).unwrap_or(USUAL_ROUND_TRIP),
        }
    }

    /// The bandwidth-delay product: what is in flight when the path is full.
    #[must_use]
    pub fn in_flight(self) -> ByteCount {
        self.rate * self.round_trip
    }

    /// Size of each socket buffer that the aim takes, three times the bandwidth-delay product,
    /// limited to the kernel's maximum of 2 GiB.
    #[must_use]
    pub fn buffer(self) -> ByteCount {
        (self.in_flight() * BUFFER_FACTOR).min(LARGEST_BUFFER)
    }

    /// Number of connections that the aim takes, because one cannot have a larger buffer.
    pub(crate) fn connections(self) -> u64 {
        (self.in_flight() * BUFFER_FACTOR).as_u64().div_ceil(LARGEST_BUFFER.as_u64()).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Device;
    use crate::probe::{Capacity, Measured};

    fn path(rate: u64, by_windows: bool) -> PathFacts {
        let capacity = Some(Capacity { rate: Rate::from_bits_per_second(rate), by_windows });
        let measured = Measured { round_trip: Some(Span::from_millis(40)), capacity, ..Measured::default() };
        PathFacts { measured, ..PathFacts::default() }
    }

    #[test]
    fn buffers_are_three_times_what_is_in_flight() {
        let aim = Aim::new(None, None, &HostFacts::default(), None);
        assert_eq!(aim.in_flight(), ByteCount::new(37_500_000));
        assert_eq!((aim.buffer(), aim.connections()), (ByteCount::new(112_500_000), 1));
        let far = Aim { rate: Rate::from_bits_per_second(100_000_000_000), ..aim };
        assert_eq!((far.buffer(), far.connections()), (LARGEST_BUFFER, 6));
        let nothing = Aim { rate: Rate::ZERO, ..aim };
        assert_eq!((nothing.buffer(), nothing.connections()), (ByteCount::ZERO, 1));
    }

    #[test]
    fn the_user_is_asked_first_then_the_path() {
        let host = HostFacts::default();
        let (rate, round_trip) = (Rate::from_bits_per_second(7_000_000), Span::from_millis(3));
        let said = Aim::new(Some(rate), Some(round_trip), &host, Some(&path(90_000_000, false)));
        assert_eq!(said, Aim { rate, round_trip });
        let measured = Aim::new(None, None, &host, Some(&path(90_000_000, false)));
        assert_eq!(measured, Aim { rate: Rate::from_bits_per_second(90_000_000), round_trip: Span::from_millis(40) });
    }

    #[test]
    fn what_windows_limited_is_not_what_the_path_carries() {
        let speed = Rate::from_bits_per_second(10_000_000_000);
        let host = HostFacts {
            devices: vec![Device { speed: Some(speed), ..Device::default() }, Device::default()],
            ..HostFacts::default()
        };
        assert_eq!(Aim::new(None, None, &host, Some(&path(90_000_000, true))).rate, speed);
        assert_eq!(Aim::new(None, None, &HostFacts::default(), Some(&path(90_000_000, true))).rate, USUAL_RATE);
    }
}
