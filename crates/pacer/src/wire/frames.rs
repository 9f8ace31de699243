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
    /// Room for one, to be read into.
    pub(super) fn room(mtu: usize) -> Vec<u8> {
        vec![0; NOTHING_LEFT + ETHERNET + VLAN + mtu]
    }

    /// The frame of `length` bytes that was read into `room` behind the header.
    pub(super) fn new(room: &[u8], length: usize) -> Self {
        Self { bytes: room[..NOTHING_LEFT + length].to_vec() }
    }

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
