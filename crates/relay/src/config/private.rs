//! Addresses that must not be reachable from outside: private and reserved ones.

use std::net::{IpAddr, Ipv4Addr};

/// Addresses that only mean something on this host or in its network: private, shared, link-local,
/// loopback, multicast and unspecified ones, and those set aside for benchmarks, protocols and the
/// future (RFC 6890). Those of translators, of 6to4 and of Teredo (RFC 6052, RFC 3056, RFC 4380)
/// are what the IPv4 address in them is.
#[must_use]
pub fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, third, _] = address.octets();
            address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || first == 0
                || (first == 100 && second & 0xc0 == 64)
                // Protocol assignments; benchmarks (RFC 2544); reserved, and broadcast at its end
                // (RFC 1112).
                || (first, second, third) == (192, 0, 0)
                || (first == 198 && second & 0xfe == 18)
                || first & 0xf0 == 0xf0
        }
        IpAddr::V6(address) => {
            let segments = address.segments();
            let bits_at = |at: usize| (u32::from(segments[at]) << 16) | u32::from(segments[at + 1]);
            let is_private_v4 = |bits| is_private(Ipv4Addr::from_bits(bits).into());
            let embedded = |at| is_private_v4(bits_at(at));
            let first = segments[0];
            let is_embedded = match segments {
                // The second are the IPv4-compatible ones of RFC 4291, the unspecified and loopback
                // addresses among them.
                [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0, 0, ..] => embedded(6),
                // Translators of the own network (RFC 8215).
                [0x64, 0xff9b, 1, ..] => true,
                [0x2002, ..] => embedded(1),
                // Teredo: the server, and the client with every bit turned.
                [0x2001, 0, ..] => embedded(2) || is_private_v4(!bits_at(6)),
                // Benchmarks (RFC 5180), ORCHID (RFC 4843), discarding (RFC 6666), segments'
                // identifiers (RFC 9602).
                [0x2001, 2, 0, ..] | [0x2001, 0x10..=0x1f, ..] | [0x100, 0, 0, 0, ..] | [0x5f00, ..] => true,
                _ => false,
            };
            is_embedded
                || address.is_multicast()
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
            "192.0.0.1",
            "192.0.0.255",
            "198.18.0.1",
            "198.19.255.255",
            "240.0.0.1",
            "254.1.2.3",
            "255.255.255.255",
            "::ffff:198.18.0.1",
            "64:ff9b::198.19.0.1",
            "::127.0.0.1",
            "::10.0.0.1",
            "2001:0:7f00:1::",
            "2001:0:102:304::80ff:fffe",
            "2001:2::1",
            "2001:10::1",
            "100::1",
            "5f00::1",
        ] {
            assert!(is_private(text.parse().expect(text)), "{text}");
        }
        for text in [
            "192.0.2.1",
            "100.128.0.1",
            "2001:db8::1",
            "64:ff9b::192.0.2.1",
            "2002:c000:201::1",
            "192.0.1.1",
            "198.17.255.255",
        ]
        .into_iter()
        .chain(["198.20.0.1", "223.255.255.255", "2001:0:102:304::fefd:fcfb", "2001:4860::1", "2a00::1"])
        {
            assert!(!is_private(text.parse().expect(text)), "{text}");
        }
    }
}
