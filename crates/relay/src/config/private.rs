//! Which addresses are nobody's business from outside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses that only mean something on this host or in its network: private, shared, link-local, loopback, multicast, reserved
/// and unspecified ones, those of protocols and of benchmarks (RFC 6890, RFC 5180, RFC 6666). Those of translators and of 6to4 (RFC 6052, RFC 3056) are what the
/// IPv4 address in them is.
#[must_use]
pub fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, third, _] = address.octets();
            address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                // Reserved, and the broadcast address.
                || first >= 240
                || first == 0
                || [first, second, third] == [192, 0, 0]
                || (first == 198 && second & 0xfe == 18)
                || (first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(address) => {
            let segments = address.segments();
            let embedded = |at: usize| {
                let bits = (u32::from(segments[at]) << 16) | u32::from(segments[at + 1]);
                is_private(Ipv4Addr::from_bits(bits).into())
            };
            let first = segments[0];
            let is_embedded = match segments {
                [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(6),
                // Translators of the own network (RFC 8215).
                [0x64, 0xff9b, 1, ..] => true,
                [0x2002, ..] => embedded(1),
                // What is discarded, and what benchmarks use.
                [0x100, 0, 0, 0, ..] | [0x2001, 2, 0, ..] => true,
                _ => false,
            };
            is_embedded
                || address.is_loopback()
                || address.is_multicast()
                || address == Ipv6Addr::UNSPECIFIED
                || first & 0xfe00 == 0xfc00
                || first & 0xffc0 == 0xfe80
                // Site-local ones, from before there were unique local ones.
                || first & 0xffc0 == 0xfec0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_any_notation() {
        for text in [
            "127.0.0.1",
            "10.0.0.1",
            "100.64.0.1",
            "169.254.1.1",
            "0.0.0.0",
            "192.0.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "100::1",
            "2001:2::1",
            "64:ff9b::c612:1",
            "224.0.0.1",
            "::1",
            "::",
            "fd00::1",
            "fe80::1",
            "ff02::1",
            "::ffff:192.168.0.1",
            "fec0::1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::c000:201",
            "2002:a00:1::1",
        ] {
            assert!(is_private(text.parse().expect(text)), "{text}");
        }
        for text in [
            "192.0.2.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "100.128.0.1",
            "2001:db8::1",
            "64:ff9b::192.0.2.1",
            "2002:c000:201::1",
        ] {
            assert!(!is_private(text.parse().expect(text)), "{text}");
        }
    }
}
