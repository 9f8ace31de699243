//! Frames in memory, as an [`Outlet`](icdc_packet::Outlet) sends them: behind a virtio-net header,
//! which says what is left to the device (checksum, segmentation).

use std::io::IoSliceMut;

use icdc_packet::{Offload, Superpacket, Tap};
use icdc_scheduler::gap_frames;
use icdc_units::ByteCount;

/// Length of the virtio-net header in bytes; all zeros mean that nothing is left to the device.
const HEADER: usize = Offload::LENGTH;
/// Bytes on the wire beyond a frame: preamble 8, check sequence 4, gap between frames 12 (IEEE
/// 802.3).
pub(super) const WIRE_OVERHEAD: usize = 24;
/// Length of the Ethernet header in bytes.
pub(super) const ETHERNET: usize = 14;
/// Length in bytes of a VLAN tag that a frame may have.
const VLAN: usize = 4;

/// A frame that the host sends, in memory behind its virtio-net header.
pub(super) struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// The frame from its Ethernet header on.
    pub(super) fn ethernet(&self) -> &[u8] {
        &self.bytes[HEADER..]
    }

    pub(super) fn ethernet_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADER..]
    }

    /// Length of the frame on the wire, where short ones are padded.
    pub(super) fn wire_length(&self) -> ByteCount {
        let length = (self.bytes.len() - HEADER).max(60) + WIRE_OVERHEAD;
        ByteCount::from(length)
    }
}

/// Buffers for frames: a full frame stays where it was read to, and its memory is reused after it
/// was sent. A packet that combines many frames is cut into them.
pub(super) struct FrameBuffers {
    /// The next packet is read into this, as far as it fits.
    next: Vec<u8>,
    length: usize,
    /// The part of the packet that does not fit in `next`, behind as many bytes of space.
    long: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

/// Maximum number of buffers that are kept for reuse.
const SPARE: usize = 1024;
/// Divisor of a buffer's length: a frame that is shorter than the quotient is copied out of the
/// buffer, which is used again.
const WASTEFUL: usize = 2;

impl FrameBuffers {
    /// Buffers for the frames of a device of this MTU in bytes.
    pub(super) fn new(mtu: usize) -> Self {
        let length = HEADER + ETHERNET + VLAN + mtu;
        Self { next: vec![0; length], length, long: vec![0; Tap::MOST.max(length)], spare: Vec::new() }
    }

    /// The two buffers, to be filled one after the other, into which the next packet is read.
    pub(super) fn free(&mut self) -> [IoSliceMut<'_>; 2] {
        [IoSliceMut::new(&mut self.next), IoSliceMut::new(&mut self.long[self.length..])]
    }

    /// Appends the frames of the packet of `length` bytes that was read into [`free`](Self::free)
    /// to `frames`, in order; none if it is nothing that can be sent.
    pub(super) fn take(&mut self, length: usize, frames: &mut Vec<Frame>) {
        let Some(offload) = Offload::parse(&self.next[..length.min(self.length)]) else { return };
        // A packet that combines several may be as short.
        if length <= self.length && Superpacket::parse(&self.next[HEADER..length], offload).is_none() {
            frames.push(self.take_one(offload, length));
            return;
        }
        let first = length.min(self.length);
        self.long[..first].copy_from_slice(&self.next[..first]);
        let frame = &self.long[HEADER..length];
        let Some(packet) = Superpacket::parse(frame, offload) else { return };
        frames.extend((0..packet.frames()).map(|index| {
            let is_small = packet.frame_length(index) * WASTEFUL < self.length;
            let mut bytes =
                if is_small { Vec::new() } else { self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.length)) };
            packet.cut_into(&mut bytes, frame, index..index + 1);
            Frame { bytes }
        }));
    }

    /// Makes the packet of `length` bytes that was just read, a single frame, a [`Frame`].
    fn take_one(&mut self, offload: Offload, length: usize) -> Frame {
        self.next[..HEADER].copy_from_slice(&offload.unsegmented().bytes());
        if length * WASTEFUL < self.length {
            return Frame { bytes: self.next[..length].to_vec() };
        }
        let next = self.spare.pop().unwrap_or_else(|| vec![0; self.length]);
        let mut bytes = std::mem::replace(&mut self.next, next);
        bytes.truncate(length);
        Frame { bytes }
    }

    /// Takes back the memory of a frame that was sent.
    pub(super) fn give_back(&mut self, outgoing: Outgoing) {
        if let Outgoing::Frame(Frame { mut bytes }) = outgoing
            && self.spare.len() < SPARE
            && bytes.capacity() >= self.length
        {
            bytes.resize(self.length, 0);
            self.spare.push(bytes);
        }
    }
}

/// A frame that is to be handed to the device next: the host's, or a gap frame.
pub(super) enum Outgoing {
    /// The host sends this frame.
    Frame(Frame),
    /// A gap frame of this number of bytes, Ethernet header included.
    Gap(usize),
}

