//! Origin of a connection: its address, and the prefixes around it that one operator may
//! hold.

use std::net::IpAddr;

/// Lengths of the IPv4 prefixes in bits, the widest first: networks of providers, of sites, and
/// what one host has.
const V4: [u8; LEVELS] = [16, 24, 32];
/// Lengths of the IPv6 prefixes in bits, the widest first; a host of IPv6 commands a whole /64.
const V6: [u8; LEVELS] = [32, 48, 64];

/// Number of prefixes of an address that are told apart.
pub(super) const LEVELS: usize = 3;

/// A prefix of an address, of a length in [`V4`] or [`V6`]; the bits behind it are zero. IPv4 is
/// mapped into IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix(u128);

/// The prefixes of a client's address, the widest first: limits on unauthenticated connections are
/// shared among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin([Prefix; LEVELS]);

impl Origin {
    pub(super) fn prefixes(&self) -> &[Prefix; LEVELS] {
        &self.0
    }
}

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        let (bits, lengths) = match address.to_canonical() {
            IpAddr::V4(address) => (address.to_ipv6_mapped().to_bits(), V4.map(|length| length + 96)),
            IpAddr::V6(address) => (address.to_bits(), V6),
        };
        Self(lengths.map(|length| Prefix(bits & (u128::MAX << (128 - length)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_site_or_provider_share_prefixes() {
        let shared = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| Origin::from(text.parse::<IpAddr>().unwrap()));
            one.prefixes().iter().zip(other.prefixes()).filter(|(one, other)| one == other).count()
        };
        assert_eq!(shared("192.0.2.1", "192.0.2.1"), 3);
        assert_eq!(shared("192.0.2.1", "::ffff:192.0.2.1"), 3);
        assert_eq!(shared("192.0.2.1", "192.0.2.2"), 2);
        assert_eq!(shared("192.0.2.1", "192.0.3.1"), 1);
        assert_eq!(shared("192.0.2.1", "192.1.2.1"), 0);
        assert_eq!(shared("2001:db8::1", "2001:db8::ffff:1"), 3);
        assert_eq!(shared("2001:db8::1", "2001:db8:0:1::1"), 2);
        assert_eq!(shared("2001:db8::1", "2001:db8:1::1"), 1);
        assert_eq!(shared("2001:db8::1", "2001:db9::1"), 0);
    }
}
