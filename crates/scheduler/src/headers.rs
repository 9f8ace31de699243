//! Headers of an Ethernet frame that filters match, and the ECN mark (RFC 3168).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The part of a packet's headers that filters may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Headers {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// IP protocol number: 6 for TCP, 17 for UDP.
    pub protocol: u8,
    /// Ports, of source and destination; `None` where there are none, as in all fragments but the
    /// first, or the frame is too short for them.
    pub ports: Option<(u16, u16)>,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Whether the packet's ends are ECN-capable: a mark may take the place of a drop.
    pub ecn_capable: bool,
}

/// EtherType of IPv4.
const IPV4: u16 = 0x0800;
/// EtherType of IPv6.
const IPV6: u16 = 0x86dd;
/// EtherType of ARP.
const ARP: u16 = 0x0806;
/// IP protocol number of ICMP for IPv6.
const ICMPV6: u8 = 58;
/// Message types of neighbour discovery in ICMP for IPv6 (RFC 4861).
const NEIGHBOUR_DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;
/// EtherTypes of the tags of virtual LANs (802.1Q, 802.1ad), which precede that of the packet.
const VLAN: [u16; 2] = [0x8100, 0x88a8];
/// IP protocol numbers whose headers begin with source and destination port: TCP, UDP, SCTP and
/// UDP-Lite.
const PORTS: [u8; 4] = [6, 17, 132, 136];

impl Headers {
    /// Reads the headers of an Ethernet frame; `None` if it carries no IP, or not a whole IP
    /// header.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (kind, packet) = network(frame)?;
        let bytes = frame.get(packet..)?;
        match kind {
            IPV4 => Self::of_v4(bytes),
            IPV6 => Self::of_v6(bytes),
            _ => None,
        }
    }

    /// Headers of an IPv4 packet, without the Ethernet header; `None` if it is none, or cut short.
    fn of_v4(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = packet.first_chunk()?;
        if header[0] >> 4 != 4 {
            return None;
        }
        let is_first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
        let data = packet.get(usize::from(header[0] & 0x0f) * 4..).filter(|_| is_first);
        let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into();
        Some(Self::new(address(12), address(16), header[9], data, header[1]))
    }

    /// Headers of an IPv6 packet, without the Ethernet header; `None` if it is none, or cut short.
    fn of_v6(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 40] = packet.first_chunk()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let address = |at: usize| -> Option<IpAddr> {
            Some(Ipv6Addr::from(<[u8; 16]>::try_from(header.get(at..at + 16)?).ok()?).into())
        };
        let (protocol, data) = transport(header[6], &packet[40..]);
        let class = header[0] << 4 | header[1] >> 4;
        Some(Self::new(address(8)?, address(24)?, protocol, data, class))
    }

    /// Headers of a packet whose payload is `data`, in which ports are first if the protocol has
    /// any; `None`: no payload, as in a later fragment. `class` is the byte of DSCP and ECN.
    fn new(source: IpAddr, destination: IpAddr, protocol: u8, data: Option<&[u8]>, class: u8) -> Self {
        let ports = data.filter(|_| PORTS.contains(&protocol)).and_then(|data| data.first_chunk());
        let ports = ports.map(|[a, b, c, d]| (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
        Self { source, destination, protocol, ports, dscp: class >> 2, ecn_capable: class & 3 != 0 }
    }
}

/// EtherType, and where the packet begins; `None` if the frame is too short.
fn network(frame: &[u8]) -> Option<(u16, usize)> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut at = 12;
    // Two tags at most.
    for _ in 0..2 {
        if VLAN.contains(&word(at)?) {
            at += 4;
        }
    }
    Some((word(at)?, at + 2))
}

/// Protocol number and data behind an IPv6 packet's extension headers (RFC 8200); no data if it is
/// a later fragment, or has more than eight of them.
fn transport(mut next: u8, mut data: &[u8]) -> (u8, Option<&[u8]>) {
    // No ordinary packet has more extension headers.
    for _ in 0..8 {
        let Some(header) = data.first_chunk::<8>() else { return (next, Some(data)) };
        let length = match next {
            // Hop by hop, routing, destination options.
            0 | 43 | 60 => 8 + usize::from(header[1]) * 8,
            // Authentication.
            51 => 8 + usize::from(header[1]) * 4,
            44 if u16::from_be_bytes([header[2], header[3]]) & 0xfff8 != 0 => return (header[0], None),
            44 => 8,
            _ => return (next, Some(data)),
        };
        next = header[0];
        data = data.get(length..).unwrap_or_default();
    }
    (next, None)
}

/// Whether an Ethernet frame belongs to neighbour discovery: ARP or RFC 4861, the latter without
/// extension headers.
#[must_use]
pub fn is_of_neighbours(frame: &[u8]) -> bool {
    let Some((kind, at)) = network(frame) else { return false };
    let (next, message) = (frame.get(at + 6), frame.get(at + 40));
    kind == ARP
        || kind == IPV6 && next == Some(&ICMPV6) && message.is_some_and(|kind| NEIGHBOUR_DISCOVERY.contains(kind))
}

/// Whether an Ethernet frame holds an ECN-capable IP packet.
#[must_use]
pub fn is_ecn_capable(frame: &[u8]) -> bool {
    let Some((kind, at)) = network(frame) else { return false };
    match (kind, frame.get(at..)) {
        (IPV4, Some(packet)) => packet.len() >= 20 && packet[1] & 3 != 0,
        (IPV6, Some(packet)) => packet.len() >= 40 && packet[1] & 0x30 != 0,
        _ => false,
    }
}

