//! Packets that consist of many frames (TCP and UDP segmentation offload): their frames, and
//! packets made of some of these.
//!
//! ```text
//! Ethernet · IP · TCP │ segment 0 │ segment 1 │ … │ last (may be shorter)
//! └──── headers ──────┘
//! ```
//!
//! A frame on the wire is the headers and one segment. Cutting follows what a network card does
//! (`tcp_gso_segment`, `__udp_gso_segment`): sequence numbers and IPv4 identifications advance, FIN
//! and PSH belong to the last frame, CWR to the first; the checksum stays one to be completed, over
//! a pseudo header of the new length.

use std::ops::Range;

use crate::offload::{self, Offload, Segmentation};

/// Length of the Ethernet header, in bytes.
const ETHERNET: usize = 14;
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Parsed headers of a packet of many frames, as segmentation offload makes it; cuts packets of
/// some of the frames out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superpacket {
    offload: Offload,
    ip: usize,
    version: u8,
    transport: usize,
    tcp: bool,
    /// Number of bytes before the first segment.
    headers: usize,
    payload: usize,
    segment: usize,
}

impl Superpacket {
    /// Parses the headers of `frame`; `None` if it is just one frame, or in an unknown form.
    #[must_use]
    pub fn parse(frame: &[u8], offload: Offload) -> Option<Self> {
        let tcp = match offload.segmentation() {
            Segmentation::Tcp => true,
            Segmentation::Udp => false,
            Segmentation::None | Segmentation::Other => return None,
        };
        let ip = match *frame.get(12..14)? {
            [0x81, 0x00] => ETHERNET + 4,
            _ => ETHERNET,
        };
        let version = frame.get(ip)? >> 4;
        let transport = offload.checksum_start()?;
        let header = if tcp { usize::from(frame.get(transport + 12)? >> 4) * 4 } else { UDP_HEADER };
        let headers = transport + header;
        let payload = frame.len().checked_sub(headers)?;
        let segment = offload.segment_size();
        let known = matches!(version, 4 | 6)
            && transport >= ip + if version == 6 { IPV6_HEADER } else { IPV4_HEADER }
            && header >= if tcp { TCP_HEADER } else { UDP_HEADER }
            && segment > 0;
        (known && payload > segment).then_some(Self { offload, ip, version, transport, tcp, headers, payload, segment })
    }

    /// Number of the packet's frames; 2 or more.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.payload.div_ceil(self.segment)
    }

    /// Length of the frame of this index in bytes, Ethernet header included.
    #[must_use]
    pub fn frame_length(&self, index: usize) -> usize {
        self.headers + self.segment.min(self.payload.saturating_sub(index * self.segment))
    }

    /// Makes a packet of some of the frames of `frame`, preceded by the header of its offloads.
    #[must_use]
    pub fn cut(&self, frame: &[u8], frames: Range<usize>) -> Vec<u8> {
        let mut packet = Vec::new();
        self.cut_into(&mut packet, frame, frames);
        packet
    }

    /// Like [`cut`](Self::cut), into existing memory, whose contents it replaces.
    pub fn cut_into(&self, packet: &mut Vec<u8>, frame: &[u8], frames: Range<usize>) {
        let (first, last) = (frames.start * self.segment, (frames.end * self.segment).min(self.payload));
        let one = last - first <= self.segment;
        let offload = if one { self.offload.unsegmented() } else { self.offload };
        packet.clear();
        packet.reserve(offload::LENGTH + self.headers + last - first);
        packet.extend_from_slice(&offload.bytes());
        packet.extend_from_slice(&frame[..self.headers]);
        packet.extend_from_slice(&frame[self.headers..][first..last]);
        let cut = &mut packet[offload::LENGTH..];
        self.mend_ip(cut, frames.start as u16);
        if self.tcp {
            self.mend_tcp(cut, first as u32, frames.start == 0, last == self.payload);
        } else {
            let length = (cut.len() - self.transport) as u16;
            cut[self.transport + 4..][..2].copy_from_slice(&length.to_be_bytes());
        }
        self.mend_checksum(cut);
    }

    /// Sets length, identification and checksum in the IP header of a packet that was cut out,
    /// before which `skipped` frames were.
    fn mend_ip(&self, frame: &mut [u8], skipped: u16) {
        let length = frame.len() - self.ip;
        let header = &mut frame[self.ip..self.transport];
        if self.version == 6 {
            header[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
            return;
        }
        let identification = u16::from_be_bytes([header[4], header[5]]).wrapping_add(skipped);
        header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        header[4..6].copy_from_slice(&identification.to_be_bytes());
        header[10..12].fill(0);
        let checksum = !folded(sum(header));
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Sets sequence number and flags in the TCP header of a packet that was cut out `skipped`
    /// bytes behind the first segment; `first` and `last` tell whether it has the first and the
    /// last frame.
    fn mend_tcp(&self, frame: &mut [u8], skipped: u32, first: bool, last: bool) {
        let tcp = &mut frame[self.transport..self.headers];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(skipped);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if !last {
            tcp[13] &= !(FIN | PSH);
        }
        if !first {
            tcp[13] &= !CWR;
        }
    }

    /// Sets the partial checksum of a packet that was cut out: the sum of the pseudo header (RFC
    /// 9293 section 3.1, RFC 8200 section 8.1), of which only the length differs; its destination
    /// is that of a routing header where there is one.
    fn mend_checksum(&self, frame: &mut [u8]) {
        let whole = folded((self.headers - self.transport + self.payload) as u32);
        let length = folded((frame.len() - self.transport) as u32);
        let place = self.transport + if self.tcp { 16 } else { 6 };
        let before = u16::from_be_bytes([frame[place], frame[place + 1]]);
        let total = u32::from(before) + u32::from(!whole) + u32::from(length);
        frame[place..place + 2].copy_from_slice(&folded(total).to_be_bytes());
    }
}

/// Sum of the 16-bit words of an IP header, for its checksum.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))).sum()
}

