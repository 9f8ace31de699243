//! Frames in memory, as an [`Outlet`](icdc_packet::Outlet) sends them: behind a header that says that nothing is left to be done.

use icdc_control::byte_clock::gap_frames;
use icdc_units::ByteCount;

/// Length of that header, which is all zeros (`struct virtio_net_hdr`).
pub(super) const NOTHING_LEFT: usize = 10;
/// What the wire takes beyond a frame: preamble 8, check sequence 4, gap between frames 12 (IEEE 802.3).
pub(super) const WIRE_OVERHEAD: usize = 24;
/// Ethernet header, and a VLAN tag that may be in it.
pub(super) const ETHERNET: usize = 14;
const VLAN: usize = 4;

/// A frame of the host.
pub(super) struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    pub(super) fn ethernet(&self) -> &[u8] {
        &self.bytes[NOTHING_LEFT..]
    }

    pub(super) fn ethernet_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[NOTHING_LEFT..]
    }

    /// Its length on the wire. Short frames are padded there.
    pub(super) fn wire_length(&self) -> ByteCount {
        let length = (self.bytes.len() - NOTHING_LEFT).max(60) + WIRE_OVERHEAD;
        ByteCount::from(length)
    }
}

/// Memory for frames: a full frame stays where it was read to, and its memory comes back when it has left.
pub(super) struct Room {
    /// Behind the header that says that nothing is left, the next frame is read.
    next: Vec<u8>,
    length: usize,
    spare: Vec<Vec<u8>>,
}

/// What is kept for frames to come.
const SPARE: usize = 1024;
/// A frame that fills less than this part of what it was read to is copied out.
const WASTEFUL: usize = 2;

impl Room {
    /// For frames of a device of this MTU.
    pub(super) fn new(mtu: usize) -> Self {
        let length = NOTHING_LEFT + ETHERNET + VLAN + mtu;
        Self { next: vec![0; length], length, spare: Vec::new() }
    }

    /// Where the next frame is to be read to.
    pub(super) fn free(&mut self) -> &mut [u8] {
        &mut self.next[NOTHING_LEFT..]
    }

    /// The frame of `length` bytes that was read there.
    pub(super) fn take(&mut self, length: usize) -> Frame {
        let used = NOTHING_LEFT + length;
        if used * WASTEFUL < self.length {
            return Frame { bytes: self.next[..used].to_vec() };
        }
        let next = self.spare.pop().unwrap_or_else(|| vec![0; self.length]);
        let mut bytes = std::mem::replace(&mut self.next, next);
        bytes.truncate(used);
        Frame { bytes }
    }

    /// What has left is not needed any more.
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

/// What is handed to the device, in order.
pub(super) enum Outgoing {
    /// A frame of the host.
    Frame(Frame),
    /// A gap frame of so many bytes, Ethernet header included.
    Gap(usize),
}

/// Gap frames of one device, none longer than its own frames.
pub(super) struct Gaps {
    longest: Vec<u8>,
}

impl Gaps {
    /// Of a device with this hardware address.
    pub(super) fn new(hardware: [u8; 6], mtu: usize) -> Self {
        let mut longest = vec![0; NOTHING_LEFT + ETHERNET + mtu];
        let header = &mut longest[NOTHING_LEFT..];
        // The address that no bridge passes on (IEEE 802.1D, table 7-10), and a PAUSE frame: opcode 1, for no time.
        header[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x01]);
        header[6..12].copy_from_slice(&hardware);
        header[12..16].copy_from_slice(&[0x88, 0x08, 0, 1]);
        Self { longest }
    }

    /// The frames that fill a gap, and what they take on the wire.
    pub(super) fn fill(&self, gap: ByteCount) -> (impl Iterator<Item = Outgoing>, ByteCount) {
        let longest = ByteCount::from(self.longest.len() - NOTHING_LEFT + WIRE_OVERHEAD);
        let frames = move || gap_frames(gap, longest);
        (frames().map(|length| Outgoing::Gap(length.as_usize() - WIRE_OVERHEAD)), frames().sum())
    }

    /// What the device is given.
    pub(super) fn bytes<'a>(&'a self, outgoing: &'a Outgoing) -> &'a [u8] {
        match outgoing {
            Outgoing::Frame(frame) => &frame.bytes,
            Outgoing::Gap(length) => &self.longest[..NOTHING_LEFT + length],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(room: &mut Room, length: usize, byte: u8) -> Frame {
        room.free()[..length].fill(byte);
        room.take(length)
    }

    #[test]
    fn frames_are_what_was_read_whether_they_are_copied_or_stay() {
        let mut room = Room::new(1500);
        for round in 0..3 {
            let full = read(&mut room, 1514, 1 + round);
            let small = read(&mut room, 60, 101 + round);
            assert_eq!((full.ethernet(), small.ethernet()), (&[1 + round; 1514][..], &[101 + round; 60][..]));
            assert_eq!((full.wire_length(), small.wire_length()), (ByteCount::new(1538), ByteCount::new(84)));
            assert!(small.bytes.capacity() < 100, "what is small keeps no memory of a full frame");
            room.give_back(Outgoing::Frame(full));
            room.give_back(Outgoing::Frame(small));
            room.give_back(Outgoing::Gap(60));
            assert_eq!((room.spare.len(), room.free().len()), (1, 1518));
        }
    }
}