/// Marks an ECN-capable IP packet in an Ethernet frame as having met congestion; false if it is not
/// capable, or no IP.
pub fn mark_congestion(frame: &mut [u8]) -> bool {
    let Some((kind, at)) = network(frame).filter(|_| is_ecn_capable(frame)) else { return false };
    let packet = &mut frame[at..];
    match kind {
        IPV4 => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] |= 3;
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            let checksum = updated(u16::from_be_bytes([packet[10], packet[11]]), before, after);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        _ => packet[1] |= 0x30,
    }
    true
}

/// The checksum after a change of one of the words that it covers (RFC 1624, equation 3).
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame with an IPv4 packet, whose checksum is right.
    pub(crate) fn v4(destination: [u8; 4], protocol: u8, ports: (u16, u16), class: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, class, 0, 28, 0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1]);
        frame.extend(destination);
        frame.extend(ports.0.to_be_bytes());
        frame.extend(ports.1.to_be_bytes());
        frame.extend([0; 4]);
        let checksum = !sum(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame
    }

    fn v6(next: u8, extensions: &[u8], class: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60 | class >> 4, class << 4, 0, 0, 0, 0, next, 64]);
        frame.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        frame.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        frame.extend(extensions);
        frame.extend([0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0]);
        frame
    }

    fn sum(bytes: &[u8]) -> u16 {
        let sum = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn what_filters_ask_for_is_read() {
        let headers = Headers::of(&v4([192, 0, 2, 9], 6, (1000, 443), 46 << 2 | 1)).unwrap();
        assert_eq!(headers.source, "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_eq!(headers.destination, "192.0.2.9".parse::<IpAddr>().unwrap());
        assert_eq!((headers.protocol, headers.ports), (6, Some((1000, 443))));
        assert_eq!((headers.dscp, headers.ecn_capable), (46, true));
        let mut fragment = v4([192, 0, 2, 9], 17, (1, 2), 0);
        fragment[21] = 9;
        assert_eq!(Headers::of(&fragment).unwrap().ports, None);

        let headers = Headers::of(&v6(17, &[], 10 << 2)).unwrap();
        assert_eq!((headers.protocol, headers.ports), (17, Some((0x1234, 0x5678))));
        assert_eq!((headers.dscp, headers.ecn_capable), (10, false));
        assert_eq!(headers.destination, "2001:db8::2".parse::<IpAddr>().unwrap());
        let options = [6, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Headers::of(&v6(0, &options, 0)).unwrap().ports, Some((0x1234, 0x5678)));
        let later = [6, 0, 0, 8, 0, 0, 0, 0];
        let fragment = Headers::of(&v6(44, &later, 0)).unwrap();
        assert_eq!((fragment.protocol, fragment.ports), (6, None));

        let mut tagged = v4([192, 0, 2, 9], 6, (1000, 443), 0);
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(Headers::of(&tagged).unwrap().ports, Some((1000, 443)));
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        for class in [1, 2, 46 << 2 | 2] {
            let mut frame = v4([192, 0, 2, 9], 6, (1000, 443), class);
            assert!(mark_congestion(&mut frame));
            assert_eq!((frame[15], sum(&frame[14..34])), (class | 3, 0xffff));
            let mut frame = v6(6, &[], class);
            assert!(mark_congestion(&mut frame));
            assert_eq!((frame[14], frame[15]), (0x60 | class >> 4, class << 4 | 0x30));
        }
        assert!(!mark_congestion(&mut v4([192, 0, 2, 9], 6, (1, 2), 46 << 2)));
        assert!(!mark_congestion(&mut [0; 60]));
    }

    #[test]
    fn what_neighbours_say_is_told_from_the_rest() {
        let mut arp = vec![0; 60];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        assert!(is_of_neighbours(&arp));
        let mut solicitation = v6(58, &[], 0);
        solicitation[54] = 135;
        assert!(is_of_neighbours(&solicitation));
        solicitation[54] = 128;
        assert!(!is_of_neighbours(&solicitation), "an echo request");
        assert!(!is_of_neighbours(&v6(6, &[], 0)) && !is_of_neighbours(&v4([192, 0, 2, 9], 1, (0, 0), 0)));
    }

    proptest! {
        #[test]
        fn no_frame_is_a_panic(start in 0_usize..2, bytes in prop::collection::vec(any::<u8>(), 0..120), next in any::<u8>()) {
            let mut frame = [v4([192, 0, 2, 9], 6, (1, 2), 1), v6(next, &[], 1)][start].clone();
            frame.truncate(18 + bytes.len() % 45);
            frame.extend(&bytes);
            for bytes in [&mut frame, &mut bytes.clone()] {
                let _ = is_of_neighbours(bytes);
                let before = Headers::of(bytes);
                let marked = mark_congestion(bytes);
                let after = Headers::of(bytes);
                prop_assert!(before.is_none() || marked == before.is_some_and(|headers| headers.ecn_capable));
                prop_assert!(!marked || before.is_none() || after == before, "a mark changes nothing else");
            }
        }
    }

    #[test]
    fn frames_that_are_cut_are_no_panic() {
        for whole in [v4([192, 0, 2, 9], 6, (1, 2), 1), v6(0, &[6, 200, 0, 0, 0, 0, 0, 0], 1)] {
            for length in 0..whole.len() {
                let _ = Headers::of(&whole[..length]);
                mark_congestion(&mut whole[..length].to_vec());
            }
        }
    }
}