/// One's complement sum in 16 bits, carries added.
fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A TCP superpacket over IPv4 or IPv6 as Linux sends it, with 12 bytes of TCP options.
    fn tcp(version: u8, payload: &[u8], segment: u16) -> (Vec<u8>, Offload) {
        let ip_length = if version == 4 { 20 } else { 40 };
        let transport = ETHERNET + ip_length;
        let mut frame = vec![0; transport + 32];
        frame[12..14].copy_from_slice(if version == 4 { &[0x08, 0x00] } else { &[0x86, 0xdd] });
        frame[ETHERNET] = version << 4 | if version == 4 { 5 } else { 0 };
        if version == 4 {
            frame[ETHERNET + 4..][..2].copy_from_slice(&[0xff, 0xfe]);
            frame[ETHERNET + 12..][..8].copy_from_slice(&[10, 26, 33, 1, 10, 26, 33, 2]);
        } else {
            frame[ETHERNET + 8..][..32].copy_from_slice(&[7; 32]);
        }
        frame[transport + 4..][..4].copy_from_slice(&0xffff_ff00_u32.to_be_bytes());
        frame[transport + 12] = 8 << 4;
        frame[transport + 13] = CWR | PSH | FIN | 0x10;
        frame.extend_from_slice(payload);
        let pseudo = pseudo_header(&frame, transport);
        frame[transport + 16..][..2].copy_from_slice(&pseudo.to_be_bytes());
        let mut header = [0; offload::LENGTH];
        header[0] = 1;
        header[1] = if version == 4 { 1 } else { 4 };
        header[2..4].copy_from_slice(&((transport + 32) as u16).to_ne_bytes());
        header[4..6].copy_from_slice(&segment.to_ne_bytes());
        header[6..8].copy_from_slice(&(transport as u16).to_ne_bytes());
        header[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        (frame, Offload::parse(&header).unwrap())
    }

    /// The sum over it, as RFC 9293 and RFC 8200 lay it out.
    fn pseudo_header(frame: &[u8], transport: usize) -> u16 {
        let addresses =
            if frame[ETHERNET] >> 4 == 4 { ETHERNET + 12..ETHERNET + 20 } else { ETHERNET + 8..ETHERNET + 40 };
        let length = (frame.len() - transport) as u32;
        folded(sum(&frame[addresses]) + 6 + (length >> 16) + (length & 0xffff))
    }

    #[test]
    fn one_frame_is_no_superpacket() {
        let (frame, offload) = tcp(4, &[1; 1000], 1000);
        assert_eq!(Superpacket::parse(&frame, offload), None);
        assert_eq!(Superpacket::parse(&frame, offload.unsegmented()), None);
    }

    #[test]
    fn nothing_from_outside_makes_it_panic() {
        let (frame, offload) = tcp(6, &[1; 3000], 1000);
        for length in 0..frame.len() {
            let _ = Superpacket::parse(&frame[..length], offload);
        }
    }

    proptest! {
        #[test]
        fn pieces_make_up_the_whole(version in prop_oneof![Just(4_u8), Just(6)], length in 1001_usize..60_000, first in 0_usize..60, count in 1_usize..60) {
            let payload: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let (frame, offload) = tcp(version, &payload, 1000);
            let superpacket = Superpacket::parse(&frame, offload).unwrap();
            let frames = superpacket.frames();
            prop_assert_eq!(frames, length.div_ceil(1000));
            let total: usize = (0..frames).map(|index| superpacket.frame_length(index)).sum();
            prop_assert_eq!(total, length + frames * superpacket.headers);
            let first = first.min(frames - 1);
            let range = first..(first + count).min(frames);
            let cut = superpacket.cut(&frame, range.clone());
            let inner = Offload::parse(&cut).unwrap();
            let piece = &cut[offload::LENGTH..];
            let (start, end) = (range.start * 1000, (range.end * 1000).min(length));
            prop_assert_eq!(&piece[superpacket.headers..], &payload[start..end]);
            let again = Superpacket::parse(piece, inner);
            prop_assert_eq!(again.map_or(1, |again| again.frames()), range.len());
            let sequence = &piece[superpacket.transport + 4..][..4];
            prop_assert_eq!(u32::from_be_bytes(sequence.try_into().unwrap()), 0xffff_ff00_u32.wrapping_add(start as u32));
            let flags = piece[superpacket.transport + 13];
            prop_assert_eq!(flags & (FIN | PSH) != 0, range.end == frames);
            prop_assert_eq!(flags & CWR != 0, range.start == 0);
            let field = &piece[superpacket.transport + 16..][..2];
            let (field, expected) = (u16::from_be_bytes([field[0], field[1]]), pseudo_header(piece, superpacket.transport));
            // Zero has two forms in one's complement.
            prop_assert_eq!(field % 0xffff, expected % 0xffff);
            if version == 4 {
                let header = &piece[ETHERNET..ETHERNET + 20];
                prop_assert_eq!(folded(sum(header)), 0xffff, "the header's checksum is right");
                prop_assert_eq!(usize::from(u16::from_be_bytes([header[2], header[3]])), piece.len() - ETHERNET);
            } else {
                prop_assert_eq!(usize::from(u16::from_be_bytes([piece[18], piece[19]])), piece.len() - ETHERNET - 40);
            }
        }
    }
}
