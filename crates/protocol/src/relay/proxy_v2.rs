//! The PROXY protocol, version 2: gives a destination that expects it the address of the client
//! (HAProxy, `doc/proxy-protocol.txt`, section 2.2).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// First bytes of every header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Byte of a header that says version 2 and command PROXY.
const VERSION_AND_COMMAND: u8 = 0x21;
/// Byte of a header that says TCP, and addresses of IPv4.
const TCP_OVER_IPV4: u8 = 0x11;
/// Byte of a header that says TCP, and addresses of IPv6.
const TCP_OVER_IPV6: u8 = 0x21;

/// The encoded header that precedes the data of a connection from `client` to `destination`.
#[must_use]
pub fn header(client: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let mut header = Vec::from(SIGNATURE);
    header.push(VERSION_AND_COMMAND);
    let (family, addresses) = match (client.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(client), IpAddr::V4(destination)) => {
            (TCP_OVER_IPV4, [client.octets(), destination.octets()].concat())
        }
        // The header has one family: where they differ, IPv4 is written as IPv6.
        (client, destination) => (TCP_OVER_IPV6, [as_v6(client).octets(), as_v6(destination).octets()].concat()),
    };
    header.push(family);
    header.extend((addresses.len() as u16 + 4).to_be_bytes());
    header.extend(addresses);
    header.extend(client.port().to_be_bytes());
    header.extend(destination.port().to_be_bytes());
    header
}

/// This address as IPv6, IPv4 as an IPv4-mapped one.
fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> SocketAddr {
        text.parse().expect(text)
    }

    #[test]
    fn addresses_of_one_family_are_written_in_it() {
        let four = header(parse("[::ffff:192.0.2.1]:5"), parse("198.51.100.7:443"));
        assert_eq!(four[12..16], [0x21, 0x11, 0, 12]);
        assert_eq!(four[16..], [192, 0, 2, 1, 198, 51, 100, 7, 0, 5, 1, 187]);
        let six = header(parse("[2001:db8::1]:5"), parse("[2001:db8::2]:443"));
        assert_eq!((six[12..16].to_vec(), six.len()), (vec![0x21, 0x21, 0, 36], 52));
    }

    #[test]
    fn mixed_families_become_ipv6() {
        let mixed = header(parse("192.0.2.1:5"), parse("[2001:db8::2]:443"));
        assert_eq!(mixed[13..16], [0x21, 0, 36]);
        assert_eq!(mixed[16..32], "::ffff:192.0.2.1".parse::<Ipv6Addr>().expect("an address").octets());
    }
}