/// Maker of gap frames (PAUSE frames, which the next port drops) for one device, none longer than
/// its own frames.
pub(super) struct Gaps {
    longest: Vec<u8>,
}

impl Gaps {
    /// Gap frames for a device with this hardware address and MTU in bytes.
    pub(super) fn new(hardware: [u8; 6], mtu: usize) -> Self {
        let mut longest = vec![0; HEADER + ETHERNET + mtu];
        let header = &mut longest[HEADER..];
        // The address that no bridge passes on (IEEE 802.1D, table 7-10), and a PAUSE frame: opcode
        // 1, for no time.
        header[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x01]);
        header[6..12].copy_from_slice(&hardware);
        header[12..16].copy_from_slice(&[0x88, 0x08, 0, 1]);
        Self { longest }
    }

    /// Gap frames that fill a gap of this number of bytes on the wire, and the bytes that they
    /// really take there.
    pub(super) fn fill(&self, gap: ByteCount) -> (impl Iterator<Item = Outgoing>, ByteCount) {
        let longest = ByteCount::from(self.longest.len() - HEADER + WIRE_OVERHEAD);
        let frames = move || gap_frames(gap, longest);
        (frames().map(|length| Outgoing::Gap(length.as_usize() - WIRE_OVERHEAD)), frames().sum())
    }

    /// Bytes of an outgoing frame as the device takes them, behind their virtio-net header.
    pub(super) fn bytes<'a>(&'a self, outgoing: &'a Outgoing) -> &'a [u8] {
        match outgoing {
            Outgoing::Frame(frame) => &frame.bytes,
            Outgoing::Gap(length) => &self.longest[..HEADER + length],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(buffers: &mut FrameBuffers, packet: &[u8]) -> Vec<Frame> {
        let [first, rest] = &mut buffers.free();
        let (here, there) = packet.split_at(packet.len().min(first.len()));
        first[..here.len()].copy_from_slice(here);
        rest[..there.len()].copy_from_slice(there);
        let mut frames = Vec::new();
        buffers.take(packet.len(), &mut frames);
        frames
    }

    fn one(buffers: &mut FrameBuffers, length: usize, byte: u8) -> Frame {
        let mut packet = vec![0; HEADER];
        packet.resize(HEADER + length, byte);
        read(buffers, &packet).pop().unwrap()
    }

    #[test]
    fn frames_are_what_was_read_whether_they_are_copied_or_stay() {
        let mut buffers = FrameBuffers::new(1500);
        for round in 0..3 {
            let full = one(&mut buffers, 1514, 1 + round);
            let small = one(&mut buffers, 60, 101 + round);
            assert_eq!((full.ethernet(), small.ethernet()), (&[1 + round; 1514][..], &[101 + round; 60][..]));
            assert_eq!((full.wire_length(), small.wire_length()), (ByteCount::new(1538), ByteCount::new(84)));
            assert!(small.bytes.capacity() < 100, "what is small keeps no memory of a full frame");
            buffers.give_back(Outgoing::Frame(full));
            buffers.give_back(Outgoing::Frame(small));
            buffers.give_back(Outgoing::Gap(60));
            assert_eq!((buffers.spare.len(), buffers.next.len()), (1, 1528));
        }
    }

    #[test]
    fn a_packet_that_stands_for_many_is_cut() {
        let mut buffers = FrameBuffers::new(1500);
        for (payload, segment, lengths) in [
            (4000, 1472, vec![1514, 1514, 42 + 1056]),
            // Together they are shorter than one of the device's frames.
            (1000, 400, vec![442, 442, 242]),
            // One alone.
            (400, 400, vec![442]),
        ] {
            let mut packet = vec![0; HEADER + 42];
            // VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_UDP_L4
            packet[..2].copy_from_slice(&[1, 5]);
            packet[4..6].copy_from_slice(&u16::to_ne_bytes(segment));
            packet[6..8].copy_from_slice(&34_u16.to_ne_bytes());
            packet[8..10].copy_from_slice(&6_u16.to_ne_bytes());
            packet[HEADER + 12..][..3].copy_from_slice(&[8, 0, 0x45]);
            packet.extend((0..payload).map(|byte: u32| byte as u8));
            let frames = read(&mut buffers, &packet);
            assert_eq!(frames.iter().map(|frame| frame.ethernet().len()).collect::<Vec<_>>(), lengths);
            let joined = frames.iter().flat_map(|frame| &frame.ethernet()[42..]);
            assert!(joined.eq(&packet[HEADER + 42..]));
            assert!(frames.iter().all(|frame| frame.bytes[1] == 0), "nothing is left to be cut");
            frames.into_iter().for_each(|frame| buffers.give_back(Outgoing::Frame(frame)));
        }
    }
}
